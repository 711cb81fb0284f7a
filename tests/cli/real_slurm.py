"""A real Slurm of several nodes on this machine, for tests: controller and nodes as processes of
one folder, without accounts, cgroups and authentication, on the loopback interface only."""

import contextlib
import getpass
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("slurmctld", "slurmd", "squeue", "scontrol", "sbatch")
SEARCH = os.environ["PATH"] + ":/usr/sbin"


def missing():
    """Programs of Slurm that this machine lacks."""
    return [name for name in PROGRAMS if shutil.which(name, path=SEARCH) is None]


def free_ports(count):
    """The first of `count` neighbouring ports that nobody uses now."""
    for first in range(20000 + os.getpid() % 1000 * 20, 64000, count):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    each = stack.enter_context(socket.socket())
                    each.bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise RuntimeError("no free ports")


class RealSlurm:
    """Slurm with nodes n1, n2, ... of `gpus` GPUs in `folder`, and partitions `orrery`, with a
    lease of `lease` seconds at submission, and `other`."""

    def __init__(self, folder, nodes=4, gpus=8, lease=20):
        self.folder = pathlib.Path(folder)
        self.nodes = nodes
        self.processes = {}
        for name in ("state", "jobs", *(f"spool/n{n}" for n in range(1, nodes + 1))):
            (self.folder / name).mkdir(parents=True)
        self.write_configuration(gpus, lease)
        self.environment = {**os.environ, "PATH": SEARCH,
                            "SLURM_CONF": str(self.folder / "slurm.conf")}  # fmt: skip
        self.start_controller()
        for n in range(1, nodes + 1):
            self.start("slurmd", f"n{n}", "-N", f"n{n}")
        self.wait_for(lambda: self.states().count("idle") == nodes, 30)

    def write_configuration(self, gpus, lease):
        port = free_ports(self.nodes + 1)
        user, host = getpass.getuser(), socket.gethostname().split(".")[0]
        for gpu in range(gpus):
            (self.folder / f"gpu{gpu}").touch()
        # fmt: off
        (self.folder / "slurm.conf").write_text(rf"""
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool/%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
JobSubmitPlugins=lua
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=30
InactiveLimit=0
MinJobAge=300
KillWait=2
CompleteWait=0
JobRequeue=1
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=5,bf_resolution=1,sched_interval=2,batch_sched_delay=0,defer_batch
PriorityType=priority/basic
AccountingStorageType=accounting_storage/none
NodeName=n[1-{self.nodes}] NodeHostname=localhost NodeAddr=127.0.0.1 \
  Port=[{port + 1}-{port + self.nodes}] CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 \
  ThreadsPerCore=1 RealMemory=1000 Gres=gpu:{gpus}
PartitionName=orrery Nodes=ALL Default=YES MaxTime=60 DefaultTime=1 State=UP
PartitionName=other Nodes=ALL Default=NO MaxTime=60 DefaultTime=1 State=UP
""")
        # fmt: on
        (self.folder / "gres.conf").write_text(
            f"NodeName=n[1-{self.nodes}] Name=gpu File={self.folder}/gpu[0-{gpus - 1}]\n"
        )
        plugin = (ROOT / "examples" / "slurm" / "job_submit.lua").read_text()
        (self.folder / "job_submit.lua").write_text(
            re.sub(r"LEASE = \d+", f"LEASE = {lease}", plugin)
        )

    def start(self, program, name, *words):
        log = open(self.folder / f"{name}.log", "ab")
        self.processes[name] = subprocess.Popen(
            [shutil.which(program, path=SEARCH), "-D", *words],
            env=self.environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip

    def start_controller(self):
        self.start("slurmctld", "slurmctld")
        self.wait_for(lambda: "UP" in self.run("scontrol", "ping", check=False), 30)

    def kill_controller(self):
        self.processes["slurmctld"].kill()
        self.processes["slurmctld"].wait()

    def stop(self):
        self.run("scancel", "-p", "orrery,other", check=False)
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, *words, check=True):
        """Output of one of Slurm's commands."""
        result = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=30
        )
        assert not check or result.returncode == 0, result.stderr
        return result.stdout

    def submit(self, nodes, gpus, script, *words, partition="orrery"):
        """Id of a new job that runs the shell text `script`."""
        output = self.run(
            "sbatch", "--parsable", "-p", partition, f"-N{nodes}", f"--gpus-per-node={gpus}",
            "-D", self.folder / "jobs", "-o", "/dev/null", *words, "--wrap", script,
        )  # fmt: skip
        return output.strip()

    def states(self):
        return self.run("sinfo", "-h", "-N", "-p", "orrery", "-o", "%T", check=False).split()

    def jobs(self):
        """State by id of all jobs that Slurm shows."""
        rows = self.run("squeue", "-r", "-a", "-h", "-t", "all", "-o", "%i %T %r")
        return {row.split()[0]: row.split()[1] for row in rows.splitlines()}

    def wait_for(self, is_true, timeout):
        end = time.monotonic() + timeout
        while not is_true():
            assert time.monotonic() < end, f"not within {timeout} s: {self.logs()}"
            time.sleep(0.1)

    def logs(self):
        return "\n".join(
            f"{path.name}: {path.read_text(errors='replace')[-600:]}"
            for path in sorted(self.folder.glob("*.log"))
        )
