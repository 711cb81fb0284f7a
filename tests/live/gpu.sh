#!/usr/bin/env bash
# tests/live/gpu.sh [--dry-run]: everything that needs a GPU, in one call of under ten minutes and
# without network. First, in a call of its own, the build, on a machine with CUDA 13 and nccl.h:
#   ./dev build, or no more than this needs:
#   cmake --preset release && cmake --build --preset release --target gpu_check
# Runs the sections of gpu_check (tests/live/gpu_check.cpp), each a process with a time limit, all
# together within one budget. docs/gpu.md is written before the first and after each of them, with
# date, device, verdicts and output, so that the page is true whenever the script ends.
# Exit code 0: all passed; 1: one failed; 4: none failed, but one was skipped or not run (the page
# says why), or nothing can run here and the page is left alone (the reason is on standard error).
# --dry-run prints the sections, one a line: name, title.
# Settings: BUILD=folder of the build, PAGE=file, BUDGET_S=seconds for all, PATIENCE_S=for a
# section.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit

readonly build=${BUILD:-build}
readonly check=$build/bin/gpu_check
readonly page=${PAGE:-docs/gpu.md}
readonly budget=${BUDGET_S:-540} patience=${PATIENCE_S:-70}
readonly usage=2 environment=4

sections() {
  cat <<'TEXT'
codecs Codecs, byte for byte as on the CPU
codec-speed Codecs against the bandwidth of a copy
transformer Transformer: loss and gradient against the CPU
damage Damage in the memory of the GPU is found
prediction Steps predicted that were not calibrated on
nccl-one NCCL with one rank
nccl-ranks NCCL with 2 to 4 ranks
nccl-join NCCL: kill -9 of a rank, abort and join anew
overhead Fabric against NCCL called directly, 64 MiB
TEXT
}

cannot() {
  echo "error: $*" >&2
  exit $environment
}

# ---- one section ---------------------------------------------------------------------------------

names=() titles=() verdicts=() parts=() # indexed by section

# A section's exit code gives its verdict. A section's own limit is a failure, because something
# hangs; the end of the budget says nothing about the section.
verdict() { # verdict CODE: 124 if its limit was reached, "budget" if that was the budget's end
  case $1 in
    0) echo passed ;;
    "$environment") echo skipped ;;
    budget) echo "not run: time" ;;
    *) echo failed ;;
  esac
}

run_section() { # run_section INDEX OUTPUT
  local begin=$SECONDS limit=$((budget - SECONDS)) code took
  ((limit <= patience)) || limit=$patience
  verdicts[$1]="not run: time"
  parts[$1]="There was no time left."
  ((limit > 0)) || return 0
  # Output goes to a file: a process that outlives its section and holds a pipe would delay the end.
  timeout --kill-after=5 "$limit" "$check" "${names[$1]}" >"$2" 2>&1 </dev/null
  code=$? took=$((SECONDS - begin))
  if ((code == 124 || (code == 137 && took >= limit))); then
    echo "(stopped after $limit s)" >>"$2"
    ((limit == patience)) || code=budget
  fi
  verdicts[$1]=$(verdict $code)
  parts[$1]=$(printf 'After %d s (`gpu_check %s`):\n\n```\n%s\n```' \
    $took "${names[$1]}" "$(<"$2")")
}

# ---- all of them ---------------------------------------------------------------------------------

write_page() { # write_page DEVICE
  local i
  {
    printf '# On a GPU\n\nFor everybody who has a machine with an NVIDIA GPU. First command: '
    printf '`tests/live/gpu.sh`, after\n`./dev build`. To add a GPU to the catalogue: '
    printf '[EXTENDING.md](EXTENDING.md#a-gpu).\n\n'
    printf 'Measured by `tests/live/gpu.sh` on %s: %s\n\n' "$(date -u +%F)" "$1"
    printf '| section | verdict |\n|---|---|\n'
    for i in "${!names[@]}"; do printf '| %s | %s |\n' "${titles[i]}" "${verdicts[i]}"; done
    for i in "${!names[@]}"; do
      printf '\n## %s\n\n**%s** %s\n' "${titles[i]}" "${verdicts[i]}" "${parts[i]}"
    done
  } >"$page.new" && mv "$page.new" "$page"
}

count() { # count VERDICT: how many sections have one that begins so
  printf '%s\n' "${verdicts[@]}" | grep -c "^$1"
}

main() {
  local name title device i output
  if [[ ${1:-} == --dry-run ]]; then
    sections
    exit 0
  fi
  [[ $# == 0 ]] || { echo "usage: tests/live/gpu.sh [--dry-run]" >&2 && exit $usage; }
  [[ -x $check ]] || cannot "no $check: run ./dev build on a machine with CUDA 13 and nccl.h"
  device=$(timeout --kill-after=5 "$patience" "$check" device) ||
    cannot "${device:-$check does not answer}"
  export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}
  while read -r name title; do
    names+=("$name") titles+=("$title") verdicts+=("not run: interrupted") parts+=("")
  done < <(sections)
  write_page "$device"
  output=$(mktemp)
  # shellcheck disable=SC2064  # the name as it is now
  trap "rm -f '$output'" EXIT
  for i in "${!names[@]}"; do
    echo "== ${titles[i]}"
    run_section "$i" "$output"
    printf '**%s** %s\n\n' "${verdicts[i]}" "${parts[i]}"
    write_page "$device"
  done
  echo "== $page: $(count passed) passed, $(count failed) failed, $(count skipped) skipped," \
    "$(count 'not run') not run"
  ((!$(count failed))) || exit 1
  (($(count passed) == ${#names[@]})) || exit $environment
}

main "$@"
