"""Programs of other people through the loss of rank 0: tests/programs/kills.py, where their
checkouts lie under ORRERY_PROGRAMS."""

import subprocess
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests/programs"))
import inputs
import kills
import table


@pytest.mark.skipif(
    not table.TORCH.exists(), reason=f"no PyTorch at {table.TORCH}: ./dev torch installs it"
)
@pytest.mark.parametrize("program", kills.PROGRAMS, ids=lambda each: each.checkout)
def test_a_program_loses_its_first_rank_and_no_step(program, tmp_path):
    if kills.why_not(program):
        pytest.skip(kills.why_not(program))
    subprocess.run([table.TORCH, inputs.__file__, tmp_path, table.CHECKOUTS], check=True)
    whole, killed = (kills.run_once(program, tmp_path, each) for each in (False, True))
    assert kills.problems_of(program, whole, killed) == []
    assert killed.report["losses"][0]["lost_s"] is not None
    assert all(loss > 0 for loss in [*whole.losses.values(), *killed.losses.values()])


def outcome(code, bits, killed_at=0, missing=()):
    """Returns a run of 20 steps with these hashes: {rank: hash}."""
    report = {
        "ranks_missing": list(missing), "step_time_s": 0.25,
        "losses": [{"rank": rank, "lost_s": 0.5} for rank in missing],
    }  # fmt: skip
    losses = {(step, rank): 10.0 / step for step in (10, 20) for rank in bits}
    return kills.Outcome(report, {r: (20, b) for r, b in bits.items()}, code, losses, killed_at)


def test_rows_have_the_figures_and_what_is_wrong():
    program = kills.PROGRAMS[0]._replace(steps=20)
    whole = outcome(0, dict.fromkeys(range(4), "a"))
    killed = outcome(6, dict.fromkeys((1, 2, 3), "b"), 10, [0])
    assert kills.problems_of(program, whole, killed) == []
    row = kills.row_of(program, whole, killed)
    assert "| 20 | 10 | 1.0000 / 0.5000 / 0.5000 | 6 | 0.50 s of 0.25 s |" in row
    assert row.endswith("| equal, bit for bit |")
    apart = outcome(6, {1: "b", 2: "b", 3: "c"}, 10, [0])
    assert kills.problems_of(program, whole, apart) == ["the survivors' parameters differ"]
    (short,) = kills.problems_of(program._replace(steps=21), whole, killed)
    assert short == "expected 21 steps of every rank, found [20]"
    ended = kills.problems_of(program, outcome(1, {}), killed)
    assert ended[0] == "the undisturbed run ended with exit code 1"


def test_losses_are_those_of_the_watched_lines():
    lines = ["at step 10 of rank 3, loss 2.5", "at step 10 of rank 0"]
    text = "\n".join([*lines, "at step 20 of rank 1, loss 0.1"])
    assert kills.losses_in(text) == {(10, 3): 2.5, (20, 1): 0.1}
