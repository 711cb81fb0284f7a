"""Help: as wide as the terminal, with defaults and with examples that are true."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from conftest import PROGRAM, ROOT, orrery
from main_test import COMMANDS

sys.path.insert(0, str(ROOT / "python" / "reference"))
import options_page  # noqa: E402

RUNS = [name for name in COMMANDS if name not in ("doctor", "help", "import", "export", "fit")]


def help_of(*words, columns="80"):
    environment = {**os.environ, "COLUMNS": columns}
    result = subprocess.run(
        [PROGRAM, *words, "--help"], capture_output=True, text=True, env=environment
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def without_examples(text):
    # A command line is not broken: it is there to be pasted.
    return re.sub(r"^Examples:\n(  .*\n)+", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("columns", ["60", "80", "100"])
@pytest.mark.parametrize("command", [(), ("live",), ("simulate",), ("compare-policies",)])
def test_no_line_is_wider_than_the_terminal(command, columns):
    lines = without_examples(help_of(*command, columns=columns)).splitlines()
    footer = next(i for i, line in enumerate(lines) if line.startswith("Exit codes"))
    assert max(map(len, lines[:footer])) <= int(columns)


def test_a_pipe_without_columns_gets_a_hundred():
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    text = subprocess.run(
        [PROGRAM, "live", "--help"], capture_output=True, text=True, env=environment
    ).stdout
    assert 80 < max(map(len, without_examples(text).splitlines())) <= 100


def test_defaults_are_shown():
    assert "(default: drive)" in help_of("live")
    assert "(default: static,predictive-rebalance)" in help_of("compare-policies", columns="100")
    assert "--detail folded|full" in help_of("simulate")


def test_the_page_of_options_is_what_the_help_says():
    written = (ROOT / "docs" / "options.md").read_text()
    assert options_page.page(PROGRAM) == written, "run ./dev reference"
    for command in COMMANDS:
        assert f"\n### `orrery {command}`\n" in written, command


def test_a_placeholder_of_an_option_has_no_range_in_it():
    labels = re.findall(r"^\| `(-[^`]*)`", options_page.page(PROGRAM), re.MULTILINE)
    assert len(labels) > 300
    types = re.compile(r"\b(TEXT|UINT|INT|FLOAT)\b")
    assert [label for label in labels if types.search(label) or label.count(" ") > 2] == []


@pytest.mark.parametrize("command", RUNS)
def test_examples_name_options_that_exist(command):
    text = help_of(command)
    if command == "schema":
        assert "Examples:" in text
    for line in re.findall(r"^  (?:srun )?(orrery [a-z-]+ .*)$", text, re.MULTILINE):
        words = shlex.split(line)
        known = help_of(words[1])
        for option in (word for word in words[2:] if word.startswith("-")):
            assert option in known, line


def test_the_help_of_describe_has_the_formats_of_the_importers():
    def flat(*words):
        return re.sub(r"\s+", " ", help_of(*words))

    for kind in ("model", "cluster-file", "jobs"):
        (listed,) = re.findall(r"found by content: (.*?) (?:\(required\)|Options:)",
                               flat("import", kind))  # fmt: skip
        assert len(listed.split(", ")) >= 3
        assert listed in flat("describe"), kind


def test_the_help_command_says_the_same_as_the_option():
    assert orrery("help", "live").stdout == orrery("live", "--help").stdout
    assert orrery("help").stdout == orrery("--help").stdout
    assert orrery("help", "versus").stdout == orrery("compare-policies", "--help").stdout
