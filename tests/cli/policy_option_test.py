"""--policy: registered policies, and policies of a Python file, in place of a scenario's."""

import json
import os
import signal
import subprocess

import pytest
from conftest import (
    BRISK, EXAMPLES, PROGRAM, STRAGGLER, alive, children_of, orrery, wait_until,
)  # fmt: skip

SHIFT = """
import orrery
from orrery import events, settings


class Shift(orrery.Policy):
    def needs(self):
        return orrery.Needs(settings=["Shares"])

    def observe(self, seen, decisions):
        print("a line of the policy")
        for event in seen.events:
            if isinstance(event, events.StepsDone) and event.last == 3:
                shares = settings.Shares([12, 12, 4, 12])
                decisions.configure(0, shares, at_step=5, why=str(self.rng.random()))
                decisions.note("slow rank", 2)
"""
FAILS = """
import orrery


class Fails(orrery.Policy):
    def observe(self, seen, decisions):
        if seen.now > 1:
            self.slip()
"""
FIFO = """
import orrery
from orrery import actions


class First(orrery.Policy):
    def needs(self):
        return orrery.Needs(actions=["Assign"])

    def observe(self, seen, decisions):
        free = list(seen.state.free_gpus)
        for job in seen.jobs.values():
            if job.phase != "waiting" or job.spec.gpus > len(free):
                continue
            decisions.add(actions.Assign(job, [free.pop(0) for _ in range(job.spec.gpus)]))
"""


