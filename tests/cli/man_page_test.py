"""Manual pages: one for each command, with every option of its help."""

import re
import shutil
import subprocess

import pytest
from conftest import BUILD, orrery
from main_test import COMMANDS


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("man") / "man1"
    result = orrery("help", "--man", folder)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{folder}: {len(COMMANDS) + 1} pages\n"
    return {path.name: path.read_text() for path in folder.iterdir()}


def plain(text):
    return text.replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")


def test_each_command_has_a_page(pages):
    assert set(pages) == {"orrery.1", *(f"orrery-{command}.1" for command in COMMANDS)}
    for command in COMMANDS:
        assert f".BR orrery\\-{command.replace('-', chr(92) + '-')} (1)" in pages["orrery.1"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_has_each_option_and_example_of_the_help(pages, command):
    help_text = orrery("help", command).stdout
    page = plain(pages[f"orrery-{command}.1"])
    options = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", help_text, re.MULTILINE)
    for option in options:
        assert re.search(rf"^\.B (?:-\w, )?{option}\b", page, re.MULTILINE), option
    for example in re.findall(r"^  (orrery .*)$", help_text, re.MULTILINE):
        assert example in page
    assert ".SH EXIT STATUS\n.nf\n0 ok; 1 a stated goal" in page


def test_the_options_of_a_kind_are_on_the_page_of_its_command(pages):
    page = plain(pages["orrery-import.1"])
    assert ".SH ORRERY IMPORT JOBS\n" in page
    assert re.search(r"^\.B --anonymize", page, re.MULTILINE)


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff on this machine")
def test_the_formatter_has_no_complaint(pages, tmp_path):
    for name, text in pages.items():
        (tmp_path / name).write_text(text)
        result = subprocess.run(["groff", "-man", "-Tascii", "-ww", "-z", tmp_path / name],
                                capture_output=True, text=True)  # fmt: skip
        assert (result.returncode, result.stderr) == (0, ""), name


def test_the_build_has_pages_and_completions_for_an_installation():
    share = BUILD / "share"
    assert (share / "man" / "man1" / "orrery-simulate.1").is_file()
    assert "complete -o default -F _orrery orrery" in (
        share / "bash-completion" / "completions" / "orrery").read_text()  # fmt: skip
    assert (share / "fish" / "vendor_completions.d" / "orrery.fish").is_file()


def test_a_folder_that_cannot_be_made_is_an_error_of_the_environment(tmp_path):
    (tmp_path / "file").write_text("")
    result = orrery("help", "--man", tmp_path / "file" / "man")
    assert (result.returncode, result.stdout) == (4, "")
    assert "--man: expected a folder" in result.stderr
