"""Policies written in Python."""

from __future__ import annotations

import copy
import difflib
import json
import math
import operator
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from orrery import _core, actions, settings
from orrery._cluster import Cluster
from orrery._scenario import _scalar
from orrery._seen import Decisions, Observation

_ACTIONS = [kind.__name__ for kind in actions.KINDS]
_SETTINGS = [kind.__name__ for kind in settings.KINDS]


def _checked(given: Sequence[Union[str, type]], known: List[str], what: str) -> Tuple[str, ...]:
    if isinstance(given, (str, type)):
        raise TypeError(f"{what}s are a list of names, such as [{given!r}]")
    names = [each.__name__ if isinstance(each, type) else each for each in given]
    for name in names:
        if name in known:
            continue
        near = difflib.get_close_matches(str(name).replace("_", "").title(), known, 1, 0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"there is no {what} {name!r}{hint} Known: {', '.join(known)}")
    return tuple(name for name in known if name in names)


@dataclass(frozen=True)
class Needs:
    """Decisions of a policy, and the interval of its calls.

    The run checks these names before it begins; no other decision is allowed.

    Parameters
    ----------
    actions : sequence of str or type
        Of `orrery.actions`, by name or by class; ``Configure`` is implied by `settings`.
    settings : sequence of str or type
        Of `orrery.settings`, by name or by class.
    tick : float
        Period of the `orrery.events.Tick` in seconds; 0: called when something happens only.
    gpu_kinds : bool
        The policy starts jobs on the kinds of GPUs that they may use (`Job.gpu_kinds`). Without it,
        a replay on nodes of several kinds refuses the policy if jobs name kinds.
    gpu_parts : bool
        The policy starts jobs on parts of GPUs (`Cluster.slices_per_gpu`). Without it, a replay of
        a log with parts of GPUs refuses the policy unless ``gpu_slices`` is 1.

    Raises
    ------
    ValueError
        For a name that is not known, or a `tick` that is no period.

    Examples
    --------
    >>> orrery.Needs(actions=["Assign"], settings=["Shares"], tick=0.05)
    """

    actions: Sequence[Union[str, type]] = ()
    settings: Sequence[Union[str, type]] = ()
    tick: float = 0.0
    gpu_kinds: bool = False
    gpu_parts: bool = False

    def __post_init__(self) -> None:
        wanted = _checked(self.actions, _ACTIONS, "action")
        chosen = _checked(self.settings, _SETTINGS, "setting")
        if chosen and "Configure" not in wanted:
            wanted = tuple(name for name in _ACTIONS if name in (*wanted, "Configure"))
        if not 0 <= self.tick < math.inf:
            raise ValueError(f"tick is a period in seconds, at least 0, not {self.tick!r}")
        object.__setattr__(self, "actions", wanted)
        object.__setattr__(self, "settings", chosen)


@dataclass(frozen=True)
class Capabilities:
    """Actions and settings that a run supports for any job; ``job.can`` has those of one job.

    Attributes
    ----------
    actions, settings : frozenset of str
        Names of the classes of `orrery.actions` and `orrery.settings`.
    """

    actions: FrozenSet[str] = field(default_factory=frozenset)
    settings: FrozenSet[str] = field(default_factory=frozenset)


