"""orrery cluster as a run: runs, status, attach, set and stop from another terminal, metrics, and a
choice among policies. The cluster is the stand-in API server."""

import json
import re
import socket
import subprocess

from conftest import PROGRAM, orrery, wait_until
from kubernetes_test import driver, gang, needs_client, put_gangs, server  # noqa: F401

NAME = "kubernetes"


def status():
    result = orrery("status", NAME, "--json")
    return json.loads(result.stdout) if result.returncode == 0 else {}


def lines():
    return [event["what"] for event in status().get("events", [])]


def is_placed(server, pod):
    return not server.pod(pod)["spec"].get("schedulingGates")


def stop(run):
    """Stops the run by an order, and returns its output."""
    stopped = orrery("stop", NAME)
    assert stopped.returncode == 0 and "ends after the current reading" in stopped.stdout
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    assert orrery("status", NAME).returncode == 2
    return output, errors


def assert_replays(log):
    replayed = orrery("replay", log, "--json")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    return json.loads(replayed.stdout)


@needs_client
def test_a_policy_on_a_cluster_is_listed_looked_at_and_stopped(server, tmp_path):  # noqa: F811
    metrics = tmp_path / "kube.prom"
    run = driver(tmp_path, "--metrics", metrics, "--max-actions", "30/min")
    put_gangs(server, [gang("a", 2)])
    wait_until(lambda: is_placed(server, "a-1") and status().get("orders") == 1)
    text = orrery("status", NAME).stdout
    assert "ordered: 1 starts, 0 stops, 1 not carried out" in text, text
    server.schedule()
    wait_until(lambda: status()["running"] == 1)
    listed = orrery("runs").stdout
    assert re.search(r"^\w{6}  kubernetes +running +easy \(drive\), 0 waiting, 1 running$", listed,
                     re.MULTILINE), listed  # fmt: skip
    shown = status()
    assert (shown["kind"], shown["policy"], shown["policies"]) == ("cluster", "easy", ["easy"])
    assert (shown["starts"], shown["orders"], shown["lease_s"]) == (1, 0, 4)
    assert shown["readings"] > 0 and shown["failed_readings"] == 0
    assert shown["lease_state"].startswith("leads as ")
    assert any(line.startswith("start gang ml/a on n") for line in lines())
    running = 'orrery_cluster_jobs_running{cluster="kubernetes"} 1\n'
    wait_until(lambda: metrics.exists() and running in metrics.read_text())
    active = 'orrery_cluster_policy_active{cluster="kubernetes",policy="easy"} 1\n'
    assert active in metrics.read_text()
    refused = orrery("drain", NAME, "node:1")
    assert refused.returncode == 2 and "kubectl" in refused.stderr
    assert orrery("stop", NAME, "--checkpoint").returncode == 2
    output, _ = stop(run)
    assert "easy, drive" in output
    assert assert_replays(tmp_path / "kube.log")["decisions"] == 1


@needs_client
def test_metrics_are_served_at_a_socket(server, tmp_path):  # noqa: F811
    path = tmp_path / "metrics"
    run = driver(tmp_path, "--metrics", f"unix:{path}")
    wait_until(lambda: status().get("readings", 0) > 1)
    with socket.socket(socket.AF_UNIX) as scraper:
        scraper.connect(str(path))
        scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b"".join(iter(lambda: scraper.recv(4096), b"")).decode()
    assert answer.startswith("HTTP/1.1 200 OK") and "orrery_cluster_readings_total{" in answer
    stop(run)
    assert not path.exists()


@needs_client
def test_a_parameter_that_is_set_starts_a_gang_and_the_log_replays(server, tmp_path):  # noqa: F811
    quotas = ["--set", "max-min.quotas=[{vc: else, gpus: 8}]", "--set", "max-min.borrow=false"]
    run = driver(tmp_path, *quotas, policy="max-min")
    put_gangs(server, [gang("a", 2)])
    wait_until(lambda: status().get("waiting") == 1)
    wrong = orrery("set", NAME, "max-min.borow=true")
    assert wrong.returncode == 3 and "borrow" in wrong.stderr
    other = orrery("set", NAME, "easy.placement=count")
    assert other.returncode == 2 and "has no policy 'easy'" in other.stderr
    assert status()["starts"] == 0
    done = orrery("set", NAME, "max-min.borrow=true")
    assert done.returncode == 0, done.stderr
    assert "max-min.borrow = true holds from the next reading on" in done.stdout
    wait_until(lambda: is_placed(server, "a-1"))
    _, errors = stop(run)
    assert "the operator has set max-min.borrow = true" in errors
    assert assert_replays(tmp_path / "kube.log")["decisions"] == 1


