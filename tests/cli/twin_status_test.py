"""A twin as a run: runs, status, stop, metrics and tables while it forecasts. The cluster is the
stand-in API server."""

import json
import os
import re
import socket
import subprocess

import pandas as pd
import pytest
from conftest import EXAMPLES, PROGRAM, kill_all, orrery, wait_until
from kubernetes_test import PYTHON, gang, needs_client, put_gangs, server  # noqa: F401

NAME = "twin-kubernetes"


def status(name=NAME):
    result = orrery("status", name, "--json")
    return json.loads(result.stdout) if result.returncode == 0 else {}


def place(server, name, size, first):
    for k in range(size):
        one = server.pod(f"{name}-{k}")
        one["spec"].update(nodeName=f"n{first + k}", schedulingGates=[])
        server.put("/api/v1/pods", one)


@pytest.fixture
def twin(server, tmp_path):  # noqa: F811
    """A function that starts a twin beside a cluster whose gang `waits` waits for `runs`."""
    put_gangs(server, [gang("runs", 4), gang("long", 4), gang("waits", 4)])
    place(server, "runs", 4, 1)
    place(server, "long", 4, 5)
    started = []

    def start(*words):
        started.append(subprocess.Popen(
            [PROGRAM, "twin", "kubernetes", "--policy", "fifo", "--choose", "srtf", "--namespace",
             "ml", "--kubeconfig", tmp_path / "config", "--read-every", "0.2", "--every", "1",
             "--samples", "4", *words],
            env={**os.environ, "ORRERY_PYTHON": PYTHON}, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        ))  # fmt: skip
        wait_until(lambda: status().get("forecasts", 0) > 0)
        return started[-1]

    yield start
    kill_all(started)


def stop(run, name=NAME):
    stopped = orrery("stop", name)
    assert stopped.returncode == 0 and "ends after the current forecast" in stopped.stdout
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    assert orrery("status", name).returncode == 2
    return output


@needs_client
def test_a_twin_tells_when_a_job_starts_and_its_score_while_it_runs(
    server, twin, tmp_path  # noqa: F811
):
    out, metrics = tmp_path / "out", tmp_path / "twin.prom"
    run = twin("--out", out, "--metrics", metrics)
    shown = status()
    assert (shown["kind"], shown["phase"], shown["policy"]) == ("twin", "running", "fifo")
    assert (shown["policies"], shown["choice"]) == (["fifo", "srtf"], "fifo")
    assert (shown["waiting"], shown["running"]) == (1, 2)
    rows = [(row["job"], row["kind"], row["policy"]) for row in shown["now"]]
    assert rows == [("ml/waits", kind, policy) for policy in ("fifo", "srtf")
                    for kind in ("start", "end")]  # fmt: skip
    for row in shown["now"]:
        limits = [row[key] for key in ("low95_s", "low80_s", "median_s", "high80_s", "high95_s")]
        known = [limit for limit in limits if limit is not None]  # None: beyond the horizon
        assert known and known == sorted(known), row
    now = pd.read_csv(out / "now.csv")
    is_cost = now.kind == "node_loss"
    instants, costs = now[~is_cost], now[is_cost]
    assert list(zip(instants.job_id, instants.kind, instants.policy)) == rows
    assert list(costs.job_id) == ["wait_mean_s", "jct_mean_s", "lost_gpu_s"]
    assert set(costs.policy) == {"fifo"}
    for row in shown["node_loss"]:
        limits = [row[key] for key in ("low95", "low80", "median", "high80", "high95")]
        assert limits == sorted(limits), row
    assert [row["cost"] for row in shown["node_loss"]] == list(costs.job_id)
    label = '{twin="twin-kubernetes",cost="%s",policy="fifo",bound="%s"}'
    text = wait_until(lambda: "node_loss" in metrics.read_text() and metrics.read_text())
    for cost in ("wait_mean_s", "jct_mean_s"):
        for bound in ("mean", "median", "low80", "high80", "low95", "high95"):
            assert f"orrery_twin_node_loss_seconds{label % (cost, bound)} " in text
    assert f"orrery_twin_node_loss_gpu_seconds{label % ('lost_gpu_s', 'low95')} " in text
    listed = orrery("runs").stdout
    assert re.search(r"^\w{6}  twin-kubernetes +running +fifo \(forecast\), \d+ forecasts$",
                     listed, re.MULTILINE), listed  # fmt: skip
    text = orrery("status", NAME).stdout
    assert re.search(r"ml/waits +start fifo +in [\d.]+ s \(80%: ", text), text
    assert re.search(r"a lost node: fifo +wait_mean_s +[+-][\d.]+ \(80%: ", text), text
    for k in range(4):
        done = server.pod(f"runs-{k}")
        done["status"] = {"phase": "Succeeded"}
        server.put("/api/v1/pods", done)
    place(server, "waits", 4, 1)
    wait_until(lambda: status()["score"]["starts"])
    assert "starts" in orrery("status", NAME).stdout
    wait_until(lambda: status()["now"] == [])  # no job waits
    assert len(pd.read_csv(out / "now.csv")) == 0
    assert status()["node_loss"] == []
    label = '{twin="twin-kubernetes",kind="start",horizon="all"}'
    wait_until(lambda: f"orrery_twin_scored{label}" in metrics.read_text())
    assert 'orrery_twin_waiting{twin="twin-kubernetes"} 0\n' in metrics.read_text()
    assert (pd.read_csv(out / "score.csv").kind == "start").any()
    assert (pd.read_csv(out / "policies.csv").policy == "srtf").any()
    assert "regret of the active policy" in stop(run)
    assert [r for r in server.requests if r[0] != "GET"] == []


