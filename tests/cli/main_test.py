"""The program as a whole: its version, its help, an exit code for each kind of failure."""

import re

import pytest
from conftest import STRAGGLER, orrery

COMMANDS = (
    "plan", "layouts", "predict", "rehearse", "simulate", "compare-policies", "compare",
    "calibrate", "live", "run", "cluster", "runs", "status", "attach", "set", "drain", "stop",
    "jobs", "twin", "explain", "pack", "fit", "replay", "list", "describe", "check", "new",
    "import", "export", "convert", "schema", "doctor", "help", "completion",
)  # fmt: skip
PLACE = re.compile(r"^[^\n:]+:\d+:\d+: error: ", re.MULTILINE)


def test_version_and_help():
    assert re.fullmatch(
        r"orrery \d+\.\d+\.\d+( \([0-9a-f]{7,}, \d{4}-\d\d-\d\d\))?\n", orrery("--version").stdout
    )
    text = orrery("--help")
    assert text.returncode == 0
    for command in COMMANDS:
        assert re.search(rf"^ +{command} ", text.stdout, re.MULTILINE), command
        assert orrery(command, "--help").returncode == 0
    groups = text.stdout.partition("Plan:\n")[2]
    assert re.findall(r"^  ([a-z]\S*) ", groups, re.MULTILINE) == list(COMMANDS)


def test_the_program_alone_prints_its_commands_in_groups():
    said = orrery()
    assert (said.returncode, said.stdout) == (2, orrery("--help").stdout)
    assert "a command is missing" in said.stderr
    groups = re.findall(r"^([A-Z][a-z ]+):\n  [a-z]", said.stdout, re.MULTILINE)
    assert groups == ["Plan", "Simulate", "Run", "Watch", "Logs", "Files", "This program"]


@pytest.mark.parametrize("command", ["simulate", "live", "check", "compare-policies", "compare"])
def test_bad_input_has_its_place(tmp_path, command):
    file = tmp_path / "bad.yaml"
    file.write_text(STRAGGLER.read_text().replace("global_batch", "globel_batch"))
    result = orrery(command, file)
    assert (result.returncode, result.stdout) == (3, "")
    assert PLACE.search(result.stderr)
    line = next(i for i, text in enumerate(file.read_text().splitlines(), 1) if "globel" in text)
    assert f"{file}:{line}:3: error: " in result.stderr
    assert "did you mean 'global_batch'?" in result.stderr


def test_a_missing_file_is_bad_input(tmp_path):
    for command in ("simulate", "check", "replay", "jobs"):
        more = ["--nodes", "1", "--gpus-per-node", "1", "--policy", "fifo"]
        result = orrery(command, tmp_path / "none.csv", *(more if command == "jobs" else []))
        assert result.returncode == 3, command
        assert "none.csv" in result.stderr
