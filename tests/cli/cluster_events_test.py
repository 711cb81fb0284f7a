"""orrery cluster slurm beside users and operators who act on jobs and nodes of a real Slurm;
controls of a run."""

import re
import subprocess
import time

import pytest
from cluster_test import LEASE, driver, end, needs_slurm
from conftest import PROGRAM, kill_all, orrery, wait_until
from real_slurm import RealSlurm
from runs_of_slurm import lines, status

pytestmark = needs_slurm


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    cluster = RealSlurm(tmp_path_factory.mktemp("events") / "slurm", nodes=4, gpus=8, lease=LEASE)
    yield cluster
    cluster.stop()


@pytest.fixture
def drive(slurm):
    """A function that starts a driver, which ends with the test."""
    started = []

    def start(*words):
        started.append(driver(slurm, *words, policy="fifo"))
        return started[-1]

    yield start
    kill_all(started)


def states_of(slurm, *jobs):
    states = slurm.jobs()
    return [states.get(job) for job in jobs]


def wait_for_states(slurm, jobs, states, seconds=40):
    slurm.wait_for(lambda: states_of(slurm, *jobs) == states, seconds)


def node_of(slurm, job):
    return slurm.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%N").strip()


def update(slurm, *words):
    slurm.run("scontrol", "update", *words)


def assert_replays(log):
    replayed = orrery("replay", log)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_acts_of_users_and_operators_arrive_as_events(slurm, drive, tmp_path):
    log = tmp_path / "events.log"
    for node in ("n3", "n4"):
        update(slurm, f"NodeName={node}", "State=DRAIN", "Reason=test")
    run = drive(log)
    long_job, running = (slurm.submit(1, 8, "sleep 300", "-t", "5") for _ in range(2))
    wait_for_states(slurm, (long_job, running), ["RUNNING"] * 2)
    wait_until(lambda: status().get("running") == 2)
    update(slurm, f"JobId={long_job}", "EndTime=now")  # Slurm looks every 30 s for a TIMEOUT
    first, second, third = (slurm.submit(1, 8, "sleep 300", "-t", "5") for _ in range(3))
    wait_until(lambda: status()["waiting"] == 3)  # drained nodes get no job
    slurm.run("scancel", first)
    wait_until(lambda: status()["waiting"] == 2)
    slurm.run("scontrol", "hold", second)
    wait_until(lambda: status()["waiting"] == 1)
    update(slurm, f"JobId={third}", "TimeLimit=2")
    changed = f"job {third} was changed in Slurm: 1 nodes of 8 GPUs in orrery, 120 s"
    wait_until(lambda: changed in lines())
    assert status()["waiting"] == 1 and states_of(slurm, third) == ["PENDING"]
    slurm.run("scancel", running)
    wait_for_states(slurm, (running, third), ["CANCELLED", "RUNNING"])
    # Fillers of the CPUs: an order waits there, and its job is cancelled.
    filler = slurm.submit(1, 0, "sleep 60", "-n8", "-w", "n3", partition="other")
    update(slurm, "NodeName=n3", "State=RESUME")
    wait_for_states(slurm, (filler,), ["RUNNING"])
    ordered = slurm.submit(1, 8, "sleep 300", "-t", "5")
    wait_until(lambda: status()["orders"] == 1)
    slurm.run("scancel", ordered)
    wait_until(lambda: (status()["orders"], status()["waiting"]) == (0, 0))
    # A released job has no lease until the next reading: Slurm would start it on free nodes.
    slurm.run("scontrol", "release", second)
    wait_until(lambda: status()["orders"] == 1)
    slurm.run("scancel", filler)
    wait_for_states(slurm, (second,), ["RUNNING"])
    assert node_of(slurm, second) == "n3"
    wait_for_states(slurm, (long_job,), ["TIMEOUT"], 60)
    wait_until(lambda: status()["running"] == 2)
    for job in (second, third):
        slurm.run("scancel", job)
    wait_until(lambda: (status()["running"], status()["waiting"]) == (0, 0))
    update(slurm, "NodeName=n4", "State=RESUME")
    output, errors = end(run)
    assert run.returncode == 0, errors
    starts = re.findall(r"start job (\d+) on (\w+)", output)
    assert [job for job, _ in starts] == [long_job, running, third, ordered, second], output
    assert "without a decision" not in errors and "is gone" not in errors, errors
    assert_replays(log)


def test_the_controls_of_a_run_hold_on_slurm(slurm, drive, tmp_path):
    switch, metrics, log = tmp_path / "halt", tmp_path / "slurm.prom", tmp_path / "controls.log"
    run = drive(log, "--kill-switch", switch, "--max-actions", "2/min", "--metrics", metrics)
    wait_until(lambda: status().get("readings", 0) > 0)
    jobs = [slurm.submit(1, 1, "sleep 60") for _ in range(3)]
    wait_for_states(slurm, jobs, ["RUNNING", "RUNNING", "PENDING"])
    wait_until(lambda: any("limit of 2 actions a minute is reached" in line for line in lines()))
    wait_until(lambda: 'orrery_cluster_jobs_waiting{cluster="slurm"} 1\n' in metrics.read_text())
    assert (status()["starts"], status()["mode"]) == (2, "drive")
    attached = subprocess.Popen(
        [PROGRAM, "attach", "slurm", "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    switch.touch()
    begin = time.monotonic()
    wait_for_states(slurm, jobs, ["RUNNING"] * 3)  # the lease has ended
    assert time.monotonic() - begin < LEASE + 15
    by_itself = f"job {jobs[2]} was started on"
    wait_until(lambda: any(line.startswith(by_itself) for line in lines()))
    switch.unlink()
    assert orrery("set", "slurm", "mode=shadow").returncode == 0
    wait_until(lambda: status()["mode"] == "shadow")
    last = slurm.submit(1, 1, "sleep 60")
    would = f"would start job {last} on n"
    wait_until(lambda: any(line.startswith(would) for line in lines()))
    for job in (*jobs, last):
        slurm.run("scancel", job)
    stopped = orrery("stop", "slurm")
    assert stopped.returncode == 0 and "ends after the current reading" in stopped.stdout
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    assert by_itself in attached.communicate(timeout=30)[0]
    assert "2 starts, 0 stops" in output
    assert_replays(log)
