"""Common behaviour of all runs: overrides, interruption, and death on either side."""

import json
import os
import pty
import re
import signal
import stat
import subprocess
import time

import pytest
from conftest import EXAMPLES, PROGRAM, STRAGGLER, alive, orrery, wait_until


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
    assert process.wait(timeout=60) == 130
    assert process.stderr.read() == "interrupted\n"
    wait_until(lambda: not alive(worker))


@pytest.mark.parametrize("milliseconds", range(0, 40, 5))
def test_a_request_to_end_leaves_no_unfinished_log(tmp_path, milliseconds):
    """Interrupts during the start of controller, agents and handshakes."""
    process = subprocess.Popen(
        [PROGRAM, "live", STRAGGLER, "--record", tmp_path / "log"], stderr=subprocess.PIPE
    )
    wait_until(lambda: list(tmp_path.iterdir()))
    time.sleep(milliseconds / 1000)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[1] == b"interrupted\n"
    assert process.returncode == 143
    assert list(tmp_path.iterdir()) == []


def test_a_killed_worker_is_an_internal_error(long_run):
    process, worker = long_run
    os.kill(worker, signal.SIGKILL)
    assert process.wait(timeout=60) == 5
    assert "killed by signal 9" in process.stderr.read()


def test_a_killed_parent_leaves_no_orphan(long_run):
    process, worker = long_run
    time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    wait_until(lambda: not alive(worker))


def test_a_named_option_is_kept_beside_set():
    def seed_of(*options):
        result = orrery("simulate", STRAGGLER, "--json", *options)
        return json.loads(result.stdout)["seed"]

    assert seed_of("--seed", 7, "--set", "run.steps=4") == 7
    assert seed_of("--set", "run.steps=4", "--seed", 7) == 7
    assert seed_of("--seed", 7, "--set", "run.seed=3") == 7


def test_the_text_is_kept_beside_set(tmp_path):
    result = orrery("live", STRAGGLER, "--text", tmp_path / "none", "--set", "run.steps=2")
    assert result.returncode == 3
    assert "cannot read" in result.stderr


def test_a_seed_out_of_range_is_usage():
    for seed in ("-1", "9" * 30, "1.5"):
        result = orrery("simulate", STRAGGLER, "--seed", seed)
        assert (result.returncode, result.stdout) == (2, ""), seed
        assert seed in result.stderr


def test_what_the_run_finds_wrong_has_its_place():
    llama = EXAMPLES / "llama3-70b-512-h100.yaml"
    result = orrery("live", llama)
    assert result.returncode == 3
    assert re.match(rf"{re.escape(str(llama))}:\d+:\d+: error: job.model: ", result.stderr)
    result = orrery("simulate", llama, "--set", "cluster.node.gpu=A100-40GB")
    assert result.returncode == 3
    assert re.match(rf"{re.escape(str(llama))}:\d+:\d+: error: job.layout: out of", result.stderr)


def test_what_cannot_be_written_is_an_environment_error():
    for option in ("--record", "--timeline"):
        result = orrery("simulate", STRAGGLER, option, "/dev/full")
        assert (result.returncode, result.stdout) == (4, ""), option
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode), "a device was replaced by a log"
    with open("/dev/full", "w") as full:
        run = subprocess.run([PROGRAM, "simulate", STRAGGLER], stdout=full, stderr=subprocess.PIPE)
    assert run.returncode == 4
    assert b"standard output" in run.stderr


@pytest.mark.parametrize("terminal, shown", [("dumb", False), ("xterm", True)])
def test_the_progress_line_needs_a_terminal_that_can_rewrite_it(terminal, shown):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, "simulate", STRAGGLER, "--detail", "full", "--set", "run.steps=100000000"],
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": terminal},
    )
    os.close(theirs)
    text = b""
    if shown:
        while b"\x1b[Kstep " not in text:
            text += os.read(ours, 4096)
    else:
        time.sleep(3)  # a line would come after one
    process.send_signal(signal.SIGINT)
    try:
        while block := os.read(ours, 4096):
            text += block
    except OSError:  # a closed terminal
        pass
    os.close(ours)
    assert process.wait(timeout=60) == 130
    assert (b"\x1b[" in text) == shown
    assert text.endswith(b"interrupted\r\n")


@pytest.mark.parametrize(
    "setting, line",
    [
        ("job.layout.tensor=7", "tensor = 7 must divide"),  # across fields
        ("cluster.node.gpu=B20", "unknown GPU 'B20'"),  # error while presets are resolved
        ("faults=[{rank: 900, at_step: 1, kill: true}]", "there is no rank 900"),
    ],
)
def test_what_an_override_spoils_stands_in_the_override(setting, line):
    result = orrery("simulate", EXAMPLES / "llama3-70b-512-h100.yaml", "--set", setting)
    assert result.returncode == 3
    column = setting.index("=") + 2
    assert result.stderr.startswith(f"--set:1:{column}: error: {line}")
    assert f"\n  {setting}\n" in result.stderr


def test_a_text_that_is_not_there_stands_in_its_option():
    result = orrery("live", STRAGGLER, "--text", "/nowhere")
    assert result.returncode == 3
    assert result.stderr.startswith("--set:1:11: error: live.text: cannot read '/nowhere'")