class Policy:
    """Base of a policy written in Python.

    Subclass it, override `observe`, and hand an instance to `orrery.simulate`, `orrery.live`,
    `orrery.jobs` or `orrery.replay`, alone or in a list beside others. It runs in this process
    while the run itself is a process of its own; an exception that it raises ends the run and
    comes out of the call. It must be deterministic: time is ``seen.now``, and randomness
    ``self.rng``. Parameters are the arguments of its own constructor. An object can be used for
    several runs, one after another: each begins with the attributes that the object had before its
    first run (see `reset`), and after a run they are as the run has left them.

    Attributes
    ----------
    cluster : Cluster
        The immutable description of the cluster; from `start` on.
    rng : numpy.random.Generator
        Seeded from the run's seed; from `start` on. Its state is saved with the policy's.
    capabilities : Capabilities
        Capabilities of the run; from the first `observe` on.
    state_version : int
        Version of the bytes that `save` returns, 0 by default. Raise it in the class when `load` no
        longer reads the bytes of an earlier `save`: a saved state of another version is refused,
        unless `convert_state` converts it.

    Examples
    --------
    >>> class Lookout(orrery.Policy):
    ...     def observe(self, seen, decisions):
    ...         for event in seen.events:
    ...             if isinstance(event, orrery.events.StepsDone):
    ...                 print(event.last, event.duration / event.count)
    """

    cluster: Cluster
    capabilities: Capabilities = Capabilities()
    state_version: int = 0
    _seed: Optional[int] = None
    _generator: Optional[np.random.Generator] = None
    #: Attributes before the first run, and the reasons why some cannot be copied.
    _before: Optional[Tuple[Dict[str, Any], Dict[str, str]]] = None

    @property
    def rng(self) -> np.random.Generator:
        """Random numbers, the same ones for the same seed of the run."""
        if self._generator is None:
            if self._seed is None:
                raise RuntimeError("a policy has random numbers from start() on")
            self._generator = np.random.Generator(np.random.PCG64(self._seed))
        return self._generator

    def needs(self) -> Needs:
        """Return the decisions of this policy, and the interval of its calls.

        Returns
        -------
        Needs
            Nothing, and only when something happens, unless overridden.
        """
        return Needs()

    def reset(self) -> None:
        """Forget earlier runs; called before each run of this object but the first.

        By default all attributes become deep copies of those that the object had before its first
        run. Override it for a policy that keeps what it has learned (``pass``), or whose attributes
        must stay the same objects.
        """
        if self._before is None:
            return
        attributes, problems = self._before
        for name, problem in problems.items():
            raise TypeError(
                f"{type(self).__name__}.{name} cannot be copied, so that another run cannot begin "
                f"as the first one did: make a new object, or override reset() ({problem})"
            )
        vars(self).clear()
        vars(self).update(copy.deepcopy(attributes), _before=(attributes, {}))

    def start(self) -> None:
        """Called once in a run, before the first `observe`; cluster and generator are there."""

    def observe(self, seen: Observation, decisions: Decisions) -> None:
        """Observe and decide; called at every instant with an event.

        Parameters
        ----------
        seen : Observation
            The present observation.
        decisions : Decisions
            Receives the decisions.
        """
        raise NotImplementedError(f"{type(self).__name__} has no observe()")

    def save(self) -> bytes:
        """Everything that decides future decisions, as bytes.

        Returns
        -------
        bytes
            Equal for equal states: a digest of it goes into recorded logs. Empty for a policy that
            keeps nothing.
        """
        return b""

    def load(self, state: bytes) -> None:
        """Restore the state that `save` returned.

        Parameters
        ----------
        state : bytes
            Of a policy made with the same arguments.
        """

    def convert_state(self, state: bytes, version: int) -> bytes:
        """Convert a state that `save` returned when `state_version` was `version`.

        Without this method a saved state of another version is refused.

        Parameters
        ----------
        state : bytes
            Of the earlier version.
        version : int
            That version.

        Returns
        -------
        bytes
            The state as `save` would return it now; `load` gets it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no convert_state()")

    # ---- called by the compiled part --------------------------------------------------------

    def _needs(self) -> Tuple[Tuple[str, ...], Tuple[str, ...], float, bool, bool]:
        # The first call of a run.
        if self._before is not None:
            self.reset()
        elif type(self).reset is Policy.reset:
            self._before = self._copied()
        else:
            self._before = {}, {}
        needs = self.needs()
        if not isinstance(needs, Needs):
            raise TypeError(f"{type(self).__name__}.needs() returns orrery.Needs, not {needs!r}")
        self._needed = {str(name) for name in (*needs.actions, *needs.settings)}
        return (
            tuple(map(str, needs.actions)),
            tuple(map(str, needs.settings)),
            float(needs.tick),
            bool(needs.gpu_kinds),
            bool(needs.gpu_parts),
        )

    def _copied(self) -> Tuple[Dict[str, Any], Dict[str, str]]:
        copied, problems = {}, {}
        for name, value in vars(self).items():
            try:
                copied[name] = copy.deepcopy(value)
            except Exception as problem:  # matters only if there is another run
                problems[name] = str(problem)
        return copied, problems

    def _offer(self, offered: Sequence[str], settable: Sequence[str]) -> None:
        self.capabilities = Capabilities(frozenset(offered), frozenset(settable))

    def _start(self, cluster: _core.Cluster, seed: int) -> None:
        self.cluster = Cluster(cluster)
        self._seed, self._generator = seed, None
        self.start()

    def _observe(self, observed: _core.Observed, sink: _core.DecisionSink) -> None:
        decisions = Decisions(sink, self._needed, type(self).__name__)
        self.observe(Observation(observed, self.cluster), decisions)

    def _save(self) -> bytes:
        own = self.save()
        if not isinstance(own, bytes):
            raise TypeError(f"{type(self).__name__}.save() returns bytes, not {type(own).__name__}")
        drawn = b""
        if self._generator is not None:
            drawn = json.dumps(self._generator.bit_generator.state, sort_keys=True).encode()
        return len(drawn).to_bytes(8, "little") + drawn + own

    def _load(self, state: bytes) -> None:
        size = int.from_bytes(state[:8], "little")
        self._generator = None
        if size > 0:
            self.rng.bit_generator.state = json.loads(state[8 : 8 + size])
        self.load(state[8 + size :])

    def _state_version(self) -> int:
        version = operator.index(self.state_version)
        if not 0 <= version < 2**32:
            raise ValueError(
                f"{type(self).__name__}.state_version is a whole number from 0 to 4294967295, "
                f"not {version}"
            )
        return version

    def _convert(self, state: bytes, version: int) -> Optional[bytes]:
        if type(self).convert_state is Policy.convert_state:
            return None
        begin = 8 + int.from_bytes(state[:8], "little")
        own = self.convert_state(state[begin:], version)
        if not isinstance(own, bytes):
            raise TypeError(
                f"{type(self).__name__}.convert_state() returns bytes, not {type(own).__name__}"
            )
        return state[:begin] + own


#: One policy: a name, ``{"name": ..., "parameters": {...}}``, or an object.
PolicyLike = Union[None, str, Mapping[str, Any], Policy]
Listed = List[Union[Policy, Tuple[str, Dict[str, str]]]]


def listed(policy: PolicyLike, policies: Optional[Sequence[PolicyLike]]) -> Optional[Listed]:
    """The policies of a call, in the order in which they are asked.

    Parameters
    ----------
    policy : str, mapping or Policy, optional
        One.
    policies : sequence, optional
        Several.

    Returns
    -------
    list or None
        Objects, and names with parameters; ``None`` if nothing was said.

    Raises
    ------
    TypeError, ValueError
        For an argument that is not a policy, or if both were given.
    """
    if isinstance(policy, (list, tuple)):
        raise TypeError("policy is one policy; several are policies=[...]")
    if policy is not None and policies is not None:
        raise ValueError("give policy or policies, not both")
    if policies is None:
        return None if policy is None else [_listed_one(policy)]
    if isinstance(policies, (str, Mapping, Policy)) or not isinstance(policies, Sequence):
        raise TypeError(f"policies are a list of policies, not {policies!r}")
    return [_listed_one(each) for each in policies]


def has_objects(policies: Listed) -> bool:
    """Whether one of them is asked in this process.

    Parameters
    ----------
    policies : list
        As `listed` returns them.

    Returns
    -------
    bool
        False if all are built-in ones.
    """
    return any(isinstance(each, Policy) for each in policies)


def _listed_one(policy: Any) -> Union[Policy, Tuple[str, Dict[str, str]]]:
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, str):
        return policy, {}
    if isinstance(policy, Mapping):
        unknown = set(policy) - {"name", "parameters"}
        if unknown or "name" not in policy:
            raise ValueError(f"a policy has a name and parameters, not {sorted(policy)}")
        parameters = policy.get("parameters") or {}
        return str(policy["name"]), {str(key): _scalar(value) for key, value in parameters.items()}
    if isinstance(policy, type) and issubclass(policy, Policy):
        return policy()
    raise TypeError(f"a policy is a name, a dict, an orrery.Policy or its class, not {policy!r}")
