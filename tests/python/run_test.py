"""Runs, reports, overrides, and how a run can end badly without taking Python along."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import yaml_text
from conftest import BUILD, STRAGGLER, worker_of

import orrery

ENDLESS = {"overrides": {"run.steps": 100_000_000}, "detail": "full"}


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


def test_every_form_of_a_scenario_is_the_same():
    text = STRAGGLER.read_text()
    hashes = {
        orrery.load(form).hash
        for form in (STRAGGLER, str(STRAGGLER), text, yaml_text.parse(text))
    }
    assert len(hashes) == 1


def test_overrides():
    loaded = orrery.load(STRAGGLER, {"job.global_batch": 80}, run__steps=np.int64(7))
    assert loaded.steps == 7 and loaded.ranks == 4
    assert loaded.to_dict()["job"]["global_batch"] == 80
    assert orrery.simulate(loaded, run__steps=5).steps_completed == 5


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


def test_input_errors_have_their_place():
    text = STRAGGLER.read_text().replace("global_batch", "globel_batch")
    with pytest.raises(orrery.InputError, match="did you mean 'global_batch'") as caught:
        orrery.simulate(text)
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "globel" in row)
    assert (caught.value.file, caught.value.line, caught.value.column) == ("<text>", line, 3)
    assert isinstance(caught.value, orrery.Error) and caught.value.exit_code == 3
    assert [problem.line for problem in orrery.check(text)] == [line]
    assert orrery.check(STRAGGLER) == []


@pytest.mark.parametrize("wrong", [float("nan"), None, [1], {"a": 1}])
def test_a_dict_is_checked_like_a_file(wrong):
    scenario = yaml_text.parse(STRAGGLER.read_text())
    scenario["job"]["global_batch"] = wrong
    with pytest.raises(orrery.InputError):
        orrery.load(scenario)


def test_a_missing_file_is_an_input_error(tmp_path):
    with pytest.raises(orrery.InputError, match="none.yaml") as caught:
        orrery.simulate(tmp_path / "none.yaml")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_a_killed_worker_leaves_python_alive():
    def kill():
        os.kill(worker_of(os.getpid()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(orrery.WorkerDied, match="signal 9"):
        orrery.simulate(STRAGGLER, **ENDLESS)
    killer.join()
    assert orrery.simulate(STRAGGLER, run__steps=3).steps_completed == 3


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


def test_replay(tmp_path):
    log = tmp_path / "log"
    report = orrery.simulate(STRAGGLER, record=log)
    same = orrery.replay(log)
    assert same.identical and same.decisions == report.decisions > 0
    assert same.decision_trace_sha256 == report.decision_trace_sha256
    changed = orrery.replay(log, {"predictive-rebalance.gain_threshold": 9})
    assert not changed.identical and changed.first_difference


def test_jobs(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_s,num_gpus,duration_s,vc\n1,0,2,100,a\n2,0,2,10,a\n")
    fifo = orrery.jobs(trace, nodes=1, gpus_per_node=2)
    sjf = orrery.jobs(trace, nodes=1, gpus_per_node=2, policy="sjf")
    assert (fifo.jobs_in, fifo.jobs_out, fifo.makespan_s) == (2, 2, 110)
    assert (fifo.jct_mean_s, sjf.jct_mean_s) == (105, 60)
    assert "2 jobs" in repr(sjf) and sjf.to_dict()["utilization"] == 1
    with pytest.raises(orrery.Error, match="sjf"):
        orrery.jobs(trace, nodes=1, gpus_per_node=2, policy="sjff")
