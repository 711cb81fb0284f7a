"""A slow log reader, a slow disk and a hanging hook together delay no step of a live run."""

import array
import contextlib
import fcntl
import json
import os
import statistics
import subprocess
import termios
import threading

import pytest
from conftest import BRISK, BUILD, PROGRAM, STRAGGLER, alive, orrery, wait_until

SHIM = BUILD / "tests" / "libslow_disk.so"
# A step takes ten micro-batches of the slow rank, 0.6 s.
RUN = [PROGRAM, "live", STRAGGLER, "--json"]
RUN += ["--set", "run.steps=8", *BRISK]
RUN += ["--set", "faults=[{rank: 2, at_step: 0, slow: 3}]", "--set", "live.journal_tail=4 KiB"]
DELAY_MS = 500
MOST_LATE = 0.2  # Share of the median step without the faults.
ATTEMPTS = 3
F_SETPIPE_SZ, PIPE_BYTES = 1031, 4096  # a pipe cannot hold less


class SlowReader(contextlib.AbstractContextManager):
    """Reader of a pipe that takes 2.5 KB of the log in a second, until the run is over."""

    def __init__(self, path):
        os.mkfifo(path)
        self.file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(self.file, F_SETPIPE_SZ, PIPE_BYTES)
        self.full = 0  # looks at a pipe without room for a record
        self.is_slow = True
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        while not self.ended.wait(0.1 if self.is_slow else 0.001):
            waiting = array.array("i", [0])
            fcntl.ioctl(self.file, termios.FIONREAD, waiting)
            self.full += waiting[0] > PIPE_BYTES / 2
            with contextlib.suppress(BlockingIOError):
                os.read(self.file, 256 if self.is_slow else PIPE_BYTES)

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        os.close(self.file)


def begin(folder, *options, **environment):
    """Begins a run with checkpoints, which sync their files."""
    checkpoints = f"checkpoints={{folder: {folder}, every: 3}}"
    return subprocess.Popen(
        [*RUN, "--set", checkpoints, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def report_of(process):
    out, messages = process.communicate(timeout=120)
    assert process.returncode == 0, messages
    return json.loads(out)


def status_of(run):
    found = [each for each in json.loads(orrery("runs", "--json").stdout) if each["run"] == run]
    return found[0] if found else {}


def test_an_append_that_hangs_costs_the_takeover_and_not_the_run(tmp_path):
    hung, calls = tmp_path / "hung", tmp_path / "calls"
    shim = {"LD_PRELOAD": str(SHIM), "ORRERY_SLOW_DISK_LOG": str(calls)}
    run = begin(tmp_path / "checkpoints", ORRERY_HUNG_DISK=str(hung), **shim)
    name = wait_until(lambda: json.loads(orrery("runs", "--json").stdout))[0]["run"]
    wait_until(lambda: status_of(name).get("step", 0) >= 2)
    assert status_of(name)["without_takeover"] == ""
    hung.touch()
    reason = "the journal could not be written: no append within 2000 ms"
    try:
        wait_until(lambda: status_of(name)["without_takeover"] == reason)
        assert f"without takeover: {reason}" in orrery("status", name).stdout
    finally:
        hung.unlink()
    out, messages = run.communicate(timeout=120)
    report = json.loads(out)
    assert run.returncode == 0 and report["steps_completed"] == 8, messages
    assert calls.read_text().count("write") == 1, "the only append that hung"
    at_once = [line for line in messages.splitlines() if line.startswith("orrery-live: warning")]
    assert len(at_once) == 1 and at_once[0].endswith(reason), messages
    assert any(reason in warning for warning in report["warnings"])
    times = report["step_times_s"][1:]
    late = [time for time in times if time > statistics.median(times) + 1]
    assert len(late) <= 1, report["step_times_s"]  # the step that waited for the append


CASES = {
    # Decisions that wait for a hook's answer; such a run has no journal.
    "approved": ("--mode", "approve", "--hook-timeout", "2", "--hook"),
    # A journal that is rewritten several times a second.
    "rewritten": ("--mode", "shadow"),
}


@pytest.mark.parametrize("case", CASES)
def test_slow_files_and_hooks_delay_no_step(case, tmp_path):
    # A busy machine delays a step now and then; a control loop that waits for a file delays steps
    # in each attempt.
    late = []
    while len(late) < ATTEMPTS and (not late or late[-1]):
        late.append(late_steps(case, tmp_path / str(len(late))))
    assert late[-1] == [], late


def late_steps(case, folder):
    """Returns the times of the steps that were late, in seconds."""
    folder.mkdir()
    calls, pipe, begun = folder / "calls", folder / "log", folder / "begun"
    options = list(CASES[case])
    if case == "approved":
        options.append(f"echo $$ >> {begun}; sleep 1000; true")
    shim = {"LD_PRELOAD": str(SHIM), "ORRERY_SLOW_DISK_LOG": str(calls)}
    with SlowReader(pipe) as reader:
        calm = begin(folder / "calm", "--mode", "shadow")
        slow = begin(
            folder / "slow", *options, "--record", pipe, **shim, ORRERY_SLOW_DISK_MS=str(DELAY_MS)
        )
        without = report_of(calm)
        reader.is_slow = False
        under = report_of(slow)
    median = statistics.median(without["step_times_s"][1:])
    print(f"{case}: median {median:.3f} s, steps under faults:", under["step_times_s"])
    # The faults happened.
    delayed = calls.read_text().splitlines()
    assert sum(line.startswith("rename") and line.endswith("status.json") for line in delayed) >= 3
    assert sum(line.startswith("fsync") for line in delayed) >= 3
    assert reader.full >= 10
    if case == "approved":
        assert not any(alive(int(hook)) for hook in begun.read_text().split())
        assert any("got none" in line for line in under["warnings"]), under["warnings"]
    else:
        assert sum(line.endswith("/journal") for line in delayed) >= 3
    assert under["steps_completed"] == without["steps_completed"] == 8
    return [time for time in under["step_times_s"][1:] if time > (1 + MOST_LATE) * median]
