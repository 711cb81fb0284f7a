"""Queue by priority: a job gets all its GPUs at once, close together, or waits.

A job preempts jobs of lower priority: these leave and the job starts in one group of decisions,
which is applied as a whole or not at all.

    orrery.jobs("trace.csv", nodes=16, gpus_per_node=8, policy=GangScheduler({"urgent": 1}))
"""

import orrery
from orrery import actions, events


class GangScheduler(orrery.Policy):
    def __init__(self, pools=None, preempts=True):
        self.pools = dict(pools or {})  # pool -> priority, added to the job's own
        self.preempts = preempts

    def needs(self):
        return orrery.Needs(actions=[actions.Assign])

    def priority(self, job):
        return job.priority + self.pools.get(job.pool, 0)

    def observe(self, seen, decisions):
        if any(not isinstance(event, (events.StepsDone, events.Tick)) for event in seen.events):
            self.schedule(seen, decisions)
        decisions.rest()

    def schedule(self, seen, decisions):
        free = set(map(int, seen.state.free_gpus))
        waiting = [job for job in seen.jobs.values() if job.phase == "waiting"]
        running = [job for job in seen.jobs.values() if job.phase == "running" and not job.next]
        running.sort(key=lambda job: (self.priority(job), -job.started))
        for job in sorted(waiting, key=lambda job: (-self.priority(job), job.id)):
            leaving = []
            room = len(free)
            while self.preempts and room < job.spec.gpus and running:
                if self.priority(running[0]) >= self.priority(job):
                    break
                leaving.append(running.pop(0))
                room += len(leaving[-1].gpus)
            if room < job.spec.gpus:
                return  # the head of the queue waits, no job overtakes it
            group = decisions.new_group()
            for victim in leaving:
                free.update(victim.gpus)
                why = f"makes room for job {job.id}"
                decisions.add(actions.Assign(victim), group=group, why=why)
            gpus = self.together(job.spec.gpus, free)
            free.difference_update(gpus)
            action = actions.Assign(job, gpus, job.spec.layout)
            decisions.add(action, group=group, why=f"{len(gpus)} GPUs at once")

    def together(self, count, free):
        """Returns `count` GPUs of `free`, from the smallest sufficient unit, node by node."""
        cluster = self.cluster
        by_node, by_unit = {}, {}
        for gpu in sorted(free):
            by_node.setdefault(cluster.node_of(gpu), []).append(gpu)
        for node, gpus in by_node.items():
            unit = cluster.unit_of(node)
            by_unit[unit] = by_unit.get(unit, 0) + len(gpus)
        enough = {unit: room for unit, room in by_unit.items() if room >= count}
        nodes = by_node
        if enough:
            unit = min(enough, key=lambda each: (enough[each], each))
            nodes = {n: gpus for n, gpus in by_node.items() if cluster.unit_of(n) == unit}
        fullest = sorted(nodes, key=lambda node: (-len(nodes[node]), node))
        return [gpu for node in fullest for gpu in nodes[node]][:count]
