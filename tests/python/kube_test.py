"""The controller of orrery cluster kubernetes against a stand-in API server."""

import json
import struct
import threading
import urllib.request

import pytest
from kube_objects import admission_check, gang, node, pod, workload
from kube_server import KubeServer, wait_until

kubernetes = pytest.importorskip("kubernetes", reason="left out: pip install 'orrery[kubernetes]'")

from orrery.kube.adapter import Adapter  # noqa: E402
from orrery.kube.api import Api, ApiError  # noqa: E402
from orrery.kube.extender import Answers, Extender  # noqa: E402
from orrery.kube.lease import Leadership  # noqa: E402
from orrery.kube.mirror import Mirror  # noqa: E402

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/workloads"
CHECKS = "/apis/kueue.x-k8s.io/v1beta2/admissionchecks"
RACK_1 = ["n1", "n2", "n3", "n4"]


class Killed(BaseException):
    """Stands for kill -9 between two requests."""


class Cluster:
    """The stand-in server with two racks of four nodes, and controllers."""

    def __init__(self):
        self.server = KubeServer()
        self.adapters = []
        for i in range(8):
            self.server.put(NODES, node(f"n{i + 1}", f"rack{1 + i // 4}"))

    def api(self):
        configuration = kubernetes.client.Configuration(host=self.server.url)
        return Api(kubernetes.client.ApiClient(configuration), timeout_s=5)

    def controller(self, identity="one", leads=True, lease_s=1.0):
        api = self.api()
        lease = Leadership(api, "orrery", "place", identity, lease_s) if leads else None
        adapter = Adapter(api, ["ml"], lease)
        adapter.start()
        self.adapters.append(adapter)
        return adapter

    def put(self, *things):
        kinds = {"Pod": PODS, "Node": NODES, "Workload": WORKLOADS, "AdmissionCheck": CHECKS}
        for thing in things:
            self.server.put(kinds[thing["kind"]], thing)

    def writes(self):
        """Requests that changed objects other than Leases."""
        return [r for r in self.server.requests if "/leases" not in r[1]]

    def stop(self):
        for adapter in self.adapters:
            for mirror in adapter._mirrors():
                mirror.stop()
        self.server.stop()


@pytest.fixture
def cluster():
    cluster = Cluster()
    yield cluster
    cluster.stop()


def read(adapter, acts=True):
    reading = adapter.answer({"read": {"acts": acts}})
    assert "failed" not in reading, reading
    return reading


def place(adapter, name, nodes):
    """The answer to an order of one gang, as the answer to an eviction is."""
    answer = adapter.answer({"place": [{"gang": name, "nodes": nodes}]})
    if "refused" in answer:
        (answer["refused"],) = answer["refused"]
    return answer


def gang_in(adapter, name, state, acts=False):
    """The gang `name` once the adapter shows it in a state."""
    found = {}

    def is_there():
        reading = read(adapter, acts)
        found.update({each["id"]: each for each in reading["gangs"]})
        return name in found and found[name]["state"] == state

    wait_until(is_there)
    return found[name]


def nodes_of_pods(server, pods):
    return sorted(server.pod(each["metadata"]["name"])["spec"].get("nodeName", "-")
                  for each in pods)  # fmt: skip


# ---- gates ------------------------------------------------------------------------------------


def test_a_gang_of_four_is_released_into_one_rack_and_only_after_its_last_pod_is_there(cluster):
    controller = cluster.controller()
    pods = gang("llama", 4)
    cluster.put(*pods[:3])
    assert gang_in(controller, "ml/llama", "incomplete")["nodes"] == []
    assert "incomplete" in place(controller, "ml/llama", RACK_1)["refused"]
    cluster.put(pods[3])
    waiting = gang_in(controller, "ml/llama", "waiting")
    assert (waiting["pods"], waiting["gpus_per_pod"], waiting["managed"]) == (4, 8, True)
    racks = {n["name"]: n["rack"] for n in read(controller)["nodes"]}
    assert [racks[name] for name in RACK_1] == ["rack1"] * 4
    assert place(controller, "ml/llama", RACK_1) == {"refused": ""}
    cluster.server.schedule()
    assert gang_in(controller, "ml/llama", "placed")["nodes"] == RACK_1
    assert nodes_of_pods(cluster.server, pods) == RACK_1


