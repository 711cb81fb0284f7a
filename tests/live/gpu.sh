#!/usr/bin/env bash
# tests/live/gpu.sh [--dry-run]: everything that needs a GPU, in under ten minutes, without network.
# Runs the sections of gpu_check (tests/live/gpu_check.cpp), each a process with a time limit, and
# writes docs/gpu.md with date, device, verdicts and what was printed. Needs a build of this machine
# (./dev build, or BUILD=folder). Exit code 0: all passed; 1: one failed; 4: cannot run, with the
# reason. --dry-run prints the sections, one a line: name, title.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly build=${BUILD:-build}
readonly check=$build/bin/gpu_check
readonly page=docs/gpu.md
readonly patience=70 # seconds a section; all together stay below ten minutes
readonly environment=4

sections() {
  cat <<'TEXT'
codecs Codecs, byte for byte as on the CPU
codec-speed Codecs against the bandwidth of a copy
transformer Transformer: loss and gradient against the CPU
prediction Steps predicted that were not calibrated on
nccl-one NCCL with one rank
nccl-ranks NCCL with 2 to 4 ranks
nccl-shrink NCCL: kill -9 of a rank, abort and shrink
nccl-join NCCL: kill -9 of a rank, abort and join anew
overhead Fabric against NCCL called directly, 64 MiB
TEXT
}

cannot() {
  echo "error: $*" >&2
  exit $environment
}

# What a section's exit code means. A limit that is reached is a failure: something hangs.
verdict() { # verdict CODE
  case $1 in
    0) echo passed ;;
    "$environment") echo skipped ;;
    *) echo failed ;;
  esac
}

run_section() { # run_section NAME TITLE: prints its part of the page; its verdict is the exit code
  local output code begin=$SECONDS
  output=$(timeout --kill-after=5 $patience "$check" "$1" 2>&1)
  code=$?
  ((code != 124 && code != 137)) || output+=$'\n'"(stopped after $patience s)"
  printf '## %s\n\n**%s** after %d s (`gpu_check %s`)\n\n```\n%s\n```\n\n' \
    "$2" "$(verdict $code)" $((SECONDS - begin)) "$1" "$output"
  return $code
}

main() {
  local name title part code device failed=0 body='' summary=''
  if [[ ${1:-} == --dry-run ]]; then
    sections
    exit 0
  fi
  [[ $# == 0 ]] || { echo "usage: tests/live/gpu.sh [--dry-run]" >&2 && exit 2; }
  [[ -x $check ]] || cannot "no $check: run ./dev build on a machine with CUDA 13 and nccl.h"
  device=$("$check" device) || cannot "$device"
  export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}
  while read -r name title; do
    echo "== $title"
    part=$(run_section "$name" "$title")
    code=$?
    echo "$part"
    body+="$part"$'\n\n'
    summary+="| $title | $(verdict $code) |"$'\n'
    [[ $(verdict $code) != failed ]] || failed=1
  done < <(sections)
  {
    printf '# On a GPU\n\nMeasured by `tests/live/gpu.sh` on %s: %s\n\n' "$(date -u +%F)" "$device"
    printf '| section | verdict |\n|---|---|\n%s\n%s' "$summary" "$body"
  } >"$page"
  echo "== $page written"
  exit $failed
}

main "$@"
