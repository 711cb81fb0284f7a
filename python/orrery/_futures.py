"""Many ways in which one run may go on."""

from __future__ import annotations

import operator
import os
from concurrent.futures import Executor
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import pandas as pd

from orrery import _core
from orrery._errors import Error
from orrery._policy import Listed, Policy, PolicyLike, has_objects, listed
from orrery._progress import tqdm
from orrery._report import Report, scalars
from orrery._run import _SETTINGS, PathLike, _with_seed
from orrery._scenario import Scenario, ScenarioLike
from orrery._snapshot import Snapshot
from orrery.actions import Action

#: Change of a future relative to the run: none, other policies, or actions.
Choice = Union[PolicyLike, Action, Sequence[Union[PolicyLike, Action]]]

_LONGEST_S = 9e9


def futures(
    scenario: ScenarioLike,
    at: Optional[float] = None,
    count: int = 100,
    horizon: Optional[float] = None,
    choices: Optional[Mapping[str, Choice]] = None,
    seed: Optional[int] = None,
    workers: Optional[int] = None,
    record: PathLike = None,
    progress: bool = False,
    overrides: Optional[Mapping[str, Any]] = None,
    policy: PolicyLike = None,
    policies: Optional[Sequence[PolicyLike]] = None,
    executor: Optional[Executor] = None,
    **changes: Any,
) -> pd.DataFrame:
    """Simulate a scenario up to an instant, and continue from there in many ways.

    At the instant the run's process is forked for every future; where an `orrery.Policy` decides,
    each future is simulated from the beginning. Future 0 goes on with the run's own random numbers,
    future k with others that depend on the seed and k alone: choices meet the same.

    Parameters
    ----------
    scenario : path, str, mapping or Scenario
        As for `orrery.load`.
    at, count : float, optional; int
        The instant, seconds of the run's clock; by default 0, or where an `orrery.Snapshot` ends.
        How many futures.
    horizon : float, optional
        Seconds after `at` at which each future ends; by default when it is done.
    choices : mapping, optional
        Changes from the instant on, by name: each future runs once under each. ``None``, policies
        as for `orrery.simulate`, which decide instead of the run's (one of the same name or class
        goes on with its state), actions of `orrery.actions`, or a list of these.
    seed, workers : int, optional
        Instead of the scenario's; how many processes run at a time, by default one for each CPU.
    record : path, optional
        Where to write the log of future 0 as it goes on by itself: of the run without futures.
    progress, overrides, policy, policies, **changes : as for `orrery.simulate`
    executor : concurrent.futures.Executor, optional
        As for `orrery.sweep`; eight futures a task.

    Returns
    -------
    pandas.DataFrame
        One row for each future and choice: ``future``; ``choice``, if there are any;
        ``steps_ahead`` after the instant; ``goodput_ahead``, their fault-free time over their
        duration; ``end_s``, the end of the job; the plain values of the report from the beginning.
        ``attrs["begun"]`` has those up to the instant.

    Raises
    ------
    InputError, ValueError
        If the scenario cannot be run, or is over before the instant; if an object decides both in
        the run and in a choice.
    """
    loaded, own = _with_seed(scenario, seed, overrides, changes), listed(policy, policies)
    said = {name: _choice(choice) for name, choice in (choices or {}).items()}
    span = _span(loaded, at, horizon)
    if executor is None:
        loaded, own = _deciding(loaded, own, said)
        at_once = 0 if workers is None else _whole("workers", workers)
        order = (_whole("count", count), *span, at_once, list(said.values()), own)
        begun, ends = _simulated(loaded, os.fspath(record or ""), order, progress)
    else:
        begun, ends = _simulated_by(executor, count, (loaded, own, said, span), record)
    table = pd.DataFrame([_row(end, list(said)) for end in ends])
    table.attrs["begun"] = scalars(Report(begun))
    return table


#: Futures of one task of an executor.
_OF_TASK = 8


def _simulated_by(
    executor: Executor, count: int, run: Tuple[Any, ...], record: PathLike
) -> Tuple[Any, List[Tuple[Any, ...]]]:
    if record is not None:
        raise ValueError("record: expected no file beside an executor, found one")
    _check_roles(run[1] or [], run[2])
    count = _whole("count", count)
    tasks = [
        executor.submit(_simulate_some, run, first, min(_OF_TASK, count - first))
        for first in range(0, count, _OF_TASK)
    ]
    parts = [task.result() for task in tasks]
    return parts[0][0], [end for _, ends in parts for end in ends]