def test_a_gang_that_does_not_fit_stays_out_completely(cluster):
    busy = pod("other", gang="", gated=False, node_name="n4", namespace="else", owner="", gpus=1)
    cluster.put(busy, *gang("big", 4))
    controller = cluster.controller()
    gang_in(controller, "ml/big", "waiting")
    answer = place(controller, "ml/big", RACK_1)
    assert answer["refused"] == "ml/big: needs 8 GPUs of n4, found 7 free"
    for nodes in (RACK_1[:3], ["n1", "n2", "n3", "n9"], ["n1", "n1", "n2", "n3"]):
        assert place(controller, "ml/big", nodes)["refused"]
    cluster.put(node("n3", "rack1", unschedulable=True))
    wait_until(lambda: not {n["name"]: n["usable"] for n in read(controller)["nodes"]}["n3"])
    answer = place(controller, "ml/big", ["n1", "n2", "n3", "n5"])
    assert "the node n3" in answer["refused"]
    assert cluster.writes() == []
    cluster.server.schedule()
    assert nodes_of_pods(cluster.server, gang("big", 4)) == ["-"] * 4


def test_a_gang_that_needs_one_rack_is_refused_across_racks(cluster):
    pods = gang("llama", 4)
    for each in pods:
        each["metadata"]["annotations"]["orrery.io/rack"] = "required"
    cluster.put(*pods)
    controller = cluster.controller()
    assert gang_in(controller, "ml/llama", "waiting")["one_rack"]
    answer = place(controller, "ml/llama", ["n3", "n4", "n5", "n6"])
    assert answer == {"refused": "ml/llama: must be in one rack, got nodes of rack1, rack2"}
    assert cluster.writes() == []
    assert place(controller, "ml/llama", RACK_1) == {"refused": ""}


def test_a_batch_commits_each_gang_before_its_pods_and_counts_the_gangs_before(cluster):
    cluster.put(*gang("a", 4), *gang("b", 4), *gang("c", 4))
    controller = cluster.controller()
    gang_in(controller, "ml/c", "waiting", acts=True)
    orders = [{"gang": f"ml/{name}", "nodes": nodes}
              for name, nodes in (("a", RACK_1), ("b", RACK_1), ("c", ["n5", "n6", "n7", "n8"]))]
    first, second, third = controller.answer({"place": orders})["refused"]
    assert (first, third) == ("", "") and second == "ml/b: needs 8 GPUs of n1, found 0 free"
    written = [(path.rpartition("/")[2], "spec" in body) for _, path, body in cluster.writes()]
    assert len(written) == 10
    for name in "ac":
        own = [is_release for pod_name, is_release in written if pod_name[0] == name]
        assert own == [False, True, True, True, True], "one write commits before all others"
    cluster.server.schedule()
    assert gang_in(controller, "ml/a", "placed")["nodes"] == RACK_1


@pytest.mark.parametrize("writes", range(6))
def test_a_leader_killed_during_a_placement_leaves_it_whole_or_not_begun(cluster, writes):
    pods = gang("llama", 4)
    cluster.put(*pods)
    first = cluster.controller("first")
    gang_in(first, "ml/llama", "waiting", acts=True)
    patch, done, lock = first._api.patch, [], threading.Lock()

    def patch_until_killed(path, body):
        with lock:
            if len(done) == writes:
                raise Killed
            done.append(path)
        return patch(path, body)

    first._api.patch = patch_until_killed
    try:
        place(first, "ml/llama", RACK_1)
        assert writes == 5
    except Killed:
        assert writes < 5
    cluster.server.schedule()
    second = cluster.controller("second")
    wait_until(lambda: read(second)["leader"])
    if writes == 0:
        gang_in(second, "ml/llama", "waiting")
        assert nodes_of_pods(cluster.server, pods) == ["-"] * 4
        return
    read(second)
    cluster.server.schedule()
    assert gang_in(second, "ml/llama", "placed")["nodes"] == RACK_1
    selectors = [cluster.server.pod(f"llama-{i}")["spec"]["nodeSelector"] for i in range(4)]
    assert len({each["kubernetes.io/hostname"] for each in selectors}) == 4


