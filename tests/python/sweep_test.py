"""Sweeps: grid order, the same for any number of workers, errors before anything runs."""

import queue

import pandas as pd
import pytest
from conftest import EXAMPLES, STRAGGLER

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
    grid = {"job.global_batch": [40, 80]}
    table = orrery.sweep(STRAGGLER, grid, progress=False, hashes=True)
    alone = orrery.simulate(STRAGGLER, job__global_batch=80)
    assert table.loc[1, "step_time_s"] == alone.step_time_s
    assert table.loc[1, "decision_log_sha256"] == alone.decision_log_sha256


def test_digests_are_shown_when_asked_for():
    plain = orrery.sweep(STRAGGLER, {"run.steps": [3]}, progress=False)
    assert "step_time_s" in plain and "memory_per_gpu_bytes" in plain
    assert [name for name in plain.columns if "hash" in name or "sha256" in name] == []


def test_a_summary_has_the_grid_and_the_main_figures_in_units_to_read():
    llama = orrery.load(EXAMPLES / "llama3-70b-512-h100.yaml", run__steps=3)
    table = orrery.sweep(llama, {"job.layout.pipeline": [4, 1]}, progress=False)
    short = orrery.summary(table)
    assert list(short.columns) == [
        "job.layout.pipeline", "ranks", "days", "step (s)", "tokens/s", "MFU", "goodput",
        "GiB a GPU", "MWh", "USD", "status",
    ]  # fmt: skip
    first = table.loc[0]
    assert short.loc[0, "days"] * 86_400 == pytest.approx(first["elapsed_s"])
    assert short.loc[0, "MWh"] * 3.6e9 == pytest.approx(first["energy_j"])
    assert list(short["status"]) == ["ok", "out-of-memory"]
    straggler = orrery.summary(orrery.sweep(STRAGGLER, {"seed": [1, 2]}, progress=False)[1:])
    assert list(straggler["seed"]) == [2] and "status" not in straggler
    futures = orrery.futures(STRAGGLER, at=5, count=2, choices={"own": None}, progress=False)
    assert list(orrery.summary(futures))[:3] == ["future", "choice", "steps_ahead"]
    with pytest.raises(ValueError, match="found no column 'mode'"):
        orrery.summary(short)


def test_a_bad_point_is_refused_before_anything_runs():
    with pytest.raises(orrery.InputError, match="steps"):
        orrery.sweep(STRAGGLER, {"run.steps": [3, 0]}, progress=False, impossible="raise")


def test_a_point_that_cannot_be_is_a_row_with_its_reason():
    table = orrery.sweep(STRAGGLER, {"run.steps": [3, 0]}, progress=False)
    assert list(table["status"]) == ["ok", "impossible"]
    assert table.loc[0, "steps_completed"] == 3 and pd.isna(table.loc[1, "steps_completed"])
    assert "steps" in table.loc[1, "reason"] and table.loc[0, "reason"] == ""
    main = orrery.load(EXAMPLES / "llama3-70b-512-h100.yaml", run__steps=3)
    table = orrery.sweep(main, {"job.layout.pipeline": [4, 1, 3]}, progress=False)
    assert list(table["status"]) == ["ok", "out-of-memory", "ok"]
    assert "needs" in table.loc[1, "reason"]
    with pytest.raises(orrery.InputError, match="stepz"):
        orrery.sweep(STRAGGLER, {"run.stepz": [3, 4]}, progress=False)
    with pytest.raises(ValueError, match="'row' or 'raise'"):
        orrery.sweep(STRAGGLER, {"run.steps": [3]}, progress=False, impossible="skip")


def test_the_point_that_fails_is_named():
    with pytest.raises(orrery.InputError, match=r"point run.steps = 0, seed = 1\)") as caught:
        orrery.sweep(
            STRAGGLER, {"run.steps": [3, 0], "seed": [1]}, progress=False, impossible="raise"
        )
    assert "run.steps=0" in str(caught.value)
    main = orrery.load(EXAMPLES / "llama3-70b-512-h100.yaml")
    with pytest.raises(orrery.InputError, match=r"out of memory[^)]*point job.layout.pipeline = 1"):
        orrery.sweep(
            main, {"job.layout.pipeline": [4, 1]}, progress=False, impossible="raise"
        )


@pytest.mark.parametrize(
    "grid, workers, said",
    [
        ({}, None, "empty grid"),
        ({"seed": []}, None, "empty grid"),
        ({"seed": [1]}, 0, "at least 1"),
        ({"policy": [orrery.Policy()]}, None, r"its class Policy, or a function"),
    ],
)
def test_senseless_grids(grid, workers, said):
    with pytest.raises(ValueError, match=said):
        orrery.sweep(STRAGGLER, grid, workers=workers, progress=False)


class Looks(orrery.Policy):
    made = 0

    def __init__(self, every=1):
        type(self).made += 1
        self.every = every

    def observe(self, seen, decisions):
        decisions.rest()


def test_every_point_has_a_policy_of_its_own():
    def rarely():
        return Looks(5)

    grid = {"policies": [["static"], [Looks, "static"], [rarely]], "seed": [1, 2]}
    table = orrery.sweep(STRAGGLER, {**grid, "run.steps": [5]}, workers=2, progress=False)
    assert list(table["policies"][::2]) == ["static", "Looks + static", "rarely"]
    assert (table["steps_completed"] == 5).all()
    assert Looks.made == 4
    one = orrery.sweep(STRAGGLER, {"policy": [Looks, "static"], "run.steps": [5]}, progress=False)
    assert list(one["policy"]) == ["Looks", "static"]
    assert one["step_time_s"].nunique() == 1


def test_a_failing_run_ends_the_sweep():
    with pytest.raises(orrery.UsageError, match="statik"):
        orrery.sweep(STRAGGLER, {"policy": ["static", "statik"]}, progress=False)


class RunsOut(orrery.Policy):
    def observe(self, seen, decisions):
        raise queue.Empty("nothing left")


def test_whatever_a_policy_raises_ends_the_sweep():
    with pytest.raises(queue.Empty, match="nothing left"):
        orrery.sweep(STRAGGLER, {"policy": [RunsOut], "run.steps": [1]}, progress=False)


@pytest.mark.parametrize("values", ["static", 1])
def test_a_key_without_a_list_is_refused(values):
    with pytest.raises(ValueError, match="'policy' has"):
        orrery.sweep(STRAGGLER, {"policy": values}, progress=False)
