"""Simulated time of a rehearsed rank: its host, the streams of its GPU, its collectives."""

import collections
import threading
import time
from typing import Any, Callable


_TIME_FUNCTIONS = (
    "sleep time time_ns perf_counter perf_counter_ns monotonic monotonic_ns".split()
)


class Clock:
    """Virtual clock in seconds. Kernels start in the order of their stream, after their launch.

    A time line is a stream of the GPU (a number) or the collectives of a process group (its name).
    For example, a kernel of 2 s that is launched at time 1 on a stream that is busy until 5 ends
    at 7; the host goes on at 1.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.stream = 0
        self.ready: "collections.defaultdict[int | str, float]" = collections.defaultdict(float)
        self.real_time: Callable[[], float] = time.time
        self.real_counter: Callable[[], float] = time.perf_counter
        self._epoch = time.time()
        self._real: "dict[str, Callable[..., Any]]" = {}

    def spend(self, seconds: float) -> None:
        """Advances the host by `seconds`."""
        self.now += seconds

    def start(self, seconds: float, line: "int | str", after: float = 0.0) -> float:
        """Appends work of `seconds` to a time line and returns its start."""
        begin = max(self.now, self.ready[line], after)
        self.ready[line] = begin + seconds
        return begin

    def wait_for(self, moment: float, line: "int | str") -> None:
        """Makes later work of a time line start no earlier than `moment`."""
        if moment > self.ready[line]:
            self.ready[line] = moment

    def synchronize(self, line: "int | str | None" = None) -> None:
        """Blocks the host until a time line is idle; all of them if `line` is None."""
        busy_until = self.busy_until() if line is None else self.ready[line]
        self.now = max(self.now, busy_until)

    def busy_until(self) -> float:
        """Return the moment at which all time lines are idle."""
        return max(self.ready.values(), default=0.0)

    def replace_time_functions(self) -> None:
        """Makes the functions of the module `time` return this clock.

        ``sleep`` advances the clock in the main thread. In other threads it sleeps, for at most
        50 ms: a progress bar must not drive the clock.
        """
        for name in _TIME_FUNCTIONS:
            self._real[name] = getattr(time, name)
        real_sleep = time.sleep

        def sleep(seconds: Any) -> None:
            if threading.current_thread() is threading.main_thread():
                self.spend(seconds)
            else:
                real_sleep(min(seconds, 0.05))

        time.sleep = sleep
        time.time = lambda: self._epoch + self.now
        time.time_ns = lambda: int((self._epoch + self.now) * 1e9)
        time.perf_counter = time.monotonic = lambda: self.now
        time.perf_counter_ns = time.monotonic_ns = lambda: int(self.now * 1e9)

    def restore_time_functions(self) -> None:
        """Gives the module `time` its own functions back, in a process that is not rehearsed."""
        for name, function in self._real.items():
            setattr(time, name, function)
