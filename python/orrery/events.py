"""What can happen in a run, as a policy sees it in ``seen.events``.

Written by python/generate_records.py from traces/trace.proto.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, List, Type

from orrery._spec import JobSpec
from orrery.values import Ending, Health, OutcomeStatus, PartKind, Standing, Tier


class Event:
    """Base of all events."""


@dataclass(frozen=True)
class StepsDone(Event):
    """A job committed `count` optimizer steps, the last of them `last`, in `duration` together.

    Attributes
    ----------
    job : int
    last : int
    count : int
    duration : float
        Seconds.
    """

    _record: ClassVar[str] = "StepsDoneRecord"

    job: int
    last: int
    count: int
    duration: float


@dataclass(frozen=True)
class JobDone(Event):
    """A job ended and has left its GPUs.

    Attributes
    ----------
    job : int
    how : Ending
    """

    _record: ClassVar[str] = "JobDoneRecord"

    job: int
    how: Ending


@dataclass(frozen=True)
class SaveDone(Event):
    """A checkpoint from which `step` is the first to be done.

    Training stood still for `stalled`; the copy was there after `took`. One that is not durable
    failed.

    Attributes
    ----------
    job : int
    step : int
    tier : Tier
    stalled : float
        Seconds.
    took : float
        Seconds.
    durable : bool
    """

    _record: ClassVar[str] = "SaveDoneRecord"

    job: int
    step: int
    tier: Tier
    stalled: float
    took: float
    durable: bool


@dataclass(frozen=True)
class PartChanged(Event):
    """A part of the cluster is lost, slower, or well again.

    Attributes
    ----------
    kind : PartKind
    index : int
    health : Health
    rate : float
        Share of the data sheet's that is left.
    """

    _record: ClassVar[str] = "PartChangedRecord"

    kind: PartKind
    index: int
    health: Health
    rate: float


@dataclass(frozen=True)
class RanksSuspected(Event):
    """Ranks have not been heard of for a while.

    Those named before and not now were heard of again.

    Attributes
    ----------
    job : int
    ranks : List[int]
    """

    _record: ClassVar[str] = "RanksSuspectedRecord"

    job: int
    ranks: List[int]


@dataclass(frozen=True)
class RanksLost(Event):
    """All ranks that were lost at one instant.

    Attributes
    ----------
    job : int
    ranks : List[int]
    epoch : int
        Of the membership of those that are left.
    """

    _record: ClassVar[str] = "RanksLostRecord"

    job: int
    ranks: List[int]
    epoch: int


@dataclass(frozen=True)
class JobHeld(Event):
    """A job stands still after a loss, until it is assigned anew.

    Attributes
    ----------
    job : int
    """

    _record: ClassVar[str] = "JobHeldRecord"

    job: int


@dataclass(frozen=True)
class JobSubmitted(Event):
    """A job arrived.

    Attributes
    ----------
    job : JobSpec
    """

    _record: ClassVar[str] = "JobSubmittedRecord"

    job: JobSpec


@dataclass(frozen=True)
class Decided(Event):
    """What became of a decision, and why it was not applied.

    Attributes
    ----------
    decision : int
    status : OutcomeStatus
    reason : str
    """

    _record: ClassVar[str] = "DecidedRecord"

    decision: int
    status: OutcomeStatus
    reason: str


@dataclass(frozen=True)
class JobStopped(Event):
    """A job has left its GPUs, and would go on from step `kept`.

    Attributes
    ----------
    job : int
    kept : int
    """

    _record: ClassVar[str] = "JobStoppedRecord"

    job: int
    kept: int


@dataclass(frozen=True)
class JobStarted(Event):
    """An assignment has come true: where the job stands, and the step that it goes on with.

    Attributes
    ----------
    job : int
    epoch : int
    from_ : int
    where : Standing
    """

    _record: ClassVar[str] = "JobStartedRecord"

    job: int
    epoch: int
    from_: int
    where: Standing


@dataclass(frozen=True)
class Tick(Event):
    """The period that was asked for has passed, or the instant has come."""

    _record: ClassVar[str] = "TickRecord"


@dataclass(frozen=True)
class ParameterSet(Event):
    """The operator has set a parameter of a policy, by its names in the scenario; a policy that
    knows it goes on with it.

    Attributes
    ----------
    policy : str
    parameter : str
    value : str
    """

    _record: ClassVar[str] = "ParameterSetRecord"

    policy: str
    parameter: str
    value: str


#: All kinds, in the order of the schema.
KINDS: List[Type[Event]] = [
    StepsDone,
    JobDone,
    SaveDone,
    PartChanged,
    RanksSuspected,
    RanksLost,
    JobHeld,
    JobSubmitted,
    Decided,
    JobStopped,
    JobStarted,
    Tick,
    ParameterSet,
]
