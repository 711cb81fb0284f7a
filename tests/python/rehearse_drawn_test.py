"""Programs drawn by number: recorded collectives equal those of four real ranks with Gloo.

ORRERY_DRAWN sets how many (10), ORRERY_SEED the first number (0).
"""

import json
import os
import statistics
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


def test_memory_of_the_step_is_near_a_count_of_real_tensors(seen):
    """The real ranks count the blocks of their living tensors (docs/rehearse.md has the spread)."""
    ratios = {}
    for real, rehearsed in zip(*seen):
        for number, (kind, _, peak) in real.items():
            ratios.setdefault(kind, []).append(rehearsed[number][2] / peak)
    assert all(0.9 <= each <= 1.1 for each in ratios.get("ddp", []))
    assert all(0.65 <= each <= 1.1 for found in ratios.values() for each in found)
    for kind in ("ddp", "tensor"):
        if len(ratios.get(kind, [])) >= 3 * len(RANKS):
            assert statistics.median(ratios[kind]) == pytest.approx(1, rel=0.01), kind
    assert len(ratios) >= 4 or COUNT < 10
