"""A driven Slurm for slurm_*.py: `orrery cluster slurm` whose commands are recorded, jobs that
leave marks, and the records of cases."""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from real_slurm import SEARCH, USERS, RealSlurm, missing  # noqa: E402, F401

PROGRAM = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build")) / "bin" / "orrery"
IS_START = r"^update JobId=\S+ ReqNodeList=\S+ StartTime=now( |$)"
ENDS = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "DEADLINE")
#: Faulty drivers by name: sed commands for the lines that go to scontrol. They show that a check
#: finds a fault. `again` also stops each started job after two seconds and starts it once more.
MUTANTS = {
    "": "",
    "twice": r"/^update JobId=[^ ]* ReqNodeList=n.* StartTime=now\( \|$\)/p",
    "again": "",
    "no-leases": "/^update JobId=[0-9,_]* StartTime=now+/d",
    "misfit": "s/\\(^update JobId=[^ ]* ReqNodeList=n[^, ]*\\) /\\1,n1,n2,n3,n4 /",
    "no-starts": r"/^update JobId=[^ ]* ReqNodeList=n.* StartTime=now\( \|$\)/d",
}
#: The recording scontrol: "at INSTANT", the lines, and "done INSTANT" go to the file `acts`.
SCONTROL = """#!/bin/sh
[ $# -eq 0 ] || exec {real} "$@"
lines=$(sed '{mutation}')
printf 'at %s\\n%s\\n' "$(date +%s.%N)" "$lines" >>{folder}/acts
printf '%s\\n' "$lines" | {real}
echo "done $(date +%s.%N)" >>{folder}/acts
"""
AGAIN = """echo "$lines" | grep 'ReqNodeList=n' | while read -r line; do
  id=${{line#update JobId=}}
  setsid sh -c "sleep 2; printf 'requeue %s\\n%s\\n' '${{id%% *}}' '$line' | {real}" \\
    >/dev/null 2>&1 3>&- &
done
"""


