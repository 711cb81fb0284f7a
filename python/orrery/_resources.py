"""Questions of a planner about hardware and money: layouts, memory, operators, fronts, buying."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional

import numpy as np
import pandas as pd

from orrery._answer import Answer
from orrery._charts import Axis, Bars, Cells, Chart, Line, Mark, Rule
from orrery._played import DAY_S

if TYPE_CHECKING:
    from orrery._plan import Plan

_GIB = 2.0**30
_OWNERS = {
    "parameters": "parameters",
    "gradients": "gradients",
    "optimizer": "optimizer state",
    "activations": "activations",
    "logits": "logits",
    "gathered": "gathered layers",
    "buffers": "exchange buffers",
    "update": "copies for the optimizer",
    "reserved": "driver, libraries, fragments",
}
_MOST_STAGES = 16
_MONTH_S = 365.25 / 12 * DAY_S
_YEAR_S = 365.25 * DAY_S


def pareto(plan: "Plan") -> Answer:
    """Cost against date; see `orrery.Plan.pareto`.

    Parameters
    ----------
    plan : Plan
        The plan.

    Returns
    -------
    Answer
        All rows, and those that no other row beats in both.
    """
    rows = plan.table
    cost = pd.to_numeric(rows["cost_usd"])
    if cost.isna().all():
        raise ValueError("expected clusters with a price, found none: give "
                         "cluster__price__gpu_hour='3 USD/h'")  # fmt: skip
    table = pd.DataFrame({
        "row": rows["rank"], "cluster": rows["cluster"], "GPUs": rows["gpus"],
        "days P10": rows["finish_s.p10"] / DAY_S, "days P50": rows["finish_s.p50"] / DAY_S,
        "days P90": rows["finish_s.p90"] / DAY_S, "million USD": cost / 1e6,
    })  # fmt: skip
    days, money = table["days P50"].to_numpy(), table["million USD"].to_numpy()
    front = [
        not any((days <= d) & (money <= m) & ((days < d) | (money < m)))
        for d, m in zip(days, money)
    ]
    table["on the front"] = front
    best = table[table["on the front"]].sort_values("days P50")
    first, last = best.iloc[0], best.iloc[-1]
    text = (f"{len(best)} of {len(table)} rows are on the front: from {first['days P50']:.1f} days "
            f"for {1e6 * first['million USD']:,.0f} USD ({first['GPUs']} GPUs) to "
            f"{last['days P50']:.1f} days for {1e6 * last['million USD']:,.0f} USD "
            f"({last['GPUs']} GPUs).")  # fmt: skip
    marks: List[Mark] = []
    for style, (name, group) in enumerate(table.groupby("cluster", sort=False)):
        marks.append(Line(list(group["days P50"]), list(group["million USD"]), str(name), style,
                          joined=False))  # fmt: skip
    marks.append(Line(list(best["days P50"]), list(best["million USD"]), "front", 6,
                      labels=[f"{gpus} GPUs" for gpus in best["GPUs"]]))  # fmt: skip
    whole = plan.to_dict()
    notes = ["Medians; each row has its interval."]
    for key, unit, name, values, vertical in (
        ("deadline_s", DAY_S, "deadline", days, True), ("budget_usd", 1e6, "budget", money, False)
    ):  # fmt: skip
        goal = (whole[key] or np.nan) / unit
        # A goal far away would press the rows together.
        if np.nanmin(values) / 1.2 <= goal <= 1.2 * np.nanmax(values):
            marks.append(Rule(goal, name, vertical=vertical, style=1 if vertical else 3))
        elif goal > 0:
            notes.append(f"The {name} ({goal:.3g} {'days' if vertical else 'million USD'}) is "
                         "outside of the plot.")  # fmt: skip
    chart = Chart("Cost against date", Axis("median end after the first step (days)"),
                  Axis("cost of all reserved GPUs (million USD)"), marks)  # fmt: skip
    return Answer("Cost against date", text, table, chart, notes)


def layout_map(plan: "Plan", row: int, x: str, y: str) -> Answer:
    """Step rate of layouts; see `orrery.Plan.layout_map`.

    Parameters
    ----------
    plan : Plan
        The plan.
    row, x, y
        As for `orrery.Plan.layout_map`.

    Returns
    -------
    Answer
        A heat map.
    """
    known = ("tensor", "context", "pipeline", "data", "expert", "chunks", "micro_batch")
    if x not in known or y not in known or x == y:
        raise ValueError(f"x and y: expected two of {', '.join(known)}, found {x!r} and {y!r}")
    found = plan._layouts_of(row)
    cells = [_cell(group) for _, group in found.groupby([y, x], sort=True)]
    keys = [key for key, _ in found.groupby([y, x], sort=True)]
    table = pd.DataFrame(cells)
    table.insert(0, x, [key[1] for key in keys])
    table.insert(0, y, [key[0] for key in keys])
    xs, ys = sorted(found[x].unique()), sorted(found[y].unique())
    at = {(a, b): cell for (a, b), cell in zip(keys, cells)}
    values = [[_value(at.get((b, a))) for a in xs] for b in ys]
    texts = [[_cell_text(at.get((b, a))) for a in xs] for b in ys]
    full = int((table["status"] == "out-of-memory").sum())
    best = table.loc[table["tokens/s"].astype(float).idxmax()]
    text = (f"{y} {best[y]} x {x} {best[x]} is the fastest with {best['tokens/s']:,.0f} tokens/s; "
            f"{full} of {len(table)} cells do not fit in the memory of a GPU.")  # fmt: skip
    chart = Chart(f"Fastest layout by {y} and {x}, row {row}",
                  Axis(f"{x} (ranks)" if x != "micro_batch" else "micro-batch (sequences)",
                       ticks=[(float(i), str(v)) for i, v in enumerate(xs)]),
                  Axis(f"{y} (ranks)" if y != "micro_batch" else "micro-batch (sequences)",
                       ticks=[(float(i), str(v)) for i, v in enumerate(ys)]),
                  [Cells(values, texts, "tokens/s")], height=0.5 * len(ys) + 1.8)  # fmt: skip
    notes = ["Each cell is its fastest layout over all other choices; OOM: the smallest need of a "
             "cell in which no layout fits; the table has the reasons."]  # fmt: skip
    return Answer("Layouts", text, table, chart, notes)


def _cell(group: pd.DataFrame) -> Dict[str, Any]:
    fitting = group[group["status"] == "ok"]
    if len(fitting):
        best = fitting.loc[fitting["iter_time_s"].idxmin()]
    else:
        full = group[group["status"] == "out-of-memory"]
        best = full.loc[full["memory_bytes"].idxmin()] if len(full) else group.iloc[0]
    memory = best["memory_bytes"]
    return {
        "status": best["status"],
        "tokens/s": best["tokens_per_s"],
        "step (s)": best["iter_time_s"],
        "memory (GiB)": None if pd.isna(memory) else memory / _GIB,
        "reason": best["reason"],
    }


def _value(cell: Optional[Dict[str, Any]]) -> Optional[float]:
    return float(cell["tokens/s"]) if cell and cell["status"] == "ok" else None


def _cell_text(cell: Optional[Dict[str, Any]]) -> str:
    if cell is None:
        return ""
    if cell["status"] == "ok":
        return f"{cell['step (s)']:.3g} s"
    if cell["status"] == "out-of-memory":
        return f"OOM\n{cell['memory (GiB)']:.0f} GiB"
    return "no"


def memory(plan: "Plan", row: int) -> Answer:
    """Memory by owner; see `orrery.Plan.memory`.

    Parameters
    ----------
    plan : Plan
        The plan.
    row
        As for `orrery.Plan.memory`.

    Returns
    -------
    Answer
        Bytes by owner and stage.
    """
    table = pd.DataFrame(plan._study.memory(row - 1)).rename(columns=_OWNERS) / _GIB
    table.index = pd.Index(range(len(table)), name="pipeline stage")
    name, _, room = plan._study.gpu(row - 1)
    total = table.sum(axis=1)
    stage = int(total.idxmax())
    largest = str(table.loc[stage].idxmax())
    text = (f"Stage {stage} is the fullest: {total[stage]:.1f} of {room / _GIB:.1f} GiB of each "
            f"{name}, of which {largest} take {table.loc[stage, largest]:.1f} GiB.")  # fmt: skip
    # Of many stages the first, the last and those between at equal distances.
    places = np.unique(np.linspace(0, len(table) - 1, min(len(table), _MOST_STAGES)).astype(int))
    shown = table.iloc[places[::-1]]
    left = np.zeros(len(shown))
    marks: List[Mark] = []
    for style, owner in enumerate(table.columns):
        widths = shown[owner].to_numpy()
        if widths.max() > 0:
            marks.append(Bars(range(len(shown)), list(left), list(left + widths), owner, style))
        left = left + widths
    marks.append(Rule(room / _GIB, "memory of the GPU", vertical=True, style=1))
    chart = Chart(f"Memory of a GPU by owner, row {row}", Axis("memory (GiB)", from_zero=True),
                  Axis("pipeline stage", ticks=[(float(i), str(s)) for i, s in
                                                enumerate(shown.index)]),
                  marks, height=max(3.2, 0.34 * len(shown) + 2))  # fmt: skip
    table.columns = pd.Index([f"{owner} (GiB)" for owner in table.columns])
    notes = ["docs/accuracy.md has the errors of predicted memory."]
    return Answer("Memory by owner", text, table, chart, notes)


def roofline(plan: "Plan", row: int) -> Answer:
    """Roofline by operator; see `orrery.Plan.roofline`.

    Parameters
    ----------
    plan : Plan
        The plan.
    row
        As for `orrery.Plan.roofline`.

    Returns
    -------
    Answer
        Intensity and rate of each operator.
    """
    columns = ["operator", "FLOP", "bytes", "seconds", "kernels", "peak (FLOP/s)"]
    table = pd.DataFrame(plan._study.operators(row - 1), columns=columns)
    name, bandwidth, _ = plan._study.gpu(row - 1)
    table["share of the kernels' time"] = table["seconds"] / table["seconds"].sum()
    table["intensity (FLOP/byte)"] = table["FLOP"] / table["bytes"]
    table["rate (TFLOP/s)"] = table["FLOP"] / table["seconds"] / 1e12
    table["bandwidth (TB/s)"] = table["bytes"] / table["seconds"] / 1e12
    peak = float(table["peak (FLOP/s)"].max())
    computing = table[(table["FLOP"] > 0) & (table["bytes"] > 0)]
    first = table.iloc[0]
    share = table["share of the kernels' time"]
    moving = float(share[table["FLOP"] == 0].sum())
    text = (f"{first['operator']} takes {first['seconds']:.3g} s of a step "
            f"({share.iloc[0]:.0%} of the kernels' time) at "
            f"{first['rate (TFLOP/s)']:.0f} of {peak / 1e12:.0f} TFLOP/s; operators without "
            f"arithmetic take {moving:.0%}.")  # fmt: skip
    low = min(peak / bandwidth, float(computing["intensity (FLOP/byte)"].min())) / 4
    high = 3 * max(peak / bandwidth, float(computing["intensity (FLOP/byte)"].max()))
    x = np.geomspace(low, high, 60)
    marks: List[Mark] = [
        Line(list(x), list(np.minimum(peak, x * bandwidth) / 1e12), f"roof of {name}", 6)
    ]
    marks += _points(computing)
    chart = Chart(f"Roofline by operator, row {row}", Axis("intensity (FLOP/byte)", log=True),
                  Axis("rate (TFLOP/s)", log=True), marks, height=4.6)  # fmt: skip
    notes = ["A marker's area is the operator's share of the time; dgrad and wgrad are the "
             "gradients of data and weights. Times are modelled (docs/accuracy.md)."]  # fmt: skip
    return Answer("Roofline", text, table, chart, notes)


#: Operators with a name of their own in a roofline.
_NAMED = 5


def _points(computing: pd.DataFrame) -> List[Mark]:
    share = computing["share of the kernels' time"]

    def points(part: pd.DataFrame, name: str, style: int) -> Line:
        return Line(list(part["intensity (FLOP/byte)"]), list(part["rate (TFLOP/s)"]), name, style,
                    joined=False, sizes=list(20 + 900 * share[part.index]))  # fmt: skip

    marks: List[Mark] = [
        points(computing.iloc[[i]], f"{computing['operator'].iloc[i]} {share.iloc[i]:.0%}", i)
        for i in range(min(_NAMED, len(computing)))
    ]
    rest = computing.iloc[_NAMED:]
    if len(rest):
        marks.append(points(rest, f"{len(rest)} others {share[rest.index].sum():.0%}", 7))
    return marks


def rent_or_buy(
    plan: "Plan", row: int, purchase: float, rent: Optional[float], electricity: float,
    upkeep: float, years: float,
) -> Answer:  # fmt: skip
    """Rent or buy; see `orrery.Plan.rent_or_buy`.

    Parameters
    ----------
    plan : Plan
        The plan.
    row, purchase, rent, electricity, upkeep, years
        As for `orrery.Plan.rent_or_buy`.

    Returns
    -------
    Answer
        Costs of both by the months of use.
    """
    found = plan.row(row)
    finish, gpus = found["finish_s"]["p50"], found["gpus"]
    if rent is None:
        if found["cost_usd"] is None:
            raise ValueError("rent: expected USD for a GPU and hour, as the cluster has no price")
        rent = found["cost_usd"] / gpus / finish * 3600
    kwh_s = found["energy_j"] / 3.6e6 / finish  # kilowatt-hours in a second
    months = np.linspace(0, 12 * years, 97)
    used = months * _MONTH_S
    renting = rent * gpus * used / 3600
    owning = purchase * gpus + (upkeep * purchase * gpus / _YEAR_S + electricity * kwh_s) * used
    rate = rent * gpus / 3600 - upkeep * purchase * gpus / _YEAR_S - electricity * kwh_s
    even_s = purchase * gpus / rate if rate > 0 else float("inf")
    own_run = finish * (purchase * gpus * (1 / (years * _YEAR_S) + upkeep / _YEAR_S)
                        + electricity * kwh_s)  # fmt: skip
    rows = [("this training, rented", rent * gpus * finish / 3600),
            ("this training, owned: its share of the lifetime", own_run),
            ("this training, bought for it alone", purchase * gpus + finish * (
                upkeep * purchase * gpus / _YEAR_S + electricity * kwh_s))]  # fmt: skip
    table = pd.DataFrame(rows, columns=["way", "USD"])
    table["USD for a GPU and hour"] = table["USD"] / gpus / finish * 3600
    life = years * _YEAR_S
    if even_s <= life:
        text = (f"Buying {gpus} GPUs pays from {even_s / _MONTH_S:.1f} months of use on, "
                f"{even_s / life:.0%} of {years:g} years; this training uses them "
                f"{finish / _MONTH_S:.1f} months.")  # fmt: skip
    else:
        text = (f"Buying {gpus} GPUs does not pay within {years:g} years at "
                f"{rent:.2f} USD for a GPU and hour.")  # fmt: skip
    marks: List[Mark] = [Line(list(months), list(renting / 1e6), "rent", 0),
                         Line(list(months), list(owning / 1e6), "buy", 1),
                         Rule(finish / _MONTH_S, "end of this training", vertical=True, style=2)]
    if even_s <= life:
        marks.append(Rule(even_s / _MONTH_S, "buying pays from here", vertical=True, style=3))
    chart = Chart(f"Rent or buy {gpus} GPUs", Axis("time of use (months)", from_zero=True),
                  Axis("paid until then (million USD)", from_zero=True), marks)  # fmt: skip
    notes = [f"Purchase {purchase:,.0f} USD a GPU with its part of node and network, upkeep "
             f"{upkeep:.0%} of it a year, electricity {electricity:g} USD/kWh, rent {rent:.2f} USD "
             "for a GPU and hour; no interest, no value at the end.",
             "Months of use: an idle owned GPU costs upkeep too, which is not counted."]
    return Answer("Rent or buy", text, table, chart, notes)
