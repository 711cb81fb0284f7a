"""Unit tests of policies: observations without a run, and decisions that can be inspected.

>>> world = orrery.testing.world(jobs=[{"gpus": 4}])
>>> decisions = world.observe(MyPolicy(), events=[orrery.events.RanksLost(0, [2], epoch=2)])
>>> decisions.items[0].action
Assign(job=0, gpus=[0, 1, 3], ...)

The world follows the events as in a run: after `RanksLost` the job has lost ranks. An event that
cannot happen is an error.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

from orrery import _core
from orrery._cluster import Cluster
from orrery._log import read_log
from orrery._policy import Policy
from orrery._run import simulate
from orrery._scenario import ScenarioLike, load
from orrery._seen import Decisions, Observation
from orrery._spec import JobSpec
from orrery.actions import Action
from orrery.events import Event, JobStarted, JobSubmitted
from orrery.values import Layout, Standing

__all__ = ["Decision", "DecisionList", "World", "check_rest", "job", "world"]

#: Rows of telemetry of one kind: of job 0, or by job.
SampleRows = Union[Sequence[Mapping[str, Any]], Mapping[int, Sequence[Mapping[str, Any]]]]


@dataclass(frozen=True)
class Decision:
    """One decision, as given to `orrery.Decisions.add`.

    Attributes
    ----------
    id : int
    action : orrery.actions.Action
    at_step : int
    if_epoch : int or None
    expires : float or None
        Seconds of the policy clock.
    group : int
    why : str
    """

    id: int
    action: Action
    at_step: int
    if_epoch: Optional[int]
    expires: Optional[float]
    group: int
    why: str


class DecisionList(Decisions):
    """Decisions that can be inspected; handed to ``observe()`` in a test.

    Parameters
    ----------
    policy : Policy, optional
        Policy whose ``needs()`` limit the decisions, as in a run; by default all are allowed.
    next : int
        Id of the first decision.
    """

    def __init__(self, policy: Optional[Policy] = None, next: int = 0) -> None:
        self._list = _core.OwnDecisions(next)
        needed: Set[str] = {*_core.action_names(), *_core.setting_names()}
        if policy is not None:
            needs = policy.needs()
            needed = {str(name) for name in (*needs.actions, *needs.settings)}
        name = "the policy" if policy is None else type(policy).__name__
        super().__init__(self._list.sink, needed, name)

    @property
    def items(self) -> List[Decision]:
        """The decisions in order."""
        return [Decision(*each) for each in self._list.items()]

    @property
    def notes(self) -> Dict[str, Union[float, str]]:
        """Annotations; of equal keys the last."""
        return dict(self._list.notes())

    @property
    def wakes(self) -> List[float]:
        """Instants of `orrery.Decisions.wake`, seconds."""
        return self._list.wakes()

    @property
    def resting(self) -> bool:
        """Whether `orrery.Decisions.rest` was called."""
        return self._list.resting


class World:
    """Cluster and jobs of a test; made by `world`.

    Attributes
    ----------
    cluster : Cluster
        The immutable description.
    """

    def __init__(self, core: _core.ScriptedWorld) -> None:
        self._core = core
        self.cluster = Cluster(core.cluster())
        self._now = 0.0
        self._calls = 0
        self._next = 0
        self._started: List[Policy] = []

    def observation(
        self,
        events: Iterable[Event] = (),
        now: Optional[float] = None,
        samples: Optional[Mapping[str, SampleRows]] = None,
        decisions: Optional[DecisionList] = None,
    ) -> Observation:
        """Tell events and return the observation that shows them.

        Parameters
        ----------
        events : iterable of orrery.events.Event
            Events since the last observation, in order. They change the world as in a run.
        now : float, optional
            Policy clock in seconds; by default that of the last observation.
        samples : mapping, optional
            Telemetry by kind, ``"ranks"``, ``"devices"``, ``"links"`` or ``"collectives"``: a list
            of dicts with the fields of `orrery.Samples`, of job 0, or a dict of such lists by job.
            Absent fields are missing samples. Summaries follow from the ranks.
        decisions : DecisionList, optional
            Earlier decisions that the events answer (`orrery.events.Decided`).

        Returns
        -------
        Observation
            Valid until the next call.

        Raises
        ------
        InputError
            If an event cannot happen in this world.
        """
        if decisions is not None:
            self._announce(decisions)
        self._now = self._now if now is None else float(now)
        rows = [
            (kind.upper(), int(number), list(each))
            for kind, given in (samples or {}).items()
            for number, each in _by_job(kind, given)
        ]
        observed = self._core.observe(self._now, self._calls, list(events), rows)
        self._calls += 1
        return Observation(observed, self.cluster)

    def start(self, policy: Policy, seed: int = 1) -> None:
        """Start a policy as a run does, with all actions and settings offered.

        Parameters
        ----------
        policy : Policy
            Gets its ``cluster``, ``capabilities`` and ``rng``.
        seed : int
            Of ``policy.rng``.
        """
        policy._needs()
        policy._offer(_core.action_names(), _core.setting_names())
        policy._start(self._core.cluster(), seed)
        self._started.append(policy)

    def observe(
        self,
        policy: Policy,
        events: Iterable[Event] = (),
        now: Optional[float] = None,
        samples: Optional[Mapping[str, SampleRows]] = None,
    ) -> DecisionList:
        """Show an observation to a policy and return its decisions.

        Parameters
        ----------
        policy : Policy
            Started first, unless it has been.
        events, now, samples
            As for `observation`. Later events may answer the returned decisions.

        Returns
        -------
        DecisionList
            Limited by ``policy.needs()``.
        """
        if not any(each is policy for each in self._started):
            self.start(policy)
        decisions = DecisionList(policy, self._next)
        policy.observe(self.observation(events, now, samples), decisions)
        self._announce(decisions)
        return decisions

    def _announce(self, decisions: DecisionList) -> None:
        self._core.announce(decisions._list)
        self._next = max(self._next, decisions._list.next)


def job(gpus: int = 8, id: int = 0, **fields: Any) -> JobSpec:
    """Make the submission of a training job.

    Parameters
    ----------
    gpus : int
        Number of GPUs; all data-parallel unless `fields` have a ``layout``.
    id : int
        Its number: the jobs of a world are 0, 1 and so on.
    **fields
        Other fields of `orrery.JobSpec`. By default 10 micro-batches for each GPU and 1,000 steps,
        and all settings can be set.

    Returns
    -------
    JobSpec
        For `world` or an `orrery.events.JobSubmitted`.
    """
    plain: Dict[str, Any] = {
        "name": f"job-{id}",
        "user": "",
        "pool": "",
        "submit": 0.0,
        "estimate": 0.0,
        "priority": 0,
        "least_gpus": 1,
        "most_gpus": gpus,
        "layout": Layout(data=gpus),
        "micro_batches": 10 * gpus,
        "max_micro_batches": 10 * gpus,
        "max_workers": 0,
        "max_prefetch": 0,
        "steps": 1000,
        "nominal_micro_batch_time": 0.0,
        "state_bytes": 0.0,
        "can": _core.setting_names(),
        "settings": [],
        "can_change_layout": False,
        "qos": "",
        "gpu_kinds": [],
        "title": "",
    }
    unknown = set(fields) - set(plain)
    if unknown:
        raise TypeError(f"a job has no {sorted(unknown)}; it has: {', '.join(plain)}")
    return JobSpec(id=id, gpus=gpus, **{**plain, **fields})


def world(
    jobs: Iterable[Union[JobSpec, Mapping[str, Any]]] = (),
    cluster: Union[None, Tuple[int, int], ScenarioLike] = None,
    running: bool = True,
) -> World:
    """Make the world of a test.

    Parameters
    ----------
    jobs : iterable of JobSpec or mapping
        Submitted in this order; a mapping has the arguments of `job`: ``{"gpus": 4}``.
    cluster : (nodes, gpus_per_node), or a scenario as for `orrery.load`, optional
        By default nodes of 8 GPUs, as many as the jobs need.
    running : bool
        Whether jobs have started on the first free GPUs; those that do not fit wait.

    Returns
    -------
    World
        Whose next observation shows what a test tells.
    """
    specs = [
        each if isinstance(each, JobSpec) else job(**{"id": number, **each})
        for number, each in enumerate(jobs)
    ]
    if cluster is None:
        cluster = max(1, -(-sum(spec.gpus for spec in specs) // 8)), 8
    if isinstance(cluster, tuple):
        core = _core.ScriptedWorld(*cluster)
    else:
        core = _core.ScriptedWorld.of_scenario(load(cluster)._core)
    made = World(core)
    events: List[Event] = [JobSubmitted(spec) for spec in specs]
    first = 0
    for spec in specs:
        if running and first + spec.gpus <= made.cluster.gpus:
            where = Standing(gpus=list(range(first, first + spec.gpus)), layout=spec.layout)
            events.append(JobStarted(spec.id, 1, 0, where, []))
            first += spec.gpus
    made.observation(events)
    made._calls = 0
    return made


def check_rest(policy: Callable[[], Policy], scenario: ScenarioLike, **changes: Any) -> None:
    """Compare the decisions of a policy in a folded simulation with those in full detail.

    A policy that calls `orrery.Decisions.rest` promises that calls without a new event change
    none of its decisions, because a folded simulation leaves such calls out. A policy that counts
    its calls, or the steps one by one, breaks the promise: it decides at other steps in a folded
    simulation. Use this function in the tests of a policy that rests, with faults, noise and
    enough steps for its decisions.

    Parameters
    ----------
    policy : callable
        Makes the policy: its class, or a function without arguments. Called for each simulation.
    scenario : path, str, mapping or Scenario
        As for `orrery.simulate`, whose policies this policy replaces.
    **changes
        Other arguments of `orrery.simulate`, for example ``seed`` or ``overrides``.

    Raises
    ------
    AssertionError
        If a decision differs in its content, step, reason or outcome; names the policy and the
        first decision that differs.
    """
    name = ""
    decided = {}
    for detail in ("folded", "full"):
        made = policy()
        name = type(made).__name__
        with tempfile.TemporaryDirectory() as folder:
            record = os.path.join(folder, "run.log")
            simulate(scenario, policy=made, detail=detail, record=record, **changes)
            decided[detail] = [_decided(row) for row in read_log(record).decisions.itertuples()]
    folded, full = decided["folded"], decided["full"]
    for number in range(max(len(folded), len(full))):
        one = folded[number] if number < len(folded) else "no decision"
        other = full[number] if number < len(full) else "no decision"
        if one == other:
            continue
        raise AssertionError(
            f"policy {name}: expected the same decisions in a folded simulation and in full "
            f"detail, found another decision {number}: folded {one}; full {other}. Do not call "
            "rest() while the policy counts calls or steps"
        )


def _decided(row: Any) -> str:
    """One decision in a line, without instants, which folded steps round differently."""
    what = row.action if row.setting is None else f"{row.action} {row.setting}"
    why = f" ({row.why})" if row.why else ""
    outcome = f"{row.outcome} {row.reason or ''}".strip()
    step = f" from step {row.at_step}" if row.at_step else ""
    return f"{what} {row.parameters}{step}{why}: {outcome}"


def _by_job(kind: str, given: SampleRows) -> Iterable[Tuple[int, Sequence[Mapping[str, Any]]]]:
    if kind not in ("ranks", "devices", "links", "collectives"):
        raise ValueError(f"samples are of ranks, devices, links or collectives, not of {kind!r}")
    return given.items() if isinstance(given, Mapping) else [(0, given)]
