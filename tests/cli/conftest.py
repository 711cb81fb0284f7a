"""The command line as a user starts it."""

import atexit
import csv
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
PROGRAM = BUILD / "bin" / "orrery"
EXAMPLES = ROOT / "examples"
STRAGGLER = EXAMPLES / "straggler-4-ranks.yaml"
# Short micro-batches that compute little: ranks of a live run keep the pace on slow machines, too.
BRISK = ("--set", "job.pace.micro_batch=20 ms", "--set", "job.sequence_length=8")
# The runs of this test alone: others may run beside it.
os.environ["ORRERY_RUNS"] = tempfile.mkdtemp(prefix="orrery-tests-", dir="/tmp")
atexit.register(shutil.rmtree, os.environ["ORRERY_RUNS"], ignore_errors=True)


def data_file(*parts):
    """A file of the test data outside the repository; skips where it is absent."""
    root = pathlib.Path(os.environ.get("ORRERY_DATA", ROOT.parent / "shared" / "data"))
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no test data at {path}; set ORRERY_DATA")
    return path


def kill_all(processes):
    """Kills the processes that have not ended, and closes their pipes."""
    for each in processes:
        if each.poll() is None:
            each.kill()
            each.communicate()


def orrery(*arguments, timeout=120, cwd=None, env=None):
    """Runs the command line to its end."""
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, cwd=cwd,
        env=env,
    )


def rows(folder, *arguments):
    """Rows of the table of jobs that a replay of a log writes to a folder."""
    result = orrery("jobs", *arguments, "--out", folder / "out")
    assert result.returncode == 0, result.stderr
    with open(folder / "out" / "jobs.csv") as table:
        return list(csv.DictReader(table))


def column(table, name):
    """Numbers of a column of such a table, to three digits."""
    return [round(float(row[name]), 3) for row in table]


def children_of(pid):
    """Process ids of the direct children; none of a process that has ended."""
    try:
        listing = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(child) for child in listing.split()]


def parts_of(pid, role):
    """Process ids of the children of a live run's supervisor: its "controller", or its "agent"s."""

    def is_one(child):
        try:
            words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return words[1:2] == [role.encode()]

    return [child for child in children_of(pid) if is_one(child)]


def wait_until(condition, seconds=60):
    """Returns the result of `condition` as soon as it is true; fails if it never is."""
    for _ in range(int(seconds / 0.02)):
        if result := condition():
            return result
        time.sleep(0.02)
    raise AssertionError("what was waited for never came")


def alive(pid):
    """Whether the process runs (a zombie does not)."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.fixture
def long_run():
    """A run that takes far longer than the test, and its worker's process id."""
    process = subprocess.Popen(
        [PROGRAM, "simulate", STRAGGLER, "--detail", "full", "--set", "run.steps=100000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        worker = wait_until(lambda: process.poll() is None and children_of(process.pid))[0]
        wait_until(lambda: "orrery-sim" in os.readlink(f"/proc/{worker}/exe"))
        yield process, worker
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()
