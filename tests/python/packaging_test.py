"""The tools of wheels and releases: interpreters, licences, first commands, notes, versions."""

import re
import subprocess
import sys

import pytest
from conftest import ROOT

sys.path[:0] = [str(ROOT / "python" / "packaging"), str(ROOT / "tests" / "wheel")]

import chroots  # noqa: E402
import interpreters  # noqa: E402
import licences  # noqa: E402


def test_an_interpreter_is_known_by_its_tag_and_headers():
    found = interpreters.interpreter_at(sys.executable)
    assert found.tag == f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert found.suffix.startswith(f".cpython-{found.tag[2:]}-") and found.suffix.endswith(".so")


def test_a_program_that_is_no_python_is_refused(tmp_path):
    with pytest.raises(interpreters.NoModule, match="/bin/true: expected an interpreter"):
        interpreters.interpreter_at("/bin/true")
    with pytest.raises(interpreters.NoModule, match="expected an interpreter"):
        interpreters.interpreter_in(str(tmp_path))


def unpacked_wheel(folder, library):
    (folder / "orrery-0.1.0.dist-info").mkdir()
    (folder / "orrery.libs").mkdir()
    (folder / "orrery.libs" / library).write_text("")
    simgrid = folder / "simgrid"
    simgrid.mkdir()
    (simgrid / "version").write_text("3.32-2\n")
    (simgrid / "copyright").write_text("see /usr/share/common-licenses/LGPL-2.1.\n")
    (simgrid / "libsimgrid.so.3.32").write_text("")
    return simgrid


def test_each_bundled_library_gets_its_licence_and_a_row(tmp_path):
    simgrid = unpacked_wheel(tmp_path, "libsimgrid-0a1b2c3d.so.3.32")
    rows = licences.add_licences(tmp_path, [simgrid / "libsimgrid.so.3.32"], simgrid)
    assert rows == ["libsimgrid-0a1b2c3d.so.3.32  simgrid 3.32-2 (rebuilt)  simgrid.txt"]
    folder = tmp_path / "orrery-0.1.0.dist-info" / "licenses" / "libraries"
    written = {path.name for path in folder.iterdir()}
    assert written == {"LIBRARIES.txt", "simgrid.txt", "common-LGPL-2.1.txt"}
    assert rows[0] in (folder / "LIBRARIES.txt").read_text()


def test_a_library_of_unknown_origin_ends_the_build(tmp_path):
    simgrid = unpacked_wheel(tmp_path, "libunknown-0a1b2c3d.so.1")
    with pytest.raises(SystemExit, match="origin of libunknown"):
        licences.add_licences(tmp_path, [simgrid / "libsimgrid.so.3.32"], simgrid)


def test_the_readme_has_three_first_commands():
    commands = chroots.first_commands((ROOT / "README.md").read_text())
    assert len(commands) >= 3
    with pytest.raises(SystemExit, match="found 1"):
        chroots.first_commands("```\n$ orrery list models\n```\n")


def test_release_notes_need_the_version_and_a_dated_section():
    def notes(version):
        return subprocess.run([ROOT / ".ci" / "release_notes", version], capture_output=True,
                              text=True)  # fmt: skip

    assert "CMakeLists.txt: expected version 9.9.9" in notes("9.9.9").stderr
    text = (ROOT / "CMakeLists.txt").read_text()
    (built,) = re.findall(r"project\(orrery VERSION ([0-9.]+)", text)
    dated = re.search(rf"^## {built}, \d{{4}}-", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert (notes(built).returncode == 0) == (dated is not None)


def test_a_missing_pytorch_is_told_with_the_extra():
    import importlib.util

    import orrery.torch

    if importlib.util.find_spec("torch") is not None:
        pytest.skip("this Python has PyTorch")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'orrery\[torch\]'"):
        orrery.torch.state(model=object())


def test_the_page_of_versions_has_the_numbers_of_the_code():
    page = (ROOT / "docs" / "versions.md").read_text()
    log = (ROOT / "policies" / "record" / "log_format.hpp").read_text()
    journal = (ROOT / "live" / "run" / "files" / "journal.hpp").read_text()
    program = (ROOT / "policies" / "run" / "policy_program.hpp").read_text()
    newest = re.search(r"kLogFormat{(\d+), (\d+)}", log).groups()
    oldest = re.search(r"kOldestLogFormat{(\d+), (\d+)}", log).groups()
    kept = re.search(r"kJournalFormat = (\d+)", journal)[1]
    api = re.search(r"kPolicyApi = (\d+)", program)[1]
    read = f"{'.'.join(oldest)} to {newest[0]}.x"
    assert f"| log (`--record`) | format {'.'.join(newest)} | {read} |" in page
    assert f"| journal of a live run | format {kept} | {kept} |" in page
    assert f"| policy program in C++ | API {api} | {api} |" in page
    files = (ROOT / "core" / "schema" / "file_format.hpp").read_text()
    listed = re.search(r"kFileFormats{{(.*)}};", files)[1]
    known = [".".join(pair) for pair in re.findall(r"{(\d+), (\d+)}", listed)]
    assert f"| format {known[-1]}, key `format` | {', '.join(known)} |" in page
    logs, scenarios = page.split("\n## Scenarios\n")
    rows = r"^\| (\d+\.\d+) \| 20"
    assert re.findall(rows, scenarios, re.MULTILINE) == known
    assert re.findall(r"^//   (\d+\.\d+) ", files, re.MULTILINE) == known
    help_of_convert = (ROOT / "docs" / "options.md").read_text()
    assert "`--from " + "\\|".join(known) + "`" in help_of_convert
    majors = [version.split(".")[0] for version in re.findall(rows, logs, re.MULTILINE)]
    assert list(dict.fromkeys(majors)) == [str(number + 1) for number in range(int(newest[0]))]
    assert re.findall(rows, logs, re.MULTILINE)[-1] == ".".join(newest)
    assert re.findall(r"^//   (\d+\.\d+) ", log, re.MULTILINE) == re.findall(
        rows, logs, re.MULTILINE)
    for number in range(int(oldest[0]), int(newest[0])):
        assert (ROOT / "tests" / "policies" / "record" / "logs" / f"format-{number}.log").is_file()
