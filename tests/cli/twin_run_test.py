"""Forecasts beside a live training run, and of the log of a run that has ended."""

import json
import os
import pathlib
import subprocess
import sys

import pandas as pd
import pytest
from conftest import EXAMPLES, PROGRAM, orrery, wait_until

os.environ.setdefault("ORRERY_BUILD", str(PROGRAM.parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "chaos"))
from twin_runs import overrides, run_beside  # noqa: E402

KILLED = EXAMPLES / "kill-one-rank.yaml"


def twin(log, *options):
    result = orrery("twin", log, "--samples", 6, *options)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Row and log of a live run of 40 steps with a twin beside it."""
    folder = tmp_path_factory.mktemp("twin")
    return run_beside(7, 40, folder), folder / "7.log"


@pytest.fixture
def log(run):
    return run[1]


def test_a_live_run_with_kills_and_stragglers_is_forecast_while_it_runs(run):
    row = run[0]
    assert row["forecasts"] >= 3
    assert row["error"] <= 0.25, row  # the goal is that of ten longer runs
    assert row["low_s"] < row["median_s"] < row["high_s"]
    assert row["made_s"] < row["end_s"]
    assert row["node_loss_s"] > 0


def twin_beside_a_run(*options):
    """The result of a twin of a live run that is found by its name."""
    live = subprocess.Popen([PROGRAM, "live", KILLED, "--set", "run.steps=100000", *options],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        wait_until(lambda: '"step": ' in orrery("status", "kill-one-rank", "--json").stdout, 30)
        return orrery("twin", "kill-one-rank", "--every", 1, "--samples", 2, "--for", 4)
    finally:
        live.terminate()
        live.wait(60)


def test_a_run_is_found_by_its_name_and_without_a_log_it_is_refused(tmp_path):
    found = twin_beside_a_run("--set", "faults=[]", "--record", tmp_path / "run.log")
    assert found.returncode == 0 and ": step " in found.stdout, found.stdout + found.stderr
    refused = twin_beside_a_run()
    assert refused.returncode == 2 and "--record LOG" in refused.stderr


def test_the_score_its_tables_and_the_alternatives(log, tmp_path):
    score = json.loads(twin(log, "--every", 2, "--policy", "static", "--json", "--out", tmp_path))
    assert score["forecasts"] >= 8  # a median of fewer can be that of a fault
    assert score["next_step_error_p50"] < 0.25
    assert [row["policy"] for row in score["newest"]["policies"]] == ["recover", "static"]
    assert score["newest"]["policies"][0]["node_losses_survived"] == 1
    for row in score["newest"]["policies"]:
        cost = row["node_loss"]
        limits = [cost[key] for key in ("low95", "low80", "median", "high80", "high95")]
        assert limits == sorted(limits) and limits[0] >= 0, row
        assert cost["mean"] == pytest.approx(row["node_loss_s"], rel=0.5)
    commits = [row["commit"]["median_s"] for row in score["newest"]["policies"]]
    assert commits[0] == score["newest"]["commit"]["median_s"] and commits[1] > 0
    goals = pd.read_csv(tmp_path / "policies.csv")
    assert list(goals.policy) == ["recover", "static"] * score["forecasts"]
    known = pd.read_csv(tmp_path / "forecasts.csv")
    ends = known[known.kind == "end"]
    assert len(ends) == score["ends"][-1]["forecasts"] == score["forecasts"]
    inside = (ends.actual_s >= ends.low80_s) & ~(ends.actual_s > ends.high80_s)
    assert inside.mean() == pytest.approx(score["ends"][-1]["coverage_80"], abs=0.01)
    assert set(pd.read_csv(tmp_path / "score.csv").kind) == {"step", "end"}


def test_equal_logs_give_equal_forecasts(log, tmp_path):
    for name in ("a", "b"):
        twin(log, "--every", 5, "--out", tmp_path / name)
    first, second = ((tmp_path / name / "forecasts.csv").read_bytes() for name in ("a", "b"))
    assert first == second


def test_the_text(log):
    text = twin(log, "--every", 8)
    for word in ("next step", "steps", "ends", "a node is lost", ": step "):
        assert word in text


def test_no_forecast_names_the_remedy(log):
    text = twin(log, "--every", 100000)
    assert "give a shorter --every" in text and "0.0%" not in text


def test_a_log_without_its_end_is_refused(log, tmp_path):
    whole = log.read_bytes()
    for bytes_left in (len(whole) - 10, len(whole) // 2):
        cut = tmp_path / "cut.log"
        cut.write_bytes(whole[:bytes_left])
        result = orrery("twin", cut, "--samples", 2, timeout=60)
        assert result.returncode == 3 and "cut short" in result.stderr, result.stderr
        assert "cut.log.partial" in result.stderr


def test_the_log_of_a_queue_is_refused(tmp_path):
    queue = tmp_path / "queue.log"
    (tmp_path / "jobs.csv").write_text("job_id,submit_s,num_gpus,duration_s\na,0,1,10\n")
    size = ("--nodes", 1, "--gpus-per-node", 1)
    words = ("jobs", tmp_path / "jobs.csv", *size, "--policy", "fifo", "--record", queue)
    assert orrery(*words).returncode == 0
    result = orrery("twin", queue)
    assert result.returncode == 3
    assert "expected the log of a training run" in result.stderr


@pytest.mark.parametrize(
    "words, expected",
    [
        ([], "RUN"),
        (["no-such-run"], "there is no file 'no-such-run'; expected a live run"),
        (["slrum"], "there is no file 'slrum'; did you mean 'slurm'?"),
        (["job", "trace.csv"], "not expected: trace.csv; 'job' is no kind; did you mean 'jobs'?"),
        (["LOG", "--policy", "recovr"], "did you mean 'recover'?"),
        (["LOG", "--samples", "1"], "--samples"),
        (["--json", "jobs", "no.csv", "--policy", "easy"], "behind 'jobs', found --json before"),
    ],
)
def test_usage(log, words, expected):
    result = orrery("twin", *(str(log) if word == "LOG" else word for word in words))
    assert result.returncode == 2
    assert expected in result.stderr
