"""One keeper job instead of leases: thirty jobs under `orrery cluster slurm --keeper-from 5`.

python3 tests/chaos/slurm_keeper.py [--cases 3] [--seed 1] [--record FILE]
    [--mutant no-leases|no-starts]

Each seed is one case: a fresh Slurm of four nodes, thirty jobs of which the last depends on the one
before, and a driver that is killed twice at random instants. After the first kill another driver
starts at once and takes the keeper over. After the second none runs, until Slurm has started jobs
by itself; then a driver takes over the rest. Counted as wrong:

- unkept: waiting jobs that do not all depend on one keeper within 20 s, a dependency of the user
  that is gone or was not respected, a number of keepers other than two, and a keeper that ran;
- costs: while one driver runs, more than one update of the keeper in half a lease, and any lease of
  a single job;
- unleased: a job that began without an order while one driver had run for four seconds;
- late: no start within the lease and 15 s after the second kill;
- twice, held: a job that began more than once, or is not complete.
"""

import random
import re
import sys
import time

from slurm_target import (
    Book,
    Driver,
    Job,
    arguments,
    cluster,
    has_ended,
    keep_logs,
    read_rows,
    unordered_starts,
)

LEASE, JOBS, FROM = 8, 30, 5
STEADY_S = 4  # a driver renews all leases within this time of its start
OPEN_S = LEASE + 15
PATIENCE_S = 240
KEEPER = "orrery-keeper"


