"""Other tools' files, made into scenarios."""

import json

from conftest import EXAMPLES, data_file, orrery


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


def step_of(folder, *overrides):
    """A small trace of our own, of 8 ranks."""
    prefix = folder / "step"
    exported = orrery(
        "export", "chakra", EXAMPLES / "llama3-70b-512-h100.yaml", "-o", prefix,
        "--set", "cluster.nodes=1", "--set", "job.layout.data=1", "--set", "job.layout.pipeline=1",
        "--set", "job.global_batch=2", "--set", "job.model={preset: llama3-8b}", *overrides,
    )  # fmt: skip
    assert exported.returncode == 0, exported.stderr
    return prefix


def test_names_that_yaml_would_read_otherwise(tmp_path):
    folder = tmp_path / "a: b # c"
    folder.mkdir()
    prefix, scenario = step_of(folder), folder / 'it\'s: "6" #1.yaml'
    result = orrery("import", "chakra", prefix, "-o", scenario)
    assert result.returncode == 0, result.stderr
    report = orrery("simulate", scenario, "--json")
    assert report.returncode == 0, report.stderr
    assert json.loads(report.stdout)["scenario"] == 'it\'s: "6" #1'
    moved = tmp_path / "elsewhere.yaml"  # the trace's name leads through the odd folder
    assert orrery("import", "chakra", prefix, "-o", moved).returncode == 0
    assert orrery("simulate", moved).returncode == 0


def test_nodes_are_counted_by_the_preset(tmp_path):
    prefix, scenario = step_of(tmp_path), tmp_path / "s.yaml"
    for preset, nodes in (("dgx-h100", 1), ("gb200-nvl72", 2)):
        result = orrery("import", "chakra", prefix, "-o", scenario, "--preset", preset)
        assert result.returncode == 0, result.stderr
        assert f"nodes: {nodes}\n" in scenario.read_text()
        assert orrery("simulate", scenario).returncode == 0
    result = orrery("import", "chakra", prefix, "-o", scenario, "--preset", "dgx-h1000")
    assert result.returncode == 3
    assert "did you mean 'dgx-h100'?" in result.stderr


def test_kinds_and_options_are_explained():
    assert "unknown kind 'shakra'; did you mean 'chakra'?" in orrery("import", "shakra").stderr
    result = orrery("import", "chakra", "x", "--output", "y", "--rank", "3")
    assert result.returncode == 2
    assert "did you mean '--ranks'?" in result.stderr
