"""Dependencies between the kernels and collectives of a recorded step."""

from typing import Optional

from .record import Collective, Kernel, Mark, Row


class Dependencies:
    """Order of streams, events and waits, row by row.

    Rows that run (kernels and collectives) are numbered from 1 on, in the order of the record.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last: "dict[int, int]" = {}
        self._waits: "dict[int, set[int]]" = {}
        self._events: "dict[int, set[int]]" = {}
        self._collectives: "dict[int, int]" = {}

    def add(self, row: Row) -> "Optional[set[int]]":
        """Return the numbers of the rows that must end before `row`.

        None for a row that does not run.
        """
        if isinstance(row, Mark):
            self._mark(row)
        if not isinstance(row, (Kernel, Collective)):
            return None
        before = self._before(row.stream)
        self.count += 1
        if isinstance(row, Collective):
            self._collectives[row.number] = self.count
        if isinstance(row, Kernel) or row.blocking:
            self._last[row.stream] = self.count
            self._waits[row.stream] = set()
        return before

    def _mark(self, row: Mark) -> None:
        waits = self._waits.setdefault(row.stream, set())
        if row.action == "event":
            self._events[row.number] = self._before(row.stream)
        elif row.action == "wait_event":
            waits |= self._events.get(row.number, set())
        elif row.action == "wait_stream":
            waits |= self._before(row.number)
        elif row.number in self._collectives:
            waits.add(self._collectives[row.number])

    def _before(self, stream: int) -> "set[int]":
        last = self._last.get(stream)
        return self._waits.get(stream, set()) | ({last} if last is not None else set())
