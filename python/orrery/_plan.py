"""Plans: which GPUs, layout, spares and checkpoints for a training, until when, for how much."""

from __future__ import annotations

import datetime
import json
import os
from concurrent.futures import Executor
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import pandas as pd

from orrery import _core, _questions, _resources, _sliders
from orrery._answer import Answer
from orrery._html import number, size
from orrery._played import PlayedRow, Variant, play
from orrery._planning import NameOrFile, layouts
from orrery._prices import PriceFile
from orrery._scenario import Scenario, _override_list, load

#: A time in seconds, a text such as ``"60 d"``, or a date.
Deadline = Union[float, str, datetime.date]

_DAY_S = 86_400
_SIZES = ("sequence_length", "global_batch", "tokens_per_batch")
#: Texts, numbers and overrides of a question, as the extension takes them.
Asked = Tuple[List[Tuple[str, str]], List[Tuple[str, float]], List[str]]


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
    seeds : int
        Played runs for each interval.
    """

    def __init__(
        self,
        found: Mapping[str, Any],
        scenarios: Sequence[str],
        html: str,
        study: _core.PlanStudy,
        asked: Asked,
    ) -> None:
        self._found = dict(found)
        self._study = study
        self._fewer: Dict[int, _core.PlanStudy] = {}
        self._asked = asked
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
        self.seeds: int = self._found["seeds"]

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

    def row(self, row: int = 1) -> Dict[str, Any]:
        """A row, nested as in the JSON of ``orrery plan``.

        Parameters
        ----------
        row : int
            As in the column ``rank``, from 1.

        Returns
        -------
        dict
            The row.

        Raises
        ------
        IndexError
            If the plan has no such row.
        """
        rows: List[Dict[str, Any]] = self._found["candidates"]
        if not 1 <= row <= len(rows):
            raise IndexError(f"expected a row from 1 to {len(rows)}, found {row}")
        return rows[row - 1]

    def play(
        self,
        row: int = 1,
        spares: Optional[int] = None,
        checkpoint_every: Optional[int] = None,
        step_factor: float = 1.0,
        overrides: Optional[Mapping[str, Any]] = None,
        seeds: Optional[int] = None,
        **changes: Any,
    ) -> PlayedRow:
        """Play a row again with changed values and the same seeds, within a fraction of a second.

        Parameters
        ----------
        row : int
            As in the column ``rank``.
        spares : int, optional
            Spare nodes beside the nodes with ranks.
        checkpoint_every : int, optional
            Steps between two checkpoints; by default Daly's interval.
        step_factor : float
            Factor on the predicted step time.
        seeds : int, optional
            The first seeds only, from 10 on: 200 take a fifth of the time of 1,000. By default all
            seeds of the plan.
        overrides, **changes
            Values of the scenario, as for `orrery.load`: ``failures__scale=2``.

        Returns
        -------
        PlayedRow
            The changed row.

        Raises
        ------
        InputError, UsageError
            If a value is wrong, or makes the run impossible.
        """
        study = self._study_of(seeds)
        return play(study, row, spares, checkpoint_every, step_factor, overrides, changes)

    def _study_of(self, seeds: Optional[int]) -> _core.PlanStudy:
        """The study that plays all seeds of the plan, or the first ones only."""
        if seeds is None:
            return self._study
        if seeds not in self._fewer:
            self._fewer[seeds] = self._study.with_first_seeds(seeds)
        return self._fewer[seeds]

    def compare(self, a: Variant = 1, b: Variant = 2, errors: str = "common") -> Answer:
        """Compare two rows, or a row with changed values, seed by seed.

        Parameters
        ----------
        a, b : int or mapping
            A row, or the arguments of `play`: ``{"row": 1, "spares": 3}``.
        errors : {"common", "independent"}
            Whether both step prices are wrong by the same factor: for the same software and GPU
            common, for different ones independent.

        Returns
        -------
        Answer
            Difference of the ends with its interval, and the parts of the run that cause it.
        """
        return _questions.compare(self, a, b, errors)

    def sensitivity(
        self, row: int = 1, measure: str = "days", seeds: Optional[int] = None
    ) -> Answer:
        """Rank the inputs by their effect on the date or the cost (a tornado).

        Parameters
        ----------
        row : int
            As in the column ``rank``.
        measure : {"days", "usd"}
            Median end, or cost until then.
        seeds : int, optional
            The first seeds, from 10 on; by default 200, or all of the plan if it has fewer.

        Returns
        -------
        Answer
            Each input at half and twice its value; the step price at P10 and P90.
        """
        return _questions.sensitivity(self, row, measure, seeds)

    def spares(
        self, goodput: float = 0.97, row: int = 1, confidence: float = 0.8, most: int = 6
    ) -> Answer:
        """Find the spare nodes for a goodput.

        Parameters
        ----------
        goodput : float
            Share of the time in steps that count, between 0 and 1.
        row : int
            As in the column ``rank``.
        confidence : float
            Share of the seeds that shall reach it.
        most : int
            Largest number of spare nodes to try.

        Returns
        -------
        Answer
            Goodput, date and cost by the number of spare nodes.
        """
        return _questions.spares(self, goodput, row, confidence, most)

    def rent_or_buy(
        self,
        purchase: float,
        row: int = 1,
        rent: Optional[float] = None,
        electricity: float = 0.1,
        upkeep: float = 0.1,
        years: float = 4.0,
    ) -> Answer:
        """Compare renting with buying the reserved GPUs of a row.

        Parameters
        ----------
        purchase : float
            USD for a GPU with its part of node and network.
        row : int
            As in the column ``rank``.
        rent : float, optional
            USD for a GPU and hour; by default the price of the cluster.
        electricity : float
            USD for a kilowatt-hour.
        upkeep : float
            Share of the purchase that a year of operation costs beside electricity.
        years : float
            Lifetime.

        Returns
        -------
        Answer
            Costs by months of use, and the months from which buying pays.
        """
        return _resources.rent_or_buy(self, row, purchase, rent, electricity, upkeep, years)

    def pareto(self) -> Answer:
        """Show the cost of each row against its date.

        Returns
        -------
        Answer
            All rows, and those that no other row beats in both.
        """
        return _resources.pareto(self)

    def layout_map(self, row: int = 1, x: str = "pipeline", y: str = "tensor") -> Answer:
        """Show all layouts of a row's GPUs as a heat map.

        Parameters
        ----------
        row : int
            As in the column ``rank``: cluster, GPUs with ranks, batch.
        x, y : str
            Two of ``tensor``, ``context``, ``pipeline``, ``data``, ``expert``, ``chunks`` and
            ``micro_batch``.

        Returns
        -------
        Answer
            The fastest layout of each cell, or the reason why none fits.
        """
        return _resources.layout_map(self, row, x, y)

    def memory(self, row: int = 1) -> Answer:
        """Show the memory of a GPU of each pipeline stage by its owner.

        Parameters
        ----------
        row : int
            As in the column ``rank``.

        Returns
        -------
        Answer
            GiB by stage and owner.
        """
        return _resources.memory(self, row)

    def roofline(self, row: int = 1) -> Answer:
        """Show the operators of a step under the roofline of the GPU.

        Parameters
        ----------
        row : int
            As in the column ``rank``.

        Returns
        -------
        Answer
            Intensity, rate and time of each operator, on the stage that computes longest.
        """
        return _resources.roofline(self, row)

    def goodput_over_time(self, row: int = 1, window_days: float = 1.0) -> Answer:
        """Show the goodput of each window of time.

        Parameters
        ----------
        row : int
            As in the column ``rank``.
        window_days : float
            Length of a window in days.

        Returns
        -------
        Answer
            Quantiles over the seeds, and seed 1.
        """
        return _questions.goodput_over_time(self, row, window_days)

    def fan(self, row: int = 1, start: Optional[str] = None) -> Answer:
        """Show the trained tokens over time, with intervals.

        Parameters
        ----------
        row : int
            As in the column ``rank``.
        start : str, optional
            Date of the first step, ``"2027-01-01"``, for dates in the table.

        Returns
        -------
        Answer
            Quantiles of the trained tokens by day.
        """
        return _questions.fan(self, row, start)

    def sliders(self, row: int = 1) -> Any:
        """Show a row with sliders in a notebook; needs ipywidgets.

        Parameters
        ----------
        row : int
            As in the column ``rank``.

        Returns
        -------
        ipywidgets.VBox
            Sliders for spares, checkpoints, failures, repair, restart and the step time, and the
            row that they change.

        Raises
        ------
        ModuleNotFoundError
            If ipywidgets is not installed.
        """
        return _sliders.sliders(self, row)

    def _layouts_of(self, row: int) -> pd.DataFrame:
        found = self.row(row)
        texts, numbers, overrides = self._asked
        said = dict(texts)
        counts = dict(numbers)
        return layouts(
            model=said["model"],
            cluster=found["cluster"],
            gpus=found["job_gpus"],
            sequence_length=int(counts.get("sequence_length", 0)) or None,
            global_batch=found["global_batch"],
            stack=said.get("stack"),
            precision=said.get("precision"),
            overrides=_of_job(overrides),
        )

    def summary(self) -> pd.DataFrame:
        """The rows in the units that people plan in.

        Returns
        -------
        pandas.DataFrame
            Days, million USD, MWh, tonnes of carbon dioxide, shares as fractions.
        """
        t = self.table
        if t.empty:
            return pd.DataFrame()
        table = pd.DataFrame(
            {
                "cluster": t["cluster"],
                "GPUs": t["gpus"],
                "spare nodes": t["policies.spare_nodes"],
                "recovery": t["policies.recovery"],
                "layout": [_words(row) for row in self._found["candidates"]],
                "step (s)": t["step_time_s"],
                "free memory": [size(free) for free in t["memory_headroom_bytes"]],
                "goodput": t["goodput"],
                "days P10": t["finish_s.p10"] / _DAY_S,
                "days P50": t["finish_s.p50"] / _DAY_S,
                "days P90": t["finish_s.p90"] / _DAY_S,
                "million USD": pd.to_numeric(t["cost_usd"]) / 1e6,
                "MWh": t["energy_j"] / 3.6e9,
                "t CO2": pd.to_numeric(t["carbon_kg"]) / 1000,
                "in time": t["deadline_met"],
                "in budget": t["within_budget"],
            }
        )
        table.index = pd.Index(t["rank"], name="rank")
        return table

    def __repr__(self) -> str:
        return f"{self.summary().head(10).to_string(float_format=number)}\nwhy: {self.why}"

    def _repr_html_(self) -> str:
        return self._html


def _words(row: Mapping[str, Any]) -> str:
    layout = row["layout"]
    names = ("tensor", "context", "pipeline", "data", "expert", "chunks")
    parts = [f"{name} {layout[name]}" for name in names if layout[name] > 1]
    return " x ".join(parts) or "one GPU"


def _of_job(overrides: Sequence[str]) -> Dict[str, str]:
    # A scenario of layouts has no failures, checkpoints and recovery.
    pairs = [each.split("=", 1) for each in overrides]
    return {key: value for key, value in pairs if key.startswith(("job.", "cluster."))}


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
    seeds: int = 1000,
    overrides: Optional[Mapping[str, Any]] = None,
    instance: Optional[str] = None,
    grid: Optional[str] = None,
    prices: PriceFile = None,
    measured: Optional[NameOrFile] = None,
    recovery: Optional[str] = None,
    executor: Optional[Executor] = None,
    **changes: Any,
) -> Plan:
    """Recommend GPUs, layout, spares and checkpoints for a training.

    Parameters
    ----------
    model : path or str
        Name of a preset, or file of a model, as for `orrery.layouts`.
    cluster : path, str, or sequence of them
        Names of presets (``orrery.names("clusters")``) or cluster files (YAML), each a candidate.
    gpus, tokens : int, sequence of int, or str; float or str
        Reserved GPUs, spares included; ``"64..512"`` is a range. Tokens; ``"2T"`` is 2e12.
    deadline, start, budget : float, str or date, optional
        Seconds, ``"60 d"`` or a date, which needs `start`, of the first step. USD for all GPUs.
    failures, recovery : str, optional
        A profile (default ``"llama3"``), ``"none"``, or a file with a section ``failures``.
        ``"restart"`` (default), ``"replace"`` or ``"any"``: recovery of the rows after a loss.
    confidence, batch_change, seeds
        Probability with which the goals shall be met, change of the batch, played runs.
    overrides, **changes
        Values of the scenario to change, as for `orrery.load`; ``sequence_length``,
        ``global_batch``, ``tokens_per_batch``, ``stack``, ``precision`` as for `orrery.layouts`.
    instance, grid, prices : str, str, path, optional
        Names of `orrery.prices`, in place of the cluster's price and carbon (``"a,b"``: an instance
        for each GPU); a table of one's own.
    measured : path, optional
        Runs with ``iter_time_s``: ``to_dict()["nearest_measured"]`` names the nearest one.
    executor : concurrent.futures.Executor, optional
        Searches clusters and sizes, a task each, as `orrery.sweep` uses one.

    Returns
    -------
    Plan
        Ranked rows; none if no layout fits.

    Raises
    ------
    UsageError, InputError
        If a text has another form; if a name or value is wrong.
    """
    words = {
        "model": os.fspath(model), "clusters": _names_of(cluster), "gpus": _list_of(gpus),
        "tokens": _text_of(tokens), "budget": _text_of(budget), "start": _text_of(start),
        "deadline": f"{deadline} s" if isinstance(deadline, (int, float)) else _text_of(deadline),
        "failures": failures or "", "recovery": recovery or "", "instance": instance or "",
        "grid": grid or "", "prices": os.fspath(prices or ""),
        "measured": os.fspath(measured or ""),
    }  # fmt: skip
    numbers = {"confidence": 100 * confidence, "batch_change": 100 * batch_change, "seeds": seeds}
    return _planned(_asked(words, numbers, overrides or {}, changes), executor)


def _planned(asked: Asked, executor: Optional[Executor]) -> Plan:
    found = [] if executor is None else _found_by(executor, asked)
    text, scenarios, html, study = _core.plan(*asked, found)
    return Plan(json.loads(text), scenarios, html, study, asked)


def _asked(
    words: Dict[str, str],
    numbers: Dict[str, float],
    overrides: Mapping[str, Any],
    changes: Dict[str, Any],
) -> Asked:
    words |= {name: changes.pop(name) for name in ("stack", "precision") if name in changes}
    numbers.update({name: changes.pop(name) for name in _SIZES if name in changes})
    figures = [(name, float(value)) for name, value in numbers.items()]
    return list(words.items()), figures, _override_list(overrides, changes)


def _found_by(executor: Executor, asked: Asked) -> List[str]:
    tasks = [executor.submit(_search, asked, *task) for task in _core.plan_tasks(*asked)]
    return [task.result() for task in tasks]


def _search(asked: Asked, cluster: str, gpus: int) -> str:
    # Runs in a worker of an executor.
    return _core.plan_layouts(*asked, cluster, gpus)


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
