"""One step of the rehearsed rank as a Chakra execution trace (version 0.0.4).

Kernels carry their price, rounded to nanoseconds; collectives carry bytes only, so that the reader
prices them on its own fabric. Host time is left out: the reader runs a kernel as soon as the
kernels and collectives before it have ended.
"""

import collections
import json
import os
from typing import TYPE_CHECKING, Any, Iterable

from .dependencies import Dependencies
from .record import Collective, Kernel, Row, Step
from .steps import recorded_step

if TYPE_CHECKING:
    from .session import Session

_COMPUTE, _SEND, _RECEIVE, _COLLECTIVE = 4, 5, 6, 7
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
        self._messages: "collections.Counter[tuple[int, ...]]" = collections.Counter()
        self._dependencies = Dependencies()

    def add(self, row: Row) -> None:
        """Appends a row of the record."""
        before = self._dependencies.add(row)
        if isinstance(row, Kernel):
            self._node(row.operator, _COMPUTE, before or set(), _kernel_attributes(row))
        elif isinstance(row, Collective) and row.kind in ("send", "receive"):
            kind = _SEND if row.kind == "send" else _RECEIVE
            self._node(row.kind, kind, before or set(), self._message(row))
        elif isinstance(row, Collective):
            self._node(row.kind, _COLLECTIVE, before or set(), self._collective(row))

    def _message(self, row: Collective) -> bytes:
        """Return the attributes of a message; its tag is its number between the two ranks."""
        source, target = row.members
        self._messages[row.members] += 1
        named = {"is_cpu_op": 0, "comm_size": row.size, "comm_src": source, "comm_dst": target}
        named["comm_tag"] = self._messages[row.members]
        return b"".join(_attribute(name, value) for name, value in named.items())

    def _collective(self, row: Collective) -> bytes:
        own = row.size // len(row.members) if row.kind == "all_gather" else row.size
        attributes = _attribute("is_cpu_op", 0) + _attribute("comm_type", _TYPES[row.kind])
        attributes += _attribute("comm_size", max(1, own))
        if len(row.members) < self._ranks:
            self.groups[row.group] = list(row.members)
            attributes += _attribute("pg_name", row.group)
        return attributes

    def _node(self, name: str, kind: int, before: "set[int]", attributes: bytes) -> None:
        numbers = b"".join(map(_varint, sorted(before)))
        node = _number(1, len(self.nodes) + 1) + _block(2, name.encode()) + _number(3, kind)
        if numbers:
            node += _block(5, numbers)
        self.nodes.append(node + attributes)


def _kernel_attributes(row: Kernel) -> bytes:
    return (
        _attribute("is_cpu_op", 0)
        + _attribute("num_ops", int(row.flops))
        + _attribute("tensor_size", int(row.moved))
        + _attribute("duration_nanos", max(1, round(row.seconds * 1e9)))
    )


def _delimited(messages: "Iterable[bytes]") -> bytes:
    return b"".join(_varint(len(each)) + each for each in messages)


def compact_step(session: "Session", step: Step) -> "dict[str, Any]":
    """Return the compact form of a step, for `job: {program: ...}`, or that of a pipeline stage.

    Without such a form it is {} and a note in the report: if groups of the step have no regular
    pattern, or if the running ranks are no stages whose passes are known.
    """
    roles = session.settings.roles
    try:
        if len(roles) > 1 and not session.pipeline:
            raise ValueError("it has several roles that are no stages of a pipeline in PyTorch")
        if session.pipeline and session.pipeline[0] != roles[0]:
            return {}  # the first pipeline stands for all
        return recorded_step(session, step)
    except ValueError as error:
        session.note(f"the trace has no step for `program`: {error}")
        return {}


def write_trace(
    session: "Session", step: Step, prefix: str, compact: "dict[str, Any]"
) -> "dict[str, list[int]]":
    """Writes a step as PREFIX.RANK.et, and returns the groups that lack some ranks.

    The metadata contain the step in compact form, unless that is empty.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    writer = TraceWriter(session.settings.ranks)
    for row in step.rows:
        writer.add(row)
    metadata = _block(1, b"0.0.4")
    if compact:
        text = json.dumps(compact, separators=(",", ":"))
        metadata += _block(2, _block(1, b"orrery_step") + _block(29, text.encode()))
    os.makedirs(os.path.dirname(os.path.abspath(prefix)), exist_ok=True)
    with open(f"{prefix}.{session.settings.rank}.et", "wb") as file:
        file.write(_delimited([metadata, *writer.nodes]))
    return writer.groups


def write_groups(groups: "dict[str, list[int]]", prefix: str) -> None:
    """Writes PREFIX.json with the members of groups by name, unless there are none.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    if groups:
        with open(f"{prefix}.json", "w", encoding="utf-8") as side:
            json.dump(groups, side)
