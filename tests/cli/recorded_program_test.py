"""Recorded programs as jobs of a scenario: agreement with the replay of the same trace, other
sizes, faults and policies."""

import json

import pytest
from conftest import EXAMPLES, orrery

RECORDINGS = EXAMPLES / "recordings"
#: Largest difference of a derived step from the replay of its execution trace: the exchanges of a
#: job lack the starts and rounds of NCCL's protocols, which a trace's have (docs/rehearse.md).
TOLERANCE = 0.05


def scenario(folder, recording, *lines, data=None):
    path = folder / f"{recording}{len(list(folder.iterdir()))}.yaml"
    job = [f"  program: {{trace: {RECORDINGS / recording}}}"]
    if data:
        job.append(f"  layout: {{data: {data}}}")
    text = ["name: recorded", "cluster: {preset: dgx-h100, nodes: 8}", "job:", *job, *lines]
    path.write_text("\n".join([*text, "run: {steps: 40}", ""]))
    return path


def report_of(path, *options, code=0):
    result = orrery("simulate", path, "--json", *options)
    assert result.returncode == code, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("recording", ["decoder-ddp", "decoder-fsdp"])
def test_step_agrees_with_the_replay_of_the_trace(tmp_path, recording):
    replay = tmp_path / "replay.yaml"
    replay.write_text(
        f"name: replay\ncluster: {{preset: dgx-h100, nodes: 8}}\nrun: {{steps: 2}}\n"
        f"trace: {{chakra: {RECORDINGS / recording}, ranks: 64}}\n"
    )
    derived = report_of(scenario(tmp_path, recording))
    replayed = report_of(replay)
    assert derived["step_time_s"] == pytest.approx(replayed["step_time_s"], rel=TOLERANCE)
    assert derived["ranks"] == 64
    assert derived["tokens_per_s"] * derived["step_time_s"] == pytest.approx(64 * 4 * 4096)


@pytest.mark.parametrize("recording", ["decoder-ddp", "decoder-fsdp"])
def test_folded_and_full_simulation_agree(tmp_path, recording):
    path = scenario(tmp_path, recording, "  global_batch: 256", "noise: {compute_cv: 0.03}",
                    "faults: [{at_step: 3, until_step: 9, rank: 9, slow: 2}, "
                    "{at_step: 20, rank: 17, kill: true}]")  # fmt: skip
    folded, full = report_of(path), report_of(path, "--detail", "full")
    assert folded["elapsed_s"] == pytest.approx(full["elapsed_s"], rel=1e-6)
    assert folded["step_times_s"] == pytest.approx(full["step_times_s"], rel=1e-6)
    assert folded["failures"] == full["failures"] and len(full["failures"]) == 1
    assert folded["iterations_simulated"] < full["iterations_simulated"] == 42


def test_other_sizes_fabrics_and_gpus(tmp_path):
    path = scenario(tmp_path, "decoder-fsdp", data=32)
    recorded, half = report_of(scenario(tmp_path, "decoder-fsdp")), report_of(path)
    assert half["ranks"] == 32
    # Half of the replicas, each with the recorded two micro-batches, and twice the share of state.
    assert half["tokens_per_s"] == pytest.approx(recorded["tokens_per_s"] / 2, rel=0.1)
    state = 4 * 8391936  # parameters, gradients and two moments of a rank among 64
    difference = half["memory_per_gpu_bytes"] - recorded["memory_per_gpu_bytes"]
    assert difference == pytest.approx(state, rel=1e-4)
    slow = report_of(path, "--set", "cluster.node.nic_bandwidth=50 Gbps")
    assert slow["step_time_s"] > 1.5 * half["step_time_s"]
    a100 = report_of(path, "--set", "cluster.preset=dgx-a100")
    # Products take 989 / 312 as long at their peaks, kernels of memory 3.35 / 2.0 as long.
    assert 1.6 < a100["step_time_s"] / half["step_time_s"] < 3.3
    more = report_of(path, "--set", "job.global_batch=192")  # six micro-batches
    assert 2 < more["step_time_s"] / half["step_time_s"] < 3


def test_policies_of_described_jobs_decide(tmp_path):
    kill = "faults: [{at_step: 10, rank: 3, kill: true}]"
    survive = scenario(tmp_path, "decoder-ddp", "elastic: true", kill)
    plain = report_of(survive)
    recovered = report_of(survive, "--policy", "recover")
    assert recovered["decisions"] > 0
    assert len(recovered["failures"]) == len(plain["failures"]) == 1
    assert recovered["steps_completed"] == 40
    codec = report_of(scenario(tmp_path, "decoder-ddp",
                               "policies: [{name: fixed-codec, parameters: {rules: "
                               "[{codec: int8}], warm_up_steps: 0}}]"))  # fmt: skip
    # int8 halves the bytes of 16-bit gradients, plus scales.
    assert 0.45 < codec["bytes_on_wire"] / plain["bytes_on_wire"] < 0.6
    slow = scenario(tmp_path, "decoder-ddp", "  global_batch: 512",
                    "faults: [{at_step: 2, rank: 9, slow: 3}]",
                    "policies: [{name: predictive-rebalance}]")  # fmt: skip
    balanced = report_of(slow)
    assert balanced["decisions"] > 0
    assert balanced["elapsed_s"] < 0.8 * report_of(slow, "--policy", "static")["elapsed_s"]


#: The model of the recordings, described.
DESCRIBED = ("{model: {layers: 2, hidden: 2048, heads: 16, feed_forward: 8192, gated: false, "
             "vocabulary: 8192}, sequence_length: 4096, micro_batch: 4, global_batch: 1024, "
             "layout: {data: 64}}")  # fmt: skip


