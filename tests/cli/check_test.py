"""Every problem of a scenario, with its place."""

import re

from conftest import EXAMPLES, STRAGGLER, orrery

PLACE = re.compile(r"^[^\n:]+:\d+:\d+: error: ", re.MULTILINE)


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


def test_what_cannot_be_read_is_one_plain_problem(tmp_path):
    unreadable = {
        tmp_path: "directory",
        tmp_path / "none": "No such file",
        "/dev/zero": "larger than 16 MiB",
    }
    for path, why in unreadable.items():
        result = orrery("check", path)
        assert result.returncode == 3, path
        assert why in result.stderr
        assert result.stderr.endswith("1 problem\n")
