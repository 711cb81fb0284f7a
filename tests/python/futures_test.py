"""Futures: a row each, the first as the run goes on anyway, choices side by side."""

import pandas as pd
import pytest
from conftest import STRAGGLER

import orrery

NOISE = {"noise.compute_cv": 0.03}


def test_the_first_is_what_simulate_says(tmp_path):
    log, alone_log = tmp_path / "log", tmp_path / "alone"
    table = orrery.futures(STRAGGLER, at=6.0, count=4, overrides=NOISE, record=log)
    alone = orrery.simulate(STRAGGLER, overrides=NOISE, record=alone_log)
    assert list(table["future"]) == [0, 1, 2, 3]
    assert table.loc[0, "decision_log_sha256"] == alone.decision_log_sha256
    assert table.loc[0, "elapsed_s"] == alone.elapsed_s == table.loc[0, "end_s"]
    assert table["elapsed_s"].nunique() == 4
    assert log.read_bytes() == alone_log.read_bytes()
    begun = table.attrs["begun"]
    assert 0 < begun["steps_completed"] < 40
    assert (table["steps_ahead"] == 40 - begun["steps_completed"]).all()


def test_the_number_of_workers_changes_nothing():
    def run(workers):
        return orrery.futures(STRAGGLER, at=6.0, count=5, workers=workers, overrides=NOISE)

    pd.testing.assert_frame_equal(run(1), run(5))


def test_choices_meet_the_same_in_the_same_future():
    choices = {
        "as it is": None,
        "steered": {"name": "predictive-rebalance", "parameters": {"gain_threshold": 0.05}},
        "by hand": orrery.actions.Configure(0, orrery.settings.Shares([12, 12, 4, 12])),
        "twice": [orrery.actions.Configure(0, orrery.settings.Shares([12, 12, 4, 12])), "static"],
    }
    table = orrery.futures(
        STRAGGLER, at=8.0, count=3, horizon=12.0, choices=choices,
        overrides={**NOISE, "policies": "[{name: static}]"},
    )  # fmt: skip
    assert list(table["choice"]) == list(choices) * 3
    goodput = table.pivot(index="future", columns="choice", values="goodput_ahead")
    assert (goodput["steered"] > 1.2 * goodput["as it is"]).all()
    assert (goodput["by hand"] > 1.2 * goodput["as it is"]).all()
    assert (goodput["by hand"] == goodput["twice"]).all()
    assert (table["elapsed_s"] <= 20.0).all()


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"at": -1.0}, "instant"),
        ({"at": 1.0, "count": 0}, "count"),
        ({"at": 1.0, "horizon": 0.0}, "horizon"),
        ({"at": 1.0, "workers": 0}, "workers"),
        ({"at": 1.0, "choices": {"mine": orrery.Policy()}}, "built-in"),
    ],
)
def test_what_cannot_be_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        orrery.futures(STRAGGLER, **arguments)


def test_a_run_that_is_over_has_none():
    with pytest.raises(orrery.InputError, match="no futures begin"):
        orrery.futures(STRAGGLER, at=1e6)


def test_a_snapshot_is_gone_on_with(tmp_path):
    log = tmp_path / "log"
    whole = orrery.simulate(STRAGGLER, policy="static", record=log)
    snapshot = orrery.Snapshot(log, at=15.0)
    assert snapshot.at == 15.0 and snapshot.steps == 40
    assert orrery.simulate(snapshot).elapsed_s == pytest.approx(whole.elapsed_s, abs=1e-6)
    steered = orrery.simulate(snapshot, policy="predictive-rebalance")
    assert steered.steps_completed == 40 and steered.elapsed_s < 0.8 * whole.elapsed_s
    assert orrery.simulate(snapshot, run__steps=20).steps_completed == 20
    table = orrery.futures(
        snapshot, count=2, choices={"as it is": None, "steered": "predictive-rebalance"}
    )
    goodput = table.pivot(index="future", columns="choice", values="goodput_ahead")
    assert (goodput["steered"] > 1.2 * goodput["as it is"]).all()
    assert table.attrs["begun"]["steps_completed"] >= 10
    assert orrery.Snapshot(log, at=1e6).at == pytest.approx(whole.elapsed_s, abs=1e-6)


def test_what_is_no_log_is_no_snapshot(tmp_path):
    with pytest.raises(orrery.InputError, match="record 0, byte 0"):
        orrery.Snapshot(STRAGGLER)
    with pytest.raises(orrery.InputError, match="cannot be read"):
        orrery.Snapshot(tmp_path / "nothing")
    with pytest.raises(ValueError, match="instant"):
        orrery.Snapshot(STRAGGLER, at=-1.0)
