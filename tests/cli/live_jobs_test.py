"""orrery live --jobs: a log's jobs as processes, beside the replay of the same jobs."""

import json
import random

import pytest
from conftest import data_file, orrery

HANGS = """
import time

import orrery
from orrery import actions


class Hangs(orrery.Policy):
    def needs(self):
        return orrery.Needs(actions=["Assign"])

    def observe(self, seen, decisions):
        if seen.now >= 20:
            time.sleep(1000)
        for job in seen.jobs.values():
            if job.phase == "waiting":
                decisions.add(actions.Assign(job, [0]))
"""
POLICIES = ["fifo", "fifo-skip", "sjf", "easy", "conservative", "srtf", "srsf", "las"]


def excerpt(folder, jobs=130, seed=7):
    """Two hours of a busy cluster of 32 GPUs: bursts, and ends in one second."""
    draw = random.Random(seed)
    rows, now = [], 0
    for number in range(jobs):
        now += draw.choice([0, 0, 20, 60, 120])
        gpus = draw.choice([1, 1, 2, 4, 8, 12, 16])
        rows.append(f"j{number},{now},{gpus},{30 * draw.randint(0, 18)},vc,u{number % 5}")
    assert now < 7200
    file = folder / "excerpt.csv"
    file.write_text("job_id,submit_s,num_gpus,duration_s,vc,user\n" + "\n".join(rows) + "\n")
    return file


@pytest.mark.parametrize("policy", POLICIES)
def test_start_order_and_placements_are_those_of_a_replay(tmp_path, policy):
    result = orrery(
        "live", "--jobs", excerpt(tmp_path), "--nodes", 4, "--gpus-per-node", 8, "--policy", policy,
        "--placement", "consolidated", "--speed", 4000, "--json",
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(result.stdout)
    assert report["equal"] and report["failed"] == 0
    assert report["jobs"] == 130
    assert report["starts"] > 100
    assert report["processes"] == report["starts"]
    assert 0 < report["policy_time_max_s"] <= report["policy_time_s"]
    assert report["policy_failure"] is None
    assert (report["kills"] > 0) == (policy in ("srtf", "srsf", "las"))


def test_two_hours_of_a_recorded_log_at_a_thousand_times_its_speed(tmp_path):
    trace = data_file("jobs", "philly_big.csv.gz")
    given = ["--jobs", trace, "--nodes", 16, "--gpus-per-node", 8, "--policy", "las",
             "--placement", "consolidated", "--begin", 3_740_400]  # fmt: skip
    result = orrery("live", *given, "--json", "--record", tmp_path / "live.log")
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(result.stdout)
    assert report["jobs"] >= 100 and report["equal"]
    replayed = orrery("replay", tmp_path / "live.log")
    assert replayed.returncode == 0, replayed.stderr


def test_a_policy_that_does_not_answer_is_given_up(tmp_path):
    trace, file, log = tmp_path / "jobs.csv", tmp_path / "hangs.py", tmp_path / "log"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\na,0,1,60\nb,30,1,60\n")
    file.write_text(HANGS)
    given = ["live", "--jobs", trace, "--nodes", 1, "--gpus-per-node", 2, "--policy", file,
             "--policy-timeout", 0.5]  # fmt: skip
    none = f"expected an answer of the policy '{file}' within 0.5 s, found none"
    stopped = orrery(*given, "--on-policy-error", "stop")
    assert stopped.returncode == 3 and none in stopped.stderr, stopped.stderr
    result = orrery(*given, "--json", "--record", log)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["policy_failure"].startswith(none)
    assert 0.5 <= report["policy_time_max_s"] <= report["policy_time_s"]
    assert report["equal"]  # the replay gives it up in the same call
    assert (report["jobs"], report["starts"], report["ends"]) == (2, 1, 1)
    # A replay does not call the policy where the run gave it up.
    replayed = orrery("replay", log, "--policy", file, timeout=60)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


@pytest.mark.parametrize("option", [
    "--ranks 2", "--fabric grpc", "--restart 1", "--hook true", "--kill-switch off",
    "--decisions-per-hour 3", "--attended", "--from .", "--seed 3", "--set run.steps=3",
])  # fmt: skip
def test_options_of_scenarios_are_refused_by_name(option):
    result = orrery("live", "--jobs", "x.csv", "--nodes", 1, "--gpus-per-node", 8, *option.split())
    assert result.returncode == 2, result.stderr
    assert f"{option.split()[0]}: expected a scenario, found the jobs" in result.stderr


def test_what_is_missing_is_said(tmp_path):
    log = excerpt(tmp_path, jobs=5)
    result = orrery("live", "--jobs", log)
    assert result.returncode == 2 and "--nodes" in result.stderr
    cluster = ["--nodes", 1, "--gpus-per-node", 8]
    result = orrery("live", "--jobs", log, *cluster, "--begin", 100000)
    assert result.returncode == 2 and "no job that comes" in result.stderr
    assert orrery("live", "--nodes", 3).returncode == 2
    result = orrery("live", "--jobs", log, *cluster, "--mode", "shadow")
    assert result.returncode == 2 and "--mode: expected drive" in result.stderr
    result = orrery("live", "--jobs", log, *cluster, "--policy", "ffo")
    assert result.returncode == 2 and "fifo" in result.stderr
    result = orrery("live", "--jobs", log, *cluster, "--policy", "predictive-rebalance")
    assert result.returncode > 1
    assert orrery("live").returncode == 2
