"""Recorded pipelines as jobs of a scenario: other sizes, stragglers, losses, codecs, both details.

The recordings are those of tests/python/rehearsed/pipeline.py with four replicas: four stages, 1F1B
and DistributedDataParallel, and two stages, the zero-bubble schedule in a V and FSDP2.
"""

import json

import pytest
from conftest import EXAMPLES, orrery

RECORDINGS = EXAMPLES / "recordings"
DDP, ZERO_BUBBLE = "pipeline-1f1b", "pipeline-zero-bubble"
BOTH = pytest.mark.parametrize("recording", [DDP, ZERO_BUBBLE])


def scenario(folder, recording, *lines, data=4, batch=None):
    path = folder / f"{recording}{len(list(folder.iterdir()))}.yaml"
    text = ["name: pipeline", "cluster: {preset: dgx-h100, nodes: 4}", "job:",
            f"  program: {{trace: {RECORDINGS / recording}}}", f"  layout: {{data: {data}}}",
            *([f"  global_batch: {batch}"] if batch else []), *lines]  # fmt: skip
    path.write_text("\n".join([*text, "run: {steps: 30}", ""]))
    return path


def report_of(path, *options):
    result = orrery("simulate", path, "--json", *options)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@BOTH
def test_folded_and_full_simulation_agree(tmp_path, recording):
    path = scenario(tmp_path, recording, "noise: {compute_cv: 0.03}",
                    "faults: [{at_step: 3, until_step: 9, rank: 5, slow: 2}, "
                    "{at_step: 20, rank: 6, kill: true}]")  # fmt: skip
    folded, full = report_of(path), report_of(path, "--detail", "full")
    assert folded["elapsed_s"] == pytest.approx(full["elapsed_s"], rel=1e-6)
    assert folded["step_times_s"] == pytest.approx(full["step_times_s"], rel=1e-6)
    assert folded["failures"] == full["failures"] and len(full["failures"]) == 1


@BOTH
def test_other_data_parallel_sizes(tmp_path, recording):
    recorded = report_of(scenario(tmp_path, recording))
    twice = report_of(scenario(tmp_path, recording, data=8))
    assert twice["ranks"] == 2 * recorded["ranks"] in (16, 32)
    assert twice["tokens_per_s"] == pytest.approx(2 * recorded["tokens_per_s"], rel=0.25)
    # The same batch on half of the replicas: twice the micro-batches, in the recorded schedule.
    batch = 4 * (5 if recording == ZERO_BUBBLE else 8)
    half = report_of(scenario(tmp_path, recording, data=2, batch=batch))
    assert 1.3 < half["step_time_s"] / recorded["step_time_s"] < 2


@BOTH
def test_a_straggler_in_one_stage_delays_all(tmp_path, recording):
    plain = report_of(scenario(tmp_path, recording))
    # Rank 5 has the second stage of the second replica.
    slow = report_of(scenario(tmp_path, recording, "faults: [{at_step: 10, rank: 5, slow: 2}]"))
    times = slow["step_times_s"]
    assert times[5] == pytest.approx(plain["step_time_s"], rel=0.01)
    assert 1.4 * plain["step_time_s"] < times[20] < 2.1 * plain["step_time_s"]


@BOTH
@pytest.mark.parametrize("how", ["shrink", "restart"])
def test_a_lost_rank_is_recovered(tmp_path, recording, how):
    path = scenario(tmp_path, recording, "elastic: true",
                    f"policies: [{{name: recover, parameters: {{how: {how}}}}}]",
                    "faults: [{at_step: 10, rank: 6, kill: true}]")  # fmt: skip
    report = report_of(path)
    assert report["steps_completed"] == 30 and len(report["failures"]) == 1
    assert report["decisions"] > 0
    # Three replicas run the batch of four.
    if how == "shrink":
        ratio = report["step_times_s"][-1] / report["step_times_s"][5]
        assert 1.1 < ratio < 1.6


def test_codecs_compress_the_exchange_of_each_stage(tmp_path):
    plain = report_of(scenario(tmp_path, DDP))
    codec = report_of(scenario(tmp_path, DDP, "policies: [{name: fixed-codec, parameters: {rules: "
                               "[{codec: int8}], warm_up_steps: 0}}]"))  # fmt: skip
    # A stage has two weights of 8,192^2 in 16 bits; a ring of four sends the gradients 1.5 times.
    # Messages between stages do not count.
    gradients = 30 * 16 * 1.5 * 2 * 2 * 8192**2
    assert plain["bytes_on_wire"] == pytest.approx(gradients, rel=0.01)
    # int8 halves the bytes of 16-bit gradients, plus scales.
    assert codec["bytes_on_wire"] == pytest.approx(gradients / 2, rel=0.05)


def test_layouts_that_were_not_recorded_are_refused(tmp_path):
    for key, value, reason in (
        ("layout.pipeline", "2", "expected 4, as recorded, found 2"),
        ("layout.chunks", "2", "expected 1, as recorded, found 2"),
    ):
        result = orrery("simulate", scenario(tmp_path, DDP), "--set", f"job.{key}={value}")
        assert result.returncode == 3 and f"error: {reason}" in result.stderr
