"""Live runs on one machine, and as four processes of a launcher: both as pairs.py strikes them."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

import attacks
import target

LOOK = 0.2  # seconds between two looks at a run's processes; one reads hundreds of files

SETTINGS = {
    "faults": "[]",
    "policies": "[{name: recover, parameters: {how: replace}}]",
    "job.global_batch": 8,
    # Steps of 96 ms that compute little: the runs mostly wait, so that many fit on a machine.
    "job.sequence_length": 8,
    "job.pace.micro_batch": "48 ms",
}


SHARDED = {"job.layout.shard": "optimizer"}
STATE_LOST = "the optimizer's state of parameters"  # begin of the reason why a run ends


def command(name, steps, every, folder, more=()):
    pairs = SETTINGS | {"run.steps": steps, "name": name} | dict(more)
    pairs["checkpoints"] = f"{{folder: {folder}, every: {every}}}"
    words = [word for key, value in pairs.items() for word in ("--set", f"{key}={value}")]
    return [str(target.BINARY), "live", str(target.SCENARIO), "--json", *words]


def undisturbed_bits(steps, every):
    """Parameters of a run without faults, in steps as short as two slow cores allow."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*command("pairs undisturbed", steps, every, pathlib.Path(folder) / "kept"),
             "--set", "job.pace.micro_batch=20 ms"],
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["parameters_sha256"]


class OneMachine:
    """One run whose ranks are children of its supervisor."""

    def __init__(self, name, folder, steps, every, sharded=False):
        self.name, self.folder, self.sharded = name, None, sharded
        self.kept = pathlib.Path(folder) / "kept"
        self.command = command(name, steps, every, self.kept, SHARDED if sharded else ())
        self.killed, self.supervisor_killed = set(), False
        self.seen, self.first, self.alive, self.timers = set(), [], [], []
        self.files = [tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")]
        self.processes = [self.start_main()]

    def start_main(self):
        return subprocess.Popen(self.command, stdout=self.files[0], stderr=self.files[1])

    # ---- what is there ----

    def below(self):
        found = []
        for process in self.processes:
            tops = target.children(process.pid)
            found += tops + [pid for top in tops for pid in target.children(top)]
        self.seen.update(found)
        return found

    def those(self, *roles):
        return sorted(pid for pid in self.below() if target.role(pid) in roles)

    def ranks(self):
        return self.those("agent", "join")

    def controllers(self):
        return self.those("controller")

    def supervisors(self):
        return target.children(self.processes[0].pid)

    def survivors(self):
        """Ranks that worked before the first fault and were alive after the second."""
        return [pid for pid in self.alive if pid not in self.killed]

    def mark_survivors(self):
        """Call after the second fault: a rank that was stopped may have joined again as another."""
        self.alive = [pid for pid in self.first if target.role(pid)]

    def status(self):
        if not self.folder:
            for path in target.RUNS.glob(target.PREFIX + "*/status.json"):
                with contextlib.suppress(OSError, ValueError):
                    if json.loads(path.read_text()).get("scenario") == self.name:
                        self.folder = path.parent
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.folder / "status.json").read_text()) if self.folder else {}
        self.folder = None  # a run that continues from a checkpoint has another folder
        return {}

    def wait_until_saved(self, seconds):
        """Waits for four ranks and the first durable checkpoint; returns false at the end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.over():
            if self.status().get("saved_step") and len(self.ranks()) == target.RANKS:
                self.first = self.ranks()
                return True
            time.sleep(0.05)
        return False

    # ---- faults ----

    def kill(self, pids):
        self.killed.update(pids)
        attacks.send(pids, signal.SIGKILL)

    def kill_supervisor(self):
        self.supervisor_killed = True
        attacks.send(self.supervisors(), signal.SIGKILL)

    def cut_link(self, dice):
        """Shuts a connection of any rank down; returns whether there was one."""
        ranks = self.ranks()
        return attacks.cut_a_link_of(dice.choice(ranks) if ranks else None, dice)

    def later(self, seconds, act):
        timer = threading.Timer(seconds, act)
        self.timers.append(timer)
        timer.start()

    # ---- the end ----

    def over(self):
        return self.processes[0].poll() is not None

    def code(self):
        return self.processes[0].returncode

    def output(self):
        text = []
        for file in self.files[1:]:
            file.seek(0)
            text.append(file.read())
        return "\n".join(text)

    def wait_for_end(self, seconds):
        """Returns standard output and error; None: the run does not end."""
        end = time.monotonic() + seconds
        while not self.over():
            if time.monotonic() > end:
                return None
            self.below()
            self.tend()
            time.sleep(LOOK)
        text = []
        for file in self.files[:2]:
            file.seek(0)
            text.append(file.read())
        return text

    def tend(self):
        """Does what a launcher does meanwhile."""

    def left_behind(self):
        end = time.monotonic() + 12
        while (left := [pid for pid in self.seen if target.role(pid)]) and time.monotonic() < end:
            time.sleep(0.1)
        return left

    def close(self):
        for timer in self.timers:
            timer.join()
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for file in self.files:
            file.close()


class SeveralMachines(OneMachine):
    """Four processes of a launcher, which starts a dead one again; only silence shows a death."""

    MOST_STARTS = 40
    PAUSE = 0.3  # seconds before a dead process is started again

    def __init__(self, name, folder, steps, every, sharded=False):
        self.meet = pathlib.Path(folder) / "meet"
        self.starts, self.logs, self.died = 0, {}, {}
        super().__init__(name, folder, steps, every, sharded)
        self.processes += [self.start_rank(rank) for rank in range(1, target.RANKS)]

    def start_main(self):
        return self.start_rank(0)

    def start_rank(self, rank):
        self.starts += 1
        more = ["--rendezvous", str(self.meet), "--listen", "127.0.0.1"]
        out, err = self.files if rank == 0 else (subprocess.DEVNULL, self.log(rank))
        return subprocess.Popen(
            [*self.command, *more], stdout=out, stderr=err,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(target.RANKS)},
        )  # fmt: skip

    def log(self, rank):
        if rank not in self.logs:
            self.logs[rank] = tempfile.TemporaryFile("w+")
            self.files.append(self.logs[rank])
        return self.logs[rank]

    def tend(self):
        for rank in range(1, target.RANKS):
            dead = self.processes[rank].poll()
            if dead is None:
                self.died.pop(rank, None)
            elif dead != 0 and self.starts < self.MOST_STARTS and not self.over():
                since = self.died.setdefault(rank, time.monotonic())
                if time.monotonic() - since > self.PAUSE:
                    self.processes[rank] = self.start_rank(rank)

    def wait_for_end(self, seconds):
        printed = super().wait_for_end(seconds)
        end = time.monotonic() + 15
        for process in self.processes[1:]:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, end - time.monotonic()))
        return printed


PLACES = {"one": OneMachine, "several": SeveralMachines}
