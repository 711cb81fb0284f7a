"""orrery cluster kubernetes against a stand-in API server: whole runs of the command."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import PROGRAM, orrery

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from kube_objects import admission_check, gang, node, pod, workload  # noqa: E402
from kube_server import KubeServer, wait_until  # noqa: E402

PYTHON = os.environ.get("ORRERY_PYTHON", sys.executable)
IMPORT = [PYTHON, "-c", "import kubernetes"]
has_client = subprocess.run(IMPORT, capture_output=True).returncode == 0
needs_client = pytest.mark.skipif(not has_client, reason="left out: pip install orrery[kubernetes]")

CONFIG = """
apiVersion: v1
kind: Config
current-context: test
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
clusters: [{{name: test, cluster: {{server: "{url}"}}}}]
users: [{{name: test, user: {{}}}}]
"""


@pytest.fixture
def server(tmp_path):
    server = KubeServer()
    for i in range(8):
        server.put("/api/v1/nodes", node(f"n{i + 1}", f"rack{1 + i // 4}"))
    (tmp_path / "config").write_text(CONFIG.format(url=server.url))
    yield server
    server.stop()


def put_gangs(server, gangs):
    for each in gangs:
        for one in each:
            server.put("/api/v1/pods", one)


def driver(tmp_path, *words, mode="drive", policy="easy", log="kube.log"):
    """A running `orrery cluster kubernetes`."""
    return subprocess.Popen(
        [PROGRAM, "cluster", "kubernetes", "--policy", policy, "--namespace", "ml", "--mode", mode,
         "--kubeconfig", tmp_path / "config", "--every", "0.2", "--lease", "4",
         "--record", tmp_path / log, *words],
        env={**os.environ, "ORRERY_PYTHON": PYTHON}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def end(process):
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=60)


def finish_placed(server):
    """Bind what may be bound, and complete the gangs whose pods are all bound."""
    server.schedule()
    pods = server.all("/api/v1/pods")
    for name in {each["metadata"]["labels"].get("orrery.io/gang") for each in pods} - {None}:
        members = [p for p in pods if p["metadata"]["labels"].get("orrery.io/gang") == name]
        if all(p["spec"].get("nodeName") for p in members):
            for each in members:
                each["status"] = {"phase": "Succeeded"}
                server.put("/api/v1/pods", each)


def is_finished(server):
    finish_placed(server)
    return all(p.get("status", {}).get("phase") == "Succeeded" for p in server.all("/api/v1/pods"))


@needs_client
def test_gangs_are_placed_in_racks_through_a_kill_of_the_command_and_the_logs_replay(
    server, tmp_path
):
    sizes = (4, 2, 3, 1, 4, 2, 3, 4)
    put_gangs(server, [gang(f"g{i}", size, owner=f"job-{i}") for i, size in enumerate(sizes)])
    first = driver(tmp_path)
    wait_until(lambda: any(r[0] == "PATCH" for r in server.requests), 60)
    first.kill()
    first.communicate()
    second = driver(tmp_path)
    racks = {f"n{i + 1}": 1 + i // 4 for i in range(8)}
    try:
        wait_until(lambda: is_finished(server), 120)
    finally:
        output, errors = end(second)
    assert second.returncode == 0, errors
    assert "this controller leads as" in errors
    for i, size in enumerate(sizes):
        nodes = [server.pod(f"g{i}-{k}")["spec"]["nodeName"] for k in range(size)]
        assert len(set(nodes)) == size, (i, nodes)
        if i == 0:  # the cluster is empty
            assert len({racks[name] for name in nodes}) == 1, nodes
    for log in ("kube.log", "kube.log.1"):
        replayed = orrery("replay", tmp_path / log)
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    explained = orrery("explain", tmp_path / "kube.log", "--job", "ml/g7")
    assert explained.returncode == 0, explained.stderr


@needs_client
def test_a_gang_that_does_not_fit_waits_while_others_run_and_shadow_mode_writes_nothing(
    server, tmp_path
):
    for i in (5, 6, 7, 8):
        busy = pod(f"busy-{i}", gated=False, namespace="else", owner="", node_name=f"n{i}")
        server.put("/api/v1/pods", busy)
    put_gangs(server, [gang("large", 5), gang("small", 2)])
    shadow = driver(tmp_path, mode="shadow", policy="fifo-skip", log="shadow.log")
    line = shadow.stdout.readline()
    output, errors = end(shadow)
    assert re.search(r"would start gang ml/small on n\d,n\d", line + output), errors
    assert server.requests == []
    drive = driver(tmp_path, policy="fifo-skip")
    wait_until(lambda: not server.pod("small-1")["spec"].get("schedulingGates"), 60)
    output, errors = end(drive)
    assert drive.returncode == 0, errors
    assert "start gang ml/small on" in output and "ml/large" not in output
    assert all(server.pod(f"large-{i}")["spec"]["schedulingGates"] for i in range(5))
    assert not any("large" in path for _, path, _ in server.requests)


@needs_client
def test_kueue_is_answered_and_the_kill_switch_stops_all_writes(server, tmp_path):
    switch = tmp_path / "stop"
    switch.touch()
    server.put("/apis/kueue.x-k8s.io/v1beta2/admissionchecks", admission_check())
    workloads = "/apis/kueue.x-k8s.io/v1beta2/workloads"
    server.put(workloads, workload("w", 4))
    drive = driver(tmp_path, "--kill-switch", switch)
    wait_until(lambda: any("/leases" in path for _, path, _ in server.requests), 60)
    switch.unlink()
    before = [path for _, path, _ in server.requests if "/leases" not in path]

    def states():
        checks = server.all(workloads)[0]["status"]["admissionChecks"]
        return {each["name"]: each["state"] for each in checks}

    wait_until(lambda: states()["orrery"] == "Ready", 60)
    output, errors = end(drive)
    assert before == [] and "start gang ml/w on n1,n2,n3,n4" in output, errors


@needs_client
def test_a_twin_forecasts_the_start_of_a_waiting_gang_and_writes_nothing(server, tmp_path):
    def bind(name, size, first):
        for k in range(size):
            one = server.pod(f"{name}-{k}")
            one["spec"].update(nodeName=f"n{first + k}", schedulingGates=[])
            server.put("/api/v1/pods", one)

    put_gangs(server, [gang("runs", 4), gang("long", 4), gang("waits", 4)])
    bind("runs", 4, 1)
    bind("long", 4, 5)
    twin = subprocess.Popen(
        [PROGRAM, "twin", "kubernetes", "--policy", "fifo,srtf", "--namespace", "ml",
         "--kubeconfig", tmp_path / "config", "--read-every", "0.2", "--every", "1",
         "--samples", "4", "--out", tmp_path / "out"],
        env={**os.environ, "ORRERY_PYTHON": PYTHON}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    line = twin.stdout.readline()
    for k in range(4):
        done = server.pod(f"runs-{k}")
        done["status"] = {"phase": "Succeeded"}
        server.put("/api/v1/pods", done)
    bind("waits", 4, 1)
    time.sleep(3)
    output, errors = end(twin)
    assert twin.returncode == 0, errors
    assert re.search(r"1 waiting, 2 running; next: ml/waits in .* min", line), line + errors
    known = [row.split(",") for row in (tmp_path / "out/forecasts.csv").read_text().splitlines()]
    assert ["ml/waits", "start"] in [row[:2] for row in known[1:]], output
    assert [r for r in server.requests if r[0] != "GET"] == []


def test_what_is_missing_is_said(tmp_path):
    words = ["cluster", "kubernetes", "--policy", "fifo"]
    result = orrery(*words)
    assert result.returncode == 2 and "--namespace" in result.stderr
    result = orrery(*words, "--namespace", "ml", "--lease", 4, "--every", 3)
    assert result.returncode == 2 and "four times --every" in result.stderr
    result = orrery(*words, "--namespace", "ml", "--lease-object", "place")
    assert result.returncode == 2 and "NAMESPACE/NAME" in result.stderr
    result = orrery("twin", "kubernetes", "--policy", "fifo")
    assert result.returncode == 2 and "--namespace" in result.stderr
    missing = orrery(*words, "--namespace", "ml", "--kubeconfig", tmp_path / "none",
                     env={**os.environ, "ORRERY_PYTHON": PYTHON})  # fmt: skip
    assert missing.returncode == 4
    expected = "kubeconfig" if has_client else "orrery[kubernetes]"
    assert expected in missing.stderr


@needs_client
def test_nodes_racks_and_gangs_become_files_of_the_simulator(server, tmp_path):
    cluster, queue = tmp_path / "cluster.yaml", tmp_path / "queue.yaml"
    for i in range(8):
        one = node(f"n{i + 1}", f"rack{1 + i // 4}")
        one["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3"
        server.put("/api/v1/nodes", one)
    gangs = [gang("runs", 4), gang("waits", 6), gang("endless", 1)]
    for each in (*gangs[0], *gangs[1]):
        each["metadata"]["annotations"]["orrery.io/time-limit-seconds"] = "600"
    for i, one in enumerate(gangs[0]):
        one["spec"].update(nodeName=f"n{i + 1}", schedulingGates=[])
    put_gangs(server, gangs)
    words = ["import", "cluster", "kubernetes", "--kubeconfig", tmp_path / "config", "-o", cluster]
    environment = {**os.environ, "ORRERY_PYTHON": PYTHON}
    written = orrery(*words, "--namespace", "ml", "--queue", queue, env=environment)
    assert written.returncode == 0, written.stderr
    assert written.stdout.splitlines() == [f"{cluster}: 8 nodes, 64 H100", f"{queue}: 2 jobs"]
    assert "ignored: 1 gangs without a time limit" in written.stderr
    assert "nodes_per_unit: 4" in cluster.read_text()
    replayed = orrery("jobs", queue, "--json")
    assert replayed.returncode == 0, replayed.stderr
    assert json.loads(replayed.stdout)["makespan_s"] == 1200  # 4 + 6 nodes of 8
    assert [r for r in server.requests if r[0] != "GET"] == []
    result = orrery(*words, "--queue", queue, env=environment)
    assert result.returncode == 2 and "--namespace NS" in result.stderr


def test_options_and_words_of_another_scheduler_are_refused(tmp_path):
    out = tmp_path / "cluster.yaml"
    for words, message in (
        (["kubernetes", "--partition", "gpu"], "give --namespace NS"),
        (["slurm", "--namespace", "ml"], "import cluster kubernetes"),
        (["kubernets"], "did you mean 'kubernetes'"),
    ):
        result = orrery("import", "cluster", *words, "-o", out)
        assert result.returncode == 2 and message in result.stderr, result.stderr
    assert not out.exists()
