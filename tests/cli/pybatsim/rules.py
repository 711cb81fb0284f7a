"""Independent program with the rules of three schedulers of pybatsim 3.2.1, for tests.

`starts(rules, jobs, resources)` simulates a log without Batsim, pybatsim or Orrery: resources are
the numbers 0 .. N-1, jobs end after exactly their duration, and at one instant ends come before
submissions, both in the order of `jobs`. The rules decide after each single event.

For example, on two resources `starts(Fcfs, [Job("a", 0, 1, 10), Job("b", 1, 2, 5)], 2)` gives
{"a": 0.0, "b": 10.0}.
"""

import dataclasses
import heapq


@dataclasses.dataclass(frozen=True)
class Job:
    """Job of a log; times in seconds."""

    id: str
    submit: float
    size: int  # resources
    duration: float


class Fcfs:
    """First come, first served; a job takes the lowest resources in a row that are free."""

    delay = 0.0  # time between an event and the starts that it causes

    def __init__(self, resources):
        self.free = [True] * resources
        self.waiting, self.places = [], {}

    def submit(self, job, now):
        self.waiting.append(job)
        return self.schedule()

    def end(self, job, now):
        first = self.places.pop(job.id)
        self.free[first : first + job.size] = [True] * job.size
        return self.schedule()

    def schedule(self):
        started = []
        while self.waiting and (first := self.row_of(self.waiting[0].size)) is not None:
            job = self.waiting.pop(0)
            self.free[first : first + job.size] = [False] * job.size
            self.places[job.id] = first
            started.append(job)
        return started

    def row_of(self, size):
        """First resource of the lowest free row of `size`, or None."""
        length = 0
        for index, is_free in enumerate(self.free):
            length = length + 1 if is_free else 0
            if length == size:
                return index - size + 1
        return None


@dataclasses.dataclass
class Space:
    """Free resources in a row; a job takes the lowest of them, or the highest."""

    first: int
    last: int
    from_low: bool = True

    @property
    def size(self):
        return self.last - self.first + 1

    def cut(self, size):
        """Takes `size` resources off the end where jobs begin; returns the first of them."""
        if self.from_low:
            self.first += size
            return self.first - size
        self.last -= size
        return self.last + 1


class Spaces:
    """All free resources, as spaces in ascending order."""

    def __init__(self, spaces):
        self.spaces = spaces

    def copy(self):
        return Spaces([dataclasses.replace(each) for each in self.spaces])

    def fit(self, size):
        """First space with room for `size` resources, or None."""
        return next((each for each in self.spaces if each.size >= size), None)

    def drop_empty(self):
        self.spaces = [each for each in self.spaces if each.size > 0]

    def release(self, first, size):
        """Frees resources and returns the space that has them now. Of two spaces that they join,
        the lower one's end stays; a space that grows gives its new resources first."""
        last = first + size - 1
        at = sum(1 for each in self.spaces if each.first <= first)
        low = self.spaces[at - 1] if at > 0 and self.spaces[at - 1].last + 1 == first else None
        high = self.spaces[at] if at < len(self.spaces) else None
        high = high if high is not None and high.first == last + 1 else None
        if low and high:
            low.last = high.last
            del self.spaces[at]
            return low
        if low:
            low.last, low.from_low = last, False
            return low
        if high:
            high.first, high.from_low = first, True
            return high
        self.spaces.insert(at, Space(first, last))
        return self.spaces[at]


