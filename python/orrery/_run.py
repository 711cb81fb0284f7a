"""One run: simulated or live."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Mapping, Optional, Union

from tqdm.auto import tqdm

from orrery import _core
from orrery._policy import Policy
from orrery._report import Report
from orrery._scenario import Scenario, ScenarioLike, _scalar, load

PolicyLike = Union[None, str, Mapping[str, Any], Policy]
PathLike = Union[None, str, "os.PathLike[str]"]


def simulate(
    scenario: ScenarioLike,
    policy: PolicyLike = None,
    seed: Optional[int] = None,
    detail: str = "folded",
    record: PathLike = None,
    timeline: PathLike = None,
    progress: bool = False,
    overrides: Optional[Mapping[str, Any]] = None,
    **changes: Any,
) -> Report:
    """Run a scenario in the simulator, in a process of its own.

    Parameters
    ----------
    scenario : path, str, mapping or Scenario
        As for `orrery.load`.
    policy : str, mapping or Policy, optional
        Instead of the scenario's policies: a name (``"static"``), a name with parameters
        (``{"name": "predictive-rebalance", "parameters": {"gain_threshold": 0.1}}``), or an
        `orrery.Policy`, which is asked in this process.
    seed : int, optional
        Instead of the scenario's. Equal seeds give equal reports, apart from ``host``.
    detail : {"folded", "full"}
        ``"full"`` simulates every rank and every iteration.
    record : path, optional
        Where to write the observation and decision log, for `orrery.replay`.
    timeline : path, optional
        Where to write a Perfetto trace.
    progress : bool
        Whether to show a progress bar.
    overrides, **changes
        Values of the scenario to change, as for `orrery.load`.

    Returns
    -------
    Report
        Times in seconds, sizes in bytes.

    Raises
    ------
    InputError
        If the scenario cannot be run; it has the place.
    WorkerDied
        If the process of the run was killed. This process goes on.
    KeyboardInterrupt
        Within half a second of Ctrl-C; the run is ended.
    """
    if detail not in ("folded", "full"):
        raise ValueError(f"detail is 'folded' or 'full', not {detail!r}")
    loaded = _with_seed(scenario, seed, overrides, changes)
    return start(
        "orrery-sim", loaded, policy, progress, detail=detail, record=record, timeline=timeline
    )


def live(
    scenario: ScenarioLike,
    policy: PolicyLike = None,
    seed: Optional[int] = None,
    ranks: Optional[int] = None,
    fabric: str = "grpc",
    record: PathLike = None,
    progress: bool = False,
    overrides: Optional[Mapping[str, Any]] = None,
    **changes: Any,
) -> Report:
    """Run the same scenario on real processes of this machine.

    Parameters
    ----------
    scenario : path, str, mapping or Scenario
        As for `orrery.load`.
    policy : str, mapping or Policy, optional
        As for `orrery.simulate`.
    seed : int, optional
        Instead of the scenario's.
    ranks : int, optional
        World size, if the scenario says that it is elastic.
    fabric : {"grpc", "nccl"}
        Data plane.
    record : path, optional
        Where to write the observation and decision log, for `orrery.replay`.
    progress : bool
        Whether to show a progress bar.
    overrides, **changes
        Values of the scenario to change, as for `orrery.load`.

    Returns
    -------
    Report
        Times in real seconds, sizes in bytes.

    Raises
    ------
    InputError
        If the scenario cannot be run; it has the place.
    MachineError
        If this machine lacks what the run needs.
    WorkerDied
        If the controller was killed. This process goes on.
    """
    loaded = _with_seed(scenario, seed, overrides, changes)
    if ranks is not None:
        loaded = loaded._copy()
        loaded._core.set_ranks(ranks)
    return start("orrery-live", loaded, policy, progress, record=record, fabric=fabric)


def start(
    program: str,
    scenario: Scenario,
    policy: PolicyLike,
    progress: bool,
    detail: str = "folded",
    record: PathLike = None,
    timeline: PathLike = None,
    fabric: str = "",
    cancelled: Optional[Callable[[], bool]] = None,
) -> Report:
    """Start a worker process and wait for its report.

    Parameters
    ----------
    program : str
        ``"orrery-sim"`` or ``"orrery-live"``.
    scenario : Scenario
        What to run.
    policy : str, mapping or Policy, optional
        As for `orrery.simulate`.
    progress : bool
        Whether to show a progress bar.
    detail, record, timeline, fabric
        As for `orrery.simulate` and `orrery.live`.
    cancelled : callable, optional
        Asked ten times a second; true ends the run.

    Returns
    -------
    Report
        What the worker found out.
    """
    own = policy if isinstance(policy, Policy) else None
    if policy is not None and own is None:
        scenario = scenario._copy()
        scenario._core.set_policy(*_named(policy))
    bar = tqdm(total=scenario.steps, unit="step", desc=scenario.name) if progress else None

    def show(done: int, total: int, elapsed_s: float) -> None:
        if bar is not None:
            bar.total = total
            bar.update(done - bar.n)

    try:
        raw = _core.run(
            scenario._core,
            program=program,
            detail=detail,
            record=os.fspath(record or ""),
            timeline=os.fspath(timeline or ""),
            mode="drive" if program == "orrery-live" else "",
            fabric=fabric,
            policy=own,
            progress=show if bar is not None else None,
            cancelled=cancelled,
        )
        if bar is not None:
            bar.update(bar.total - bar.n)
    finally:
        if bar is not None:
            bar.close()
    return Report(raw)


def _with_seed(
    scenario: ScenarioLike,
    seed: Optional[int],
    overrides: Optional[Mapping[str, Any]],
    changes: Mapping[str, Any],
) -> Scenario:
    wanted: Dict[str, Any] = dict(overrides or {})
    if seed is not None:
        wanted["run.seed"] = seed
    return load(scenario, wanted, **changes)


def _named(policy: Union[str, Mapping[str, Any], Policy]) -> "tuple[str, Dict[str, str]]":
    if isinstance(policy, str):
        return policy, {}
    if isinstance(policy, Mapping):
        unknown = set(policy) - {"name", "parameters"}
        if unknown or "name" not in policy:
            raise ValueError(f"a policy has a name and parameters, not {sorted(policy)}")
        parameters = policy.get("parameters") or {}
        return str(policy["name"]), {key: _scalar(value) for key, value in parameters.items()}
    if isinstance(policy, type) and issubclass(policy, Policy):
        raise TypeError(f"a policy is an object: {policy.__name__}(), not the class itself")
    raise TypeError(f"a policy is a name, a dict or an orrery.Policy, not {policy!r}")