def _simulate_some(
    run: Tuple[Any, ...], first: int, count: int
) -> Tuple[Any, List[Tuple[Any, ...]]]:
    # Runs in a worker of an executor.
    loaded, policies, said, span = run
    loaded, own = _deciding(loaded, policies, said)
    order = (count, *span, 0, list(said.values()), own)
    return _simulated(loaded, "", order, False, first)


def _simulated(
    loaded: Scenario,
    record: str,
    order: Tuple[Any, ...],
    progress: bool,
    first: Optional[int] = None,
) -> Tuple[Any, List[Tuple[Any, ...]]]:
    settings: Dict[str, Any] = {**_SETTINGS, "program": "orrery-sim", "from": loaded._from}
    settings.update(record=record, timeline="", kill_switch="")
    count, choices = order[0], order[4]
    with tqdm(total=count, unit="future", disable=not progress) as bar:
        shown = _counter(bar, max(1, len(choices))) if progress else None
        arguments: Tuple[Any, ...] = (*order, shown, first)
        return _core.futures(loaded._core, settings, *arguments)


def _deciding(
    loaded: Scenario, own: Optional[Listed], said: Mapping[str, Tuple[Listed, List[Action]]]
) -> Tuple[Scenario, Optional[Listed]]:
    _check_roles(own or [], said)
    # Built-in policies decide in the run's process: they become those of the scenario.
    if own is None or has_objects(own):
        return loaded, own
    loaded = loaded._copy()
    loaded._core.set_policies(own)
    return loaded, None


def _span(
    scenario: Scenario, at: Optional[float], horizon: Optional[float]
) -> Tuple[float, float]:
    begin = _begin(scenario, at)
    return begin, _until(begin, horizon)


def _begin(scenario: Scenario, at: Optional[float]) -> float:
    if at is None:
        return scenario.at if isinstance(scenario, Snapshot) else 0.0
    if not 0 <= at < _LONGEST_S:
        raise ValueError(f"at is an instant of the run's clock in seconds, not {at!r}")
    return float(at)


def _until(at: float, horizon: Optional[float]) -> float:
    if horizon is None:
        return 0.0
    if not 0 < horizon < _LONGEST_S:
        raise ValueError(f"horizon is a time after `at`, in seconds, not {horizon!r}")
    return float(at) + float(horizon)


def _whole(name: str, value: int) -> int:
    if not 1 <= operator.index(value) <= 1_000_000:
        raise ValueError(f"{name} is from 1 to 1,000,000, not {value!r}")
    return operator.index(value)


def _choice(said: Choice) -> Tuple[Listed, List[Action]]:
    each = list(said) if isinstance(said, (list, tuple)) else [said]
    actions = [one for one in each if isinstance(one, Action)]
    others: List[Any] = [one for one in each if one is not None and not isinstance(one, Action)]
    return listed(None, others) or [], actions


def _check_roles(own: Listed, said: Mapping[str, Tuple[Listed, List[Action]]]) -> None:
    for name, (policies, _) in said.items():
        for policy in policies:
            if isinstance(policy, Policy) and any(policy is each for each in own):
                raise ValueError(
                    f"choice {name!r}: expected a {type(policy).__name__} of its own, found the "
                    "object that decides in the run; make another object"
                )


def _counter(bar: "tqdm[Any]", choices: int) -> Callable[[int, int, float], None]:
    # Up to the instant steps are told, which took some time; then futures, which took none.
    def show(done: int, total: int, elapsed_s: float) -> None:
        if elapsed_s == 0:
            bar.update(done // choices - bar.n)

    return show


def _row(end: Tuple[Any, ...], names: Sequence[str]) -> Dict[str, Any]:
    future, choice, report, failure, steps_ahead, goodput_ahead, end_s = end
    under = f" under {names[choice]}" if names else ""
    if report is None:
        raise Error(f"future {future}{under}: {failure}")
    row: Dict[str, Any] = {"future": future}
    if names:
        row["choice"] = names[choice]
    row.update(steps_ahead=steps_ahead, goodput_ahead=goodput_ahead, end_s=end_s)
    row.update(scalars(Report(report)))
    return row
