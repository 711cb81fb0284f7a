"""Writes of placements: the only code that changes objects of users.

A placement is committed by one write with the resourceVersion of the object that was read: the
annotation ``orrery.io/placement`` of the first pod of a gang, or the state of the AdmissionCheck in
its Workload. What follows (node selectors, gates) is derived from the committed placement and is
repeated by whichever controller leads, so a controller that is killed in between leaves a gang that
its successor completes. A commit is one write alone; the writes that follow from it are sent by
several threads.
"""

from __future__ import annotations

import datetime
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Callable, Dict, List, Optional, Tuple

from .api import Api, ApiError, Conflict, Missing
from .index import Index
from .objects import (
    GANG,
    GATE,
    HOSTNAME,
    RECORD,
    RETRY,
    SLOT,
    Gang,
    Node,
    Object,
    Placement,
    annotations_of,
    check_state,
    full_name,
    gpu_pod_sets,
    is_deleting,
    is_gated,
    node_of,
    vacant_slots,
)
from .reading import is_answer_due, is_slot_open, state_of

#: Attempts for one object that others change at the same time.
ATTEMPTS = 4
#: Threads that release the pods of placed gangs.
WRITERS = 8
#: Seconds until kube-scheduler is asked again to bind a pod, first and longest: they double.
RETRY_S, LONGEST_RETRY_S = 5.0, 300.0
#: Most gangs that kube-scheduler is asked for at one reading.
RETRIES = 16


class Refused(Exception):
    """An order that was not carried out and has changed nothing; the text says why."""


