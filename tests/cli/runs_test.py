"""orrery runs, status, attach, stop: a live run seen and ended from another terminal."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import BRISK, EXAMPLES, STRAGGLER, orrery
from operating import BINARY, ROOT, begin, settings, wait_until


RECOVER = ["--set", "policies=[{name: recover, parameters: {how: replace}}]"]
CHEAPEST = ["--set", "policies=[{name: cheapest-goodput}]"]


def run_id(scenario):
    runs = json.loads(orrery("runs", "--json").stdout)
    found = [each["run"] for each in runs if each.get("scenario") == scenario]
    return found[0] if found else None


@pytest.fixture
def training(tmp_path):
    """A run that lasts longer than any test, with checkpoints; its id and its process."""
    name = f"seen from outside {tmp_path.name}"
    run = begin(tmp_path, name, steps=2000)
    try:
        wait_until(lambda: run_id(name) and steps_of(name) > 2)
        yield name, run
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()


def steps_of(name):
    result = orrery("status", name, "--json")
    return json.loads(result.stdout)["step"] if result.returncode == 0 else 0


def test_a_run_is_listed_looked_at_and_stopped_with_a_checkpoint(training, tmp_path):
    name, run = training
    listed = orrery("runs").stdout
    assert re.search(rf"^\w{{6}}  {name} +training +step \d+ of 2000", listed, re.MULTILINE)
    shown = orrery("status", run_id(name)).stdout
    assert len(re.findall(r"^  rank \d +working  pid \d+", shown, re.MULTILINE)) == 4
    followed = subprocess.Popen([BINARY, "attach", name], stdout=subprocess.PIPE, text=True)
    assert orrery("stop", name, "--checkpoint").returncode == 0
    out, err = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "stopped by the operator" in err
    events, _ = followed.communicate(timeout=60)
    assert "the run is to end: stopped by the operator" in events
    assert events.endswith("has ended\n")
    advice = r"^  to continue from its newest complete checkpoint: orrery (.*)$"
    command = re.search(advice, err, re.M)
    goes_on = orrery(*shlex.split(command[1]), "--set", "run.steps=60")
    assert goes_on.returncode == 3 or "steps" in goes_on.stdout
    assert list((tmp_path / "checkpoints").glob("*manifest*"))
    assert orrery("status", name).returncode == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_checkpoint_and_says_how_to_go_on(training, tmp_path, number):
    name, run = training
    run.send_signal(number)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 128 + number
    assert f"stopped by signal {int(number)}" in err
    assert f"--from {tmp_path}/checkpoints" in err
    assert list((tmp_path / "checkpoints").glob("*manifest*"))
    wait_until(lambda: run_id(name) is None)


def test_nothing_is_left_of_a_run_whose_command_is_killed(training):
    name, run = training
    folder = Path(os.environ["ORRERY_RUNS"]) / f"orrery-live-{run_id(name)}"
    assert (folder / "key.pem").exists()
    run.kill()
    run.wait()
    wait_until(lambda: not folder.exists())


def test_runs_of_another_parent_folder_are_not_found(training, tmp_path, monkeypatch):
    name, _ = training
    assert orrery("status", name).returncode == 0
    monkeypatch.setenv("ORRERY_RUNS", "/tmp/no-runs-here")
    assert json.loads(orrery("runs", "--json").stdout) == []
    assert orrery("status", name).returncode == 2
    monkeypatch.setenv("ORRERY_RUNS", "here")
    refused = orrery("runs")
    assert refused.returncode == 2
    assert "ORRERY_RUNS: expected an absolute path" in refused.stderr


def test_a_run_that_is_not_there_is_named():
    result = orrery("status", "no such run")
    assert result.returncode == 2
    assert "expected a live run of this user" in result.stderr
    assert orrery("stop", "no such run").returncode == 2


def test_metrics_are_where_the_collector_looks(tmp_path):
    file = tmp_path / "run.prom"
    steps = ["--set", "run.steps=4", *BRISK]
    result = orrery("live", STRAGGLER, *steps, "--set", f"live.metrics={file}")
    assert result.returncode == 0, result.stderr
    text = file.read_text()
    assert re.search(r"^orrery_steps_total\{scenario=\"[^\"]+\"\} \d+$", text, re.MULTILINE)
    started = time.time()
    assert file.stat().st_mtime <= started


def as_pattern(line):
    """The line as any run prints it: other ids, times and counts, settings left out."""
    line = re.sub(r" --set ('[^']*'|\S+)", "", line)
    line = re.sub(r"^\w{6}(?=  )|(?<=run )\w{6}\b", "ID", line)
    return re.sub(r"\s+", " ", re.sub(r"\d[\d.,]*", "N", line)).strip()


def blocks_of(transcript):
    """Returns the output of each command, as the set of its lines' patterns."""
    blocks = {}
    for line in transcript.strip().splitlines():
        pattern = as_pattern(line)
        if pattern.startswith("$ "):
            shown = blocks.setdefault(pattern, set())
        elif pattern:
            shown.add(pattern)
    return blocks


