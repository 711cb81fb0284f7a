"""orrery jobs --scheduler: an external scheduler decides, by Batsim's protocol over ZeroMQ."""

import csv
import pathlib
import random
import shutil
import socket
import sys

import pytest
from conftest import orrery

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


@pytest.mark.skipif(shutil.which("pybatsim") is None, reason="left out: pybatsim is not installed")
@pytest.mark.parametrize("name", ["schedFcfs", "easyBackfill", "fillerSched"])
def test_schedulers_of_pybatsim_run_unmodified(tmp_path, name):
    port = free_port()
    started = starts(
        tmp_path, log_of(tmp_path),
        "--scheduler", f"cd {tmp_path} && pybatsim {name} -s tcp://127.0.0.1:{port}",
        "--scheduler-port", port,
    )  # fmt: skip
    assert len(started) == 300
    assert all(float(start) >= 0 for start in started.values())
