"""orrery cluster slurm: a queue policy drives a real Slurm of four nodes on this machine."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from conftest import PROGRAM, orrery
from real_slurm import SEARCH, RealSlurm, missing

needs_slurm = pytest.mark.skipif(
    bool(missing()), reason=f"left out: Debian's slurmctld, slurmd, slurm-client ({missing()})"
)


@pytest.fixture
def slurm(tmp_path):
    cluster = RealSlurm(tmp_path / "slurm", nodes=4, gpus=8, lease=LEASE)
    yield cluster
    cluster.stop()


LEASE = 6


def driver(slurm, log, *words, policy="easy", mode="drive", every_s=0.5):
    """A running `orrery cluster slurm`."""
    return subprocess.Popen(
        [PROGRAM, "cluster", "slurm", "--policy", policy, "--partition", "orrery", "--mode", mode,
         "--lease", str(LEASE), "--every", str(every_s), "--record", log, *words],
        env=slurm.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def end(process):
    """Output and error output of a driver that is told to stop."""
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=60)


def completed(slurm):
    """Number of complete jobs."""
    return list(slurm.jobs().values()).count("COMPLETED")


def starts_of(folder):
    """Number of starts of each job by the marks that the jobs write."""
    return {path.name: len(path.read_text().splitlines()) for path in folder.glob("mark-*")}


@needs_slurm
def test_thirty_jobs_survive_five_kills_of_the_driver_and_start_once_each(slurm, tmp_path):
    log, printed = tmp_path / "drive.log", []
    drive, jobs = driver(slurm, log), []
    for kill in range(5):
        for i in range(6 * kill, 6 * kill + 6):
            mark = slurm.folder / "jobs" / f"mark-{i}"
            jobs.append(slurm.submit(1 + i % 2, (8, 4, 6)[i % 3],
                                     f"echo x >> {mark}; sleep {1 + i % 3}"))  # fmt: skip
        if kill == 0:
            other = slurm.submit(1, 8, "sleep 2", partition="other")
        slurm.wait_for(lambda done=4 * kill + 2: completed(slurm) >= done, 60)
        time.sleep(0.37 * kill)  # another instant of a reading each time
        drive.kill()
        printed.append(drive.communicate()[0])
        drive = driver(slurm, log)
    slurm.wait_for(lambda: completed(slurm) == 31, 90)
    output, errors = end(drive)
    assert drive.returncode == 0, errors
    assert starts_of(slurm.folder / "jobs") == {f"mark-{i}": 1 for i in range(30)}
    assert set(slurm.jobs()) == {*jobs, other}
    assert "complaints" in output and f"job {other} " not in output + "".join(printed)
    logs = [tmp_path / f"drive.log.{number}" for number in range(1, 6)]
    for path, text in zip([*logs, log], [*printed, output]):
        replayed = orrery("replay", path)
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
        decided = re.search(r"(\d+) decisions", replayed.stdout)
        assert abs(int(decided[1]) - text.count(" start job ")) <= (path != log)


@needs_slurm
def test_nodes_that_do_not_fit_a_job_are_taken_back_and_the_job_starts(slurm, tmp_path):
    tools = tmp_path / "bin"  # a scontrol that adds nodes to starts until a job is released
    tools.mkdir()
    real = shutil.which("scontrol", path=SEARCH)
    (tools / "scontrol").write_text(
        "#!/bin/sh\n"
        f'[ $# -eq 0 ] || exec {real} "$@"\n'
        "lines=$(cat)\n"
        f"case $lines in *release*) touch {tools}/done;; esac\n"
        f"[ -e {tools}/done ] || "
        "lines=$(echo \"$lines\" | sed 's/ReqNodeList=n[0-9]*/&,n3,n4/')\n"
        f'echo "$lines" | {real}\n'
        "case $lines in *n3,n4*) sleep 3;; esac\n"  # Slurm tries to start the job meanwhile
    )
    (tools / "scontrol").chmod(0o755)
    slurm.environment["PATH"] = f"{tools}:{SEARCH}"
    drive = driver(slurm, tmp_path / "drive.log")
    mark = slurm.folder / "jobs" / "mark-0"
    job = slurm.submit(1, 4, f"echo x >> {mark}; sleep 1")
    slurm.wait_for(lambda: slurm.jobs()[job] == "COMPLETED", 90)
    output, errors = end(drive)
    assert f"job {job}: Slurm holds it: n1 do not fit it; the order is withdrawn" in errors
    assert output.count(f"start job {job} on n1") >= 2
    assert starts_of(slurm.folder / "jobs") == {"mark-0": 1}
    assert orrery("replay", tmp_path / "drive.log").returncode == 0


# Controllers that read at the same instants order alike: one finds the mark of the other.
@needs_slurm
@pytest.mark.parametrize("every_s", [0.8, 0.5])
def test_the_second_of_two_controllers_ends_with_a_message(slurm, tmp_path, every_s):
    drivers = [driver(slurm, tmp_path / "first.log"),
               driver(slurm, tmp_path / "second.log", every_s=every_s)]  # fmt: skip
    fillers = [slurm.submit(1, 0, "sleep 8", "-n8", partition="other") for _ in range(4)]
    slurm.wait_for(lambda: all(slurm.jobs()[job] == "RUNNING" for job in fillers), 20)
    jobs = []  # their orders wait for CPUs, so that a reading of the other controller shows them
    while all(each.poll() is None for each in drivers) and len(jobs) < 12:
        mark = slurm.folder / "jobs" / f"mark-{len(jobs)}"
        jobs.append(slurm.submit(1, 2, f"echo x >> {mark}; sleep 0.1"))
        time.sleep(0.6)
    slurm.wait_for(lambda: any(each.poll() is not None for each in drivers), 20)
    ended = next(each for each in drivers if each.poll() is not None)
    _, errors = ended.communicate()
    assert ended.returncode == 4 and "expected this controller alone" in errors, errors
    slurm.wait_for(lambda: completed(slurm) == len(jobs) + len(fillers), 60)
    assert starts_of(slurm.folder / "jobs") == {f"mark-{i}": 1 for i in range(len(jobs))}
    for each in drivers:
        if each is not ended:
            end(each)


@needs_slurm
def test_jobs_start_by_themselves_when_no_driver_runs_and_shadow_mode_touches_nothing(
    slurm, tmp_path
):
    shadow = driver(slurm, tmp_path / "shadow.log", mode="shadow")
    begin = time.monotonic()
    job = slurm.submit(2, 4, "sleep 1")
    slurm.wait_for(lambda: slurm.jobs()[job] in ("RUNNING", "COMPLETED"), 30)
    waited = time.monotonic() - begin
    assert LEASE - 2 <= waited < LEASE + 15
    output, errors = end(shadow)
    assert f"would start job {job} on n1,n2" in output
    assert output.count(f"would start job {job} ") == 1
    assert "0 starts, 0 stops, 1 observed only" in output
    assert orrery("replay", tmp_path / "shadow.log").returncode == 0


@needs_slurm
def test_a_kill_of_slurmctld_is_reported_and_what_it_lost_is_repeated(slurm, tmp_path):
    drive = driver(slurm, tmp_path / "drive.log")
    blocker = slurm.submit(4, 8, "sleep 12")  # a job that ends meanwhile stays for a minute
    slurm.wait_for(lambda: slurm.jobs()[blocker] == "RUNNING", 20)
    jobs = [slurm.submit(2, 8, "sleep 1") for _ in range(2)]
    time.sleep(5)  # slurmctld has saved the earlier acts
    slurm.kill("slurmctld")
    slurm.start_controller()
    slurm.wait_for(lambda: {slurm.jobs().get(job) for job in jobs} == {"COMPLETED"}, 40)
    _, errors = end(drive)
    assert "slurmctld was restarted" in errors
    assert orrery("replay", tmp_path / "drive.log").returncode == 0


@needs_slurm
def test_preempted_jobs_come_back_and_the_log_explains_a_wait(slurm, tmp_path):
    drive = driver(slurm, tmp_path / "srtf.log", policy="srtf")
    marks = slurm.folder / "jobs"
    long_job = slurm.submit(4, 8, f"echo x >> {marks}/mark-long; sleep 5", "-t", "50")
    slurm.wait_for(lambda: slurm.jobs()[long_job] == "RUNNING", 20)
    short_job = slurm.submit(4, 8, f"echo x >> {marks}/mark-short; sleep 1", "-t", "1")
    slurm.wait_for(lambda: set(slurm.jobs().values()) == {"COMPLETED"}, 60)
    output, errors = end(drive)
    assert drive.returncode == 0, errors
    assert f"requeue job {long_job}: makes room" in output
    assert starts_of(marks) == {"mark-long": 2, "mark-short": 1}
    assert orrery("replay", tmp_path / "srtf.log").returncode == 0
    explained = orrery("explain", tmp_path / "srtf.log", "--job", short_job)
    assert explained.returncode == 0, explained.stderr
    assert f"job {short_job}: 32 GPUs" in explained.stdout


@needs_slurm
def test_tasks_of_an_array_start_after_an_approval_each(slurm, tmp_path):
    asked = tmp_path / "asked"
    hook = tmp_path / "hook.sh"
    hook.write_text(f"#!/bin/sh\necho x >> {asked}\n")
    hook.chmod(0o755)
    approved = driver(slurm, tmp_path / "approved.log", "--hook", hook, mode="approve")
    array = slurm.submit(2, 8, "sleep 0.2", "--array=1-3")
    tasks = {f"{array}_{task}" for task in (1, 2, 3)}
    slurm.wait_for(lambda: slurm.jobs() == dict.fromkeys(tasks, "COMPLETED"), 40)
    output, errors = end(approved)
    assert approved.returncode == 0, errors
    assert len(asked.read_text().splitlines()) == 3
    assert all(output.count(f"start job {task} on") == 1 for task in tasks)
    assert orrery("replay", tmp_path / "approved.log").returncode == 0


def test_what_is_missing_is_said(tmp_path):
    words = ["cluster", "slurm", "--policy", "fifo"]
    result = orrery(*words)
    assert result.returncode == 2 and "--partition P or --account A" in result.stderr
    result = orrery(*words, "--partition", "gpu", "--lease", 5, "--every", 3)
    assert result.returncode == 2 and "four times --every" in result.stderr
    result = orrery("cluster", "slurm", "--policy", "ffo", "--partition", "gpu")
    assert result.returncode == 2 and "fifo" in result.stderr
    result = orrery(*words, "--partition", "gpu", "--mode", "approve")
    assert result.returncode == 2 and "--hook" in result.stderr
    lonely = subprocess.run(
        [PROGRAM, *words, "--partition", "gpu"], capture_output=True, text=True, timeout=30,
        env={**os.environ, "PATH": "/nowhere"},
    )  # fmt: skip
    assert lonely.returncode == 4 and "scontrol" in lonely.stderr


@needs_slurm
def test_the_cluster_and_its_queue_become_files_of_the_simulator(slurm, tmp_path):
    cluster, queue = tmp_path / "cluster.yaml", tmp_path / "queue.yaml"
    for nodes in (4, 2, 1):
        slurm.submit(nodes, 8, "sleep 600", "-t", "10")
    words = ["import", "cluster", "-o", cluster]
    unknown = orrery(*words, env=slurm.environment)
    assert unknown.returncode == 3 and "--gpu NAME" in unknown.stderr and not cluster.exists()
    written = orrery(*words, "--gpu", "H100", "--queue", queue, env=slurm.environment)
    assert written.returncode == 0, written.stderr
    assert written.stdout.splitlines() == [
        f"{cluster}: 4 nodes, 32 H100", f"{queue}: 3 jobs"
    ]  # fmt: skip
    assert "assumed: each job lasts for its time limit" in written.stderr
    assert "switches: " not in cluster.read_text()
    assert all('\nformat: "1.1"\n' in file.read_text() for file in (cluster, queue))
    described = orrery("describe", cluster)
    assert described.returncode == 0 and "32" in described.stdout, described.stderr
    replayed = orrery("jobs", queue, "--json")
    assert replayed.returncode == 0, replayed.stderr
    assert json.loads(replayed.stdout)["makespan_s"] == 1200
