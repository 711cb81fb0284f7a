"""Exit codes and messages for command lines and files that make no sense."""

import re

import pytest
from conftest import EXAMPLES, STRAGGLER, orrery

PLACE = re.compile(r"^[^\n:]+:\d+:\d+: error: ", re.MULTILINE)


def test_version_and_help():
    assert re.fullmatch(r"orrery \d+\.\d+\.\d+\n", orrery("--version").stdout)
    text = orrery("--help")
    assert text.returncode == 0
    for command in ("simulate", "live", "versus", "replay", "jobs", "check", "schema"):
        assert re.search(rf"^ +{command} ", text.stdout, re.MULTILINE), command
        assert orrery(command, "--help").returncode == 0


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((), "a command is missing"),
        (("simulat", STRAGGLER), "unknown command 'simulat'; did you mean 'simulate'?"),
        (("simulate", STRAGGLER, "--jsno"), "unknown option '--jsno'; did you mean '--json'?"),
        (("simulate",), "FILE is required"),
        (("simulate", STRAGGLER, "--seed", "many"), "--seed"),
        (("simulate", STRAGGLER, "--detail", "most"), "--detail"),
        (("live", STRAGGLER, "--fabric", "gloo"), "--fabric"),
        (("live", STRAGGLER, "--mode", "shadow"), "not in this version"),
        (("versus", STRAGGLER, "--policies", "statik"), "did you mean 'static'?"),
        (("--jsno",), "unknown option '--jsno'"),
    ],
)
def test_usage(arguments, said):
    result = orrery(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["simulate", "live", "check", "versus"])
def test_bad_input_has_its_place(tmp_path, command):
    file = tmp_path / "bad.yaml"
    file.write_text(STRAGGLER.read_text().replace("global_batch", "globel_batch"))
    result = orrery(command, file)
    assert (result.returncode, result.stdout) == (3, "")
    assert PLACE.search(result.stderr)
    line = next(i for i, text in enumerate(file.read_text().splitlines(), 1) if "globel" in text)
    assert f"{file}:{line}:3: error: " in result.stderr
    assert "did you mean 'global_batch'?" in result.stderr


def test_a_bad_override_is_bad_input():
    result = orrery("simulate", STRAGGLER, "--set", "run.stepz=3")
    assert result.returncode == 3
    assert "steps" in result.stderr


def test_a_missing_file_is_bad_input(tmp_path):
    for command in ("simulate", "check", "replay", "jobs"):
        more = ["--nodes", "1", "--gpus-per-node", "1", "--policy", "fifo"]
        result = orrery(command, tmp_path / "none.csv", *(more if command == "jobs" else []))
        assert result.returncode == 3, command
        assert "none.csv" in result.stderr


def test_ranks_of_a_rigid_scenario_are_bad_input():
    result = orrery("live", STRAGGLER, "--ranks", "3")
    assert result.returncode == 3
    assert "elastic" in result.stderr


def test_check_prints_every_problem(tmp_path):
    file = tmp_path / "two.yaml"
    text = STRAGGLER.read_text()
    file.write_text(text.replace("steps: 40", "steps: 0").replace("40 ms", "40 GB"))
    result = orrery("check", file)
    assert result.returncode == 3
    assert len(PLACE.findall(result.stderr)) == 2
    assert result.stderr.rstrip().endswith("2 problems")


def test_check_passes_every_example():
    files = sorted(EXAMPLES.glob("*.yaml"))
    assert files
    for file in files:
        result = orrery("check", file)
        assert result.returncode == 0, result.stderr
        assert "ok" in result.stdout
