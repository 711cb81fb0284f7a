"""Writes of placements: the only code that changes objects of users.

A placement is committed by one write with the resourceVersion of the object that was read: the
annotation ``orrery.io/placement`` of the first pod of a gang, or the state of the AdmissionCheck in
its Workload. What follows (node selectors, gates) is derived from the committed placement and is
repeated by whichever controller leads, so a controller that is killed in between leaves a gang that
its successor completes.
"""

from __future__ import annotations

import datetime
from typing import Callable, Dict, List, Optional

from .api import Api, ApiError, Conflict, Missing
from .objects import (
    GANG,
    GATE,
    HOSTNAME,
    RECORD,
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
from .reading import is_answer_due, state_of, used_gpus

#: Attempts for one object that others change at the same time.
ATTEMPTS = 4


class Refused(Exception):
    """An order that was not carried out and has changed nothing; the text says why."""


class Placing:
    """Carries out the decisions about gangs. One thread.

    Parameters
    ----------
    api : Api
        Access to the server.
    identity : str
        Identity of this controller, part of each placement.
    may_write : callable
        Returns true while this controller leads; asked before each write.
    on_change : callable
        Receives each object as the server has returned it after a write.
    """

    def __init__(
        self,
        api: Api,
        identity: str,
        may_write: Callable[[], bool],
        on_change: Callable[[Object], None],
    ) -> None:
        self._api = api
        self._identity = identity
        self._may_write = may_write
        self._on_change = on_change

    # ---- placing ----------------------------------------------------------------------------

    def place(
        self, gang: Gang, slots: List[str], nodes: Dict[str, Node], gangs: Dict[str, Gang]
    ) -> None:
        """Commit a placement of a waiting gang, and release its pods.

        Parameters
        ----------
        gang : Gang
            The gang.
        slots : list of str
            Name of the node of each pod.
        nodes : dict of str to Node
            All nodes with GPUs.
        gangs : dict of str to Gang
            All gangs, whose GPUs are in use.

        Raises
        ------
        Refused
            If the gang does not wait, does not fit as a whole, or has changed; nothing is written.
        ApiError
            If the server fails; the next reading shows whether the placement is committed.
        """
        self._check_fit(gang, slots, nodes, gangs)
        placement = Placement(tuple(sorted(slots)), self._identity)
        if gang.workload is not None:
            self._commit_admission(gang, placement, nodes)
        else:
            self._commit_record(gang, placement)
            try:
                self.release(gang, placement, nodes)
            except (ApiError, Refused):
                return  # the gang is placed: continue_placements() completes it

    def release(self, gang: Gang, placement: Placement, nodes: Dict[str, Node]) -> None:
        """Give each pod of a placed gang that has no node yet a vacant slot, and open its gate.

        Pods that Kueue or a Job creates after the decision get their slots here too. Pods that are
        gone, and nodes that are gone, leave their slots vacant.
        """
        vacant = vacant_slots(placement, gang.pods)
        for pod in gang.live:
            if node_of(pod) or SLOT in annotations_of(pod) or not vacant:
                continue
            node = nodes.get(vacant[0])
            if node is None or not node.is_usable:
                continue
            if self._release_pod(pod, node, placement):
                vacant.pop(0)

    def continue_placements(self, gangs: Dict[str, Gang], nodes: Dict[str, Node]) -> None:
        """Complete the committed placements, whoever has committed them."""
        for gang in gangs.values():
            if not gang.is_managed or gang.problem:
                continue
            placement = gang.placement
            if placement is not None and state_of(gang) == "placing":
                self.release(gang, placement, nodes)

    def _check_fit(
        self, gang: Gang, slots: List[str], nodes: Dict[str, Node], gangs: Dict[str, Gang]
    ) -> None:
        state = state_of(gang)
        if gang.problem or state != "waiting":
            raise Refused(gang.problem or f"{gang.id}: expected a waiting gang, found it {state}")
        if len(slots) != gang.size:
            raise Refused(f"{gang.id}: expected nodes for {gang.size} pods, got {len(slots)}")
        used = used_gpus(gangs.values(), without=gang.id)
        for name in sorted(set(slots)):
            node = nodes.get(name)
            if node is None or not node.is_usable:
                raise Refused(f"{gang.id}: expected the node {name} to be usable, found it is not")
            needed = slots.count(name) * gang.gpus_per_pod
            free = node.gpus - used.get(name, 0)
            if needed > free:
                raise Refused(f"{gang.id}: needs {needed} GPUs of {name}, found {free} free")

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
                self._replace_pod(gang, self._write(path, patch))
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
                gang.workload = self._write(f"{path}/status", patch)
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

    def evict(self, gang: Gang) -> None:
        """Stop a gang so that its owner creates its pods anew, gated or waiting for admission.

        Raises
        ------
        Refused
            If a pod has no controller that would create it anew.
        ApiError
            If the server refuses, for example because of a PodDisruptionBudget.
        """
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
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
        }
        self._check_leadership()
        try:
            self._api.create(f"{pod_path(pod)}/eviction", body)
        except (Missing, Conflict):
            return  # it is gone, or its name belongs to another pod

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

    @staticmethod
    def _replace_pod(gang: Gang, changed: Object) -> None:
        uid = changed["metadata"]["uid"]
        gang.pods = [changed if pod["metadata"]["uid"] == uid else pod for pod in gang.pods]


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
    return Gang(gang.namespace, gang.name, gang.pods, workload, gang.check, gang.is_managed)


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
