"""The runner of `./dev soak --pages`, with commands of this test."""

import json
import pathlib
import subprocess
import time

import pytest
import soak_pages
from conftest import ROOT
from page_commands import Soaked
from soak_pages import Soak, run_all


@pytest.fixture
def soak(tmp_path):
    """Returns a function that makes the runner of one call, for a commit."""
    clone = tmp_path / "clone"
    clone.mkdir()

    def make(commit="c1", since=(), **variables):
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **variables}
        return Soak(tmp_path, clone, tmp_path / "pages.jsonl", commit, environment, since)

    return make


def rows_of(folder):
    file = folder / "pages.jsonl"
    return [json.loads(row) for row in file.read_text().splitlines()] if file.exists() else []


def test_a_failing_command_is_named_and_makes_exit_code_1(soak, tmp_path, capsys):
    lost = Soaked("minutes", "./say", "echo lost; exit 3")
    assert run_all([Soaked("minutes", "true", "true")], soak()) == 0
    assert run_all([lost, Soaked("minutes", "./on", "echo on")], soak()) == 1
    said = capsys.readouterr().out
    assert "\n   | lost\nfailed        ./say: exit code 3 after " in said
    assert "\npassed        ./on: " in said and said.endswith("1 passed, 0 passed before, "
                                                              "0 skipped, 1 failed\n")  # fmt: skip
    assert [(row["command"], row["commit"], row["exit"]) for row in rows_of(tmp_path)] == [
        ("true", "c1", 0), ("./say", "c1", 3), ("./on", "c1", 0),
    ]  # fmt: skip
    assert all(row["seconds"] >= 0 for row in rows_of(tmp_path))
    assert run_all([Soaked("minutes", "./pipe", "false | true")], soak()) == 1


def test_a_second_call_leaves_out_what_passed_at_the_same_commit(soak, tmp_path, capsys):
    commands = [Soaked("minutes", "./dev a", "echo a >>ran"),
                Soaked("minutes", "./dev b", "echo b >>ran; test -e mended")]  # fmt: skip
    assert run_all(commands, soak()) == 1
    (tmp_path / "clone" / "mended").touch()
    assert run_all(commands, soak()) == 0
    assert "\npassed before ./dev a\n" in capsys.readouterr().out
    assert run_all(commands, soak("c2")) == 0
    assert (tmp_path / "clone" / "ran").read_text().split() == ["a", "b", "b", "a", "b"]


def test_passes_of_earlier_commits_count_if_asked_for(soak, tmp_path):
    command = Soaked("minutes", "./dev a", "echo a >>ran")
    for commit, since in (("c1", ()), ("c3", ("c1", "c2")), ("c3", ("c2",))):
        assert run_all([command], soak(commit, since)) == 0
    assert [row["commit"] for row in rows_of(tmp_path)] == ["c1", "c3"]


def test_commits_since_one_are_it_and_those_up_to_head(tmp_path):
    names = ("-c", "user.name=a", "-c", "user.email=a@b")
    soak_pages.git("init", "--quiet", cwd=tmp_path)
    made = []
    for message in ("first", "second", "third"):
        soak_pages.git(*names, "commit", "--quiet", "--allow-empty", "-m", message, cwd=tmp_path)
        made.append(soak_pages.git("rev-parse", "HEAD", cwd=tmp_path))
    assert soak_pages.commits_since(made[2], tmp_path) == {made[2]}
    assert soak_pages.commits_since(made[1][:12], tmp_path) == {made[1], made[2]}


def test_what_a_command_needs_runs_first_and_once(soak, tmp_path, capsys):
    need = ("echo need >>ran",)
    commands = [Soaked("network", f"install {name}", f"echo {name} >>ran", need) for name in "ab"]
    assert run_all(commands, soak()) == 0
    assert (tmp_path / "clone" / "ran").read_text().split() == ["need", "a", "b"]
    capsys.readouterr()
    broken = [Soaked("network", f"install {name}", "echo never >>ran", ("false",)) for name in "cd"]
    assert run_all(broken, soak()) == 1
    said = capsys.readouterr().out
    assert said.count("== runs: false") == 1 and "failed        install d: it needs false" in said
    assert "never" not in (tmp_path / "clone" / "ran").read_text()