@pytest.mark.parametrize(
    "policy",
    ["recover", "checkpoint-interval", "fixed-codec", "memory-aware", "predictive-rebalance"],
)
def test_decisions_are_those_for_the_described_job(tmp_path, policy):
    counts = []
    for job in (f"{{program: {{trace: {RECORDINGS / 'decoder-ddp'}}}, global_batch: 256}}",
                DESCRIBED):  # fmt: skip
        path = tmp_path / f"{len(counts)}.yaml"
        path.write_text(
            f"name: decided\ncluster: {{preset: dgx-h100, nodes: 8}}\njob: {job}\nelastic: true\n"
            "faults: [{at_step: 10, until_step: 60, rank: 9, slow: 2}, "
            "{at_step: 80, rank: 3, kill: true}]\n"
            "checkpoints: {folder: kept, every: 50, stall: 100 ms, write: 1 s}\n"
            "run: {steps: 120}\n"
        )
        log = tmp_path / f"{len(counts)}.log"
        report = report_of(path, "--policy", policy, "--record", log)
        assert report["steps_completed"] == 120
        counts.append((report["decisions"], len(report["failures"])))
    assert counts[0][0] > 0
    if policy == "memory-aware":  # sees other memory: a loss in fp32, and buckets
        assert counts[0][1] == counts[1][1]
    else:
        assert counts[0] == counts[1]


def test_checkpoints_energy_cost_and_futures(tmp_path):
    path = scenario(tmp_path, "decoder-ddp",
                    "checkpoints: {folder: kept, every: 10, stall: 50 ms, write: 10 ms}",
                    )  # fmt: skip
    report = report_of(path)
    # Three stalls of 50 ms on each of 64 GPUs.
    assert report["gpu_time"]["checkpoint"] == pytest.approx(3 * 0.05 * 64)
    assert report["energy_j"] > 0 and report["cost_usd"] > 0
    futures = orrery("simulate", path, "--futures", "3", "--at", "200ms", "--for", "500ms")
    assert futures.returncode == 0, futures.stderr


def test_a_recording_is_part_of_the_scenario(tmp_path):
    path = scenario(tmp_path, "decoder-ddp")
    first = report_of(path, "--record", tmp_path / "run.log")
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    (elsewhere / "moved.0.et").write_bytes((RECORDINGS / "decoder-ddp.0.et").read_bytes())
    moved = elsewhere / "moved.yaml"
    moved.write_text(path.read_text().replace(str(RECORDINGS / "decoder-ddp"), "moved"))
    assert report_of(moved)["scenario_hash"] == first["scenario_hash"]
    assert orrery("replay", tmp_path / "run.log").returncode == 0


def with_keys(folder, keys):
    """A scenario with keys behind the trace of its program, and the column of the last value."""
    path = scenario(folder, "decoder-ddp")
    lines = path.read_text().splitlines()
    lines[3] = lines[3].replace("}", f", {keys}}}")
    path.write_text("\n".join([*lines, ""]))
    return path, lines[3].rindex(": ") + 3


def test_the_way_of_sums_belongs_to_the_command_and_has_no_effect_in_a_simulation(tmp_path):
    command = "command: [python, train.py]"
    reports = [report_of(with_keys(tmp_path, keys)[0])
               for keys in (command, command + ", sums: sockets")]  # fmt: skip
    for report in reports:
        del report["host"], report["decision_log_sha256"]  # the log has the scenario
    assert "scenario_hash" in reports[0]
    assert reports[0] == reports[1]
    path, column = with_keys(tmp_path, "sums: sockets")
    result = orrery("check", path)
    assert result.returncode == 3
    assert f"{path}:4:{column}: error: expected no 'sums' without 'command'" in result.stderr
    path, column = with_keys(tmp_path, command + ", sums: socket")
    result = orrery("check", path)
    assert result.returncode == 3
    assert f"{path}:4:{column}: error: " in result.stderr
    assert "did you mean 'sockets'?" in result.stderr


def test_mistakes_are_named_with_their_place(tmp_path):
    path = scenario(tmp_path, "decoder-ddp", "  recompute: full")
    result = orrery("check", path)
    assert result.returncode == 3
    assert f"{path}:5:14: error: expected no 'recompute' beside 'program'" in result.stderr
    path = scenario(tmp_path, "decoder-none")
    result = orrery("simulate", path)
    assert result.returncode == 3
    assert f"{path}:4:20: error: " in result.stderr and "decoder-none.0.et" in result.stderr
    result = orrery("simulate", scenario(tmp_path, "decoder-ddp"), "--set", "job.layout.tensor=2",
                    "--set", "job.layout.data=32")  # fmt: skip
    assert "are no group of this layout: write the layout.tensor" in result.stderr
    path.write_text("name: x\ncluster: {preset: dgx-h100, nodes: 1}\njob: {}\nrun: {steps: 1}\n")
    result = orrery("check", path)
    assert "missing key 'model' in job" in result.stderr
    path.write_text(path.read_text().replace("{}", "{program: {trace: a, step: {ranks: 1}}}"))
    assert "unknown key 'step'" in orrery("check", path).stderr
    result = orrery("layouts", scenario(tmp_path, "decoder-ddp"))
    assert result.returncode == 3
    assert "expected a key 'job' with a transformer" in result.stderr
    live = orrery("live", scenario(tmp_path, "decoder-ddp"))
    assert live.returncode == 3, live.stderr
