"""Live runs: a short one, and refusals before any process starts."""

import json
import os
import pathlib
import signal
import socket
import stat
import subprocess

import pytest
from conftest import (
    BRISK, EXAMPLES, PROGRAM, STRAGGLER, alive, children_of, orrery, parts_of, wait_until,
)  # fmt: skip

LONG = ["--set", "run.steps=100000", *BRISK]


def test_a_short_run_really_trains(tmp_path):
    log = tmp_path / "log"
    result = orrery(
        "live", STRAGGLER, "--json", "--set", "run.steps=4", *BRISK, "--record", log,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["mode"], report["ranks"], report["steps_completed"]) == ("live", 4, 4)
    assert report["micro_batches_lost"] == report["micro_batches_repeated"] == 0
    assert len(report["parameters_sha256"]) == 64
    assert 0 < report["final_loss"] < 10
    assert orrery("replay", log).returncode == 0


def test_a_simulation_goes_on_from_what_a_live_run_recorded(tmp_path):
    log = tmp_path / "log"
    killed = EXAMPLES / "kill-one-rank.yaml"
    result = orrery("live", killed, "--json", "--set", "run.steps=12", "--record", log)
    assert result.returncode == 0, result.stderr
    live = json.loads(result.stdout)
    told_s = live["failures"][0]["working_s"]
    for at_s, failures in ((0.3, 1), (told_s + 0.001, 0)):
        result = orrery("simulate", "--from", f"{log}@{at_s} s", "--json")
        assert result.returncode == 0, result.stderr
        simulated = json.loads(result.stdout)
        assert (simulated["mode"], simulated["steps_completed"]) == ("sim", 12)
        assert simulated["micro_batches_lost"] == simulated["micro_batches_repeated"] == 0
        assert len(simulated["failures"]) == failures, "a kill that has struck strikes once"
    result = orrery("simulate", "--from", log, "--set", "run.steps=20", "--json")
    assert json.loads(result.stdout)["steps_completed"] == 12, "it was done"


def test_a_run_goes_on_from_a_checkpoint(tmp_path):
    folder, log = tmp_path / "checkpoints", tmp_path / "log"
    short = ["--json", *BRISK]
    checkpoints = ["--set", f"checkpoints={{folder: {folder}, every: 2}}"]
    first = orrery(
        "live", STRAGGLER, *short, *checkpoints, "--set", "run.steps=4", "--record", log
    )  # fmt: skip
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["checkpoints_written"] == 2
    assert orrery("replay", log).returncode == 0
    second = orrery("live", STRAGGLER, *short, "--set", "run.steps=6", "--from", folder)
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout)["steps_completed"] == 2
    nothing = orrery("live", STRAGGLER, *short, "--from", tmp_path)
    assert nothing.returncode == 3
    assert "expected a complete checkpoint" in nothing.stderr


