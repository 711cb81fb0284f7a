"""Contenders of race.py: how each starts the training, returns lost ranks and ends."""

import os
import pathlib
import signal
import socket
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "orrery"
TORCH = pathlib.Path(os.environ.get("ORRERY_TORCH_PYTHON", CACHE / "torch/bin/python"))
TORCHFT = pathlib.Path(os.environ.get("ORRERY_TORCHFT_PYTHON", CACHE / "torchft/bin/python"))
RANKS = 4


class Contender:
    """A training of RANKS processes in a folder of its own.

    An example takes `example_s` seconds of a rank; the data has `length` examples.
    """

    def __init__(self, folder, example_s, length):
        self.folder = pathlib.Path(folder)
        self._log = open(self.folder / "log", "ab")
        plain = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        self.environment = {**plain, "RACE": str(folder), "EXAMPLE_S": str(example_s),
                            "LENGTH": str(length),
                            "OMP_NUM_THREADS": "1", "ORRERY_RUNS": str(self.folder)}  # fmt: skip
        self.processes = []

    def spawn(self, words, **more):
        """Starts a process of this contender."""
        process = subprocess.Popen(
            [str(word) for word in words], env={**self.environment, **more}, cwd=HERE,
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def pid_of(self, rank):
        """The process of a rank, as it wrote itself; None before it has."""
        path = self.folder / f"rank.{rank}"
        return int(path.read_text()) if path.exists() else None

    def is_running(self):
        """True while the contender can train."""
        return any(process.poll() is None for process in self.processes)

    def tend(self):
        """Returns lost ranks, where the contender does not do so itself."""

    def stop(self):
        """Ends all processes of the contender."""
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            for process in self.processes:
                if process.poll() is None:
                    process.send_signal(signal_number)
            until = time.monotonic() + 10
            while self.is_running() and time.monotonic() < until:
                time.sleep(0.02)
        self._kill_rest()
        self._log.close()

    def _kill_rest(self):
        """Kills processes of this contender that have outlived the processes above them."""
        mark = f"RACE={self.folder}\0".encode()
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)
            except OSError:
                pass  # the process has ended, or belongs to another user


class Orrery(Contender):
    """`orrery run` with OPTIONS."""

    OPTIONS = ("--replace", "1000000")

    def start(self, _returns):
        """Starts the ranks."""
        self.spawn([BUILD / "bin/orrery", "run", "-n", RANKS, *self.OPTIONS, "--", TORCH,
                    HERE / "with_orrery.py"])  # fmt: skip


class OrreryDeals(Orrery):
    """The same, and the examples of a lost rank go to the others."""

    OPTIONS = ("--replace", "1000000", "--deal-data")


class OrreryShrinks(Orrery):
    """`orrery run` without options: a lost rank stays lost."""

    OPTIONS = ()


class Torchrun(Contender):
    """torchrun, which starts all ranks again; they resume from a snapshot every EVERY steps.

    With the store of its agent, Gloo of PyTorch 2.13 finds the addresses of the ranks before the
    restart, and no restart succeeds; so rank 0 keeps a store of its own.
    """

    EVERY = 10

    def start(self, _returns):
        """Starts the agent."""
        self.spawn([TORCH.parent / "torchrun", "--standalone", "--nproc-per-node", RANKS,
                    "--max-restarts", "1000000", HERE / "with_torchrun.py"],
                   EVERY=str(self.EVERY), TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")  # fmt: skip


class Torchft(Contender):
    """torchft: a lighthouse, and one replica group for each rank, which is started again at once.

    Its lighthouse has the options of its example; its group the limit of its example, 5 s.
    """

    FIX, GLOO_S, HEARTBEAT_MS = "1", 5, 5000

    def start(self, returns):
        """Starts the lighthouse and all replicas; `returns`: lost replicas are started again."""
        self._returns = returns
        with socket.socket() as chosen:
            chosen.bind(("localhost", 0))
            self._port = chosen.getsockname()[1]
        self._lighthouse = self.spawn(
            [TORCHFT.parent / "torchft_lighthouse", "--bind", f"[::]:{self._port}",
             "--min_replicas", 1, "--quorum_tick_ms", 100, "--join_timeout_ms", 10000,
             "--heartbeat_timeout_ms", self.HEARTBEAT_MS])  # fmt: skip
        self._replicas = {rank: self._spawn_replica(rank) for rank in range(RANKS)}

    def _spawn_replica(self, rank):
        return self.spawn(
            [TORCHFT, HERE / "with_torchft.py"], REPLICA=str(rank), FIX=self.FIX,
            GLOO_S=str(self.GLOO_S), LIGHTHOUSE=f"http://localhost:{self._port}",
        )  # fmt: skip

    def is_running(self):
        """True while a replica is left; the lighthouse trains nothing."""
        return any(process.poll() is None for process in self.processes
                   if process is not self._lighthouse)  # fmt: skip

    def tend(self):
        """Starts replicas again that have ended."""
        for rank, replica in self._replicas.items():
            if self._returns and replica.poll() is not None:
                self._replicas[rank] = self._spawn_replica(rank)

    def stop(self):
        """Ends the replicas and the lighthouse."""
        super().stop()
        if self._lighthouse.poll() is None:
            self._lighthouse.kill()
            self._lighthouse.wait()


class TorchftAsShipped(Torchft):
    """torchft without the repair of its communication hook."""

    FIX = "0"


class TorchftTuned(Torchft):
    """torchft with the repair and limits of 1 s."""

    GLOO_S, HEARTBEAT_MS = 1, 1000


#: Name in options and tables, and class.
CONTENDERS = {
    "orrery": Orrery,
    "orrery-deals": OrreryDeals,
    "orrery-shrinks": OrreryShrinks,
    "torchft-as-shipped": TorchftAsShipped,
    "torchft": Torchft,
    "torchft-tuned": TorchftTuned,
    "torchrun": Torchrun,
}
