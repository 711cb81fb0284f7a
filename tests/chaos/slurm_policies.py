"""Queue policies that drive a real Slurm of eight nodes through 300 jobs of a recorded log.

python3 tests/chaos/slurm_policies.py [--policies fifo,easy,srtf,max-min] [--jobs 300]
    [--log philly_mid.csv] [--seed 1] [--record FILE]

The sizes and gaps are those of the first jobs of the log (default: philly_mid of the test data);
durations are scaled to 8 to 40 s, gaps to a load of 1.1, and limits to one minute for 8 s. Four
users submit the jobs, in two accounts if slurmdbd is installed (both as root only). A job appends a
line a second to a file and continues there after a requeue. Counted as wrong:

- a job that does not complete, has run for other than its seconds, or began more often than once
  and once for each requeue of the policy, or whose start was sent again without a reason;
- a log that `orrery replay` does not find identical;
- a mean wait that differs by more than 10% and more than 2 s from that of `orrery jobs` on the
  observed submissions and run times: those of the driver's readings, because a job has its GPUs in
  the eyes of the policy until a reading shows its end;
- a start of `orrery jobs` that is not that of `orrery replay LOG --under POLICY`, to the
  millisecond: both simulate the same jobs;
- a mean wait of `orrery replay LOG --under POLICY`, which simulates the jobs of the log with their
  layouts and run times, that differs from the recorded one by as much, and a start that differs
  there while no other submission, start or end is within two seconds.

Inversions are pairs of jobs that began in one order on Slurm and in the other one in `orrery jobs`.
"""

import csv
import itertools
import json
import math
import os
import subprocess
import sys
import time

from slurm_target import (
    PROGRAM,
    ROOT,
    USERS,
    Book,
    Driver,
    arguments,
    cluster,
    keep_logs,
    lines_of,
    missing,
    read_rows,
    repeated_orders,
)

NODES, GPUS, LOAD, LEASE = 8, 8, 1.1, 20
SHORTEST_S, LONGEST_S, A_MINUTE_S = 8, 40, 8
PATIENCE_S = 900
NEAR_S = 2  # events that compete
DATA = os.environ.get("ORRERY_DATA", ROOT.parent / "shared" / "data")
TRAIN = """number=$1 seconds=$2
echo "start $(date +%s.%N)" >> mark-$number
touch elapsed-$number
mapfile -t done < elapsed-$number
exec 9<> <(:)
for ((n = ${#done[@]}; n < seconds; ++n)); do
  read -rt 1 -u 9
  echo x >> elapsed-$number
done
echo "end $(date +%s.%N)" >> mark-$number
"""


