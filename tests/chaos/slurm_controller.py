"""Kills slurmctld of a driven Slurm again and again while jobs come, run and end.

python3 tests/chaos/slurm_controller.py [--kills 30] [--seed 1] [--record FILE]
    [--mutant twice|again|no-leases|no-starts]

Each seed is one case: a fresh Slurm of four nodes, a driver, and kill -9 of slurmctld at random
instants; the next kill comes eight to fourteen seconds after slurmctld answers again. A slurmctld
that is killed has lost the acts of up to five seconds before, with or without a driver. Such a loss
is counted apart, by the instants of the acts and of the kills. Counted as wrong:

- lost: a job that was submitted more than five seconds before a kill and has not begun and ended;
- twice: a start whose earlier start and end are more than five seconds older than any kill, or a
  start that was sent again without a reason;
- held: a job that does not complete;
- ended: a driver that ended by itself;
- drained: a node that Slurm drained although no job that was ordered there had begun or ended
  within five seconds before a kill (slurmctld may keep the order and lose the start, and then
  starts the job again by itself);
- silent: a restart of slurmctld, a lost job that was ordered to start, or a second start that no
  message names. An order of a later job that got the id of a lost one is not counted.

A slurmd keeps the id of a job that ended while slurmctld had lost its start. It refuses a second
start of this job, and Slurm drains the node. This script then does the operator's part: it starts
the slurmd again, resumes the node, and counts it apart.
"""

import math
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
    lines_of,
    read_rows,
    repeated_orders,
)

LEASE = 10
A_CASE = 10  # kills in one case
YOUNG_S = 5  # age of the acts that slurmctld itself loses
PATIENCE_S = 240  # Slurm shows a job whose end it has lost as running until the limit


