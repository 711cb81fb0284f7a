"""A row of a plan with changed values, played again with the seeds of the plan."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt
import pandas as pd

from orrery import _core
from orrery._html import Row, duration, energy, money, percent, spare_nodes, table
from orrery._scenario import _override_list

Array = npt.NDArray[np.float64]
#: A row by its number, or changes of a row: ``{"row": 1, "spares": 2}``.
Variant = Union[int, Mapping[str, Any]]

DAY_S = 86_400.0
#: Seeds of an answer that plays a row again and again: a slider's position takes less than 100 ms.
SEEDS = 200
#: Words for the parts of a run's time.
PARTS = {
    "compute": "kernels of the busiest stage",
    "inside": "exchanges inside layers",
    "exposed": "waiting for gradients and parameters",
    "pipeline": "waiting for other stages",
    "contention": "contention of exchanges, rounding",
    "checkpoints": "stalls of checkpoints",
    "lost_work": "work lost to failures",
    "detection": "detection of losses",
    "recovery": "restarts",
    "waiting": "waiting for hardware",
    "displaced": "longer steps on spare nodes",
}


class PlayedRow:
    """A row of a plan with changed values.

    Attributes
    ----------
    row : dict
        The row, as in the JSON of ``orrery plan``.
    ends_s : numpy.ndarray
        End of each seed in seconds, with failures and the error of the step price, shape (seeds,).
        Seed i has the same failures and the same error in each answer of a plan for equal GPUs.
    alone_s : numpy.ndarray
        The same with failures alone.
    """

    def __init__(self, text: str, ends: bytes, alone: bytes, step_factor: float = 1.0) -> None:
        self.row: Dict[str, Any] = json.loads(text)
        # The parts of the step are those of the price: a factor stretches each.
        for part in self.row["step_parts_s"]:
            self.row["step_parts_s"][part] *= step_factor
        self.ends_s: Array = np.frombuffer(ends)
        self.alone_s: Array = np.frombuffer(alone)

    @property
    def days(self) -> Dict[str, float]:
        """Quantiles of the end in days: ``p10``, ``p50`` and ``p90``."""
        return {key: _or_nan(value) / DAY_S for key, value in self.row["finish_s"].items()}

    def parts(self) -> pd.Series:
        """Where the time of the run goes, with failures alone.

        Returns
        -------
        pandas.Series
            Days by part; the sum is the median end by failures alone.
        """
        row, median = self.row, float(np.quantile(self.alone_s, 0.5))
        step = row["step_parts_s"]
        known = {key: step[f"{key}_s"] for key in ("compute", "inside", "exposed", "pipeline")}
        whole = row["simulated_step_s"] or row["step_time_s"]
        steps = row["steps"] * whole
        parts = {key: row["steps"] * value for key, value in known.items()}
        parts["contention"] = steps - sum(parts.values())
        lost = {key: value for key, value in row["time_shares"].items() if key != "steps"}
        # The shares are means over the seeds: they divide what the median run has beside its steps.
        beside = max(0.0, sum(lost.values()))
        scale = (median - steps) / beside if beside > 0 else 0.0
        parts.update({key: value * scale for key, value in lost.items()})
        return pd.Series(parts, dtype=float) / DAY_S

    def _repr_html_(self) -> str:
        row, finish = self.row, self.row["finish_s"]
        rows: List[Row] = [
            ("GPUs", f"{row['gpus']:,}, {spare_nodes(row['policies']['spare_nodes'])}"),
            ("step", duration(row["step_time_s"])),
            ("goodput", percent(row["goodput"])),
            ("end, P10", duration(finish["p10"])),
            ("end, P50", duration(finish["p50"])),
            ("end, P90", duration(finish["p90"])),
            ("cost, P50", money(row["cost_usd"])),
            ("energy", energy(row["energy_j"])),
            ("chance to meet the deadline", percent(row["deadline_met"])),
            ("chance to stay within the budget", percent(row["within_budget"])),
        ]
        return table("Row of a plan, played again", rows)

    def __repr__(self) -> str:
        days = self.days
        return (
            f"<orrery.PlayedRow: {self.row['gpus']} GPUs, {days['p10']:.1f} / {days['p50']:.1f} / "
            f"{days['p90']:.1f} days (P10/P50/P90)>"
        )


def play(
    study: _core.PlanStudy,
    row: int,
    spares: Optional[int],
    checkpoint_every: Optional[int],
    step_factor: float,
    overrides: Optional[Mapping[str, Any]],
    changes: Mapping[str, Any],
) -> PlayedRow:
    """Play a row of a plan again; see `orrery.Plan.play`.

    Parameters
    ----------
    study : _core.PlanStudy
        Of the plan.
    row, spares, checkpoint_every, step_factor, overrides, changes
        As for `orrery.Plan.play`.

    Returns
    -------
    PlayedRow
        The changed row.
    """
    written = _override_list(overrides, changes)
    factor = float(step_factor)
    return PlayedRow(*study.play(row - 1, written, spares, checkpoint_every, factor), factor)


def played_courses(
    study: _core.PlanStudy, row: int, times_s: Array
) -> Tuple[Array, Array]:
    """Committed steps of each seed at given instants.

    Parameters
    ----------
    study : _core.PlanStudy
        Of the plan.
    row : int
        From 1.
    times_s : numpy.ndarray
        Instants in seconds, shape (n,).

    Returns
    -------
    steps : numpy.ndarray
        Committed steps, shape (seeds, n). A rollback takes steps back.
    step_s : numpy.ndarray
        Step time of each seed in seconds, shape (seeds,).
    """
    steps, step_times = [], []
    for step_s, times, done in study.courses(row - 1, [], None, None, 1.0):
        at, count = np.frombuffer(times), np.frombuffer(done)
        # Equal instants (a loss) keep the later value, the rollback.
        steps.append(np.interp(times_s, at + 1e-6 * np.arange(len(at)), count))
        step_times.append(step_s)
    return np.array(steps), np.array(step_times)


def _or_nan(value: Optional[float]) -> float:
    return float("nan") if value is None else float(value)
