"""Gangs and nodes of a cluster, kept up to date by the changes of the mirrored collections.

A change of an object costs time in proportion to the objects of its gang: the gangs of its key are
derived again at the next question, and the GPUs in use are running sums. The derivation is
:func:`orrery.kube.objects.find_gangs` of the objects of one key.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Set

from .objects import (
    GATE,
    RACK_LABELS,
    Gang,
    Node,
    Object,
    find_gangs,
    full_name,
    gang_key,
    gpus_of,
    parse_node,
)
from .reading import (
    describe_gang,
    describe_node,
    is_unbound,
    is_unreleased,
    state_of,
    used_gpus,
)


@dataclass(frozen=True)
class _Derived:
    """A gang and the facts that follow from it."""

    gang: Gang
    used: Dict[str, int]  #: GPUs in use by node
    shown: Dict[str, Any]  #: description for the command
    is_unreleased: bool
    is_unbound: bool


class Index:
    """Gangs by their keys, nodes by their names, and GPUs in use. Thread-safe.

    Gangs and nodes that methods return are snapshots: a later change makes new objects.

    Parameters
    ----------
    namespaces : sequence of str
        Managed namespaces.
    rack_labels : sequence of str
        Labels that may name the rack of a node.
    """

    def __init__(
        self, namespaces: Sequence[str], rack_labels: Sequence[str] = RACK_LABELS
    ) -> None:
        self._namespaces = list(namespaces)
        self._rack_labels = tuple(rack_labels)
        self._lock = threading.RLock()
        self._pods: Dict[str, Dict[str, Object]] = {}  # keys of gangs, then uids
        self._workloads: Dict[str, Object] = {}  # keys of gangs
        self._checks: Dict[str, Object] = {}  # names
        self._nodes: Dict[str, Node] = {}
        self._dirty: Set[str] = set()
        self._derived: Dict[str, Dict[str, _Derived]] = {}  # keys, then gangs
        self._used: Counter[str] = Counter()
        self._unreleased: Set[str] = set()
        self._unbound: Set[str] = set()
        self._problems: Dict[str, str] = {}  # keys are those of gangs
        self._shown: Dict[str, Dict[str, Any]] = {}  # descriptions by id
        self._changed: Set[str] = set()  # ids of gangs since the newest reading
        self._have_nodes_changed = True
        self._version = 0

    # ---- changes ----------------------------------------------------------------------------

    def change_pod(self, old: Optional[Object], new: Optional[Object]) -> None:
        """Replace a pod; None stands for a pod that was not, or is no longer, there."""
        with self._lock:
            if old is not None:
                key = _key_of(old)
                members = self._pods.get(key, {})
                if members.pop(old["metadata"]["uid"], None) is not None:
                    self._dirty.add(key)
                if not members:
                    self._pods.pop(key, None)
            if new is not None and gpus_of(new["spec"]) > 0:
                key = _key_of(new)
                self._pods.setdefault(key, {})[new["metadata"]["uid"]] = new
                self._dirty.add(key)

    def change_workload(self, old: Optional[Object], new: Optional[Object]) -> None:
        """Replace a Workload; None as in :meth:`change_pod`."""
        with self._lock:
            if old is not None:
                self._dirty.add(full_name(old))
                self._workloads.pop(full_name(old), None)
            if new is not None:
                self._dirty.add(full_name(new))
                self._workloads[full_name(new)] = new

    def change_check(self, old: Optional[Object], new: Optional[Object]) -> None:
        """Replace an AdmissionCheck; None as in :meth:`change_pod`."""
        with self._lock:
            before = set(self._checks)
            if old is not None:
                self._checks.pop(old["metadata"]["name"], None)
            if new is not None and new["spec"].get("controllerName") == GATE:
                self._checks[new["metadata"]["name"]] = new
            if before != set(self._checks):
                self._dirty.update(self._workloads)

    def change_node(self, old: Optional[Object], new: Optional[Object]) -> None:
        """Replace a node; None as in :meth:`change_pod`."""
        with self._lock:
            name = (new or old or {})["metadata"]["name"]
            node = parse_node(new, self._rack_labels) if new is not None else None
            if node == self._nodes.get(name):
                return
            self._have_nodes_changed = True
            if node is None:
                del self._nodes[name]
            else:
                self._nodes[name] = node

    def derive_all(self) -> None:
        """Derive the gangs whose objects have changed; a question does so, too."""
        with self._lock:
            for key in list(self._dirty):
                self._derive(key)

    # ---- questions --------------------------------------------------------------------------

    def checks(self) -> List[Object]:
        """Return the AdmissionChecks of this controller."""
        with self._lock:
            return list(self._checks.values())

    def find_node(self, name: str) -> Optional[Node]:
        """Return the node with GPUs of this name; None if it does not exist."""
        with self._lock:
            return self._nodes.get(name)

    def find_gang(self, key: str) -> Optional[Gang]:
        """Return the managed gang ``namespace/name``; None if it does not exist."""
        with self._lock:
            self._derive(key)
            found = self._derived.get(key, {}).get(key)
            return found.gang if found is not None else None

    def free_gpus(self, node: Node, without: str = "") -> int:
        """Return the GPUs of a node that no gang uses; those of the gang ``without`` count."""
        with self._lock:
            self.derive_all()
            own = self._derived.get(without, {}).get(without)
            mine = own.used.get(node.name, 0) if own is not None else 0
            return node.gpus - self._used[node.name] + mine

    def unreleased_gangs(self) -> List[Gang]:
        """Return the placed gangs with a pod that has no slot yet, by their ids."""
        with self._lock:
            self.derive_all()
            return [self._derived[key][key].gang for key in sorted(self._unreleased)]

    def unbound_gangs(self) -> List[str]:
        """Return the ids of placed gangs with a pod that has a slot and no node yet."""
        with self._lock:
            self.derive_all()
            return sorted(self._unbound)

    def read_changes(self, since: int) -> Object:
        """Return the state of the cluster, or its changes, as the command reads it.

        Parameters
        ----------
        since : int
            ``version`` of the newest answer that the command has; 0 for none.

        Returns
        -------
        dict
            ``version``; ``full``: true if ``gangs`` are all gangs, otherwise those that have
            changed; ``gone``: ids of gangs that are gone; ``nodes``: all nodes, None if none has
            changed; ``problems``: all problems.
        """
        with self._lock:
            self.derive_all()
            is_full = since == 0 or since != self._version
            ids = set(self._shown) if is_full else self._changed
            with_nodes = is_full or self._have_nodes_changed
            self._version += 1
            self._changed, self._have_nodes_changed = set(), False
            nodes = (describe_node(self._nodes[name]) for name in sorted(self._nodes))
            return {
                "version": self._version,
                "full": is_full,
                "nodes": list(nodes) if with_nodes else None,
                "gangs": [self._shown[key] for key in sorted(ids) if key in self._shown],
                "gone": sorted(key for key in ids if key not in self._shown),
                "problems": sorted(self._problems.values()),
            }

    # ---- derivation -------------------------------------------------------------------------

    def _derive(self, key: str) -> None:
        """Derive the gangs of one key again if an object of the key has changed."""
        if key not in self._dirty:
            return
        workload = self._workloads.get(key)
        gangs = find_gangs(
            self._pods.get(key, {}).values(),
            [workload] if workload is not None else [],
            self._namespaces,
            self._checks,
            self._rack_labels,
        )
        after = {name: derive(gang) for name, gang in gangs.items()}
        before = self._derived.pop(key, {})
        for name, each in before.items():
            self._forget(name, each)
        if after:
            self._derived[key] = after
        for name, each in after.items():
            self._store(name, each)
        for name in {*before, *after}:
            old, new = before.get(name), after.get(name)
            if old is None or new is None or old.shown != new.shown:
                self._changed.update(each.shown["id"] for each in (old, new) if each is not None)
        self._dirty.remove(key)

    def _forget(self, name: str, before: _Derived) -> None:
        self._used.subtract(before.used)
        self._unreleased.discard(name)
        self._unbound.discard(name)
        self._problems.pop(name, None)
        id = before.shown["id"]
        # A pod that has moved to another key may have been stored there already.
        if self._shown.get(id) is before.shown:
            del self._shown[id]

    def _store(self, name: str, after: _Derived) -> None:
        self._used.update(after.used)
        if after.is_unreleased:
            self._unreleased.add(name)
        if after.is_unbound:
            self._unbound.add(name)
        if after.gang.problem:
            self._problems[name] = after.gang.problem
        id = after.shown["id"]
        self._shown[id] = after.shown


def derive(gang: Gang) -> _Derived:
    """Return a gang with the facts that follow from it."""
    state = state_of(gang)
    return _Derived(
        gang,
        used_gpus(gang, state),
        describe_gang(gang, state),
        is_unreleased(gang, state),
        is_unbound(gang, state),
    )


def _key_of(pod: Object) -> str:
    return "/".join(gang_key(pod))
