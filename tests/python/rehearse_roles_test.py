"""Rehearsed pipelines: one process for each stage, messages in simulated time, real ranks."""

import json
import re
import subprocess

import pytest
from rehearse_test import PROGRAM, PROGRAMS, TORCH, environment, rehearse, report_of

pytestmark = pytest.mark.skipif(
    not TORCH.exists(), reason=f"no PyTorch at {TORCH}: ./dev torch installs it"
)
PIPELINE = PROGRAMS / "pipeline.py"
#: Largest difference of a recorded step as a job from the rehearsed one without host time. Without
#: sharded parameters; with them, gathers of a job begin only behind the pass before.
TOLERANCE, SHARDED = 0.05, 0.15


def lines_of(text):
    """The lines of pipeline.py by rank."""
    found = [json.loads(line) for line in re.findall(r"^\{.*\}$", text, re.M)]
    return {row["rank"]: row for row in found}


def test_a_pipeline_of_equal_stages_takes_the_time_of_its_schedule():
    # Three stages of two layers on two replicas each: ranks 0, 2, 4 of 6.
    report, said = report_of("python", PIPELINE, "1F1B", 3, 6, 8192, ranks=6)
    assert "(--roles 0,2,4 begins with them)" in said
    assert [each["rank"] for each in report["roles"]] == [0, 2, 4]
    rows = lines_of(said)
    # Each rank stands for two: 2 x (0 + 1 + 2). The losses are those of six micro-batches.
    assert {rank: (row["places"], row["losses"]) for rank, row in rows.items()} == {
        0: (6, 0), 2: (6, 0), 4: (6, 6)
    }  # fmt: skip
    # The middle stage has kernels for 6 of the 6 + 2 slots of the schedule; the loss of the last
    # stage, messages and the host come on top.
    least = report["roles"][1]["kernel_time_s"] * 8 / 6
    assert 0.95 * least < report["step_time_s"] < 1.2 * least
    for each in report["roles"]:
        assert each["step_time_s"] == pytest.approx(report["step_time_s"], rel=0.02)
    # An activation and a gradient of each micro-batch between neighbours.
    assert [each["messages"] for each in report["roles"]] == [12, 24, 12]
    assert report["memory_bytes"] == max(each["memory_bytes"] for each in report["roles"])


def simulated_step(prefix):
    """Step time of the replay of a trace, seconds."""
    file = prefix.with_suffix(".yaml")
    subprocess.run([PROGRAM, "import", "chakra", prefix, "-o", file], check=True, text=True)
    told = subprocess.run(
        [PROGRAM, "simulate", file, "--json"], capture_output=True, text=True, check=True
    )
    return json.loads(told.stdout)["step_time_s"]


def job_report(trace, *options, ranks, nodes=4):
    """Report of the simulation of a recorded step as a job of `ranks` ranks."""
    file = trace.with_suffix(".job.yaml")
    file.write_text(
        f"name: recorded\ncluster: {{preset: dgx-h100, nodes: {nodes}}}\n"
        f"job: {{program: {{trace: {trace}}}}}\nrun: {{steps: 4}}\n"
    )
    told = subprocess.run(
        [PROGRAM, "simulate", file, "--json", *options], capture_output=True, text=True, check=True
    )
    report = json.loads(told.stdout)
    assert report["ranks"] == ranks
    return report


def test_messages_and_times_of_schedules(tmp_path):
    schedules = ("Interleaved1F1B", "ZBVZeroBubble")
    subprocess.run(
        [TORCH.parent / "torchrun", "--standalone", "--nproc-per-node=2", PIPELINE,
         ",".join(schedules), "2", "4", "64", tmp_path / "log"],
        check=True, env=environment(), timeout=240, capture_output=True,
    )  # fmt: skip
    prices = tmp_path / "prices"
    prices.write_text("host time_s=0\n")  # a trace has no host time
    for schedule in schedules:
        trace = tmp_path / schedule
        report, _ = report_of(
            "python", PIPELINE, schedule, 2, 4, 4096, ranks=2,
            options=("--roles", "0,1", "--trace", trace, "--prices", prices),
        )  # fmt: skip
        for each in report["roles"]:
            real = json.loads((tmp_path / f"log.{each['rank']}").read_text())[schedule]
            # 2,048 rows of 4,096 in a micro-batch of the rehearsal, 8 of 64 of the real ranks.
            assert each["message_sequence"] == [[kind, size * 256 * 64] for kind, size in real]
            assert len(real) in (16, 24)
        # The simulator plays the traces of both ranks with its own messages.
        assert simulated_step(trace) == pytest.approx(report["step_time_s"], rel=0.05)
        job = job_report(trace, ranks=2)
        assert job["step_time_s"] == pytest.approx(report["step_time_s"], rel=TOLERANCE)


