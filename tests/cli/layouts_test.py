"""Layouts of a job, from the command line."""

import csv
import io
import json
import math

import pytest
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
    assert any(line.startswith("assumed: sequences of 8192 tokens, stack nemo, ") for line in lines)
    assert max(map(len, lines)) <= 100


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


def test_the_table_has_a_column_for_each_part_that_differs():
    wide = orrery("layouts", "--model", "llama3-70b", "--cluster", "dgx-h100", "--gpus", 512)
    lines = wide.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    names = lines[3].split()
    assert names[:4] == ["tensor", "context", "pipeline", "data"]
    rows = [line.split() for line in lines[4:14]]
    for row in rows:
        assert math.prod(map(int, row[1:5])) == 512
    alone = orrery("layouts", *ASKED, "--top", 1).stdout.splitlines()
    assert alone[5].startswith("in each row: micro-batch ")


def test_spares_of_a_scenario_are_named():
    spare = orrery("layouts", MAIN, "--top", 1, "--set", "cluster.nodes=65")
    assert "on 520 H100" in spare.stdout
    assert spare.stderr == (
        "note: the scenario's own layout has 512 ranks on 520 GPUs; to keep the others as spares, "
        "lay out fewer nodes: --set cluster.nodes=64\n"
    )
    for nodes in (64, 32):
        assert orrery("layouts", MAIN, "--top", 1, "--set", f"cluster.nodes={nodes}").stderr == ""


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


SHARDS = {
    "nothing": "none",
    "optimizer": "distributed optimizer",
    "gradients": "zero-2",
    "parameters": "fsdp",
}
INTERVAL = ("p2_5_s", "p10_s", "p90_s", "p97_5_s")


def table_of(model, layouts, stated):
    """A table for `orrery predict` with one row a layout, on nodes as dgx-h100 has them. `stated`:
    the values that `orrery layouts` and a shorter table assume."""
    rows = [
        {
            "id": layout["rank"],
            "model": model,
            "n_gpus": 64,
            "gpus_per_node": 8,
            "nics_per_node": 8,
            "nic_gbps": 400,
            "fabric": "DGX",
            "tp": layout["tensor"],
            "pp": layout["pipeline"],
            "dp": layout["data"],
            "cp": layout["context"],
            "ep": layout["expert"],
            "vpp": layout["chunks"],
            "dp_shard": SHARDS[layout["shard"]],
            "mbs": layout["micro_batch"],
            "recompute": layout["recompute"],
            **stated,
        }
        for layout in layouts
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def predicted(tmp_path, name, text):
    cases, out = tmp_path / f"{name}.csv", tmp_path / f"{name}-out.csv"
    cases.write_text(text)
    result = orrery("predict", cases, "-o", out, "--scenarios", tmp_path)
    assert result.returncode == 0, result.stderr
    return list(csv.DictReader(io.StringIO(out.read_text())))


def shares(row, step):
    """The interval over the step."""
    return [float(row[key]) / step for key in INTERVAL]


@pytest.mark.parametrize(
    "model, kind", [("llama3-8b", "ring"), ("mixtral-8x7b", "ring"), ("llama3-8b", "ulysses")]
)
def test_layouts_predict_and_simulate_give_one_answer(tmp_path, model, kind):
    """Ten layouts of each model. The step of `simulate` also has contention on shared links, and in
    interleaved pipelines the sends of a stage compete with its gradients: 1% and 2%."""
    asked = orrery(
        "layouts", "--model", model, "--cluster", "dgx-h100", "--gpus", 64, "--json", "--set",
        f"job.layout.context_kind={kind}",
    )  # fmt: skip
    found = json.loads(asked.stdout)
    fitting = [row for row in found["layouts"] if row["status"] == "ok"]
    if kind == "ulysses":
        fitting = [row for row in fitting if row["context"] > 1]
    layouts = fitting[:: len(fitting) // 10][:10]
    assert any(row["chunks"] > 1 for row in layouts) and any(row["tensor"] > 1 for row in layouts)
    short = predicted(tmp_path, "short", table_of(model, layouts, {"context_kind": kind}))
    stated = {
        "context_kind": kind,
        "seq_len": 8192, "gbs": 512, "precision": "bf16", "framework": "nemo", "overlap": "all",
        "attention": "flash", "seq_parallel": 1, "gpu": "H100",
    }  # fmt: skip
    whole = predicted(tmp_path, "whole", table_of(model, layouts, stated))
    for layout, assumed, complete in zip(layouts, short, whole):
        step = layout["iter_time_s"]
        assert float(assumed["iter_time_s"]) == pytest.approx(step, rel=0.001), assumed
        assert shares(assumed, float(assumed["iter_time_s"])) == pytest.approx(
            shares(layout, step), rel=1e-4
        ), assumed
        for words in found["assumed"][4:]:
            if layout["tensor"] > 1 or not words.startswith("sequence parallelism"):
                assert words in assumed["reason"], (words, assumed)
        result = orrery(
            "simulate", tmp_path / f"{layout['rank']}.yaml", "--json", "--set", "run.memory=warn"
        )
        assert result.returncode == 0, result.stderr
        simulated = json.loads(result.stdout)
        time, interval = simulated["step_time_s"], simulated["step_interval"]
        near = 0.02 if layout["chunks"] > 1 else 0.01
        assert time == pytest.approx(float(complete["iter_time_s"]), rel=near), complete
        assert shares(interval, time) == pytest.approx(
            shares(complete, float(complete["iter_time_s"])), rel=1e-4
        ), complete
        assert f"rests on: {interval['rests_on']};" in complete["reason"]


def test_full_detail_gives_the_same_step_and_interval():
    folded, full = (
        json.loads(
            orrery(
                "simulate", EXAMPLES / "llama3-70b-512-h100.yaml", "--json", "--detail", detail,
                "--set", "cluster.nodes=8", "--set", "job.layout.data=2", "--set",
                "job.global_batch=32", "--set", "run.steps=2", "--set", "run.memory=warn",
            ).stdout
        )
        for detail in ("folded", "full")
    )  # fmt: skip
    assert full["step_time_s"] == pytest.approx(folded["step_time_s"], rel=1e-6)
    assert full["step_interval"]["p90_s"] == pytest.approx(folded["step_interval"]["p90_s"])
