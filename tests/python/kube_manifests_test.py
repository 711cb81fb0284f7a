"""Manifests of the controller against published schemas, and its rights against its requests."""

import os
import pathlib

import pytest
from kube_objects import admission_check, gang, pod, workload
from kube_test import CHECKS, PODS, WORKLOADS, Cluster, gang_in, place, read

yaml = pytest.importorskip("yaml", reason="left out: pip install 'orrery[kubernetes]'")

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "python" / "orrery" / "kube" / "manifests").glob("*.yaml"))
THINGS = [
    pytest.param(thing, id=f"{file.stem}-{thing['kind']}-{i}")
    for file in FILES
    for i, thing in enumerate(yaml.safe_load_all(file.read_text()))
]
KUEUE = "kueue.x-k8s.io"
#: Kueue's CRDs, as parts of them or whole: a folder like config/components/crd/bases.
CRDS = os.environ.get("ORRERY_KUEUE_CRDS", ROOT / "tests" / "python" / "samples" / "kube")


@pytest.mark.parametrize("thing", THINGS)
def test_a_manifest_has_the_published_schema(thing):
    if thing["apiVersion"].startswith(KUEUE):
        return check_kueue(thing)
    if thing["apiVersion"].startswith("kubescheduler"):
        known = {"urlPrefix", "filterVerb", "prioritizeVerb", "preemptVerb", "weight",
                 "nodeCacheCapable", "ignorable", "httpTimeout", "managedResources"}  # fmt: skip
        assert set(thing["extenders"][0]) == known and thing["percentageOfNodesToScore"] == 100
        return None
    validate = pytest.importorskip("kubernetes_validate", reason="left out: kubernetes-validate")
    validate.validate(thing, "1.37", strict=True)
    return None


def check_kueue(thing):
    """Validate an object against Kueue's CRDs, whose unknown keys count as errors."""
    jsonschema = pytest.importorskip("jsonschema")
    files = pathlib.Path(CRDS).glob("*.yaml")
    for crd in (each for file in files for each in yaml.safe_load_all(file.read_text())):
        if crd["spec"]["names"]["kind"] != thing["kind"]:
            continue
        for version in crd["spec"]["versions"]:
            if thing["apiVersion"] == f"{KUEUE}/{version['name']}":
                schema = strict(version["schema"]["openAPIV3Schema"])
                schema["properties"]["metadata"] = {"type": "object"}
                return jsonschema.validate(thing, schema)
    raise AssertionError(f"no CRD of {thing['kind']} in {CRDS}")


def test_an_object_with_a_wrong_key_or_value_is_refused_by_the_schemas_of_kueue():
    jsonschema = pytest.importorskip("jsonschema")
    check_kueue(workload("w", 4))
    for wrong in (
        {**workload("w", 4), "stats": {}},
        workload("w", 4, state="Maybe"),
        {**admission_check(), "spec": {"controllerName": 3}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            check_kueue(wrong)


def strict(schema):
    """The schema with unknown keys refused, as kubectl's strict validation does."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and pattern.startswith("^(?i)"):  # Go's order
        schema["pattern"] = "(?i)^" + pattern[5:]
    if schema.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)
    return schema


@pytest.fixture
def cluster():
    cluster = Cluster()
    yield cluster
    cluster.stop()


def work_through(cluster):
    """A course with all kinds of requests."""
    cluster.put(admission_check(), workload("w", 4), *gang("a", 2), *gang("b", 1))
    controller = cluster.controller()
    gang_in(controller, "ml/w", "waiting", acts=True)
    touched = cluster.server.pod("a-0")
    touched["metadata"]["annotations"]["note"] = "x"
    queued = workload("w", 4)
    cluster.server.before_patch = [lambda: cluster.server.put(PODS, touched)]
    for name, nodes in (("ml/a", ["n5", "n6"]), ("ml/b", ["n7"])):
        assert place(controller, name, nodes) == {"refused": ""}
    cluster.server.before_patch = [lambda: cluster.put(queued)]
    assert place(controller, "ml/w", ["n1", "n2", "n3", "n4"]) == {"refused": ""}
    cluster.server.schedule()
    gang_in(controller, "ml/b", "placed")
    assert controller.answer({"evict": "ml/b"}) == {"refused": ""}
    controller._leadership._renewed_at -= 0.3  # renew once more
    read(controller)
    return controller


def test_the_rights_of_rbac_yaml_are_those_that_the_controller_uses(cluster):
    work_through(cluster)
    things = list(yaml.safe_load_all((ROOT / "python/orrery/kube/manifests/rbac.yaml").read_text()))
    rules = [
        (thing["metadata"].get("namespace", ""), rule)
        for thing in things
        if thing["kind"] in ("Role", "ClusterRole")
        for rule in thing["rules"]
    ]
    granted = {
        (verb, group, resource, namespace, name)
        for namespace, rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
    used = set()
    for verb, group, resource, namespace, name in cluster.server.asked:
        if resource == "":  # GET /apis/GROUP: discovery, permitted to every service account
            continue
        matching = {
            right
            for right in granted
            if right[:3] == (verb, group, resource)
            and right[3] in ("", namespace)
            and right[4] in ("", name)
        }
        assert matching, (verb, group, resource, namespace, name)
        used |= matching
    assert granted - used == set(), "rights without a use"


def test_the_objects_that_the_controller_writes_have_the_published_schemas(cluster):
    work_through(cluster)
    written = cluster.server.all(WORKLOADS) + cluster.server.all(CHECKS)
    validate = pytest.importorskip("kubernetes_validate", reason="left out: kubernetes-validate")
    things = cluster.server.all(PODS) + cluster.server.all("/apis/coordination.k8s.io/v1/leases")
    assert len(things) == 3 and all(pod_or_lease["metadata"] for pod_or_lease in things)
    for thing in things:
        validate.validate(thing, "1.37", strict=True)
    released = cluster.server.pod("a-0")
    assert released["spec"]["nodeSelector"] and "schedulingGates" not in released["spec"]
    assert pod("a-0")["kind"] == "Pod"
    for thing in written:
        check_kueue(thing)
