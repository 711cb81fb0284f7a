"""Fastest algorithm for the all-reduce of gradients, found by a trial of some steps with each.

    orrery.simulate(scenario, policy=CollectiveTuner(["ring", "tree", "halving-doubling"]))
"""

import json

import orrery
from orrery import events, settings


class CollectiveTuner(orrery.Policy):
    def __init__(self, algorithms=("ring", "tree", "halving-doubling"), steps=4):
        self.algorithms = list(algorithms)
        self.steps = steps  # steps of each trial
        self.heard = {}  # job -> {algorithm -> seconds that computation did not hide}
        self.asked = {}  # job -> newest requested algorithm
        self.open = {}  # decision -> job, algorithm
        self.settled = set()

    def needs(self):
        return orrery.Needs(settings=[settings.CollectiveTable])

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, (events.StepsDone, events.JobStarted)):
                self.look(seen, seen.jobs[event.job], decisions)
            elif isinstance(event, events.Decided) and event.decision in self.open:
                number, algorithm = self.open.pop(event.decision)
                if event.status == "rejected" and number in seen.jobs:
                    self.heard[number][algorithm] = [float("inf")]  # the algorithm was rejected
                    self.look(seen, seen.jobs[number], decisions)
            elif isinstance(event, events.JobDone):
                self.settled.discard(event.job)

    def look(self, seen, job, decisions):
        heard = self.heard.setdefault(job.id, {})
        for row in seen.samples.collectives(job):
            # The sample names the algorithm of its step, after which the table may have changed.
            if row["kind"] == "all-reduce" and row["step"] + 1 == job.step:
                heard.setdefault(str(row["algorithm"]), []).append(float(row["exposed"]))
        if job.id in self.settled or job.phase != "running":
            return
        asked = self.asked.get(job.id)
        tried = heard.get(asked, ())
        if asked is not None and len(tried) < self.steps and float("inf") not in tried:
            return
        left = [name for name in self.algorithms if name not in heard]
        if left:
            self.use(job, left[0], "not tried yet", decisions)
            return
        means = {name: sum(heard[name]) / len(heard[name]) for name in self.algorithms}
        best = min(means, key=means.get)
        shown = ", ".join(f"{name} {mean * 1e3:.2f} ms" for name, mean in means.items())
        self.settled.add(job.id)
        self.use(job, best, shown, decisions)

    def use(self, job, algorithm, why, decisions):
        self.asked[job.id] = algorithm
        rule = settings.CollectiveRule("all-reduce", algorithm=algorithm)
        table = settings.CollectiveTable([rule])
        decision = decisions.configure(job, table, at_step=job.step + 1, why=why)
        self.open[decision] = job.id, algorithm

    def save(self):
        state = [sorted(self.heard.items()), sorted(self.asked.items()), sorted(self.settled)]
        return json.dumps(state).encode()