class Job:
    """One job of the log: its request and its observed instants."""

    def __init__(self, number, at, gpus, seconds):
        self.number, self.at, self.gpus, self.seconds = number, at, gpus, seconds
        self.nodes = max(1, gpus // GPUS)
        self.minutes = max(1, math.ceil(seconds / A_MINUTE_S))
        self.user, self.account = None, None
        self.id, self.submitted, self.ended = "", 0.0, 0.0
        self.row = None  # newest row of squeue, which forgets a job five minutes after its end

    def submit(self, slurm):
        words = ["-J", f"job{self.number}", "-t", self.minutes]
        words += ["-A", self.account] if self.account else []
        self.id = slurm.submit(self.nodes, self.gpus // self.nodes,
                               f"exec bash ../train.sh {self.number} {self.seconds}", *words,
                               user=self.user)  # fmt: skip
        self.submitted = time.time()

    def starts(self, slurm):
        text = (slurm.folder / "jobs" / f"mark-{self.number}").read_text()
        return text.count("start ")

    def elapsed(self, slurm):
        text = (slurm.folder / "jobs" / f"elapsed-{self.number}").read_text()
        return len(text.splitlines())


def read_jobs(path, count):
    """The first jobs of a canonical log, scaled."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(itertools.islice(csv.DictReader(file), count))
    logs = [math.log(max(1.0, float(row["duration_s"]))) for row in rows]
    low, high = min(logs), max(logs)
    seconds = [round(SHORTEST_S + (LONGEST_S - SHORTEST_S) * (each - low) / (high - low))
               for each in logs]  # fmt: skip
    gpus = [int(row["num_gpus"]) for row in rows]
    span = sum(map(lambda a, b: a * b, gpus, seconds)) / (NODES * GPUS * LOAD)
    first, last = (float(rows[k]["submit_s"]) for k in (0, -1))
    return [Job(k, (float(row["submit_s"]) - first) / (last - first) * span, gpus[k], seconds[k])
            for k, row in enumerate(rows)]  # fmt: skip


class Run:
    """All jobs under one policy."""

    def __init__(self, policy, jobs, slurm, mutant):
        self.policy, self.jobs, self.slurm = policy, jobs, slurm
        self.log, self.courses = slurm.folder / "drive.log", slurm.folder / "courses.csv"
        (slurm.folder / "train.sh").write_text(TRAIN)
        for job in jobs:
            if slurm.users:
                job.user = slurm.users[job.number % len(slurm.users)]
            if slurm.database:
                job.account = ("ours", "theirs")[job.number % 2]
        self.driver = Driver(slurm, policy, "--mode", "drive", "--lease", LEASE, "--every", "0.5",
                             "--record", self.log, mutant=mutant)  # fmt: skip

    def run(self):
        self.driver.start()
        begin, waiting = time.monotonic(), list(self.jobs)
        while any(not job.ended for job in self.jobs):
            now = time.monotonic() - begin
            if now > self.jobs[-1].at + PATIENCE_S:
                break
            while waiting and waiting[0].at <= now:
                waiting.pop(0).submit(self.slurm)
            self.note_ends()
            time.sleep(0.4)
        self.took_s = time.monotonic() - begin
        self.driver.end()

    def note_ends(self):
        rows = read_rows(self.slurm)
        for job in self.jobs:
            job.row = rows.get(f"job{job.number}", job.row)
            if not job.ended and job.row and job.row.state == "COMPLETED":
                job.ended = time.time()

    def observed(self):
        """Seconds with GPUs and instant of the first order, by job."""
        acts, found = self.driver.acts(), {}
        for job in self.jobs:
            first, since, service = None, None, 0.0
            for at, kind in [*lines_of(acts, job.id), (job.ended, "end")]:
                if kind == "start" and since is None:
                    since = at
                    first = at if first is None else first
                elif kind != "start" and since is not None:
                    service += at - since
                    since = None
            found[job.number] = (service, first)
        return found

    def simulated(self, recorded):
        """Instant of the first start and wait since the arrival in `orrery jobs`, by id, on the
        arrivals and run times of the driver's log. A log of jobs has whole seconds, so that all
        instants are in milliseconds there."""
        begin = min(float(row["arrived_s"]) for row in recorded)
        path, tables = self.slurm.folder / "observed.csv", self.slurm.folder / "tables"
        with open(path, "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(["job_id", "submit_s", "num_gpus", "duration_s", "vc", "user",
                          "requested_s"])  # fmt: skip
            for row in recorded:
                out.writerow([row["job_id"], round(1000 * (float(row["arrived_s"]) - begin)),
                              row["gpus"], round(1000 * float(row["served_s"])), row["vc"],
                              row["user"], round(1000 * float(row["estimate_s"]))])  # fmt: skip
        subprocess.run([PROGRAM, "jobs", path, "--nodes", str(NODES), "--gpus-per-node", str(GPUS),
                        "--policy", self.policy, "--placement", "consolidated", "--estimates",
                        "requested", "--out", tables], check=True, capture_output=True)  # fmt: skip
        with open(next(tables.rglob("jobs.csv")), newline="", encoding="utf-8") as file:
            return {row["job_id"]: (begin + float(row["start_s"]) / 1000,
                                    float(row["queue_s"]) / 1000)
                    for row in csv.DictReader(file)}  # fmt: skip

    def judge(self, wrong):
        """Number of requeues; adds the faults of the jobs to `wrong`."""
        text, acts, requeues = self.driver.text(), self.driver.acts(), 0
        wrong.extend(self.driver.endings)
        for job in self.jobs:
            row, decided = job.row, text.count(f" requeue job {job.id}:")
            requeues += decided
            if not row or row.state != "COMPLETED":
                wrong.append(f"job {job.id} is {row and row.state}")
                continue
            starts, elapsed = job.starts(self.slurm), job.elapsed(self.slurm)
            if starts > 1 + row.restarts or row.restarts > decided:
                wrong.append(f"job {job.id} began {starts} times, {row.restarts} requeues, "
                             f"{decided} decided")  # fmt: skip
            if repeated_orders(acts, job.id) > text.count(f"job {job.id}: expected the order"):
                wrong.append(f"the start of job {job.id} was sent again without a reason")
            if elapsed != job.seconds:
                wrong.append(f"job {job.id} ran {elapsed} s, expected {job.seconds} s")
        return requeues

    def replay(self, wrong):
        result = subprocess.run([PROGRAM, "replay", self.log, "--json"], capture_output=True,
                                text=True)  # fmt: skip
        if result.returncode != 0 or not json.loads(result.stdout)["identical"]:
            wrong.append(f"the replay is not identical: {result.stdout}{result.stderr}")
            return 0
        return json.loads(result.stdout)["decisions"]

    def simulate_log(self, wrong):
        """Mean waits of the log, and the starts that differ in its simulation under the policy."""
        table = self.slurm.folder / "differences.csv"
        result = subprocess.run([PROGRAM, "replay", self.log, "--under", self.policy, "--json",
                                 "--differences", table, "--courses", self.courses],
                                capture_output=True, text=True)  # fmt: skip
        if result.returncode != 0:
            wrong.append(f"the log cannot be simulated: {result.stderr}")
            return {}
        found = json.loads(result.stdout)
        logged_s, there_s = found["recorded_wait_mean_s"], found["under"][0]["wait_mean_s"]
        if abs(logged_s - there_s) > max(2, there_s / 10):
            wrong.append(f"mean wait of the log {logged_s:.1f} s, {there_s:.1f} s simulated")
        with open(table, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        far = [row for row in rows if float(row["distance_s"] or "inf") > NEAR_S]
        wrong.extend(f"job {row['job_id']}: start {row['start']} differs in the simulated log, "
                     f"{row['distance_s']} s from {row['competing_event']}"
                     for row in far)  # fmt: skip
        return {"mean wait in the log, s": round(logged_s, 1),
                "in its simulation, s": round(there_s, 1),
                "other starts there": len(rows), "of them alone for 2 s": len(far)}  # fmt: skip

    def report(self, seed):
        wrong = []
        requeues, decisions = self.judge(wrong), self.replay(wrong)
        case = {"seed": seed, "policy": self.policy, "jobs": len(self.jobs), "requeues": requeues,
                "decisions replayed": decisions, "seconds": round(self.took_s)}  # fmt: skip
        case |= self.simulate_log(wrong)
        if all(job.ended for job in self.jobs):
            case |= self.compare(wrong)
        return case | {"wrong": wrong}

    def compare(self, wrong):
        observed = self.observed()
        with open(self.courses, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        recorded = {row["job_id"]: row for row in rows if row["policy"] == "recorded"}
        under = {row["job_id"]: float(row["start_s"]) for row in rows
                 if row["policy"] == self.policy}  # fmt: skip
        simulated = self.simulated(list(recorded.values()))
        other = [name for name, (start, _) in simulated.items() if abs(start - under[name]) > 0.01]
        wrong.extend(f"job {name} starts {simulated[name][0] - under[name]:+.3f} s from its start "
                     f"in orrery replay --under" for name in other)  # fmt: skip
        waits = [job.ended - job.submitted - observed[job.number][0] for job in self.jobs]
        real_s = sum(waits) / len(waits)
        there_s = sum(simulated[job.id][1] + float(recorded[job.id]["arrived_s"]) - job.submitted
                      for job in self.jobs) / len(self.jobs)  # fmt: skip
        if abs(real_s - there_s) > max(2, there_s / 10):
            wrong.append(f"mean wait {real_s:.1f} s, {there_s:.1f} s in orrery jobs")
        near, far = 0, 0
        for a, b in itertools.combinations(self.jobs, 2):
            here = observed[a.number][1] - observed[b.number][1]
            there = simulated[a.id][0] - simulated[b.id][0]
            if here * there < 0:
                is_near = min(abs(here), abs(there)) <= NEAR_S
                near, far = near + is_near, far + (not is_near)
        return {"mean wait on Slurm, s": round(real_s, 1), "in orrery jobs, s": round(there_s, 1),
                "other starts than replay --under": len(other),
                "inversions within 2 s": near, "beyond 2 s": far}  # fmt: skip


def table_of(cases):
    columns = [name for name in cases[-1] if name not in ("seed", "wrong")]
    yield "| " + " | ".join(columns) + " | wrong |"
    yield "|---" * (len(columns) + 1) + "|"
    for case in cases:
        yield "| " + " | ".join(str(case.get(name, "")) for name in columns) + \
            f" | {len(case['wrong'])} |"  # fmt: skip


def main():
    options = arguments(__doc__, policies="fifo,easy,srtf,max-min", jobs=300,
                        log=str(DATA) + "/jobs/philly_mid.csv")  # fmt: skip
    book, is_root = Book(options.record), os.geteuid() == 0
    for policy in options.policies.split(","):
        if policy in {case["policy"] for case in book.cases}:
            continue
        with cluster(nodes=NODES, gpus=GPUS, lease=LEASE, users=USERS if is_root else (),
                     database=is_root and not missing(database=True)) as slurm:  # fmt: skip
            run = Run(policy, read_jobs(options.log, options.jobs), slurm, options.mutant)
            try:
                run.run()
                book.add(run.report(options.seed))
                if book.cases[-1]["wrong"]:
                    keep_logs(slurm, options, policy)
            finally:
                run.driver.kill()
    print("\n".join(table_of(book.cases)))
    return 1 if book.wrong() else 0


if __name__ == "__main__":
    sys.exit(main())