def test_a_conflict_is_repeated_and_a_foreign_placement_is_respected(cluster):
    cluster.put(*gang("a", 2), *gang("b", 2))
    controller = cluster.controller()
    gang_in(controller, "ml/a", "waiting", acts=True)

    def touch(name, **annotations):
        with cluster.server.changed:  # the pods of a gang are written at the same time
            changed = cluster.server.pod(name)
            changed["metadata"]["annotations"].update(annotations)
            cluster.server.put(PODS, changed)

    cluster.server.before_patch = [lambda: touch("a-0", note="x"), lambda: None,
                                   lambda: touch("a-1", note="y")]  # fmt: skip
    assert place(controller, "ml/a", ["n1", "n2"]) == {"refused": ""}
    assert cluster.server.pod("a-0")["metadata"]["annotations"]["note"] == "x"
    assert "schedulingGates" not in cluster.server.pod("a-0")["spec"]
    record = json.dumps({"nodes": ["n7", "n8"], "owner": "other"})
    cluster.server.before_patch = [lambda: touch("b-0", **{"orrery.io/placement": record})]
    answer = place(controller, "ml/b", ["n3", "n4"])
    assert "another controller" in answer["refused"]
    gang_in(controller, "ml/b", "placing")
    read(controller)
    cluster.server.schedule()
    assert gang_in(controller, "ml/b", "placed")["nodes"] == ["n7", "n8"]


def test_pods_that_the_scheduler_leaves_unbound_are_changed_with_growing_pauses(cluster):
    cluster.put(*gang("llama", 2))
    controller = cluster.controller()
    now = 100.0
    controller._placing._clock = lambda: now
    gang_in(controller, "ml/llama", "waiting")
    place(controller, "ml/llama", ["n1", "n2"])
    cluster.server.put(PODS, {**cluster.server.pod("llama-1"),
                              "spec": {**cluster.server.pod("llama-1")["spec"],
                                       "nodeName": "n2"}})  # fmt: skip
    wait_until(lambda: any(pod["spec"].get("nodeName")
                           for pod in controller.index.find_gang("ml/llama").pods))  # fmt: skip
    begin, changed = len(cluster.writes()), []
    for now in (100.0, 104.0, 106.0, 115.0, 117.0, 136.0, 138.0):
        read(controller)
        writes, begin = cluster.writes()[begin:], len(cluster.writes())
        changed.append(["orrery.io/retried" in body["metadata"]["annotations"]
                        for method, path, body in writes if path.endswith("/llama-0")])  # fmt: skip
        assert len(writes) == len(changed[-1]), writes
    assert changed == [[], [], [True], [], [True], [], [True]]
    cluster.server.schedule()
    gang_in(controller, "ml/llama", "placed")
    now = 1000.0
    read(controller)
    assert len(cluster.writes()) == begin


def test_a_pod_that_fails_is_replaced_on_its_node(cluster):
    cluster.put(*gang("llama", 2))
    controller = cluster.controller()
    gang_in(controller, "ml/llama", "waiting", acts=True)
    place(controller, "ml/llama", ["n1", "n2"])
    cluster.server.schedule()
    gang_in(controller, "ml/llama", "placed")
    lost = cluster.server.pod("llama-0")["spec"]["nodeName"]
    cluster.server.remove(PODS, "ml", "llama-0")
    cluster.put(pod("llama-2", "llama", 2))
    gang_in(controller, "ml/llama", "placing", acts=True)
    wait_until(lambda: not cluster.server.pod("llama-2")["spec"].get("schedulingGates")
               or not read(controller))  # fmt: skip
    cluster.server.schedule()
    assert cluster.server.pod("llama-2")["spec"]["nodeName"] == lost


def test_pods_that_end_one_after_the_other_leave_the_gang_placed_until_the_last(cluster):
    cluster.put(*gang("llama", 2))
    controller = cluster.controller()
    gang_in(controller, "ml/llama", "waiting", acts=True)
    place(controller, "ml/llama", ["n1", "n2"])
    cluster.server.schedule()
    gang_in(controller, "ml/llama", "placed")
    for name, state in (("llama-0", "placed"), ("llama-1", "completed")):
        done = cluster.server.pod(name)
        done["status"] = {"phase": "Succeeded"}
        cluster.put(done)
        wait_until(lambda n=name: any(
            p["metadata"]["name"] == n and p["status"]["phase"] == "Succeeded"
            for p in controller.index.find_gang("ml/llama").pods
        ))  # fmt: skip
        assert gang_in(controller, "ml/llama", state)["nodes"] == ["n1", "n2"]


