"""Runs: reports, policies by name, interruption."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import BUILD, ENDLESS, EXAMPLES, STRAGGLER, worker_of

import orrery


def test_a_report_has_what_the_command_line_prints():
    report = orrery.simulate(STRAGGLER)
    values = report.to_dict()
    assert report.steps_completed == values["steps_completed"] == 40
    assert report.step_times.shape == (40,)
    assert np.median(report.step_times) == pytest.approx(report.step_time_s, rel=0.02)
    assert report.parameters_sha256 is None and report.losses.shape == (0,)
    assert len(report.summary().splitlines()) == 13
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


def test_a_report_shows_what_a_planner_reads():
    page = orrery.simulate(EXAMPLES / "llama3-70b-512-h100.yaml")._repr_html_()
    for said in (
        "58.3 GiB", "1.28 h", "4.59 s", "40.5%", "share: compute", "74.0%", "751.8 kWh",
        "1,959.75 USD", "457,039 tokens/s",
    ):  # fmt: skip
        assert said in page, said
    assert "<svg" not in page  # a single simulated step is no curve
    assert "None" not in page


def test_a_report_shows_the_uses_of_lost_time_and_a_small_utilization():
    page = orrery.simulate(EXAMPLES / "month-10k-h100.yaml", run__steps=100)._repr_html_()
    assert "share: lost, checkpoints" in page and "share: lost, idle" not in page
    page = orrery.simulate(STRAGGLER, run__steps=5)._repr_html_()
    assert "below 0.1%" in page and "share: lost, " not in page
    live = orrery.live(STRAGGLER, run__steps=3)._repr_html_()
    assert "share: other (communication, pauses, lost steps)" in live
    assert "share: lost" not in live and "bubble" not in live


def test_a_job_without_a_software_stack_says_that_its_step_is_too_fast():
    main = orrery.load(EXAMPLES / "llama3-70b-512-h100.yaml")
    plain = orrery.simulate(main, job__stack="generic")
    assert plain.step_time_s < orrery.simulate(main).step_time_s
    (said,) = plain.warnings
    assert "job.stack" in said and "nemo" in said
    assert "job.stack" in plain._repr_html_()
    assert orrery.simulate(main).warnings == [] == orrery.simulate(STRAGGLER).warnings


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


def interrupted(process):
    """Returns the output after an interrupt. Python drops an interrupt that arrives while it cleans
    up after an import (an exception in a weak reference's callback): then the test interrupts
    again."""
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=30)
    return process.communicate(timeout=30)


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
        out, error = interrupted(process)
    finally:
        process.kill()
    assert (out, process.returncode) == ("interrupted 3\n", 0), error


def test_a_policy_class_stands_for_a_new_object():
    class Mine(orrery.Policy):
        def observe(self, seen, decisions):
            decisions.note("calls", 1)

    report = orrery.simulate(STRAGGLER, policy=Mine, run__steps=2)
    assert report.decision_trace_sha256 == orrery.simulate(
        STRAGGLER, policy=Mine(), run__steps=2).decision_trace_sha256  # fmt: skip
    with pytest.raises(TypeError, match="a policy is a name, a dict, an orrery.Policy or its"):
        orrery.simulate(STRAGGLER, policy=3)


def test_the_same_scenario_runs_on_real_processes():
    report = orrery.live(STRAGGLER, run__steps=3, policy="static")
    assert report.mode == "live" and report.steps_completed == 3
    assert report.losses.shape == (3,) and report.losses[-1] < report.losses[0]
    assert len(report.parameters_sha256) == 64
    assert report.micro_batches_lost == report.micro_batches_repeated == 0


def test_a_timeline_is_not_written_under_another_formats_name(tmp_path):
    with pytest.raises(orrery.UsageError, match="pftrace"):
        orrery.simulate(STRAGGLER, timeline=tmp_path / "t.json")
    assert list(tmp_path.iterdir()) == []
    orrery.simulate(STRAGGLER, timeline=tmp_path / "t.pftrace")
    assert (tmp_path / "t.pftrace").stat().st_size > 1000


def test_a_hook_says_yes_or_no_to_what_built_in_policies_decide(tmp_path):
    asked = []

    def hook(action, why, now):
        asked.append((action, why, now))
        return "not on a Sunday" if len(asked) > 1 else True

    log = tmp_path / "log"
    policy = "predictive-rebalance"
    approved = orrery.live(STRAGGLER, policy=policy, mode="approve", hook=hook, record=log)
    action, why, now = asked[0]
    assert isinstance(action, orrery.actions.Configure) and action.job == 0
    assert sum(action.what.per_replica) == 40 and why and now > 0
    assert approved.hand_over["passed_on"] == 1
    assert approved.hand_over["refused"] == len(asked) - 1


class Relieves(orrery.Policy):
    """Asks for the same shares after each of the first steps, and remembers the answers."""

    def __init__(self):
        self.answers = []

    def needs(self):
        return orrery.Needs(settings=["Shares"])

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, orrery.events.Decided):
                self.answers.append((event.status, event.reason))
            elif isinstance(event, orrery.events.StepsDone) and event.last < 3:
                shares = orrery.settings.Shares([11, 11, 7, 11])
                decisions.configure(0, shares, why=f"after step {event.last}")


def test_a_hook_answers_a_policy_in_python(tmp_path):
    asked = []

    def hook(action, why, now):
        asked.append(why)
        return True if len(asked) == 2 else "not on a Sunday"

    log, policy = tmp_path / "log", Relieves()
    short = {"run.steps": 12, "job.pace.micro_batch": "40 ms"}
    report = orrery.live(
        STRAGGLER, policy=policy, mode="approve", hook=hook, record=log, overrides=short
    )
    assert asked == ["after step 0", "after step 1", "after step 2"]
    assert (report.hand_over["passed_on"], report.hand_over["refused"]) == (1, 2)
    refusals = [reason for status, reason in policy.answers if status == "rejected"]
    assert len(policy.answers) == 3 and len(refusals) == 2
    assert all("not on a Sunday" in reason for reason in refusals)
    assert orrery.replay(log, policy=Relieves()).identical


class Dozes(orrery.Policy):
    """Sleeps for several steps in every call, and decides after the first ones."""

    def needs(self):
        return orrery.Needs(settings=["Shares"])

    def observe(self, seen, decisions):
        time.sleep(1.5)
        if any(isinstance(event, orrery.events.StepsDone) for event in seen.events):
            decisions.configure(0, orrery.settings.Shares([11, 11, 7, 11]))


def test_shadow_decides_and_neither_changes_nor_delays_a_step():
    short = {"run.steps": 10, "job.pace.micro_batch": "20 ms", "job.sequence_length": 8}
    report = orrery.live(STRAGGLER, policy=Dozes(), mode="shadow", overrides=short)
    assert report.hand_over["passed_on"] == 0 and report.decisions > 0
    # Steps of 0.2 s; a call on the path of every second one makes the median 0.95 s.
    assert np.median(report.step_times) < 0.8


@pytest.mark.parametrize(
    "given, said",
    [
        ({"mode": "drift"}, "'drive', 'shadow' or 'approve', not 'drift'"),
        ({"mode": "approve"}, "a hook that answers"),
        ({"hook": print}, "a hook that answers"),
        ({"limit": 0}, "at least one decision an hour, not 0"),
        ({"fabric": "pigeons"}, "'grpc' or 'nccl', not 'pigeons'"),
        ({"ranks": 0}, "at least 1, not 0"),
    ],
)
def test_orders_that_make_no_sense(given, said):
    with pytest.raises(ValueError, match=said):
        orrery.live(STRAGGLER, **given)