@pytest.mark.parametrize(
    ("words", "tolerance"),
    [(("1F1B", 2, 4, 8192, "ddp"), TOLERANCE),
     (("GPipe", 2, 4, 8192), TOLERANCE),
     (("Interleaved1F1B", 2, 4, 8192, "fsdp"), SHARDED),
     (("InterleavedZeroBubble", 2, 4, 8192), TOLERANCE),
     (("ZBVZeroBubble", 2, 5, 8192), TOLERANCE),
     (("ZBVZeroBubble", 2, 5, 8192, "fsdp"), SHARDED),
     (("DualPipeV", 2, 6, 8192), TOLERANCE)],
    ids=lambda each: "-".join(map(str, each[:1] + each[4:])) if isinstance(each, tuple) else "",
)  # fmt: skip
def test_a_recorded_pipeline_becomes_a_job(tmp_path, words, tolerance):
    prices = tmp_path / "prices"
    prices.write_text("host time_s=0\n")  # a job has no host time
    ranks = 4 * words[1]
    report, _ = report_of("python", PIPELINE, *words, ranks=ranks,
                          options=("--trace", tmp_path / "step", "--prices", prices))  # fmt: skip
    job = job_report(tmp_path / "step", ranks=ranks)
    print(f"{words}: rehearsed {report['step_time_s']:.4f} s, job {job['step_time_s']:.4f} s")
    assert job["step_time_s"] == pytest.approx(report["step_time_s"], rel=tolerance)
    # The largest peak of a stage, and CUDA context and buffers of NCCL, which a rehearsal lacks.
    assert 0 < job["memory_per_gpu_bytes"] - report["reserved_bytes"] < 3 << 30


def test_more_micro_batches_than_recorded_run_as_if_recorded(tmp_path):
    prices = tmp_path / "prices"
    prices.write_text("host time_s=0\n")
    options = ("--prices", prices, "--trace")
    few, _ = report_of("python", PIPELINE, "ZBVZeroBubble", 2, 5, 4096, ranks=2,
                       options=(*options, tmp_path / "few"))  # fmt: skip
    many, _ = report_of("python", PIPELINE, "ZBVZeroBubble", 2, 12, 4096, ranks=2,
                        options=(*options, tmp_path / "many"))  # fmt: skip
    longer = job_report(tmp_path / "few", "--set", "job.global_batch=12", ranks=2)
    recorded = job_report(tmp_path / "many", ranks=2)
    assert longer["step_time_s"] == pytest.approx(recorded["step_time_s"], rel=0.01)
    assert longer["step_time_s"] == pytest.approx(many["step_time_s"], rel=TOLERANCE)
    assert many["step_time_s"] > 1.8 * few["step_time_s"]


def test_a_schedule_that_no_job_can_run_is_named(tmp_path):
    result = rehearse("python", PIPELINE, "LoopedBFS", 2, 4, 4096, ranks=2,
                      options=("--trace", tmp_path / "step"))  # fmt: skip
    assert "the trace has no step for `program`: the schedule LoopedBFS" in result.stderr
    scenario = tmp_path / "faults.yaml"
    scenario.write_text("name: f\ncluster: {preset: dgx-h100, nodes: 1}\nrun: {steps: 2}\n")
    result = rehearse("python", PIPELINE, "LoopedBFS", 2, 4, 4096, ranks=4,
                      options=("--scenario", scenario))  # fmt: skip
    assert result.returncode == 4 and "the schedule LoopedBFS" in result.stderr
    assert "expected ranks that are alike, or the stages of a pipeline" in result.stderr


def test_ranks_wait_for_one_with_more_data(tmp_path):
    code = tmp_path / "uneven.py"
    code.write_text(
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('nccl')\n"
        "layers = [torch.nn.Linear(4096, 4096, bias=False) for _ in range(2)]\n"
        "net = torch.nn.Sequential(*layers).cuda()\n"
        "net = torch.nn.parallel.DistributedDataParallel(net)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "rows = torch.tensor(4096 if dist.get_rank() else 8192, device='cuda')\n"
        "dist.all_reduce(total := rows.clone())\n"
        "for _ in range(3):\n"
        "    net(torch.randn(rows.item(), 4096, device='cuda')).sum().backward()\n"
        "    optimizer.step()\n"
        "os.write(1, f'{dist.get_rank()} {total.item()}\\n'.encode())\n"
    )
    report, said = report_of("python", code, ranks=8, options=("--roles", "0,1"))
    # Ranks 2 to 7 are alike rank 1.
    assert f"0 {8192 + 7 * 4096}\n" in said and f"1 {8192 + 7 * 4096}\n" in said
    first, second = report["roles"]
    assert first["kernel_time_s"] > 1.9 * second["kernel_time_s"]
    assert second["step_time_s"] == pytest.approx(first["step_time_s"], rel=0.01)
