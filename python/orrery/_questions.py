"""Questions of a planner about one plan: comparison, sensitivity, spares, dates."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import pandas as pd

from orrery._answer import Answer
from orrery._charts import Axis, Band, Bars, Chart, Line, Mark, Rule
from orrery._html import number, spare_nodes
from orrery._played import DAY_S, PARTS, SEEDS, Array, PlayedRow, Variant, played_courses

if TYPE_CHECKING:
    from orrery._plan import Plan

_COMMON = (
    "Both meet the same failures, seed by seed, where they reserve as many GPUs of one cluster; "
    "the error of the step price is common to both."
)
_INDEPENDENT = "The errors of the two step prices are independent."
#: Bands of a fan: quantiles, and the strength of their colour.
_FAN = ((0.05, 0.95, 0.18), (0.1, 0.9, 0.25), (0.25, 0.75, 0.35))


def played(plan: "Plan", variant: Variant) -> PlayedRow:
    """Play a variant.

    Parameters
    ----------
    plan : Plan
        The plan.
    variant : int or mapping
        A row, or the arguments of `orrery.Plan.play`.

    Returns
    -------
    PlayedRow
        The row of the variant.
    """
    return plan.play(**dict(variant)) if not isinstance(variant, int) else plan.play(variant)


def name_of(variant: Variant) -> str:
    """Short name of a variant.

    Parameters
    ----------
    variant : int or mapping
        As for `played`.

    Returns
    -------
    str
        ``"row 1"``, ``"row 1, spares 2"``.
    """
    if isinstance(variant, int):
        return f"row {variant}"
    rest = {key: value for key, value in variant.items() if key != "row"}
    if "overrides" in rest:
        rest.update(rest.pop("overrides") or {})
    said = ", ".join(f"{key.replace('__', '.')} {value}" for key, value in rest.items())
    return f"row {variant.get('row', 1)}" + (f", {said}" if said else "")


def compare(plan: "Plan", a: Variant, b: Variant, errors: str) -> Answer:
    """Difference of two variants; see `orrery.Plan.compare`.

    Parameters
    ----------
    plan : Plan
        The plan.
    a, b, errors
        As for `orrery.Plan.compare`.

    Returns
    -------
    Answer
        Difference, interval and cause.
    """
    if errors not in ("common", "independent"):
        raise ValueError(f"errors: expected 'common' or 'independent', found {errors!r}")
    first, second = played(plan, a), played(plan, b)
    names = (name_of(a), name_of(b))
    ends = second.ends_s
    if errors == "independent":
        ends = np.roll(ends, len(ends) // 2)
    with np.errstate(invalid="ignore"):  # a run that never ends minus another one
        later = (ends - first.ends_s) / DAY_S
    low, middle, high = np.nanquantile(later, [0.1, 0.5, 0.9])
    sooner = float(np.nanmean(later > 0))
    parts = pd.DataFrame({names[0]: first.parts(), names[1]: second.parts()})
    parts["difference (days)"] = parts[names[1]] - parts[names[0]]
    parts.index = pd.Index([PARTS[key] for key in parts.index], name="part")
    largest = parts["difference (days)"].abs().idxmax()
    share = parts.loc[largest, "difference (days)"]
    cost = _cost_words(first, second, names)
    text = (
        f"{names[0]} ends {abs(middle):.2f} days {'earlier' if middle >= 0 else 'later'} than "
        f"{names[1]} in the median seed (80% of the seeds: {low:+.2f} to {high:+.2f} days), and "
        f"is earlier in {100 * sooner:.0f}% of them{cost}. The largest cause is "
        f"{largest}: {share:+.2f} days."
    )
    table = parts.rename(columns={name: f"{name} (days)" for name in names})
    difference = parts["difference (days)"]
    # Parts that cannot be seen beside the largest one stand in the table only; the first on top.
    shown = difference[difference.abs() > 0.01 * difference.abs().max()].iloc[::-1]
    chart = Chart(
        f"Why {names[0]} and {names[1]} differ",
        Axis(f"additional time of {names[1]} (days)"),
        Axis("", ticks=[(-1, "sum"), *enumerate(shown.index)]),
        _waterfall(shown, float(difference.sum())),
        height=0.34 * len(shown) + 1.9,
    )
    notes = [_COMMON if errors == "common" else _INDEPENDENT,
             "Parts are those of the median run with failures alone."]  # fmt: skip
    return Answer(f"{names[0]} against {names[1]}", text, table, chart, notes)


def _cost_words(first: PlayedRow, second: PlayedRow, names: Sequence[str]) -> str:
    a, b = first.row["cost_usd"], second.row["cost_usd"]
    if a is None or b is None:
        return ""
    return f"; {names[0]} costs {abs(b - a):,.0f} USD {'less' if b >= a else 'more'}"


def _waterfall(differences: "pd.Series", total: float) -> List[Mark]:
    starts = differences.iloc[::-1].cumsum().iloc[::-1] - differences
    ends = starts + differences
    marks: List[Mark] = []
    for style, name, chosen in ((1, "takes more", differences > 0),
                                (0, "takes less", differences < 0)):  # fmt: skip
        places = [i for i, yes in enumerate(chosen) if yes]
        if not places:
            continue
        marks.append(Bars(places, list(starts.iloc[places]), list(ends.iloc[places]), name, style,
                          [f"{value:+.2f}" for value in differences.iloc[places]]))  # fmt: skip
    marks.append(Bars([-1], [0], [total], "", 6, [f"{total:+.2f}"]))
    marks.append(Rule(0, "", vertical=True, style=6))
    return marks


def sensitivity(plan: "Plan", row: int, measure: str, seeds: Optional[int]) -> Answer:
    """Effect of each input on the end or the cost; see `orrery.Plan.sensitivity`.

    Parameters
    ----------
    plan : Plan
        The plan.
    row, measure, seeds
        As for `orrery.Plan.sensitivity`.

    Returns
    -------
    Answer
        A tornado.
    """
    if measure not in ("days", "usd"):
        raise ValueError(f"measure: expected 'days' or 'usd', found {measure!r}")
    seeds = min(SEEDS, plan.seeds) if seeds is None else seeds
    base = _measured(plan.play(row, seeds=seeds), measure)
    rows = []
    for name, low, high in _inputs(plan, row):
        values = [_measured(plan.play(row, seeds=seeds, **change), measure)
                  for _, change in (low, high)]  # fmt: skip
        reached = [base, *values]  # both values may move the end the same way
        rows.append((name, low[0], values[0], high[0], values[1], max(reached) - min(reached)))
    unit = "days" if measure == "days" else "million USD"
    columns = ["input", "low", f"{unit} at low", "high", f"{unit} at high", f"swing ({unit})"]
    table = pd.DataFrame(rows, columns=columns).sort_values(columns[-1], ascending=False)
    table = table.reset_index(drop=True)
    first = table.iloc[0]
    text = (
        f"{first['input']} matters most: {number(first[columns[2]])} to "
        f"{number(first[columns[4]])} {unit} between {first['low']} and {first['high']}; as "
        f"planned {number(base)} {unit}."
    )
    shown = table.iloc[::-1]
    marks: List[Mark] = [
        Bars(range(len(shown)), [base] * len(shown), list(shown[columns[2]]), "low value", 0,
             list(shown["low"]), side="left"),
        Bars(range(len(shown)), [base] * len(shown), list(shown[columns[4]]), "high value", 4,
             list(shown["high"]), side="right"),
        Rule(base, "plan", vertical=True, style=6),
    ]  # fmt: skip
    label = "median end by failures alone (days)" if measure == "days" else "cost (million USD)"
    chart = Chart(f"What moves the {'date' if measure == 'days' else 'cost'} of row {row}",
                  Axis(label), Axis("", ticks=list(enumerate(shown["input"]))), marks,
                  height=0.36 * len(shown) + 1.7)  # fmt: skip
    notes = [f"One input at a time, the others as planned, with the failures of {seeds} seeds.",
             "The step price moves between P10 and P90 of its prediction."]  # fmt: skip
    return Answer("Sensitivity", text, table, chart, notes)


def _measured(found: PlayedRow, measure: str) -> float:
    median = float(np.quantile(found.alone_s, 0.5))
    if measure == "days":
        return median / DAY_S
    finish, cost = found.row["finish_s"]["p50"], found.row["cost_usd"]
    return float("nan") if cost is None else cost * median / finish / 1e6


_Value = Tuple[str, Dict[str, Any]]


def _inputs(plan: "Plan", row: int) -> List[Tuple[str, _Value, _Value]]:
    best = plan.row(row)
    step, interval = best["step_time_s"], best["step_interval_s"]
    values = plan.scenario(row).to_dict(units=False)
    inputs: List[Tuple[str, _Value, _Value]] = []

    low, high = ((f"{interval[q]:.3g} s", {"step_factor": interval[q] / step})
                 for q in ("p10", "p90"))  # fmt: skip
    inputs.append(("step price", low, high))
    failures = values.get("failures") or {}
    scale = failures.get("scale") or 0
    if scale > 0:
        low, high = ((f"x {scale * factor:g}", {"overrides": {"failures.scale": scale * factor}})
                     for factor in (0.5, 2))  # fmt: skip
        inputs.append(("failure rates", low, high))
    survival = values["survival"]
    checkpoints = values["checkpoints"]
    times = [("repair of hardware", "failures.repair", failures.get("repair")),
             ("restart", "survival.restart", survival["restart"]),
             ("detection", "survival.detection", survival["detection"]),
             ("regrouping", "survival.regroup", survival["regroup"]),
             ("stall of a checkpoint", "checkpoints.stall", checkpoints["stall"]),
             ("writing of a checkpoint", "checkpoints.write", checkpoints["write"])]
    for name, key, nanos in times:
        if nanos:
            low, high = (_time_change(key, nanos * factor / 1e9) for factor in (0.5, 2))
            inputs.append((name, low, high))
    every = best["policies"]["checkpoint_every_steps"]
    low, high = ((f"{max(1, round(every * f))} steps",
                  {"checkpoint_every": max(1, round(every * f))}) for f in (0.5, 2))  # fmt: skip
    inputs.append(("checkpoint interval", low, high))
    spares = best["policies"]["spare_nodes"]
    low, high = ((f"{count}", {"spares": count}) for count in (max(0, spares - 1), spares + 1))
    inputs.append(("spare nodes", low, high))
    return inputs


def _time_change(key: str, seconds: float) -> _Value:
    return _time_words(seconds), {"overrides": {key: f"{seconds} s"}}


def _time_words(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def spares(plan: "Plan", goodput: float, row: int, confidence: float, most: int) -> Answer:
    """Spare nodes for a goodput; see `orrery.Plan.spares`.

    Parameters
    ----------
    plan : Plan
        The plan.
    goodput, row, confidence, most
        As for `orrery.Plan.spares`.

    Returns
    -------
    Answer
        Goodput by the number of spare nodes.
    """
    if not 0 < goodput < 1 or not 0 < confidence < 1:
        raise ValueError("goodput and confidence: expected shares between 0 and 1, found "
                         f"{goodput!r} and {confidence!r}")  # fmt: skip
    rows = []
    for count in range(most + 1):
        found = plan.play(row, spares=count)
        step = found.row["simulated_step_s"] or found.row["step_time_s"]
        reached = found.row["steps"] * step / found.alone_s
        low, middle, high = np.quantile(reached, [0.1, 0.5, 0.9])
        met = float(np.mean(reached >= goodput))
        rows.append((count, found.row["gpus"], low, middle, high, met,
                     found.days["p50"], found.row["cost_usd"]))  # fmt: skip
    table = pd.DataFrame(rows, columns=["spare nodes", "GPUs", "goodput P10", "goodput P50",
                                        "goodput P90", "chance", "days P50", "USD P50"])
    enough = table[table["chance"] >= confidence]
    if enough.empty:
        text = (f"No number of spare nodes up to {most} reaches a goodput of {goodput:.1%} with "
                f"{confidence:.0%}; {table['goodput P50'].max():.2%} is the best median.")
    else:
        least = enough.iloc[0]
        enough_nodes = int(least["spare nodes"])
        text = (f"{spare_nodes(enough_nodes)} reach{'es' if enough_nodes == 1 else ''} a goodput "
                f"of {goodput:.1%} with {least['chance']:.0%} of the seeds.")  # fmt: skip
    x = list(table["spare nodes"])
    marks: List[Mark] = [
        Band(x, 100 * table["goodput P10"], 100 * table["goodput P90"], "P10 to P90", 0),
        Line(x, 100 * table["goodput P50"], "median", 0, marked=True),
        Rule(100 * goodput, f"target {goodput:.1%}"),
    ]
    chart = Chart(f"Goodput of row {row} by spare nodes",
                  Axis("spare nodes", ticks=[(float(i), str(i)) for i in x]), Axis("goodput (%)"),
                  marks)  # fmt: skip
    notes = ["Goodput: time of the steps over the time of the run, by failures alone."]
    return Answer("Spares", text, table, chart, notes)


def _days_of(plan: "Plan", row: int, count: int) -> Array:
    last = plan.row(row)["finish_s"]["p90"] or plan.row(row)["finish_s"]["p50"]
    if last is None:
        raise ValueError(f"row {row}: expected a run that ends, found one that never does")
    return np.linspace(0, 1.12 * last / DAY_S, count)


def fan(plan: "Plan", row: int, start: Optional[str]) -> Answer:
    """Progress over time; see `orrery.Plan.fan`.

    Parameters
    ----------
    plan : Plan
        The plan.
    row, start
        As for `orrery.Plan.fan`.

    Returns
    -------
    Answer
        Quantiles of the trained tokens by day.
    """
    days = _days_of(plan, row, 121)
    steps, _ = played_courses(plan._study, row, days * DAY_S)
    found = plan.row(row)
    whole = plan.to_dict()
    tokens = steps / found["steps"] * whole["tokens"] / 1e9
    quantiles = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
    values = np.quantile(tokens, quantiles, axis=0)
    table = pd.DataFrame({"day": days, **{f"billion tokens P{100 * q:g}": v
                                          for q, v in zip(quantiles, values)}})  # fmt: skip
    if start is not None:
        first = datetime.date.fromisoformat(start)
        table.insert(1, "date", [first + datetime.timedelta(days=float(day)) for day in days])
    by = dict(zip(quantiles, values))
    marks: List[Mark] = [Band(days, by[low], by[high], f"P{100 * low:g} to P{100 * high:g}", 0, s)
                         for low, high, s in _FAN]  # fmt: skip
    marks.append(Line(days, by[0.5], "median", 0))
    marks.append(Rule(whole["tokens"] / 1e9, "all tokens", style=2))
    finish = {key: (value or np.nan) / DAY_S for key, value in found["finish_s"].items()}
    text = (f"Row {row} has trained all tokens after {finish['p10']:.1f} / {finish['p50']:.1f} / "
            f"{finish['p90']:.1f} days (P10/P50/P90).")  # fmt: skip
    if whole["deadline_s"]:
        marks.append(Rule(whole["deadline_s"] / DAY_S, "deadline", vertical=True, style=1))
        text += f" The deadline is day {whole['deadline_s'] / DAY_S:.0f}."
    chart = Chart(f"Progress of row {row}",
                  Axis("time after the first step (days)", from_zero=True),
                  Axis("trained tokens (billions)", from_zero=True), marks)  # fmt: skip
    return Answer("Fan chart", text, table, chart,
                  ["Failures and the error of the step price together."])  # fmt: skip


def goodput_over_time(plan: "Plan", row: int, window_days: float) -> Answer:
    """Goodput of each window of time; see `orrery.Plan.goodput_over_time`.

    Parameters
    ----------
    plan : Plan
        The plan.
    row, window_days
        As for `orrery.Plan.goodput_over_time`.

    Returns
    -------
    Answer
        Quantiles of the goodput by window.
    """
    if not window_days > 0:
        raise ValueError(f"window_days: expected a number above 0, found {window_days!r}")
    end = plan.row(row)["finish_failures_only_s"]["p10"]
    count = max(1, min(400, int((end or 0) / DAY_S / window_days)))
    edges: Array = np.arange(count + 1, dtype=np.float64) * window_days
    steps, step_s = played_courses(plan._study, row, edges * DAY_S)
    share = np.diff(steps, axis=1) * step_s[:, None] / (window_days * DAY_S)
    # Fast seeds end before slow ones: their last windows are no part of the run.
    running = steps[:, 1:] < plan.row(row)["steps"]
    share = np.where(running, share, np.nan)
    with np.errstate(all="ignore"):
        values = np.nanquantile(share, [0.1, 0.5, 0.9], axis=0)
    middle = edges[:-1] + window_days / 2
    table = pd.DataFrame({"day": middle, "goodput P10": values[0], "goodput P50": values[1],
                          "goodput P90": values[2], "goodput of seed 1": share[0]})  # fmt: skip
    text = (f"Windows of {window_days:g} days have a median goodput of "
            f"{float(np.nanmedian(share)):.1%}; one in ten has less than "
            f"{float(np.nanquantile(share, 0.1)):.1%}.")  # fmt: skip
    marks: List[Mark] = [
        Band(middle, 100 * values[0], 100 * values[2], "P10 to P90 of the seeds", 0),
        Line(middle, 100 * values[1], "median", 0),
        Line(middle, 100 * share[0], "seed 1", 1),
    ]
    chart = Chart(f"Goodput of row {row} over time", Axis("time after the first step (days)"),
                  Axis("goodput of the window (%)"), marks)  # fmt: skip
    notes = ["Committed steps x step time over the window; a rollback takes steps back."]
    return Answer("Goodput over time", text, table, chart, notes)
