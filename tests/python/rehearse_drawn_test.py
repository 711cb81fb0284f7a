"""Programs drawn by number: recorded collectives equal those of four real ranks with Gloo.

ORRERY_DRAWN sets how many (10), ORRERY_SEED the first number (0).
"""

import json
import os
import subprocess

import pytest
from rehearse_test import PROGRAMS, TORCH, environment, rehearse

pytestmark = pytest.mark.skipif(not TORCH.exists(), reason="no PyTorch: ./dev torch installs it")
COUNT = int(os.environ.get("ORRERY_DRAWN", "10"))
FIRST = int(os.environ.get("ORRERY_SEED", "0"))
RANKS = range(4)


def read(folder):
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in RANKS]


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Collectives by rank and program of the real ranks, and of the rehearsed ones."""
    real, rehearsed = tmp_path_factory.mktemp("real"), tmp_path_factory.mktemp("rehearsed")
    words = (PROGRAMS / "drawn.py", str(FIRST), str(COUNT))
    subprocess.run(
        [TORCH.parent / "torchrun", "--standalone", "--nproc-per-node=4", *words, real],
        check=True, env=environment(), timeout=60 + 20 * COUNT, capture_output=True,
    )  # fmt: skip
    result = rehearse(
        "python", *words, rehearsed, options=("--roles", "0,1,2,3"), limit=240 + 20 * COUNT
    )
    assert result.returncode == 0, result.stderr
    return read(real), read(rehearsed)


def test_collectives_of_every_rank_equal_those_of_real_ranks(seen):
    for rank, (real, rehearsed) in enumerate(zip(*seen)):
        assert len(real) == len(rehearsed) == COUNT
        for number, (kind, rows, _) in real.items():
            assert rows, (number, kind)
            assert rehearsed[number][1] == rows, (number, kind, rank)


def test_programs_cover_all_shardings(seen):
    if COUNT < 10:
        pytest.skip("too few programs")
    kinds = {kind for kind, *_ in seen[0][0].values()}
    assert len(kinds) >= 4 and {"ddp", "fsdp"} <= kinds
    # Groups within the job, not only the whole job.
    sizes = {len(row[2]) for _, rows, _ in seen[0][0].values() for row in rows}
    assert sizes >= {2, 4}


def test_memory_of_copied_models_equals_a_count_of_real_tensors(seen):
    """The real ranks count the blocks of their living tensors; the others divide their models."""
    compared = 0
    for real, rehearsed in zip(*seen):
        for number, (kind, _, peak) in real.items():
            if kind == "ddp":
                compared += 1
                assert rehearsed[number][2] == pytest.approx(peak, rel=0.1), number
    assert compared >= 4 or COUNT < 10