def test_the_transformer_trains_and_its_gather_is_counted():
    result = orrery(
        "live", STRAGGLER, "--json", "--set", "run.steps=6", "--set", "job.global_batch=16",
        "--set", "job.model.builtin=transformer", "--set", "policies[0].name=static",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["losses"][-1] < report["losses"][0]
    # Real text repeats its bytes: most fetches of a micro-batch are of a row it already has.
    assert report["embedding_gather_saved_bytes"] > report["embedding_gather_bytes"] > 0


def test_a_text_that_is_not_there(tmp_path):
    result = orrery("live", STRAGGLER, "--text", tmp_path / "none.txt")
    assert result.returncode in (3, 4)
    assert "none.txt" in result.stderr


def test_a_text_holds_beside_set(tmp_path):
    result = orrery("live", STRAGGLER, "--text", tmp_path / "none.txt", "--set", "run.steps=1")
    assert result.returncode == 3
    assert "none.txt" in result.stderr


def test_the_fabric_is_the_scenarios_unless_an_option_says_it():
    nccl = ("live", STRAGGLER, "--set", "live.fabric=nccl", "--set", "run.steps=1")
    refused = orrery(*nccl)
    assert refused.returncode in (3, 4)
    assert "nccl" in refused.stderr
    assert orrery(*nccl, "--fabric", "grpc").returncode == 0


def test_ranks_of_a_rigid_scenario_are_bad_input():
    result = orrery("live", STRAGGLER, "--ranks", "3")
    assert result.returncode == 3
    assert "elastic" in result.stderr


@pytest.mark.parametrize("faults", ["2 kill", "2 stop", "1 kill, 2 kill"])
@pytest.mark.parametrize("how", ["replace", "shrink"])
def test_what_is_lost_at_once_is_one_decision_in_both_worlds(tmp_path, faults, how):
    kill, log = EXAMPLES / "kill-one-rank.yaml", tmp_path / "log"
    short = ["--json", "--set", "run.steps=12", "--set", f"policies[0].parameters.how={how}"]
    lost = [each.split() for each in faults.split(", ")]
    entries = [f"{{at_step: 5, rank: {rank}, {kind}: true}}" for rank, kind in lost]
    faults = ["--set", f"faults=[{', '.join(entries)}]"]
    simulated = orrery("simulate", kill, *short, *faults)
    lived = orrery("live", kill, *short, *faults, "--record", log)
    undisturbed = orrery("live", kill, *short, "--set", "faults=[]")
    reports = [json.loads(each.stdout) for each in (simulated, lived, undisturbed)]
    for report in reports:
        assert report["steps_completed"] == 12
        assert report["micro_batches_lost"] == report["micro_batches_repeated"] == 0
    assert [len(report["failures"]) for report in reports] == [len(lost), len(lost), 0]
    assert reports[0]["decisions"] == reports[1]["decisions"] == 1
    assert reports[0]["decision_trace_sha256"] == reports[1]["decision_trace_sha256"]
    assert reports[1]["parameters_sha256"] == reports[2]["parameters_sha256"]
    assert orrery("replay", log).returncode == 0


def test_a_fault_that_a_world_cannot_inject_is_refused_where_it_stands(tmp_path):
    text = STRAGGLER.read_text()
    start = text.index("faults:")
    end = text.index("\n\n", start)
    scenario = tmp_path / "leaf.yaml"
    scenario.write_text(
        text[:start] + "faults:\n  - {at_step: 3, leaf: 0, rate: 0.5}\n" + text[end:]
    )
    line = text[:start].count("\n") + 2
    refused = orrery("live", scenario)
    assert refused.returncode == 3
    assert f"leaf.yaml:{line}:24: error: faults[0].leaf: live mode" in refused.stderr
    short = ["--json", "--set", "run.steps=9"]
    simulated = json.loads(orrery("simulate", scenario, *short).stdout)
    assert simulated["faults_injected"] == 1


def descendants_of(pid):
    """Process ids, parents first."""
    found = []
    for child in children_of(pid):
        found += [child, *descendants_of(child)]
    return found


@pytest.fixture
def training():
    """A live run of four agents: the command, and all processes below it."""
    process = subprocess.Popen(
        [PROGRAM, "live", STRAGGLER, *LONG], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        found = wait_until(lambda: len(below := descendants_of(process.pid)) >= 5 and below)
        yield process, found
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


def folder_of(pids):
    """The folder of the run's sockets: the one that its processes listen in."""
    inodes = set()
    for pid in pids:
        for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(entry)
            except OSError:
                continue
            if target.startswith("socket:"):
                inodes.add(target[8:-1])
    for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]:
        parts = line.split()
        if len(parts) == 8 and parts[6] in inodes and "/orrery-live-" in parts[7]:
            return pathlib.Path(parts[7]).parent
    return None


def test_secrets_are_read_from_nowhere_but_a_private_folder_and_go_with_the_run(training):
    process, below = training
    folder = wait_until(lambda: folder_of(below))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    others = {"journal", "status.json", "status.json.new", ".orrery-live-run"}
    files = [file for file in folder.iterdir() if file.is_file() and file.name not in others]
    secrets = {file: file.read_bytes() for file in files}
    assert {file.name for file in secrets} == {"token", "ca.pem", "certificate.pem", "key.pem"}
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in secrets)
    shown = {secrets[folder / "token"], secrets[folder / "token"].hex().encode()}
    shown |= set(secrets[folder / "key.pem"].split(b"\n")[1:-2])
    for pid in [process.pid, *below]:
        for name in ("cmdline", "environ"):
            text = pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
            assert not any(secret in text for secret in shown)
    process.send_signal(signal.SIGINT)
    process.wait(60)
    wait_until(lambda: not any(map(alive, below)))
    assert not folder.exists()


def test_what_a_killed_run_leaves_goes_with_the_next(training):
    process, below = training
    folder = wait_until(lambda: folder_of(below))
    process.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(map(alive, below)))
    assert orrery("live", STRAGGLER, "--set", "run.steps=1").returncode == 0
    assert not folder.exists()


def test_a_stranger_who_knocks_during_a_run_is_listed_and_changes_nothing():
    process = subprocess.Popen(
        [PROGRAM, "live", STRAGGLER, "--json", "--set", "live.listen=127.0.0.1",
         "--set", "run.steps=16", *BRISK],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    worker = wait_until(lambda: children_of(process.pid))[0]
    controller = wait_until(lambda: parts_of(worker, "controller"))[0]
    port = wait_until(lambda: listening_port(controller))
    wait_until(lambda: len(parts_of(worker, "agent")) == 4)
    for knock in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(3000)):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(knock)
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(4096):
                pass
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    report = json.loads(out)
    assert report["steps_completed"] == 16
    assert report["failures"] == []
    assert len(err.splitlines()) == 2
    assert all("refused" in line for line in err.splitlines())


def listening_port(pid):
    """The TCP port at which the process listens; nothing while there is none."""
    inodes = set()
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(entry)[8:-1])
        except OSError:
            continue
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            parts = line.split()
            if parts[3] == "0A" and parts[9] in inodes:
                return int(parts[1].split(":")[1], 16)
    return None
