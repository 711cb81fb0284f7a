"""orrery run --take-over with PyTorch: losses, policies and ends after the death of `orrery run`.

tests/cli/run_takeover_test.py has the rules that need no PyTorch.
"""

import json
import os
import pathlib
import random
import subprocess
import time

import pytest
from run_programs_test import PATIENCE, PROGRAM, SEED, TORCH, Run, ends_in, environment

pytestmark = pytest.mark.skipif(
    not TORCH.exists(), reason=f"no PyTorch at {TORCH}: ./dev torch installs it"
)


def run_with(process):
    """The run of `orrery runs` with this process of a rank."""
    listed = subprocess.run([PROGRAM, "runs", "--json"], capture_output=True, text=True).stdout
    for run in json.loads(listed):
        if any(rank["pid"] == process for rank in run.get("ranks", [])):
            return run
    raise AssertionError(f"no run with process {process}: {listed}")


class Successor:
    """A successor of the killed `orrery run`; the ranks print where the first one did."""

    def __init__(self, run):
        self._run = run
        run.process.kill()
        run.process.wait()
        deadline = time.monotonic() + PATIENCE
        while "`orrery run` was killed" not in run.text:
            assert time.monotonic() < deadline, run.text
            time.sleep(0.05)
        found = run_with(run.processes[0])
        assert found["take_over"] == f"orrery run --take-over {found['run']}"
        self._step = found["step"]
        self.process = subprocess.Popen(
            [PROGRAM, *found["take_over"].split()[1:]],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(0),
        )  # fmt: skip

    def wait_until_taken(self):
        """Waits until the status of the run has steps under the successor."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = run_with(self._run.processes[0])
            if "take_over" not in found and found["step"] > self._step + 20:
                return
            assert time.monotonic() < deadline and self.process.poll() is None, self._run.text
            time.sleep(0.05)

    def end(self):
        """The report, what the successor has printed, and its exit code."""
        out, text = self.process.communicate(timeout=PATIENCE)
        self._run.join()
        assert out, text
        return json.loads(out), text, self.process.returncode


def test_the_policies_of_a_taken_over_program_continue_and_the_next_loss_is_carried(tmp_path):
    log = tmp_path / "run.log"
    run = Run("ddp.py", 3, 1500, ["--policy", "recover", "--record", log])
    run.wait_for_training()
    chance = random.Random(f"{SEED} takeover")
    time.sleep(chance.random())
    successor = Successor(run)
    successor.wait_until_taken()
    run.wait_for("at step ")
    run.kill(1)
    report, text, code = successor.end()
    ends = ends_in(run.text)
    assert code == 6, text + run.text
    assert f"the policies continue with their state from {log}" in text
    assert report["ranks_missing"] == [1]
    assert report["losses"][0]["lost_s"] is not None
    assert report["ended_by"] == "program"
    assert sorted(ends) == [0, 2], run.text
    assert len(set(ends.values())) == 1  # survivors' parameters, bit for bit
    assert next(iter(ends.values()))[0] == 1500
    assert report["decisions"] >= 1
    replayed = subprocess.run([PROGRAM, "replay", log, "--json"], capture_output=True, text=True)
    assert json.loads(replayed.stdout)["identical"] is True, replayed.stdout
    assert not pathlib.Path(f"{log}.earlier").exists()
    assert not pathlib.Path(f"{log}.partial").exists()


def test_a_successor_replaces_lost_ranks_and_policies_without_a_log_begin_anew(tmp_path):
    end = tmp_path / "end"
    scenario = tmp_path / "policies.yaml"
    scenario.write_text("policies: [{name: recover, parameters: {how: replace}}]\n")
    options = ["--scenario", scenario, "--replace", "1"]
    run = Run("snapshot.py", 2, 100000, options, EVERY="100000", END=str(end))
    run.wait_for_training()
    successor = Successor(run)
    successor.wait_until_taken()
    run.wait_for("at step ")
    run.kill(1)
    deadline = time.monotonic() + PATIENCE
    while run_with(run.processes[0])["ranks"][1]["pid"] in (0, run.processes[1]):
        assert time.monotonic() < deadline and os.path.exists(f"/proc/{run.processes[0]}"), run.text
        time.sleep(0.05)
    run.wait_for("at step ")
    end.touch()
    report, text, code = successor.end()
    assert code == 0, text + run.text
    assert "the policies begin anew, with the program as it is: without --record LOG" in text
    assert "rank 1 replaced after step " in text
    assert report["ranks_missing"] == []
    assert [loss["rank"] for loss in report["losses"]] == [1]
    ends = {**ends_in(run.text), **ends_in(text)}
    assert sorted(ends) == [0, 1]
    assert len(set(ends.values())) == 1, text + run.text  # parameters and steps, bit for bit