# ---- watches ----------------------------------------------------------------------------------


def test_a_watch_that_is_cut_or_forgotten_continues(cluster):
    controller = cluster.controller()
    cluster.server.cut_watches()
    cluster.put(*gang("a", 1))
    gang_in(controller, "ml/a", "waiting")
    cluster.server.forget()
    cluster.server.remove(PODS, "ml", "a-0")
    cluster.server.forget()
    cluster.put(*gang("b", 1))
    gang_in(controller, "ml/b", "waiting")
    wait_until(lambda: [g["id"] for g in read(controller)["gangs"]] == ["ml/b"])


def test_a_watch_that_the_server_accepts_again_counts_at_once(cluster):
    changes, failures = [], []

    class Server:
        def list(self, path):
            return [], "1"

        def watch(self, path, version):
            changes.append(version)
            if len(changes) == 1:
                raise ApiError("connection refused")
            failures.append(mirror.failure())
            return iter(lambda: mirror.stop() or stopped.wait(5) and None, None)

    stopped = threading.Event()
    mirror = Mirror(Server(), PODS, lambda old, new: None, pause_s=0.01)
    mirror.start()
    wait_until(lambda: failures == [f"{PODS}: connection refused"] and mirror.failure() == "")
    stopped.set()


def test_a_watch_yields_the_changes_as_the_server_sends_them(cluster):
    events = []
    cluster.put(*gang("a", 1))
    for kind, thing in cluster.api().watch(PODS, "0"):
        events.append((kind, thing["metadata"]["name"]))
        cluster.server.cut_watches()
    assert events == [("ADDED", "a-0")]


# ---- leader election --------------------------------------------------------------------------


def test_one_controller_leads_and_another_takes_over_after_its_silence(cluster):
    clock = [100.0]
    first, second = (
        Leadership(cluster.api(), "orrery", "place", name, 9.0, lambda: clock[0])
        for name in ("first", "second")
    )
    assert first.renew() and not second.renew()
    assert second.holder == "first"
    clock[0] += 8
    assert not first.is_leader(), "its time ends before the successor's begins"
    assert not second.renew()
    assert first.renew()
    clock[0] += 8
    assert not second.renew()
    clock[0] += 9.5
    assert second.renew() and not first.renew()
    second.release()
    assert first.renew()
    lease = cluster.server.all("/apis/coordination.k8s.io/v1/leases")[0]["spec"]
    assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("first", 3)


