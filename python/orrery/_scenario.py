"""Scenarios: loading, changing, checking."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from orrery import _core
from orrery._errors import Error, InputError
from orrery._html import Row, table


#: Ways to divide a job, in the order in which they are spoken of.
_PARALLEL = ("tensor", "context", "pipeline", "data", "expert")


class Scenario:
    """A scenario that was loaded, completed by defaults and presets, and checked.

    Made by `orrery.load`; every function that takes a scenario takes one of these too.
    """

    #: The log that runs of it go on from, and up to when; `orrery.Snapshot` has one.
    _from: Optional[Tuple[str, Optional[float]]] = None

    def __init__(self, core: _core.Scenario, text: str, file: str, overrides: List[str]) -> None:
        self._core = core
        self._text = text
        self._file = file
        self._overrides = overrides

    def __getstate__(self) -> Dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_core"}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._core = _core.Scenario.from_text(self._text, self._file, self._overrides)

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self._core.name

    @property
    def ranks(self) -> int:
        """World size: tensor x pipeline x data."""
        return self._core.ranks

    @property
    def steps(self) -> int:
        """Optimizer steps that a run takes."""
        return self._core.steps

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical scenario, without its seed."""
        return self._core.hash()

    def to_dict(self, units: bool = True) -> Dict[str, Any]:
        """Return every value, presets and defaults filled in.

        Parameters
        ----------
        units : bool
            Quantities as texts with their units, absent keys left out: the input of `orrery.load`.
            ``False``: as numbers in SI units, times that the schema counts in nanoseconds so,
            and ``None`` for absent keys.

        Returns
        -------
        dict
            Nested as the YAML file is.
        """
        text = self._core.written() if units else self._core.json()
        out: Dict[str, Any] = json.loads(text)
        return out

    def _repr_html_(self) -> str:
        values = self.to_dict(units=False)
        cluster, job = values["cluster"], values.get("job") or {}
        node, model = cluster.get("node") or {}, job.get("model") or {}
        kind = next(key for key in ("job", "trace", "collective") if values.get(key))
        layout = job.get("layout") or {}
        parallel = [f"{key} {layout[key]}" for key in _PARALLEL if (layout.get(key) or 1) > 1]
        work = model.get("preset") or model.get("builtin") or f"{model.get('layers')} layers"
        policies = ", ".join(each["name"] for each in values.get("policies") or [])
        rows: List[Row] = [
            ("what", values.get("description") or None),
            ("cluster", f"{cluster['nodes']:,} nodes of {node.get('gpus_per_node')} "
                        f"{node.get('gpu')}"),
            ("preset", cluster.get("preset") or None),
            ("work", work if kind == "job" else f"a {kind}"),
            ("layout", " x ".join(parallel) or None),
            ("ranks", f"{self.ranks:,}" if kind == "job" else None),
            ("global batch", f"{job['global_batch']:,} sequences of {job['sequence_length']:,} "
                             "tokens" if job else None),
            ("software", job.get("stack") if not job.get("pace") else None),
            ("policies", policies or "none"),
            ("faults", f"{len(values['faults']):,}" if values.get("faults") else None),
            ("steps", f"{self.steps:,}"),
        ]  # fmt: skip
        return table(self.name, rows)

    def _copy(self) -> Scenario:
        return self._changed([])

    def _changed(self, written: List[str]) -> Scenario:
        overrides = self._overrides + written
        core = _core.Scenario.from_text(self._text, self._file, overrides)
        changed = Scenario(core, self._text, self._file, overrides)
        changed._from = self._from
        return changed

    def __repr__(self) -> str:
        return f"<orrery.Scenario {self.name!r}: {self.ranks} ranks, {self.steps} steps>"


ScenarioLike = Union[Scenario, str, "os.PathLike[str]", Mapping[str, Any]]


