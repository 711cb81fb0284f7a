"""What can happen in a run, as a policy sees it in ``seen.events``.

Jobs, ranks and links are numbers counted from 0; times are seconds of the policy clock.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """Base of all events."""


@dataclass(frozen=True)
class JobSubmitted(Event):
    """A job arrived; its description is in ``seen.jobs``."""

    job: int


@dataclass(frozen=True)
class JobDone(Event):
    """A job ended."""

    job: int


@dataclass(frozen=True)
class StepDone(Event):
    """A job committed an optimizer step that took `duration` seconds."""

    job: int
    step: int
    duration: float


@dataclass(frozen=True)
class CheckpointDone(Event):
    """The state after `step` is safe on storage tier `tier`."""

    job: int
    step: int
    tier: int


@dataclass(frozen=True)
class RankSuspected(Event):
    """A rank has not been heard of for a while."""

    job: int
    rank: int


@dataclass(frozen=True)
class RankLost(Event):
    """A rank is dead."""

    job: int
    rank: int


@dataclass(frozen=True)
class RankBack(Event):
    """A suspected rank was heard of again."""

    job: int
    rank: int


@dataclass(frozen=True)
class LinkDown(Event):
    """A link carries nothing any more."""

    link: int


@dataclass(frozen=True)
class LinkUp(Event):
    """A link works again."""

    link: int


@dataclass(frozen=True)
class DecisionOutcome(Event):
    """What became of a decision: ``"applied"``, ``"rejected"`` or ``"expired"``.

    Decisions are numbered from 0 in the order in which they were taken.
    """

    decision: int
    status: str
    reason: str


@dataclass(frozen=True)
class Tick(Event):
    """The period that the policy asked for has passed."""
