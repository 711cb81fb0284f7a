"""Recorded logs as tables."""

from __future__ import annotations

import dataclasses
import json
import os
import warnings
from functools import cached_property
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import pandas as pd

from orrery import _core
from orrery._html import Row, count, table
from orrery._samples import key_arrays, values_of
from orrery.actions import Configure
from orrery.events import Decided, JobSubmitted

_DECISIONS = {
    "id": "Int64",
    "call": "Int64",
    "at_s": "float64",
    "job": "Int64",
    "action": "object",
    "setting": "object",
    "parameters": "object",
    "at_step": "Int64",
    "if_epoch": "Int64",
    "expires_s": "float64",
    "group": "Int64",
    "why": "object",
    "outcome": "object",
    "reason": "object",
    "decided_s": "float64",
}
_KINDS = ("ranks", "devices", "links", "collectives", "summary")


class Log:
    """Recorded log of a run as tables; made by `orrery.read_log`.

    Attributes
    ----------
    path : str
        The file.
    mode : str
        ``"sim"``, ``"live"`` or ``"jobs"``.
    version : str
        Version of the program that recorded it.
    seed : int
        Seed of the run.
    policies : list of str
        Policies that decided: names, files or classes.
    problem : str or None
        Reason why the log ends early; ``None`` for a complete log.
    """

    def __init__(self, path: str) -> None:
        records = _core.LogRecords(path)
        header = records.header
        self.path = path
        self.mode: str = header["mode"]
        self.version: str = header["version"]
        self.seed: int = header["seed"]
        self.policies: List[str] = header["policies"]
        self._scenario: str = header["scenario"]
        self._calls = 0
        self._events: List[Tuple[int, float, Any]] = []
        self._decisions: List[Tuple[int, float, Tuple[Any, ...]]] = []
        self._notes: List[Tuple[int, float, str, Union[float, str]]] = []
        for number, (now, events, decisions, notes, _) in enumerate(_calls(records)):
            self._events += [(number, now, event) for event in events]
            self._decisions += [(number, now, decision) for decision in decisions]
            self._notes += [(number, now, key, value) for key, value in notes]
            self._calls = number + 1
        self.problem: Optional[str] = records.problem or None

    @property
    def scenario(self) -> Optional[Dict[str, Any]]:
        """The scenario with all defaults, as `orrery.load` takes it; ``None`` for a job log."""
        out: Optional[Dict[str, Any]] = json.loads(self._scenario) if self._scenario else None
        return out

    @cached_property
    def events(self) -> pd.DataFrame:
        """Events in order, one row each.

        Columns: ``call`` (number of the call of the policies that showed it), ``at_s`` (policy
        clock), ``event`` (name of its class in `orrery.events`), ``job``, then the fields of all
        classes, under their names and with their units there; ``<NA>``, NaN or ``None`` where a
        class has no such field. ``log.events[log.events.event == "RanksLost"].dropna(axis=1)`` are
        the events of one class with its fields.
        """
        rows = [_event_row(*each) for each in self._events]
        first = ["call", "at_s", "event", "job"]
        names = dict.fromkeys([*first, *(name for row in rows for name in row)])
        frame = pd.DataFrame(rows, columns=list(names), dtype=object)
        return frame.astype({name: _type_of(frame[name]) for name in names})

    @cached_property
    def decisions(self) -> pd.DataFrame:
        """Decisions in order, one row each.

        Columns: ``id``, ``call``, ``at_s`` (policy clock), ``job``, ``action`` (``"Assign"``,
        ``"Configure"``, ``"Save"``), ``setting`` (class of `orrery.settings`, of a ``Configure``),
        ``parameters`` (dict of the fields of the action or setting), ``at_step`` (0: at once),
        ``if_epoch``, ``expires_s``, ``group`` (0: none), ``why``, ``outcome`` (``"applied"``,
        ``"rejected"``, ``"expired"``, or ``None`` if open at the end of the log), ``reason``, and
        ``decided_s``, the policy clock of the outcome.
        """
        outcomes = {
            event.decision: (event.status, event.reason, now)
            for _, now, event in self._events
            if isinstance(event, Decided)
        }
        rows = [_decision_row(each, outcomes) for each in self._decisions]
        frame = pd.DataFrame(rows, columns=list(_DECISIONS), dtype=object)
        return frame.astype(_DECISIONS)

    @cached_property
    def notes(self) -> pd.DataFrame:
        """Annotations of the policies (``decisions.note``): ``call``, ``at_s``, ``key``, ``value``
        (float or str)."""
        frame = pd.DataFrame(self._notes, columns=["call", "at_s", "key", "value"], dtype=object)
        return frame.astype({"call": "Int64", "at_s": "float64"})

    @cached_property
    def samples(self) -> Dict[str, pd.DataFrame]:
        """Telemetry that the policies have read, by kind: other telemetry is not in the log.

        ``"ranks"``, ``"devices"``, ``"links"`` and ``"collectives"`` have the columns ``call``,
        ``at_s``, ``job`` and those of `orrery.Samples` that the policies have read, NaN at other
        instants. ``"summary"`` has ``call``, ``at_s``,
        ``job``, ``ranks``, ``micro_batch_time`` (s), ``deviation``, ``age`` (s) and ``slowest``
        (list of ranks).
        """
        found: Dict[str, List[pd.DataFrame]] = {kind: [] for kind in _KINDS}
        for number, (now, _, _, _, reads) in enumerate(_calls(_core.LogRecords(self.path))):
            for kind, job, *read in reads:
                rows = _sample_rows(kind, read)
                for column, value in (("job", job), ("at_s", now), ("call", number)):
                    rows = rows.drop(columns=column, errors="ignore")
                    rows.insert(0, column, value)
                found[kind.lower()].append(rows)
        empty = pd.DataFrame(columns=["call", "at_s", "job"])
        return {
            kind: pd.concat(frames, ignore_index=True) if frames else empty.copy()
            for kind, frames in found.items()
        }

    def __repr__(self) -> str:
        return (
            f"<orrery.Log {self.path!r} ({self.mode}): {self._calls} calls, "
            f"{len(self._events)} events, {len(self._decisions)} decisions>"
        )

    def _repr_html_(self) -> str:
        rows: List[Row] = [
            ("run", self.mode),
            ("policies", ", ".join(self.policies) or "none"),
            ("calls", count(self._calls)),
            ("events", count(len(self._events))),
            ("decisions", count(len(self._decisions))),
            ("notes", count(len(self._notes)) if self._notes else None),
            ("incomplete", self.problem),
        ]
        return table(f"Log {self.path}", rows)


