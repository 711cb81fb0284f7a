"""Scenarios of the tests, kept for the comparison of two builds (tests/equal)."""

import json
import os
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT

sys.path.append(str(ROOT / "tests" / "equal"))
import collect
import equal


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["a.yaml"], []),
        (["--json", "a.yaml", "--seed", "3", "--record", "x.log"], ["--seed", "3"]),
        (["a.yaml", "--set=run.steps=4"], ["--set", "run.steps=4"]),
        (["a.yaml", "--policy", "recover"], ["--policy", "recover"]),
        (["a.yaml", "--policy", "mine.py"], None),
        (["a.yaml", "--futures", "3"], None),
        (["a.yaml", "b.yaml"], None),
        (["--json"], None),
    ],
)
def test_a_run_is_kept_with_the_options_that_change_it(words, options):
    found = collect.parsed(words)
    assert (found and found[1]) == options
    assert found is None or found[0].name == "a.yaml"


def test_a_scenario_is_kept_once_with_the_files_that_it_names(tmp_path):
    base, kept = tmp_path / "base", tmp_path / "kept"
    base.mkdir()
    (base / "jobs.csv").write_text("job")
    (base / "other.csv").write_text("job")
    for _ in range(2):
        collect.keep(kept, "recorded: {trace: jobs.csv}\n", ["--seed", "1"], base)
    collect.keep(kept, "run: {steps: 100000000}\n", [], base)
    collect.keep(kept, "{}\n", ["--set", "run.steps=100000000"], base)
    [(scenario, options)] = equal.given(kept)
    assert options == ["--seed", "1"]
    assert sorted(each.name for each in scenario.parent.iterdir()) == [
        "jobs.csv", "scenario.json", "scenario.yaml"
    ]  # fmt: skip
    (kept / "plain.yaml").write_text("{}\n")
    assert ([], kept / "plain.yaml") in [(found, path) for path, found in equal.given(kept)]


def test_the_program_of_the_build_keeps_and_runs(tmp_path):
    build, kept, scenario = tmp_path / "build", tmp_path / "kept", tmp_path / "a.yaml"
    (build / "bin").mkdir(parents=True)
    (build / "python").mkdir()
    (build / "bin" / "orrery").write_text('#!/bin/sh\necho "ran $*"\nexit 3\n')
    (build / "bin" / "orrery").chmod(0o755)
    (build / "bin" / "orrery-sim").write_text("")
    scenario.write_text("name: a\n")
    collect.build_that_keeps(build, tmp_path / "other")
    assert (tmp_path / "other" / "bin" / "orrery-sim").is_symlink()
    environment = {**os.environ, collect.FOLDER: str(kept)}
    for words in (["simulate", str(scenario), "--json"], ["check", str(scenario)]):
        result = subprocess.run(
            [tmp_path / "other" / "bin" / "orrery", *words], capture_output=True, text=True,
            env=environment,
        )  # fmt: skip
        assert (result.returncode, result.stdout) == (3, f"ran {' '.join(words)}\n")
    [(path, options)] = equal.given(kept)
    assert (path.read_text(), options) == ("name: a\n", [])
    assert json.loads((path.parent / "scenario.json").read_text()) == []


def test_an_earlier_program_gets_the_keys_that_it_knows(tmp_path, capsys):
    pytest.importorskip("yaml")
    import older

    kept = tmp_path / "kept" / "one"
    kept.mkdir(parents=True)
    text = (ROOT / "examples" / "straggler-4-ranks.yaml").read_text()
    added = "future: {key: 1}\ncheckpoints: {folder: here}\n"
    (kept / "scenario.yaml").write_text(text.replace("job:\n", "job:\n  newest: [2]\n") + added)
    folder = tmp_path / "to"
    assert older.main([BUILD / "bin" / "orrery", tmp_path / "kept", folder]) == 0
    scenario = json.loads((folder / "one" / "scenario.yaml").read_text())
    assert scenario["live"]["checkpoints"] == {"folder": "here"}
    assert not {"future", "checkpoints"} & scenario.keys() and "newest" not in scenario["job"]
    assert capsys.readouterr().out == "older: 1 with exit code 0\n"
