"""Facts that the objects of a Kubernetes cluster state: nodes, racks, gangs and their placements.

Pure functions of the objects as the API server sends them (dictionaries). A gang is a set of pods
that start together: the pods of one namespace with the same label ``orrery.io/gang``, or the pods
of one JobSet or Job. The annotation ``orrery.io/gang-size`` states the number of its pods.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

Object = Dict[str, Any]

GATE = "orrery.io/place"  #: scheduling gate, and the controllerName of AdmissionChecks
GANG = "orrery.io/gang"  #: label, or annotation of pods that Kueue admits: name of the gang
SIZE = "orrery.io/gang-size"  #: annotation: number of pods of the gang
PODS_PER_NODE = "orrery.io/pods-per-node"  #: annotation: pods of the gang on each node, default 1
TIME_LIMIT = "orrery.io/time-limit-seconds"  #: annotation: expected longest duration
RECORD = "orrery.io/placement"  #: annotation: the committed placement, JSON
SLOT = "orrery.io/placed-on"  #: annotation of a released pod: its node
RETRY = "orrery.io/retried"  #: annotation of a pod that is not bound in time: newest change
RACK = "orrery.io/rack"  #: annotation: "required" (all pods in one rack) or "preferred"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"  #: Kueue's: a label of nodes
GPU = "nvidia.com/gpu"  #: resource that is counted
GPU_PRODUCT = "nvidia.com/gpu.product"
HOSTNAME = "kubernetes.io/hostname"

#: Labels that name the rack of a node, the first present one counts: the domain of nodes that
#: NVLink connects (NVIDIA's topograph, its earlier name, and the label that it uses instead), the
#: switch next to the node (topograph's tier 0, and its earlier name), and a label that operators
#: set by hand.
RACK_LABELS = (
    "accelerator.topograph.run/domain",
    "network.topology.nvidia.com/accelerator",
    "nvidia.com/gpu.clique",
    "fabric.topograph.run/tier-0",
    "network.topology.nvidia.com/leaf",
    "topology.kubernetes.io/rack",
)
_GROUPS = (GANG, "jobset.sigs.k8s.io/jobset-name", "batch.kubernetes.io/job-name", "job-name")


class ObjectError(ValueError):
    """An object with an annotation or quantity that is none; the text names the object."""


@dataclass(frozen=True)
class Node:
    """A node with GPUs."""

    name: str
    hostname: str  #: value of its label kubernetes.io/hostname
    gpus: int  #: allocatable GPUs
    is_usable: bool  #: ready, not cordoned, without a taint other than that of GPU nodes
    rack: str  #: empty: no label names its rack
    rack_label: str = ""  #: label that names the rack
    gpu_type: str = ""  #: product of its GPUs as NVIDIA's operator names it; empty: not stated


@dataclass(frozen=True)
class Placement:
    """A committed placement: the node of each pod of a gang, in no order of the pods.

    For example, ``("n1", "n1", "n2")`` puts two of three pods on n1.
    """

    nodes: Tuple[str, ...]
    owner: str  #: identity of the controller that committed the placement

    def to_text(self) -> str:
        """Return the text of the annotation."""
        return json.dumps({"nodes": list(self.nodes), "owner": self.owner}, separators=(",", ":"))


@dataclass
class Gang:
    """A gang with its pods and, if Kueue admits the gang, its Workload.

    The properties are computed once: pods are added before the first use of a property.
    """

    namespace: str
    name: str
    pods: List[Object] = field(default_factory=list)  #: sorted by name, finished ones too
    workload: Optional[Object] = None
    check: str = ""  #: name of this controller's check in the Workload
    is_managed: bool = False  #: the policies decide about the gang
    problem: str = ""  #: reason why a gang of a managed namespace is not managed
    needs_rack: bool = False  #: all pods must be in one rack
    rack_label: str = ""  #: label that must name this rack; empty: any of the rack labels

    @property
    def id(self) -> str:
        """Return ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @cached_property
    def live(self) -> List[Object]:
        """Return the pods that have neither finished nor are being deleted."""
        return [pod for pod in self.pods if not is_finished(pod) and not is_deleting(pod)]

    @cached_property
    def size(self) -> int:
        """Return the number of pods that start together."""
        if self.workload is not None:
            return sum(int(part["count"]) for part in gpu_pod_sets(self.workload))
        sizes = {int_annotation(pod, SIZE, 1) for pod in self.pods}
        return max(sizes)

    @cached_property
    def gpus_per_pod(self) -> int:
        """Return the number of GPUs of each pod."""
        if self.workload is not None:
            return max(gpus_of(part["template"]["spec"]) for part in gpu_pod_sets(self.workload))
        return max(gpus_of(pod["spec"]) for pod in self.pods)

    @cached_property
    def placement(self) -> Optional[Placement]:
        """Return the committed placement; None without one."""
        state = check_state(self.workload, self.check) if self.workload is not None else None
        if state is not None:
            if state.get("state") != "Ready":
                return None
            for update in state.get("podSetUpdates") or []:
                text = (update.get("annotations") or {}).get(RECORD)
                if text:
                    return parse_placement(text, self.id)
            return None
        for pod in self.live:
            text = annotations_of(pod).get(RECORD)
            if text:
                return parse_placement(text, self.id)
        return None