class Placing:
    """Carries out the decisions about gangs. One thread calls; the pool's threads write.

    Parameters
    ----------
    api : Api
        Access to the server.
    identity : str
        Identity of this controller, part of each placement.
    may_write : callable
        Returns true while this controller leads; asked before each write, from all threads.
    on_change : callable
        Receives each object as the server has returned it after a write, from all threads, and
        shows it in ``index`` before it returns.
    on_gone : callable
        Receives each object that is gone after a write, likewise.
    index : Index
        Gangs, nodes and GPUs in use.
    clock : callable
        Monotonic clock in seconds.
    """

    def __init__(
        self,
        api: Api,
        identity: str,
        may_write: Callable[[], bool],
        on_change: Callable[[Object], None],
        on_gone: Callable[[Object], None],
        index: Index,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._identity = identity
        self._may_write = may_write
        self._on_change = on_change
        self._on_gone = on_gone
        self._index = index
        self._clock = clock
        self._retries: Dict[str, Tuple[float, float]] = {}  # instant and pause by id of a gang
        self._pool = ThreadPoolExecutor(WRITERS, thread_name_prefix="release")
        self._eviction_version = ""

    def stop(self) -> None:
        """End the threads after their current writes."""
        self._pool.shutdown(wait=False)

    # ---- placing ----------------------------------------------------------------------------

    def place_gangs(self, orders: List[Object]) -> List[str]:
        """Commit placements of waiting gangs one after the other, and release their pods.

        The pods of a gang are released while the next gangs are committed. A gang that does not
        wait, does not fit as a whole, or has changed is refused, and nothing is written for it.

        Parameters
        ----------
        orders : list of dict
            ``gang``: id; ``nodes``: name of the node of each pod.

        Returns
        -------
        list of str
            The reason why each gang was refused; empty for a placement that is committed.

        Raises
        ------
        ApiError
            If the server fails; the next reading shows which placements are committed.
        """
        writes: List[Future[bool]] = []
        try:
            return [self._place(each["gang"], list(each["nodes"]), writes) for each in orders]
        finally:
            try:
                wait_for_all(writes)
            except (ApiError, Refused):
                pass  # the gangs are placed: continue_placements() completes them

    def continue_placements(self) -> None:
        """Complete the committed placements, whoever has committed them."""
        writes: List[Future[bool]] = []
        for gang in self._index.unreleased_gangs():
            self._release(gang, writes)
        self._retry(writes)
        wait_for_all(writes)

    def _place(self, key: str, slots: List[str], writes: List[Future[bool]]) -> str:
        try:
            gang = self._find_managed(key)
            nodes = self._check_fit(gang, slots)
            placement = Placement(tuple(sorted(slots)), self._identity)
            if gang.workload is not None:
                self._commit_admission(gang, placement, nodes)
                return ""
            self._commit_record(gang, placement)
        except Refused as refused:
            return str(refused)
        placed = self._index.find_gang(key)
        if placed is not None:
            self._release(placed, writes)
        return ""

    def _release(self, gang: Gang, writes: List[Future[bool]]) -> None:
        """Give each pod of a placed gang that has no node yet a vacant slot, and open its gate.

        Pods that Kueue or a Job creates after the decision get their slots here too. Pods that are
        gone, and nodes that are gone, leave their slots vacant. Appends the writes to ``writes``.
        """
        placement = gang.placement if not gang.problem else None
        if placement is None:
            return
        pods = [pod for pod in gang.live if not node_of(pod) and SLOT not in annotations_of(pod)]
        vacant = [self._index.find_node(name) for name in vacant_slots(placement, gang.pods)]
        usable = [node for node in vacant if node is not None and node.is_usable]
        for pod, node in zip(pods, usable):
            writes.append(self._pool.submit(self._release_pod, pod, node, placement))

    def _find_managed(self, key: str) -> Gang:
        gang = self._index.find_gang(key)
        if gang is None or not gang.is_managed:
            raise Refused(f"{key}: expected a managed gang, found it gone")
        return gang

    def _check_fit(self, gang: Gang, slots: List[str]) -> Dict[str, Node]:
        """Return the nodes of ``slots`` by their names; Refused if the gang cannot be there."""
        state = state_of(gang)
        if gang.problem or state != "waiting":
            raise Refused(gang.problem or f"{gang.id}: expected a waiting gang, found it {state}")
        if len(slots) != gang.size:
            raise Refused(f"{gang.id}: expected nodes for {gang.size} pods, got {len(slots)}")
        nodes: Dict[str, Node] = {}
        for name in sorted(set(slots)):
            node = self._index.find_node(name)
            if node is None or not node.is_usable:
                raise Refused(f"{gang.id}: expected the node {name} to be usable, found it is not")
            needed = slots.count(name) * gang.gpus_per_pod
            free = self._index.free_gpus(node, without=gang.id)
            if needed > free:
                raise Refused(f"{gang.id}: needs {needed} GPUs of {name}, found {free} free")
            nodes[name] = node
        check_rack(gang, list(nodes.values()))
        return nodes

    def _commit_record(self, gang: Gang, placement: Placement) -> None:
        anchor: Optional[Object] = gang.live[0]
        path = pod_path(gang.live[0])
        for _ in range(ATTEMPTS):
            if anchor is None or is_deleting(anchor) or node_of(anchor):
                raise Refused(f"{gang.id}: expected its pod {path} to wait, found it changed")
            if RECORD in annotations_of(anchor):
                raise Refused(f"{gang.id}: another controller has placed it meanwhile")
            version = anchor["metadata"]["resourceVersion"]
            patch = {
                "metadata": {
                    "resourceVersion": version,
                    "annotations": {RECORD: placement.to_text()},
                }
            }
            try:
                self._write(path, patch)
                return
            except Conflict:
                anchor = self._read(path)
        raise Refused(f"{gang.id}: its pod {path} changes faster than it can be placed")

    def _release_pod(self, pod: Object, node: Node, placement: Placement) -> bool:
        """Pin one pod to a node and open its gate; return false if the pod is gone.

        Each pod keeps the whole placement, so that any of them may be the last one that is left.
        """
        path = pod_path(pod)
        current: Optional[Object] = pod
        for _ in range(ATTEMPTS):
            if current is None or is_deleting(current):
                return False
            if node_of(current) or SLOT in annotations_of(current):
                return True
            patch: Object = {
                "metadata": {
                    "resourceVersion": current["metadata"]["resourceVersion"],
                    "annotations": {SLOT: node.name, RECORD: placement.to_text()},
                }
            }
            if is_gated(current):
                # The server permits new keys of the node selector only while the pod is gated.
                others = [g for g in current["spec"]["schedulingGates"] if g["name"] != GATE]
                patch["spec"] = {
                    "nodeSelector": {HOSTNAME: node.hostname},
                    "schedulingGates": others or None,
                }
            try:
                self._write(path, patch)
                return True
            except Conflict:
                current = self._read(path)
            except Missing:
                return False
        raise ApiError(f"{path}: changes faster than its gate can be opened")

    def _retry(self, writes: List[Future[bool]]) -> None:
        """Change pods that kube-scheduler leaves unbound, so that it tries them again.

        An attempt that meets no extender fails, and kube-scheduler repeats it only after minutes
        unless the pod changes. Appends the writes to ``writes``.
        """
        now = self._clock()
        first = (now + RETRY_S, RETRY_S)
        self._retries = {
            key: self._retries.get(key, first) for key in self._index.unbound_gangs()
        }
        due = [key for key, (instant, _) in self._retries.items() if instant <= now]
        for key in due[:RETRIES]:
            pause = min(2 * self._retries[key][1], LONGEST_RETRY_S)
            self._retries[key] = (now + pause, pause)
            gang = self._index.find_gang(key)
            for pod in gang.live if gang is not None else []:
                if is_slot_open(pod):
                    writes.append(self._pool.submit(self._retry_pod, pod))

    def _retry_pod(self, pod: Object) -> bool:
        """Change an annotation of one pod; return false if the pod has changed meanwhile."""
        patch = {
            "metadata": {
                "resourceVersion": pod["metadata"]["resourceVersion"],
                "annotations": {RETRY: timestamp()},
            }
        }
        try:
            self._write(pod_path(pod), patch)
            return True
        except (Conflict, Missing):
            return False

    # ---- Kueue ------------------------------------------------------------------------------

    def _commit_admission(self, gang: Gang, placement: Placement, nodes: Dict[str, Node]) -> None:
        updates = pod_set_updates(gang, placement, nodes)
        racks = sorted({nodes[name].rack for name in placement.nodes} - {""})
        message = f"placed on {','.join(sorted(set(placement.nodes)))}"
        if racks:
            message += f" in {','.join(racks)}"
        self._set_check(gang, "Ready", message, updates)

    def _set_check(
        self, gang: Gang, state: str, message: str, updates: Optional[List[Object]] = None
    ) -> None:
        """Set this controller's check in a Workload; Refused if the Workload went on without."""
        workload: Optional[Object] = gang.workload
        assert workload is not None
        path = workload_path(workload)
        for _ in range(ATTEMPTS):
            is_open = workload is not None and is_answer_due(with_workload(gang, workload))
            if workload is None or (state == "Ready" and not is_open):
                raise Refused(f"{gang.id}: expected a Workload that waits, found it changed")
            checks: List[Object] = []
            for check in workload["status"]["admissionChecks"]:
                if check["name"] == gang.check:
                    check = {
                        **{key: value for key, value in check.items() if key != "podSetUpdates"},
                        "state": state,
                        "message": message,
                        "lastTransitionTime": timestamp(),
                    }
                    if updates is not None:
                        check["podSetUpdates"] = updates
                checks.append(check)
            patch = {
                "metadata": {"resourceVersion": workload["metadata"]["resourceVersion"]},
                "status": {"admissionChecks": checks},
            }
            try:
                self._write(f"{path}/status", patch)
                return
            except Conflict:
                workload = self._read(path)
        raise Refused(f"{gang.id}: its Workload changes faster than it can be placed")

    def activate_check(self, check: Object) -> None:
        """Report to Kueue that this controller serves an AdmissionCheck."""
        known = (check.get("status") or {}).get("conditions") or []
        if any(each["type"] == "Active" and each["status"] == "True" for each in known):
            return
        active = {
            "type": "Active",
            "status": "True",
            "reason": "Active",
            "message": "orrery cluster kubernetes answers this check",
            "lastTransitionTime": timestamp(),
        }
        patch = {
            "metadata": {"resourceVersion": check["metadata"]["resourceVersion"]},
            "status": {"conditions": [c for c in known if c["type"] != "Active"] + [active]},
        }
        version = check["apiVersion"]
        name = check["metadata"]["name"]
        self._write(f"/apis/{version}/admissionchecks/{name}/status", patch)

    # ---- stopping ---------------------------------------------------------------------------

    def evict(self, key: str) -> None:
        """Stop a gang so that its owner creates its pods anew, gated or waiting for admission.

        Raises
        ------
        Refused
            If the gang is gone, or a pod has no controller that would create it anew.
        ApiError
            If the server refuses, for example because of a PodDisruptionBudget.
        """
        gang = self._find_managed(key)
        if check_state(gang.workload, gang.check) is not None:
            self._set_check(gang, "Retry", "preempted by the queue policy")
            return
        for pod in gang.live:
            owners = pod["metadata"].get("ownerReferences") or []
            if not any(owner.get("controller") for owner in owners):
                raise Refused(
                    f"{gang.id}: expected a Job or another controller of {full_name(pod)} that "
                    "creates it anew, found none: an eviction would lose it"
                )
        for pod in gang.live:
            self._evict_pod(pod)

    def _evict_pod(self, pod: Object) -> None:
        metadata = pod["metadata"]
        body = {
            "apiVersion": self._version_of_evictions(),
            "kind": "Eviction",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
        }
        self._check_leadership()
        try:
            self._api.create(f"{pod_path(pod)}/eviction", body)
        except (Missing, Conflict):
            pass  # it is gone, or its name belongs to another pod
        # The GPUs of the pod are free for the next gang before the watch shows the eviction.
        left = self._read(pod_path(pod))
        if left is None or left["metadata"]["uid"] != metadata["uid"]:
            self._on_gone(pod)
        else:
            self._on_change(left)

    def _version_of_evictions(self) -> str:
        """Return the version of Eviction that the server knows: policy/v1beta1 before 1.22."""
        if not self._eviction_version:
            for each in self._api.get("/api/v1").get("resources") or []:
                if each["name"] == "pods/eviction":
                    self._eviction_version = f"{each['group']}/{each['version']}"
        return self._eviction_version or "policy/v1"

    # ---- requests ---------------------------------------------------------------------------

    def _check_leadership(self) -> None:
        if not self._may_write():
            raise Refused("another controller leads")

    def _write(self, path: str, patch: Object) -> Object:
        self._check_leadership()
        changed = self._api.patch(path, patch)
        self._on_change(changed)
        return changed

    def _read(self, path: str) -> Optional[Object]:
        try:
            return self._api.get(path)
        except Missing:
            return None


def wait_for_all(writes: List[Future[bool]]) -> None:
    """Block until all writes are over; raise the first failure, after which no write begins."""
    try:
        for each in writes:
            each.result()
    finally:
        for each in writes:
            each.cancel()
        for each in writes:
            if not each.cancelled():
                each.exception()


def check_rack(gang: Gang, nodes: List[Node]) -> None:
    """Raise Refused if a gang must be in one rack and the nodes are not."""
    if not gang.needs_rack:
        return
    racks = sorted({node.rack for node in nodes})
    if len(racks) != 1:
        raise Refused(f"{gang.id}: must be in one rack, got nodes of {', '.join(racks)}")
    labels = {node.rack_label for node in nodes}
    if gang.rack_label and labels != {gang.rack_label}:
        raise Refused(
            f"{gang.id}: must be in one domain of {gang.rack_label}, and {nodes[0].name} has its "
            f"rack from {nodes[0].rack_label or 'no label'}; name the first with --rack-label"
        )


def pod_path(pod: Object) -> str:
    """Return the path of a pod."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def workload_path(workload: Object) -> str:
    """Return the path of a Workload."""
    metadata = workload["metadata"]
    return (
        f"/apis/{workload['apiVersion']}/namespaces/{metadata['namespace']}"
        f"/workloads/{metadata['name']}"
    )


def with_workload(gang: Gang, workload: Object) -> Gang:
    """Return the gang with a newer state of its Workload."""
    return replace(gang, workload=workload)


def pod_set_updates(gang: Gang, placement: Placement, nodes: Dict[str, Node]) -> List[Object]:
    """Return the changes that Kueue makes to the pods of each pod set with GPUs.

    All pods get the placement as an annotation. A node selector holds the gang on its node if it
    has one node, and in its rack if it has one rack.
    """
    chosen = [nodes[name] for name in placement.nodes]
    selector: Dict[str, str] = {}
    racks = {(node.rack_label, node.rack) for node in chosen}
    if len({node.name for node in chosen}) == 1:
        selector = {HOSTNAME: chosen[0].hostname}
    elif len(racks) == 1 and chosen[0].rack:
        selector = {chosen[0].rack_label: chosen[0].rack}
    assert gang.workload is not None
    updates: List[Object] = []
    for part in gpu_pod_sets(gang.workload):
        update: Object = {
            "name": part["name"],
            "annotations": {RECORD: placement.to_text(), GANG: gang.name},
        }
        if selector:
            update["nodeSelector"] = selector
        updates.append(update)
    return updates


def timestamp() -> str:
    """Return the present instant as Kubernetes writes it."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