@pytest.fixture
def policy(tmp_path):
    def write(text, name="mine.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_a_name_replaces_the_policies_of_the_scenario():
    own = json.loads(orrery("simulate", STRAGGLER, "--json").stdout)
    none = json.loads(orrery("simulate", STRAGGLER, "--json", "--policy", "static").stdout)
    assert own["decisions"] > 0 and none["decisions"] == 0
    two = orrery("simulate", STRAGGLER, "--policy", "predictive-rebalance", "--policy", "recover")
    assert two.returncode == 0, two.stderr


def test_an_unknown_name_has_a_nearest_one():
    result = orrery("simulate", STRAGGLER, "--policy", "recovr")
    assert result.returncode == 2 and "did you mean 'recover'" in result.stderr
    result = orrery("live", "--jobs", "x.csv", "--nodes", 1, "--gpus-per-node", 1,
                    "--policy", "fifi")  # fmt: skip
    assert result.returncode == 2 and "did you mean 'fifo'" in result.stderr


def test_a_policy_of_a_file_decides_and_its_log_tells_how_to_replay_it(policy, tmp_path):
    file, log = policy(SHIFT), tmp_path / "log"
    result = orrery("simulate", STRAGGLER, "--policy", file, "--record", log, "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)  # lines of the policy go to the other stream
    assert report["decisions"] == 1 and report["notes"] == 1
    assert "a line of the policy" in result.stderr
    refused = orrery("replay", log)
    assert refused.returncode == 3
    command = f"orrery replay {log} --policy {file}"
    assert f"`{command}`" in refused.stderr
    replayed = orrery(*command.split()[1:], "--json")
    assert json.loads(replayed.stdout)["identical"], replayed.stderr
    file.write_text(SHIFT.replace("[12, 12, 4, 12]", "[11, 11, 7, 11]"))
    other = orrery("replay", log, "--policy", f"{file}:Shift")
    assert other.returncode == 1 and "first difference" in other.stderr


def test_a_policy_of_a_file_decides_beside_a_registered_one(policy):
    result = orrery("simulate", EXAMPLES / "kill-one-rank.yaml", "--policy", policy(SHIFT),
                    "--policy", "recover", "--json")  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["decisions"] >= 2


def test_an_exception_has_its_place_and_static_goes_on(policy, tmp_path):
    file, log = policy(FAILS), tmp_path / "log"
    stopped = orrery("simulate", STRAGGLER, "--policy", file)
    assert stopped.returncode == 3
    assert f"{file}:8:1: error: AttributeError" in stopped.stderr
    assert "Traceback" in stopped.stderr
    given = ["--policy", file, "--on-policy-error", "static", "--record", log, "--json"]
    result = orrery("simulate", STRAGGLER, *given)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["steps_completed"] == 40
    assert f"{file}:8: AttributeError" in report["hand_over"]["policy_failure"]
    replayed = orrery("replay", log, "--policy", file)
    assert replayed.returncode == 0, replayed.stderr


@pytest.mark.parametrize("text, suffix, expected", [
    ("def x(:", "", "1:1: error: SyntaxError"),
    ("import orrery\nimport nowhere", "", "2:1: error: ModuleNotFoundError"),
    ("import orrery", "", "error: expected one class derived from orrery.Policy, found no policy"),
    (SHIFT + FAILS, "", "found Shift, Fails: choose one with --policy"),
    (SHIFT, ":Shifty", "expected the class Shifty derived from orrery.Policy, found Shift"),
    (FAILS + "\n    def __init__(self, much):\n        pass", "",
     "5:1: error: expected a policy that is made without arguments, found Fails(much)"),
])  # fmt: skip
def test_a_bad_file_is_bad_input_with_its_place(policy, text, suffix, expected):
    file = policy(text)
    result = orrery("simulate", STRAGGLER, "--policy", f"{file}{suffix}")
    assert result.returncode == 3, result.stderr
    assert f"{file}:" in result.stderr and expected in result.stderr


def test_a_file_that_is_not_there_is_bad_input():
    result = orrery("simulate", STRAGGLER, "--policy", "nowhere.py")
    assert result.returncode == 3
    assert "nowhere.py:1:1: error: cannot be read: No such file" in result.stderr


@pytest.mark.parametrize("python", ["/nowhere/python", None])
def test_a_python_without_the_package_is_an_environment_error(policy, tmp_path, python):
    if python is None:  # one whose imports fail
        python = tmp_path / "python"
        python.write_text("#!/bin/sh\nexit 64\n")
        python.chmod(0o755)
    result = subprocess.run(
        [PROGRAM, "simulate", STRAGGLER, "--policy", policy(SHIFT)],
        env={**os.environ, "ORRERY_PYTHON": str(python)}, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 4
    assert "pip install orrery" in result.stderr and "ORRERY_PYTHON" in result.stderr


def test_futures_take_the_policy_of_a_file_and_changes_refuse_it(policy, tmp_path):
    file = policy(SHIFT)
    result = orrery(
        "simulate", STRAGGLER, "--policy", file, "--futures", 2, "--at", "1s", "--json"
    )
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)["futures"]) == 2
    result = orrery("replay", "any.log", "--policy", file, "--set", "recover.how=shrink")
    assert result.returncode == 2


def test_a_live_run_has_the_policy_of_a_file(policy, tmp_path):
    log = tmp_path / "log"
    result = orrery("live", STRAGGLER, "--policy", policy(SHIFT), "--record", log, "--json",
                    "--set", "run.steps=8", "--set", "job.global_batch=20", *BRISK)  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["decisions"] == 1
    assert orrery("replay", log, "--policy", tmp_path / "mine.py").returncode == 0


def test_job_traces_are_scheduled_by_the_policy_of_a_file(policy, tmp_path):
    trace, log, file = tmp_path / "jobs.csv", tmp_path / "log", policy(FIFO)
    trace.write_text("job_id,submit_s,num_gpus,duration_s\na,0,2,60\nb,1,2,60\nc,2,1,30\n")
    cluster = ["--nodes", 1, "--gpus-per-node", 3]
    result = orrery("jobs", trace, *cluster, "--policy", file, "--json", "--record", log)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["jobs_out"] == 3
    refused = orrery("replay", log)
    assert refused.returncode == 3 and f"--policy {file}" in refused.stderr
    assert orrery("replay", log, "--policy", file).returncode == 0


def test_policies_are_compared_side_by_side(policy):
    result = orrery("compare-policies", STRAGGLER, "--policies", f"static,{policy(SHIFT)}",
                    "--json")  # fmt: skip
    static, shift = json.loads(result.stdout)
    assert shift["step_time_s"] < static["step_time_s"]


ANYWHERE = [
    (SHIFT, ["simulate", STRAGGLER, "--policy", "FILE"]),
    (SHIFT, ["live", STRAGGLER, "--policy", "FILE", "--mode", "shadow"]),
    (SHIFT, ["simulate", STRAGGLER, "--policy", "FILE", "--mode", "approve", "--hook", "true"]),
    (SHIFT, ["compare-policies", STRAGGLER, "--policies", "FILE"]),
    (FIFO, ["jobs", "TRACE", "--policy", "FILE"]),
    (FIFO, ["explain", "TRACE", "--job", "b", "--policy", "FILE"]),
    (FIFO, ["live", "--jobs", "TRACE", "--policy", "FILE", "--for", 200]),
]


@pytest.mark.parametrize("text, command", ANYWHERE)
@pytest.mark.parametrize("suffix", ["", ":CLASS"])
def test_a_file_is_taken_wherever_a_policy_has_a_name(policy, text, command, suffix, tmp_path):
    trace = tmp_path / "jobs.csv"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\na,0,2,60\nb,1,2,60\n")
    file = f"{policy(text)}{suffix.replace('CLASS', 'First' if text is FIFO else 'Shift')}"
    words = [{"FILE": file, "TRACE": trace}.get(word, word) for word in command]
    if trace in words:
        words += ["--nodes", 1, "--gpus-per-node", 3]
    else:
        words += ["--set", "run.steps=8", *BRISK]
    result = orrery(*words)
    assert result.returncode == 0, result.stdout + result.stderr
    nowhere = [str(word).replace(str(file), "nowhere.py") for word in words]
    refused = orrery(*nowhere)
    assert refused.returncode == 3 and "nowhere.py:1:1: error: cannot be read" in refused.stderr


def test_a_wait_is_explained_under_the_policy_of_a_file(policy, tmp_path):
    trace = tmp_path / "jobs.csv"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\na,0,2,60\nb,1,2,60\n")
    given = ["explain", trace, "--nodes", 1, "--gpus-per-node", 3, "--job", "b", "--policy"]
    own, fifo = orrery(*given, policy(FIFO)), orrery(*given, "fifo")
    assert "it waited 59 s" in own.stdout and "it waited 59 s" in fifo.stdout


def test_an_interrupt_ends_a_policy_that_does_not_answer(policy):
    file = policy(SHIFT.replace('print("a line of the policy")', "import time; time.sleep(1000)"))
    process = subprocess.Popen([PROGRAM, "simulate", STRAGGLER, "--policy", file],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    try:
        children = wait_until(lambda: len(found := children_of(process.pid)) == 2 and found)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        wait_until(lambda: not any(alive(child) for child in children))
    finally:
        process.kill()
        process.communicate()
