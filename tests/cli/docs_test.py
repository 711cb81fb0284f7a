"""Statements of README and docs/ about the program: commands, options, links, columns."""

import re
import subprocess

import pytest
from conftest import ROOT, orrery
from main_test import COMMANDS
from page_commands import GENERATED, OPTION, PAGES, commands_in

NAMES = {page: page.relative_to(ROOT).as_posix() for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=NAMES.get)
def test_commands_and_options_exist(page):
    known = {}
    for command, rest in commands_in(page.read_text()):
        if command not in known:
            known[command] = orrery("help", command).stdout
            assert known[command], f"{page.name}: orrery {command} {rest}"
            below = known[command].partition("\nSubcommands:\n")[2].partition("\n\n")[0]
            for kind in re.findall(r"^  ([a-z-]+) ", below, re.MULTILINE):
                known[command] += orrery(command, kind, "--help").stdout
        for option in OPTION.findall(rest):
            assert option in known[command], f"{page.name}: orrery {command} has no {option}"


def anchors_of(page):
    """The anchors of the headings of a page, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page):
    """Yields the links of a page to no file, or to no heading of a page."""
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text()):
        if "://" in target:
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and anchor not in anchors_of(file)):
            yield f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES.get)
def test_links_lead_somewhere(page):
    assert list(broken_links(page)) == []


def test_a_link_to_no_file_and_to_no_heading_is_found(tmp_path):
    page = tmp_path / "a.md"
    page.write_text("# A b\n[1](#a-b) [2](a.md#a-b) [3](a.md) [4](b.md) [5](#c) [6](a.md#d)\n")
    assert list(broken_links(page)) == ["b.md#", "#c", "a.md#d"]


def linked_pages(page):
    """Returns the other pages to which a page links."""
    targets = re.findall(r"\]\(([^)#\s]+\.md)[)#]", page.read_text())
    return {(page.parent / target).resolve() for target in targets if "://" not in target} - {page}


def test_every_page_is_linked_and_links_to_another():
    written = [page for page in PAGES if page.name not in GENERATED | {"scenario.md", "python.md"}]
    assert [NAMES[page] for page in written if not linked_pages(page)] == []
    linked = set().union(*map(linked_pages, PAGES))
    named = {ROOT / "README.md"}
    assert [NAMES[page] for page in PAGES if page not in linked | named] == []


def test_the_links_of_a_page_are_those_to_other_pages(tmp_path):
    page = tmp_path / "a.md"
    page.write_text("[1](a.md) [2](#b) [3](b/c.md#d) [4](https://e.org/f.md) [5](g.svg)\n")
    assert linked_pages(page) == {tmp_path / "b" / "c.md"}


def test_the_site_has_every_page_in_a_group():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    listed = set(re.findall(r"(\S+\.md)$", nav, re.MULTILINE))
    pages = {name.removeprefix("docs/") for name in NAMES.values() if name.startswith("docs/")}
    records = {page for page in pages if re.match(r"decisions/\d", page)}
    added = {"index.md", "cpp/index.md", "CONTRIBUTING.md", "CHANGELOG.md"}
    assert listed == (pages - records) | added


def test_the_scripts_commands_exist():
    listed = subprocess.check_output([ROOT / "dev", "help"], text=True)
    known = set(re.findall(r"^\./dev ([a-z]+)(?: \| ([a-z]+))?", listed, re.MULTILINE))
    known = {word for pair in known for word in pair} | {"help"}
    hosted = [*ROOT.glob(".github/**/*.yml"), *ROOT.glob(".github/*.md")]
    assert len(hosted) >= 4
    for page in PAGES + hosted:
        for word in re.findall(r"\./dev ([a-z]+)", page.read_text()):
            assert word in known, f"{page.name}: ./dev {word}"


def test_every_benchmark_of_the_script_is_in_its_help():
    listed = subprocess.check_output([ROOT / "dev", "help"], text=True)
    known = set(re.findall(r"^\./dev bench ([a-z]+) ", listed, re.MULTILINE))
    body = (ROOT / "dev").read_text().partition("\nbench() {")[2].partition("\n}")[0]
    cases = re.findall(r"^    ([a-z |]+)\)", body, re.MULTILINE)
    assert len(cases) > 10
    assert {name for case in cases for name in case.split(" | ")} == known


def test_the_tests_and_scripts_that_pages_name_exist():
    lists = "".join(file.read_text() for file in ROOT.glob("tests/**/CMakeLists.txt"))
    programs = set(re.findall(r"orrery_test\((\w+)", lists))
    # Lists with a loop have a test for each file, with the name of the room before it.
    programs |= {f"{file.parts[len(ROOT.parts) + 1]}_{file.stem}"
                 for file in ROOT.glob("tests/*/**/*_test.cpp")}  # fmt: skip
    for page in PAGES:
        text = page.read_text()
        for name in re.findall(r"(?:-R '?|build/tests/)(\w+_test)\b", text):
            assert name in programs, f"{page.name}: {name}"
        for file in re.findall(r"`((?:tests|python)/[\w/]+\.(?:py|sh|txt))\b", text):
            placeholder = "/a/b" in file or "NAME" in file
            assert placeholder or (ROOT / file).is_file(), f"{page.name}: {file}"


def test_the_page_of_tasks_names_every_command():
    named = {command for command, _ in commands_in((ROOT / "docs" / "commands.md").read_text())}
    assert set(COMMANDS) - named == set()


def test_the_page_of_columns_has_those_that_are_read(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("none\n")
    said = orrery("predict", table).stderr
    needed, optional = re.search(r"none named (.*); those may be left out: (.*)", said).groups()
    page = (ROOT / "docs" / "predict.md").read_text()
    columns = page[page.index("\n| column |") :].split("\n\n")[0]
    rows = re.findall(r"^\| (\**)`(\w+)`", columns, re.MULTILINE)
    assert [name for bold, name in rows if bold] == needed.split(", ")
    assert [name for bold, name in rows if not bold] == optional.split(", ")


def test_the_readme_fits_on_a_screen_and_has_a_command_and_a_tutorial_for_each_user():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 55
    for user in ("planner", "operator", "engineer", "pytorch"):
        assert f"](docs/tutorials/{user}.md)" in text
    assert len(re.findall(r"^```\norrery ", text, re.MULTILINE)) == 3


#: Sections that the page for PyTorch users must have, of the question that each answers.
ANSWERS = {
    "A lost rank": "what happens", "Operations": "which are carried",
    "Programs that are not carried": "which programs", "Memory and cost": "what it takes",
    "What it cannot do": "limits", "Switch it off": "way out",
}  # fmt: skip


def test_the_page_for_pytorch_users_takes_five_minutes_and_answers_each_question():
    text = (ROOT / "docs" / "pytorch-users.md").read_text()
    assert len(text.split()) <= 1000
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == list(ANSWERS)
    assert "\norrery run " in text.partition("\n## ")[0]


def test_the_page_for_pytorch_users_has_only_figures_of_the_reference():
    text = (ROOT / "docs" / "pytorch-users.md").read_text()
    rows = text[text.index("## Memory and cost") :].partition("\n\nConditions")[0]
    figures = re.findall(r"[-+]?\d+(?:\.\d+)?(?:%| us| s\b| GB| MiB)", rows)
    assert len(figures) > 15
    measured = (ROOT / "docs" / "run.md").read_text()
    assert [figure for figure in figures if figure not in measured] == [], "see run.md"


def test_the_summary_in_the_first_steps_is_what_the_program_prints():
    (shown,) = re.findall(r"^(simulation .*?)^this machine",
                          (ROOT / "docs" / "first-steps.md").read_text(),
                          re.DOTALL | re.MULTILINE)  # fmt: skip
    printed = orrery("simulate", ROOT / "examples" / "llama3-70b-512-h100.yaml").stdout
    assert printed.startswith(shown)
