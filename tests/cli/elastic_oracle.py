"""Starts, sizes and ends of elastic jobs, by a program of its own: lists, whole nanoseconds, no
class of Orrery. The rules are those of docs/jobs.md: order of submission, shrinking for the first
job that waits, growth while none waits, a restart at each change of size, speeds by the column
scaling."""

import collections
import math

SECOND = 10**9


def speed(scaling, gpus):
    """Speed of a job on this many GPUs, in any unit."""
    if ":" not in scaling:
        return float(gpus) ** (1 + math.log2(float(scaling or 1)))
    table = [tuple(map(float, entry.split(":"))) for entry in scaling.split()]
    for (low, slow), (high, fast) in zip([table[0]] + table, table):
        if gpus == high:
            return fast
        if low < gpus < high:
            return slow + (fast - slow) * ((gpus - low) / (high - low))
    raise ValueError(f"{scaling} has no {gpus}")


class Queue:
    """A cluster of `gpus` GPUs; `settle` and `restart` in nanoseconds. A job is a dict with number,
    submit, gpus, duration, least, most and scaling; run() adds start, end, resizes and used."""

    def __init__(self, gpus, settle, restart):
        self.free, self.settle, self.restart = gpus, settle, restart
        self.waiting, self.running = [], []
        self.now, self.wake = 0, None
        self.seen = collections.Counter()

    # ---- one job ----

    def pace(self, job):
        if job["size"] == job["gpus"]:
            return 1
        return speed(job["scaling"], job["size"]) / speed(job["scaling"], job["gpus"])

    def due(self, job):
        left = max(0, job["duration"] * SECOND - job["done"])
        pace = self.pace(job)
        return job["mark"] + job["delay"] + (left if pace == 1 else math.ceil(left / pace))

    def account(self, job):
        """Adds the time since the newest start or change of size."""
        passed = self.now - job["mark"]
        works = max(0, passed - job["delay"])
        pace = self.pace(job)
        job["done"] += works if pace == 1 else math.floor(works * pace + 0.5)
        job["used"] += passed / SECOND * job["size"]
        job["mark"] = job["changed"] = self.now

    def begin(self, job, size):
        self.waiting.remove(job)
        self.running.append(job)
        self.free -= size
        job.update(
            start=self.now, size=size, wanted=size, mark=self.now, changed=self.now, delay=0,
            done=0, used=0.0, resizes=0,
        )  # fmt: skip

    def end(self, job):
        self.account(job)
        job["end"] = self.now
        self.running.remove(job)
        self.free += job["size"]

    # ---- a pass ----

    def make_room(self, least):
        """Takes GPUs from running jobs until `least` are free; False, and none, if that fails."""
        spare = sum(job["wanted"] - job["least"] for job in self.running)
        if self.free + spare < least:
            self.seen["blocked"] += 1
            return False
        newest = sorted(self.running, key=lambda job: (job["start"], job["number"]), reverse=True)
        for job in newest:
            given = min(job["wanted"] - job["least"], max(0, least - self.free))
            job["wanted"] -= given
            self.free += given
            if given:
                job["shrunk"] = True
                self.seen["shrunk"] += 1
        return True

    def grow(self):
        oldest = sorted(self.running, key=lambda job: (job["start"], job["number"]))
        for limit in ("gpus", "most"):
            for job in oldest:
                more = min(job[limit] - job["wanted"], self.free)
                settled = self.now >= job["changed"] + self.settle
                if more > 0 and settled and "shrunk" not in job:
                    job["wanted"] += more
                    self.free -= more
                    self.seen["grown to the " + limit] += 1
        later = [
            job["changed"] + self.settle
            for job in self.running
            if job["wanted"] < job["most"] and job["changed"] + self.settle > self.now
        ]
        if self.free and later:
            self.wake = min(later)
            self.seen["waits to grow"] += 1

    def decide(self):
        self.wake, begun = None, []
        while self.waiting:
            job = self.waiting[0]
            if self.free < job["gpus"] and not self.make_room(job["least"]):
                break
            size = min(job["gpus"], self.free)
            self.seen["starts with fewer"] += size < job["gpus"]
            self.begin(job, size)
            begun.append(job)
        if not self.waiting:
            self.grow()
        for job in self.running:
            job.pop("shrunk", None)
            if job["wanted"] == job["size"]:
                continue
            if job in begun:
                job["size"] = job["wanted"]
                continue
            self.account(job)
            job["size"], job["delay"] = job["wanted"], self.restart
            job["resizes"] += 1

    def run(self, jobs):
        later = list(jobs)
        while later or self.waiting or self.running:
            ends = [self.due(job) for job in self.running]
            times = ends + [job["submit"] * SECOND for job in later[:1]]
            self.now = min(times + ([self.wake] if self.wake is not None else []))
            for job in [job for job in self.running if self.due(job) <= self.now]:
                self.end(job)
            while later and later[0]["submit"] * SECOND <= self.now:
                self.waiting.append(later.pop(0))
            self.decide()
