"""Events of a run, as a policy sees them in ``seen.events``.

Written by python/generate_records.py from traces/trace.proto.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, List, Optional, Type

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
    """A job ended and has left its GPUs. `ran`: time since its newest start that the scheduler of
    a real cluster has recorded; 0: none.

    Attributes
    ----------
    job : int
    how : Ending
    ran : float
        Seconds.
    """

    _record: ClassVar[str] = "JobDoneRecord"

    job: int
    how: Ending
    ran: float


@dataclass(frozen=True)
class SaveDone(Event):
    """Finished checkpoint with `step` as the first step after it.

    Training was stalled for `stalled`; the copy was durable after `took`. Failed if not durable.
    Of the tiers memory and peer `nodes` and `peers` hold the shards in their memory, by shard.

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
    nodes : List[int]
    peers : List[int]
        The same node if one node alone holds the shard.
    """

    _record: ClassVar[str] = "SaveDoneRecord"

    job: int
    step: int
    tier: Tier
    stalled: float
    took: float
    durable: bool
    nodes: List[int] = field(default_factory=list)
    peers: List[int] = field(default_factory=list)


@dataclass(frozen=True)
class PartChanged(Event):
    """A part of the cluster is lost, slower, well again, or announced to be removed.

    Attributes
    ----------
    kind : PartKind
    index : int
    health : Health
    rate : float
        Share of the data sheet's that is left.
    removed_at : Optional[float]
        Time of an announced removal. Seconds.
    removed_at_step : Optional[int]
        Step before which a part is removed as announced.
    back_at : Optional[float]
        Time of the return, if stated. Seconds.
    back_at_step : Optional[int]
        Step before which the part returns, if stated.
    """

    _record: ClassVar[str] = "PartChangedRecord"

    kind: PartKind
    index: int
    health: Health
    rate: float
    removed_at: Optional[float] = None
    removed_at_step: Optional[int] = None
    back_at: Optional[float] = None
    back_at_step: Optional[int] = None


@dataclass(frozen=True)
class RanksSuspected(Event):
    """Ranks without a recent heartbeat.

    Ranks of the previous event that are missing here have sent heartbeats again.

    Attributes
    ----------
    job : int
    ranks : List[int]
    """

    _record: ClassVar[str] = "RanksSuspectedRecord"

    job: int
    ranks: List[int] = field(default_factory=list)


@dataclass(frozen=True)
class RanksLost(Event):
    """All ranks that were lost at one instant.

    Attributes
    ----------
    job : int
    ranks : List[int]
    epoch : int
        Epoch of the surviving members.
    intact : Optional[int]
        Present if the state of the job is corrupted: step of the newest checkpoint whose state is
        intact; 0: none is.
    """

    _record: ClassVar[str] = "RanksLostRecord"

    job: int
    ranks: List[int]
    epoch: int
    intact: Optional[int] = None


@dataclass(frozen=True)
class JobHeld(Event):
    """A job is on hold, after a loss or for a restart, until an assignment is complete.

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
    """Outcome of a decision, with the reason if it was not applied.

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
    """A job has released its GPUs and would continue from step `kept`.

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
    """An assignment is active: the placement of the job, and the step from which it continues.

    Attributes
    ----------
    job : int
    epoch : int
    from_ : int
    where : Standing
    lost : List[int]
        Ranks that stay lost; only after the return of other lost ranks.
    """

    _record: ClassVar[str] = "JobStartedRecord"

    job: int
    epoch: int
    from_: int
    where: Standing
    lost: List[int] = field(default_factory=list)


@dataclass(frozen=True)
class Tick(Event):
    """The period that was asked for has passed, or the instant has come."""

    _record: ClassVar[str] = "TickRecord"


@dataclass(frozen=True)
class ParameterSet(Event):
    """The operator has set a parameter of a policy, by the names in the scenario; a policy with
    this parameter uses the new value.

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
