"""Live runs: a short one, and what is refused before any process starts."""

import json

from conftest import EXAMPLES, STRAGGLER, orrery


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


def test_the_transformer_trains_and_its_gather_is_counted():
    result = orrery(
        "live", STRAGGLER, "--json", "--set", "run.steps=6", "--set", "job.global_batch=16",
        "--set", "job.model.builtin=transformer", "--set", "policies[0].name=static",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["losses"][-1] < report["losses"][0]
    # Real text repeats its bytes: most fetches of a micro-batch are of a row it already has.
    assert report["embedding_gather_saved_bytes"] > report["embedding_gather_bytes"] > 0


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


def test_a_killed_rank_is_one_decision_in_both_worlds(tmp_path):
    kill, log = EXAMPLES / "kill-one-rank.yaml", tmp_path / "log"
    short = ["--json", "--set", "run.steps=12"]
    simulated = orrery("simulate", kill, *short)
    lived = orrery("live", kill, *short, "--record", log)
    undisturbed = orrery("live", kill, *short, "--set", "faults=[]")
    reports = [json.loads(each.stdout) for each in (simulated, lived, undisturbed)]
    for report in reports:
        assert report["steps_completed"] == 12
        assert report["micro_batches_lost"] == report["micro_batches_repeated"] == 0
    assert [len(report["failures"]) for report in reports] == [1, 1, 0]
    assert reports[0]["decisions"] == reports[1]["decisions"] == 1
    assert reports[0]["decision_trace_sha256"] == reports[1]["decision_trace_sha256"]
    assert reports[1]["parameters_sha256"] == reports[2]["parameters_sha256"]
    assert orrery("replay", log).returncode == 0
