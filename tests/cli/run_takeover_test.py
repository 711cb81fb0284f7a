"""orrery run --take-over: a successor of a killed `orrery run`, with ranks without PyTorch.

The ranks are tests/live/programs/takeover_rank.cpp: the connection of a real rank, and pauses.
"""

import json
import os
import re
import signal
import subprocess
import time

from conftest import BUILD, PROGRAM, orrery, wait_until

RANK = BUILD / "tests" / "takeover_rank"
NAME = "takeover_rank"
ALONE = "rank 0 goes on alone"


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
