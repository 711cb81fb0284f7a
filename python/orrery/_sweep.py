"""Many runs of one scenario."""

from __future__ import annotations

import itertools
import os
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

import pandas as pd
from tqdm.auto import tqdm

from orrery._policy import Policy
from orrery._report import Report, scalars
from orrery._run import start
from orrery._scenario import Scenario, ScenarioLike, load


def sweep(
    scenario: ScenarioLike,
    grid: Mapping[str, Sequence[Any]],
    workers: Optional[int] = None,
    progress: bool = True,
    detail: str = "folded",
) -> pd.DataFrame:
    """Simulate a scenario at every point of a grid, several points at a time.

    Parameters
    ----------
    scenario : path, str, mapping or Scenario
        As for `orrery.load`.
    grid : mapping
        Dotted path to the values it takes: ``{"cluster.nodes": [64, 128]}``. Two keys are
        special: ``"policy"`` (as for `orrery.simulate`; an `orrery.Policy` does not fit, its
        state would be shared) and ``"seed"``.
    workers : int, optional
        How many worker processes run at a time; by default one for each CPU.
    progress : bool
        Whether to show a progress bar.
    detail : {"folded", "full"}
        As for `orrery.simulate`.

    Returns
    -------
    pandas.DataFrame
        One row for each point, in the order of the grid, the last key varying fastest. Columns:
        the keys of `grid`, then the plain values of the report (s, bytes, J, USD). The same for
        any number of workers.

    Raises
    ------
    InputError
        If a point cannot be run; nothing is started before all points were checked.
    ValueError
        If the grid or `workers` is empty, or a key has no list of values.
    """
    for key, values in grid.items():
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise ValueError(f"a grid has a list of values for each key; {key!r} has {values!r}")
    points = [dict(zip(grid, values)) for values in itertools.product(*grid.values())]
    if not grid or not points:
        raise ValueError("an empty grid: every key needs at least one value")
    if workers is not None and workers < 1:
        raise ValueError("workers is at least 1")
    if any(isinstance(point.get("policy"), Policy) for point in points):
        raise ValueError("a sweep takes policies by name; use orrery.simulate for a Policy object")
    base = load(scenario)
    loaded = [_at(base, point) for point in points]
    reports = _run_all(points, loaded, workers or os.cpu_count() or 1, progress, detail)
    shown = [{key: _shown(value) for key, value in point.items()} for point in points]
    rows = [{**point, **_found(report, point)} for point, report in zip(shown, reports)]
    return pd.DataFrame(rows)


def _at(base: Scenario, point: Mapping[str, Any]) -> Scenario:
    paths = {"run.seed" if key == "seed" else key: point[key] for key in point if key != "policy"}
    return load(base, paths)


def _shown(value: Any) -> Any:
    return value["name"] if isinstance(value, Mapping) and "name" in value else value


def _found(report: Report, point: Mapping[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in scalars(report).items() if key not in point}


def _run_all(
    points: Sequence[Mapping[str, Any]],
    loaded: Sequence[Scenario],
    workers: int,
    progress: bool,
    detail: str,
) -> List[Report]:
    # Threads that wait for worker processes. They outlive their children: a child is ended when
    # the thread that started it goes away.
    cancel = threading.Event()

    def run(index: int) -> Report:
        policy = points[index].get("policy")
        return start(
            "orrery-sim", loaded[index], policy, False, detail=detail, cancelled=cancel.is_set
        )

    pool = ThreadPoolExecutor(max_workers=min(workers, len(points)))
    try:
        futures = [pool.submit(run, index) for index in range(len(points))]
        _wait_for(futures, progress)
        return [future.result() for future in futures]
    finally:
        cancel.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _wait_for(futures: "Sequence[Future[Report]]", progress: bool) -> None:
    # Raises what the first failed run raised. Waits in short turns, so that Ctrl-C is seen.
    pending = set(futures)
    with tqdm(total=len(futures), unit="run", disable=not progress) as bar:
        while pending:
            done, pending = wait(pending, timeout=0.1, return_when=FIRST_COMPLETED)
            bar.update(len(done))
            for future in done:
                future.result()
