"""The dated table of prices and grids, and tables of one's own."""

import datetime

import pytest

import orrery


def test_each_row_has_a_date_and_a_source():
    table = orrery.prices()
    assert set(table["kind"]) == {"instance", "purchase", "grid"}
    assert not table.duplicated(["kind", "name"]).any()
    for row in table.to_dict("records"):
        assert datetime.date.fromisoformat(row["date"]) < datetime.date(2027, 1, 1)
        assert len(row["source"]) > 4 and row["value"] > 0, row
        if row["kind"] != "grid":
            assert row["gpu"] in set(orrery.names("gpus")["name"]), row


def test_an_instance_and_a_grid_price_a_plan(tmp_path):
    asked = {"gpus": 32, "tokens": 1e10, "seeds": 10, "global_batch": 256}
    plan = orrery.plan("llama3-8b", "dgx-h100", instance="nebius-h100", grid="france", **asked)
    row = plan.best
    hours = row["finish_s"]["p50"] / 3600
    assert row["cost_usd"] == pytest.approx(23.6 / 8 * 32 * hours)
    assert row["carbon_kg"] == pytest.approx(row["energy_j"] / 3.6e6 * 56 / 1000)
    assert any("nebius-h100: 23.6 USD/h on 2025" in each for each in plan.assumed)
    own = tmp_path / "own.csv"
    own.write_text("kind,name,gpu,gpus,value,unit,date,source\n"
                   "instance,nebius-h100,H100,8,16,USD/h,2026-11-01,offer 12\n")
    cheap = orrery.plan("llama3-8b", "dgx-h100", instance="nebius-h100", prices=own, **asked)
    assert cheap.best["cost_usd"] == pytest.approx(row["cost_usd"] * 16 / 23.6)
    assert len(orrery.prices(own)) == len(orrery.prices())
    given = orrery.plan("llama3-8b", "dgx-h100", instance="nebius-h100",
                        overrides={"cluster.price.gpu_hour": "1 USD/h"}, **asked)  # fmt: skip
    assert given.best["cost_usd"] == pytest.approx(32 * hours)


def test_mistakes_are_named(tmp_path):
    with pytest.raises(orrery.UsageError, match="expected one of .*nebius-h100.*found 'nebius'"):
        orrery.plan("llama3-8b", "dgx-h100", gpus=32, tokens="1B", instance="nebius")
    own = tmp_path / "own.csv"
    own.write_text("kind,name\n")
    with pytest.raises(orrery.InputError, match="got none named gpu"):
        orrery.prices(own)
    own.write_text("kind,name,gpu,gpus,value,unit,date,source\ngrid,here,,,0,g/kWh,2026-01-01,x\n")
    with pytest.raises(orrery.InputError, match="own.csv:2:13: error: expected a value above 0"):
        orrery.prices(own)
    with pytest.raises(orrery.InputError, match="No such file"):
        orrery.prices(tmp_path / "none.csv")