def test_threads_that_renew_at_the_same_time_do_not_lose_the_lease(cluster):
    lease = Leadership(cluster.api(), "orrery", "place", "one", 0.05)
    results = []

    def renew():
        for _ in range(10):
            results.append(lease.renew())

    threads = [threading.Thread(target=renew) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results == [True] * 80


def test_a_controller_that_does_not_lead_and_one_in_shadow_mode_write_nothing(cluster):
    cluster.put(*gang("a", 2), admission_check(), workload("w", 2))
    leader, standby = cluster.controller("leader"), cluster.controller("standby", lease_s=30)
    shadow = cluster.controller("shadow", leads=False)
    gang_in(leader, "ml/a", "waiting")
    assert read(leader, acts=False)["leader"] and not read(standby)["leader"]
    assert read(shadow)["leader"]
    for controller in (standby, shadow):
        for name in ("ml/a", "ml/w"):
            answer = place(controller, name, ["n1", "n2"])
            assert answer == {"refused": "another controller leads"}
    assert cluster.writes() == []


# ---- Kueue ------------------------------------------------------------------------------------


def check_of(cluster, name):
    for each in cluster.server.all(WORKLOADS):
        if each["metadata"]["name"] == name:
            return {c["name"]: c for c in each["status"]["admissionChecks"]}
    raise AssertionError(name)


def test_kueue_gets_the_rack_before_any_pod_exists(cluster):
    cluster.put(admission_check(), workload("w", 4))
    controller = cluster.controller()
    waiting = gang_in(controller, "ml/w", "waiting", acts=True)
    assert (waiting["pods"], waiting["queue"]) == (4, "team-a")
    active = cluster.server.all(CHECKS)[0]["status"]["conditions"]
    assert [(c["type"], c["status"]) for c in active] == [("Active", "True")]
    assert place(controller, "ml/w", RACK_1) == {"refused": ""}
    checks = check_of(cluster, "w")
    assert checks["budget"]["state"] == checks["orrery"]["state"] == "Ready"
    update = checks["orrery"]["podSetUpdates"][0]
    assert update["name"] == "main"
    assert update["nodeSelector"] == {"fabric.topograph.run/tier-0": "rack1"}
    assert gang_in(controller, "ml/w", "placing")["nodes"] == RACK_1
    pods = [pod(f"w-{i}", gated=True) for i in range(4)]
    for each in pods:  # Kueue creates them so; the gate is that of the template
        each["metadata"]["annotations"] = dict(update["annotations"])
        each["spec"]["nodeSelector"] = dict(update["nodeSelector"])
    cluster.put(*pods)
    wait_until(lambda: read(controller) and not any(
        cluster.server.pod(f"w-{i}")["spec"].get("schedulingGates") for i in range(4)
    ))  # fmt: skip
    cluster.server.schedule()
    assert gang_in(controller, "ml/w", "placed")["nodes"] == RACK_1
    assert controller.answer({"evict": "ml/w"}) == {"refused": ""}
    assert check_of(cluster, "w")["orrery"]["state"] == "Retry"


def test_a_workload_that_does_not_fit_or_has_changed_stays_pending(cluster):
    cluster.put(admission_check(), workload("w", 4), workload("foreign", 1, check="other"))
    controller = cluster.controller()
    gang_in(controller, "ml/w", "waiting", acts=True)
    before = len(cluster.writes())
    assert place(controller, "ml/w", ["n1", "n1", "n2", "n3"])["refused"]
    assert len(cluster.writes()) == before
    gone = workload("w", 4)
    gone["status"]["conditions"][0]["status"] = "False"
    cluster.server.before_patch = [lambda: cluster.put(gone)]
    answer = place(controller, "ml/w", RACK_1)
    assert "found it changed" in answer["refused"]
    assert check_of(cluster, "w")["orrery"]["state"] == "Pending"
    assert "ml/foreign" not in {g["id"] for g in read(controller)["gangs"]}


# ---- extender ---------------------------------------------------------------------------------


def ask(extender, route, arguments):
    request = urllib.request.Request(
        f"http://127.0.0.1:{extender.port}{route}", json.dumps(arguments).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)


def test_the_extender_holds_a_gang_back_until_it_is_placed_and_then_names_its_nodes(cluster):
    pods = gang("llama", 2, gated=False)
    free = pod("free", gated=False, namespace="else")
    cluster.put(*pods, free)
    controller = cluster.controller()
    gang_in(controller, "ml/llama", "waiting", acts=True)
    extender = Extender(Answers(controller.index.find_gang, ["ml"]), "127.0.0.1", 0)
    extender.start()
    names = [f"n{i}" for i in range(1, 9)]
    mine = {"Pod": cluster.server.pod("llama-0"), "Nodes": None, "NodeNames": names}
    try:
        held = ask(extender, "/filter", mine)
        assert held["NodeNames"] == [] and set(held["FailedNodes"]) == set(names)
        assert "waits for its placement" in held["FailedNodes"]["n1"]
        other = ask(extender, "/filter", {**mine, "Pod": cluster.server.pod("free", "else")})
        assert other["NodeNames"] == names and other["FailedNodes"] == {}
        assert place(controller, "ml/llama", ["n5", "n6"]) == {"refused": ""}
        chosen = [
            ask(extender, "/filter", {**mine, "Pod": cluster.server.pod(f"llama-{i}")})["NodeNames"]
            for i in range(2)
        ]
        assert sorted(chosen) == [["n5"], ["n6"]]
        whole = {"Pod": cluster.server.pod("llama-0"), "NodeNames": None,
                 "Nodes": {"items": [node("n5"), node("n6")]}}  # fmt: skip
        kept = ask(extender, "/filter", whole)["Nodes"]["items"]
        assert [[n["metadata"]["name"] for n in kept]] == [chosen[0]]
        scores = {s["Host"]: s["Score"] for s in ask(extender, "/prioritize", mine)}
        assert scores[chosen[0][0]] == 10 and sum(scores.values()) == 10
        for body in ({}, {"Pod": 3}):
            with pytest.raises(urllib.error.HTTPError, match="400"):
                ask(extender, "/filter", body)
    finally:
        extender.stop()


def test_a_pod_without_its_node_waits_and_one_with_its_node_is_known_to_older_copies(cluster):
    pods = gang("llama", 2, gated=False)
    record = json.dumps({"nodes": ["n5", "n6"], "owner": "one"})
    pods[0]["metadata"]["annotations"]["orrery.io/placement"] = record
    cluster.put(*pods)
    controller = cluster.controller()
    gang_in(controller, "ml/llama", "placing")
    answers = Answers(controller.index.find_gang, ["ml"])
    names = [f"n{i}" for i in range(1, 9)]

    def kept(pod):
        return answers.filter({"Pod": pod, "NodeNames": names})["NodeNames"]

    known = cluster.server.pod("llama-0")
    assert kept(known) == [], "n5 and n6 may both be the node of the other pod"
    known["metadata"]["annotations"]["orrery.io/placed-on"] = "n6"
    assert kept(known) == ["n6"]


def test_pods_that_wait_evict_nobody(cluster):
    cluster.put(*gang("llama", 2, gated=False), pod("free", gated=False, namespace="else"))
    controller = cluster.controller()
    gang_in(controller, "ml/llama", "waiting", acts=True)
    answers = Answers(controller.index.find_gang, ["ml"])
    victims = {name: {"Pods": [{"UID": f"u-{name}"}], "NumPDBViolations": 0}
               for name in ("n5", "n6", "n7")}  # fmt: skip

    def preempt(name, namespace="ml", **arguments):
        pod = cluster.server.pod(name, namespace)
        return answers.preempt({"Pod": pod, **arguments})["NodeNameToMetaVictims"]

    assert preempt("llama-0", NodeNameToMetaVictims=victims) == {}
    assert preempt("free", "else", NodeNameToMetaVictims=victims) == victims
    whole = {"n5": {"Pods": [{"metadata": {"uid": "u-n5"}}], "NumPDBViolations": 0}}
    assert preempt("free", "else", NodeNameToVictims=whole) == {"n5": victims["n5"]}
    assert place(controller, "ml/llama", ["n5", "n6"]) == {"refused": ""}
    (node_name,) = preempt("llama-0", NodeNameToMetaVictims=victims)
    assert node_name in ("n5", "n6")


def test_the_extender_of_shadow_mode_permits_all_nodes(cluster):
    cluster.put(*gang("llama", 2, gated=False))
    controller = cluster.controller(leads=False)
    gang_in(controller, "ml/llama", "waiting")
    answers = Answers(controller.index.find_gang, ["ml"], is_binding=False)
    result = answers.filter({"Pod": cluster.server.pod("llama-0"), "NodeNames": ["n1", "n2"]})
    assert result["NodeNames"] == ["n1", "n2"]


# ---- other facts ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v1beta1"])  # Kubernetes 1.22 and later, and before
def test_an_eviction_needs_an_owner_that_creates_the_pods_anew(cluster, version):
    cluster.server.eviction_version = version
    cluster.put(*gang("owned", 2), *gang("lone", 2, owner=""))
    controller = cluster.controller()
    gang_in(controller, "ml/lone", "waiting", acts=True)
    for name, nodes in (("ml/owned", ["n1", "n2"]), ("ml/lone", ["n3", "n4"])):
        assert place(controller, name, nodes) == {"refused": ""}
    cluster.server.schedule()
    gang_in(controller, "ml/lone", "placed")
    assert "would lose it" in controller.answer({"evict": "ml/lone"})["refused"]
    assert controller.answer({"evict": "ml/owned"}) == {"refused": ""}
    left = {p["metadata"]["name"] for p in cluster.server.all(PODS)}
    assert left == {"lone-0", "lone-1"}
    again = gang("owned", 2)
    cluster.put(*again)
    assert gang_in(controller, "ml/owned", "waiting")["uid"] == "job-1"


@pytest.mark.parametrize("grace", [0, 30])
def test_gpus_of_an_evicted_gang_are_free_before_the_watch_shows_it(cluster, grace):
    cluster.server.grace_s = grace
    cluster.put(*gang("long", 4), *gang("short", 2))
    controller = cluster.controller()
    gang_in(controller, "ml/short", "waiting", acts=True)
    assert place(controller, "ml/long", RACK_1) == {"refused": ""}
    cluster.server.schedule()
    gang_in(controller, "ml/long", "placed")
    controller._pods.stop()
    cluster.put(pod("last", gated=False))  # the event after which the watch ends
    controller._pods._thread.join(10)
    assert "needs 8 GPUs" in place(controller, "ml/short", ["n1", "n2"])["refused"]
    assert controller.answer({"evict": "ml/long"}) == {"refused": ""}
    assert place(controller, "ml/short", ["n1", "n2"]) == {"refused": ""}


def test_broken_annotations_are_problems_of_their_gang_alone(cluster):
    cluster.put(*gang("good", 2), *gang("many", 2), pod("many-2", "many", 2))
    bad = pod("bad-0", "bad", 1)
    bad["metadata"]["annotations"]["orrery.io/gang-size"] = "two"
    torn = pod("torn-0", "torn", 1)
    torn["metadata"]["annotations"]["orrery.io/placement"] = '{"nodes": ["n1"'
    cluster.put(bad, torn)
    controller = cluster.controller()
    reading = read(controller)
    assert {g["id"]: g["managed"] for g in reading["gangs"]} == {
        "ml/good": True, "ml/many": False, "ml/bad": False, "ml/torn": False}  # fmt: skip
    for part in ("found 'two'", "expected 2 pods, found 3", "expected a placement"):
        assert any(part in problem for problem in reading["problems"]), part
    refused = place(controller, "ml/torn", ["n1"])["refused"]
    assert "expected a placement" in refused


def test_a_server_that_is_gone_gives_no_reading_and_no_write(cluster):
    cluster.put(*gang("a", 1))
    controller = cluster.controller()
    gang_in(controller, "ml/a", "waiting", acts=True)
    cluster.server.stop()
    wait_until(lambda: "failed" in controller.answer({"read": {"acts": True}}))
    answer = place(controller, "ml/a", ["n1"])
    assert "failed" in answer or answer["refused"] == "another controller leads"
    with pytest.raises(ApiError, match="GET /api/v1/pods"):
        cluster.api().list(PODS)


def test_gangs_and_kills_never_leave_a_part_of_a_gang_or_an_oversubscribed_node(cluster):
    """Twelve gangs, and a leader that is killed after each third write."""
    sizes = [1 + i % 3 for i in range(12)]
    for i, size in enumerate(sizes):
        cluster.put(*gang(f"g{i}", size, gpus=(2, 8, 4)[i % 3], owner=f"job-{i}"))
    kills = 0
    for turn in range(24):
        controller = cluster.controller(f"c{turn}")
        assert read(controller, acts=False)["leader"]
        patch, left = controller._api.patch, [3]

        def limited(path, body, patch=patch, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return patch(path, body)

        controller._api.patch = limited
        try:
            for each in [g for g in read(controller)["gangs"] if g["state"] == "waiting"]:
                names = [f"n{1 + (turn + k) % 8}" for k in range(each["pods"])]
                place(controller, each["id"], names)
        except Killed:
            kills += 1
        cluster.server.schedule()
        for mirror in controller._mirrors():
            mirror.stop()
        cluster.server.remove("/apis/coordination.k8s.io/v1/leases", "orrery", "place")
    assert kills > 5
    assert all(cluster.server.free(each) >= 0 for each in cluster.server.all(NODES))
    states = set()
    for i, size in enumerate(sizes):
        specs = [cluster.server.pod(f"g{i}-{k}")["spec"] for k in range(size)]
        bound = [bool(spec.get("nodeName")) for spec in specs]
        assert all(bound) or all(spec.get("schedulingGates") for spec in specs), (i, specs)
        states.add(all(bound))
    assert states == {True, False}, "some gangs fit, and others stay out"


def test_messages_of_the_channel():
    import socket

    from orrery.kube import adapter

    ours, theirs = socket.socketpair()

    class Echo:
        def answer(self, request):
            return {"got": request}

    body = json.dumps({"read": {}}).encode()
    ours.sendall(struct.pack("<I", len(body)) + body)
    ours.shutdown(socket.SHUT_WR)
    adapter.serve(Echo(), theirs)
    size = struct.unpack("<I", ours.recv(4))[0]
    assert json.loads(ours.recv(size)) == {"got": {"read": {}}}
