"""State of a cluster at one instant, as the command ``orrery cluster kubernetes`` reads it."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Dict, List

from .objects import (
    SLOT,
    TIME_LIMIT,
    Gang,
    Node,
    Object,
    annotations_of,
    condition,
    gang_key,
    gpus_of,
    int_annotation,
    is_deleting,
    is_finished,
    is_gated,
    is_succeeded,
    labels_of,
    node_of,
    pods_per_node,
    seconds_of,
    templates_of,
)

TEMPLATE = "pod-template-hash"  #: label of pods of a Deployment: suffix of their ReplicaSet
#: Suffix that the API server generates for ``generateName``: five letters and digits of these.
GENERATED = re.compile("-[bcdfghjklmnpqrstvwxz2456789]{5}$")


def state_of(gang: Gang) -> str:
    """Return the stage of a gang.

    Returns
    -------
    str
        ``incomplete``: pods are missing. ``waiting``: the policies may place the gang. ``placing``:
        a placement is committed and not all pods are bound. ``placed``: all pods are bound.
        ``leaving``: all pods are being deleted and keep their GPUs. ``completed``, ``failed``: the
        gang is over.
    """
    if gang.workload is not None:
        finished = condition(gang.workload, "Finished")
        if finished:
            return "failed" if "fail" in str(finished.get("reason", "")).lower() else "completed"
    live = gang.live
    ending = [pod for pod in gang.pods if is_deleting(pod) and not is_finished(pod)]
    if not live and any(node_of(pod) for pod in ending):
        return "leaving"
    if gang.pods and not live and all(is_finished(pod) for pod in gang.pods):
        failed = any(pod["status"]["phase"] == "Failed" for pod in gang.pods)
        return "failed" if failed else "completed"
    return state_of_live(gang, live)


def state_of_live(gang: Gang, live: List[Object]) -> str:
    """Return the stage of a gang that is neither over nor leaving."""
    bound = [pod for pod in live if node_of(pod)]
    done = sum(is_succeeded(pod) for pod in gang.pods)
    if not gang.is_managed or gang.problem:
        return "placed" if bound else "incomplete"
    if gang.placement is not None:
        return "placed" if live and len(bound) + done >= gang.size else "placing"
    if bound:  # the scheduler or an operator has started it, without a decision
        return "placed"
    if gang.workload is not None:
        return "waiting" if is_answer_due(gang) else "incomplete"
    gates = {is_gated(pod) for pod in live}
    foreign = any(len(pod["spec"].get("schedulingGates") or []) > is_gated(pod) for pod in live)
    complete = len(live) == gang.size and len(gates) == 1 and not foreign
    return "waiting" if complete else "incomplete"


def is_answer_due(gang: Gang) -> bool:
    """Return true if Kueue has reserved quota for the gang and waits for this controller."""
    workload = gang.workload
    assert workload is not None
    if condition(workload, "QuotaReserved") is None or condition(workload, "Evicted"):
        return False
    states = (workload.get("status") or {}).get("admissionChecks") or []
    return any(each["name"] == gang.check and each["state"] == "Pending" for each in states)


def nodes_of(gang: Gang) -> List[str]:
    """Return the node of each pod: those of the placement, or those of the bound pods."""
    placement = gang.placement if gang.is_managed and not gang.problem else None
    if placement is not None:  # pods that have succeeded leave their GPUs to the gang
        return sorted(placement.nodes)
    kept = [pod for pod in gang.pods if not is_finished(pod) or is_succeeded(pod)]
    pods = kept if gang.is_managed and not gang.problem else gang.live
    return sorted(node_of(pod) for pod in pods if node_of(pod))


def used_gpus(gang: Gang, state: str) -> Dict[str, int]:
    """Return the GPUs of each node that the pods or the committed placement of a gang use.

    GPUs of pods that are being deleted count as free: the scheduler waits for the end of these
    pods.

    Parameters
    ----------
    gang : Gang
        The gang.
    state : str
        Its stage, see :func:`state_of`.
    """
    bound: Counter[str] = Counter()
    for pod in gang.pods:
        if node_of(pod) and not is_finished(pod) and not is_deleting(pod):
            bound[node_of(pod)] += gpus_of(pod["spec"])
    if state == "placing" and gang.placement is not None:
        committed = Counter(gang.placement.nodes)
        bound |= Counter({node: n * gang.gpus_per_pod for node, n in committed.items()})
    return dict(bound)


def is_unreleased(gang: Gang, state: str) -> bool:
    """Return true if a pod of a placed gang has neither a node nor a slot yet."""
    if state != "placing" or gang.problem or not gang.is_managed:
        return False
    return any(not node_of(pod) and SLOT not in annotations_of(pod) for pod in gang.live)


def is_unbound(gang: Gang, state: str) -> bool:
    """Return true if a pod of a placed gang has a slot, and kube-scheduler has not bound it yet."""
    if state != "placing" or gang.problem or not gang.is_managed:
        return False
    return any(is_slot_open(pod) for pod in gang.live)


def is_slot_open(pod: Object) -> bool:
    """Return true if a pod has a slot and no node."""
    return not node_of(pod) and SLOT in annotations_of(pod)


def submission_of(gang: Gang) -> int:
    """Return the instant of submission in seconds since 1970: that of the oldest object."""
    things = [gang.workload] if gang.workload is not None else gang.pods
    return min(seconds_of(each["metadata"].get("creationTimestamp")) for each in things)


def limit_of(gang: Gang) -> int:
    """Return the longest duration that the objects state, in seconds; 0 for none."""
    if gang.workload is not None:
        limit = gang.workload["spec"].get("maximumExecutionTimeSeconds")
    else:
        limit = gang.pods[0]["spec"].get("activeDeadlineSeconds")
    return int_annotation(templates_of(gang)[0], TIME_LIMIT, int(limit or 0))


def name_of(gang: Gang) -> str:
    """Return the name that a user gave the gang, without the suffix that Kubernetes adds.

    Gangs of several runs share it: ``train`` for the Workload of the Job ``train-x7k2p``, whose
    name was generated, and for a pod ``train-7d4b9c6f8-hq2zl`` of the Deployment ``train``.
    """
    thing = gang.workload if gang.workload is not None else gang.pods[0]
    own = str(thing["metadata"]["name"])
    group = own if gang.workload is not None else gang_key(thing)[1]
    name = GENERATED.sub("", group if group != own else owner_of(thing).get("name") or own)
    template = labels_of(thing).get(TEMPLATE)
    return name.removesuffix(f"-{template}") if template else name


def owner_of(thing: Object) -> Object:
    """Return the reference to the object that made a pod or Workload; empty without one."""
    owners = thing["metadata"].get("ownerReferences") or []
    return next((dict(owner) for owner in owners if owner.get("controller")), {})


def identity_of(gang: Gang) -> str:
    """Return the uid of the gang's owner, which stays when its pods are created anew."""
    if gang.workload is not None:
        return str(gang.workload["metadata"]["uid"])
    for pod in gang.pods:
        owner = owner_of(pod)
        if owner:
            return str(owner["uid"])
    return str(gang.pods[0]["metadata"]["uid"])


def describe_gang(gang: Gang, state: str) -> Dict[str, Any]:
    """Return one gang with its stage as the command reads it."""
    queue = gang.workload["spec"].get("queueName", "") if gang.workload is not None else ""
    is_managed = gang.is_managed and not gang.problem
    nodes = nodes_of(gang)
    return {
        "id": gang.id if gang.is_managed else f"{gang.namespace}/pod/{gang.name}",
        "uid": identity_of(gang),
        "name": name_of(gang),
        "state": state,
        "managed": is_managed,
        "submitted_s": submission_of(gang),
        "limit_s": limit_of(gang) if is_managed else 0,
        "queue": queue or gang.namespace,
        "pods": gang.size if is_managed else max(1, len(nodes)),
        "pods_per_node": pods_per_node(gang) if is_managed else 1,
        "gpus_per_pod": gang.gpus_per_pod,
        "one_rack": is_managed and gang.needs_rack,
        "nodes": nodes,
    }


def describe_node(node: Node) -> Dict[str, Any]:
    """Return one node as the command reads it."""
    return {
        "name": node.name,
        "gpus": node.gpus,
        "usable": node.is_usable,
        "rack": node.rack,
        "gpu_type": node.gpu_type,
    }
