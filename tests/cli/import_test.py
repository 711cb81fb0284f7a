"""Other tools' files, made into scenarios."""

import json

from conftest import data_file, orrery


def test_a_chakra_trace_becomes_a_scenario_that_runs(tmp_path):
    archive = data_file("chakra", "gpt64.tar.xz")
    scenario = tmp_path / "gpt64.yaml"
    result = orrery("import", "chakra", archive, "-o", scenario)
    assert result.returncode == 0, result.stderr
    assert "64 ranks with 4 different programs, 167552 nodes, 32 communicators" in result.stdout
    report = json.loads(orrery("simulate", scenario, "--json").stdout)
    assert (report["ranks"], report["rank_classes"]) == (64, 4)


def test_what_cannot_be_read_is_named_and_nothing_is_written(tmp_path):
    trace = tmp_path / "t.0.et"
    trace.write_bytes(b"\x05nonsense")
    result = orrery("import", "chakra", tmp_path / "t", "-o", tmp_path / "t.yaml")
    assert result.returncode == 3
    assert f"{trace}:1:" in result.stderr
    assert not (tmp_path / "t.yaml").exists()


def test_kinds_and_options_are_explained():
    assert "unknown kind 'shakra'; did you mean 'chakra'?" in orrery("import", "shakra").stderr
    result = orrery("import", "chakra", "x", "--output", "y", "--rank", "3")
    assert result.returncode == 2
    assert "did you mean '--ranks'?" in result.stderr
