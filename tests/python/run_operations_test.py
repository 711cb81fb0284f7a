"""orrery run: operations of a PyTorch program from another terminal, its metrics and its sums."""

import os
import pathlib
import re
import subprocess
import tempfile

import pytest
from run_programs_test import PROGRAM, TORCH, Run

pytestmark = pytest.mark.skipif(
    not TORCH.exists(), reason=f"no PyTorch at {TORCH}: ./dev torch installs it"
)


@pytest.fixture
def runs():
    """Folder of the runs, with a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield folder


def look(runs, *words):
    return subprocess.run(
        [PROGRAM, *words], capture_output=True, text=True, check=False,
        env={**os.environ, "ORRERY_RUNS": runs},
    )  # fmt: skip


@pytest.mark.parametrize("options", [[], ["--policy", "static"]], ids=["plain", "policies"])
def test_a_stop_with_a_checkpoint_loses_no_step(runs, tmp_path, options):
    settings = {"EVERY": "100000", "FOLDER": str(tmp_path / "snapshots"), "WRAP": "fixed"}
    run = Run("snapshot.py", 2, 400, options, ORRERY_RUNS=runs, **settings)
    run.wait_for_training()
    stopped = look(runs, "stop", "snapshot.py", "--checkpoint")
    assert stopped.returncode == 0, stopped.stderr
    report, ends, code = run.end()
    assert (code, report["ended_by"], ends) == (143, "orrery", {}), run.text
    step = report["newest_snapshot"]
    assert step >= 10
    assert f"the snapshot of step {step} is complete" in run.text
    rest = Run("snapshot.py", 2, 400, **settings)
    report, ends, code = rest.end()
    assert (code, report["resumed_step"]) == (0, step), rest.text
    whole = Run("snapshot.py", 2, 400, EVERY="100000", WRAP="fixed")
    assert ends == whole.end()[1]  # the steps before and after the stop, bit for bit


def test_a_stop_with_a_checkpoint_needs_a_folder_that_stays(runs):
    run = Run("snapshot.py", 2, 100000, EVERY="100000", ORRERY_RUNS=runs)
    run.wait_for_training()
    refused = look(runs, "stop", "snapshot.py", "--checkpoint")
    assert refused.returncode == 2
    assert "stop it without --checkpoint, or call orrery.torch.state(folder=PATH)" in refused.stderr
    assert look(runs, "stop", "snapshot.py").returncode == 0
    assert run.end()[2] == 143


def test_a_failed_snapshot_lets_the_program_go_on(runs, tmp_path):
    place = tmp_path / "snapshots"
    run = Run("snapshot.py", 2, 100000, EVERY="100000", FOLDER=str(place), ORRERY_RUNS=runs)
    run.wait_for_training()
    place.write_text("a file in the place of the folder")
    assert look(runs, "stop", "snapshot.py", "--checkpoint").returncode == 0
    run.wait_for("failed, so the program goes on")
    run.wait_for("at step ")
    place.unlink()
    while "already" in look(runs, "stop", "snapshot.py", "--checkpoint").stdout:
        pass
    report, _, code = run.end()
    assert code == 143 and report["newest_snapshot"] > 0, run.text


def test_metrics_of_a_program_are_written(tmp_path):
    metrics, end = tmp_path / "metrics", tmp_path / "end"
    run = Run("snapshot.py", 2, 100000, ["--metrics", metrics], EVERY="5", END=str(end))
    run.wait_for_training()
    run.kill(1)
    text = ""
    while "orrery_program_losses_total{program=\"snapshot.py\"} 1\n" not in text:
        assert run.process.poll() is None, run.text
        text = metrics.read_text() if metrics.exists() else ""
    end.touch()
    report, _, code = run.end()
    assert code == 6 and report["ranks_missing"] == [1]
    values = dict(re.findall(r"^orrery_program_(\w+)\{[^}]*\} (\S+)$", text, re.MULTILINE))
    assert (values["ranks"], values["ranks_working"]) == ("2", "1")
    assert 10 <= float(values["steps_total"]) <= report["steps"]
    assert float(values["step_seconds"]) > 0
    assert float(values["snapshot_step"]) >= 5


def test_sums_take_memory_or_sockets_with_equal_bits():
    bits = {}
    for way in ("memory", "sockets"):
        run = Run("ddp.py", 2, 400, ["--sums", way])
        run.wait_for_training()
        maps = pathlib.Path(f"/proc/{run.processes[1]}/maps").read_text()
        assert ("orrery-sums" in maps) is (way == "memory")
        _, ends, code = run.end()
        assert code == 0, run.text
        bits[way] = ends
    assert bits["memory"] == bits["sockets"]
