"""orrery run --take-over with PyTorch: losses, policies and ends after the death of `orrery run`.

tests/cli/run_takeover_test.py has the rules that need no PyTorch.
"""

import json
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
        run.wait_for("`orrery run` was killed")
        found = run_with(run.processes[0])
        assert found["take_over"] == f"orrery run --take-over {found['run']}"
        self.process = subprocess.Popen(
            [PROGRAM, *found["take_over"].split()[1:]],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(0),
        )  # fmt: skip

    def wait_until_taken(self):
        """Waits until the status of the run has the successor."""
        deadline = time.monotonic() + PATIENCE
        while "take_over" in run_with(self._run.processes[0]):
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
    run = Run("ddp.py", 3, 600, ["--policy", "recover", "--record", log])
    run.wait_for_training()
    chance = random.Random(f"{SEED} takeover")
    time.sleep(chance.random())
    successor = Successor(run)
    successor.wait_until_taken()
    run.wait_for("at step 300 ")
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
    assert next(iter(ends.values()))[0] == 600
    assert report["decisions"] >= 1
    replayed = subprocess.run([PROGRAM, "replay", log, "--json"], capture_output=True, text=True)
    assert json.loads(replayed.stdout)["identical"] is True, replayed.stdout
    assert not pathlib.Path(f"{log}.earlier").exists()
    assert not pathlib.Path(f"{log}.partial").exists()
