"""Runs: reports, policies by name, interruption."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from conftest import BUILD, ENDLESS, STRAGGLER, worker_of

import orrery


def test_a_report_has_what_the_command_line_prints():
    report = orrery.simulate(STRAGGLER)
    values = report.to_dict()
    assert report.steps_completed == values["steps_completed"] == 40
    assert report.step_times.shape == (40,)
    assert np.median(report.step_times) == pytest.approx(report.step_time_s, rel=0.02)
    assert report.parameters_sha256 is None and report.losses.shape == (0,)
    assert len(report.summary().splitlines()) == 12
    assert report.to_pandas()["tokens_per_s"] == report.tokens_per_s
    assert "tokens_per_s" in dir(report)
    with pytest.raises(AttributeError, match="step_time_s"):
        report.step_time


def test_step_times_cannot_be_written():
    report = orrery.simulate(STRAGGLER)
    with pytest.raises(ValueError, match="read-only"):
        report.step_times[0] = 1


def test_a_report_shows_itself():
    report = orrery.simulate(STRAGGLER)
    page = report._repr_html_()
    assert "<svg" in page and "straggler-4-ranks" in page and "median step time" in page
    assert "40 steps" in repr(report)


def test_equal_seeds_give_equal_reports(tmp_path):
    def run(seed, log):
        report = orrery.simulate(STRAGGLER, seed=seed, record=tmp_path / log).to_dict()
        del report["host"]
        return report

    assert run(3, "a") == run(3, "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert run(3, "a") != run(4, "c")


def test_policies_by_name():
    static = orrery.simulate(STRAGGLER, policy="static")
    moved = orrery.simulate(STRAGGLER, policy="predictive-rebalance")
    blind = orrery.simulate(
        STRAGGLER, policy={"name": "predictive-rebalance", "parameters": {"gain_threshold": 9}}
    )
    assert moved.step_time_s <= 1.15 * moved.ideal_step_time_s
    assert static.step_time_s > 2 * static.ideal_step_time_s
    assert blind.step_time_s == static.step_time_s
    with pytest.raises(orrery.UsageError, match="did you mean 'static'"):
        orrery.simulate(STRAGGLER, policy="statik")
    with pytest.raises(ValueError, match="parametres"):
        orrery.simulate(STRAGGLER, policy={"name": "static", "parametres": {}})


@pytest.mark.parametrize("call", ["simulate(S, **E)", "sweep(S, G, workers=2, detail='full')"])
def test_interrupts_end_a_run(call):
    script = f"""
import orrery
S, E = {str(STRAGGLER)!r}, {ENDLESS!r}
G = {{"seed": [1, 2, 3], "run.steps": [100_000_000]}}
try:
    orrery.{call}
except KeyboardInterrupt:
    print("interrupted", orrery.simulate(S, run__steps=3).steps_completed)
"""
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        worker_of(process.pid)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (out, process.returncode) == ("interrupted 3\n", 0), error


def test_a_policy_class_is_not_a_policy():
    class Mine(orrery.Policy):
        pass

    with pytest.raises(TypeError, match=r"Mine\(\), not the class"):
        orrery.simulate(STRAGGLER, policy=Mine)


def test_the_same_scenario_runs_on_real_processes():
    report = orrery.live(STRAGGLER, run__steps=3, policy="static")
    assert report.mode == "live" and report.steps_completed == 3
    assert report.losses.shape == (3,) and report.losses[-1] < report.losses[0]
    assert len(report.parameters_sha256) == 64
    assert report.micro_batches_lost == report.micro_batches_repeated == 0
