"""Live runs: a short one, and what is refused before any process starts."""

import json

from conftest import STRAGGLER, orrery


def test_a_short_run_really_trains(tmp_path):
    log = tmp_path / "log"
    result = orrery(
        "live", STRAGGLER, "--json", "--set", "run.steps=4", "--set", "job.pace.micro_batch=20 ms",
        "--record", log,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["mode"], report["ranks"], report["steps_completed"]) == ("live", 4, 4)
    assert report["micro_batches_lost"] == report["micro_batches_repeated"] == 0
    assert len(report["parameters_sha256"]) == 64
    assert 0 < report["final_loss"] < 10
    assert orrery("replay", log).returncode == 0


def test_a_text_that_is_not_there(tmp_path):
    result = orrery("live", STRAGGLER, "--text", tmp_path / "none.txt")
    assert result.returncode in (3, 4)
    assert "none.txt" in result.stderr


def test_a_text_holds_beside_set(tmp_path):
    result = orrery("live", STRAGGLER, "--text", tmp_path / "none.txt", "--set", "run.steps=1")
    assert result.returncode == 3
    assert "none.txt" in result.stderr


def test_ranks_of_a_rigid_scenario_are_bad_input():
    result = orrery("live", STRAGGLER, "--ranks", "3")
    assert result.returncode == 3
    assert "elastic" in result.stderr
