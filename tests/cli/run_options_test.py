"""What all runs share: overrides, interruption, and death on either side."""

import json
import os
import signal
import time

from conftest import STRAGGLER, alive, orrery, wait_until


def test_set_changes_the_scenario():
    shorter = json.loads(orrery("simulate", STRAGGLER, "--json", "--set", "run.steps=12").stdout)
    assert shorter["steps_completed"] == 12


def test_seed_holds_beside_set_in_any_order():
    for arguments in (["--seed", "7", "--set", "run.steps=2"],
                      ["--set", "run.steps=2", "--seed", "7"]):  # fmt: skip
        report = json.loads(orrery("simulate", STRAGGLER, "--json", *arguments).stdout)
        assert (report["seed"], report["steps_completed"]) == (7, 2)


def test_a_bad_override_is_bad_input():
    result = orrery("simulate", STRAGGLER, "--set", "run.stepz=3")
    assert result.returncode == 3
    assert "steps" in result.stderr


def test_an_interrupt_ends_the_run(long_run):
    process, worker = long_run
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    assert process.stderr.read() == "interrupted\n"
    wait_until(lambda: not alive(worker))


def test_a_killed_worker_is_an_internal_error(long_run):
    process, worker = long_run
    os.kill(worker, signal.SIGKILL)
    assert process.wait(timeout=20) == 5
    assert "killed by signal 9" in process.stderr.read()


def test_a_killed_parent_leaves_no_orphan(long_run):
    process, worker = long_run
    time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=20)
    wait_until(lambda: not alive(worker))
