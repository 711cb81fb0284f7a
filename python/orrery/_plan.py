"""Plans: which GPUs, layout, spares and checkpoints for a training, until when, for how much."""

from __future__ import annotations

import datetime
import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import pandas as pd

from orrery import _core
from orrery._html import size
from orrery._planning import NameOrFile
from orrery._scenario import Scenario, _override_list, load

#: A time in seconds, a text such as ``"60 d"``, or a date.
Deadline = Union[float, str, datetime.date]

_DAY_S = 86_400
_SIZES = ("sequence_length", "global_batch", "tokens_per_batch")


class Plan:
    """A recommendation: ranked rows and the reasons for the first one.

    Attributes
    ----------
    table : pandas.DataFrame
        One row for each candidate, best first; nested keys are joined by dots
        (``finish_s.p50``). Seconds, bytes, USD, joules, kilograms.
    changes : pandas.DataFrame
        Effect of one change at a time on the first row: ``change``, ``saved_s``, ``saved_usd``.
    why, order : str
        Comparison of the first row with the second, and the rule of the ranking.
    assumed, warnings : list of str
        Every assumption with its source, and what to know before signing.
    """

    def __init__(self, found: Mapping[str, Any], scenarios: Sequence[str], html: str) -> None:
        self._found = dict(found)
        self._scenarios = list(scenarios)
        self._html = html
        self.table = pd.json_normalize(self._found["candidates"])
        self.changes = pd.DataFrame(
            self._found["changes"], columns=["change", "saved_s", "saved_usd"]
        )
        self.why: str = self._found["why"]
        self.order: str = self._found["order"]
        self.assumed: List[str] = self._found["assumed"]
        self.warnings: List[str] = self._found["warnings"]

    @property
    def best(self) -> Optional[Dict[str, Any]]:
        """The first row, nested as in the JSON of ``orrery plan``; ``None`` if no layout fits."""
        rows: List[Dict[str, Any]] = self._found["candidates"]
        return rows[0] if rows else None

    def to_dict(self) -> Dict[str, Any]:
        """The JSON object of ``orrery plan --json``.

        Returns
        -------
        dict
            A copy.
        """
        return dict(self._found)

    def to_html(self) -> str:
        """The report of ``orrery plan --html``: one page that needs no network.

        Returns
        -------
        str
            HTML.
        """
        return self._html

    def scenario(self, row: int = 1) -> Scenario:
        """The scenario of a row, for `orrery.simulate`.

        Parameters
        ----------
        row : int
            As in the column ``rank``, from 1.

        Returns
        -------
        Scenario
            Complete.

        Raises
        ------
        IndexError
            If the plan has no such row.
        """
        if not 1 <= row <= len(self._scenarios):
            raise IndexError(f"expected a row from 1 to {len(self._scenarios)}, found {row}")
        return load(self._scenarios[row - 1])

    def summary(self) -> pd.DataFrame:
        """The rows in the units that people plan in.

        Returns
        -------
        pandas.DataFrame
            Days, million USD, MWh, shares as fractions.
        """
        t = self.table
        if t.empty:
            return pd.DataFrame()
        table = pd.DataFrame(
            {
                "cluster": t["cluster"],
                "GPUs": t["gpus"],
                "spare nodes": t["policies.spare_nodes"],
                "layout": [_words(row) for row in self._found["candidates"]],
                "step (s)": t["step_time_s"],
                "free memory": [size(free) for free in t["memory_headroom_bytes"]],
                "goodput": t["goodput"],
                "days P10": t["finish_s.p10"] / _DAY_S,
                "days P50": t["finish_s.p50"] / _DAY_S,
                "days P90": t["finish_s.p90"] / _DAY_S,
                "million USD": pd.to_numeric(t["cost_usd"]) / 1e6,
                "MWh": t["energy_j"] / 3.6e9,
                "in time": t["deadline_met"],
                "in budget": t["within_budget"],
            }
        )
        table.index = pd.Index(t["rank"], name="rank")
        return table

    def __repr__(self) -> str:
        return f"{self.summary().head(10).to_string(float_format='%.3g')}\nwhy: {self.why}"

    def _repr_html_(self) -> str:
        return self._html