class Attack:
    """One run of jobs under a slurmctld that is killed. `downs`: pairs of instants between which
    slurmctld did not answer."""

    def __init__(self, seed, options, slurm):
        self.dice = random.Random(seed)
        self.slurm, self.jobs, self.downs, self.drained = slurm, [], [], []
        self.driver = Driver(slurm, "easy", "--mode", "drive", "--lease", LEASE, "--every", "0.4",
                             mutant=options.mutant)  # fmt: skip
        self.driver.start()

    def submit_until(self, end):
        while time.monotonic() < end:
            self.jobs.append(Job(
                self.slurm, len(self.jobs), self.dice.choice([1, 1, 2, 3]),
                self.dice.choice([1, 2, 4, 8]), self.dice.randint(2, 6),
            ))  # fmt: skip
            self.resume_nodes()
            time.sleep(self.dice.uniform(0.4, 1.2))

    def resume_nodes(self):
        """Does the operator's part for the nodes that Slurm has drained, and notes them."""
        rows = self.slurm.run("sinfo", "-h", "-N", "-p", "orrery", "-o", "%N|%T|%E", check=False)
        for node, state, reason in (line.split("|", 2) for line in rows.splitlines()):
            if state.startswith("drain") and reason == "Duplicate jobid":
                self.drained.append((node, time.time()))
                self.slurm.kill(node)
                self.slurm.start_node(node)
                self.slurm.run("scontrol", "update", f"NodeName={node}", "State=RESUME",
                               check=False)  # fmt: skip

    def kill(self):
        begin = time.time()
        self.slurm.kill("slurmctld")
        time.sleep(self.dice.uniform(0, 1))
        self.slurm.start_controller()
        self.downs.append((begin, time.time()))

    def run(self, kills):
        for _ in range(kills):
            self.submit_until(time.monotonic() + self.dice.uniform(8, 14))
            self.kill()
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and not has_ended(self.slurm):
            self.resume_nodes()
            time.sleep(0.5)
        self.driver.end()

    def is_young(self, at):
        """Whether an act at this instant may be lost by Slurm itself."""
        return any(begin - YOUNG_S <= at <= end + 1 for begin, end in self.downs)

    def is_ordered(self, job, acts):
        """Whether the job itself, not a later one with its id, was ordered to start."""
        later = [each.at for each in self.jobs if each.id == job.id and each.at > job.at]
        return any(kind == "start" and job.at <= at < min(later, default=math.inf)
                   for at, kind in lines_of(acts, job.id))  # fmt: skip

    def judge_starts(self, job, text, wrong):
        """Number of starts that Slurm itself has repeated; adds the others to `wrong`."""
        starts, ends = job.marks("start"), job.marks("end")
        by_slurm = 0
        for at, later in zip(starts, starts[1:]):
            acts = [at, *(end for end in ends if at < end < later)]
            if any(map(self.is_young, acts)):
                by_slurm += 1
            else:
                wrong.append(f"twice: job {job.id} began at {at:.1f} and {later:.1f}")
        if len(starts) > 1 and not re.search(rf"orrery: job {job.id}\b", text):
            wrong.append(f"silent: no message names the second start of job {job.id}")
        return by_slurm

    def judge_orders(self, job, acts, text, wrong):
        """Number of orders that the driver repeated; adds those without a reason to `wrong`."""
        repeated = text.count(f"job {job.id}: expected the order")
        reasons = repeated + sum(text.count(f"orrery: job {job.id}{reason}") for reason in (
            " went back", " of ", " was requeued by Slurm", " was held or changed",
        )) + len(re.findall(rf"orrery: job {job.id} is \S+ again after its end", text))  # fmt: skip
        sharing = sum(each.id == job.id for each in self.jobs) - 1  # jobs that got its lost id
        if repeated_orders(acts, job.id) > reasons + sharing:
            wrong.append(f"twice: the start of job {job.id} was sent again without a reason")
        return repeated

    def judge_drains(self, acts, wrong):
        """Adds the drained nodes that no young act explains to `wrong`."""
        for node, at in self.drained:
            ordered = {line.split()[1] for begin, line in acts if begin <= at and
                       re.search(rf"ReqNodeList=(\S+,)?{node}[ ,]", line + " ")}  # fmt: skip
            if not any(f"JobId={job.id}" in ordered and
                       any(mark <= at and self.is_young(mark)
                           for mark in [*job.marks("start"), *job.marks("end")])
                       for job in self.jobs):  # fmt: skip
                wrong.append(f"drained: {node} at {at:.1f}")

    def report(self, seed, took_s):
        rows, acts, text = read_rows(self.slurm), self.driver.acts(), self.driver.text()
        wrong, lost, by_slurm, repeated, overtime = list(self.driver.endings), 0, 0, 0, 0
        for job in self.jobs:
            row, ends = rows.get(job.name), job.marks("end")
            if not ends and row is None and self.is_young(job.at):
                lost += 1
                if self.is_ordered(job, acts) and f"job {job.id} of " not in text:
                    wrong.append(f"silent: no message names the lost job {job.id}")
            elif not ends:
                wrong.append(f"lost: job {job.id} of {job.at:.1f}, {row and row.state}")
            elif row and row.state == "TIMEOUT" and self.is_young(ends[-1]):
                overtime += 1  # slurmctld has lost the end
            elif row and row.state != "COMPLETED":
                wrong.append(f"held: job {job.id} is {row.state} ({row.reason})")
            by_slurm += self.judge_starts(job, text, wrong)
            repeated += self.judge_orders(job, acts, text, wrong)
        self.judge_drains(acts, wrong)
        reported = text.count("slurmctld was restarted")
        if reported < len(self.downs):
            wrong.append(f"silent: {len(self.downs)} restarts of slurmctld, {reported} reported")
        return {"seed": seed, "jobs": len(self.jobs), "kills of slurmctld": len(self.downs),
                "restarts reported": reported, "lost by Slurm, younger than 5 s": lost,
                "started twice by Slurm, younger than 5 s": by_slurm,
                "shown as running after an end younger than 5 s": overtime,
                "starts lost and reported": text.count("went back into the queue without"),
                "orders repeated": repeated, "nodes drained by Slurm": len(self.drained),
                "ends lost and reported": text.count("again after its"),
                "seconds": round(took_s), "wrong": wrong}  # fmt: skip


def main():
    options = arguments(__doc__, kills=30)
    book, seed = Book(options.record), options.seed
    while (left := options.kills - book.total("kills of slurmctld")) > 0:
        if seed not in book.seeds():
            begin = time.monotonic()
            with cluster(nodes=4, gpus=8, lease=LEASE) as slurm:
                attack = Attack(seed, options, slurm)
                try:
                    attack.run(min(left, A_CASE))
                    book.add(attack.report(seed, time.monotonic() - begin))
                    if book.cases[-1]["wrong"]:
                        keep_logs(slurm, options, seed)
                finally:
                    attack.driver.kill()
        seed += 1
    print(f"{book.total('kills of slurmctld')} kills of slurmctld while {book.total('jobs')} jobs "
          f"ran: {book.wrong()} lost, started twice, held or without a message beyond acts younger "
          f"than {YOUNG_S} s; of these younger acts Slurm lost "
          f"{book.total('lost by Slurm, younger than 5 s')} submissions and "
          f"{book.total('started twice by Slurm, younger than 5 s')} starts or ends; "
          f"{book.total('orders repeated')} orders repeated, "
          f"{book.total('nodes drained by Slurm')} nodes drained by Slurm")  # fmt: skip
    return 1 if book.wrong() else 0


if __name__ == "__main__":
    sys.exit(main())