def test_the_transcript_in_the_documentation_is_what_a_run_prints():
    page = (ROOT / "docs" / "operating.md").read_text()
    told = re.search(r"```\n(\$ orrery live .*?)```", page, re.DOTALL)[1]
    printed = subprocess.run(
        [sys.executable, ROOT / "tests" / "cli" / "operating.py"],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert printed.returncode == 0, printed.stderr
    expected, shown = blocks_of(told), blocks_of(printed.stdout)
    attached = "$ orrery attach nightly"  # a busy machine has more to tell
    assert expected.pop(attached) <= shown.pop(attached), printed.stdout
    assert expected == shown, printed.stdout


SLOW = ["--set", "faults=[{at_step: 10, rank: 2, slow: 3}]"]
NEVER = ["--set", "policies=[{name: predictive-rebalance, parameters: {gain_threshold: 10}}]"]


def test_a_parameter_that_is_set_counts_from_then_on_and_in_a_replay(tmp_path):
    name, log = f"set {tmp_path.name}", tmp_path / "run.log"
    run = begin(tmp_path, name, 60, *SLOW, *NEVER, "--record", str(log))
    wait_until(lambda: run_id(name) and steps_of(name) > 14)
    assert json.loads(orrery("status", name, "--json").stdout)["decisions"] == 0
    wrong = orrery("set", name, "predictive-rebalance.gain_treshold=0.03")
    assert wrong.returncode == 3 and "gain_threshold" in wrong.stderr
    other = orrery("set", name, "recover.how=replace")
    assert other.returncode != 0
    assert orrery("set", name, "predictive-rebalance.gain_threshold=0.03").returncode == 0
    out, err = run.communicate(timeout=90)
    assert run.returncode == 0, err
    replayed = orrery("replay", log, "--json")
    assert replayed.returncode == 0, replayed.stderr
    assert json.loads(replayed.stdout)["decisions"] > 0


def test_a_node_that_an_operator_removes_is_left_before_and_tested_after(tmp_path):
    name, log = f"drained {tmp_path.name}", tmp_path / "run.log"
    slots = ["--set", "cluster.nodes=2", "--set", "elastic=true", *RECOVER]
    calm = begin(tmp_path / "calm", f"calm {tmp_path.name}", 200, *slots, "--json")
    run = begin(tmp_path, name, 200, *slots, "--record", str(log), "--json")
    wait_until(lambda: run_id(name) and steps_of(name) > 5)
    refused = {
        ("nod:0",): "did you mean node:0?",
        ("node",): "such as gpu:3 or node:1",
        ("node:7",): "node 7: expected a node of the run's cluster, 0 to 1",
        ("gpu:99", "--in", "1min"): "gpu 99: expected a gpu of the run's cluster, 0 to 7",
        ("node:0", "--in", "soon"): "--in",
        ("node:0", "--test"): "--for",
    }
    for words, why in refused.items():
        result = orrery("drain", name, *words)
        assert result.returncode in (2, 3) and why in result.stderr, result.stderr
    done = orrery("drain", name, "node:0", "--in", "3s", "--for", "5s", "--test")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^run \w{6}: node 0 is to be removed at [\d.]+ s; back at", done.stdout)
    twice = orrery("drain", name, "gpu:1")
    assert twice.returncode == 2 and "gpu 1: its removal is announced already" in twice.stderr
    status = wait_until(lambda: json.loads(orrery("status", name, "--json").stdout)["removals"])
    assert [each["part"] for each in status] == ["node 0"]
    wait_until(lambda: "is removed as announced" in orrery("status", name).stdout)
    assert orrery("drain", name, "node:0").returncode == 2
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    report = json.loads(out)
    undisturbed = json.loads(calm.communicate(timeout=120)[0])
    assert report["parameters_sha256"] == undisturbed["parameters_sha256"]
    assert (report["failures"], report["ranks_missing"], report["decisions"]) == ([], 0, 1)
    replayed = orrery("replay", log, "--json")
    assert replayed.returncode == 0, replayed.stderr
    assert json.loads(replayed.stdout)["decisions"] == 1


def test_decisions_are_refused_from_attach(tmp_path):
    name = f"refused {tmp_path.name}"
    run = begin(tmp_path, name, 30, *SLOW, "--mode", "approve", "--attended", "--json")
    wait_until(lambda: run_id(name))
    with subprocess.Popen(
        [BINARY, "attach", name, "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as attached:
        events = []
        for line in attached.stdout:
            events.append(json.loads(line)["what"])
            if " asks: " in line:
                attached.stdin.write("refuse\n")
                attached.stdin.flush()
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    report = json.loads(out)["hand_over"]
    assert any(" asks: " in event for event in events)
    assert report["passed_on"] == 0 and report["refused"] >= 1


def test_events_are_given_to_a_command(training, tmp_path):
    name, _ = training
    heard = tmp_path / "heard"
    command = f"printf '%s\\n' >> {heard}"
    words = [BINARY, "attach", name, "--exec", command]
    followed = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    wait_until(lambda: heard.exists() and heard.read_text())
    orrery("stop", name, "--checkpoint")  # slow enough for the last event to be seen
    assert followed.wait(timeout=60) == 0
    events = [json.loads(line) for line in heard.read_text().splitlines()]
    assert {event["scenario"] for event in events} == {name}
    assert any("is to end" in event["what"] for event in events)


def test_a_socket_answers_with_the_metrics(tmp_path):
    name, path = f"metrics {tmp_path.name}", tmp_path / "metrics"
    run = begin(tmp_path, name, 2000, "--set", f"live.metrics=unix:{path}")
    wait_until(lambda: run_id(name) and steps_of(name) > 2)
    with socket.socket(socket.AF_UNIX) as scraper:
        scraper.connect(str(path))
        scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b"".join(iter(lambda: scraper.recv(4096), b"")).decode()
    assert answer.startswith("HTTP/1.1 200 OK") and "orrery_steps_total{" in answer
    orrery("stop", name)
    run.communicate(timeout=60)
    assert not path.exists()


def test_a_run_without_checkpoints_cannot_be_stopped_with_one(tmp_path):
    name = f"no checkpoints {tmp_path.name}"
    words = ["live", STRAGGLER, "--set", "run.steps=2000", "--set", f"name={name}"]
    run = subprocess.Popen([BINARY, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: run_id(name) and steps_of(name) > 2)
        refused = orrery("stop", name, "--checkpoint")
        assert refused.returncode == 2
        assert "expected a run with a folder for checkpoints" in refused.stderr
        assert orrery("stop", name).returncode == 0
        assert run.wait(timeout=60) == 1
    finally:
        run.kill()
        run.wait()


def kill_ranks(name, ranks=range(4)):
    status = json.loads(orrery("status", name, "--json").stdout)
    for rank in status["ranks"]:
        if rank["pid"] and rank["rank"] in ranks:
            os.kill(rank["pid"], signal.SIGKILL)


def test_a_run_that_has_lost_its_state_goes_on_by_itself_from_its_checkpoint(tmp_path):
    calm = begin(tmp_path / "calm", f"calm {tmp_path.name}", 80, "--json")
    both_that_hold_a_part = ((0, 2), ["--set", "job.layout.shard=optimizer"])
    cases = ((range(4), RECOVER), (range(4), CHEAPEST), both_that_hold_a_part)
    reports = []
    for number, (ranks, options) in enumerate(cases):
        name = f"again {number} {tmp_path.name}"
        often = f"checkpoints={{folder: {tmp_path}/{number}, every: 10, keep: 2}}"
        run = begin(tmp_path, name, 80, "--set", often, *options, "--json")
        wait_until(lambda: run_id(name) and steps_of(name) > 25)
        kill_ranks(name, ranks)
        out, err = run.communicate(timeout=120)
        assert run.returncode == 0, err
        # The policy restarts the ranks if all are lost; without a part of the state the run ends.
        continues = "it continues by itself from the newest complete checkpoint" in err
        assert continues == (number == 2)
        reports.append(json.loads(out))
        if continues:
            continue
        losses = reports[-1]["failures"]
        assert len(losses) == 4
        # A wait for survival.hold_limit would take 10 min.
        assert all(loss["resumed_s"] - loss["time_s"] < 10 for loss in losses)
    reports.append(json.loads(calm.communicate(timeout=90)[0]))
    assert len({report["parameters_sha256"] for report in reports}) == 1


def test_a_run_without_checkpoints_that_has_lost_all_ranks_ends_and_says_so(tmp_path):
    name = f"all gone {tmp_path.name}"
    words = settings(tmp_path, name, 2000)
    at = next(i for i, word in enumerate(words) if word.startswith("checkpoints="))
    del words[at - 1 : at + 1]
    command = [BINARY, "live", STRAGGLER, *words, *RECOVER]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: run_id(name) and steps_of(name) > 5)
    kill_ranks(name)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 1, err
    assert "the training state (rank" in err and "was lost with the ranks that held it" in err
    assert "it kept no checkpoints (set checkpoints.folder)" in err


KILL = EXAMPLES / "kill-one-rank.yaml"


def test_a_run_short_of_ranks_says_so_at_once_and_at_its_end(tmp_path):
    name = f"short {tmp_path.name}"
    words = ["--set", f"name={name}", "--set", "policies=[{name: static}]", "--set",
             "survival.on_loss=go-on", "--set", "run.steps=60"]  # fmt: skip
    command = [BINARY, "live", KILL, *words, "--json"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: "the job lacks 1 rank" in orrery("status", name).stdout)
    out, err = run.communicate(timeout=90)
    assert run.returncode == 6, err
    report = json.loads(out)
    assert (report["ranks"], report["ranks_at_end"], report["ranks_missing"]) == (4, 3, 1)
    assert "the job has 3 of 4 ranks (rank 2 killed by signal 9" in err
    assert any("the run ends with 3 of 4 ranks" in each for each in report["warnings"])


def test_a_run_that_a_policy_has_made_smaller_is_not_short():
    shrunk = orrery(
        "live", KILL, *BRISK, "--json", "--set", "run.steps=24",
        "--set", "policies[0].parameters.how=shrink",
    )  # fmt: skip
    assert shrunk.returncode == 0, shrunk.stderr
    report = json.loads(shrunk.stdout)
    assert (report["ranks_at_end"], report["ranks_missing"], report["warnings"]) == (3, 0, [])