def load(
    scenario: ScenarioLike, overrides: Optional[Mapping[str, Any]] = None, **changes: Any
) -> Scenario:
    """Load a scenario.

    Parameters
    ----------
    scenario : path, str, mapping or Scenario
        A file; YAML text (a string with a line break in it); or a nested dict with the keys of
        the file, quantities written as there (``"400 Gbps"``).
    overrides : mapping, optional
        Values to change, by dotted path: ``{"cluster.nodes": 128}``.
    **changes
        The same with double underscores: ``cluster__nodes=128``.

    Returns
    -------
    Scenario
        Complete and checked.

    Raises
    ------
    InputError
        At the first problem, with its file, line and column.
    """
    written = _override_list(overrides, changes)
    if isinstance(scenario, Scenario):
        return scenario._changed(written) if written else scenario
    text, file = _text_of(scenario)
    return Scenario(_core.Scenario.from_text(text, file, written), text, file, written)


def check(scenario: ScenarioLike) -> List[InputError]:
    """All problems of a scenario, not only the first; also those that a run would begin with.

    Where the text is good, a run in the simulator is begun, and ended as soon as it gets
    anywhere: memory that does not suffice, or policies that do not suit, show only then.

    Parameters
    ----------
    scenario : path, str, mapping or Scenario
        As for `load`.

    Returns
    -------
    list of InputError
        Empty if the scenario can be run. They are returned, not raised.
    """
    if isinstance(scenario, Scenario):
        return _begun(scenario)
    text, file = _text_of(scenario)
    problems = [
        InputError(f"{where}:{line}:{column}: {message}", message, where, line, column)
        for message, where, line, column in _core.check(text, file)
    ]
    return problems or _begun(load(scenario))


def _begun(scenario: Scenario) -> List[InputError]:
    begun = threading.Event()
    try:
        _core.run(
            scenario._core,
            {
                "program": "orrery-sim",
                "detail": "folded",
                "record": "",
                "timeline": "",
                "fabric": "",
                "mode": "",
                "limit": 0,
                "kill_switch": "",
                "fall_back": False,
                "policy_timeout": 0.0,
            },
            None,
            None,
            lambda done, total, elapsed_s: begun.set(),
            begun.is_set,
        )
    except InputError as problem:
        return [problem]
    except Error:
        if not begun.is_set():
            raise
    return []


def _text_of(scenario: Union[str, "os.PathLike[str]", Mapping[str, Any]]) -> "tuple[str, str]":
    if isinstance(scenario, Mapping):
        return _yaml(scenario), "<dict>"
    if isinstance(scenario, str) and "\n" in scenario:
        return scenario, "<text>"
    path = Path(scenario)
    try:
        return path.read_bytes().decode("utf-8"), str(path)
    except OSError as error:
        text = f"{path}: {error.strerror}"
        raise InputError(text, error.strerror, str(path), 1, 1) from error
    except UnicodeDecodeError as error:
        text = f"{path}: not UTF-8 at byte {error.start}"
        raise InputError(text, "not UTF-8", str(path), 1, 1) from error


def _yaml(mapping: Mapping[str, Any]) -> str:
    # JSON is YAML. One value a line, so that a message shows the line that is meant.
    try:
        return json.dumps(mapping, indent=1, ensure_ascii=False, allow_nan=False, default=_plain)
    except ValueError as error:
        raise InputError(f"<dict>: {error}", str(error), "<dict>", 1, 1) from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):  # NumPy scalars and arrays
        return value.tolist()
    raise TypeError(f"a scenario cannot hold a {type(value).__name__}")


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (Mapping, list, tuple)) or getattr(value, "ndim", 0) > 0:
        # JSON is YAML, with booleans and numbers at any depth.
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)
    if value is None:
        return "null"
    if hasattr(value, "item"):
        return _scalar(value.item())
    return repr(value) if isinstance(value, float) else str(value)


def _override_list(overrides: Optional[Mapping[str, Any]], changes: Mapping[str, Any]) -> List[str]:
    out = [f"{path}={_scalar(value)}" for path, value in (overrides or {}).items()]
    out += [f"{name.replace('__', '.')}={_scalar(value)}" for name, value in changes.items()]
    return out
