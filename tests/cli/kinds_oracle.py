"""Starts, ends and kinds of jobs on a cluster with several kinds of GPUs, by a program of its own:
lists, whole nanoseconds, no class of Orrery. The rules are those of docs/jobs.md: a job has GPUs of
one kind, the fastest of its kinds that has enough free; the kind determines its speed."""

import collections
import math

SECOND = 10**9
PREEMPTIVE = ("srtf", "priority")


class Queue:
    """A cluster with `sizes`, GPUs by kind in the order of the nodes. A job is a dict with number,
    submit, gpus, duration, priority, kinds and speeds (by kind; empty: equal); run() adds start,
    end, kind and preemptions."""

    def __init__(self, policy, sizes, restart):
        self.policy, self.sizes, self.restart = policy, sizes, restart
        self.free = dict(sizes)
        self.waiting, self.running = [], []
        self.now = 0
        self.seen = collections.Counter()

    # ---- one job ----

    def choices(self, job):
        """Kinds in the order in which the job prefers them."""
        named = job["kinds"] or list(self.sizes)
        there = [kind for kind in named if kind in self.sizes]
        return sorted(there, key=lambda kind: -job["speeds"].get(kind, 1))

    def fits(self, job):
        return any(job["gpus"] <= self.sizes[kind] for kind in self.choices(job))

    def pace(self, job):
        if not job["speeds"]:
            return 1
        return job["speeds"][job["kind"]] / job["speeds"][job["kinds"][0]]

    def due(self, job):
        left = max(0, job["duration"] * SECOND - job["done"])
        pace = self.pace(job)
        return job["mark"] + job["delay"] + (left if pace == 1 else math.ceil(left / pace))

    def begin(self, job, kind):
        self.waiting.remove(job)
        self.running.append(job)
        self.free[kind] -= job["gpus"]
        again = "start" in job
        job.setdefault("start", self.now)
        job.update(kind=kind, mark=self.now, delay=self.restart if again else 0)
        self.seen["slower kind"] += kind != self.choices(job)[0]

    def leave(self, job):
        passed = self.now - job["mark"]
        works, pace = max(0, passed - job["delay"]), self.pace(job)
        job["done"] += works if pace == 1 else math.floor(works * pace + 0.5)
        job["served"] += passed
        self.running.remove(job)
        self.free[job["kind"]] += job["gpus"]

    # ---- a pass ----

    def first_kind(self, job, left):
        return next((kind for kind in self.choices(job) if job["gpus"] <= left[kind]), None)

    def in_order(self):
        order = sorted(self.waiting, key=lambda job: job["number"])
        if self.policy == "sjf":
            order.sort(key=lambda job: job["duration"])
        for job in order:
            kind = self.first_kind(job, self.free)
            if kind:
                self.begin(job, kind)
            elif self.policy == "fifo-skip":
                self.seen["skipped"] += 1
            else:
                self.seen["blocked"] += 1
                return

    def rank(self, job):
        runs = job in self.running
        if self.policy == "priority":
            return (-job["priority"], not runs, job["submit"])
        left = job["duration"] * SECOND - job["served"]
        return (left - (self.now - job["mark"] if runs else 0), job["submit"], not runs)

    def preempting(self):
        if not self.waiting:
            return
        left, off, on = dict(self.sizes), [], []
        for job in sorted(self.waiting + self.running, key=self.rank):
            if job in self.running:
                kind = job["kind"] if job["gpus"] <= left[job["kind"]] else None
                off += [] if kind else [job]
            else:
                kind = self.first_kind(job, left)
                on += [job] if kind else []
            if kind:
                left[kind] -= job["gpus"]
        for job in off:
            self.leave(job)
            self.waiting.append(job)
            job["preemptions"] += 1
            self.seen["preempted"] += 1
        for job in on:
            self.begin(job, self.first_kind(job, self.free))

    def run(self, jobs):
        later = [job for job in jobs if self.fits(job)]
        for job in later:
            job.update(done=0, served=0, preemptions=0)
        while later or self.waiting or self.running:
            ends = [self.due(job) for job in self.running]
            self.now = min(ends + [job["submit"] * SECOND for job in later[:1]])
            for job in [job for job in self.running if self.due(job) <= self.now]:
                self.leave(job)
                job["end"] = self.now
            while later and later[0]["submit"] * SECOND <= self.now:
                self.waiting.append(later.pop(0))
            if self.policy in PREEMPTIVE:
                self.preempting()
            else:
                self.in_order()
