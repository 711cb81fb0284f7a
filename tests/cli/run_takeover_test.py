"""orrery run --take-over: a successor of a killed `orrery run`, with ranks without PyTorch.

The ranks are tests/live/programs/takeover_rank.cpp: the connection of a real rank, and pauses.
"""

import json
import os
import re
import signal
import subprocess
import time

from conftest import BUILD, PROGRAM, alive, orrery, wait_until

RANK = BUILD / "tests" / "takeover_rank"
NAME = "takeover_rank"


class Program:
    """A program of three ranks, and the one or more `orrery run` that watch it."""

    def __init__(self, folder, steps=100000, options=(), **more):
        self.out = folder / "out"
        self.process = self._start(
            ["-n", "3", *options, "--", RANK], {**os.environ, "STEPS": str(steps), **more}
        )
        self.wait_for_epoch(0)

    def _start(self, words, environment=None):
        with open(self.out, "a") as out:
            return subprocess.Popen(
                [PROGRAM, "run", *map(str, words)], stdout=out, stderr=out, env=environment
            )

    @property
    def text(self):
        """Everything that the ranks and `orrery run` have printed."""
        return self.out.read_text()

    def wait_for(self, text, count=1):
        wait_until(lambda: self.text.count(text) >= count, 30)

    def wait_for_epoch(self, number):
        for rank in range(3):
            self.wait_for(f"rank {rank} hears epoch {number} ")
        wait_until(lambda: self.status() and self.status()["step"] > 3)

    def status(self):
        runs = json.loads(orrery("runs", "--json").stdout)
        return next((run for run in runs if run.get("scenario") == NAME), None)

    def ranks(self):
        return {rank["rank"]: rank["pid"] for rank in self.status()["ranks"]}

    def kill_controller(self):
        self.process.kill()
        self.process.wait()
        for rank, process in self.ranks().items():
            if process:
                self.wait_for(f"rank {rank} goes on alone")

    def take_over(self, name=NAME):
        self.process = self._start(["--take-over", name])

    def end(self):
        return self.process.wait(60)


def test_a_successor_carries_the_next_loss(tmp_path):
    program = Program(tmp_path, steps=400)
    before = program.ranks()
    program.kill_controller()
    listed = orrery("runs").stdout
    found = re.search(r"^(\S+)  takeover_rank .*unwatched.*orrery run --take-over (\S+)$", listed,
                      re.M)  # fmt: skip
    assert found and found[1] == found[2], listed
    assert f"orrery run --take-over {found[1]}" in orrery("status", NAME).stdout
    assert program.status()["take_over"] == f"orrery run --take-over {found[1]}"
    refused = orrery("stop", NAME)
    assert refused.returncode == 2
    assert "take it over first: orrery run --take-over" in refused.stderr
    program.take_over()
    for rank in range(3):
        program.wait_for(f"rank {rank} is taken over")
        program.wait_for(f"rank {rank} hears epoch 0 with 0,1,2", 2)
    wait_until(lambda: "take_over" not in program.status())
    assert program.ranks() == before
    os.kill(before[1], signal.SIGKILL)
    program.wait_for("rank 1 lost (ended without an exit code: killed, or by os._exit()), "
                     "2 of 3 ranks go on")  # fmt: skip
    for rank in (0, 2):
        program.wait_for(f"rank {rank} hears epoch 1 with 0,2")
    assert program.end() == 6, program.text
    assert program.text.count("ended after 400 steps") == 2
    assert program.status() is None  # its folder is gone
    assert "ranks     2 of 3 at the end" in program.text
    assert not list(os.scandir(os.environ["ORRERY_RUNS"]))


def test_ranks_that_end_alone_leave_their_exit_codes(tmp_path):
    program = Program(tmp_path, steps=150, CODE="3")
    program.kill_controller()
    program.take_over()
    program.wait_for("3 of 3 ranks go on from step ")
    assert program.end() == 3, program.text  # the code of rank 0, whose parent is another process
    assert " lost (" not in program.text
    assert program.text.count("ended after 150 steps") == 3


