"""Many runs of one scenario."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import pandas as pd

from orrery import _core
from orrery._errors import InputError
from orrery._policy import Listed, Policy, listed
from orrery._progress import tqdm
from orrery._report import Report, scalars
from orrery._run import start
from orrery._scenario import Scenario, ScenarioLike, load


def sweep(
    scenario: ScenarioLike,
    grid: Mapping[str, Sequence[Any]],
    workers: Optional[int] = None,
    progress: bool = True,
    detail: str = "folded",
    hashes: bool = False,
    impossible: str = "row",
    executor: Optional[Executor] = None,
) -> pd.DataFrame:
    """Simulate a scenario at every point of a grid, several points at a time.

    Parameters
    ----------
    scenario : path, str, mapping or Scenario
        As for `orrery.load`.
    grid : mapping
        Dotted path to the values it takes: ``{"cluster.nodes": [64, 128]}``. Three keys are
        special: ``"policy"`` and ``"policies"`` (as for `orrery.simulate`, but instead of an
        `orrery.Policy`, whose state would be shared, its class or a function that makes one for
        each run: ``{"policy": ["static", MyPolicy, lambda: MyPolicy(0.2)]}``) and ``"seed"``.
    workers : int, optional
        How many worker processes run at a time; by default one for each CPU.
    progress : bool
        Whether to show a progress bar.
    detail : {"folded", "full"}
        As for `orrery.simulate`.
    hashes : bool
        Whether to add the columns of digests: ``scenario_hash``, ``decision_log_sha256`` and
        their like.
    impossible : {"row", "raise"}
        An impossible point is a row with its ``status`` and ``reason``, or an error. Where no
        point can be, it is an error.
    executor : concurrent.futures.Executor, optional
        Runs the points, a task each, with the same rows. Its workers need this package, the files
        of the scenario by the same paths, and policies that can be pickled.

    Returns
    -------
    pandas.DataFrame
        One row for each point, in the order of the grid, the last key varying fastest. Columns:
        the keys of `grid`, then the plain values of the report (s, bytes, J, USD), and
        ``status`` (``"ok"``, ``"out-of-memory"`` or ``"impossible"``) with ``reason``. The same
        for any number of workers.

    Raises
    ------
    InputError
        If no point can be, or the first that cannot be with ``impossible="raise"``: before
        anything is started if its scenario is wrong, else as soon as it is found out.
    ValueError
        If the grid or `workers` is empty, or a key has no list of values.
    """
    points = _points_of(grid)
    if workers is not None and workers < 1:
        raise ValueError("workers is at least 1")
    chosen = [_policies_of(point) for point in points]
    base, raises = load(scenario), _raises(impossible)
    loaded = [_checked(base, point, raises) for point in points]
    _refuse_all(loaded)
    if executor is not None:
        reports = _run_by(executor, points, loaded, chosen, progress, detail, raises)
    else:
        threads = workers or os.cpu_count() or 1
        reports = _run_all(points, loaded, chosen, threads, progress, detail, raises)
    _refuse_all(reports)
    shown = [{key: _shown(value) for key, value in point.items()} for point in points]
    rows = [{**point, **_found(report, point, hashes)} for point, report in zip(shown, reports)]
    return pd.DataFrame(rows).reindex(columns=_columns(rows))


def _points_of(grid: Mapping[str, Sequence[Any]]) -> List[Dict[str, Any]]:
    for key, values in grid.items():
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise ValueError(f"a grid has a list of values for each key; {key!r} has {values!r}")
    points = [dict(zip(grid, values)) for values in itertools.product(*grid.values())]
    if not grid or not points:
        raise ValueError("an empty grid: every key needs at least one value")
    return points


def _at(base: Scenario, point: Mapping[str, Any]) -> Scenario:
    own = ("policy", "policies")
    paths = {"run.seed" if key == "seed" else key: point[key] for key in point if key not in own}
    return load(base, paths)


def _checked(
    base: Scenario, point: Mapping[str, Any], raises: bool
) -> Union[Scenario, InputError]:
    try:
        return _at(base, point)
    except InputError as problem:
        if raises:
            raise _at_point(problem, point) from None
        return _at_point(problem, point)


def _refuse_all(found: Sequence[Any]) -> None:
    # A key that no point gets right is a mistake, not a point that cannot be.
    if all(isinstance(each, InputError) for each in found):
        raise found[0]


def _at_point(problem: InputError, point: Mapping[str, Any]) -> InputError:
    where = ", ".join(f"{key} = {_shown(value)}" for key, value in point.items())
    return InputError(
        f"{problem} (at the point {where})",
        problem.message,
        problem.file,
        problem.line,
        problem.column,
    )


def _policies_of(point: Mapping[str, Any]) -> Optional[Listed]:
    # Makes a new object for this run wherever a class or a function stands.
    def made(policy: Any) -> Any:
        if isinstance(policy, Policy):
            name = type(policy).__name__
            raise ValueError(
                f"a policy of a sweep would be shared by its runs: give its class {name}, or a "
                f"function that makes one, lambda: {name}(...)"
            )
        return policy() if callable(policy) else policy

    policies = point.get("policies")
    if isinstance(policies, (list, tuple)):
        policies = [made(policy) for policy in policies]
    return listed(made(point.get("policy")), policies)


def _shown(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return " + ".join(str(_shown(each)) for each in value)
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return value["name"] if isinstance(value, Mapping) and "name" in value else value


def _found(
    report: Union[Report, InputError], point: Mapping[str, Any], hashes: bool
) -> Dict[str, Any]:
    if isinstance(report, InputError):
        full = "out of memory" in report.message
        return {"status": "out-of-memory" if full else "impossible", "reason": report.message}
    found = {key: value for key, value in scalars(report).items() if key not in point}
    found.update(status="ok", reason="")
    return found if hashes else {key: found[key] for key in found if not _is_digest(key)}


def _raises(impossible: str) -> bool:
    if impossible not in ("row", "raise"):
        raise ValueError(f"impossible is 'row' or 'raise', not {impossible!r}")
    return impossible == "raise"


def _columns(rows: Sequence[Mapping[str, Any]]) -> List[str]:
    last = ["status", "reason"]
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if name not in last] + last


def _is_digest(key: str) -> bool:
    return key.endswith(("_hash", "_sha256"))


def _run_all(
    points: Sequence[Mapping[str, Any]],
    loaded: Sequence[Union[Scenario, InputError]],
    chosen: Sequence[Optional[Listed]],
    workers: int,
    progress: bool,
    detail: str,
    raises: bool,
) -> List[Union[Report, InputError]]:
    # Threads that wait for worker processes, all forks of one that this thread starts: they would
    # end with it.
    cancel = threading.Event()
    server = _core.ForkServer("orrery-sim")

    def run(index: int) -> Union[Report, InputError]:
        scenario = loaded[index]
        if isinstance(scenario, InputError):
            return scenario
        try:
            return start(
                "orrery-sim",
                scenario,
                chosen[index],
                False,
                detail=detail,
                cancelled=cancel.is_set,
                server=server,
            )
        except InputError as problem:
            if raises:
                raise _at_point(problem, points[index]) from None
            return problem

    pool = ThreadPoolExecutor(max_workers=min(workers, len(loaded)))
    try:
        futures = [pool.submit(run, index) for index in range(len(loaded))]
        _wait_for(futures, progress)
        return [future.result() for future in futures]
    finally:
        cancel.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _run_by(
    executor: Executor,
    points: Sequence[Mapping[str, Any]],
    loaded: Sequence[Union[Scenario, InputError]],
    chosen: Sequence[Optional[Listed]],
    progress: bool,
    detail: str,
    raises: bool,
) -> List[Union[Report, InputError]]:
    tasks: Dict[int, Future[Any]] = {}
    for index, scenario in enumerate(loaded):
        if not isinstance(scenario, InputError):
            tasks[index] = executor.submit(_run_point, scenario, chosen[index], detail)
    try:
        _wait_for(list(tasks.values()), progress)
        out: List[Union[Report, InputError]] = []
        for index, scenario in enumerate(loaded):
            if isinstance(scenario, InputError):
                out.append(scenario)
                continue
            report, problem = tasks[index].result()
            if problem is not None and raises:
                raise _at_point(InputError(*problem), points[index])
            out.append(InputError(*problem) if report is None else report)
        return out
    finally:
        for task in tasks.values():
            task.cancel()


def _run_point(
    scenario: Scenario, policies: Optional[Listed], detail: str
) -> Tuple[Optional[Report], Optional[Tuple[Any, ...]]]:
    # Runs in a worker of an executor. Errors of input travel as values: not each library can
    # pickle exceptions with arguments of their own.
    try:
        return start("orrery-sim", scenario, policies, False, detail=detail), None
    except InputError as problem:
        where = (problem.file, problem.line, problem.column)
        return None, (str(problem.args[0]), problem.message, *where)


def _wait_for(futures: "Sequence[Future[Any]]", progress: bool) -> None:
    # Raises the error of the first failed run. Waits in short turns, so that Ctrl-C is noticed, and
    # for the next finished run: concurrent.futures.wait() would look at all remaining ones each
    # time.
    finished: "queue.SimpleQueue[Future[Any]]" = queue.SimpleQueue()
    for future in futures:
        future.add_done_callback(finished.put)
    with tqdm(total=len(futures), unit="run", disable=not progress) as bar:
        left = len(futures)
        while left > 0:
            try:
                done = finished.get(timeout=0.1)
            except queue.Empty:
                continue
            done.result()
            left -= 1
            bar.update()