class Driver:
    """`orrery cluster slurm` on a RealSlurm, as `user`, started again after kills. `spans`: pairs
    of instants between which it ran; the end of the last one is infinite. `endings`: drivers that
    ended by themselves."""

    def __init__(self, slurm, policy, *words, mutant="", partition="orrery", user=None):
        self.slurm, self.user = slurm, user
        tools = slurm.folder / "bin"
        tools.mkdir(exist_ok=True)
        program = shutil.copy(PROGRAM, tools) if user else PROGRAM  # a user may not see the build
        self.words = [program, "cluster", "slurm", "--policy", policy,
                      *(["--partition", partition] if partition else []),
                      *map(str, words)]  # fmt: skip
        self.spans, self.endings, self.process = [], [], None
        real = shutil.which("scontrol", path=SEARCH)
        script = SCONTROL + (AGAIN if mutant == "again" else "")
        (tools / "scontrol").write_text(
            script.format(real=real, mutation=MUTANTS[mutant], folder=slurm.folder)
        )
        (tools / "scontrol").chmod(0o755)
        (slurm.folder / "acts").touch()
        (slurm.folder / "acts").chmod(0o666)
        self.environment = {**slurm.environment, "PATH": f"{tools}:{SEARCH}"}

    def start(self):
        output = self.slurm.folder / f"driver-{len(self.spans) + 1}.txt"
        with open(output, "ab") as file:
            self.process = subprocess.Popen(
                self.slurm.words_of(self.user, self.words), env=self.environment,
                stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.spans.append((time.time(), float("inf")))

    def kill(self):
        """Kills the driver with SIGKILL."""
        self.note_end()
        self.process.kill()
        self.process.wait()
        self.spans[-1] = (self.spans[-1][0], min(self.spans[-1][1], time.time()))

    def note_end(self):
        """Notes a driver that has ended by itself in `endings`; returns whether it has."""
        if self.process.poll() is None or self.spans[-1][1] < float("inf"):
            return self.process.poll() is not None
        last = self.text().splitlines()[-1:]
        self.endings.append(f"ended: a driver ended with code {self.process.returncode}: {last}")
        self.spans[-1] = (self.spans[-1][0], time.time())
        return True

    def end(self):
        """Ends the driver as an operator does; its exit code."""
        if self.note_end():
            return self.process.returncode
        self.process.terminate()
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.spans[-1] = (self.spans[-1][0], time.time())
        return code

    def is_steady(self, at, seconds):
        """Whether one driver ran all the seconds before an instant."""
        return any(begin <= at - seconds and at <= end for begin, end in self.spans)

    def text(self):
        """All that the drivers have printed."""
        return "".join(
            (self.slurm.folder / f"driver-{number + 1}.txt").read_text(errors="replace")
            for number in range(len(self.spans))
        )

    def commands(self):
        """Processes of scontrol, in order: [begin, end or None, lines]."""
        found = []
        for line in (self.slurm.folder / "acts").read_text().splitlines():
            if line.startswith("at "):
                found.append([float(line.split()[1]), None, []])
            elif line.startswith("done "):
                found[-1][1] = float(line.split()[1])
            elif line:
                found[-1][2].append(line)
        return found

    def acts(self):
        """Lines that scontrol got, in order: (instant, line)."""
        return [(begin, line) for begin, _, lines in self.commands() for line in lines]


class Job:
    """A submitted job: its number here, its id, and the instant of its submission. Its script
    writes a mark when it begins and when it ends."""

    def __init__(self, slurm, number, nodes, gpus, seconds, *words, partition="orrery", user=None):
        self.mark = slurm.folder / "jobs" / f"mark-{number}"
        note = f'{{}} $(date +%s.%N) >> {self.mark}'
        script = "; ".join([
            "echo " + note.format("start"), f"sleep {seconds}", "echo " + note.format("end"),
        ])  # fmt: skip
        self.number, self.name = number, f"job{number}"
        self.id = slurm.submit(nodes, gpus, script, "-J", self.name, *words, partition=partition,
                               user=user)  # fmt: skip
        self.at = time.time()

    def marks(self, kind):
        """Instants of the starts or ends."""
        lines = self.mark.read_text().splitlines() if self.mark.exists() else []
        return [float(line.split()[1]) for line in lines if line.split()[0] == kind]


class Row:
    """A job as squeue shows it."""

    def __init__(self, line):
        self.id, self.name, self.state, restarts, priority, self.reason = line.split("|")[:6]
        self.restarts, self.is_held = int(restarts), int(priority) == 0


def read_rows(slurm):
    """Rows of all jobs by their names."""
    fields = ("JobArrayID", "Name", "State", "RestartCnt", "PriorityLong", "Reason")
    output = slurm.run("squeue", "-r", "-a", "-h", "-t", "all", "-O",
                       ",".join(f"{field}:|" for field in fields))  # fmt: skip
    return {row.name: row for row in map(Row, output.splitlines())}


def has_ended(slurm):
    """Whether no job waits or runs."""
    return all(row.state in ENDS for row in read_rows(slurm).values())


def completions(slurm):
    """Ids of the jobs whose script has ended with 0, once for each time, by slurmctld's log."""
    log = (slurm.folder / "slurmctld.log").read_text(errors="replace")
    return re.findall(r"_job_complete: JobId=(\d+) WEXITSTATUS 0", log)


def lines_of(acts, job_id):
    """The acts on one job alone, in order: (instant, "start", "withdraw" or "requeue")."""
    found = []
    for at, line in acts:
        words = line.split()
        if words[0] == "requeue" and words[-1] == job_id:
            found.append((at, "requeue"))
        elif words[:2] == ["update", f"JobId={job_id}"] and words[2].startswith("ReqNodeList="):
            found.append((at, "start" if re.match(IS_START, line) else "withdraw"))
    return found


def repeated_orders(acts, job_id):
    """Number of starts that were sent while an earlier one was neither taken back nor stopped."""
    kinds = [kind for _, kind in lines_of(acts, job_id)]
    return sum(pair == ("start", "start") for pair in zip(kinds, kinds[1:]))


def unordered_starts(acts, job):
    """Instants at which a job began without an order."""
    events = sorted([*lines_of(acts, job.id), *((at, "began") for at in job.marks("start"))])
    is_ordered, found = False, []
    for at, kind in events:
        if kind == "began" and not is_ordered:
            found.append(at)
        is_ordered = kind == "start"
    return found


def keep_logs(slurm, options, seed):
    """Copies logs and output of the drivers and of slurmctld to a folder beside the record."""
    if not options.record:
        return
    folder = pathlib.Path(f"{options.record}.seed-{seed}")
    folder.mkdir(exist_ok=True)
    for path in (*slurm.folder.glob("driver-*.txt"), *slurm.folder.glob("drive.log*"),
                 slurm.folder / "acts", slurm.folder / "slurmctld.log"):  # fmt: skip
        shutil.copy(path, folder)


@contextlib.contextmanager
def cluster(*words, **more):
    """A RealSlurm in a folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="orrery-slurm-", ignore_cleanup_errors=True) as folder:
        slurm = RealSlurm(pathlib.Path(folder) / "slurm", *words, **more)
        try:
            yield slurm
        finally:
            slurm.stop()


class Book:
    """Records of the cases, in a file if one is given, so that a later call continues."""

    def __init__(self, path):
        self.path, self.cases = path, []
        if path and pathlib.Path(path).exists():
            for line in pathlib.Path(path).read_text().splitlines():
                with contextlib.suppress(ValueError):
                    self.cases.append(json.loads(line))

    def seeds(self):
        return {case["seed"] for case in self.cases}

    def add(self, case):
        self.cases.append(case)
        if self.path:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(case) + "\n")
        print(f"seed {case['seed']}: " + ", ".join(
            f"{value} {name}" for name, value in case.items()
            if name not in ("seed", "wrong", "rows", "twin")), flush=True)  # fmt: skip
        for each in case["wrong"]:
            print(f"    {each}", flush=True)

    def total(self, name):
        return sum(case.get(name, 0) for case in self.cases)

    def wrong(self):
        return sum(len(case["wrong"]) for case in self.cases)


def arguments(text, **defaults):
    """Options of a script: --seed, --record, --mutant, --keep and those with these defaults."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    parser.add_argument("--record", default="", help="file with a line a case, to continue from")
    parser.add_argument("--mutant", default="", choices=list(MUTANTS), help="a faulty driver")
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the Slurm is stopped, too
    if missing():
        sys.exit(f"expected Slurm's programs, found no {', '.join(missing())}: install slurmctld, "
                 "slurmd and slurm-client")  # fmt: skip
    return options
