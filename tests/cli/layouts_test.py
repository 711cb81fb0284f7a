"""Layouts of a job, from the command line."""

import csv
import io
import json

from conftest import EXAMPLES, orrery

MAIN = EXAMPLES / "llama3-70b-512-h100.yaml"
ASKED = ("--model", "llama3-8b", "--cluster", "dgx-h100", "--gpus", 16)


def test_a_preset_and_a_number_of_gpus_are_enough():
    result = orrery("layouts", *ASKED, "--tokens-per-batch", 1048576, "--top", 2)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("llama3-8b on 16 H100: 1,048,576 tokens a step, ")
    assert lines[4].startswith("  1  ") and lines[5].startswith("  2  ")
    assert any(line.startswith("why: ") and "ahead of" in line for line in lines)
    assert lines[-1].startswith("assumed: sequences of 8192 tokens, stack nemo, ")


def test_json_has_all_of_them_ranked():
    result = orrery("layouts", *ASKED, "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    rows = found["layouts"]
    assert len(rows) == found["layouts_in_all"]
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    fitting = [row for row in rows if row["status"] == "ok"]
    assert len(fitting) == found["layouts_that_fit"] > 10
    times = [row["iter_time_s"] for row in fitting]
    assert times == sorted(times)
    for row in fitting:
        assert row["p2_5_s"] < row["p10_s"] < row["iter_time_s"] < row["p90_s"] < row["p97_5_s"]
        parts = [row[key] for key in ("compute_s", "inside_s", "exposed_s", "pipeline_s")]
        assert abs(sum(parts) - row["iter_time_s"]) < 1e-6 * row["iter_time_s"]
    for row in rows:
        if row["status"] == "out-of-memory":
            assert row["iter_time_s"] is None and "would fit with" in row["reason"]


def test_csv_and_json_say_the_same():
    table = list(csv.DictReader(io.StringIO(orrery("layouts", MAIN, "--csv", "--top", 5).stdout)))
    rows = json.loads(orrery("layouts", MAIN, "--json", "--top", 5).stdout)["layouts"]
    assert [list(row) for row in rows] == [list(row) for row in table]
    for written, row in zip(table, rows):
        assert float(written["iter_time_s"]) == float(f"{row['iter_time_s']:.6g}")


def test_what_is_missing_is_told_at_once():
    result = orrery("layouts", "--precision", "bf16")
    assert result.returncode == 3
    for part in ("a model (", "llama3-70b", "a cluster (", "dgx-h100", "a number of GPUs"):
        assert part in result.stderr


def test_a_scenario_is_not_contradicted():
    result = orrery("layouts", MAIN, "--gpus", 64)
    assert result.returncode == 2
    assert "--set cluster.nodes=64" in result.stderr
    assert orrery("layouts", MAIN, "--top", 1, "--set", "cluster.nodes=32").returncode == 0


def test_a_model_that_fits_nowhere_is_a_goal_missed():
    result = orrery("layouts", "--model", "gpt3-175b", "--cluster", "dgx-h100", "--gpus", 8)
    assert result.returncode == 1
    assert "no layout fits" in result.stderr
    assert "nearest: " in result.stdout


def test_what_has_no_layouts_is_refused():
    result = orrery("layouts", EXAMPLES / "straggler-4-ranks.yaml")
    assert result.returncode == 3
    assert "with a transformer, by preset or by its dimensions" in result.stderr
