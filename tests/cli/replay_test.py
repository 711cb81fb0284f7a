"""A recorded log through the same policies."""

import csv
import json

import pytest
from conftest import STRAGGLER, orrery


def test_replay_agrees_until_a_threshold_changes(tmp_path):
    log = tmp_path / "log"
    assert orrery("simulate", STRAGGLER, "--record", log).returncode == 0
    same = orrery("replay", log, "--json")
    assert same.returncode == 0, same.stderr
    assert json.loads(same.stdout)["first_difference"] is None
    changed = orrery("replay", log, "--set", "predictive-rebalance.gain_threshold=9")
    assert changed.returncode == 1
    assert "first difference" in changed.stderr


def test_a_torn_log_is_bad_input(tmp_path):
    log = tmp_path / "log"
    assert orrery("simulate", STRAGGLER, "--record", log).returncode == 0
    log.write_bytes(log.read_bytes()[:-9])
    result = orrery("replay", log)
    assert result.returncode == 3
    assert str(log) in result.stderr


# ---- under other policies -------------------------------------------------------------------


@pytest.fixture(scope="module")
def queue_log(tmp_path_factory):
    """The log of three jobs of 8 GPUs on 8 GPUs under fifo: 100 s, then 1000 s, then 10 s."""
    folder = tmp_path_factory.mktemp("queue")
    (folder / "jobs.csv").write_text(
        "job_id,submit_s,num_gpus,duration_s\nfirst,0,8,100\nlong,10,8,1000\nshort,20,8,10\n"
    )
    log = folder / "queue.log"
    ran = orrery("jobs", folder / "jobs.csv", "--nodes", 1, "--gpus-per-node", 8, "--policy",
                 "fifo", "--record", log)  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return log


def test_the_recorded_policy_gives_the_record(queue_log):
    same = orrery("replay", queue_log, "--under", "fifo", "--json")
    assert same.returncode == 0, same.stderr
    found = json.loads(same.stdout)
    assert (found["jobs"], found["jobs_not_ended"], found["starts_undecided"]) == (3, 0, 0)
    assert found["recorded_wait_mean_s"] == pytest.approx(390)
    assert found["under"] == [
        {"policy": "fifo", "recorded_until_s": None, "wait_mean_s": 390, "other_starts": 0}
    ]


def test_another_policy_says_from_when_on_it_is_simulated(queue_log, tmp_path):
    table = tmp_path / "starts.csv"
    text = orrery("replay", queue_log, "--under", "fifo,sjf", "--differences", table)
    assert text.returncode == 0, text.stderr
    assert "fifo: no start differs: all of the log is recorded" in text.stdout
    assert "sjf: recorded until 100.000 s, simulated from there" in text.stdout
    assert "end of short, 10.000 s away" in text.stdout
    rows = list(csv.DictReader(table.open()))
    assert [(row["policy"], row["job_id"], row["recorded_start_s"], row["simulated_start_s"])
            for row in rows] == [
                ("sjf", "long", "100.000", "110.000"), ("sjf", "short", "1100.000", "100.000")
            ]  # fmt: skip
    assert rows[1]["competing_event"] == "submission of long"
    assert float(rows[1]["distance_s"]) == 90


def test_the_courses_are_those_of_orrery_jobs_under_each_policy(tmp_path):
    made, log = tmp_path / "jobs.csv", tmp_path / "queue.log"
    words = ["--nodes", 8, "--gpus-per-node", 8, "--placement", "consolidated"]
    policies = ["easy", "srtf", "max-min", "las"]
    for command in (
        ["new", "jobs", "--like", "seren", "--jobs", 300, "--gpus", 64, "--load", 1.1, "-o", made],
        ["jobs", made, *words, "--policy", "fifo", "--record", log],
        ["jobs", made, *words, "--policy", ",".join(policies), "--out", tmp_path / "tables"],
        ["replay", log, "--under", ",".join(policies), "--courses", tmp_path / "courses.csv"],
    ):
        ran = orrery(*command)
        assert ran.returncode == 0, ran.stderr
    with open(tmp_path / "courses.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["policy"] for row in rows} == {"recorded", *policies}
    for policy in policies:
        with open(tmp_path / "tables" / policy / "jobs.csv", newline="", encoding="utf-8") as file:
            jobs = {row["job_id"]: row for row in csv.DictReader(file)}
        courses = [row for row in rows if row["policy"] == policy]
        assert len(courses) == len(jobs) == 300
        for row in courses:
            job = jobs[row["job_id"]]
            assert float(row["start_s"]) == float(job["start_s"]), (policy, row)
            assert float(row["end_s"]) == float(job["end_s"]), (policy, row)
            assert int(row["starts"]) == 1 + int(job["preemptions"]), (policy, row)


def test_a_training_run_says_until_when_the_record_holds(tmp_path):
    log = tmp_path / "train.log"
    assert orrery("simulate", STRAGGLER, "--record", log).returncode == 0
    found = orrery("replay", log, "--under", "predictive-rebalance,static")
    assert found.returncode == 0, found.stderr
    same, other = found.stdout.split("static: ")
    assert "predictive-rebalance: no decision differs: all of the log is recorded" in same
    assert "simulated from there by" in other
    command = other.splitlines()[1].split()
    assert command[:3] == ["orrery", "simulate", "--from"]
    assert orrery(*command[1:]).returncode == 0


@pytest.mark.parametrize(
    "options, expected",
    [
        (["--under", "eazy"], "did you mean 'easy'?"),
        (["--under", "easy", "--policy", "fifo"], "--policy"),
        (["--differences", "x.csv"], "--under"),
        (["--courses", "x.csv"], "--under"),
    ],
)
def test_usage_of_under(queue_log, options, expected):
    result = orrery("replay", queue_log, *options)
    assert result.returncode == 2
    assert expected in result.stderr
