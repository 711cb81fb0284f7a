"""Paired comparison of policies over seeds."""

from __future__ import annotations

import math
import operator
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np
import pandas as pd

from orrery._policy import Policy, PolicyLike
from orrery._report import Report
from orrery._scenario import ScenarioLike, load
from orrery._sweep import _policies_of, _run_all

Metric = Union[str, Callable[[Report], float]]
#: A policy, or a class or function that makes one for each run.
MadePolicy = Union[PolicyLike, Callable[[], Policy]]


def compare_policies(
    scenario: ScenarioLike,
    policies: Mapping[str, Union[MadePolicy, Sequence[MadePolicy]]],
    seeds: Union[int, Sequence[int]] = 20,
    metric: Metric = "goodput",
    workers: Optional[int] = None,
    progress: bool = False,
    detail: str = "folded",
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Compare policies over seeds, each against the first on equal seeds.

    Every policy is simulated once with each seed. Runs with one seed meet the same faults and the
    same noise, so their difference has less spread than the difference of means of independent
    runs. For the n differences d of a policy from the first one, with mean m and standard deviation
    s, the interval is m +- t(n - 1) s / sqrt(n), where t is the quantile of Student's distribution.
    It holds for this scenario only, and assumes many seeds or differences that are about normally
    distributed.

    Parameters
    ----------
    scenario : path, str, mapping or Scenario
        As for `orrery.load`.
    policies : mapping
        Name to policy, of any form that `orrery.simulate` takes; ``None`` for the scenario's own.
        Instead of an `orrery.Policy`, whose state would be shared, its class or a function that
        makes one for each run; a list for several policies together. The first one is the
        reference.
    seeds : int or sequence of int
        How many, from 1 on; or which.
    metric : str or callable
        Key of the report, such as ``"goodput"``, ``"step_time_s"`` or ``"elapsed_s"``; or a
        function of the report.
    workers, progress, detail
        As for `orrery.sweep`.
    confidence : float
        Of the interval.

    Returns
    -------
    pandas.DataFrame
        One row for each policy, indexed by name: ``seeds``, ``mean``, ``std`` (of the metric),
        ``difference`` (mean of the paired differences from the first policy), ``low`` and ``high``
        (its confidence interval), ``higher`` (share of the seeds with a higher metric).
        ``attrs["runs"]`` has the metric of every run, one row a seed.

    Raises
    ------
    InputError
        If a run cannot be.
    ValueError
        For fewer than two policies or seeds, or a metric that a run does not have.
    """
    _check(policies, confidence)
    chosen = _seeds(seeds)
    points = [{"policy": name, "seed": seed} for name in policies for seed in chosen]
    base = load(scenario)
    made = [_policies_of(_key(policies[str(point["policy"])])) for point in points]
    loaded = [load(base, {"run.seed": point["seed"]}) for point in points]
    reports = _run_all(points, loaded, made, _workers(workers), progress, detail, True)
    values = [_value(report, metric, point) for report, point in zip(reports, points)]
    by_policy = np.array(values, dtype=float).reshape(len(policies), len(chosen))
    runs = pd.DataFrame(by_policy.T, pd.Index(chosen, name="seed"), list(policies))
    table = pd.DataFrame([_row(runs, name, confidence) for name in runs], index=list(runs))
    table.index.name = "policy"
    table.attrs["runs"] = runs
    return table


def _check(policies: Mapping[str, Any], confidence: float) -> None:
    if len(policies) < 2:
        raise ValueError("a comparison has at least two policies; the first is the reference")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is between 0 and 1, not {confidence!r}")


def _seeds(seeds: Union[int, Sequence[int]]) -> List[int]:
    chosen = (
        [operator.index(each) for each in seeds]
        if isinstance(seeds, (Sequence, np.ndarray, range))
        else list(range(1, operator.index(seeds) + 1))
    )
    if len(set(chosen)) != len(chosen) or len(chosen) < 2:
        raise ValueError(f"seeds are at least two different ones, not {seeds!r}")
    return chosen


def _workers(workers: Optional[int]) -> int:
    if workers is not None and workers < 1:
        raise ValueError("workers is at least 1")
    return workers or os.cpu_count() or 1


def _key(policy: Any) -> Dict[str, Any]:
    return {"policies" if isinstance(policy, (list, tuple)) else "policy": policy}


def _value(report: Any, metric: Metric, point: Mapping[str, Any]) -> float:
    if callable(metric):
        return float(metric(report))
    value = report.to_dict().get(metric)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(
            f"expected a number as {metric!r} of {point['policy']}, seed {point['seed']}, found "
            f"{value!r}: choose another metric"
        )
    return float(value)


def _row(runs: pd.DataFrame, name: str, confidence: float) -> Dict[str, float]:
    values = runs[name].to_numpy()
    differences = values - runs.iloc[:, 0].to_numpy()
    count, mean = len(values), float(differences.mean())
    half = float(differences.std(ddof=1)) / math.sqrt(count)
    half *= _student(0.5 + confidence / 2, count - 1)
    return {
        "seeds": count,
        "mean": float(values.mean()),
        "std": float(values.std(ddof=1)),
        "difference": mean,
        "low": mean - half,
        "high": mean + half,
        "higher": float((differences > 0).mean()),
    }


def _student(share: float, freedom: int) -> float:
    """Quantile of Student's distribution, for a share above one half."""
    low, high = 0.0, 1.0
    while _student_share(high, freedom) < share:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if _student_share(middle, freedom) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _student_share(t: float, freedom: int) -> float:
    """Distribution function for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    term, total = (cosine, 0.0) if freedom % 2 else (1.0, 0.0)
    for k in range(freedom % 2 + 1, freedom, 2):
        total += term
        term *= cosine * cosine * k / (k + 1)
    total *= math.sin(angle)
    inside = 2 / math.pi * (angle + total) if freedom % 2 else total
    return (1 + inside) / 2
