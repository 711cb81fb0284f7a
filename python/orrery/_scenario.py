"""Scenarios: loading, changing, checking."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Union

from orrery import _core
from orrery._errors import InputError


class Scenario:
    """A scenario that was loaded, completed by defaults and presets, and checked.

    Made by `orrery.load`; every function that takes a scenario takes one of these too.
    """

    def __init__(self, core: _core.Scenario, text: str, file: str, overrides: List[str]) -> None:
        self._core = core
        self._text = text
        self._file = file
        self._overrides = overrides

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

    def to_dict(self) -> Dict[str, Any]:
        """Every value, in SI units, defaults filled in.

        Returns
        -------
        dict
            Nested as the YAML file is. Times that the schema counts in nanoseconds stay so.
        """
        out: Dict[str, Any] = json.loads(self._core.json())
        return out

    def _copy(self) -> Scenario:
        core = _core.Scenario.from_text(self._text, self._file, self._overrides)
        return Scenario(core, self._text, self._file, self._overrides)

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
        if not written:
            return scenario
        text, file, written = scenario._text, scenario._file, scenario._overrides + written
    else:
        text, file = _text_of(scenario)
    return Scenario(_core.Scenario.from_text(text, file, written), text, file, written)


def check(scenario: ScenarioLike) -> List[InputError]:
    """All problems of a scenario, not only the first.

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
        return []
    text, file = _text_of(scenario)
    return [
        InputError(f"{where}:{line}:{column}: {message}", message, where, line, column)
        for message, where, line, column in _core.check(text, file)
    ]


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
    if hasattr(value, "item"):
        value = value.item()
    return repr(value) if isinstance(value, float) else str(value)


def _override_list(overrides: Optional[Mapping[str, Any]], changes: Mapping[str, Any]) -> List[str]:
    out = [f"{path}={_scalar(value)}" for path, value in (overrides or {}).items()]
    out += [f"{name.replace('__', '.')}={_scalar(value)}" for name, value in changes.items()]
    return out
