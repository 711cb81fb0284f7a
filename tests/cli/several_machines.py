"""Machines of their own on one machine: network namespaces, and a Slurm of four nodes."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import textwrap
import time

import pytest
from real_slurm import free_ports


def require(*programs):
    """Skips where the test cannot run, with the reason."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs the program {program}")


class Namespaces:
    """`count` network namespaces, each with one address, on a bridge in one more."""

    def __init__(self, count):
        require("ip")
        self.name = f"orrery{os.getpid()}"
        self.bridge = f"{self.name}b"
        self.spaces = [f"{self.name}n{i}" for i in range(count)]
        self.made = []
        try:
            self.make(self.bridge)
            self.ip("-n", self.bridge, "link", "add", "br0", "type", "bridge")
            self.ip("-n", self.bridge, "link", "set", "br0", "up")
            for i, space in enumerate(self.spaces):
                self.make(space)
                self.wire(i, space)
        except subprocess.CalledProcessError as problem:
            self.close()
            pytest.skip(f"no network namespaces here: {problem.stderr.strip()}")

    def make(self, space):
        self.ip("netns", "add", space)
        self.made.append(space)
        self.ip("-n", space, "link", "set", "lo", "up")

    def wire(self, i, space):
        ends = ["type", "veth", "peer", "name", f"p{i}", "netns", self.bridge]
        self.ip("-n", space, "link", "add", "eth0", *ends)
        self.ip("-n", self.bridge, "link", "set", f"p{i}", "master", "br0", "up")
        self.ip("-n", space, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
        self.ip("-n", space, "link", "set", "eth0", "up")

    @staticmethod
    def address(i):
        return f"10.213.7.{i + 1}"

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)

    def shape(self, *how):
        """Delay and loss of every link, where the kernel has netem. Whether it has."""
        for space in self.spaces:
            done = subprocess.run(
                ["tc", "-n", space, "qdisc", "add", "dev", "eth0", "root", "netem", *how],
                capture_output=True,
            )
            if done.returncode != 0:
                return False
        return True

    def command(self, i, *arguments):
        return ["ip", "netns", "exec", self.spaces[i], *map(str, arguments)]

    def close(self):
        for space in self.made:
            subprocess.run(["ip", "netns", "delete", space], capture_output=True)


class Slurm:
    """munge, slurmctld and four slurmd of Debian's packages, all in `folder`."""

    def __init__(self, folder):
        require("munged", "slurmctld", "slurmd", "srun", "mungekey")
        self.folder = pathlib.Path(folder)
        self.processes = []
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        try:
            self.start_munge()
            self.start_slurm()
        except BaseException:
            self.close()
            raise

    def spawn(self, name, *command, **more):
        log = (self.folder / f"{name}.log").open("wb")
        process = subprocess.Popen(
            list(map(str, command)), stdout=log, stderr=log, env=self.environment, **more
        )
        self.processes.append(process)
        return process

    def start_munge(self):
        self.folder.chmod(0o755)
        key, self.munge = self.folder / "munge.key", self.folder / "munge.socket"
        subprocess.run(["mungekey", "--create", f"--keyfile={key}"], check=True)
        self.spawn(
            "munged", "munged", "--foreground", "--force", f"--socket={self.munge}",
            f"--key-file={key}", f"--pid-file={self.folder}/munged.pid",
            f"--log-file={self.folder}/munge.log", f"--seed-file={self.folder}/munge.seed",
        )  # fmt: skip
        self.wait_for(self.munge.exists, "munged does not start")

    def start_slurm(self):
        host = socket.gethostname().split(".")[0]
        controller = free_ports(5)  # then one port a node
        lines = f"""\
            ClusterName=orrery
            SlurmctldHost={host}(127.0.0.1)
            SlurmctldPort={controller}
            AuthType=auth/munge
            AuthInfo=socket={self.munge}
            CryptoType=crypto/munge
            SlurmUser=root
            SlurmdUser=root
            StateSaveLocation={self.folder}/state
            SlurmdSpoolDir={self.folder}/spool.%n
            SlurmctldPidFile={self.folder}/slurmctld.pid
            SlurmdPidFile={self.folder}/slurmd.%n.pid
            ProctrackType=proctrack/linuxproc
            TaskPlugin=task/none
            SlurmdParameters=config_overrides
            SelectType=select/cons_tres
            SchedulerType=sched/backfill
            ReturnToService=2
            MpiDefault=none
            KillOnBadExit=0
            PartitionName=all Nodes=ALL Default=YES State=UP
            """
        nodes = [
            f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1\n"
            for i, port in enumerate(range(controller + 1, controller + 5))
        ]
        text = textwrap.dedent(lines).replace("PartitionName", "".join(nodes) + "PartitionName")
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "state").mkdir()
        for i in range(4):
            (self.folder / f"spool.n{i}").mkdir()
        self.spawn("slurmctld", "slurmctld", "-D")
        for i in range(4):
            self.spawn(f"slurmd{i}", "slurmd", "-D", "-N", f"n{i}")
        self.wait_for(self.idle, "the nodes do not come up")

    def idle(self):
        done = subprocess.run(
            ["sinfo", "-h", "-o", "%T %D"], env=self.environment, capture_output=True, text=True
        )
        return done.stdout.split() == ["idle", "4"]

    def wait_for(self, condition, otherwise, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(f"{p.name}: {p.read_text()[-800:]}" for p in self.logs())
                pytest.skip(f"no Slurm here: {otherwise}\n{logs}")
            time.sleep(0.1)

    def logs(self):
        return sorted(self.folder.glob("*.log"))

    def srun(self, *arguments, **more):
        return subprocess.Popen(
            ["srun", "-N4", "-n4", "--kill-on-bad-exit=0", "--wait=0", *map(str, arguments)],
            env=self.environment, **more,
        )  # fmt: skip

    def close(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            if process.poll() is None:
                process.kill()
                process.wait()
