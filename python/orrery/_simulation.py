"""A simulation that the caller steps through."""

from __future__ import annotations

import queue
import threading
import types
import weakref
from typing import Any, List, Mapping, Optional, Sequence, Type, Union

from orrery._cluster import Cluster
from orrery._policy import Capabilities, Needs, Policy, PolicyLike, listed
from orrery._report import Report
from orrery._run import PathLike, _with_seed, start
from orrery._scenario import ScenarioLike
from orrery._seen import Decisions, Observation


class Simulation:
    """Simulation that advances from one observation to the next when `step` is called.

    The caller decides: the decisions that it adds to `decisions` after a step are sent with the
    next one. The run is a process of its own; it ends with `close`, with the ``with`` block, with
    this object, or with the program.

    Parameters
    ----------
    scenario : path, str, mapping or Scenario
        As for `orrery.load`.
    policy : str, mapping or Policy, optional
        A policy that decides beside the caller, as for `orrery.simulate`; by default none does:
        the scenario's policies are replaced by the caller.
    needs : Needs, optional
        What the caller decides; by default everything that the run offers. As for every policy
        this matters to the run: if ``Assign`` is among it, a job that has lost ranks waits for the
        caller to assign it again.
    seed, detail, record, overrides, policies, **changes
        As for `orrery.simulate`. A log is replayed with the decisions of the same caller only.

    Examples
    --------
    >>> with orrery.Simulation("train.yaml") as sim:
    ...     while (seen := sim.step()) is not None:
    ...         if seen.now > 60:
    ...             sim.decisions.configure(0, orrery.settings.CheckpointPlan(50))
    ...     print(sim.report.goodput)
    """

    def __init__(
        self,
        scenario: ScenarioLike,
        policy: PolicyLike = None,
        needs: Optional[Needs] = None,
        seed: Optional[int] = None,
        detail: str = "folded",
        record: PathLike = None,
        overrides: Optional[Mapping[str, Any]] = None,
        policies: Optional[Sequence[PolicyLike]] = None,
        **changes: Any,
    ) -> None:
        if detail not in ("folded", "full"):
            raise ValueError(f"detail is 'folded' or 'full', not {detail!r}")
        loaded = _with_seed(scenario, seed, overrides, changes)
        beside = listed(policy, policies) or []
        self._caller = _Caller(needs if needs is not None else _offer_of(loaded))
        chosen: List[Any] = [self._caller, *beside]
        caller, settings = self._caller, {"detail": detail, "record": record}
        self._thread = threading.Thread(
            target=caller.run, args=(loaded, chosen, settings), daemon=True
        )
        self._end = weakref.finalize(self, _end, caller, self._thread)
        self._report: Optional[Report] = None

    def step(self) -> Optional[Observation]:
        """Send the decisions and advance to the next observation.

        Returns
        -------
        Observation or None
            Valid until the next step; ``None`` at the end of the run.

        Raises
        ------
        InputError
            If the scenario cannot be run, or the needs are more than the run offers.
        """
        if self._report is not None:
            return None
        if not self._end.alive:
            raise RuntimeError("the simulation is closed")
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._caller.answered.put(True)
        shown = self._caller.shown.get()
        if isinstance(shown, Observation):
            return shown
        self._end()
        if isinstance(shown, BaseException):
            raise shown
        self._report = shown
        return None

    @property
    def decisions(self) -> Decisions:
        """Decisions to send with the next step."""
        if self._caller.decisions is None:
            raise RuntimeError("decisions answer an observation: call step() first")
        return self._caller.decisions

    @property
    def cluster(self) -> Cluster:
        """The immutable description of the cluster; from the first step on."""
        return self._caller.cluster

    @property
    def capabilities(self) -> Capabilities:
        """Actions and settings that the run offers; from the first step on."""
        return self._caller.capabilities

    @property
    def report(self) -> Report:
        """The result, once `step` has returned ``None``."""
        if self._report is None:
            raise RuntimeError("the simulation has not ended: call step() until it returns None")
        return self._report

    def close(self) -> None:
        """End the run if it has not ended. There is no report then."""
        self._end()

    def __enter__(self) -> Simulation:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[types.TracebackType],
    ) -> None:
        self.close()


class _Closed(Exception):
    """Ends a run early."""


class _Caller(Policy):
    """Policy that shows each observation to the thread of the caller and waits for decisions."""

    def __init__(self, needs: Needs) -> None:
        self._wanted = needs
        self.shown: "queue.SimpleQueue[Union[Observation, Report, BaseException]]"
        self.shown = queue.SimpleQueue()
        self.answered: "queue.SimpleQueue[bool]" = queue.SimpleQueue()
        self.decisions: Optional[Decisions] = None
        self.closed = threading.Event()

    def needs(self) -> Needs:
        return self._wanted

    def reset(self) -> None:
        pass

    def observe(self, seen: Observation, decisions: Decisions) -> None:
        self.decisions = decisions
        self.shown.put(seen)
        goes_on = self.answered.get()
        self.decisions = None
        if not goes_on:
            raise _Closed

    def run(self, scenario: Any, policies: List[Any], settings: Mapping[str, Any]) -> None:
        try:
            ended = self.closed.is_set
            self.shown.put(
                start("orrery-sim", scenario, policies, False, cancelled=ended, **settings)
            )
        except BaseException as problem:
            self.shown.put(problem)


class _Asking(Policy):
    """Policy that ends the run at its first observation, when the capabilities are known."""

    def observe(self, seen: Observation, decisions: Decisions) -> None:
        raise _Closed


def _offer_of(scenario: Any) -> Needs:
    asking = _Asking()
    try:
        start("orrery-sim", scenario, [asking], False)
    except _Closed:
        pass
    return Needs(sorted(asking.capabilities.actions), sorted(asking.capabilities.settings))


def _end(caller: _Caller, thread: threading.Thread) -> None:
    if thread.ident is None:
        return
    caller.closed.set()
    caller.answered.put(False)
    thread.join()
