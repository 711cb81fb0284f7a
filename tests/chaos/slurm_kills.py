"""Kills the driver of a real Slurm, and its slurmd, again and again while jobs come, run and end.

python3 tests/chaos/slurm_kills.py [--kills 100] [--nodes-kills 100] [--seed 1] [--record FILE]
    [--policies easy,fifo,srtf,max-min] [--keeper-from 1000] [--mutant twice|again|no-leases]

Each seed is one case: a fresh Slurm of four nodes, one of the policies, and kill -9 of `orrery
cluster slurm` and of a slurmd that returns, at random instants, until the kills of the case are
done and all jobs have ended. Counted as wrong:

- lost: a job that has not begun and ended;
- twice: a job that began more often than Slurm requeued it, a requeue that neither a policy nor
  Slurm itself decided, a job that was complete and ran again, and a start that was sent again
  without a reason;
- held: a job that does not complete;
- unleased: a job that began without an order while one driver had run for four seconds;
- ended: a driver that ended by itself.

Jobs that begin by themselves while no driver runs are counted apart, as are requeues by Slurm after
the kill of a slurmd that was starting a job. `--keeper-from 5` lets one keeper job stand for the
leases while more than five jobs wait; the jobs that were sent to a keeper are counted.
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
    completions,
    has_ended,
    keep_logs,
    read_rows,
    repeated_orders,
    unordered_starts,
)

LEASE = 6
A_CASE = 10  # kills of each kind in one case
STEADY_S = 4  # a driver renews all leases within this time of its start
PATIENCE_S = 240  # Slurm itself lets a requeued job wait for 121 s
OWN_REQUEUE = r"[Rr]equeu\w+ (?:job )?JobId=(\d+) due to|JobId=(\d+) missing from batch node"


class Attack:
    """One run of jobs under a driver and nodes that are killed."""

    def __init__(self, seed, options, left, slurm):
        self.dice = random.Random(seed)
        policies = options.policies.split(",")
        self.policy = policies[seed % len(policies)]
        self.slurm, self.jobs, self.waits = slurm, [], []
        self.keepers = set()
        self.left = {kind: max(0, min(A_CASE, count)) for kind, count in left.items()}
        self.made = dict.fromkeys(self.left, 0)
        self.driver = Driver(slurm, self.policy, "--mode", "drive", "--lease", LEASE, "--every",
                             "0.4", "--keeper-from", options.keeper_from,
                             mutant=options.mutant)  # fmt: skip
        self.start_driver()

    def kill(self, kind):
        """Kills one process, which starts again after a while."""
        if kind == "driver":
            self.driver.kill()
            self.is_driver_down = True
            pause_s, again = self.dice.choice([0, 0, 1, LEASE + 2]), self.start_driver
        else:
            node = f"n{self.dice.randint(1, self.slurm.nodes)}"
            self.slurm.kill(node)
            pause_s, again = self.dice.uniform(0, 3), lambda: self.slurm.start_node(node)
        self.made[kind] += 1
        self.left[kind] -= 1

        def restart():
            again()
            if self.left[kind] > 0:
                self.plan(self.dice.uniform(*KILL_AFTER[kind]), lambda: self.kill(kind))

        self.plan(pause_s, restart)

    def start_driver(self):
        self.driver.start()
        self.is_driver_down = False

    def plan(self, seconds, act):
        self.waits.append((time.monotonic() + seconds, act))

    def do_planned(self):
        if not self.is_driver_down and self.driver.note_end():
            self.driver.start()
        due = [each for each in self.waits if each[0] <= time.monotonic()]
        for each in due:
            self.waits.remove(each)
            each[1]()

    def submit(self):
        self.jobs.append(Job(
            self.slurm, len(self.jobs), self.dice.choice([1, 1, 2, 3]),
            self.dice.choice([1, 2, 4, 8]), self.dice.randint(1, 4),
        ))  # fmt: skip
        if self.is_attacked():
            self.plan(self.dice.uniform(0.2, 0.8), self.submit)

    def is_attacked(self):
        return sum(self.left.values()) > 0 or len(self.jobs) < 30

    def run(self):
        self.plan(0, self.submit)
        for kind, count in self.left.items():
            if count > 0:
                self.plan(self.dice.uniform(*FIRST_KILL), lambda kind=kind: self.kill(kind))
        while self.is_attacked() or self.waits:
            self.do_planned()
            time.sleep(0.05)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and not has_ended(self.slurm):
            self.do_planned()
            time.sleep(0.5)
        self.driver.end()
        self.keepers = keepers_of(self.slurm)

    def own_requeues(self):
        """Ids of the jobs that Slurm itself has requeued."""
        log = (self.slurm.folder / "slurmctld.log").read_text(errors="replace")
        return [one or other for one, other in re.findall(OWN_REQUEUE, log)]

    def report(self, seed, took_s):
        rows, acts, text = read_rows(self.slurm), self.driver.acts(), self.driver.text()
        own, wrong, by_themselves = self.own_requeues(), list(self.driver.endings), 0
        completed = completions(self.slurm)
        for job in self.jobs:
            row = rows.get(job.name)
            starts, ends = job.marks("start"), job.marks("end")
            decided = text.count(f" requeue job {job.id}:")
            if row is None or not ends or ends[-1] < starts[-1]:
                wrong.append(f"lost: job {job.id}: {starts} {ends} {row and row.state}")
                continue
            if row.state != "COMPLETED":
                wrong.append(f"held: job {job.id} is {row.state} ({row.reason})")
            if len(starts) > 1 + row.restarts or row.restarts > decided + own.count(job.id):
                wrong.append(f"twice: job {job.id} began at {starts}, {row.restarts} requeues, "
                             f"{decided} decided, {own.count(job.id)} by Slurm")  # fmt: skip
            if completed.count(job.id) > 1:
                wrong.append(f"twice: job {job.id} was complete and ran again")
            if repeated_orders(acts, job.id) > text.count(f"job {job.id}: expected the order") + \
                    own.count(job.id):  # fmt: skip
                wrong.append(f"twice: the start of job {job.id} was sent again")
            for at in unordered_starts(acts, job):
                by_themselves += 1
                if self.driver.is_steady(at, STEADY_S) and job.id not in own:
                    wrong.append(f"unleased: job {job.id} began at {at:.1f} without an order")
        return {"seed": seed, "policy": self.policy, "jobs": len(self.jobs),
                "kills of the driver": self.made["driver"],
                "kills of a slurmd": self.made["node"],
                "requeues by the policy": text.count(" requeue job "),
                "requeues by Slurm": len(own), "began while no driver ran": by_themselves,
                "orders taken over": text.count("took over from"),
                "keepers": len(self.keepers),
                "jobs sent to a keeper": len(kept_jobs(acts)),
                "seconds": round(took_s), "wrong": wrong}  # fmt: skip


def keepers_of(slurm):
    """Ids of the keeper jobs so far."""
    rows = slurm.run("squeue", "-a", "-h", "-t", "all", "-n", "orrery-keeper", "-o", "%i")
    return set(rows.split())


def kept_jobs(acts):
    """Ids of the jobs that the drivers made wait for a keeper."""
    lines = [line.split() for _, line in acts if " Dependency=" in line and "afterany:" in line]
    return {job for words in lines for job in words[1].removeprefix("JobId=").split(",")}


KILL_AFTER = {"driver": (1, 10), "node": (1, 6)}  # seconds after a restart
FIRST_KILL = (3, 12)


def main():
    options = arguments(__doc__, kills=100, policies="easy,fifo,srtf,max-min",
                        **{"nodes-kills": 100, "keeper-from": 1000})  # fmt: skip
    book, seed = Book(options.record), options.seed
    while True:
        left = {
            "driver": options.kills - book.total("kills of the driver"),
            "node": options.nodes_kills - book.total("kills of a slurmd"),
        }
        if max(left.values()) <= 0:
            break
        if seed not in book.seeds():
            begin = time.monotonic()
            with cluster(nodes=4, gpus=8, lease=LEASE) as slurm:
                attack = Attack(seed, options, left, slurm)
                try:
                    attack.run()
                    book.add(attack.report(seed, time.monotonic() - begin))
                    if book.cases[-1]["wrong"]:
                        keep_logs(slurm, options, seed)
                finally:
                    attack.driver.kill()
        seed += 1
    print(f"{book.total('kills of the driver')} kills of the driver and "
          f"{book.total('kills of a slurmd')} of a slurmd while {book.total('jobs')} jobs ran: "
          f"{book.wrong()} lost, started twice, held or started in spite of a lease; "
          f"{book.total('began while no driver ran')} began by themselves while no driver ran, "
          f"{book.total('requeues by Slurm')} requeued by Slurm, "
          f"{book.total('orders taken over')} orders taken over" + (
              f"; {book.total('jobs sent to a keeper')} jobs waited for one of "
              f"{book.total('keepers')} keepers" if book.total("keepers") else ""))  # fmt: skip
    return 1 if book.wrong() else 0


if __name__ == "__main__":
    sys.exit(main())
