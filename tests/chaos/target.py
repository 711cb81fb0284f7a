"""Live run as seen from outside: processes by their ids, and the output of the command line and the
run's status file (docs/operating.md)."""

import atexit
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
BINARY = BUILD / "bin" / "orrery"
SHIM = BUILD / "tests" / "libchaos_shim.so"
SCENARIO = ROOT / "examples" / "straggler-4-ranks.yaml"
SETTINGS = {
    "faults": "[]",
    "policies": "[{name: static}]",
    "job.global_batch": 8,
    "live.progress_timeout": "3 s",
    "live.journal_tail": "4 KiB",
}
RANKS = 4
# Folder of the runs of this script alone: others may run beside it.
RUNS = pathlib.Path(tempfile.mkdtemp(prefix="orrery-tests-", dir="/tmp"))
os.environ["ORRERY_RUNS"] = str(RUNS)
atexit.register(shutil.rmtree, RUNS, ignore_errors=True)
PREFIX = "orrery-live-"


@dataclasses.dataclass(frozen=True)
class Kind:
    """State that a run under attack keeps, and its place."""

    name: str
    settings: dict
    saves: bool = False


PLAIN = Kind("plain", {})
SHARDED = Kind("sharded", {"job.layout.shard": "optimizer"})
SAVING = Kind("saving", {}, saves=True)


def command(steps, name, more=()):
    pairs = SETTINGS | {"run.steps": steps, "name": name} | dict(more)
    words = [word for key, value in pairs.items() for word in ("--set", f"{key}={value}")]
    return [BINARY, "live", SCENARIO, "--json", *words]


def children(pid):
    """Returns the children of all its threads, whichever thread started them."""
    found = []
    with contextlib.suppress(OSError):  # the process may end meanwhile
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    return found


def role(pid):
    """agent, controller or supervisor; None: it is gone."""
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    if not words[0].endswith(b"orrery-live"):
        return None
    return words[1].decode() or "supervisor" if len(words) > 1 else "supervisor"


def folders():
    """Returns the folders of runs, living or not."""
    return {path for path in RUNS.glob(PREFIX + "??????") if path.is_dir()}


class Run:
    """One run under attack."""

    MOST_CONTROLLERS = 3  # limit of a run's replacements

    def __init__(self, steps, name, shim, kind=PLAIN):
        self.name, self.steps, self.kind = name, steps, kind
        self.kept = tempfile.TemporaryDirectory() if kind.saves else None
        settings = dict(kind.settings)
        if self.kept:
            settings["checkpoints"] = f"{{folder: {self.kept.name}, every: 50}}"
        self.command = command(steps, name, settings)
        self.process = subprocess.Popen(
            self.command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | shim.environment,
        )
        self.controllers_killed = 0
        self.seen = set()
        self.folder = None

    def those(self, wanted):
        tops = children(self.process.pid)
        below = tops + [pid for top in tops for pid in children(top)]
        self.seen.update(below)
        return sorted(pid for pid in below if role(pid) == wanted)

    def status(self):
        """Returns the output of `orrery status`; empty: nothing is known yet."""
        if not self.folder:
            listed = subprocess.run(
                [BINARY, "runs", "--json"], capture_output=True, text=True, timeout=60
            )
            for known in json.loads(listed.stdout) if listed.returncode == 0 else []:
                if known.get("scenario") == self.name:
                    self.folder = RUNS / (PREFIX + known["run"])
        try:
            return json.loads((self.folder / "status.json").read_text()) if self.folder else {}
        except (OSError, ValueError):
            return {}

    def steps_done(self):
        return self.status().get("step", 0)

    def over(self):
        return self.process.poll() is not None

    def wait_for(self, true, seconds):
        end = time.monotonic() + seconds
        while not self.over() and not true():
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return not self.over()

    def whole(self):
        return len(self.those("agent")) == RANKS and len(self.those("controller")) == 1

    def trains_beyond(self, step):
        """Every rank has a process that works, and steps are done."""
        if not self.whole():
            return False
        status = self.status()
        works = [rank for rank in status.get("ranks", []) if rank["state"] == "working"]
        return len(works) == RANKS and status["step"] > step

    def recovers(self, before):
        """Waits until every rank has a process that works since the status `before` was read."""
        if self.kind is SHARDED:
            # Two ranks lost at once may be too many: whoever has been stopped has to be missed
            # first. A status is as old as a second; in the next one a step may have been under way.
            self.wait_for(lambda: self.status().get("elapsed_s") != before.get("elapsed_s"), 120)
            done = self.steps_done() + 1
        else:
            done = before.get("step", 0)
        self.wait_for(lambda: self.trains_beyond(done), 120)

    def left_behind(self):
        """Processes that are still there a moment after the end."""
        end = time.monotonic() + 10
        while (left := [pid for pid in self.seen if role(pid)]) and time.monotonic() < end:
            time.sleep(0.1)
        return left

    def folder_left(self):
        end = time.monotonic() + 10
        while (left := self.folder and self.folder.exists()) and time.monotonic() < end:
            time.sleep(0.1)
        return bool(left)


def faults_of(report, sha):
    """Returns what the report of a run lacks that did everything: bits, micro-batches."""
    wrong = []
    if report["parameters_sha256"] != sha:
        wrong.append("other bits")
    if report["micro_batches_lost"] or report["micro_batches_repeated"]:
        wrong.append("micro-batches lost or repeated")
    return wrong
