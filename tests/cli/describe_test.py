"""Files of this and of other tools: described, imported and priced."""

import json

import pytest
from conftest import EXAMPLES, ROOT, orrery

CONFIGS = ROOT / "tests" / "traces" / "models" / "configs"
CLUSTERS = ROOT / "tests" / "traces" / "clusters" / "samples"


def described(*words):
    result = orrery("describe", *words, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_config_of_hugging_face():
    found = described(CONFIGS / "llama-3.1-8b.json")
    assert (found["kind"], found["family"]) == ("model", "llama")
    assert found["parameters"] == found["active_parameters"] == 8_030_261_248
    assert sum(found["parameters_by_owner"].values()) == found["parameters"]
    assert found["training_state_bytes"] == 16 * found["parameters"]
    text = orrery("describe", CONFIGS / "gemma-2-27b.json").stdout
    assert "27,227,128,320" in text
    assert "windows" not in text, "they are priced"


def test_longer_sequences_cost_more_operations():
    file = CONFIGS / "llama-3.1-8b.json"
    short, long = (described(file, "--sequence-length", n) for n in (4096, 32768))
    more = long["training_flop_per_token"] - short["training_flop_per_token"]
    assert more == 6 * 32 * 4096 * (32768 - 4096)  # 6 x layers x hidden for each token of reach


@pytest.mark.parametrize(
    "file, kind",
    [
        (EXAMPLES / "llama3-70b-512-h100.yaml", "scenario"),
        (EXAMPLES / "recorded-jobs.csv", "job log"),
        (EXAMPLES / "replay-one-spine.yaml", "replay"),
        (CLUSTERS / "nccl.xml", "cluster"),
        (CLUSTERS / "topology.yaml", "cluster"),
        (CLUSTERS / "ibnetdiscover.txt", "cluster"),
    ],
)
def test_kinds_of_files(file, kind):
    found = described(file)
    assert found["kind"] == kind
    assert found["format"] in orrery("describe", file).stdout


def test_an_unknown_file_is_refused_with_the_nearest_reason(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("Dear diary\n")
    result = orrery("describe", file)
    assert result.returncode == 3
    assert f"{file}:1:" in result.stderr
    assert "expected a model, a cluster, a scenario, a machine or a job log" in result.stderr
    file.write_text('{"model_type": "mamba"}')
    assert "its layers have no attention" in orrery("describe", file).stderr


def test_an_imported_cluster_is_described_and_priced(tmp_path):
    cluster = tmp_path / "cluster.yaml"
    result = orrery(
        "import", "cluster-file", CLUSTERS / "nccl.xml", CLUSTERS / "topology.conf", "-o", cluster
    )
    assert result.returncode == 0, result.stderr
    assert "60 nodes, 480 H100" in result.stdout
    assert "assumed: GPUs of sm 90 as H100" in result.stderr
    assert described(cluster)["gpus"] == 480
    config = CONFIGS / "qwen3-32b.json"
    priced = orrery("layouts", "--model", config, "--cluster", cluster, "--gpus", 64, "--json")
    assert priced.returncode == 0, priced.stderr
    assert json.loads(priced.stdout)["layouts_that_fit"] > 0


def test_a_cluster_is_the_same_after_an_export_and_an_import(tmp_path):
    platform, cluster = tmp_path / "platform.xml", tmp_path / "cluster.yaml"
    wanted = ("export", "cluster", "dgx-h100", "--format", "simgrid", "-o", platform)
    assert "expected --nodes N beside a preset" in orrery(*wanted).stderr
    assert orrery(*wanted, "--nodes", 64).stderr == ""
    assert described(platform)["gpu"] == "H100"
    assert orrery("import", "cluster-file", platform, "-o", cluster).returncode == 0
    preset = tmp_path / "preset.yaml"
    preset.write_text("{preset: dgx-h100, nodes: 64}")
    same, first = described(cluster), described(preset)
    assert {**same, "file": ""} == {**first, "file": ""}
    result = orrery("export", "cluster", cluster, "--format", "nccl", "-o", tmp_path / "nccl.xml")
    assert "left out: nodes: 64, read again as 1" in result.stderr


def test_layouts_of_a_file_state_its_assumptions():
    config = CONFIGS / "gpt-oss-20b.json"
    result = orrery("layouts", "--model", config, "--cluster", "dgx-h100", "--gpus", 16)
    assert result.returncode == 0, result.stderr
    assert "the sinks of attention counted, not priced" in " ".join(result.stdout.split())


def test_a_model_as_a_preset_and_as_a_file_have_equal_layouts():
    asked = ("--cluster", "dgx-h100", "--gpus", 16, "--json", "--top", 3)
    preset = orrery("layouts", "--model", "llama3-8b", *asked)
    file = orrery("layouts", "--model", CONFIGS / "llama-3.1-8b.json", *asked)
    assert json.loads(preset.stdout)["layouts"] == json.loads(file.stdout)["layouts"]


def test_a_model_is_imported_into_a_scenario(tmp_path):
    written = tmp_path / "model.yaml"
    result = orrery("import", "model", CONFIGS / "llama-3.1-70b.json", "-o", written)
    assert result.returncode == 0, result.stderr
    lines = [line for line in written.read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "model:"
    model = ", ".join(line.strip() for line in lines[1:])
    scenario = EXAMPLES / "llama3-70b-512-h100.yaml"
    preset = json.loads(orrery("simulate", scenario, "--json").stdout)
    file = orrery("simulate", scenario, "--json", "--set", f"job.model={{{model}}}")
    assert file.returncode == 0, file.stderr
    assert json.loads(file.stdout)["step_time_s"] == preset["step_time_s"]
    result = orrery("import", "model", CONFIGS / "gemma-2-27b.json", "-o", written)
    assert result.returncode == 0, result.stderr
    lines = written.read_text().splitlines()
    assert [line.strip() for line in lines if "size: 4096" in line or "every: 2" in line]


def test_an_import_without_gpus_says_which_option_is_missing(tmp_path):
    result = orrery(
        "import", "cluster-file", CLUSTERS / "topology.conf", "-o", tmp_path / "cluster.yaml"
    )
    assert result.returncode == 3
    assert "--gpu NAME" in result.stderr
    assert not (tmp_path / "cluster.yaml").exists()