def _words(row: Mapping[str, Any]) -> str:
    layout = row["layout"]
    names = ("tensor", "context", "pipeline", "data", "expert", "chunks")
    parts = [f"{name} {layout[name]}" for name in names if layout[name] > 1]
    return " x ".join(parts) or "one GPU"


def plan(
    model: NameOrFile,
    cluster: Union[NameOrFile, Sequence[NameOrFile]],
    *,
    gpus: Union[int, str, Sequence[int]],
    tokens: Union[float, str],
    deadline: Optional[Deadline] = None,
    budget: Union[float, str, None] = None,
    start: Union[str, datetime.date, None] = None,
    failures: Optional[str] = None,
    confidence: float = 0.8,
    batch_change: float = 0.05,
    seeds: int = 200,
    overrides: Optional[Mapping[str, Any]] = None,
    **changes: Any,
) -> Plan:
    """Recommend GPUs, layout, spares and checkpoints for a training.

    Parameters
    ----------
    model : path or str
        Name of a preset, or file of a model, as for `orrery.layouts`.
    cluster : path, str, or sequence of them
        Names of presets (``orrery.names("clusters")``) or cluster files (YAML), each a candidate.
    gpus : int, sequence of int, or str
        Reserved GPUs, spares included; ``"64..512"`` is a range.
    tokens : float or str
        Tokens of the training; ``"2T"`` is 2e12.
    deadline : float, str or date, optional
        Seconds, ``"60 d"``, or a date, which needs `start`.
    budget : float or str, optional
        USD for all reserved GPUs.
    start : str or date, optional
        Date of the first step.
    failures : str, optional
        A profile (default ``"llama3"``), ``"none"``, or a file with a section ``failures``.
    confidence, batch_change, seeds
        Probability with which the goals shall be met, change of the batch, played runs.
    overrides, **changes
        Values of the scenario to change, as for `orrery.load` (``survival__restart="10 min"``);
        ``sequence_length``, ``global_batch``, ``tokens_per_batch``, ``stack`` and ``precision``
        as for `orrery.layouts`.

    Returns
    -------
    Plan
        Ranked rows; none if no layout fits.

    Raises
    ------
    UsageError, InputError
        If a text has another form; if a name or value is wrong.
    """
    said: Dict[str, str] = {
        "model": os.fspath(model),
        "clusters": _names_of(cluster),
        "gpus": _list_of(gpus),
        "tokens": _text_of(tokens),
        "deadline": f"{deadline} s" if isinstance(deadline, (int, float)) else _text_of(deadline),
        "budget": _text_of(budget),
        "start": _text_of(start),
        "failures": failures or "",
    }
    said |= {name: changes.pop(name) for name in ("stack", "precision") if name in changes}
    numbers = {"confidence": 100 * confidence, "batch_change": 100 * batch_change, "seeds": seeds}
    numbers.update({name: changes.pop(name) for name in _SIZES if name in changes})
    figures = [(name, float(value)) for name, value in numbers.items()]
    planned = _core.plan(list(said.items()), figures, _override_list(overrides, changes))
    text, scenarios, html = planned
    return Plan(json.loads(text), scenarios, html)


def _text_of(value: Any) -> str:
    if value is None:
        return ""
    return repr(float(value)) if isinstance(value, (int, float)) else str(value)


def _names_of(cluster: Union[NameOrFile, Sequence[NameOrFile]]) -> str:
    if isinstance(cluster, (str, os.PathLike)):
        return os.fspath(cluster)
    return ",".join(os.fspath(each) for each in cluster)


def _list_of(gpus: Union[int, str, Sequence[int]]) -> str:
    if isinstance(gpus, (int, str)):
        return str(gpus)
    return ",".join(str(each) for each in gpus)
