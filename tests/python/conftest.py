"""The package, imported from the build tree."""

import _thread
import atexit
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
EXAMPLES = ROOT / "examples"
STRAGGLER = EXAMPLES / "straggler-4-ranks.yaml"
#: A run that takes far longer than any test.
ENDLESS = {"overrides": {"run.steps": 100_000_000}, "detail": "full"}
sys.path.insert(0, str(BUILD / "python"))
# The runs of this test alone: others may run beside it.
os.environ["ORRERY_RUNS"] = tempfile.mkdtemp(prefix="orrery-tests-", dir="/tmp")
atexit.register(shutil.rmtree, os.environ["ORRERY_RUNS"], ignore_errors=True)


def worker_of(pid):
    """The process id of the simulator that `pid` runs, once there is one."""
    for _ in range(1000):
        for child in children_of(pid):
            try:
                if "orrery-sim" in os.readlink(f"/proc/{child}/exe"):
                    return int(child)
            except OSError:  # it has ended meanwhile
                continue
        time.sleep(0.02)
    raise AssertionError("no worker was started")


def children_of(pid):
    """Process ids of the children of all threads of `pid`."""
    children = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            children += pathlib.Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
        except OSError:  # a thread may end while the others are listed
            continue
    return children


def in_background(action):
    """Returns a thread that calls `action`; if that fails, the main thread is interrupted and does
    not wait for an event that will never happen."""

    def act():
        try:
            action()
        except BaseException:
            _thread.interrupt_main()
            raise

    thread = threading.Thread(target=act)
    thread.start()
    return thread