class Case:
    """One run of thirty jobs. `wrong`: descriptions of all faults so far."""

    def __init__(self, seed, options, slurm):
        self.dice = random.Random(seed)
        self.slurm, self.wrong = slurm, []
        self.driver = Driver(slurm, "fifo", "--mode", "drive", "--lease", LEASE, "--every", "0.4",
                             "--keeper-from", FROM, mutant=options.mutant)  # fmt: skip
        self.driver.start()
        self.jobs = [Job(slurm, number, 1, 8, 6) for number in range(JOBS - 1)]
        self.before = self.jobs[-1]
        self.jobs.append(Job(slurm, JOBS - 1, 1, 8, 1, "-d", f"afterok:{self.before.id}"))

    def rows(self):
        """[id, name, state, dependency] of all jobs."""
        output = self.slurm.run("squeue", "-r", "-a", "-h", "-t", "all", "-O",
                                "JobArrayID:|,Name:|,State:|,Dependency:|")  # fmt: skip
        return [line.split("|")[:4] for line in output.splitlines()]

    def keepers(self):
        """State by id of all keepers so far."""
        return {row[0]: row[2] for row in self.rows() if row[1] == KEEPER}

    def are_kept(self):
        """Whether all waiting jobs without an order depend on the keeper that waits."""
        rows = self.rows()
        keepers = [row[0] for row in rows if row[1] == KEEPER and row[2] == "PENDING"]
        waiting = [row[3] for row in rows if row[1] != KEEPER and row[2] == "PENDING"]
        free = sum(f"afterany:{keepers[0]}(" not in text for text in waiting) if keepers else 99
        return free <= 4  # the next job of each node

    def wait_until_kept(self, when):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if self.are_kept():
                return
            time.sleep(0.2)
        self.wrong.append(f"unkept: {when}, the waiting jobs do not depend on one keeper")

    def watch_costs(self):
        """Counts the updates of a driver that runs undisturbed for two leases."""
        begin = time.time()
        time.sleep(2 * LEASE)
        lines = [line for at, line in self.driver.acts() if at >= begin]
        renewals = sum(" Deadline=" in line for line in lines)
        leases = sum(re.match(r"update JobId=\S+ StartTime=now\+\d+$", line) is not None
                     for line in lines)  # fmt: skip
        if not 3 <= renewals <= 5 or leases:
            self.wrong.append(f"costs: {renewals} updates of the keeper and {leases} leases")
        for job, _, state, text in self.rows():
            if job == self.jobs[-1].id and (state != "PENDING" or
                                            f"afterok:{self.before.id}(" not in text):  # fmt: skip
                self.wrong.append(f"unkept: the dependency of job {job} became '{text}', {state}")
        return renewals

    def run(self):
        self.wait_until_kept("with the first driver")
        renewals = self.watch_costs()
        first = set(self.keepers())
        time.sleep(self.dice.uniform(0, LEASE / 2))
        self.driver.kill()
        self.driver.start()
        time.sleep(STEADY_S + self.dice.uniform(0, 2))
        self.wait_until_kept("with the second driver")
        if set(self.keepers()) != first or "took over the keeper job" not in self.driver.text():
            self.wrong.append("unkept: the second driver did not take the keeper over")
        self.driver.kill()
        opened_s = self.wait_for_start(time.time())
        self.driver.start()
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and not has_ended(self.slurm):
            time.sleep(0.5)
        self.driver.end()
        return {"updates of the keeper in two leases": renewals,
                "s from the kill to the first start": round(opened_s, 1)}  # fmt: skip

    def wait_for_start(self, killed):
        """Seconds until a job has begun without a driver."""
        ordered = {line.split()[1] for _, line in self.driver.acts() if "ReqNodeList=n" in line}
        while time.time() < killed + OPEN_S:
            for job in self.jobs:
                if f"JobId={job.id}" not in ordered and job.marks("start"):
                    return job.marks("start")[0] - killed
            time.sleep(0.2)
        self.wrong.append(f"late: no job began within {OPEN_S} s without a driver")
        return OPEN_S

    def report(self, seed, figures):
        rows, acts, alone = read_rows(self.slurm), self.driver.acts(), 0
        wrong = [*self.wrong, *self.driver.endings]
        for job in self.jobs:
            row, starts = rows.get(job.name), job.marks("start")
            if len(starts) > 1:
                wrong.append(f"twice: job {job.id} began {len(starts)} times")
            if row is None or row.state != "COMPLETED":
                wrong.append(f"held: job {job.id} is {row and row.state}")
            for at in unordered_starts(acts, job):
                alone += 1
                if self.driver.is_steady(at, STEADY_S):
                    wrong.append(f"unleased: job {job.id} began at {at:.1f} without an order")
        begun, ended = self.jobs[-1].marks("start"), self.before.marks("end")
        if begun and not (ended and ended[0] <= begun[0]):
            wrong.append(f"unkept: job {self.jobs[-1].id} began before job {self.before.id} ended")
        keepers = self.keepers()
        if len(keepers) != 2 or set(keepers.values()) - {"DEADLINE"}:
            wrong.append(f"unkept: expected two keepers that ended at their deadline: {keepers}")
        return {"seed": seed, "jobs": len(self.jobs), "keepers": len(keepers),
                "jobs begun by themselves": alone, **figures, "wrong": wrong}  # fmt: skip


def main():
    options = arguments(__doc__, cases=3)
    book = Book(options.record)
    for seed in range(options.seed, options.seed + options.cases):
        if seed in book.seeds():
            continue
        with cluster(nodes=4, gpus=8, lease=LEASE) as slurm:
            case = Case(seed, options, slurm)
            book.add(case.report(seed, case.run()))
            if book.cases[-1]["wrong"]:
                keep_logs(slurm, options, seed)
    late = max((case["s from the kill to the first start"] for case in book.cases), default=0)
    print(f"{len(book.cases)} cases with a keeper for more than {FROM} jobs: {book.total('jobs')} "
          f"jobs, {book.total('jobs begun by themselves')} begun by themselves while no driver "
          f"ran, the first at most {late} s after the kill (lease {LEASE} s); "
          f"{book.wrong()} faults")  # fmt: skip
    return 1 if book.wrong() else 0


if __name__ == "__main__":
    sys.exit(main())
