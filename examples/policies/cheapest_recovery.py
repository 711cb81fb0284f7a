"""Cheapest recovery of lost ranks: a spare, the same GPU again, or a smaller job.

The price of each way is the time in seconds by which it delays the end of the job. If a way is
rejected, the policy tries the next way: it knows the ids of its decisions, and every decision gets
an answer.

    orrery.simulate(scenario, policy=CheapestRecovery(replacement_s=30))
"""

import json
from dataclasses import replace

import orrery
from orrery import actions, events


class CheapestRecovery(orrery.Policy):
    def __init__(self, replacement_s=1.0):
        self.replacement_s = replacement_s  # seconds from the decision until a new rank has joined
        self.step_s = 0.0
        self.second = {}  # decision -> remaining ways, the cheapest first

    def needs(self):
        return orrery.Needs(actions=[actions.Assign])

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.StepsDone):
                self.step_s = event.duration / event.count
            elif isinstance(event, events.RanksLost):
                job = seen.jobs[event.job]
                self.decide(job, sorted(self.ways(seen, job), key=lambda way: way[0]), decisions)
            elif isinstance(event, events.Decided):
                left = self.second.pop(event.decision, None)
                if left and event.status == "rejected":
                    self.decide(seen.jobs[left[0][2].job], left, decisions)
        decisions.rest()

    def ways(self, seen, job):
        """Yields (seconds lost, name, Assign) of each possible way."""
        redo = self.step_s / 2
        spares = [int(gpu) for gpu in seen.state.free_gpus[: len(job.lost)]]
        if len(spares) == len(job.lost):
            gpus = list(job.gpus)
            for rank, gpu in zip(job.lost, spares):
                gpus[rank] = gpu
            yield redo + self.replacement_s, "spare", assign(job, gpus)
        if all(is_well(seen, job.gpus[rank]) for rank in job.lost):
            # The other ranks do the work of the lost ranks meanwhile.
            slower = self.replacement_s * len(job.lost) / len(job.gpus)
            yield redo + slower, "same GPU", assign(job, job.gpus)
        fewer = job.without_lost()
        if fewer.gpus and len(fewer.gpus) >= job.least_gpus:
            left = (job.steps - job.step) * self.step_s
            slower = left * (len(job.gpus) / len(fewer.gpus) - 1)
            yield redo + slower, "fewer", assign(job, fewer.gpus, fewer.layout)

    def decide(self, job, ways, decisions):
        if not ways:
            return
        loss, name, action = ways[0]
        others = "; ".join(f"{other[1]} {other[0]:.2f} s" for other in ways[1:])
        why = f"{name}: {loss:.2f} s lost" + (f" ({others})" if others else "")
        self.second[decisions.add(action, why=why, if_epoch=job.epoch)] = ways[1:]

    def save(self):
        return json.dumps([self.step_s, sorted(self.second)]).encode()


def assign(job, gpus, layout=None):
    return actions.Assign(job.id, list(gpus), layout or replace(job.layout), state="peer")


def is_well(seen, gpu):
    """Returns False if the GPU is lost or its removal is announced; a slower GPU is well."""
    part = seen.state.parts.get(("gpu", gpu))
    planned = part is not None and (part.removed_at, part.removed_at_step) != (None, None)
    return part is None or (part.health == "ok" and not planned)
