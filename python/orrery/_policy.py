"""Policies written in Python."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Iterable, List, Sequence

import numpy as np
import numpy.typing as npt

from orrery import _core, events

#: Bits of a signal mask, by name; the same as in policies/policy.hpp.
_SIGNALS = {
    "jobs": 1,
    "steps": 2,
    "devices": 4,
    "links": 8,
    "ranks": 16,
    "collectives": 32,
    "membership": 64,
}
#: Bits of an action mask, by name, for the actions that Decisions offers.
_ACTIONS = {"shift_microbatches": 1 << 2, "wake_at": 1 << 12}

RANK_DTYPE = np.dtype(
    [
        ("job", "u4"),
        ("rank", "u4"),
        ("step", "u8"),
        ("micro_batches_done", "f8"),
        ("micro_batch_time", "f8"),
        ("wait_time", "f8"),
        ("gradient_variance", "f8"),
        ("age", "f8"),
    ]
)
DEVICE_DTYPE = np.dtype(
    [
        ("gpu", "u8"),
        ("utilization", "f8"),
        ("memory_bandwidth", "f8"),
        ("memory_used", "f8"),
        ("power", "f8"),
        ("age", "f8"),
    ]
)
LINK_DTYPE = np.dtype(
    [("from_gpu", "u4"), ("to_gpu", "u4"), ("latency", "f8"), ("bandwidth", "f8"), ("age", "f8")]
)


def _mask(names: Iterable[str], bits: "dict[str, int]", what: str) -> int:
    mask = 0
    for name in names:
        if name not in bits:
            raise ValueError(f"unknown {what} {name!r}; known: {', '.join(bits)}")
        mask |= bits[name]
    return mask


@dataclass(frozen=True)
class Needs:
    """What a policy reads, what it does, and how often it wants to be asked.

    Parameters
    ----------
    signals : sequence of str
        Of ``jobs``, ``steps``, ``devices``, ``links``, ``ranks``, ``collectives``,
        ``membership``.
    actions : sequence of str
        Of ``shift_microbatches``, ``wake_at``.
    tick : float
        Period of the `events.Tick` in seconds; 0 for events only.

    Raises
    ------
    ValueError
        For a name that is not in these lists, or a negative `tick`.
    """

    signals: Sequence[str] = ("jobs", "steps", "ranks")
    actions: Sequence[str] = ("shift_microbatches",)
    tick: float = 0.05

    def __post_init__(self) -> None:
        if self.tick < 0:
            raise ValueError("tick is a period in seconds, at least 0")
        _mask(self.signals, _SIGNALS, "signal")
        _mask(self.actions, _ACTIONS, "action")

    @property
    def signal_bits(self) -> int:
        """The signals as the mask that the compiled part takes."""
        return _mask(self.signals, _SIGNALS, "signal")

    @property
    def action_bits(self) -> int:
        """The actions as the mask that the compiled part takes."""
        return _mask(self.actions, _ACTIONS, "action")


class Observation:
    """What a policy is shown at one instant. A copy: it may be kept.

    Arrays hold the fresh samples only, one row each; a value that is missing is NaN, and `age`
    is how many seconds before `now` the row was true.
    """

    def __init__(self, observed: _core.Observed) -> None:
        self._observed = observed

    @property
    def now(self) -> float:
        """Policy clock in seconds."""
        return self._observed.now

    @property
    def epoch(self) -> int:
        """Membership generation of the job."""
        return self._observed.epoch

    @property
    def sequence(self) -> int:
        """How many calls came before this one."""
        return self._observed.sequence

    @cached_property
    def events(self) -> List[events.Event]:
        """What happened since the last call, in order."""
        return [getattr(events, name)(**fields) for name, fields in self._observed.events()]

    @cached_property
    def jobs(self) -> List[_core.Job]:
        """Every job ever submitted, by number."""
        return self._observed.jobs

    @cached_property
    def ranks(self) -> npt.NDArray[np.void]:
        """Ranks, a structured array of shape (n,).

        Fields: ``job``, ``rank``, ``step`` (being worked on), ``micro_batches_done`` (of this
        step, with the fraction of the current one), ``micro_batch_time`` (s of compute, most
        recent), ``wait_time`` (s waited for others in the last step), ``gradient_variance``,
        ``age`` (s).
        """
        return np.frombuffer(self._observed.ranks(), dtype=RANK_DTYPE)

    @cached_property
    def devices(self) -> npt.NDArray[np.void]:
        """GPUs, a structured array of shape (n,).

        Fields: ``gpu``, ``utilization`` (0 to 1), ``memory_bandwidth`` (0 to 1 of the peak),
        ``memory_used`` (bytes), ``power`` (W), ``age`` (s).
        """
        return np.frombuffer(self._observed.devices(), dtype=DEVICE_DTYPE)

    @cached_property
    def links(self) -> npt.NDArray[np.void]:
        """Paths between GPUs that talk to each other, a structured array of shape (n,).

        Fields: ``from_gpu``, ``to_gpu``, ``latency`` (s), ``bandwidth`` (bytes/s), ``age`` (s).
        """
        return np.frombuffer(self._observed.links(), dtype=LINK_DTYPE)


class Policy:
    """Base of a policy written in Python.

    Subclass it, override `observe`, and hand an instance to `orrery.simulate`. The policy runs in
    this process while the run itself is a process of its own; an exception that it raises ends
    the run and comes out of `orrery.simulate`. It must be deterministic: time is ``seen.now``,
    and a random generator, if it needs one, has a fixed seed.

    Examples
    --------
    >>> class Lookout(orrery.Policy):
    ...     def observe(self, seen, decisions):
    ...         for event in seen.events:
    ...             if isinstance(event, orrery.events.StepDone):
    ...                 print(event.step, event.duration)
    """

    def needs(self) -> Needs:
        """What this policy reads and does.

        Returns
        -------
        Needs
            Ranks and steps, `Decisions.shift_microbatches`, every 50 ms, unless overridden.
        """
        return Needs()

    def start(self, cluster: _core.Cluster) -> None:
        """Called once, before the first `observe`.

        Parameters
        ----------
        cluster : Cluster
            The immutable description of the cluster.
        """

    def observe(self, seen: Observation, decisions: _core.Decisions) -> None:
        """Called at every instant at which something happened.

        Parameters
        ----------
        seen : Observation
            What is known now.
        decisions : Decisions
            Takes what is decided; only valid until this call returns.
        """
        raise NotImplementedError(f"{type(self).__name__} has no observe()")

    def save(self) -> bytes:
        """Everything that decides future decisions, as bytes.

        Returns
        -------
        bytes
            A digest of it goes into recorded logs; empty for a policy that keeps nothing.
        """
        return b""

    def _observe(self, observed: _core.Observed, decisions: _core.Decisions) -> None:
        self.observe(Observation(observed), decisions)
