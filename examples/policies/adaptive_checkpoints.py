"""Checkpoint interval from the observed failures and costs.

The interval is Young's: sqrt(2 x cost of a checkpoint x mean time between failures) (J. W. Young,
"A first order approximation to the optimum checkpoint interval", 1974). The cost is the stall of
the newest durable checkpoint, the mean time between failures follows from the observed losses.

    orrery.simulate(scenario, policy=AdaptiveCheckpoints(mtbf_s=3600))
"""

import json
import math

import orrery
from orrery import events, settings


class AdaptiveCheckpoints(orrery.Policy):
    def __init__(self, mtbf_s, tier="local-disk", first_every=10, tolerance=0.2):
        self.mtbf_s = mtbf_s  # assumed at first, with the weight of one failure
        self.tier = tier
        self.first_every = first_every  # interval in steps before a cost is known
        self.tolerance = tolerance  # relative change below which nothing changes
        self.failures = 0
        self.stall_s = None
        self.step_s = None

    def needs(self):
        return orrery.Needs(settings=[settings.CheckpointPlan])

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.StepsDone):
                self.step_s = event.duration / event.count
            elif isinstance(event, events.SaveDone) and event.durable:
                self.stall_s = event.stalled
            elif isinstance(event, events.RanksLost):
                self.failures += 1
            if isinstance(event, (events.JobStarted, events.SaveDone, events.RanksLost)):
                self.plan(seen, event.job, decisions)
        decisions.rest()

    def plan(self, seen, number, decisions):
        job = seen.jobs[number]
        if job.phase != "running":
            return
        mtbf = (seen.now - job.submit + self.mtbf_s) / (self.failures + 1)
        if self.step_s and self.stall_s is not None:
            interval = math.sqrt(2 * max(self.stall_s, 1e-3) * mtbf)
            every = max(1, round(interval / self.step_s))
            why = f"a checkpoint costs {self.stall_s:.3g} s, a failure comes every {mtbf:.3g} s"
        else:
            every, why = self.first_every, "to see what a checkpoint costs"
        now = job.checkpoint_plan.every_steps
        if now == 0 or abs(every - now) > self.tolerance * now:
            decisions.configure(job, settings.CheckpointPlan(every, self.tier), why=why)

    def save(self):
        return json.dumps([self.failures, self.stall_s, self.step_s]).encode()

    def load(self, state):
        self.failures, self.stall_s, self.step_s = json.loads(state)
