"""Starts, ends and kinds of jobs on a cluster with several kinds of GPUs, by a program of its own:
lists, whole nanoseconds, no class of Orrery. The rules are those of docs/jobs.md: a job has GPUs of
one kind, the fastest of its kinds that has enough free; the kind determines its speed."""

import collections
import math

SECOND = 10**9
PREEMPTIVE = ("srtf", "priority")
NEVER = 1 << 62


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
        job["expected"] = self.now + job["duration"] * SECOND
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

    # ---- backfill: expected ends by the durations of the log, whatever the kind ----

    def extend_overdue(self):
        for job in self.running:
            if job["expected"] < self.now:
                job["expected"] = self.now + max(self.now - job["mark"], SECOND)

    def expected_end(self, job):
        if self.policy != "multifactor":
            return job["expected"]
        ran, lasts = self.now - job["mark"], job["duration"] * SECOND
        return self.now + (lasts - ran if ran <= lasts else ran)

    def ends_on(self, kind):
        here = [job for job in self.running if job["kind"] == kind]
        return sorted((self.expected_end(job), job["gpus"], job["number"]) for job in here)

    def head_start(self, job):
        """Instant, GPUs left over and kind of the reservation of a job that does not fit."""
        self.extend_overdue()
        best = (NEVER, 0, None)
        for kind in self.choices(job):
            free, at = self.free[kind], self.now
            for end, gpus, _ in self.ends_on(kind):
                if free >= job["gpus"]:
                    break
                free, at = free + gpus, end
            if free >= job["gpus"] and at < best[0]:
                best = (at, free - job["gpus"], kind)
        return best

    def easy(self):
        """One virtual cluster without QOS: multifactor has the same order, that of submission."""
        reserved = None
        for job in sorted(self.waiting, key=lambda job: job["number"]):
            for kind in self.choices(job):
                late = (
                    reserved is not None
                    and kind == reserved[2]
                    and self.now + job["duration"] * SECOND > reserved[0]
                )
                if job["gpus"] > self.free[kind] or (late and job["gpus"] > reserved[1]):
                    continue
                self.begin(job, kind)
                if late:
                    reserved = (reserved[0], reserved[1] - job["gpus"], kind)
                self.seen["behind a reservation"] += reserved is not None
                break
            else:
                if reserved is None and any(self.free.values()):
                    reserved = self.head_start(job)
                    self.seen["blocked"] += 1

    def earliest(self, steps, job, begin):
        """First instant from `begin` on at which enough GPUs are free for the whole job. `steps`:
        changes of the number of free GPUs, by instant."""
        lasts = job["duration"] * SECOND
        for start in sorted({begin, *(at for at in steps if at > begin)}):
            free = sum(change for at, change in steps.items() if at <= start)
            least = free
            for at in sorted(at for at in steps if start < at < start + lasts):
                free += steps[at]
                least = min(least, free)
            if least >= job["gpus"]:
                return start
        return NEVER

    def conservative(self):
        if not self.waiting:
            return
        self.extend_overdue()
        plans = {}
        for kind in self.sizes:
            plans[kind] = collections.Counter({self.now: self.free[kind]})
            for end, gpus, _ in self.ends_on(kind):
                plans[kind][end] += gpus
        for job in sorted(self.waiting, key=lambda job: job["number"]):
            if not any(self.free.values()):
                return
            at, on = NEVER, None
            for kind in self.choices(job):
                here = self.earliest(plans[kind], job, self.now)
                if here == self.now and job["gpus"] <= self.free[kind]:
                    self.begin(job, kind)
                    self.seen["its reservation"] += 1
                    at, on = here, kind
                    break
                if here == self.now:  # a job should have ended by now
                    here = self.earliest(plans[kind], job, self.now + SECOND)
                if here < at:
                    at, on = here, kind
            if on is None:
                continue
            self.seen["blocked"] += at > self.now
            plans[on][at] -= job["gpus"]
            plans[on][at + job["duration"] * SECOND] += job["gpus"]

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
            elif self.policy in ("easy", "multifactor"):
                self.easy()
            elif self.policy == "conservative":
                self.conservative()
            else:
                self.in_order()