def read_log(log: Union[str, "os.PathLike[str]"]) -> Log:
    """Read a recorded log: events, decisions with their outcomes, telemetry and annotations.

    Parameters
    ----------
    log : path
        The file of ``record`` or ``--record`` of a simulated run, a live run or a replay of jobs.
        Of a run that was killed, the unfinished file ``LOG.partial`` is read up to its last whole
        record, with a warning.

    Returns
    -------
    Log
        With the DataFrames ``events``, ``decisions`` and ``notes``, and ``samples`` by kind.

    Raises
    ------
    InputError
        If the file is not such a log.

    Examples
    --------
    >>> log = orrery.read_log("train.log")
    >>> log.decisions[["at_s", "action", "setting", "outcome", "reason"]]
    """
    read = Log(os.fspath(log))
    if read.problem is not None:
        warnings.warn(f"{read.path}: {read.problem}", RuntimeWarning, stacklevel=2)
    return read


def _calls(records: _core.LogRecords) -> Iterator[Tuple[float, Any, Any, Any, Any]]:
    while (call := records.next_call()) is not None:
        yield call


def _fields(value: Any) -> Dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def _event_row(call: int, now: float, event: Any) -> Dict[str, Any]:
    fields = _fields(event)
    if isinstance(event, JobSubmitted):
        fields = {"job": event.job.id, "spec": event.job}
    return {"call": call, "at_s": now, "event": type(event).__name__, **fields}


def _decision_row(
    recorded: Tuple[int, float, Tuple[Any, ...]], outcomes: Mapping[int, Tuple[str, str, float]]
) -> List[Any]:
    call, now, (number, action, at_step, if_epoch, expires, group, why) = recorded
    setting = action.what if isinstance(action, Configure) else None
    chosen: Any = action if setting is None else setting
    parameters = dataclasses.asdict(chosen)
    if setting is None:
        parameters.pop("job")
    outcome, reason, decided = outcomes.get(number, (None, None, None))
    name = None if setting is None else type(setting).__name__
    return [
        number, call, now, action.job, type(action).__name__, name, parameters,
        at_step, if_epoch, expires, group, why, outcome, reason, decided,
    ]  # fmt: skip


def _type_of(column: "pd.Series[Any]") -> str:
    known = [value for value in column if value is not None and value == value]
    for kind, dtype in ((bool, "boolean"), (int, "Int64"), ((int, float), "float64")):
        if known and all(isinstance(value, kind) for value in known):
            return dtype
    return "object"


def _sample_rows(kind: str, read: Sequence[Any]) -> pd.DataFrame:
    if kind in ("RANKS", "DEVICES", "LINKS"):
        rows, columns = read
        found = {} if rows is None else key_arrays(kind.lower(), rows)
        for name, column in columns.items():
            found[name] = values_of(column)
            found[name + "_age"] = values_of(column, ages=True)
        return pd.DataFrame(found)
    if kind == "COLLECTIVES":
        columns, rows = read[0]
        return pd.DataFrame(np.frombuffer(rows, dtype=np.dtype(columns)))
    ranks, micro_batch_time, deviation, age, (columns, rows) = read
    slowest = np.frombuffer(rows, dtype=np.dtype(columns))["rank"].tolist()
    names = ["ranks", "micro_batch_time", "deviation", "age", "slowest"]
    return pd.DataFrame([[ranks, micro_batch_time, deviation, age, slowest]], columns=names)