def test_a_rank_that_is_lost_before_the_takeover_is_missing(tmp_path):
    program = Program(tmp_path)
    ranks = program.ranks()
    program.kill_controller()
    os.kill(ranks[2], signal.SIGKILL)
    os.kill(ranks[1], signal.SIGSTOP)  # does not answer
    program.take_over()
    program.wait_for("1 of 3 ranks go on from step ")
    program.wait_for("rank 0 hears epoch 1 with 0")
    wait_until(lambda: not alive(ranks[1]))
    assert program.text.count(" lost (ended without an exit code") == 2, program.text
    program.process.kill()
    program.process.wait()
    program.wait_for("rank 0 goes on alone", 2)
    program.take_over()
    program.wait_for("1 of 3 ranks go on from step ", 2)
    assert orrery("stop", NAME).returncode == 0
    assert program.end() == 128 + signal.SIGTERM, program.text
    assert "ranks     1 of 3 at the end" in program.text


def test_one_of_two_successors_wins_and_a_third_follows_its_death(tmp_path):
    program = Program(tmp_path, options=["--restart", "1"])
    ranks = program.ranks()
    program.kill_controller()
    both = []
    for _ in range(2):
        program.take_over()
        both.append(program.process)
    wait_until(lambda: any(each.poll() is not None for each in both))
    loser = next(each for each in both if each.poll() is not None)
    winner = next(each for each in both if each is not loser)
    assert loser.returncode in (2, 4), program.text
    assert "which has its own process" in program.text or "taken over" in program.text
    program.wait_for("rank 0 is taken over")
    assert winner.poll() is None
    result = orrery("run", "--take-over", NAME)
    assert result.returncode == 2
    assert "expected a program whose `orrery run` was killed, found run" in result.stderr
    program.process = winner
    wait_until(lambda: "take_over" not in program.status())
    winner.kill()
    winner.wait()
    program.wait_for("rank 0 goes on alone", 2)
    program.take_over()
    program.wait_for("rank 0 is taken over", 2)
    wait_until(lambda: "take_over" not in program.status())
    assert program.ranks() == ranks
    result = orrery("stop", NAME)
    assert result.returncode == 0, result.stderr
    assert program.end() == 128 + signal.SIGTERM, program.text
    wait_until(lambda: not any(alive(process) for process in ranks.values()))
    assert program.status() is None


def test_all_ranks_start_again_under_the_successor(tmp_path):
    program = Program(tmp_path, options=["--restart", "1"])
    ranks = program.ranks()
    program.kill_controller()
    program.take_over()
    program.wait_for("3 of 3 ranks go on from step ")
    for process in ranks.values():
        os.kill(process, signal.SIGKILL)
    program.wait_for("restart 1 of 1: all ranks start again")
    for rank in range(3):
        program.wait_for(f"rank {rank} hears epoch 0 with 0,1,2", 3)
    wait_until(lambda: not set(program.ranks().values()) & set(ranks.values()))
    orrery("stop", NAME)
    assert program.end() == 128 + signal.SIGTERM
    assert not list(os.scandir(os.environ["ORRERY_RUNS"]))


def test_what_cannot_be_taken_over_is_refused(tmp_path):
    result = orrery("run", "--take-over", "nobody")
    assert result.returncode == 2
    assert "expected a live run of this user" in result.stderr
    result = orrery("run")
    assert result.returncode == 2
    assert "PROGRAM: expected a program" in result.stderr
    plain = subprocess.Popen(
        [PROGRAM, "run", "-n", "2", "--", "sleep", "60"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    running = wait_until(lambda: [
        run for run in json.loads(orrery("runs", "--json").stdout) if len(run.get("ranks", [])) == 2
    ])  # fmt: skip
    ranks = [rank["pid"] for rank in running[0]["ranks"]]
    time.sleep(0.2)  # its record is written with the status
    plain.kill()
    plain.wait()
    result = orrery("run", "--take-over", "sleep")
    assert result.returncode == 4
    assert "whose ranks have fault-tolerant process groups" in result.stderr
    for process in ranks:
        os.kill(process, signal.SIGKILL)