def test_commands_with_tables_are_skipped_without_them(soak, tmp_path, capsys):
    command = Soaked("data", "python3 fit.py", 'test "$ORRERY_DATA" = /tables')
    assert run_all([command], soak()) == 0
    assert "skipped       python3 fit.py: ORRERY_DATA is not set\n" in capsys.readouterr().out
    assert rows_of(tmp_path) == []
    assert run_all([command], soak(ORRERY_DATA="/tables")) == 0
    assert [row["exit"] for row in rows_of(tmp_path)] == [0]


def test_pip_has_an_environment_of_its_own(soak, tmp_path):
    command = Soaked("network", "pip install x", "command -v pip >where && pip --version", (), ())
    assert run_all([command], soak()) == 0
    where = (tmp_path / "clone" / "where").read_text().strip()
    assert where == str(tmp_path / "venv" / "bin" / "pip")


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_a_command_that_hangs_is_ended_with_its_processes(soak, tmp_path, monkeypatch):
    monkeypatch.setattr(soak_pages, "LIMIT_S", 0.5)
    hangs = Soaked("minutes", "./hang", "sleep 987 & echo $! >pid; wait")
    assert run_all([hangs], soak()) == 1
    assert [row["exit"] for row in rows_of(tmp_path)] == [soak_pages.OUT_OF_TIME]
    pid = (tmp_path / "clone" / "pid").read_text().strip()
    until = time.monotonic() + 30
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_alive(pid)


def test_each_command_finds_the_files_of_head(soak, tmp_path, monkeypatch):
    source = tmp_path / "source"
    source.mkdir()

    def commit(text):
        (source / "file").write_text(text)
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
        for words in (["init", "-q"], ["add", "file"], ["commit", "-q", "-m", text]):
            subprocess.run([*git, *words], cwd=source, check=True)

    commit("one")
    monkeypatch.setattr(soak_pages, "ROOT", source)
    clone = tmp_path / "clone"
    first = soak_pages.clone_head(clone)
    change = Soaked("network", "./dev format", "echo two >>file")
    look = Soaked("network", "./look", 'test "$(cat file)" = one')
    assert run_all([change, look], soak(first)) == 0
    (source / "file").write_text("not committed")
    assert soak_pages.clone_head(clone) == first
    commit("three")
    assert soak_pages.clone_head(clone) != first and (clone / "file").read_text() == "three"


def test_a_part_chooses_a_group_or_lines(capsys, monkeypatch):
    commands = [Soaked("network", "./dev cuda", ""), Soaked("data", "./dev bench own", ""),
                Soaked("minutes", "./dev bench data", "")]  # fmt: skip
    assert soak_pages.chosen(commands, None) == commands
    assert soak_pages.chosen(commands, "data") == commands[1:2]
    assert soak_pages.chosen(commands, "bench") == commands[1:]
    monkeypatch.setattr("sys.argv", ["soak_pages.py", "--only", "no such command"])
    with pytest.raises(SystemExit) as refused:
        soak_pages.main()
    assert refused.value.code == 2
    assert "expected a group (network, data, minutes)" in capsys.readouterr().err


def test_the_script_of_soaks_calls_the_runner():
    if not (ROOT / "build" / "venv" / "bin" / "python").exists():
        pytest.skip("no build/venv: ./dev build makes it")
    refused = subprocess.run([ROOT / ".ci" / "soak", "--pages", "--only", "no such command"],
                             capture_output=True, text=True)  # fmt: skip
    assert refused.returncode == 2 and "found 'no such command'" in refused.stderr
