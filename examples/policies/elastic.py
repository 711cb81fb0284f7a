"""Elastic size of a job: fewer replicas after a loss, the old size when its GPUs are healthy.

    orrery.simulate(scenario, policy=Elastic(back_after_s=2))
"""

import json

import orrery
from orrery import actions, events


class Elastic(orrery.Policy):
    def __init__(self, back_after_s):
        self.back_after_s = back_after_s  # seconds from the loss to the request for the old size
        self.small = {}  # job -> [instant from which it may grow, old GPUs]

    def needs(self):
        return orrery.Needs(actions=[actions.Assign])

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.RanksLost):
                self.shrink(seen, seen.jobs[event.job], decisions)
            elif isinstance(event, events.JobDone):
                self.small.pop(event.job, None)
        for number, (at, gpus) in list(self.small.items()):
            if seen.now >= at and number in seen.jobs:
                self.grow(seen, seen.jobs[number], gpus, decisions)
        decisions.rest()

    def shrink(self, seen, job, decisions):
        where = job.without_lost()
        if not where.gpus:
            return
        at = seen.now + self.back_after_s
        self.small[job.id] = [at, self.small.get(job.id, [0, list(job.gpus)])[1]]
        decisions.add(
            actions.Assign(job, where.gpus, where.layout, state="peer"),
            why=f"{where.layout.data} replicas are left",
        )
        decisions.wake(at)

    def grow(self, seen, job, gpus, decisions):
        ready = job.phase == "running" and job.next is None and not job.lost
        if not ready or not all(is_well(seen, gpu) for gpu in gpus):
            self.small[job.id][0] = seen.now + self.back_after_s
            decisions.wake(self.small[job.id][0])
            return
        decisions.add(
            actions.Assign(job, gpus, job.spec.layout, state="peer"),
            at_step=job.step + 1,
            if_epoch=job.epoch,
            why="its GPUs are well again",
        )
        del self.small[job.id]

    def save(self):
        return json.dumps(sorted(self.small.items())).encode()

    def load(self, state):
        self.small = dict(json.loads(state))


def is_well(seen, gpu):
    """Returns False if the GPU is lost or its removal is announced; a slower GPU is well."""
    part = seen.state.parts.get(("gpu", gpu))
    planned = part is not None and (part.removed_at, part.removed_at_step) != (None, None)
    return part is None or (part.health == "ok" and not planned)
