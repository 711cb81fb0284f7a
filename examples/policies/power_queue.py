"""Queue under a power budget that changes over time: a limit on the GPUs that work at once.

Jobs start in the order of submission, later ones before those that do not fit. A job whose estimate
reaches into a lower limit starts only if it may then go on; at the begin of a lower limit the jobs
that started last are paused until enough GPUs may work.

    budget = [(8 * 3600, 20 * 3600, 12)]  # 12 GPUs from 8 to 20 o'clock of every day
    orrery.jobs("trace.csv", nodes=2, gpus_per_node=8, policy=PowerQueue(budget))
"""

import orrery
from orrery import actions, events

DAY = 24 * 3600


class PowerQueue(orrery.Policy):
    def __init__(self, budget=((8 * 3600, 20 * 3600, 12),), pauses=True, every=DAY):
        self.budget = [tuple(limit) for limit in budget]  # (begin, end, GPUs) within `every`
        self.pauses = pauses
        self.every = every

    def needs(self):
        return orrery.Needs(actions=[actions.Assign])

    def limit(self, at):
        """Returns the GPUs that may work at an instant."""
        now = at % self.every
        limits = [gpus for begin, end, gpus in self.budget if begin <= now < end]
        return min([self.cluster.gpus, *limits])

    def changes(self, begin, end):
        """Returns the instants after `begin` and before `end` at which the limit changes."""
        first = int(begin // self.every)
        last = int(min(end, begin + 2 * self.every) // self.every)
        instants = (cycle * self.every + each for cycle in range(first, last + 2)
                    for limit in self.budget for each in limit[:2])
        return sorted({at for at in instants if begin < at < end})

    def observe(self, seen, decisions):
        following = self.changes(seen.now, float("inf"))
        if following:
            decisions.wake(following[0])
        if any(not isinstance(event, (events.StepsDone, events.Tick)) for event in seen.events) \
                or self.limit(seen.now) != self.limit(seen.now - 1e-6):
            self.schedule(seen, decisions)
        decisions.rest()

    def schedule(self, seen, decisions):
        jobs = sorted(seen.jobs.values(), key=lambda job: job.id)
        running = [job for job in jobs if job.phase in ("running", "starting") and not job.next]
        working = sum(len(job.gpus) for job in running)
        free = list(map(int, seen.state.free_gpus))
        running.sort(key=lambda job: (job.started, job.id))
        paused = set()
        while working > self.limit(seen.now) and running:
            job = running.pop()
            working -= len(job.gpus)
            paused.add(job.id)
            decisions.add(actions.Assign(job), why=f"limit of {self.limit(seen.now)} GPUs")
        for job in jobs:
            size = job.spec.gpus
            if job.phase != "waiting" or job.id in paused or size > len(free):
                continue
            if size + working > self.limit(seen.now) or not self.lasts(job, size + working, seen):
                continue
            gpus, free = free[:size], free[size:]
            working += size
            decisions.add(actions.Assign(job, gpus, job.spec.layout), why="within the budget")

    def lasts(self, job, working, seen):
        """Returns True if a job that starts now need not be paused before its expected end. A job
        that fits below no later limit, or of unknown duration, may start if jobs are paused."""
        if self.pauses:
            return True
        end = seen.now + (job.spec.estimate or self.every)
        return all(working <= self.limit(at) for at in self.changes(seen.now, end))
