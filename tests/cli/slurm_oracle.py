"""Starts of jobs under QOS and reservations, by a program of its own: lists, whole seconds, no
class of Orrery. The rules are those of docs/jobs.md: priorities of QOS, age and size, EASY
backfill, limits of QOS, preemption, reservations, placement `count` and `consolidated`."""

import math

NEVER = 10**15


def half_up(value):
    """Whole number next to a value that is not negative."""
    return math.floor(value + 0.5)


class Queue:
    """A cluster of `nodes` nodes of `size` GPUs. Rules are dicts as in Orrery's YAML; `windows`
    have their nodes. `weights`: qos, age and size; `oldest`: seconds at which the age is 1."""

    def __init__(self, nodes, size, qos, windows, placement, weights, oldest):
        self.nodes, self.size, self.placement = nodes, size, placement
        self.qos = {each["name"]: each for each in qos}
        self.windows, self.weights, self.oldest = windows, weights, oldest
        self.free = [size] * nodes
        self.waiting, self.running, self.now = [], [], 0
        self.preemptions = self.limited = self.shut = self.inside = 0

    # ---- rules ----

    def priority(self, job):
        largest = max([each["priority"] for each in self.qos.values()] or [0])
        known = self.qos.get(job["qos"])
        factor = known["priority"] / largest if known and largest > 0 else 0
        age = min(1.0, (self.now - job["submit"]) / self.oldest)
        return (
            half_up(self.weights[0] * factor)
            + half_up(self.weights[1] * age)
            + half_up(self.weights[2] * job["gpus"] / (self.nodes * self.size))
        )

    def keeps_limits(self, job):
        limits = self.qos.get(job["qos"])
        if limits is None:
            return True
        same = [each for each in self.running if each["qos"] == job["qos"]]
        users = [each for each in same if each["user"] == job["user"]]
        return all(
            sum(each["gpus"] for each in those) + job["gpus"] <= limits.get(key, NEVER)
            for those, key in ((same, "gpus"), (users, "gpus_per_user"))
        )

    @staticmethod
    def belongs(job, window):
        return job["user"] in window["users"] or job["vc"] in window["vcs"]

    def closed(self, job, at):
        return {
            node
            for window in self.windows
            if window["begin"] < at + job["duration"] and at < window["end"]
            if not self.belongs(job, window)
            for node in window["nodes"]
        }

    def own(self, job):
        return {
            node
            for window in self.windows
            if window["begin"] <= self.now < window["end"] and self.belongs(job, window)
            for node in window["nodes"]
        }

    # ---- placement: GPUs by node, or None ----

    def place(self, gpus, allowed):
        free = [self.free[node] if node in allowed else 0 for node in range(self.nodes)]
        if gpus > sum(free):
            return None
        taken = {}
        if self.placement == "count":
            for node in range(self.nodes):
                here = min(gpus - sum(taken.values()), free[node])
                if here > 0:
                    taken[node] = here
            return taken
        whole = gpus // self.size if gpus > self.size else 0
        rest = gpus - whole * self.size
        idle = [node for node in range(self.nodes) if free[node] == self.size]
        if len(idle) < whole:
            return None
        taken = dict.fromkeys(idle[:whole], self.size)
        if rest == 0:
            return taken
        fits = [
            (free[node], node)
            for node in range(self.nodes)
            if node not in taken and free[node] >= rest
        ]
        if not fits:
            return None
        taken[min(fits)[1]] = rest
        return taken

    def start(self, job, taken):
        for node, gpus in taken.items():
            self.free[node] -= gpus
        self.waiting.remove(job)
        self.running.append(job)
        job["taken"], job["since"], job["old"] = taken, self.now, False
        job.setdefault("start", self.now)
        job["end"] = self.now + job["duration"] - job["served"]

    def leave(self, job):
        for node, gpus in job["taken"].items():
            self.free[node] += gpus
        self.running.remove(job)
        job["served"] += self.now - job["since"]
        job["taken"] = {}

    # ---- the pass ----

    def run_pass(self):
        preempts = any(each.get("preempts") for each in self.qos.values())
        self.left, self.selected = sum(self.free), list(self.running)
        self.blocked, self.head = None, None
        for job in sorted(
            self.waiting, key=lambda job: (-self.priority(job), job["submit"], job["row"])
        ):
            if self.left == 0 and not preempts:
                return
            self.try_job(job)

    def try_job(self, job):
        if not self.keeps_limits(job):
            self.limited += 1
            return
        closed = self.closed(job, self.now)
        shut = sum(self.free[node] for node in closed)
        if job["gpus"] > max(0, self.left - shut):
            self.shut += job["gpus"] <= self.left
            started = self.make_room(job, closed)
            if not started and self.blocked is None:
                self.blocked = job
            if self.blocked is not None and (started or self.head is None):
                self.head = self.head_start(self.blocked)
            return
        own = self.own(job) - closed
        room = job["gpus"] <= sum(self.free[node] for node in own)
        apart = self.head is not None and own and room and own <= self.head[2]
        short = self.head is None or self.now + job["duration"] <= self.head[0]
        if not short and not apart:
            if job["gpus"] > self.head[1]:
                return
            self.head[1] -= job["gpus"]
        taken = self.place(job["gpus"], own) if own and room else None
        self.inside += taken is not None
        if taken is None and (short or not apart):
            taken = self.place(job["gpus"], set(range(self.nodes)) - closed)
        elif taken is None:
            return
        self.left -= job["gpus"]
        self.selected.append(job)
        if taken is not None:
            self.start(job, taken)

    def make_room(self, job, closed):
        names = self.qos.get(job["qos"], {}).get("preempts", [])
        first = [
            (self.qos[each["qos"]]["priority"], -each["since"], -each["row"], each)
            for each in self.running
            if each["qos"] in names and each["old"] and set(each["taken"]) - closed
        ]
        first.sort(key=lambda at: at[:3])
        before, taken, leaving = list(self.free), None, []
        open_nodes = set(range(self.nodes)) - closed
        for *_, each in first:
            leaving.append(each)
            for node, gpus in each["taken"].items():
                self.free[node] += gpus
            taken = self.place(job["gpus"], open_nodes)
            if taken is not None:
                break
        self.free = list(before)
        if taken is None:
            return False
        for each in leaving:
            self.leave(each)
            self.selected.remove(each)
            self.waiting.append(each)
            each["preemptions"] += 1
            self.preemptions += 1
        self.start(job, taken)
        self.left = max(0, self.left + sum(self.free) - sum(before))
        self.selected.append(job)
        return True

    def head_start(self, job):
        """Instant, GPUs left over and closed nodes of the expected start of a blocked job."""
        ends = []
        for place, each in enumerate(self.selected):
            served = each["served"] + (self.now - each["since"] if each["taken"] else 0)
            ends.append((self.now + each["duration"] - served, each["gpus"], place))
        ends += [(w["end"], 0, 0) for w in self.windows if w["end"] > self.now]
        ends.sort()
        for i, (at, _, _) in enumerate(ends):
            if self.left + sum(each[1] for each in ends[: i + 1]) < job["gpus"]:
                continue
            closed = self.closed(job, at)
            usable = max(0, self.left - sum(self.free[node] for node in closed))
            for _, gpus, place in ends[: i + 1]:
                if gpus == 0:
                    continue
                taken = self.selected[place]["taken"]
                if taken:
                    gpus = sum(n for node, n in taken.items() if node not in closed)
                usable += gpus
            if usable >= job["gpus"]:
                return [at, usable - job["gpus"], closed]
        return [NEVER, 0, set()]

    def run(self, jobs):
        """Runs all jobs; each gets `start`, `end` and `preemptions`."""
        arrivals = sorted(jobs, key=lambda job: job["submit"])
        for row, job in enumerate(arrivals):
            job.update(row=row, served=0, preemptions=0, taken={}, old=False)
        edges = sorted({w[key] for w in self.windows for key in ("begin", "end")})
        while arrivals or self.waiting or self.running:
            times = [job["submit"] for job in arrivals[:1]]
            times += [job["end"] for job in self.running]
            times += [at for at in edges if at > self.now][:1] if self.waiting else []
            if not times:
                raise AssertionError("jobs wait without end")
            self.now = min(times)
            for job in [job for job in self.running if job["end"] == self.now]:
                self.leave(job)
            while arrivals and arrivals[0]["submit"] == self.now:
                self.waiting.append(arrivals.pop(0))
            for job in self.running:
                job["old"] = True  # a job that an earlier pass has started
            self.run_pass()
        return jobs
