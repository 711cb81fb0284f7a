"""Statements of README and docs/ about the program: commands, options, links, columns."""

import re
import subprocess

import pytest
from conftest import ROOT, orrery
from main_test import COMMANDS

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")])
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def without_wrapping(text):
    return text.replace("\\\n", " ").replace("\\|", "|")


def commands_in(text):
    """(command, rest of the line or of the code span) of every command line in a page."""
    code = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    lines = [line for block in code for line in without_wrapping(block).splitlines()]
    lines += re.findall(r"`([^`\n]*orrery [^`\n]*)`", without_wrapping(text))
    for line in lines:
        for found in re.finditer(r"(?:^|[ /(])orrery ((?:[a-z|\\-]+))([^#]*)", line):
            for command in found[1].replace("\\", "").split("|"):
                yield command, found[2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page):
    known = {}
    for command, rest in commands_in(page.read_text()):
        if command not in known:
            known[command] = orrery("help", command).stdout
            assert known[command], f"{page.name}: orrery {command} {rest}"
            for kind in ("chakra", "jobs", "policy"):
                if re.search(rf"^  {kind} ", known[command], re.MULTILINE):
                    known[command] += orrery(command, kind, "--help").stdout
        for option in OPTION.findall(rest):
            assert option in known[command], f"{page.name}: orrery {command} has no {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for target in re.findall(r"\]\(#([^)\s]+)\)", text):
        assert target in anchors, f"{page.name}: #{target}"


def test_the_scripts_commands_exist():
    listed = subprocess.check_output([ROOT / "dev", "help"], text=True)
    known = set(re.findall(r"^\./dev ([a-z]+)(?: \| ([a-z]+))?", listed, re.MULTILINE))
    known = {word for pair in known for word in pair} | {"help"}
    for page in PAGES:
        for word in re.findall(r"\./dev ([a-z]+)", page.read_text()):
            assert word in known, f"{page.name}: ./dev {word}"


def test_the_readme_names_every_command():
    named = {command for command, _ in commands_in((ROOT / "README.md").read_text())}
    assert set(COMMANDS) - named == set()


def test_the_page_of_columns_has_those_that_are_read(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("none\n")
    said = orrery("predict", table).stderr
    needed, optional = re.search(r"none named (.*); those may be left out: (.*)", said).groups()
    rows = re.findall(r"^\| (\**)`(\w+)`", (ROOT / "docs" / "predict.md").read_text(), re.MULTILINE)
    assert [name for bold, name in rows if bold] == needed.split(", ")
    assert [name for bold, name in rows if not bold] == optional.split(", ")


def test_the_summary_in_the_readme_is_what_the_program_prints():
    (shown,) = re.findall(r"^(simulation .*?)^this machine", (ROOT / "README.md").read_text(),
                          re.DOTALL | re.MULTILINE)  # fmt: skip
    printed = orrery("simulate", ROOT / "examples" / "llama3-70b-512-h100.yaml").stdout
    assert printed.startswith(shown)
