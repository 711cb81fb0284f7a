"""One run: simulated or live."""

from __future__ import annotations

import operator
import os
import warnings
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Union

from orrery import _core
from orrery._policy import Listed, PolicyLike, has_objects, listed
from orrery._progress import tqdm
from orrery._report import Report
from orrery._scenario import Scenario, ScenarioLike, load
from orrery.actions import Action

PathLike = Union[None, str, "os.PathLike[str]"]
Hook = Callable[[Action, str, float], Union[bool, str]]


def simulate(
    scenario: ScenarioLike,
    policy: PolicyLike = None,
    seed: Optional[int] = None,
    detail: str = "folded",
    record: PathLike = None,
    timeline: PathLike = None,
    progress: bool = False,
    overrides: Optional[Mapping[str, Any]] = None,
    policies: Optional[Sequence[PolicyLike]] = None,
    on_policy_error: str = "stop",
    policy_timeout: Optional[float] = None,
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
        `orrery.Policy`, which is asked in this process. For several: `policies`.
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
    policies : sequence, optional
        Several, of any form that `policy` has, in this order: ``[MyPolicy(), "recover"]``.
    on_policy_error : {"stop", "static"}
        An exception of a policy ends the run and comes out of the call, or the run goes on without
        the policies, with a warning and the failure in ``report.hand_over``.
    policy_timeout : float, optional
        Seconds for one call of a policy of this process; then `on_policy_error` applies. The call
        itself is not ended: this function returns once the policy does.

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
    chosen = listed(policy, policies)
    order: Dict[str, Any] = {"detail": detail, "record": record, "timeline": timeline}
    order.update(_trust(on_policy_error, policy_timeout))
    return start("orrery-sim", loaded, chosen, progress, **order)


def live(
    scenario: ScenarioLike,
    policy: PolicyLike = None,
    seed: Optional[int] = None,
    ranks: Optional[int] = None,
    fabric: str = "grpc",
    record: PathLike = None,
    progress: bool = False,
    overrides: Optional[Mapping[str, Any]] = None,
    policies: Optional[Sequence[PolicyLike]] = None,
    mode: str = "drive",
    hook: Optional[Hook] = None,
    limit: Optional[int] = None,
    kill_switch: PathLike = None,
    on_policy_error: str = "stop",
    policy_timeout: Optional[float] = 60.0,
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
        As for `orrery.simulate`.
    ranks : int, optional
        World size of an elastic scenario.
    fabric : {"grpc", "nccl"}
        Data plane.
    record, progress, policies, overrides, **changes
        As for `orrery.simulate`.
    mode : {"drive", "shadow", "approve"}
        Effect of decisions: applied; only recorded; each one waits for `hook`.
    hook : callable, optional
        Of ``"approve"``: called with action, reason and instant (s). True is a yes; False or a
        text, which is the reason, a no.
    limit : int, optional
        Most decisions in an hour that are passed on.
    kill_switch : path, optional
        While this file is there nothing is applied.
    on_policy_error : {"stop", "static"}
        As for `orrery.simulate`; the command line's default for live runs is ``static``.
    policy_timeout : float, optional
        As there, built-in policies included. None: no limit.

    Returns
    -------
    Report
        Times in real seconds, sizes in bytes.

    Raises
    ------
    InputError
        If the scenario cannot be run; it has the place.
    MachineError
        If this machine lacks a part that the run needs.
    WorkerDied
        If the controller was killed. This process goes on.
    """
    loaded = _with_seed(scenario, seed, overrides, changes)
    if ranks is not None:
        loaded = _with_ranks(loaded, ranks)
    chosen = listed(policy, policies)
    order = _order(fabric, mode, hook, limit, kill_switch)
    order.update(_trust(on_policy_error, policy_timeout))
    return start("orrery-live", loaded, chosen, progress, record=record, **order)


#: Arguments of a run besides its scenario and its policies.
_SETTINGS = {
    "detail": "folded",
    "record": None,
    "timeline": None,
    "fabric": "",
    "mode": "",
    "limit": 0,
    "kill_switch": None,
    "fall_back": False,
    "policy_timeout": 0.0,
}


def start(
    program: str,
    scenario: Scenario,
    policies: Optional[Listed],
    progress: bool,
    hook: Optional[Hook] = None,
    cancelled: Optional[Callable[[], bool]] = None,
    server: Optional[_core.ForkServer] = None,
    **settings: Any,
) -> Report:
    """Start a worker process and wait for its report.

    Parameters
    ----------
    program : str
        ``"orrery-sim"`` or ``"orrery-live"``.
    scenario : Scenario
        The scenario to run.
    policies : list, optional
        Instead of the scenario's, as `orrery._policy.listed` returns them.
    progress : bool
        Whether to show a progress bar.
    hook : callable, optional
        As for `orrery.live`.
    cancelled : callable, optional
        Asked ten times a second; true ends the run.
    server : _core.ForkServer, optional
        Of `program`, which then need not be started.
    **settings
        Of ``_SETTINGS``, as for `orrery.simulate` and `orrery.live`.

    Returns
    -------
    Report
        The worker's results.
    """
    own = policies if policies is not None and has_objects(policies) else None
    if policies is not None and own is None:
        scenario = scenario._copy()
        scenario._core.set_policies(policies)
    wanted = {"program": program, "from": scenario._from, **_SETTINGS, **settings}
    for path in ("record", "timeline", "kill_switch"):
        wanted[path] = os.fspath(wanted[path] or "")
    bar = tqdm(total=scenario.steps, unit="step", desc=scenario.name) if progress else None

    def show(done: int, total: int, elapsed_s: float) -> None:
        if bar is not None:
            bar.total = total
            bar.update(done - bar.n)

    shown = show if bar is not None else None
    try:
        raw = _core.run(scenario._core, wanted, own, hook, shown, cancelled, server)
        if bar is not None:
            bar.update(bar.total - bar.n)
    finally:
        if bar is not None:
            bar.close()
    report = Report(raw)
    _warn_of_failure(report)
    return report


def _trust(on_policy_error: str, policy_timeout: Optional[float]) -> Dict[str, Any]:
    if on_policy_error not in ("stop", "static"):
        raise ValueError(f"on_policy_error is 'stop' or 'static', not {on_policy_error!r}")
    if policy_timeout is not None and not 0 < policy_timeout <= 1e6:
        raise ValueError(f"policy_timeout is a positive number of seconds, not {policy_timeout!r}")
    return {
        "fall_back": on_policy_error == "static",
        "policy_timeout": 0.0 if policy_timeout is None else float(policy_timeout),
    }


def _warn_of_failure(report: Report) -> None:
    handed_over = report.to_dict().get("hand_over") or {}
    if handed_over.get("policy_failure"):
        text = f"{handed_over['policy_failure']}; the run went on without the policies"
        warnings.warn(
            f"at {handed_over['policy_failure_s']:.6g} s {text}", RuntimeWarning, stacklevel=4
        )


def _order(
    fabric: str,
    mode: str,
    hook: Optional[Hook],
    limit: Optional[int],
    kill_switch: PathLike,
) -> Dict[str, Any]:
    if fabric not in ("grpc", "nccl"):
        raise ValueError(f"fabric is 'grpc' or 'nccl', not {fabric!r}")
    if mode not in ("drive", "shadow", "approve"):
        raise ValueError(f"mode is 'drive', 'shadow' or 'approve', not {mode!r}")
    if (hook is not None) != (mode == "approve"):
        raise ValueError("mode 'approve' and a hook that answers go together")
    if limit is not None and not 1 <= operator.index(limit) < 1 << 32:
        raise ValueError(f"limit is at least one decision an hour, not {limit!r}")
    most = 0 if limit is None else operator.index(limit)
    return {
        "fabric": fabric,
        "mode": mode,
        "hook": hook,
        "limit": most,
        "kill_switch": kill_switch,
    }


def _with_ranks(scenario: Scenario, ranks: int) -> Scenario:
    wanted = operator.index(ranks)
    if not 1 <= wanted < 1 << 32:
        raise ValueError(f"ranks are at least 1, not {ranks!r}")
    changed = scenario._copy()
    changed._core.set_ranks(wanted)
    return changed


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