@needs_client
def test_the_mode_changes_in_a_run(server, tmp_path):  # noqa: F811
    run = driver(tmp_path)
    wait_until(lambda: status().get("readings", 0) > 0)
    unknown = orrery("set", NAME, "mode=drives")
    assert unknown.returncode == 2 and "did you mean 'drive'?" in unknown.stderr
    assert orrery("set", NAME, "mode=shadow").returncode == 0
    wait_until(lambda: status()["mode"] == "shadow")
    put_gangs(server, [gang("a", 1)])
    wait_until(lambda: any(line.startswith("would start gang ml/a") for line in lines()))
    assert status()["starts"] == 0 and not is_placed(server, "a-0")
    assert orrery("set", NAME, "mode=approve").returncode == 0
    question = wait_until(lambda: status()["questions"])[0]
    assert question["what"].startswith("start gang ml/a on n")
    assert not is_placed(server, "a-0")
    assert orrery("set", NAME, "mode=drive").returncode == 0
    wait_until(lambda: is_placed(server, "a-0"))
    wait_until(lambda: status()["questions"] == [])
    stop(run)
    assert assert_replays(tmp_path / "kube.log")["decisions"] >= 3


@needs_client
def test_a_run_that_was_started_in_shadow_mode_is_no_candidate(server, tmp_path):  # noqa: F811
    run = driver(tmp_path, mode="shadow")
    wait_until(lambda: status().get("readings", 0) > 0)
    refused = orrery("set", NAME, "mode=drive")
    assert refused.returncode == 2 and "start it again with --mode" in refused.stderr
    stop(run)
    assert server.requests == []


@needs_client
def test_of_two_operators_the_first_answer_counts(server, tmp_path):  # noqa: F811
    run = driver(tmp_path, "--attended", mode="approve")
    put_gangs(server, [gang("a", 1)])
    decision = wait_until(lambda: status().get("questions"))[0]["decision"]
    words = [PROGRAM, "attach", NAME, "--json"]
    two = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for answer, attached in zip(("approve", "refuse"), two):
        attached.stdin.write(f"{answer} {decision}\n")
        attached.stdin.flush()
    late = f"an order is refused: decision {decision}: "
    wait_until(lambda: any(line.startswith(late) for line in lines()))
    outcome = f"decision {decision} "
    verdicts = wait_until(
        lambda: [x for x in lines() if x.startswith((outcome + "applied", outcome + "rejected"))]
    )
    assert len(verdicts) == 1
    if "applied" in verdicts[0]:
        wait_until(lambda: is_placed(server, "a-0"))
    else:
        assert "by an operator" in verdicts[0] and not is_placed(server, "a-0")
    stop(run)
    seen = [attached.communicate(timeout=60)[0] for attached in two]
    assert all(late in text for text in seen)
    assert_replays(tmp_path / "kube.log")


@needs_client
def test_forecasts_choose_another_policy_and_the_log_replays(server, tmp_path):  # noqa: F811
    choice = ["--choose", "fifo-skip", "--by", "wait", "--choose-every", "0.2"]
    run = driver(tmp_path, *choice, policy="fifo")
    put_gangs(server, [gang("running", 7)])
    wait_until(lambda: is_placed(server, "running-6"))
    server.schedule()
    put_gangs(server, [gang("large", 8)])
    wait_until(lambda: status().get("waiting") == 1)
    put_gangs(server, [gang("small", 1)])
    wait_until(lambda: status()["waiting"] == 2)
    assert status()["policy"] == "fifo" and status()["policies"] == ["fifo", "fifo-skip"]
    assert orrery("set", NAME, "fifo-skip.placement=per-node").returncode == 0
    wait_until(lambda: is_placed(server, "small-0"), 120)
    wait_until(lambda: status()["policy"] == "fifo-skip")
    assert any(line.startswith("fifo-skip instead of fifo: ") for line in lines())
    stop(run)
    log = tmp_path / "kube.log"
    assert assert_replays(log)["decisions"] == 2
    explained = orrery("explain", log, "--job", "ml/small")
    assert explained.returncode == 0, explained.stderr


def test_options_of_a_run_are_checked():
    words = ["cluster", "kubernetes", "--policy", "fifo", "--namespace", "ml"]
    outside = orrery(*words, "--choose", "mine.py", "--by", "wait")
    assert outside.returncode == 2 and "--choose: expected built-in policies" in outside.stderr
    lease = orrery(*words, "--lease", "3 s")
    assert lease.returncode == 2 and "--lease" in lease.stderr
    minutes = orrery(*words, "--lease", "2 min", "--every", "40")
    assert minutes.returncode == 2 and "got 120 s" in minutes.stderr
    rate = orrery(*words, "--max-actions", "5/h")
    assert rate.returncode == 2 and "--max-actions" in rate.stderr
