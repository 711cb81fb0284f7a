"""Nodes, pods and Workloads for the tests of the Kubernetes controller."""

GPU = "nvidia.com/gpu"
GATE = "orrery.io/place"
POD_SPEC = {"containers": [{"name": "train", "image": "train:1",
                            "resources": {"limits": {GPU: "8"}}}]}  # fmt: skip


def node(name, rack="", gpus=8, label="fabric.topograph.run/tier-0", ready="True", **spec):
    labels = {"kubernetes.io/hostname": f"host-{name}", **({label: rack} if rack else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "allocatable": {GPU: str(gpus), "cpu": "64"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def pod(name, gang="", size=1, gpus=8, gated=True, namespace="ml", owner="job-1", node_name=""):
    """A pod of a gang; `owner`: uid of the Job that creates it anew."""
    metadata = {"name": name, "namespace": namespace, "labels": {}, "annotations": {}}
    if gang:
        metadata["labels"]["orrery.io/gang"] = gang
        metadata["annotations"]["orrery.io/gang-size"] = str(size)
    if owner:
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": owner}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    container = {"name": "train", "image": "train:1", "resources": {"limits": {GPU: str(gpus)}}}
    spec = {"containers": [container]}
    if gated:
        spec["schedulingGates"] = [{"name": GATE}]
    if node_name:
        spec["nodeName"] = node_name
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Running" if node_name else "Pending"},
    }


def gang(name, size, **more):
    """The pods of a gang."""
    return [pod(f"{name}-{i}", name, size, **more) for i in range(size)]


def workload(name, count, check="orrery", gpus=8, state="Pending", namespace="ml"):
    """A Workload whose quota Kueue has reserved."""
    container = {"name": "train", "image": "train:1", "resources": {"limits": {GPU: str(gpus)}}}
    moment = "2026-11-27T10:00:00Z"
    template = {"metadata": {}, "spec": {"containers": [container], "restartPolicy": "Never"}}
    reserved = {
        "type": "QuotaReserved",
        "status": "True",
        "reason": "QuotaReserved",
        "message": "",
        "lastTransitionTime": moment,
    }
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "queueName": "team-a",
            "podSets": [{"name": "main", "count": count, "template": template}],
        },
        "status": {
            "conditions": [reserved],
            "admissionChecks": [
                {"name": "budget", "state": "Ready", "message": "", "lastTransitionTime": moment},
                {"name": check, "state": state, "message": "", "lastTransitionTime": moment},
            ],
        },
    }


def admission_check(name="orrery"):
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "AdmissionCheck",
        "metadata": {"name": name},
        "spec": {"controllerName": GATE},
    }
