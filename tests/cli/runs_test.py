"""orrery runs, status, attach, stop: a live run seen and ended from another terminal."""

import json
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import STRAGGLER, orrery
from operating import BINARY, begin, wait_until


def run_id(scenario):
    runs = json.loads(orrery("runs", "--json").stdout)
    found = [each["run"] for each in runs if each.get("scenario") == scenario]
    return found[0] if found else None


@pytest.fixture
def training(tmp_path):
    """A run that lasts longer than any test, with checkpoints; its id and its process."""
    name = f"seen from outside {tmp_path.name}"
    run = begin(tmp_path, name, steps=2000)
    try:
        wait_until(lambda: run_id(name) and steps_of(name) > 2)
        yield name, run
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()


def steps_of(name):
    result = orrery("status", name, "--json")
    return json.loads(result.stdout)["step"] if result.returncode == 0 else 0


def test_a_run_is_listed_looked_at_and_stopped_with_a_checkpoint(training, tmp_path):
    name, run = training
    listed = orrery("runs").stdout
    assert re.search(rf"^\w{{6}}  {name} +training +step \d+ of 2000", listed, re.MULTILINE)
    shown = orrery("status", run_id(name)).stdout
    assert len(re.findall(r"^  rank \d +working  pid \d+", shown, re.MULTILINE)) == 4
    followed = subprocess.Popen([BINARY, "attach", name], stdout=subprocess.PIPE, text=True)
    assert orrery("stop", name, "--checkpoint").returncode == 0
    out, err = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "stopped by the operator" in err
    events, _ = followed.communicate(timeout=20)
    assert "the run is to end: stopped by the operator" in events
    assert events.endswith("has ended\n")
    command = re.search(r"^  to go on from its newest whole checkpoint: orrery (.*)$", err, re.M)
    goes_on = orrery(*shlex.split(command[1]), "--set", "run.steps=60")
    assert goes_on.returncode == 3 or "steps" in goes_on.stdout
    assert list((tmp_path / "checkpoints").glob("*manifest*"))
    assert orrery("status", name).returncode == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_checkpoint_and_says_how_to_go_on(training, tmp_path, number):
    name, run = training
    run.send_signal(number)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 128 + number
    assert f"stopped by signal {int(signal.SIGTERM)}" in err
    assert f"--from {tmp_path}/checkpoints" in err
    assert list((tmp_path / "checkpoints").glob("*manifest*"))
    wait_until(lambda: run_id(name) is None)


def test_nothing_is_left_of_a_run_whose_command_is_killed(training):
    name, run = training
    folder = Path("/tmp") / f"orrery-live-{run_id(name)}"
    assert (folder / "key.pem").exists()
    run.kill()
    run.wait()
    wait_until(lambda: not folder.exists())


def test_a_run_that_is_not_there_is_named():
    result = orrery("status", "no such run")
    assert result.returncode == 2
    assert "expected a live run of this user" in result.stderr
    assert orrery("stop", "no such run").returncode == 2


def test_metrics_are_where_the_collector_looks(tmp_path):
    file = tmp_path / "run.prom"
    result = orrery("live", STRAGGLER, "--set", "run.steps=40", "--set", f"live.metrics={file}")
    assert result.returncode == 0, result.stderr
    text = file.read_text()
    assert re.search(r"^orrery_steps_total\{scenario=\"[^\"]+\"\} \d+$", text, re.MULTILINE)
    started = time.time()
    assert file.stat().st_mtime <= started