@needs_client
def test_a_twin_refuses_other_orders_and_serves_its_metrics(twin, tmp_path):
    path = tmp_path / "metrics"
    run = twin("--metrics", f"unix:{path}")
    for words in (("set", NAME, "max-min.borrow=true"), ("set", NAME, "mode=drive"),
                  ("drain", NAME, "node:1"), ("stop", NAME, "--checkpoint")):  # fmt: skip
        assert orrery(*words).returncode == 2, words
    assert "changes nothing" in orrery("drain", NAME, "node:1").stderr
    refused = orrery("twin", NAME)
    assert refused.returncode == 2 and "expected a training run" in refused.stderr
    with socket.socket(socket.AF_UNIX) as scraper:
        scraper.connect(str(path))
        scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b"".join(iter(lambda: scraper.recv(4096), b"")).decode()
    next_start = 'orrery_twin_next_seconds{twin="twin-kubernetes",kind="start",policy="fifo",bound='
    assert next_start in answer
    stop(run)
    assert not path.exists()


def test_the_twin_of_a_run_is_a_run_beside_it(tmp_path):
    live = subprocess.Popen(
        [PROGRAM, "live", EXAMPLES / "kill-one-rank.yaml", "--set", "run.steps=100000", "--set",
         "faults=[]", "--record", tmp_path / "run.log"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    name = "twin-kill-one-rank"
    beside = None
    try:
        wait_until(lambda: status("kill-one-rank").get("step"), 30)
        beside = subprocess.Popen(
            [PROGRAM, "twin", "kill-one-rank", "--every", "1", "--samples", "2", "--choose",
             "static", "--by", "end", "--out", tmp_path / "out"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        shown = wait_until(lambda: status(name).get("now"))
        rows = [(row["kind"], row["policy"]) for row in shown]
        assert rows == [("step", "recover"), ("end", "recover"), ("step", "static"),
                        ("end", "static")]  # fmt: skip
        wait_until(lambda: status(name)["score"]["steps"])
        assert re.search(r"kill-one-rank +end +static", orrery("status", name).stdout)
        assert "choice" in orrery("status", name).stdout
        now = pd.read_csv(tmp_path / "out" / "now.csv")
        assert set(now.kind) == {"step", "end"}
        assert status(name)["node_loss"] == []  # the run does not survive the loss of its node
        assert "next step" in stop(beside, name)
        assert live.poll() is None
    finally:
        for each in (beside, live):
            if each is not None and each.poll() is None:
                each.terminate()
                each.communicate(timeout=60)


def test_the_twin_of_a_log_is_a_run_that_can_be_stopped(tmp_path):
    log, out, metrics = tmp_path / "jobs.csv", tmp_path / "out", tmp_path / "twin.prom"
    made = orrery("new", "jobs", "--like", "seren", "--jobs", 20000, "--gpus", 64, "--load", 1.1,
                  "-o", log)  # fmt: skip
    assert made.returncode == 0, made.stderr
    beside = subprocess.Popen(
        [PROGRAM, "twin", "jobs", log, "--nodes", "8", "--gpus-per-node", "8", "--policy", "fifo",
         "--choose", "srtf", "--every", "600", "--out", out, "--metrics", metrics],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        shown = wait_until(lambda: status("twin-jobs").get("now"), 60)
        assert {(row["kind"], row["policy"]) for row in shown} == {
            (kind, policy) for kind in ("start", "end") for policy in ("fifo", "srtf")
        }
        first = status("twin-jobs")
        assert (first["kind"], first["policy"], first["phase"]) == ("twin", "fifo", "running")
        wait_until(lambda: status("twin-jobs")["forecasts"] > first["forecasts"], 60)
        wait_until(lambda: status("twin-jobs")["score"]["starts"], 60)
        assert re.search(r"start +fifo +in [\d.]+ s", orrery("status", "twin-jobs").stdout)
        assert 'orrery_twin_forecasts{twin="twin-jobs"} ' in metrics.read_text()
        assert len(pd.read_csv(out / "now.csv")) > 0
        output = stop(beside, "twin-jobs")
    finally:
        if beside.poll() is None:
            beside.kill()
            beside.communicate()
    assert "stopped before the end of the log" in output and "starts" in output
    assert (pd.read_csv(out / "score.csv").kind == "start").any()