def annotations_of(thing: Object) -> Dict[str, str]:
    """Return the annotations of an object."""
    return thing["metadata"].get("annotations") or {}


def labels_of(thing: Object) -> Dict[str, str]:
    """Return the labels of an object."""
    return thing["metadata"].get("labels") or {}


def full_name(thing: Object) -> str:
    """Return ``namespace/name`` of an object."""
    return f"{thing['metadata'].get('namespace', '')}/{thing['metadata']['name']}"


def int_annotation(thing: Object, key: str, default: int) -> int:
    """Return a positive number that an annotation states; ObjectError for another text."""
    text = annotations_of(thing).get(key)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10**6:
        raise ObjectError(
            f"{full_name(thing)}: annotation {key}: expected a number of 1 to 1,000,000, "
            f"found {text!r}"
        )
    return int(text)


def parse_placement(text: str, owner: str) -> Placement:
    """Return the placement of an annotation; ObjectError if it is none."""
    try:
        record = json.loads(text)
        nodes = tuple(record["nodes"])
        if not nodes or not all(isinstance(node, str) for node in nodes):
            raise ValueError("no list of nodes")
        return Placement(nodes, str(record["owner"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ObjectError(
            f"{owner}: annotation {RECORD}: expected a placement, found {text!r} ({error})"
        ) from error


def gpus_of(spec: Object) -> int:
    """Return the GPUs that a pod requests: the sum of its containers, or its largest init one."""
    together = sum([_gpus_in(each) for each in spec.get("containers") or ()])
    before = spec.get("initContainers")
    return max([together, *map(_gpus_in, before)]) if before else together


def _gpus_in(container: Object) -> int:
    resources = container.get("resources") or {}
    # An extended resource has equal requests and limits; the limit alone is enough.
    amount = (resources.get("limits") or {}).get(GPU)
    if amount is None:
        amount = (resources.get("requests") or {}).get(GPU)
    return int(amount) if amount is not None else 0


def is_finished(pod: Object) -> bool:
    """Return true if all containers of the pod have ended for good."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_succeeded(pod: Object) -> bool:
    """Return true if all containers of the pod have ended without an error."""
    return (pod.get("status") or {}).get("phase") == "Succeeded"


def is_deleting(pod: Object) -> bool:
    """Return true if the pod is being deleted; until its end it keeps its GPUs."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def node_of(pod: Object) -> str:
    """Return the name of the node to which a pod is bound; empty if it is not."""
    return pod["spec"].get("nodeName") or ""


def is_gated(pod: Object) -> bool:
    """Return true if the pod has this controller's gate."""
    return any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates") or [])


def seconds_of(timestamp: Optional[str]) -> int:
    """Return the seconds since 1970 of a Kubernetes timestamp; 0 for none."""
    if not timestamp:
        return 0
    moment = datetime.datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    return int(moment.timestamp())


def condition(thing: Object, kind: str) -> Optional[Object]:
    """Return the condition of a kind if its status is True."""
    for each in (thing.get("status") or {}).get("conditions") or []:
        if each["type"] == kind and each["status"] == "True":
            return dict(each)
    return None


def gpu_pod_sets(workload: Object) -> List[Object]:
    """Return the pod sets of a Workload whose pods request GPUs."""
    return [part for part in workload["spec"]["podSets"] if gpus_of(part["template"]["spec"]) > 0]


def check_state(workload: Optional[Object], check: str) -> Optional[Object]:
    """Return the state of a check in a Workload; None if the Workload has no such check."""
    if workload is None:
        return None
    for state in (workload.get("status") or {}).get("admissionChecks") or []:
        if state["name"] == check:
            return dict(state)
    return None


def parse_node(thing: Object, rack_labels: Sequence[str] = RACK_LABELS) -> Optional[Node]:
    """Return the facts of a node; None for a node without GPUs."""
    amount = ((thing.get("status") or {}).get("allocatable") or {}).get(GPU)
    gpus = int(amount) if amount is not None else 0
    if gpus == 0:
        return None
    spec = thing.get("spec") or {}
    taints = [
        taint
        for taint in spec.get("taints") or []
        if taint["effect"] in ("NoSchedule", "NoExecute") and taint["key"] != GPU
    ]
    found = labels_of(thing)
    label = next((each for each in rack_labels if found.get(each)), "")
    usable = not spec.get("unschedulable") and not taints and condition(thing, "Ready") is not None
    name = thing["metadata"]["name"]
    host, gpu_type = found.get(HOSTNAME, name), found.get(GPU_PRODUCT, "")
    return Node(name, host, gpus, usable, found.get(label, ""), label, gpu_type)


def gang_key(pod: Object) -> Tuple[str, str]:
    """Return namespace and name of a pod's gang; a pod of no group is a gang of its own."""
    metadata = pod["metadata"]
    name = annotations_of(pod).get(GANG)
    found = labels_of(pod)
    for label in _GROUPS:
        name = name or found.get(label)
        if name:
            return metadata["namespace"], name
    return metadata["namespace"], metadata["name"]


def is_ours(pod: Object) -> bool:
    """Return true if the pod asks for this controller: by its gate, its gang or its placement."""
    return is_gated(pod) or GANG in labels_of(pod) or RECORD in annotations_of(pod)


def find_gangs(
    pods: Iterable[Object],
    workloads: Iterable[Object],
    namespaces: Iterable[str],
    checks: Iterable[str],
    rack_labels: Sequence[str] = RACK_LABELS,
) -> Dict[str, Gang]:
    """Return all gangs with GPUs, by their ids.

    Pods and Workloads with different :func:`gang_key` never share a gang, so that the gangs of one
    key follow from the objects of this key alone.

    Parameters
    ----------
    pods : iterable of dict
        Pods of all namespaces.
    workloads : iterable of dict
        Kueue's Workloads.
    namespaces : iterable of str
        Managed namespaces.
    checks : iterable of str
        Names of the AdmissionChecks of this controller.
    rack_labels : sequence of str
        Labels that may name the rack of a node.

    Returns
    -------
    dict of str to Gang
        Gangs in managed namespaces that ask for this controller, and one gang that is not managed
        for each other pod that is bound to a node.
    """
    managed, ours = set(namespaces), set(checks)
    gangs: Dict[str, Gang] = {}
    for workload in workloads:
        add_workload(gangs, workload, managed, ours)
    for pod in sorted(pods, key=full_name):
        if gpus_of(pod["spec"]) == 0:
            continue
        namespace, name = gang_key(pod)
        known = gangs.get(f"{namespace}/{name}")
        if namespace in managed and (is_ours(pod) or (known and known.workload is not None)):
            gang = gangs.setdefault(f"{namespace}/{name}", Gang(namespace, name, is_managed=True))
        elif node_of(pod):
            name = pod["metadata"]["name"]
            gang = gangs.setdefault(f"pod:{namespace}/{name}", Gang(namespace, name))
        else:
            continue
        gang.pods.append(pod)
    for gang in gangs.values():
        check_gang(gang, rack_labels)
    return gangs


def add_workload(
    gangs: Dict[str, Gang], workload: Object, managed: Iterable[str], checks: Iterable[str]
) -> None:
    """Add the gang of a Workload that waits for, or has, an answer of this controller."""
    metadata = workload["metadata"]
    if metadata["namespace"] not in managed or not gpu_pod_sets(workload):
        return
    for check in checks:
        if check_state(workload, check) is not None:
            gang = Gang(metadata["namespace"], metadata["name"], [], workload, check, True)
            gangs[gang.id] = gang
            return


def check_gang(gang: Gang, rack_labels: Sequence[str] = RACK_LABELS) -> None:
    """Set the requirement of a rack, and the problem of a gang that cannot be placed as one."""
    if not gang.is_managed:
        return
    try:
        if gang.workload is not None:
            shapes = {gpus_of(part["template"]["spec"]) for part in gpu_pod_sets(gang.workload)}
        else:
            shapes = {gpus_of(pod["spec"]) for pod in gang.pods}
            sizes = {int_annotation(pod, SIZE, 1) for pod in gang.pods}
            if len(sizes) > 1:
                raise ObjectError(f"{gang.id}: its pods state different {SIZE}: {sorted(sizes)}")
            if len(gang.live) > max(sizes):
                raise ObjectError(
                    f"{gang.id}: expected {max(sizes)} pods, found {len(gang.live)}: set the "
                    f"annotation {SIZE} of each pod to their number"
                )
        if len(shapes) > 1:
            raise ObjectError(f"{gang.id}: its pods request different GPUs: {sorted(shapes)}")
        per_node = pods_per_node(gang)
        if gang.size % per_node != 0:
            raise ObjectError(
                f"{gang.id}: annotation {PODS_PER_NODE}: expected a divisor of {gang.size}, "
                f"found {per_node}"
            )
        gang.needs_rack, gang.rack_label = required_rack(gang, rack_labels)
        for each in templates_of(gang):
            int_annotation(each, TIME_LIMIT, 1)
        gang.placement  # noqa: B018  a broken record is a problem of the gang
    except ObjectError as error:
        gang.problem = str(error)


def pods_per_node(gang: Gang) -> int:
    """Return the number of pods of the gang on each of its nodes."""
    return max((int_annotation(each, PODS_PER_NODE, 1) for each in templates_of(gang)), default=1)


def required_rack(gang: Gang, rack_labels: Sequence[str]) -> Tuple[bool, str]:
    """Return whether a gang must be in one rack, and the label that must name this rack.

    The label is empty if any of ``rack_labels`` may name the rack.

    Raises
    ------
    ObjectError
        If an annotation has an unknown value, or requires the domain of another label.
    """
    labels = {annotations_of(each).get(REQUIRED_TOPOLOGY, "") for each in templates_of(gang)}
    if gang.workload is not None:
        requests = (part.get("topologyRequest") or {} for part in gpu_pod_sets(gang.workload))
        labels |= {request.get("required") or "" for request in requests}
    for label in sorted(labels - {""}):
        if label not in rack_labels:
            raise ObjectError(
                f"{gang.id}: {REQUIRED_TOPOLOGY}: expected a label that names racks, found "
                f"{label}; name it with --rack-label, or remove the annotation"
            )
        return True, label
    words = {annotations_of(each).get(RACK, "preferred") for each in templates_of(gang)}
    for word in sorted(words - {"preferred", "required"}):
        raise ObjectError(
            f"{gang.id}: annotation {RACK}: expected required or preferred, found {word!r}"
        )
    return "required" in words, ""


def templates_of(gang: Gang) -> List[Object]:
    """Return the pods of a gang, or the templates of its pods in its Workload."""
    if gang.workload is None:
        return gang.pods
    place = {key: gang.workload["metadata"][key] for key in ("namespace", "name")}
    return [
        {"metadata": {**(part["template"].get("metadata") or {}), **place}}
        for part in gpu_pod_sets(gang.workload)
    ]


def vacant_slots(placement: Placement, pods: Iterable[Object]) -> List[str]:
    """Return the nodes of a placement that no pod of the gang holds, in the placement's order.

    A pod holds a slot if it is bound to the node, or if it was released for the node. For example,
    a placement (n1, n1, n2) with one pod on n1 has the vacant slots n1 and n2.
    """
    vacant = list(placement.nodes)
    for pod in pods:
        if is_finished(pod):
            continue
        node = node_of(pod) or annotations_of(pod).get(SLOT, "")
        if node in vacant:
            vacant.remove(node)
    return vacant
