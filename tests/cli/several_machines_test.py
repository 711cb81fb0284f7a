"""One run on several machines: under a real Slurm, and between network namespaces."""

import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
from conftest import (
    BRISK, EXAMPLES, PROGRAM, ROOT, STRAGGLER, children_of, orrery, parts_of, wait_until,
)  # fmt: skip
from several_machines import Namespaces, Slurm

KILL = EXAMPLES / "kill-one-rank.yaml"
SHORT = ["--json", "--set", "run.steps=6", *BRISK]


@pytest.fixture
def namespaces():
    made = Namespaces(4)
    yield made
    made.close()


@pytest.fixture
def slurm(tmp_path):
    made = Slurm(tmp_path)
    yield made
    made.close()


def here(rank, *command):
    return [*map(str, command), "--listen", "127.0.0.1"]


def launch(rank, folder, *arguments, ranks=4, command_of=here):
    """The process of one rank, as a launcher starts it."""
    return subprocess.Popen(
        command_of(rank, PROGRAM, "live", *arguments, "--rendezvous", folder),
        env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def launch_all(*arguments, ranks=4, **more):
    return [launch(rank, *arguments, ranks=ranks, **more) for rank in range(ranks)]


def end(processes, codes=(0, 0, 0, 0)):
    """Rank 0's report, when all have ended with these exit codes."""
    said = [process.communicate(timeout=100) for process in processes]
    assert [process.returncode for process in processes] == list(codes), said
    return json.loads(said[0][0])


def causes(report):
    return [failure["cause"] for failure in report["failures"]]


@functools.cache
def bits_here():
    result = orrery("live", STRAGGLER, *SHORT, "--set", "live.tls=false")
    return json.loads(result.stdout)["parameters_sha256"]


def test_processes_that_a_launcher_starts_meet_and_train_the_same_bits(tmp_path):
    folder = tmp_path / "meet"
    report = end(launch_all(folder, STRAGGLER, *SHORT))
    assert report["parameters_sha256"] == bits_here()
    assert not folder.exists()


def test_certificates_made_as_the_page_says_let_a_run_meet(tmp_path):
    page = (ROOT / "docs" / "several-machines.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", page, re.S)
    recipe = next(block for block in blocks if "openssl" in block)
    subprocess.run(["bash", "-ec", recipe], cwd=tmp_path, check=True, capture_output=True)
    folder = tmp_path / "secrets"
    before = sorted(folder.iterdir())
    end(launch_all(folder, STRAGGLER, *SHORT))
    assert sorted(folder.iterdir()) == before


def test_between_namespaces_the_bits_are_the_same(namespaces, tmp_path):
    namespaces.shape("delay", "2ms", "loss", "0.5%")  # applies if the kernel has netem

    def command_of(rank, *command):
        return namespaces.command(rank, *command, "--listen", namespaces.address(rank))

    report = end(launch_all(tmp_path / "meet", STRAGGLER, *SHORT, command_of=command_of))
    assert report["failures"] == []
    assert report["parameters_sha256"] == bits_here()


def tasks(place, variable):
    """Process ids of the agents that have joined through the folder `place`, by rank."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            parent = re.search(r"PPid:\t(\d+)", (entry / "status").read_text())[1]
            if (entry / "cmdline").read_bytes().split(b"\0")[1:2] != [b"join"]:
                continue
            if str(place).encode() not in pathlib.Path(f"/proc/{parent}/cmdline").read_bytes():
                continue
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        rank = re.search(rb"(?:^|\0)%s=(\d+)" % variable.encode(), environment)
        found[int(rank[1])] = int(entry.name)
    return found


def training(place, variable="RANK"):
    """The same as soon as they train."""
    agents = wait_until(lambda: len(found := tasks(place, variable)) == 3 and found, 60)
    wait_until(lambda: connections(agents[2]) >= 3, 60)  # the controller and two neighbours
    time.sleep(1)
    return agents


def connections(pid):
    """Returns the number of established TCP connections of a process."""
    own = set()
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(os.readlink(entry))
        except OSError:
            continue
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    return sum(parts[3] == "01" and f"socket:[{parts[9]}]" in own for parts in lines)


KILL_LONG = [
    KILL, "--json", "--set", "faults=[]", "--set", "run.steps=30",
    "--set", "policies[0].parameters.how=shrink",
]  # fmt: skip


@functools.cache
def calm_bits():
    return json.loads(orrery("live", *KILL_LONG).stdout)["parameters_sha256"]


def test_under_slurm_the_survivors_of_a_killed_task_go_on(slurm, tmp_path):
    run = slurm.srun(
        PROGRAM, "live", *KILL_LONG, "--rendezvous", tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.kill(training(tmp_path, "SLURM_PROCID")[2], signal.SIGKILL)
    out, err = run.communicate(timeout=100)
    report = json.loads(out)
    assert report["steps_completed"] == 30, err
    assert causes(report) == ["rank 2 sent no heartbeat for 1.0 s"]
    assert report["micro_batches_lost"] == report["micro_batches_repeated"] == 0
    assert report["parameters_sha256"] == calm_bits()
    assert not list(tmp_path.glob("*.*/key.pem"))


def test_a_rank_that_stood_still_is_told_that_the_others_went_on(tmp_path):
    processes = launch_all(tmp_path / "meet", *KILL_LONG, "--set", "run.steps=60")
    still = training(tmp_path)[2]
    os.kill(still, signal.SIGSTOP)
    time.sleep(3)  # survival.heartbeat_timeout is one second
    os.kill(still, signal.SIGCONT)
    assert processes[2].wait(60) == 4
    assert processes[0].poll() is None
    report = end(processes, codes=[0, 0, 4, 0])
    assert causes(report) == ["rank 2 sent no heartbeat for 1.0 s"]
    assert report["steps_completed"] == 60


def test_a_rank_that_stood_still_joins_again_by_itself(tmp_path):
    arguments = [*KILL_LONG, "--set", "policies[0].parameters.how=replace", "--set", "run.steps=90"]
    processes = launch_all(tmp_path / "meet", *arguments)
    still = training(tmp_path)[2]
    os.kill(still, signal.SIGSTOP)
    time.sleep(3)  # survival.heartbeat_timeout is one second
    os.kill(still, signal.SIGCONT)
    report = end(processes)
    assert causes(report) == ["rank 2 sent no heartbeat for 1.0 s"]
    assert report["failures"][0]["replaced_s"] > 0
    assert report["ranks_missing"] == 0


@pytest.mark.parametrize("on_loss", ["go-on", "hold"])
def test_a_rank_that_stood_still_returns_without_a_policy(tmp_path, on_loss):
    arguments = [
        KILL, "--json", "--set", "faults=[]", "--set", "run.steps=90", "--set", "policies=[]",
        "--set", f"survival.on_loss={on_loss}",
    ]  # fmt: skip
    processes = launch_all(tmp_path / "meet", *arguments)
    still = training(tmp_path)[2]
    os.kill(still, signal.SIGSTOP)
    time.sleep(3)  # survival.heartbeat_timeout is one second
    os.kill(still, signal.SIGCONT)
    wait_until(lambda: connections(still) >= 3, 30)
    assert tasks(tmp_path, "RANK")[2] == still, "it is the same process"
    report = end(processes)
    assert causes(report) == ["rank 2 sent no heartbeat for 1.0 s"]
    assert report["failures"][0]["replaced_s"] > 0
    assert report["steps_completed"] == 90
    assert report["ranks_missing"] == 0


def test_ranks_of_other_machines_join_the_run_that_continues_from_a_checkpoint(tmp_path):
    saving = ["--set", f"checkpoints={{folder: {tmp_path / 'kept'}, every: 5}}"]
    processes = launch_all(tmp_path / "meet", *KILL_LONG, *saving)
    agents = training(tmp_path)
    wait_until(lambda: list((tmp_path / "kept").glob("*manifest")), 60)
    supervisor = children_of(processes[0].pid)[0]
    for agent in [*parts_of(supervisor, "agent"), *agents.values()]:
        os.kill(agent, signal.SIGKILL)
    for rank in (1, 2, 3):  # a launcher starts them again, while the old run still ends
        processes[rank].communicate(timeout=60)
        processes[rank] = launch(rank, tmp_path / "meet", *KILL_LONG, *saving)
    report = end(processes)
    assert report["parameters_sha256"] == calm_bits()


def test_a_task_that_is_started_again_is_taken_in(tmp_path):
    arguments = [tmp_path / "meet", *KILL_LONG, "--set", "policies[0].parameters.how=replace"]
    processes = launch_all(*arguments)
    os.kill(training(tmp_path)[2], signal.SIGKILL)
    assert processes[2].wait(60) == 128 + signal.SIGKILL
    processes[2] = launch(2, *arguments)
    report = end(processes)
    assert len(causes(report)) == 1
    assert report["failures"][0]["replaced_s"] > 0


def test_another_controller_finds_the_ranks_of_all_machines(tmp_path):
    processes = launch_all(tmp_path / "meet", *KILL_LONG)
    training(tmp_path)
    supervisor = children_of(processes[0].pid)[0]
    os.kill(parts_of(supervisor, "controller")[0], signal.SIGKILL)
    report = end(processes)
    assert report["controller_restarts"] == 1
    assert report["failures"] == []
    assert report["micro_batches_lost"] == report["micro_batches_repeated"] == 0


def test_ranks_whose_controller_is_gone_for_good_end_with_an_environment_error(tmp_path):
    processes = launch_all(tmp_path / "meet", *KILL_LONG)
    training(tmp_path)
    processes[0].kill()
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes[1:]] == [4, 4, 4]


def test_an_environment_that_names_no_rank_is_a_usage_error(tmp_path):
    result = orrery("live", STRAGGLER, "--rendezvous", tmp_path)
    assert result.returncode == 2
    assert "RANK" in result.stderr
    result = subprocess.run(
        [PROGRAM, "live", STRAGGLER, "--rendezvous", tmp_path],
        env={**os.environ, "RANK": "4", "WORLD_SIZE": "4"}, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 2
    assert "RANK=4" in result.stderr
