"""orrery jobs --scheduler: an external scheduler decides, by Batsim's protocol over ZeroMQ."""

import csv
import importlib.util
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys

import pytest
from conftest import data_file, orrery

CLIENTS = pathlib.Path(__file__).with_name("pybatsim")
sys.path.insert(0, str(CLIENTS))
import rules  # noqa: E402  (a folder of its own, which pybatsim reads too)

SCHEDULER = pathlib.Path(__file__).with_name("batsim_scheduler.py")


def free_port():
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return each.getsockname()[1]


def log_of(folder, jobs=300, seed=3):
    """A busy cluster of 32 GPUs; durations are the estimates."""
    draw = random.Random(seed)
    rows, now = [], 0
    for number in range(jobs):
        now += draw.choice([0, 0, 30, 61, 240])
        gpus = draw.choice([1, 1, 2, 4, 8, 12, 30])
        rows.append(f"j{number},{now},{gpus},{draw.randint(1, 900)},vc,u{number % 5}")
    file = folder / "log.csv"
    file.write_text("job_id,submit_s,num_gpus,duration_s,vc,user\n" + "\n".join(rows) + "\n")
    return file


def starts(folder, log, *words):
    """Start of each job of a replay."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    result = orrery("jobs", log, "--nodes", 4, "--gpus-per-node", 8, *words, "--out", out)
    assert result.returncode == 0, result.stdout + result.stderr
    with open(out / "jobs.csv") as table:
        return {row["job_id"]: row["start_s"] for row in csv.DictReader(table)}


def scheduler(kind):
    port = free_port()
    return ["--scheduler", f"{sys.executable} {SCHEDULER} {port} {kind}", "--scheduler-port", port]


@pytest.mark.parametrize("policy", ["fifo", "easy"])
def test_a_scheduler_with_the_rules_of_a_policy_gives_its_starts(tmp_path, policy):
    log = log_of(tmp_path)
    ours = starts(tmp_path, log, "--policy", policy)
    assert len(ours) == 300
    assert starts(tmp_path, log, *scheduler(policy)) == ours


def test_wrong_answers_are_errors_of_the_scheduler(tmp_path):
    log = log_of(tmp_path, jobs=3)
    for kind, message in [("twice", "impossible"), ("kill", "KILL_JOB, which is not supported"),
                          ("silent", "has ended before its answer"),
                          ("garbage", "found another protocol")]:  # fmt: skip
        words = scheduler(kind)
        result = orrery("jobs", log, "--nodes", 4, "--gpus-per-node", 8, *words)
        assert result.returncode in (3, 4) and message in result.stderr, (kind, result.stderr)
    result = orrery("jobs", log, "--nodes", 4, "--gpus-per-node", 8, "--policy", "fifo",
                    "--scheduler", "true")  # fmt: skip
    assert result.returncode == 2


def test_an_answer_that_is_cut_off_is_bad_input(tmp_path):
    log = log_of(tmp_path, jobs=3)
    result = orrery("jobs", log, "--nodes", 4, "--gpus-per-node", 8, *scheduler("truncated"))
    assert result.returncode == 3
    assert """with 'now' and 'events', found '{"now": 1.0, "events": '""" in result.stderr


def test_a_scheduler_that_hangs_is_ended_after_its_patience(tmp_path):
    log, words = log_of(tmp_path, jobs=3), scheduler("hang")
    result = orrery("jobs", log, "--nodes", 4, "--gpus-per-node", 8, *words,
                    "--scheduler-patience", 2)  # fmt: skip
    assert result.returncode == 4
    assert f"scheduler at 127.0.0.1:{words[-1]} within 2 s, got none" in result.stderr
    assert "received ['SIMULATION_BEGINS']" in result.stderr
    assert "SIMULATION_ENDS" not in result.stderr  # its answer would take as long
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert f"{SCHEDULER} {words[-1]} hang" not in running.stdout
    for patience in (0, "-1", "nan"):
        wrong = orrery("jobs", log, "--nodes", 4, "--gpus-per-node", 8, *words,
                       "--scheduler-patience", patience)  # fmt: skip
        assert wrong.returncode == 2 and "--scheduler-patience" in wrong.stderr


LOGS = {"philly_small": ("philly_small.csv", 3), "philly_mid": ("philly_mid.csv", 20)}
if os.environ.get("ORRERY_SCHEDULERS") == "all":  # ./dev soak --schedulers
    LOGS["philly_big"] = ("philly_big.csv.gz", 64)
RULES = {"schedFcfs": rules.Fcfs, "easyBackfill": rules.Easy, "fillerSched": rules.Filler}
with_pybatsim = pytest.mark.skipif(
    importlib.util.find_spec("batsim") is None, reason="left out: pybatsim is not installed"
)


def replay(folder, log, *words):
    """Rows of jobs.csv of a replay of a Philly log on its nodes of 8 GPUs."""
    name, nodes = LOGS[log]
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    result = orrery("jobs", data_file("jobs", name), "--nodes", nodes, "--gpus-per-node", 8,
                    *words, "--out", out, timeout=6 * 3600)  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    with open(out / "jobs.csv") as table:
        return list(csv.DictReader(table))


def pybatsim(folder, name):
    """Words that let a scheduler of pybatsim decide. Some of them write files where they run."""
    port = free_port()
    command = f"{sys.executable} -m batsim.cmds.launcher {name} -v warning -t 0"
    return ["--scheduler-port", port, "--scheduler",
            f"cd {folder} && exec {command} -s tcp://127.0.0.1:{port} >/dev/null"]  # fmt: skip


@with_pybatsim
@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("name", RULES)
def test_each_start_of_a_scheduler_of_pybatsim_follows_its_rules(tmp_path, name, log):
    rows = replay(tmp_path, log, *pybatsim(tmp_path, name))
    jobs = [
        rules.Job(row["job_id"], float(row["submit_s"]), int(row["num_gpus"]),
                  float(row["duration_s"]))
        for row in rows
    ]  # fmt: skip
    found = {row["job_id"]: float(row["start_s"]) for row in rows}
    rules.Filler.order = found
    expected = rules.starts(RULES[name], jobs, 8 * LOGS[log][1])
    different = [(job, at, expected[job]) for job, at in found.items() if at != expected[job]]
    assert len(found) == len(jobs) > 1000
    # Starts of fillerSched are 5 ms after events; all others are whole seconds.
    assert [each for each in different if abs(each[1] - each[2]) > 1e-6] == []


@with_pybatsim
@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("policy", ["fifo", "easy"])
def test_a_client_of_pybatsim_gives_the_starts_of_a_policy(tmp_path, policy, log):
    client = CLIENTS / f"{policy}.py"
    ours = replay(tmp_path, log, "--policy", policy)
    theirs = replay(tmp_path, log, *pybatsim(tmp_path, client))
    assert [row["start_s"] for row in theirs] == [row["start_s"] for row in ours]


def test_the_independent_program_follows_the_rules_by_hand():
    job = rules.Job
    # b waits for both resources; c would fit before it, d ends before b begins.
    jobs = [job("a", 0, 1, 10), job("b", 1, 2, 5), job("c", 2, 1, 20), job("d", 3, 1, 7)]
    assert rules.starts(rules.Fcfs, jobs, 2) == {"a": 0, "b": 10, "c": 15, "d": 15}
    assert rules.starts(rules.Easy, jobs, 2) == {"a": 0, "b": 10, "c": 15, "d": 3}
    # Three of four resources are free, but not in a row.
    jobs = [job("a", 0, 1, 5), job("b", 0, 1, 50), job("c", 0, 2, 5), job("d", 6, 3, 1)]
    assert rules.starts(rules.Fcfs, jobs, 4)["d"] == 50
    rules.Filler.order = {"a": 0, "b": 1, "c": 2, "d": 3}
    starts = rules.starts(rules.Filler, jobs, 4)
    assert starts == pytest.approx({"a": 0.005, "b": 0.01, "c": 0.015, "d": 6.005})
