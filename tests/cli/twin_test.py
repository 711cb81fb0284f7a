"""Forecasts of waiting jobs beside the replay of a log, and the choice by forecasts."""

import json

import pandas as pd
import pytest
from conftest import orrery


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    file = tmp_path_factory.mktemp("logs") / "jobs.csv"
    made = orrery("new", "jobs", "--like", "seren", "--jobs", 300, "--gpus", 64, "--load", 1.1,
                  "-o", file)  # fmt: skip
    assert made.returncode == 0, made.stderr
    return file


def twin(log, *options):
    result = orrery("twin", "jobs", log, "--nodes", 8, "--gpus-per-node", 8, "--samples", 8,
                    "--every", 20000, *options)  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_score_and_its_tables(log, tmp_path):
    score = json.loads(twin(log, "--policy", "easy,srtf", "--json", "--out", tmp_path / "out"))
    assert score["forecasts"] > 5
    assert [row["horizon"] for row in score["starts"]][-1] == "all"
    assert [row["policy"] for row in score["policies"]] == ["easy", "srtf"]
    assert score["regret"]["wait_mean_s"] >= 0
    loss = score["node_loss"]
    assert loss["samples"] == 8 and loss["made_s"] > 0
    for cost in ("wait_mean_s", "jct_mean_s", "lost_gpu_s"):
        limits = [loss[cost][key] for key in ("low95", "low80", "median", "high80", "high95")]
        assert limits == sorted(limits)
    assert loss["lost_gpu_s"]["low95"] >= 0
    known = pd.read_csv(tmp_path / "out" / "forecasts.csv")
    starts = known[known.kind == "start"]
    assert len(starts) == score["starts"][-1]["forecasts"]
    assert (starts.actual_s >= starts.made_s).all()
    inside = (starts.actual_s >= starts.low95_s) & ~(starts.actual_s > starts.high95_s)
    assert inside.mean() == pytest.approx(score["starts"][-1]["coverage_95"], abs=0.02)
    table = pd.read_csv(tmp_path / "out" / "score.csv")
    assert set(table.kind) == {"start", "end"}
    goals = pd.read_csv(tmp_path / "out" / "policies.csv")
    assert len(goals) == score["forecasts"] * 2 * 3  # policies, goals
    waits = goals[goals.goal == "wait_mean_s"].groupby("policy").value.mean()
    assert waits["easy"] == pytest.approx(score["policies"][0]["wait_mean_s"], rel=1e-3)


def test_candidates_of_the_choice_are_policies(log):
    score = json.loads(twin(log, "--policy", "easy", "--choose", "srtf,easy", "--json"))
    assert [row["policy"] for row in score["policies"]] == ["easy", "srtf"]


def test_equal_runs_give_equal_forecasts(log, tmp_path):
    for name in ("a", "b"):
        twin(log, "--policy", "fifo", "--out", tmp_path / name)
    first, second = ((tmp_path / name / "forecasts.csv").read_bytes() for name in ("a", "b"))
    assert first == second


def test_the_text(log):
    text = twin(log, "--policy", "fifo,sjf", "--by", "jct")
    for word in ("starts", "ends", "durations", "regret of the active policy", "lost node"):
        assert word in text


def test_the_choice_is_a_row_of_the_comparison(log):
    result = orrery("jobs", log, "--nodes", 8, "--gpus-per-node", 8, "--policy", "fifo",
                    "--choose", "srtf", "--choose-every", 20000, "--json")  # fmt: skip
    assert result.returncode == 0, result.stderr
    fifo, choice = json.loads(result.stdout)
    assert (fifo["policy"], choice["policy"]) == ("fifo", "choice from fifo")
    assert fifo["estimates"] == choice["estimates"] == "requested"
    assert choice["jobs_out"] == 300
    assert choice["queue_mean_s"] <= fifo["queue_mean_s"] * 1.02


@pytest.mark.parametrize(
    "command, options, expected",
    [
        ("twin", ["--policy", "fifo,eazy"], "did you mean 'easy'?"),
        ("twin", ["--policy", "fifo", "--choose", "eazy"], "did you mean 'easy'?"),
        ("twin", ["--policy", "fifo", "--record", "x.log"], "--record"),
        ("twin", ["--policy", "fifo", "--by", "weight"], "--by"),
        ("jobs", ["--policy", "fifo,easy", "--choose", "srtf"], "one active policy"),
        ("jobs", ["--policy", "fifo", "--choose", "eazy"], "did you mean 'easy'?"),
        ("jobs", ["--policy", "fifo", "--by", "jct"], "--choose"),
    ],
)
def test_usage(log, command, options, expected):
    words = ["twin", "jobs"] if command == "twin" else ["jobs"]
    result = orrery(*words, log, "--nodes", 8, "--gpus-per-node", 8, *options)
    assert result.returncode == 2
    assert expected in result.stderr
