"""Programs drawn by number: recorded collectives and memory equal those of four real Gloo ranks.

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
        for number, (kind, rows, *_) in real.items():
            assert rows, (number, kind)
            assert rehearsed[number][1] == rows, (number, kind, rank)


def test_programs_cover_all_shardings(seen):
    if COUNT < 10:
        pytest.skip("too few programs")
    kinds = {kind for kind, *_ in seen[0][0].values()}
    assert len(kinds) >= 4 and {"ddp", "fsdp"} <= kinds
    # Groups within the job, not only the whole job.
    sizes = {len(row[2]) for _, rows, *_ in seen[0][0].values() for row in rows}
    assert sizes >= {2, 4}


def test_memory_of_the_step_equals_a_count_of_real_tensors(seen):
    """Blocks of the living tensors at the peak of the step, and at its begin.

    All ranks are alike. Gloo's threads let go of a collective's tensors a moment after its end, so
    that a real rank may count too much, and the smallest count holds.
    """
    real, rehearsed = seen
    for number, (kind, *_) in real[0].items():
        counts = [min(rank[number][place] for rank in real) for place in (2, 3)]
        for rank in rehearsed:
            assert rank[number][2:4] == counts, (number, kind)


def test_begin_of_the_step_equals_a_count_by_hand(seen):
    """Between steps a rank holds parameters, state of the optimizer, and DDP's buckets."""
    for rank in (*seen[0][:1], *seen[1]):
        for number, (kind, _, _, begin, by_hand, *_) in rank.items():
            assert begin == by_hand, (number, kind)


def test_peak_of_the_update_equals_a_count_by_hand(seen):
    """State and gradients, with the norms of clipping or the denominators of the optimizer."""
    real, rehearsed = seen
    for number, (kind, *_, by_hand) in real[0].items():
        assert min(rank[number][5] for rank in real) == by_hand, (number, kind)
        for rank in rehearsed:
            assert rank[number][5] == rank[number][6] == by_hand, (number, kind)
