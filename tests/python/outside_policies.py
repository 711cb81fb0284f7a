"""Policies in the manner of Oobleck, DGC, Falcon and a gang scheduler with quotas.

Written as outsiders write them. tests/cli/outside has the first three in C++.
"""

import numpy as np

import orrery
from orrery import actions, events, settings
from orrery.settings import CodecRule


class HotSpares(orrery.Policy):
    """Oobleck: a free GPU replaces each lost one, and the survivors train on meanwhile."""

    def needs(self):
        return orrery.Needs(actions=[actions.Assign])

    def observe(self, seen, decisions):
        for event in seen.events:
            if not isinstance(event, events.RanksLost):
                continue
            job = seen.jobs[event.job]
            kept = [gpu for rank, gpu in enumerate(job.gpus) if rank not in job.lost]
            spares = [int(gpu) for gpu in seen.state.free_gpus][: len(job.lost)]
            gpus = sorted(kept + spares)
            decisions.add(
                actions.Assign(job, gpus, job.layout, state="peer"),
                why=f"GPUs {spares} replace {len(job.lost)} ranks",
            )


class DeepCompression(orrery.Policy):
    """DGC: a stronger codec as long as the exchange takes too large a part of the computation.

    The first steps and the first steps after each change are a warm-up without a decision.
    """

    RUNGS = [("int8", 0.0), ("power-sgd", 4.0)]

    def __init__(self, most=0.5, warm_up=4):
        self.most, self.warm_up = most, warm_up
        self.rung, self.heard = 0, 0

    def needs(self):
        return orrery.Needs(settings=[settings.CodecRules])

    def observe(self, seen, decisions):
        for event in seen.events:
            if not isinstance(event, events.StepsDone):
                continue
            self.heard += event.count
            if self.heard < self.warm_up or self.rung == len(self.RUNGS):
                continue
            if seen.jobs[event.job].phase != "running":
                continue
            exposed, computed = self.measured(seen, seen.jobs[event.job])
            if not exposed > self.most * computed:
                continue
            codec, parameter = self.RUNGS[self.rung]
            self.rung, self.heard = self.rung + 1, 0
            rules = [
                CodecRule(0, codec, parameter, error_feedback=True),
                CodecRule(1),
            ]
            decisions.configure(
                event.job,
                settings.CodecRules(rules),
                at_step=event.last + 2,
                why=f"the exchange takes more than {self.most:.0%} of the computation",
            )

    def measured(self, seen, job):
        """Returns seconds of the exchange that nothing hides, and of the computation of a step."""
        sums = seen.samples.collectives(job)
        ranks = seen.samples.ranks(job)
        batches = max(job.shares.per_replica)
        return float(np.sum(sums["exposed"])), batches * np.nanmedian(ranks["micro_batch_time"])

    def save(self):
        return f"{self.rung} {self.heard}".encode()

    def load(self, state):
        self.rung, self.heard = map(int, state.split())


class Guard(orrery.Policy):
    """Falcon: a GPU that is slow for several steps gives its rank to a spare, or does less."""

    def __init__(self, slow=1.5, steps=3):
        self.slow, self.steps = slow, steps
        self.suspect, self.times, self.decided = -1, 0, False

    def needs(self):
        return orrery.Needs(actions=[actions.Assign], settings=[settings.Shares])

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.StepsDone) and not self.decided:
                job = seen.jobs[event.job]
                if job.phase == "running" and self.confirmed(seen.samples.ranks(job)):
                    self.decided = True
                    self.eject(seen, job, decisions)

    def confirmed(self, ranks):
        """Returns true if the same rank was the only slow one in enough steps, one by one."""
        times = ranks["micro_batch_time"]
        if not len(times) or np.isnan(times).any():
            return False
        late = ranks["rank"][times > self.slow * np.median(times)]
        suspect = int(late[0]) if len(late) == 1 else -1
        self.times = self.times + 1 if suspect == self.suspect and suspect >= 0 else 1
        self.suspect = suspect
        return suspect >= 0 and self.times >= self.steps

    def eject(self, seen, job, decisions):
        gpus, slow = list(job.gpus), self.suspect
        spares = [int(gpu) for gpu in seen.state.free_gpus]
        if spares:
            kept = [gpu for gpu in gpus if gpu != gpus[slow]]
            where = sorted([*kept, spares[0]])
            why = f"GPU {gpus[slow]} is slow, GPU {spares[0]} is free"
            decisions.add(actions.Assign(job, where, job.layout, state="peer"), why=why)
            return
        shares = list(job.shares.per_replica)
        moved = shares[slow] // 2
        others = [rank for rank in range(len(shares)) if rank != slow]
        shares[slow] -= moved
        for index in range(moved):
            shares[others[index % len(others)]] += 1
        why = f"GPU {gpus[slow]} is slow, no GPU is free"
        decisions.configure(job, settings.Shares(shares), why=why)

    def save(self):
        return f"{self.suspect} {self.times} {int(self.decided)}".encode()

    def load(self, state):
        suspect, times, decided = map(int, state.split())
        self.suspect, self.times, self.decided = suspect, times, bool(decided)


class QuotaGangs(orrery.Policy):
    """Gang scheduler: a job starts whole, in one rack, within the quota of its user, or waits.

    A job that waits blocks nobody. The smallest sufficient rack is taken, so that large gangs find
    room.
    """

    def __init__(self, quota=0.5, nodes_per_rack=2):
        self.quota, self.nodes_per_rack = quota, nodes_per_rack

    def needs(self):
        return orrery.Needs(actions=[actions.Assign])

    def observe(self, seen, decisions):
        jobs = seen.jobs.table()
        waiting = (jobs["phase"] == "waiting") & ~jobs["pending"]
        users, owner = np.unique(jobs["user"], return_inverse=True)
        left = np.full(len(users), int(self.quota * self.cluster.gpus))
        placed = ~waiting & (jobs["phase"] != "done")
        np.subtract.at(left, owner[placed], jobs["gpus"][placed])
        width = self.nodes_per_rack * self.cluster.gpus // self.cluster.nodes
        free = seen.state.free_gpus
        rack_of = free // width
        room = np.bincount(rack_of, minlength=-(-self.cluster.gpus // width)).tolist()
        used, left, asked = [0] * len(room), left.tolist(), jobs["gpus"]
        rows = np.flatnonzero(waiting & (asked <= max(room)) & (asked <= np.array(left)[owner]))
        each = zip(jobs["id"][rows].tolist(), asked[rows].tolist(), owner[rows].tolist())
        most = max(room)
        for job, count, user in each:
            if count > left[user] or count > most:
                continue
            rack = min((space, rack) for rack, space in enumerate(room) if space >= count)[1]
            gpus = free[rack_of == rack][used[rack] : used[rack] + count]
            room[rack] -= count
            used[rack] += count
            left[user] -= count
            most = max(room)
            where = actions.Assign(job, gpus.tolist())
            decisions.add(where, why=f"{count} GPUs in rack {rack}")
        decisions.rest()
