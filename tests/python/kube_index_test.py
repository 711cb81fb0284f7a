"""The index of gangs of orrery cluster kubernetes beside the derivation from all objects."""

import copy
import os
import random
import threading

import pytest
from kube_objects import admission_check, gang, node, pod, workload

pytest.importorskip("kubernetes", reason="left out: pip install 'orrery[kubernetes]'")

from orrery.kube.index import Index, derive  # noqa: E402
from orrery.kube.objects import RECORD, SLOT, Placement, find_gangs, parse_node  # noqa: E402
from orrery.kube.reading import describe_node  # noqa: E402

SEED = int(os.environ.get("ORRERY_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
NAMES = [f"n{i}" for i in range(1, 7)]


class Objects:
    """Objects of a cluster that change at random, and an index that is told of each change."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.index = Index(["ml"])
        self.things = {"pod": {}, "workload": {}, "check": {}, "node": {}}
        self.made = 0

    def replace(self, kind, uid, new):
        """Replace, add (no object before) or remove (`new` is None) an object."""
        old = self.things[kind].pop(uid, None)
        if new is not None:
            self.things[kind][uid] = new
        getattr(self.index, f"change_{kind}")(old, new)

    def make(self, kind):
        draw, self.made = self.random, self.made + 1
        if kind == "pod":
            name, group = f"p{self.made}", draw.choice(["", "a", "b", "w1", "w2"])
            thing = pod(name, group, draw.choice([1, 2, 3]), gpus=draw.choice([0, 4, 8]),
                        gated=draw.random() < 0.7, namespace=draw.choice(["ml", "ml", "else"]),
                        node_name=draw.choice(["", "", *NAMES]))  # fmt: skip
        elif kind == "workload":
            name = draw.choice(["w1", "w2"])
            if any(w["metadata"]["name"] == name for w in self.things["workload"].values()):
                return None
            thing = workload(name, draw.choice([1, 2]), draw.choice(["orrery", "other"]))
        elif kind == "check":
            if self.things["check"]:
                return None
            thing = admission_check()
        else:
            names = {n["metadata"]["name"] for n in self.things["node"].values()}
            name = draw.choice(NAMES)
            if name in names:
                return None
            thing = node(name, draw.choice(["", "r1", "r2"]), gpus=draw.choice([0, 8]))
        thing["metadata"].update(uid=f"uid-{self.made}", creationTimestamp="2026-11-27T10:00:00Z")
        return thing

    def edit(self, kind, thing):
        """A changed copy of an object."""
        draw, thing = self.random, copy.deepcopy(thing)
        if kind == "pod":
            annotations = thing["metadata"]["annotations"]
            record = Placement(tuple(draw.sample(NAMES, 2)), "me").to_text()
            edits = [
                lambda: thing["status"].update(
                    phase=draw.choice(["Pending", "Running", "Succeeded", "Failed"])
                ),
                lambda: thing["spec"].update(nodeName=draw.choice(["", *NAMES])),
                lambda: thing["spec"].pop("schedulingGates", None),
                lambda: thing["metadata"].update(deletionTimestamp="2026-11-27T11:00:00Z"),
                lambda: thing["metadata"]["labels"].update(
                    {"orrery.io/gang": draw.choice(["a", "b", "w1"])}
                ),
                lambda: annotations.update({RECORD: draw.choice([record, "{", record])}),
                lambda: annotations.update({SLOT: draw.choice(NAMES)}),
                lambda: annotations.update(
                    {"orrery.io/rack": draw.choice(["required", "preferred", "both"])}
                ),
                lambda: annotations.update(
                    {"orrery.io/time-limit-seconds": draw.choice(["60", "soon"])}
                ),
                lambda: annotations.update({"note": "x"}),
            ]
            draw.choice(edits)()
        elif kind == "workload":
            state = thing["status"]["admissionChecks"][1]
            state["state"] = draw.choice(["Pending", "Ready", "Retry"])
            record = Placement((draw.choice(NAMES),), "me").to_text()
            state["podSetUpdates"] = [{"name": "main", "annotations": {RECORD: record}}]
        elif kind == "node":
            thing["spec"]["unschedulable"] = draw.random() < 0.5
        return thing

    def change(self):
        kind = self.random.choice(["pod"] * 6 + ["workload", "node", "node", "check"])
        known = self.things[kind]
        uid = self.random.choice(sorted(known)) if known else None
        action = self.random.choice(["add", "edit", "edit", "edit", "remove"])
        if action == "add" or uid is None:
            new = self.make(kind)
            if new is not None:
                self.replace(kind, new["metadata"]["uid"], new)
        elif action == "remove":
            self.replace(kind, uid, None)
        else:
            self.replace(kind, uid, self.edit(kind, known[uid]))

    def derive(self):
        """All gangs, derived from all objects, with the facts of each."""
        checks = [c["metadata"]["name"] for c in self.things["check"].values()]
        pods, workloads = self.things["pod"].values(), self.things["workload"].values()
        found = find_gangs(pods, workloads, ["ml"], checks)
        return {name: derive(each) for name, each in found.items()}


def by_id(gangs):
    return {each["id"]: each for each in gangs}


def test_the_index_equals_the_derivation_from_all_objects_after_any_changes():
    print(f"ORRERY_SEED={SEED}")
    objects, seen, version = Objects(SEED), {}, 0
    states, problems, racks = set(), set(), 0
    for turn in range(1500):
        for _ in range(objects.random.randrange(1, 4)):
            objects.change()
        if turn % 7 == 3:  # one gang is asked for between two readings
            key = objects.random.choice(["ml/a", "ml/b", "ml/w1"])
            found, wanted = objects.index.find_gang(key), objects.derive().get(key)
            assert found == (wanted.gang if wanted else None), turn
            continue
        derived = objects.derive()
        reading = objects.index.read_changes(version if turn % 50 else 0)
        assert reading["full"] == (turn % 50 == 0 or version == 0), turn
        version = reading["version"]
        seen = {} if reading["full"] else seen
        seen.update(by_id(reading["gangs"]))
        for gone in reading["gone"]:
            seen.pop(gone, None)  # some come and go between two readings
        assert seen == by_id(each.shown for each in derived.values()), turn
        assert reading["problems"] == sorted(
            each.gang.problem for each in derived.values() if each.gang.problem
        )
        nodes = [parse_node(each) for each in objects.things["node"].values()]
        nodes = sorted((each for each in nodes if each), key=lambda each: each.name)
        if reading["nodes"] is not None:
            assert reading["nodes"] == [describe_node(each) for each in nodes]
        for each in nodes:
            used = sum(other.used.get(each.name, 0) for other in derived.values())
            assert objects.index.free_gpus(each) == each.gpus - used, turn
        assert [each.id for each in objects.index.unreleased_gangs()] == sorted(
            name for name, each in derived.items() if each.is_unreleased
        )
        assert objects.index.unbound_gangs() == sorted(
            name for name, each in derived.items() if each.is_unbound
        )
        states |= {each["state"] for each in seen.values()}
        problems |= set(reading["problems"])
        racks += sum(each["one_rack"] for each in seen.values())
    assert len(states) >= 6, states
    assert len(problems) > 5 and racks > 0


def test_a_reading_after_changes_has_the_changed_gangs_and_nodes_alone():
    index = Index(["ml"])
    members = [each for name in "abc" for each in gang(name, 2)]
    for number, each in enumerate(members):
        each["metadata"].update(uid=f"u{number}", creationTimestamp="2026-11-27T10:00:00Z")
        index.change_pod(None, each)
    index.change_node(None, node("n1"))
    first = index.read_changes(0)
    assert first["full"] and [g["id"] for g in first["gangs"]] == ["ml/a", "ml/b", "ml/c"]
    noted = copy.deepcopy(members[0])
    noted["metadata"]["annotations"]["note"] = "x"
    index.change_pod(members[0], noted)
    index.change_node(node("n1"), node("n1"))
    second = index.read_changes(first["version"])
    assert not second["full"] and second["gangs"] == [] and second["nodes"] is None
    index.change_pod(noted, None)
    for each in members[2:4]:
        index.change_pod(each, None)
    third = index.read_changes(second["version"])
    assert [g["id"] for g in third["gangs"]] == ["ml/a"] and third["gone"] == ["ml/b"]
    assert index.read_changes(first["version"])["full"], "the command has not seen all changes"


def test_a_required_rack_is_read_from_each_annotation_and_an_unknown_one_is_a_problem():
    def shown(annotation, value, size=2):
        index = Index(["ml"])
        for number, each in enumerate(gang("a", size)):
            each["metadata"].update(uid=f"u{number}", creationTimestamp="2026-11-27T10:00:00Z")
            each["metadata"]["annotations"][annotation] = value
            index.change_pod(None, each)
        reading = index.read_changes(0)
        return reading["gangs"][0]["one_rack"], "".join(reading["problems"])

    kueue = "kueue.x-k8s.io/podset-required-topology"
    assert shown("orrery.io/rack", "required") == (True, "")
    assert shown("orrery.io/rack", "preferred") == (False, "")
    assert shown(kueue, "topology.kubernetes.io/rack") == (True, "")
    needs, problem = shown("orrery.io/rack", "always")
    assert not needs and "expected required or preferred, found 'always'" in problem
    needs, problem = shown(kueue, "cloud.provider.com/topology-block")
    assert not needs and "--rack-label" in problem
    wanted = workload("w", 2)
    wanted["spec"]["podSets"][0]["topologyRequest"] = {"required": "topology.kubernetes.io/rack"}
    wanted["metadata"].update(uid="w", creationTimestamp="2026-11-27T10:00:00Z")
    index = Index(["ml"])
    index.change_check(None, admission_check())
    index.change_workload(None, wanted)
    assert index.find_gang("ml/w").rack_label == "topology.kubernetes.io/rack"
    assert index.read_changes(0)["gangs"][0]["one_rack"]


def test_gangs_of_several_runs_have_the_name_that_the_user_gave():
    def name_of(*things, kind="pod"):
        index = Index(["ml"])
        index.change_check(None, admission_check())
        for number, each in enumerate(things):
            each["metadata"].update(uid=f"u{number}", creationTimestamp="2026-11-27T10:00:00Z")
            getattr(index, f"change_{kind}")(None, each)
        return index.read_changes(0)["gangs"][0]["name"]

    def owned(name, owner, **labels):
        each = pod(name, owner="uid", node_name="n1", gated=False)
        each["metadata"]["ownerReferences"][0]["name"] = owner
        each["metadata"]["labels"].update({key.replace("_", "-"): labels[key] for key in labels})
        return each

    assert name_of(*gang("llama-7", 2)) == "llama-7", "the label of the gang"
    assert name_of(owned("train-x7k2p-b5vbq", "train-x7k2p")) == "train", "generateName of the Job"
    deployed = owned("serve-7d4b9c6f8-hq2zl", "serve-7d4b9c6f8", pod_template_hash="7d4b9c6f8")
    assert name_of(deployed) == "serve", "the Deployment"
    assert name_of(owned("web-0", "web")) == "web", "the StatefulSet"
    assert name_of(owned("j-0-abcde", "j", job_name="sweep-3")) == "sweep-3", "the Job"
    assert name_of(pod("lonely-hello", owner="")) == "lonely-hello"
    admitted = workload("job-train-9c0de", 2)
    admitted["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "t", "controller": True}
    ]
    assert name_of(admitted, kind="workload") == "train", "the Job of the Workload"


def test_the_nvlink_domain_of_topograph_is_the_rack_before_the_switch():
    both = node("n1", "switch-1")
    both["metadata"]["labels"]["accelerator.topograph.run/domain"] = "nvl-7"
    assert parse_node(both).rack == "nvl-7"
    assert parse_node(node("n1", "switch-1")).rack == "switch-1"


def test_changes_and_questions_of_several_threads_lose_nothing():
    index = Index(["ml"])
    index.change_node(None, node("n1", gpus=8000))
    members = [pod(f"p{i}", f"g{i}", 1, gpus=1, node_name="n1") for i in range(400)]
    for number, each in enumerate(members):
        each["metadata"].update(uid=f"u{number}", creationTimestamp="2026-11-27T10:00:00Z")

    def put(part):
        for each in members[part::4]:
            index.change_pod(None, each)
            index.find_gang(f"ml/{each['metadata']['labels']['orrery.io/gang']}")
            index.free_gpus(index.find_node("n1"))

    threads = [threading.Thread(target=put, args=(part,)) for part in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert index.free_gpus(index.find_node("n1")) == 8000 - 400
    assert len(index.read_changes(0)["gangs"]) == 400
