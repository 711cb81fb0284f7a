"""Policies that take their time: accounted, limited, and in shadow mode never waited for."""

import json
import re
import signal
import statistics
import subprocess
import time

import pytest
from conftest import PROGRAM, STRAGGLER, alive, children_of, orrery, wait_until

POLICIES = """
import time

import orrery


class Slow(orrery.Policy):
    def observe(self, seen, decisions):
        time.sleep(0.5)


class Hang(orrery.Policy):
    def observe(self, seen, decisions):
        time.sleep(1000)


class HangLater(orrery.Policy):
    def needs(self):
        return orrery.Needs(settings=["Shares"])

    def observe(self, seen, decisions):
        if seen.now > 0.5:
            time.sleep(1000)
"""
# Short steps that compute little: slow machines keep their pace, too.
SHORT = ("--set", "run.steps=10", "--set", "job.pace.micro_batch=10 ms",
         "--set", "job.sequence_length=16")  # fmt: skip
NONE = r"expected an answer of the policy '\S+:Hang\w*' within 0.5 s, found none"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(POLICIES)
    return path


@pytest.mark.parametrize("world", ["simulate", "live"])
def test_a_call_without_an_answer_is_an_error_of_the_policy(file, world, tmp_path):
    log = tmp_path / "log"
    given = [world, STRAGGLER, *SHORT, "--policy", f"{file}:HangLater", "--policy-timeout", "0.5"]
    result = orrery(*given, "--on-policy-error", "stop")
    assert result.returncode == 3 and re.search(NONE, result.stderr), result.stderr
    result = orrery(*given, "--on-policy-error", "static", "--record", log, "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["steps_completed"] == 10
    assert re.search(NONE, report["hand_over"]["policy_failure"])
    assert report["host"]["policy_time_max_s"] >= 0.5
    assert report["host"]["policy_time_s"] >= report["host"]["policy_time_max_s"]
    # A replay does not call the policy where the run gave it up.
    replay = orrery("replay", log, "--policy", f"{file}:HangLater", timeout=60)
    assert replay.returncode == 0 and replay.stdout.startswith("identical"), replay.stdout


def test_built_in_policies_are_accounted_too():
    report = json.loads(orrery("simulate", STRAGGLER, "--json").stdout)
    assert 0 < report["host"]["policy_time_max_s"] <= report["host"]["policy_time_s"] < 5


def test_a_shadow_is_never_on_the_path_of_a_step(file, tmp_path):
    medians, elapsed = {}, {}
    for policy in ("static", f"{file}:Slow", f"{file}:Hang"):
        log = tmp_path / "log"
        result = orrery("live", STRAGGLER, *SHORT, "--mode", "shadow", "--policy", policy, "--json",
                        "--record", log)  # fmt: skip
        assert result.returncode == 0, result.stderr
        report = json.loads(result.stdout)
        assert report["steps_completed"] == 10
        medians[policy] = statistics.median(report["step_times_s"])
        elapsed[policy] = report["elapsed_s"]
        replay = orrery("replay", log, "--policy", policy, timeout=60)
        assert replay.returncode == 0 and replay.stdout.startswith("identical"), replay.stdout
    # A call of 0.5 s on the path of every second step would add 0.25 s to the median.
    alone, slow, hanging = medians.values()
    assert slow < alone + 0.1 and hanging < alone + 0.1, medians
    # The run waits at most 5 s for the last answers.
    alone, slow, hanging = elapsed.values()
    assert slow < alone + 5 and hanging < alone + 5, elapsed


@pytest.mark.parametrize("mode", ["shadow", "drive"])
def test_status_names_who_owes_an_answer_and_stop_ends_the_run(file, mode):
    name = f"hangs-{mode}"
    process = subprocess.Popen(
        [PROGRAM, "live", STRAGGLER, "--set", "run.steps=1000", "--set", f"name={name}",
         "--mode", mode, "--policy", f"{file}:Hang", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    try:
        owes = wait_until(
            lambda: re.search(
                r"the policy '\S+:Hang' has owed an answer for \d+\.\d s(.*)",
                orrery("status", name).stdout,
            )
        )
        assert owes[1] == ("; the run does not wait for it" if mode == "shadow" else "")
        status = json.loads(orrery("status", name, "--json").stdout)
        assert status["policy_waiting_s"] >= 1 and status["policy_asked"].endswith(":Hang'")
        assert (status["step"] > 0) == (mode == "shadow")
        assert orrery("stop", name).returncode == 0
        children = children_of(process.pid)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 1, errors
        report = json.loads(output)
        assert "stopped by the operator" in report["unfinished"]
        assert "before the end of the run" in report["hand_over"]["policy_failure"]
        wait_until(lambda: not any(alive(child) for child in children))
    finally:
        process.kill()
        process.communicate()


def test_an_interrupt_ends_a_run_whose_policy_hangs(file):
    process = subprocess.Popen([PROGRAM, "live", STRAGGLER, "--policy", f"{file}:Hang"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    try:
        children = wait_until(lambda: len(found := children_of(process.pid)) == 2 and found)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=40) == 130
        wait_until(lambda: not any(alive(child) for child in children))
    finally:
        process.kill()
        process.communicate()
