"""The package, imported from the build tree."""

import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
STRAGGLER = ROOT / "examples" / "straggler-4-ranks.yaml"
#: A run that takes far longer than any test.
ENDLESS = {"overrides": {"run.steps": 100_000_000}, "detail": "full"}
sys.path.insert(0, str(BUILD / "python"))


def worker_of(pid):
    """The process id of the simulator that `pid` runs, once there is one."""
    listing = f"/proc/{pid}/task"
    for _ in range(1000):
        for thread in os.listdir(listing):
            for child in pathlib.Path(listing, thread, "children").read_text().split():
                if "orrery-sim" in os.readlink(f"/proc/{child}/exe"):
                    return int(child)
        time.sleep(0.02)
    raise AssertionError("no worker was started")
