"""One step of the rehearsed rank as a Chakra execution trace (version 0.0.4).

Kernels carry their price, rounded to nanoseconds; collectives carry bytes only, so that the reader
prices them on its own fabric. Host time is left out: the reader runs a kernel as soon as the
kernels and collectives before it have ended.
"""

import json
import os
from typing import Iterable, Optional

from .record import Collective, Kernel, Mark, Step
from .settings import Settings

_COMPUTE, _COLLECTIVE = 4, 7
#: Numbers of MLCommons' CollectiveCommType.
_TYPES = {
    "all_reduce": 0,
    "all_gather": 2,
    "broadcast": 5,
    "all_to_all": 6,
    "reduce_scatter": 7,
    "barrier": 9,
}


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _block(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _attribute(name: str, value: "int | str") -> bytes:
    """Return an attribute of a node: int64_val is field 9, string_val field 29."""
    told = _number(9, value) if isinstance(value, int) else _block(29, value.encode())
    return _block(10, _block(1, name.encode()) + told)


class TraceWriter:
    """Nodes of a step with their dependencies.

    Parameters
    ----------
    ranks : int
        Ranks of the job: a collective among all of them names no group.
    """

    def __init__(self, ranks: int) -> None:
        self.nodes: "list[bytes]" = []
        self.groups: "dict[str, list[int]]" = {}
        self._ranks = ranks
        self._last: "dict[int, int]" = {}
        self._waits: "dict[int, set[int]]" = {}
        self._events: "dict[int, set[int]]" = {}
        self._collectives: "dict[int, int]" = {}

    def add(self, row: "Kernel | Collective | Mark") -> None:
        """Appends a row of the record."""
        if isinstance(row, Mark):
            self._mark(row)
        elif isinstance(row, Kernel):
            number = self._node(row.operator, _COMPUTE, row.stream, _kernel_attributes(row))
            self._last[row.stream] = number
            self._waits[row.stream] = set()
        else:
            self._collective(row)

    def _collective(self, row: Collective) -> None:
        own = row.size // len(row.members) if row.kind == "all_gather" else row.size
        attributes = _attribute("is_cpu_op", 0) + _attribute("comm_type", _TYPES[row.kind])
        attributes += _attribute("comm_size", max(1, own))
        if len(row.members) < self._ranks:
            self.groups[row.group] = list(row.members)
            attributes += _attribute("pg_name", row.group)
        number = self._node(row.kind, _COLLECTIVE, row.stream, attributes)
        self._collectives[row.number] = number
        if row.blocking:
            self._last[row.stream] = number
            self._waits[row.stream] = set()

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
        last: Optional[int] = self._last.get(stream)
        return self._waits.get(stream, set()) | ({last} if last is not None else set())

    def _node(self, name: str, kind: int, stream: int, attributes: bytes) -> int:
        number = len(self.nodes) + 1
        before = b"".join(map(_varint, sorted(self._before(stream))))
        node = _number(1, number) + _block(2, name.encode()) + _number(3, kind)
        if before:
            node += _block(5, before)
        self.nodes.append(node + attributes)
        return number


def _kernel_attributes(row: Kernel) -> bytes:
    return (
        _attribute("is_cpu_op", 0)
        + _attribute("num_ops", int(row.flops))
        + _attribute("tensor_size", int(row.moved))
        + _attribute("duration_nanos", max(1, round(row.seconds * 1e9)))
    )


def _delimited(messages: "Iterable[bytes]") -> bytes:
    return b"".join(_varint(len(each)) + each for each in messages)


def write_trace(step: Step, settings: Settings, prefix: str) -> None:
    """Writes a step as PREFIX.0.et, and PREFIX.json with the groups that lack some ranks.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    writer = TraceWriter(settings.ranks)
    for row in step.rows:
        writer.add(row)
    os.makedirs(os.path.dirname(os.path.abspath(prefix)), exist_ok=True)
    with open(f"{prefix}.0.et", "wb") as file:
        file.write(_delimited([_block(1, b"0.0.4"), *writer.nodes]))
    if writer.groups:
        with open(f"{prefix}.json", "w", encoding="utf-8") as side:
            json.dump(writer.groups, side)
