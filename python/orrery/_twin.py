"""Score of a digital twin, from the tables that `orrery twin --out` writes."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any, List, Optional, Union

import pandas as pd

from orrery._answer import Answer
from orrery._charts import Axis, Bars, Chart, Line, Mark, Rule
from orrery._errors import InputError
from orrery._extras import require
from orrery._html import number

_HORIZONS = ["1 min", "5 min", "15 min", "1 h", "longer"]
_NAMES = {"start": "starts", "end": "ends", "step": "steps"}
_GOALS = {
    "wait_mean_s": "mean wait (s)",
    "jct_mean_s": "mean completion time (s)",
    "slowdown_mean": "mean slowdown",
    "end_s": "end of the run (s)",
}
_COSTS = {
    "wait_mean_s": "mean wait",
    "jct_mean_s": "mean completion time",
    "end_s": "end of the run",
}
_INTERVALS = ["median_s", "low80_s", "high80_s", "low95_s", "high95_s"]
_FORECASTS = ["job_id", "kind", "made_s", "median_s", "low80_s", "high80_s", "low95_s", "high95_s",
              "actual_s"]  # fmt: skip
_NOW = ["job_id", "kind", "made_s", *_INTERVALS, "policy"]
_SCORE = ["kind", "horizon", "forecasts", "median_error_s", "within_1_min", "within_10_min",
          "coverage_80", "coverage_95"]  # fmt: skip
_POLICIES = ["made_s", "policy", "goal", "value"]


class TwinScore:
    """Score of a digital twin.

    Attributes
    ----------
    score : pandas.DataFrame
        Errors and coverages by ``kind`` (``"start"``, ``"end"``, ``"step"``) and ``horizon``.
    forecasts : pandas.DataFrame
        Each forecast whose instant is known, beside this instant.
    policies : pandas.DataFrame
        Goals of each policy at each forecast: ``made_s``, ``policy``, ``goal``, ``value``.
    lost_node : pandas.DataFrame
        Costs of losing a node at the newest forecast, with their intervals; empty without one.
    """

    def __init__(
        self,
        score: pd.DataFrame,
        forecasts: pd.DataFrame,
        policies: pd.DataFrame,
        lost_node: Optional[pd.DataFrame] = None,
    ) -> None:
        self.score = score
        self.forecasts = forecasts
        self.policies = policies
        self.lost_node = pd.DataFrame(columns=_NOW) if lost_node is None else lost_node

    def errors(self) -> Answer:
        """Return the median error of the forecasts by horizon.

        Returns
        -------
        Answer
            The rows of ``score`` with their errors.
        """
        table = self._by_horizon()[["kind", "horizon", "forecasts", "median_error_s"]]
        marks: List[Mark] = []
        for style, (kind, rows) in enumerate(table.groupby("kind", sort=False)):
            errors = list(rows["median_error_s"].clip(lower=1))
            counts = [f"{count:,}" for count in rows["forecasts"]] if style == 0 else []
            marks.append(Line(_places(rows), errors, _NAMES[str(kind)], style, marked=True,
                              labels=counts))  # fmt: skip
        chart = Chart("Error of the forecasts by horizon", _horizon_axis(),
                      Axis("median error (s)", log=True), marks)  # fmt: skip
        return Answer("Error of the forecasts", _said(self.score, "median_error_s", "{:,.0f} s"),
                      table, chart, ["The numbers count the forecasts of the first line; errors "
                                     "below 1 s are drawn at 1 s."])  # fmt: skip

    def coverage(self) -> Answer:
        """Return the share of the instants inside the intervals, against the nominal share.

        Returns
        -------
        Answer
            The rows of ``score`` with their coverages.
        """
        table = self._by_horizon()[["kind", "horizon", "forecasts", "coverage_80", "coverage_95"]]
        marks: List[Mark] = [Rule(80, "80% and 95%", style=6), Rule(95, "", style=6)]
        style = 0
        for kind, rows in table.groupby("kind", sort=False):
            for nominal in (80, 95):
                inside = list(100 * rows[f"coverage_{nominal}"])
                name = f"{_NAMES[str(kind)]} in {nominal}%"
                marks.append(Line(_places(rows), inside, name, style, marked=True))
                style += 1
        chart = Chart("Coverage of the intervals by horizon", _horizon_axis(),
                      Axis("instants inside (%)"), marks)  # fmt: skip
        return Answer("Coverage of the intervals", _said(self.score, "coverage_80", "{:.1%}"),
                      table, chart, ["The lines across are the nominal shares."])  # fmt: skip

    def regret(self, goal: str = "") -> Answer:
        """Return the regret of the active policy over time.

        The regret of a forecast is the goal of the active policy less that of the best policy.

        Parameters
        ----------
        goal : str, optional
            ``"wait_mean_s"``, ``"jct_mean_s"`` or ``"slowdown_mean"`` of a queue, ``"end_s"`` of a
            run; by default the first that the twin has.

        Returns
        -------
        Answer
            The regret at each forecast, and its mean so far.
        """
        known = list(self.policies["goal"].unique())
        if not known:
            raise InputError("policies.csv: expected forecasts, found none yet; wait for the first")
        goal = goal or known[0]
        if goal not in known:
            raise ValueError(f"goal: expected {' or '.join(known)}, found {goal!r}")
        rows = self.policies[self.policies["goal"] == goal].dropna(subset=["value"])
        active = str(self.policies["policy"].iloc[0])
        table = rows[rows["policy"] == active][["made_s", "value"]].reset_index(drop=True)
        best = rows.groupby("made_s")["value"].min()
        table["regret"] = table["value"] - table["made_s"].map(best)
        table["regret so far"] = table["regret"].expanding().mean()
        hours = (table["made_s"] - self.policies["made_s"].iloc[0]) / 3600
        marks: List[Mark] = [
            Line(list(hours), list(table["regret"]), "at the forecast", 0, joined=False),
            Line(list(hours), list(table["regret so far"]), "mean so far", 1),
        ]
        name = _GOALS.get(goal, goal)
        chart = Chart(f"Regret of {active} over time", Axis("hours since the first forecast"),
                      Axis(f"regret: {name}", from_zero=True), marks)  # fmt: skip
        mean = number(float(table["regret"].mean()))
        text = f"The mean regret of {active} is {mean}: {name}, {len(table)} forecasts."
        return Answer("Regret of the active policy", text, table, chart)

    def node_loss(self) -> Answer:
        """Return the cost of losing a node at the newest forecast, with its intervals.

        Returns
        -------
        Answer
            The rows of ``lost_node``. Work that is done again (``lost_gpu_s``) is in the table and
            in the text, not in the drawing, which is in seconds.

        Raises
        ------
        InputError
            If the newest forecast has no such cost: no job waits, or the table is an older one.
        """
        if self.lost_node.empty:
            raise InputError("now.csv: expected the cost of losing a node, found none: no job "
                             "waits, or an earlier build wrote it")  # fmt: skip
        table = self.lost_node[["job_id", "policy", "made_s", *_INTERVALS]]
        table = table.rename(columns={"job_id": "cost"}).reset_index(drop=True)
        rows = table[table["cost"].isin(list(_COSTS))]
        places = [float(place) for place in range(len(rows))]
        names = [_COSTS[cost] for cost in rows["cost"]]
        marks: List[Mark] = [
            Bars(places, list(rows["low95_s"]), list(rows["high95_s"]), "95%", 5, height=0.25),
            Bars(places, list(rows["low80_s"]), list(rows["high80_s"]), "80%", 0, height=0.5),
            Line(list(rows["median_s"]), places, "median", 1, joined=False),
        ]
        policy = str(table["policy"].iloc[0])
        chart = Chart(f"Cost of losing a node now under {policy}", Axis("seconds more"),
                      Axis("", ticks=list(zip(places, names))), marks, 2.6)  # fmt: skip
        said = [f"{_COSTS[row['cost']]} {_with_interval(row)} s" if row["cost"] in _COSTS
                else f"{_with_interval(row)} GPU-seconds of work again"
                for row in table.to_dict("records")]  # fmt: skip
        return Answer("Cost of a lost node", f"A lost node costs: {', '.join(said)}.", table, chart)

    def plot(self) -> Any:
        """Draw errors, coverages, regret and the cost of a lost node below each other.

        Without forecasts there is no regret, and while no job waits no cost of a lost node.

        Returns
        -------
        list of matplotlib.axes.Axes
            The drawings.
        """
        require("matplotlib", "plot")
        pyplot = import_module("matplotlib.pyplot")
        answers = [self.errors(), self.coverage()]
        if len(self.policies):
            answers.append(self.regret())
        if not self.lost_node.empty:
            answers.append(self.node_loss())
        size = (7.5, 3.4 * len(answers))
        _, axes = pyplot.subplots(len(answers), 1, figsize=size, layout="constrained")
        for answer, each in zip(answers, axes):
            answer.plot(each)
        return list(axes)

    def _by_horizon(self) -> pd.DataFrame:
        return self.score[self.score["horizon"] != "all"].reset_index(drop=True)

    def __repr__(self) -> str:
        return f"TwinScore of {len(self.forecasts)} forecasts\n{self.score.to_string()}"


def twin_score(folder: Union[str, "os.PathLike[str]"]) -> TwinScore:
    """Read the score of a digital twin.

    Parameters
    ----------
    folder : path
        Folder of ``orrery twin --out``, also while the twin runs.

    Returns
    -------
    TwinScore
        Tables and plots.

    Raises
    ------
    InputError
        If the folder has no such table, or a table lacks a column.
    """
    place = Path(folder)
    forecasts = _table(place, "forecasts.csv", _FORECASTS)
    # The last line may not be complete while the twin runs.
    forecasts = forecasts.dropna(subset=["actual_s"]).reset_index(drop=True)
    return TwinScore(_table(place, "score.csv", _SCORE), forecasts,
                     _table(place, "policies.csv", _POLICIES), _lost_node(place))  # fmt: skip


def _lost_node(folder: Path) -> Optional[pd.DataFrame]:
    if not (folder / "now.csv").exists():
        return None
    now = _table(folder, "now.csv", _NOW)
    return now[now["kind"] == "node_loss"].reset_index(drop=True)


def _with_interval(row: Any) -> str:
    low, high = number(float(row["low80_s"])), number(float(row["high80_s"]))
    return f"{number(float(row['median_s']))} (80%: {low} to {high})"


def _table(folder: Path, name: str, columns: List[str]) -> pd.DataFrame:
    file = folder / name
    try:
        table = pd.read_csv(file, dtype={"job_id": str})
    except (OSError, ValueError) as why:
        raise InputError(
            f"{file}: expected a table of orrery twin --out {folder}, found none: {why}"
        ) from why
    missing = [each for each in columns if each not in table.columns]
    if missing:
        raise InputError(f"{file}: expected the columns {', '.join(columns)}; "
                         f"{', '.join(missing)} is missing")  # fmt: skip
    return table


def _places(rows: pd.DataFrame) -> List[float]:
    return [float(_HORIZONS.index(horizon)) for horizon in rows["horizon"]]


def _horizon_axis() -> Axis:
    ticks = [(float(place), name) for place, name in enumerate(_HORIZONS)]
    return Axis("horizon: median of the forecast at most this far ahead", ticks=ticks)


def _said(score: pd.DataFrame, column: str, shape: str) -> str:
    of_all = score[score["horizon"] == "all"]
    parts = [f"{shape.format(row[column])} of {row['forecasts']:,} {_NAMES[row['kind']]}"
             for row in of_all.to_dict("records")]  # fmt: skip
    what = "Median error" if column == "median_error_s" else "Inside the 80% interval"
    return f"{what}: {', '.join(parts) or 'no forecast is known yet'}."
