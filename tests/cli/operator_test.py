"""Handing control over: shadow, approve, limits, the kill switch, in both worlds."""

import json
import os
import pathlib
import pty
import signal
import subprocess
import time

import pytest
from conftest import (
    BRISK,
    EXAMPLES,
    PROGRAM,
    STRAGGLER,
    alive,
    children_of,
    orrery,
    parts_of,
    wait_until,
)

WORLDS = {
    "simulate": ("simulate", STRAGGLER),
    "live": ("live", STRAGGLER, "--set", "run.steps=16", *BRISK),
}


def report_of(world, *options):
    result = orrery(*WORLDS[world], "--json", *options)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("world", WORLDS)
def test_a_shadow_decides_and_changes_nothing(world, tmp_path):
    log = tmp_path / "log"
    report = report_of(world, "--mode", "shadow", "--record", log)
    shares = report["hand_over"]
    assert report["decisions"] == shares["only_watched"] >= 1
    assert shares["passed_on"] == 0
    assert shares["shadow"]["scored"] >= 1 and shares["shadow"]["steps"] >= 1
    if world == "simulate":  # live speeds vary on a busy machine
        assert shares["shadow"]["better"] == shares["shadow"]["scored"]
        assert shares["shadow"]["as_decided_s"] < shares["shadow"]["as_it_was_s"]
    # Nothing was applied: the straggler takes three times as long to the end, and no pace ends
    # early.
    pace = 0.040 if world == "simulate" else 0.020
    assert report["step_times_s"][-1] > 0.9 * 10 * 3 * pace
    assert orrery("replay", log).returncode == 0


@pytest.mark.parametrize("world", WORLDS)
def test_a_hook_is_asked_and_its_yes_is_applied(world, tmp_path):
    asked, log = tmp_path / "asked", tmp_path / "log"
    hook = tmp_path / "hook"
    hook.write_text(f'#!/bin/sh\necho asked\nprintf "%s\\n" "$1" >> {asked}\n')
    hook.chmod(0o755)
    report = report_of(world, "--mode", "approve", "--hook", hook, "--record", log)
    assert report["hand_over"]["passed_on"] == report["decisions"] >= 1
    question = json.loads(asked.read_text().splitlines()[0])
    assert question["what"].startswith("Configure{job 0: shares ")
    assert "micro-batches" in question["why"]
    if world == "simulate":
        assert report["decisions"] == 1 and report["step_times_s"][-1] < 0.7
    assert orrery("replay", log).returncode == 0


EVACUATE = """
import orrery
from orrery import actions, events


class Evacuate(orrery.Policy):
    def needs(self):
        return orrery.Needs(actions=["Assign"])

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.RanksLost):
                where = seen.jobs[event.job].without_lost()
                assign = actions.Assign(event.job, where.gpus, where.layout, state="peer")
                decisions.add(assign, why="the rest goes on")
"""


@pytest.mark.parametrize("world", ["simulate", "live"])
@pytest.mark.parametrize("answer, passed_on", [("true", 1), ("sleep 1; exit 3;", 0)])
def test_a_hook_answers_the_policy_of_a_file(world, answer, passed_on, tmp_path):
    file, log = tmp_path / "evacuate.py", tmp_path / "log"
    file.write_text(EVACUATE)
    result = orrery(
        world, EXAMPLES / "kill-one-rank.yaml", "--json", "--set", "run.steps=40",
        "--policy", file, "--mode", "approve", "--hook", answer, "--record", log,
    )  # fmt: skip
    # Refused: the job goes on with a missing rank, which only a live run tells by its exit code.
    assert result.returncode == (6 if world == "live" and not passed_on else 0), result.stderr
    hand_over = json.loads(result.stdout)["hand_over"]
    assert (hand_over["passed_on"], hand_over["refused"]) == (passed_on, 1 - passed_on)
    assert orrery("replay", log, "--policy", file).returncode == 0


