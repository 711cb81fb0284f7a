"""Starts and ends of jobs with parts of GPUs, by a program of its own: lists, thousandths of GPUs,
no class of Orrery. The rules are those of docs/jobs.md: a part goes to the GPU that is partly in
use with the least sufficient room, else to a free GPU; whole GPUs must be free."""

import collections

PREEMPTIVE = ("srtf", "srsf", "priority")


class Queue:
    """A cluster of `nodes` nodes with `size` GPUs each. A job is a dict with number, submit, milli
    (thousandths of GPUs, above 1000 whole GPUs), duration and priority; run() adds start, end,
    preemptions and gpus, the thousandths that it had of each GPU."""

    def __init__(self, policy, placement, nodes, size):
        self.policy, self.placement, self.nodes, self.size = policy, placement, nodes, size
        self.room = [1000] * (nodes * size)
        self.waiting, self.running = [], []
        self.now = 0
        self.seen = collections.Counter()

    # ---- places ----

    def idle(self, node):
        first = node * self.size
        return [gpu for gpu in range(first, first + self.size) if self.room[gpu] == 1000]

    def best_node(self, count, nodes):
        fits = [node for node in nodes if len(self.idle(node)) >= count]
        return min(fits, key=lambda node: (len(self.idle(node)), node), default=None)

    def whole(self, count):
        """Free GPUs for a job of `count` whole ones; nothing if there is no place."""
        everywhere = [gpu for node in range(self.nodes) for gpu in self.idle(node)]
        if self.placement == "count":
            return everywhere[:count] if len(everywhere) >= count else None
        full, rest = (0, count) if count <= self.size else divmod(count, self.size)
        idle = [node for node in range(self.nodes) if len(self.idle(node)) == self.size]
        if len(idle) < full:
            return None
        chosen = [gpu for node in idle[:full] for gpu in self.idle(node)]
        others = [
            node
            for node in range(self.nodes)
            if node not in idle[:full] and (node not in idle or not full or node > idle[full - 1])
        ]
        node = self.best_node(rest, others) if rest else None
        if rest and node is None:
            return None
        return chosen + (self.idle(node)[:rest] if rest else [])

    def place(self, job):
        if job["milli"] >= 1000:
            gpus = self.whole(job["milli"] // 1000)
            return None if gpus is None else {gpu: 1000 for gpu in gpus}
        partly = [gpu for gpu, room in enumerate(self.room) if job["milli"] <= room < 1000]
        if partly:
            self.seen["beside others"] += 1
            return {min(partly, key=lambda gpu: (self.room[gpu], gpu)): job["milli"]}
        gpus = self.whole(1)
        return None if gpus is None else {gpus[0]: job["milli"]}

    # ---- one job ----

    def start(self, job):
        """Starts the job; False, and counted, if it has no place although enough is free."""
        gpus = self.place(job)
        if gpus is None:
            self.seen["scattered"] += job["milli"] <= sum(self.room)
            return False
        for gpu, milli in gpus.items():
            self.room[gpu] -= milli
        self.waiting.remove(job)
        self.running.append(job)
        job.setdefault("start", self.now)
        job.update(gpus=gpus, since=self.now)
        return True

    def leave(self, job):
        for gpu, milli in job["gpus"].items():
            self.room[gpu] += milli
        job["left"] -= self.now - job["since"]
        self.running.remove(job)

    # ---- a pass ----

    def in_order(self):
        key = "duration" if self.policy == "sjf" else "number"
        for job in sorted(self.waiting, key=lambda job: (job[key], job["number"])):
            if not self.start(job) and self.policy != "fifo-skip":
                return

    def easy(self):
        head = None
        for job in sorted(self.waiting, key=lambda job: job["number"]):
            free = sum(self.room)
            if head is None:
                if not self.start(job):
                    head = self.reserve(job)
                continue
            shadow, extra = head
            long = self.now + job["duration"] > shadow
            if job["milli"] > free or (long and job["milli"] > extra):
                continue
            if self.start(job):
                self.seen["backfilled"] += 1
                head = (shadow, extra - job["milli"] if long else extra)

    def reserve(self, job):
        free = sum(self.room)
        if free >= job["milli"]:
            return (self.now, free - job["milli"])
        ends = sorted((j["since"] + j["left"], j["milli"], j["number"]) for j in self.running)
        for end, milli, _ in ends:
            free += milli
            if free >= job["milli"]:
                return (end, free - job["milli"])
        raise AssertionError("a job of the log fits the empty cluster")

    def rank(self, job):
        runs = job in self.running
        if self.policy == "priority":
            return (-job["priority"], not runs, job["submit"])
        left = job["left"] - (self.now - job["since"] if runs else 0)
        return (left * (job["milli"] if self.policy == "srsf" else 1), job["submit"], not runs)

    def preempting(self):
        if not self.waiting:
            return
        free, off, on = 1000 * len(self.room), [], []
        for job in sorted(self.waiting + self.running, key=self.rank):
            fits = job["milli"] <= free
            free -= job["milli"] if fits else 0
            if fits and job in self.waiting:
                on.append(job)
            if not fits and job in self.running:
                off.append(job)
        for job in off:
            self.leave(job)
            self.waiting.append(job)
            job["preemptions"] += 1
            self.seen["preempted"] += 1
        for job in on:
            self.start(job)

    def run(self, jobs):
        later = [job for job in jobs if job["milli"] <= 1000 * len(self.room)]
        for job in later:
            job.update(left=job["duration"], preemptions=0)
        while later or self.waiting or self.running:
            ends = [job["since"] + job["left"] for job in self.running]
            self.now = min(ends + [job["submit"] for job in later[:1]])
            for job in [job for job in self.running if job["since"] + job["left"] <= self.now]:
                self.leave(job)
                job["end"] = self.now
            while later and later[0]["submit"] <= self.now:
                self.waiting.append(later.pop(0))
            if self.policy in PREEMPTIVE:
                self.preempting()
            elif self.policy == "easy":
                self.easy()
            else:
                self.in_order()
