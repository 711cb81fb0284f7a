"""The tutorials and the page of new users' difficulties: every command runs, and prints what the
page shows.

A block ```console has commands after `$ `, each followed by its output. A line `...` stands for any
lines, `...` within a line for any text. A block that begins with `# FILE` is written to FILE.
"""

import os
import pathlib
import re
import subprocess

import pytest
from conftest import BUILD, ROOT

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
NEWCOMERS = ROOT / "docs" / "newcomers.md"
PAGES = [*TUTORIALS, NEWCOMERS]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
TORCH = pathlib.Path(os.environ.get("ORRERY_TORCH_PYTHON", CACHE / "orrery/torch/bin/python"))
PATIENCE_S = 300


def steps_of(page):
    """Yields (file name, text) of each file and (None, (command, output)) of each command."""
    for language, text in BLOCK.findall(page):
        if language != "console":
            name, _, rest = text.partition("\n")
            yield name.removeprefix("# "), rest.lstrip("\n")
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield None, (command, output)


def pattern_of(output):
    """Returns the regular expression of a shown output."""
    parts = []
    for line in output.rstrip("\n").split("\n"):
        if line == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            words = ".*?".join(re.escape(part.rstrip()) for part in line.split("..."))
            parts.append(words + r" *\n")
    return "".join(parts)


def test_the_pattern_of_an_output_is_strict_and_leaves_gaps():
    shown = pattern_of("a 1\n...\nb ... c\n")
    assert re.fullmatch(shown, "a 1\nx\ny\nb 17 c\n") and re.fullmatch(shown, "a 1\nb  c\n")
    for other in ("a 2\nb 1 c\n", "a 1\nx\n", "a 1\nb 1 c\nmore\n", "x\na 1\nb 1 c\n"):
        assert not re.fullmatch(shown, other), other


def test_each_user_has_a_tutorial_with_commands():
    assert [page.stem for page in TUTORIALS] == ["engineer", "operator", "planner", "pytorch"]
    for page in TUTORIALS:
        assert len([step for step in steps_of(page.read_text()) if step[0] is None]) >= 2, page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_prints_what_the_page_shows(page, tmp_path):
    folders = [BUILD / "bin", BUILD / "venv" / "bin"]
    if page.stem == "pytorch":
        if not TORCH.exists():
            pytest.skip(f"no PyTorch at {TORCH}: ./dev torch installs it")
        folders[1] = TORCH.parent
    environment = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    environment.update(PATH=":".join([*map(str, folders), environment["PATH"]]), COLUMNS="100",
                       OMP_NUM_THREADS="1")  # fmt: skip
    for name, step in steps_of(page.read_text()):
        if name:
            (tmp_path / name).write_text(step)
            continue
        command, shown = step
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=PATIENCE_S)  # fmt: skip
        said = done.stdout if done.stdout.endswith("\n") else done.stdout + "\n"
        assert re.fullmatch(pattern_of(shown), said), f"$ {command}\n{said}"
