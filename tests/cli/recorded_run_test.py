"""orrery rehearse --scenario: the recorded step under faults and policies. A program without
PyTorch takes the place of the rehearsed one; tests/python/rehearse_test.py has a real one."""

import json
import shutil
import sys

import pytest
from conftest import EXAMPLES, orrery

#: A Python part that records the shipped step and sends a report.
PART = """
import json, os, shutil, socket, struct, sys
told = json.loads(os.environ["ORRERY_REHEARSE"])
if sys.argv[1] != "none":
    shutil.copy(sys.argv[1], told["trace"] + ".0.et")
report = json.dumps({"ranks": told["ranks"], "gpu": told["gpu"]}) if told["json"] else "a report"
sock = socket.socket(fileno=3)
text = json.dumps({"report": report + "\\n"}).encode()
sock.sendall(struct.pack("<I", len(text)) + text)
sock.recv(100)
raise SystemExit(int(sys.argv[2]))
"""
RECORDING = EXAMPLES / "recordings" / "decoder-ddp.0.et"
SCENARIO = """name: survival
cluster: {preset: dgx-h100, nodes: 8}
faults: [{at_step: 10, rank: 3, kill: true}]
elastic: true
run: {steps: 30}
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "survival.yaml"
    path.write_text(SCENARIO)
    return path


def rehearse(*options, recording=RECORDING, code=0):
    return orrery("rehearse", "--ranks", "64", *options, "--", sys.executable, "-S", "-c", PART,
                  recording, code)  # fmt: skip


def test_both_results_are_in_the_object(scenario):
    result = rehearse("--scenario", scenario, "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["ranks"], report["gpu"]) == (64, "H100")
    simulation = report["simulation"]
    assert simulation["steps_completed"] == 30
    assert simulation["ranks"] == 64
    assert len(simulation["failures"]) == 1
    assert simulation["decisions"] == 0
    decided = json.loads(rehearse("--scenario", scenario, "--policy", "recover", "--json").stdout)
    assert decided["simulation"]["decisions"] > 0


def test_both_results_are_printed(scenario):
    result = rehearse("--scenario", scenario)
    assert result.stderr.startswith(f"rehearsing rank 0 of 64 on 8 nodes of {scenario} (H100)")
    assert "a report\n\nsimulation    survival, 64 ranks" in result.stderr
    assert "1 ranks lost" in result.stderr


def test_the_scenarios_own_layout_stays(scenario):
    scenario.write_text(SCENARIO + "job: {program: {trace: old}, layout: {data: 32}}\n")
    report = json.loads(rehearse("--scenario", scenario, "--json").stdout)
    assert report["simulation"]["ranks"] == 32


def test_another_gpu_and_a_kept_trace(scenario, tmp_path):
    kept = tmp_path / "kept"
    result = rehearse("--scenario", scenario, "--gpu", "B200", "--trace", kept, "--json")
    report = json.loads(result.stdout)
    assert report["gpu"] == "B200"
    assert (tmp_path / "kept.0.et").read_bytes() == RECORDING.read_bytes()
    plain = json.loads(rehearse("--scenario", scenario, "--json").stdout)
    faster = report["simulation"]["step_time_s"]
    assert faster < 0.7 * plain["simulation"]["step_time_s"]


def test_another_cluster_is_that_of_both_results(scenario):
    result = rehearse("--scenario", scenario, "--cluster", "dgx-a100", "--json")
    assert result.returncode == 0, result.stderr
    assert "rehearsing rank 0 of 64 on 8 nodes of dgx-a100 (A100" in result.stderr
    report = json.loads(result.stdout)
    assert report["gpu"].startswith("A100")
    own = json.loads(rehearse("--scenario", scenario, "--json").stdout)
    slower = report["simulation"]["fault_free_step_time_s"]
    assert slower > 1.6 * own["simulation"]["fault_free_step_time_s"]


def test_a_failed_program_is_not_simulated(scenario):
    result = rehearse("--scenario", scenario, "--json", code=7)
    assert result.returncode == 7
    assert "simulation" not in json.loads(result.stdout)
    result = rehearse("--scenario", scenario, recording="none")
    assert result.returncode == 4
    assert "a report" in result.stderr
    assert "expected an optimizer step, whose recording --scenario simulates" in result.stderr


def test_mistakes_come_before_the_rehearsal(scenario, tmp_path):
    def refusal(*options):
        result = rehearse(*options)
        assert result.returncode in (2, 3), result.stderr
        assert "rehearsing" not in result.stderr
        return result.stderr

    assert "expected --cluster, or --scenario with a cluster" in refusal()
    plain = ("--cluster", "dgx-h100")
    assert "--policy: expected --scenario" in refusal(*plain, "--policy", "recover")
    assert "recover" in refusal("--scenario", scenario, "--policy", "recove")
    described = tmp_path / "described.yaml"
    shutil.copy(EXAMPLES / "llama3-70b-512-h100.yaml", described)
    told = refusal("--scenario", described)
    assert f"{described}:" in told and "expected no 'job', or a job with 'program'" in told
    scenario.write_text(SCENARIO + "job: {program: {trace: old}, micro_batch: 2}\n")
    told = refusal("--scenario", scenario)
    assert f"{scenario}:6:43: error: expected no 'micro_batch', which the program" in told
    scenario.write_text(SCENARIO.replace("nodes: 8", "nodes: 1"))
    assert "expected a GPU for each of 64 ranks, found 8 GPUs" in refusal("--scenario", scenario)
    scenario.write_text(SCENARIO.replace("elastic", "elastik"))
    assert f"{scenario}:4:1: error: unknown key 'elastik'" in refusal("--scenario", scenario)
