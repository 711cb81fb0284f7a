"""A real Slurm of several nodes on this machine, for tests: controller and nodes as processes of
one folder, without cgroups, on the loopback interface only. Without a database it has no accounts
and no authentication."""

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
DATABASE_PROGRAMS = ("slurmdbd", "sacctmgr", "sacct", "munged", "mariadbd", "mariadb-install-db")
SEARCH = os.environ["PATH"] + ":/usr/sbin"
#: Users of every Debian, who may own jobs if root runs the test.
USERS = ("games", "man", "news", "mail")


def missing(database=False):
    """Programs of Slurm that this machine lacks."""
    names = PROGRAMS + (DATABASE_PROGRAMS if database else ())
    return [name for name in names if shutil.which(name, path=SEARCH) is None]


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


NO_ACCOUNTS = """AuthType=auth/none
CredType=cred/none
AccountingStorageType=accounting_storage/none"""


class RealSlurm:
    """Slurm with nodes n1, n2, ... of `gpus` GPUs in `folder`, and partitions `orrery`, with a
    lease of `lease` seconds at submission, and `other`. Only the first `nodes` of `listed` nodes
    have a slurmd; the rest is down. `users`: names of users of this machine who may own jobs (root
    only). `database`: accounts `ours` and `theirs` with these users, and authentication by munge
    (root only); the first user is an operator. `settings`: more lines of slurm.conf. `niceness`: of
    the nodes' processes, which on a cluster run elsewhere."""

    def __init__(self, folder, nodes=4, gpus=8, lease=20, users=(), database=False, listed=0,
                 settings="", niceness=0):  # fmt: skip
        self.niceness = niceness
        self.folder = pathlib.Path(folder)
        self.nodes, self.listed = nodes, max(nodes, listed)
        self.users = users
        self.processes = {}
        for name in ("state", "jobs", *(f"spool/n{n}" for n in range(1, nodes + 1))):
            (self.folder / name).mkdir(parents=True)
        self.environment = {**os.environ, "PATH": SEARCH,
                            "SLURM_CONF": str(self.folder / "slurm.conf")}  # fmt: skip
        if users:
            (self.folder / "jobs").chmod(0o1777)
            for each in (self.folder, self.folder.parent):
                each.chmod(each.stat().st_mode | 0o055)
        port = free_ports(self.nodes + 3)
        self.database = Database(self, port + self.nodes + 1) if database else None
        self.write_configuration(port, gpus, lease, settings)
        try:
            self.start_all()
        except BaseException:
            self.stop()
            raise

    def start_all(self):
        if self.database:
            self.database.start()
        self.start_controller()
        for n in range(1, self.nodes + 1):
            self.start_node(f"n{n}")
        self.wait_for(lambda: self.states().count("idle") == self.nodes, 30)

    def write_configuration(self, port, gpus, lease, settings):
        user, host = getpass.getuser(), socket.gethostname().split(".")[0]
        for gpu in range(gpus):
            (self.folder / f"gpu{gpu}").touch()
        absent = ""
        if self.listed > self.nodes:
            absent = f"NodeName=n[{self.nodes + 1}-{self.listed}] NodeAddr=127.0.0.1 State=DOWN"
        access = self.database.settings() if self.database else NO_ACCOUNTS
        # fmt: off
        (self.folder / "slurm.conf").write_text(rf"""
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
{access}
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
{settings}
NodeName=DEFAULT CPUs={max(8, gpus)} Boards=1 SocketsPerBoard=1 CoresPerSocket={max(8, gpus)} \
  ThreadsPerCore=1 RealMemory=1000 Gres=gpu:{gpus}
NodeName=n[1-{self.nodes}] NodeHostname=localhost NodeAddr=127.0.0.1 \
  Port=[{port + 1}-{port + self.nodes}]
{absent}
PartitionName=orrery Nodes=ALL Default=YES MaxTime=60 DefaultTime=1 State=UP
PartitionName=other Nodes=ALL Default=NO MaxTime=60 DefaultTime=1 State=UP
""")
        # fmt: on
        (self.folder / "gres.conf").write_text(
            f"NodeName=n[1-{self.listed}] Name=gpu File={self.folder}/gpu[0-{gpus - 1}]\n"
        )
        plugin = (ROOT / "examples" / "slurm" / "job_submit.lua").read_text()
        (self.folder / "job_submit.lua").write_text(
            re.sub(r"LEASE = \d+", f"LEASE = {lease}", plugin)
        )

    def start(self, name, program, *words):
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [shutil.which(program, path=SEARCH), *words],
                env=self.environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def start_controller(self):
        self.start("slurmctld", "slurmctld", "-D")
        self.wait_for(lambda: "UP" in self.run("scontrol", "ping", check=False), 30)

    def start_node(self, node):
        self.start(node, "slurmd", "-D", "-n", str(self.niceness), "-N", node)

    def kill(self, name):
        """Kills one process with SIGKILL: "slurmctld", or the slurmd of a node."""
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self):
        self.run("scancel", "-p", "orrery,other", check=False)
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, *words, check=True, user=None):
        """Output of one of Slurm's commands, which `user` starts."""
        result = subprocess.run(
            self.words_of(user, words), env=self.environment, capture_output=True, text=True,
            timeout=30,
        )  # fmt: skip
        assert not check or result.returncode == 0, result.stderr
        return result.stdout

    @staticmethod
    def words_of(user, words):
        """Command line that runs `words` as a user of this machine."""
        return [*(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]
                  if user else []), *map(str, words)]  # fmt: skip

    def submit(self, nodes, gpus, script, *words, partition="orrery", user=None):
        """Id of a new job that runs the shell text `script`."""
        output = self.run(
            "sbatch", "--parsable", "-p", partition, f"-N{nodes}", f"--gpus-per-node={gpus}",
            "-D", self.folder / "jobs", "-o", "/dev/null", *words, "--wrap", script, user=user,
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


class Database:
    """Accounts of a RealSlurm: munged, mariadbd and slurmdbd, at `port` and the port after it."""

    def __init__(self, slurm, port):
        self.slurm, self.port = slurm, port
        self.folder = slurm.folder
        self.socket = self.folder / "munge" / "socket"

    def settings(self):
        return f"""AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={self.socket}
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={self.port}
AccountingStoragePass={self.socket}
AccountingStorageTRES=gres/gpu"""

    def start(self):
        self.start_munge()
        self.start_mariadb()
        self.start_slurmdbd()
        self.add_accounts()

    def start_munge(self):
        folder = self.socket.parent
        folder.mkdir(mode=0o755)
        key = folder / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.slurm.start("munged", "munged", "--foreground", "--force", f"--key-file={key}",
                         f"--socket={self.socket}", f"--pid-file={folder}/pid",
                         f"--log-file={folder}/log", f"--seed-file={folder}/seed")  # fmt: skip
        self.slurm.wait_for(self.socket.exists, 20)

    def start_mariadb(self):
        data = self.folder / "mariadb"
        data.mkdir()
        shutil.chown(data, "mysql")
        installed = subprocess.run(
            ["mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={data}",
             f"--tmpdir={data}", "--skip-test-db", "--auth-root-authentication-method=normal"],
            capture_output=True, text=True, env=self.slurm.environment,
        )  # fmt: skip
        assert installed.returncode == 0, installed.stdout + installed.stderr
        self.slurm.start(
            "mariadbd", "mariadbd", "--no-defaults", "--user=mysql", f"--datadir={data}",
            f"--socket={data}/socket", f"--pid-file={data}/pid", "--bind-address=127.0.0.1",
            f"--port={self.port + 1}", "--innodb-buffer-pool-size=64M", "--performance-schema=OFF",
            "--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=0",
        )  # fmt: skip
        rights = ("create user slurm@'%' identified by 'slurm'; "
                  "grant all on slurm_acct_db.* to slurm@'%'")  # fmt: skip
        self.slurm.wait_for(
            lambda: subprocess.run(
                ["mariadb", "--no-defaults", "-S", data / "socket", "-u", "root", "-e", rights],
                capture_output=True,
            ).returncode == 0,
            40,
        )  # fmt: skip

    def start_slurmdbd(self):
        configuration = self.folder / "slurmdbd.conf"
        configuration.write_text(f"""AuthType=auth/munge
AuthInfo=socket={self.socket}
DbdHost={socket.gethostname().split(".")[0]}
DbdAddr=127.0.0.1
DbdPort={self.port}
SlurmUser={getpass.getuser()}
PidFile={self.folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={self.port + 1}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
""")
        configuration.chmod(0o600)
        self.slurm.start("slurmdbd", "slurmdbd", "-D")
        self.slurm.wait_for(
            lambda: "Cluster" in self.slurm.run("sacctmgr", "-P", "show", "cluster", check=False),
            30,
        )

    def add_accounts(self):
        run = self.slurm.run
        run("sacctmgr", "-i", "add", "cluster", "test")
        run("sacctmgr", "-i", "add", "account", "ours,theirs")
        for account in ("ours", "theirs"):
            run("sacctmgr", "-i", "add", "user", ",".join(self.slurm.users), f"account={account}")
        run("sacctmgr", "-i", "modify", "user", self.slurm.users[0], "set", "adminlevel=operator")
