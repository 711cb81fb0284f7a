"""Sweeps: grid order, the same for any number of workers, errors before anything runs."""

import pandas as pd
import pytest
from conftest import STRAGGLER

import orrery

GRID = {"policy": ["static", "predictive-rebalance"], "run.steps": [12, 20], "seed": [1, 2]}


def test_the_number_of_workers_changes_nothing():
    one = orrery.sweep(STRAGGLER, GRID, workers=1, progress=False)
    many = orrery.sweep(STRAGGLER, GRID, workers=5, progress=False)
    pd.testing.assert_frame_equal(one, many)
    assert len(one) == 8
    assert list(one.columns[:3]) == ["policy", "run.steps", "seed"]
    assert list(one["seed"]) == [1, 2] * 4
    assert list(one["run.steps"]) == [12, 12, 20, 20] * 2
    assert (one["steps_completed"] == one["run.steps"]).all()
    assert one["step_time_s"].dtype == float


def test_a_row_is_what_simulate_says():
    table = orrery.sweep(STRAGGLER, {"job.global_batch": [40, 80]}, progress=False)
    alone = orrery.simulate(STRAGGLER, job__global_batch=80)
    assert table.loc[1, "step_time_s"] == alone.step_time_s
    assert table.loc[1, "decision_log_sha256"] == alone.decision_log_sha256


def test_a_bad_point_is_refused_before_anything_runs():
    with pytest.raises(orrery.InputError, match="steps"):
        orrery.sweep(STRAGGLER, {"run.steps": [3, 0]}, progress=False)


@pytest.mark.parametrize(
    "grid, workers, said",
    [
        ({}, None, "empty grid"),
        ({"seed": []}, None, "empty grid"),
        ({"seed": [1]}, 0, "at least 1"),
        ({"policy": [orrery.Policy()]}, None, "by name"),
    ],
)
def test_senseless_grids(grid, workers, said):
    with pytest.raises(ValueError, match=said):
        orrery.sweep(STRAGGLER, grid, workers=workers, progress=False)


def test_a_failing_run_ends_the_sweep():
    with pytest.raises(orrery.UsageError, match="statik"):
        orrery.sweep(STRAGGLER, {"policy": ["static", "statik"]}, progress=False)


@pytest.mark.parametrize("values", ["static", 1])
def test_a_key_without_a_list_is_refused(values):
    with pytest.raises(ValueError, match="'policy' has"):
        orrery.sweep(STRAGGLER, {"policy": values}, progress=False)
