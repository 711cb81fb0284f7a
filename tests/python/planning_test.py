"""Predictions and layouts from Python."""

import math

import pandas as pd
import pytest
from conftest import EXAMPLES, STRAGGLER

import orrery

MAIN = EXAMPLES / "llama3-70b-512-h100.yaml"


def test_a_name_is_enough():
    table = orrery.predict("llama3-70b")
    assert list(table["status"]) == ["ok"]
    row = table.iloc[0]
    assert row.p2_5_s < row.p10_s < row.iter_time_s < row.p90_s < row.p97_5_s
    assert 1e9 < row.memory_bytes <= row.reserved_p10 < row.reserved_bytes < row.reserved_p90
    assert "framework nemo" in row.reason and "tp 8" in row.reason


def test_a_frame_goes_in_and_one_with_its_index_comes_out():
    runs = pd.DataFrame(
        {"model": "llama3-70b", "n_gpus": [512, 1024, 511], "tp": [8, math.nan, 8], "pp": 4},
        index=["a", "b", "c"],
    )
    table = orrery.predict(runs)
    assert list(table.index) == ["a", "b", "c"]
    assert list(table["status"]) == ["ok", "ok", "unsupported"]
    assert math.isnan(table.loc["c", "iter_time_s"]) and "n_gpus" in table.loc["c", "reason"]
    assert "tp 8" in table.loc["b", "reason"] and "tp 8" not in table.loc["a", "reason"]
    alone = orrery.predict({"model": "llama3-70b", "n_gpus": 512, "tp": 8, "pp": 4})
    assert alone.loc[0, "iter_time_s"] == table.loc["a", "iter_time_s"]


def test_runs_that_cannot_be_priced_are_rows_and_say_all_that_is_missing():
    table = orrery.predict([{"model": "mine"}, "llama3-8b", {"n_gpus": 8}, {"model": "gpt3-175b",
                            "n_gpus": 8, "tp": 8, "pp": 1}])  # fmt: skip
    assert list(table["status"]) == ["unsupported", "ok", "unsupported", "out-of-memory"]
    assert "'layers', 'hidden', 'heads', 'ffn', 'vocab' are missing" in table.loc[0, "reason"]
    assert "'model' is missing" in table.loc[2, "reason"]
    assert len(orrery.predict([])) == 0
    with pytest.raises(TypeError, match="not a int"):
        orrery.predict([3])


def test_layouts_are_ranked():
    table = orrery.layouts(model="llama3-8b", cluster="dgx-h100", gpus=16, tokens_per_batch=2**20)
    fitting = table[table["status"] == "ok"]
    assert len(fitting) > 10
    assert fitting["iter_time_s"].is_monotonic_increasing
    assert "ahead of" in table.attrs["why"]
    assert "stack nemo" in table.attrs["assumed"]
    products = table["tensor"] * table["context"] * table["pipeline"] * table["data"]
    assert set(products) == {16}


def test_layouts_of_a_scenario_are_those_of_its_cluster():
    table = orrery.layouts(MAIN, top=5, job__global_batch=512)
    assert list(table["rank"]) == [1, 2, 3, 4, 5]
    own = orrery.simulate(MAIN, job__global_batch=512)
    assert table.loc[0, "iter_time_s"] < own.step_time_s
    with pytest.raises(TypeError, match="says gpus itself"):
        orrery.layouts(MAIN, gpus=64)
    with pytest.raises(orrery.InputError, match="with a transformer, by preset"):
        orrery.layouts(STRAGGLER)
    with pytest.raises(orrery.InputError, match="a model .*a cluster .*a number of GPUs"):
        orrery.layouts()


def test_a_plan_is_a_table_with_reasons_and_scenarios():
    plan = orrery.plan("llama3-8b", "dgx-h100", gpus=64, tokens=1e11, deadline="30 d",
                       budget=1e6, seeds=30, global_batch=256)  # fmt: skip
    assert list(plan.table["rank"]) == list(range(1, len(plan.table) + 1))
    assert plan.best is not None and plan.best["finish_s"]["p50"] == plan.table["finish_s.p50"][0]
    assert plan.summary()["days P50"].iloc[0] == plan.best["finish_s"]["p50"] / 86400
    assert plan.changes["saved_s"].is_monotonic_decreasing
    assert plan.why in repr(plan) and "<svg" in plan._repr_html_()
    assert "e+" not in repr(plan).split("why:")[0]
    assert plan.summary()["t CO2"].isna().all() and plan.to_dict()["nearest_measured"] is None
    report = orrery.simulate(plan.scenario(1))
    assert report.steps_completed == plan.best["steps"]
    with pytest.raises(IndexError, match="a row from 1 to"):
        plan.scenario(99)
    with pytest.raises(orrery.UsageError, match="--tokens: expected a number above 0"):
        orrery.plan("llama3-8b", "dgx-h100", gpus=64, tokens="many")
    with pytest.raises(orrery.InputError, match="llama3-8b"):
        orrery.plan("llama3-9b", "dgx-h100", gpus=[64], tokens="1T")


def test_the_nearest_measured_run_is_named(tmp_path):
    runs = tmp_path / "runs.csv"
    runs.write_text("id,model,gpu,n_gpus,tp,pp,dp,mbs,gbs,seq_len,framework,iter_time_s\n"
                    "mine,llama3-8b,H100,64,1,1,64,1,256,8192,nemo,3\n")  # fmt: skip
    plan = orrery.plan("llama3-8b", "dgx-h100", gpus=64, tokens=1e10, seeds=10, global_batch=256,
                       measured=runs, grid="france")  # fmt: skip
    nearest = plan.to_dict()["nearest_measured"]
    assert nearest["id"] == "mine" and nearest["measured_s"] == 3
    assert plan.summary()["t CO2"].iloc[0] == plan.best["carbon_kg"] / 1000


def test_models_and_clusters_may_be_files(tmp_path):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("preset: dgx-h100\nnodes: 8\nprice: {gpu_hour: 2 USD/h}\n")
    plan = orrery.plan("llama3-8b", cluster, gpus=64, tokens=1e10, seeds=10, global_batch=256)
    assert plan.best is not None and plan.best["cluster"] == str(cluster)
    both = orrery.plan("llama3-8b", [cluster, "dgx-a100"], gpus=64, tokens=1e10, seeds=10,
                       global_batch=256)  # fmt: skip
    assert set(both.table["cluster"]) == {str(cluster), "dgx-a100"}
    table = orrery.layouts(model="llama3-8b", cluster=cluster, gpus=64, global_batch=256, top=1)
    assert table["iter_time_s"][0] > 0


def test_names_are_listed():
    table = orrery.names()
    assert set(table["kind"]) == {"models", "clusters", "gpus", "stacks", "policies", "prices"}
    assert "llama3-70b" in set(orrery.names("models")["name"])
    assert table["about"].str.len().min() > 5
    with pytest.raises(orrery.UsageError, match="did you mean 'models'"):
        orrery.names("model")
