#!/usr/bin/env bash
# tests/live/gpu_programs.sh: DDP over NCCL under orrery run, on a machine with a GPU and a PyTorch
# for it. Prints, for docs/run.md: step times and parameters without and with orrery run, and the
# losses of killed ranks. A few minutes. First: ./dev build.
# Settings: BUILD=folder of the build, PYTHON=interpreter with PyTorch; BACKEND=gloo tries the
# script on CPUs.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit

readonly orrery=${BUILD:-build}/bin/orrery python=${PYTHON:-python3}
readonly program=tests/python/run_programs/gpu_ddp.py

plain() { # plain RANKS: as torchrun starts them
  "$python" -m torch.distributed.run --standalone --nproc-per-node "$1" "$program" 2>&1 | shown
}

with_orrery() { # with_orrery RANKS
  "$orrery" run -n "$1" -- "$python" "$program" 2>&1 | shown
}

shown() {
  grep -E '^rank |^orrery run: (not attached|ended|rank)|^lost |^steps '
}

echo "== 4 ranks, plain"; plain 4
echo "== 4 ranks"; with_orrery 4
echo "== rank 0 of 4 killed"; KILL=0:20 with_orrery 4
echo "== two of 4 killed"; KILL=1:10,2:15 with_orrery 4
export WIDTH=${WIDTH:-4096} LAYERS=${LAYERS:-8} BATCH=${BATCH:-4096}
for ranks in 2 2 2 1 1; do
  echo "== ranks: $ranks, $LAYERS layers of width $WIDTH, plain"; plain "$ranks"
  echo "== the same"; with_orrery "$ranks"
done