class Easy:
    """EASY backfilling of jobs that need resources in a row.

    The first waiting job that does not fit gets a reservation: jobs that run are ended in the order
    of their ends until the row around the resources of one of them is long enough. Of the spaces
    that overlap an end of the reserved row, jobs that end before the reservation take resources
    from the reserved side, other jobs from the free side of the part outside. Spaces between the
    ends of the row are not protected, as in pybatsim.
    """

    delay = 0.0

    def __init__(self, resources):
        self.free = Spaces([Space(0, resources - 1)])
        self.waiting, self.places = [], {}
        self.running = []  # (end, job), in the order of ends, then of starts

    def submit(self, job, now):
        self.waiting.append(job)
        return self.schedule(now)

    def end(self, job, now):
        self.running = [each for each in self.running if each[1] is not job]
        self.free.release(self.places.pop(job.id), job.size)
        return self.schedule(now)

    def start(self, job, first, now):
        self.places[job.id] = first
        self.running.append((now + job.duration, job))
        self.running.sort(key=lambda each: each[0])  # stable: equal ends stay in order of starts
        self.free.drop_empty()
        return job

    def schedule(self, now):
        started = []
        while self.waiting and (space := self.free.fit(self.waiting[0].size)):
            job = self.waiting.pop(0)
            started.append(self.start(job, space.cut(job.size), now))
        if len(self.waiting) < 2:
            return started
        row, begin = self.reservation(self.waiting[0])
        ends = Ends(self.free.spaces, row)
        for job in self.waiting[1:]:
            first = self.backfill(job, ends, job.duration <= begin - now)
            if first is not None:
                started.append(self.start(job, first, now))
        self.waiting = [each for each in self.waiting if each not in started]
        ends.forget()
        return started

    def reservation(self, job):
        """Reserved row (first, last) of the job, and its begin."""
        spaces = self.free.copy()
        for end, each in self.running:
            space = spaces.release(self.places[each.id], each.size)
            if space.size >= job.size:
                first = space.cut(job.size)
                return (first, first + job.size - 1), end
        raise AssertionError("a job is larger than the machine")

    def backfill(self, job, ends, is_short):
        """Resources of a job behind the first one: the first of them, or None."""
        for space in self.free.spaces:
            for part in ends.parts(space, is_short):
                if part.size >= job.size:
                    first = part.cut(job.size)
                    ends.shrink(space, first, job.size)
                    return first
        return None


class Ends:
    """Spaces that overlap an end of a reserved row."""

    def __init__(self, spaces, row):
        self.row = row
        first, last = row
        self.low = next((s for s in spaces if s.first <= first <= s.last), None)
        self.high = next((s for s in spaces if s.first <= last <= s.last), None)
        if self.low and self.low.first < first:
            self.low.from_low = False
        if self.high and self.high.last > last:
            self.high.from_low = True

    def parts(self, space, is_short):
        """Copies of the parts of a space that a job may take, each with its own end."""
        first, last = self.row
        if space is not self.low and space is not self.high:
            return [dataclasses.replace(space)]
        if is_short:
            return [dataclasses.replace(space)]
        if space is self.low:
            return [Space(space.first, min(space.last, first - 1), True)]
        return [Space(max(space.first, last + 1), space.last, False)]

    def shrink(self, space, first, size):
        """Takes resources at an end of the space out of it."""
        if first == space.first:
            space.first += size
        else:
            assert first + size - 1 == space.last
            space.last -= size

    def forget(self):
        for space in (self.low, self.high):
            if space is not None:
                space.from_low = True


class Filler:
    """Starts each waiting job that fits, on any resources, 5 ms after the event. Of several jobs,
    pybatsim takes the first of a set, whose order is that of memory addresses: the order comes
    from the run under test (`order`: job to rank)."""

    delay = 0.005
    order = {}

    def __init__(self, resources):
        self.free, self.waiting = resources, []

    def submit(self, job, now):
        self.waiting.append(job)
        return self.schedule()

    def end(self, job, now):
        self.free += job.size
        return self.schedule()

    def schedule(self):
        started = []
        for job in sorted(self.waiting, key=lambda each: self.order[each.id]):
            if job.size <= self.free:
                self.free -= job.size
                started.append(job)
        self.waiting = [each for each in self.waiting if each not in started]
        return started


def starts(rules, jobs, resources):
    """Start of each job, in seconds of the log."""
    begins = {}
    number = {job.id: index for index, job in enumerate(jobs)}
    queue = [(job.submit, 1, number[job.id], job) for job in jobs]
    heapq.heapify(queue)
    instant, events = None, 0
    state = rules(resources)
    while queue:
        now, is_submission, _, job = heapq.heappop(queue)
        events = events + 1 if now == instant else 1  # the events of one message
        instant = now
        for each in state.submit(job, now) if is_submission else state.end(job, now):
            begins[each.id] = now + events * state.delay
            heapq.heappush(queue, (begins[each.id] + each.duration, 0, number[each.id], each))
    return begins