@pytest.mark.parametrize("world", ["simulate", "live"])
def test_a_shrink_that_is_approved_late_is_a_shrink(world):
    result = orrery(
        world, EXAMPLES / "kill-one-rank.yaml", "--json", "--set", "run.steps=40",
        "--set", "policies[0].parameters.how=shrink",
        "--mode", "approve", "--hook", "sleep 5; true",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["hand_over"]["passed_on"] == report["decisions"] == 1
    assert report["steps_completed"] == 40
    assert report["micro_batches_lost"] == report["micro_batches_repeated"] == 0
    assert [failure.get("replaced_s") for failure in report["failures"]] == [None]


def test_a_hook_that_says_no():
    report = report_of("simulate", "--mode", "approve", "--hook", "exit 7;")
    assert report["hand_over"]["passed_on"] == 0
    assert report["hand_over"]["refused"] == report["decisions"] >= 1


def commands_with(mark):
    """Command lines of the living processes that contain `mark`, without this one's."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if mark in line and alive(int(entry.name)):
            found.append(line)
    return found


@pytest.mark.parametrize("world", WORLDS)
def test_a_hook_that_hangs_is_a_no_and_leaves_nothing(world, tmp_path):
    mark = f"{tmp_path.name}-{os.getpid()}-{world}"
    hook = tmp_path / f"hook-{mark}"
    # It is deaf to SIGTERM, and so is the program that it starts.
    hook.write_text(
        "#!/bin/sh\ntrap '' TERM\n"
        f"exec 2>&-; python3 -c 'import time; time.sleep(600)' {mark} & wait\n"
    )
    hook.chmod(0o755)
    result = orrery(
        *WORLDS[world], "--json", "--mode", "approve", "--hook", hook, "--hook-timeout", "0.5",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert commands_with(mark) == []
    report = json.loads(result.stdout)
    shares = report["hand_over"]
    assert shares["passed_on"] == 0
    assert shares["refused"] == shares["unanswered"] == report["decisions"] >= 1
    assert any("--hook: " in warning for warning in report["warnings"]), report["warnings"]


def test_hooks_run_four_at_a_time_and_end_with_the_run(tmp_path):
    mark = f"{tmp_path.name}-{os.getpid()}"
    started = tmp_path / "started"
    hook = tmp_path / f"hook-{mark}"
    hook.write_text(f"#!/bin/sh\necho started >> {started}\nexec sleep 600 # {mark}\n")
    hook.chmod(0o755)
    # None of the decisions is answered before the end.
    result = orrery(
        *WORLDS["live"], "--json", "--mode", "approve", "--hook", hook,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["hand_over"]["unanswered"] == report["decisions"] >= 1
    assert len(started.read_text().splitlines()) == min(report["decisions"], 4)
    assert commands_with(mark) == []
    assert any("at the end of the run" in warning for warning in report["warnings"])


def test_at_most_so_many_decisions_an_hour():
    ramp = EXAMPLES / "ramp-4-ranks.yaml"
    free = json.loads(orrery("simulate", ramp, "--json").stdout)
    held = json.loads(orrery("simulate", ramp, "--json", "--decisions-per-hour", "1").stdout)
    assert free["decisions"] > 1
    assert held["hand_over"]["passed_on"] == 1
    assert held["hand_over"]["over_the_limit"] >= 1


def test_the_kill_switch_is_a_file(tmp_path):
    switch = tmp_path / "halt"
    switch.touch()
    report = report_of("simulate", "--kill-switch", switch)
    assert report["hand_over"]["passed_on"] == 0
    assert report["hand_over"]["stopped"] == report["decisions"] >= 1


def test_a_kill_switch_that_cannot_be_looked_at_counts_as_thrown(tmp_path):
    switch, hook = tmp_path / "halt", tmp_path / "hook"
    # While somebody is asked, the switch becomes a link to itself.
    hook.write_text(f"#!/bin/sh\nln -s halt {switch}\n")
    hook.chmod(0o755)
    result = orrery(
        "simulate", EXAMPLES / "ramp-4-ranks.yaml", "--json", "--kill-switch", switch,
        "--mode", "approve", "--hook", hook,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    shares = json.loads(result.stdout)["hand_over"]
    assert shares["passed_on"] == 1 and shares["stopped"] >= 1
    refused = orrery("simulate", STRAGGLER, "--kill-switch", switch)
    assert refused.returncode == 2
    assert f"--kill-switch: expected the name of a file, existing or not, got '{switch}'" in (
        refused.stderr
    )


def test_the_kill_switch_is_a_signal():
    command = [PROGRAM, *WORLDS["live"], "--json", "--set", "faults[0].at_step=4"]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    wait_until(lambda: len(children_of(process.pid)) == 1)
    worker = children_of(process.pid)[0]
    wait_until(lambda: len(parts_of(worker, "agent")) == 4)
    process.send_signal(signal.SIGUSR1)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    report = json.loads(out)
    assert report["steps_completed"] == 16
    assert report["hand_over"]["stopped"] + report["hand_over"]["passed_on"] == report["decisions"]
    assert report["hand_over"]["stopped"] >= 1


def test_somebody_at_the_terminal_says_yes():
    controller, terminal = pty.openpty()
    command = [PROGRAM, *WORLDS["simulate"], "--json", "--mode", "approve"]
    process = subprocess.Popen(
        list(map(str, command)), stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    time.sleep(0.2)
    os.write(controller, b"yes\n" * 3)
    out, questions = process.communicate(timeout=60)
    assert process.returncode == 0, questions
    assert "apply it? [y/N]" in questions and "rank 2" in questions
    assert json.loads(out)["hand_over"]["passed_on"] == 1


def test_without_anybody_to_ask_it_is_a_usage_error():
    result = subprocess.run(
        [PROGRAM, "live", STRAGGLER, "--mode", "approve"], stdin=subprocess.DEVNULL,
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 2
    assert "--hook" in result.stderr
