"""Rehearsed PyTorch programs: collectives of real ranks, memory by hand, refusals, the trace."""

import json
import os
import pathlib
import re
import subprocess

import pytest
from conftest import BUILD, ROOT

PROGRAMS = ROOT / "tests" / "python" / "rehearsed"
PROGRAM = BUILD / "bin" / "orrery"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
TORCH = pathlib.Path(os.environ.get("ORRERY_TORCH_PYTHON", CACHE / "orrery/torch/bin/python"))
MIB = 1 << 20

pytestmark = pytest.mark.skipif(
    not TORCH.exists(), reason=f"no PyTorch at {TORCH}: ./dev torch installs it"
)


def environment():
    """The environment of a user whose PATH begins with the folder of PyTorch's Python."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return {**plain, "PATH": f"{TORCH.parent}:{plain['PATH']}", "OMP_NUM_THREADS": "1"}


def rehearse(*words, ranks=4, cluster="dgx-h100", options=(), limit=240):
    return subprocess.run(
        [PROGRAM, "rehearse", "--ranks", str(ranks), "--cluster", cluster, *options, "--",
         *map(str, words)],
        capture_output=True, text=True, env=environment(), timeout=limit,
    )  # fmt: skip


def report_of(*words, **more):
    result = rehearse(*words, **{**more, "options": (*more.pop("options", ()), "--json")})
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout), result.stderr


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Collectives of the last step of each kind on two real processes with gloo."""
    log = tmp_path_factory.mktemp("real") / "log.json"
    subprocess.run(
        [TORCH.parent / "torchrun", "--standalone", "--nproc-per-node=2",
         PROGRAMS / "collectives.py", "ddp", "fsdp2", log],
        check=True, env=environment(), timeout=240, capture_output=True,
    )  # fmt: skip
    names = {
        "allreduce": "all_reduce", "allgather_base": "all_gather", "broadcast": "broadcast",
        "reduce_scatter_base": "reduce_scatter", "all_reduce": "all_reduce",
        "all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter",
    }  # fmt: skip
    seen = json.loads(log.read_text())
    return {kind: [[names[n], size] for n, size in rows] for kind, rows in seen.items()}


@pytest.mark.parametrize("kind", ["ddp", "fsdp2"])
def test_collectives_equal_those_of_real_ranks(real, kind):
    # One process replaces the workers of torchrun.
    report, _ = report_of("torchrun", "--nproc-per-node=2", PROGRAMS / "collectives.py", kind,
                          ranks=2)  # fmt: skip
    assert [row[:2] for row in report["collective_sequence"]] == real[kind]
    assert len(real[kind]) >= (2 if kind == "ddp" else 9)
    assert report["collectives"] == len(real[kind])
    assert report["steps"] == 3
    assert report["ranks"] == 2
    assert sum(report["sources"].values()) == pytest.approx(1)
    assert report["unpriced"] == {}
    # No stream is shorter than the kernels in it.
    assert report["step_time_s"] > 0.99 * report["kernel_time_s"] > 0


def test_trace_is_simulated_in_about_the_rehearsed_time(tmp_path):
    words = ("python", PROGRAMS / "collectives.py", "fsdp2")
    report, _ = report_of(*words, ranks=64, options=("--trace", tmp_path / "step"))
    file = tmp_path / "step.yaml"
    told = subprocess.run(
        [PROGRAM, "import", "chakra", tmp_path / "step", "--ranks", "64", "-o", file],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    nodes = report["kernels"] + report["collectives"]
    assert f"{64 * nodes} nodes" in told.stdout + told.stderr
    told = subprocess.run(
        [PROGRAM, "simulate", file, "--json"], capture_output=True, text=True, check=True
    )
    # The trace has no host time, which a program this small consists of.
    assert 0 < json.loads(told.stdout)["step_time_s"] < 1.1 * report["step_time_s"]


def test_memory_and_times():
    result = rehearse("python", PROGRAMS / "memory.py", ranks=1)
    assert result.returncode == 1, result.stderr
    seen = json.loads(result.stdout)
    # Two weights of 1024 x 1024 in fp32.
    assert seen["parameters"] == 8 * MIB
    # The backward pass of ReLU holds 8 MiB of weights, 4 MiB of one gradient, and 2 MiB each of the
    # input, the output of ReLU, its gradient, and the gradient of its input; the loss and its
    # gradient have 512 bytes each.
    assert seen["peak"] == (8 + 4 + 4 * 2) * MIB + 2 * 512
    # A product of 8192^3 in bf16 runs at 60% to 85% of H100's 989.4 TFLOP/s in the tables.
    least = 2 * 8192**3 / 989.4e12
    for seconds in seen["matmul_s"]:
        assert least / 0.85 < seconds < least / 0.6
    assert 0 < seen["event_s"] < 1e-3
    assert seen["votes"] == [22, [14, False]]
    assert seen["is_cpu_real"] == 2.0
    assert "Tried to allocate 200.00 GiB" in seen["refused"]
    assert seen["kept"] == 7
    assert seen["total"] == 81559 * MIB
    assert seen["addresses"] == [True, True, 4096]
    # An allocation that does not fit fails at the program's line.
    assert 'memory.py", line 57, in <module>' in result.stderr
    assert "OutOfMemoryError: CUDA out of memory. Tried to allocate 90.00 GiB" in result.stderr
    assert "GiB allocated," in result.stderr


def test_peaks_equal_counts_by_hand():
    def peak(kind):
        result = rehearse("python", PROGRAMS / "peaks.py", kind, ranks=64)
        assert result.returncode == 0, result.stderr
        return int(result.stdout)

    # Tokens, hidden size and vocabulary of peaks.py. Weight, input and targets; 16-bit logits,
    # which the program keeps; in the backward pass the logarithms of the softmax, their gradient
    # and that of the logits in fp32; two scalars of 512 bytes.
    tokens, hidden, words = 4096, 1024, 32768
    held = 2 * hidden * words + 2 * tokens * hidden + 8 * tokens
    assert peak("loss") == held + (2 + 3 * 4) * tokens * words + 2 * 512
    # Parameters, gradients, and the buckets of the reducer; scalars, and rows of 4 KiB.
    layer = 4 * hidden * hidden
    assert peak("ddp") == pytest.approx(3 * 8 * layer, abs=64 * 1024)
    # Gradients are views of the buckets; the gradient of one layer exists before it is copied.
    assert peak("ddp-view") == pytest.approx((2 * 8 + 1) * layer, abs=64 * 1024)
    # 9 kept rows of 64 MiB: inputs of 8 layers and the output. Recomputed in the last layer: the
    # inner rows of 256 MiB before and behind the activation, and the gradient of the latter.
    # Gathered parameters of a layer (16 MiB) and smaller tensors come on top.
    assert peak("checkpointed") == pytest.approx((9 * 64 + 3 * 256) * MIB, rel=0.02)


def test_remembered_calls_equal_first_ones():
    result = rehearse("python", PROGRAMS / "repeated.py", ranks=1)
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout)
    assert seen["differences"] == []
    # All but those that change the shape of a tensor in place, and that of inference mode.
    assert seen["remembered"] >= seen["tried"] - 3
    # Steps of equal shapes add nothing, although the learning rate changes.
    assert seen["new"] == [0, 0]
    # Equal calls of small tensors compute from their own values.
    assert seen["values"] == [
        [20, [22, 4, 6, 8], False], [11, 4], [36, [30, 12, 14, 16], False], [15, 8],
    ]  # fmt: skip
    for first, second in seen["errors"].values():
        assert first == second != "no error"


def test_remembered_flexible_attention_equals_the_first():
    result = rehearse("python", PROGRAMS / "flexible.py", ranks=1)
    assert result.returncode == 0, result.stderr
    first, second, third, grouped = json.loads(result.stdout)
    names = [name for name, _ in first[0]]
    assert {"flex_attention", "flex_attention_backward"} <= set(names)
    assert first[1] == 4 * [[2, 4, 512, 64]]
    assert first == second == third
    assert grouped[0] != first[0]


DECODER = (PROGRAMS / "decoder.py", "--layers", "2", "--sequence", "1024")


#: A policy of a Python file beside a built-in one: a step begins ten seconds late.
PAUSE = """
import orrery
from orrery import settings


class Pause(orrery.Policy):
    def needs(self):
        return orrery.Needs(settings=[settings.Delay])

    def observe(self, seen, decisions):
        if any(isinstance(event, orrery.events.JobStarted) for event in seen.events):
            decisions.configure(0, settings.Delay(10))
"""


def test_recorded_step_is_simulated_under_a_scenario(tmp_path):
    scenario = tmp_path / "faults.yaml"
    scenario.write_text(
        "name: faults\ncluster: {preset: dgx-h100, nodes: 2}\nelastic: true\n"
        "policies: [{name: recover, parameters: {how: shrink}}]\n"
        "faults: [{at_step: 5, rank: 3, kill: true}]\nrun: {steps: 20}\n"
    )
    policy = tmp_path / "pause.py"
    policy.write_text(PAUSE)
    result = subprocess.run(
        [PROGRAM, "rehearse", "--ranks", "16", "--scenario", scenario, "--policy", "recover",
         "--policy", policy, "--json", "--", "python", *DECODER, "--kind", "ddp"],
        capture_output=True, text=True, env=environment(), timeout=240,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    simulation = report["simulation"]
    assert simulation["steps_completed"] == 20 and len(simulation["failures"]) == 1
    assert simulation["decisions"] > 1
    assert simulation["elapsed_s"] > 10
    assert "replaced_s" in simulation["failures"][0], "the policies replace the scenario's"
    # The simulation has no host time, which is most of a step this small.
    assert 0.2 < simulation["fault_free_step_time_s"] / report["step_time_s"] < 1.1
    assert report["tokens_per_s"] * report["step_time_s"] == pytest.approx(16 * 1024)


def test_combinations_of_flags_are_ranked():
    result = rehearse("python", *DECODER, "--tp", "{tp}", "--micro-batch", "{mbs}", ranks=8,
                      options=("--vary", "tp=1,2,3 mbs=1,2", "--json"))  # fmt: skip
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)["combinations"]
    reasons = [row["reason"] for row in rows]
    assert reasons[:4] == [None] * 4
    assert reasons[4:] == ["ValueError: 3 tensor-parallel ranks do not divide the job"] * 2
    best = [row["tokens_per_s"] for row in rows[:4]]
    assert best == sorted(best, reverse=True) and best[-1] > 0
    # More micro-batch, more tokens for the same host time; two tensor ranks share their tokens.
    assert rows[0]["values"] == {"tp": "1", "mbs": "2"}
    assert rows[0]["memory_bytes"] > rows[-3]["memory_bytes"]


def test_branch_on_an_unknown_value_is_refused_with_its_line():
    result = rehearse("python", PROGRAMS / "branch.py")
    assert result.returncode == 4
    # Known values are true: four ranks voted. Printing needs no value.
    assert result.stdout == "votes [4, 4]\nloss 1.00 1.0 3.0\n"
    assert "branch.py:17: expected a branch or a shape of known values" in result.stderr
    assert "--allow-stand-in mean" in result.stderr


#: What the message of each program of refusals.py names: the operator, and what to do.
FIXED, KERNEL, CALL = "a fixed capacity", "register its shapes", "make the call an operator"
SHAPES = {
    "nonzero": "nonzero", "boolean_mask": "index", "masked_select": "masked_select",
    "where_of_a_mask": "nonzero", "unique": "_unique2", "argwhere": "nonzero",
    "unique_consecutive": "unique_consecutive", "repeats": "repeat_interleave",
    "counts": "bincount", "tokens_of_experts": "index", "allclose": "allclose",
    "packed_sequences": "_pack_padded_sequence",
}  # fmt: skip
KERNELS = {
    "operator_without_a_fake_kernel": "swish", "operator_with_a_cuda_kernel_only": "gelu",
    "custom_op_without_a_fake_kernel": "norm", "operator_in_a_backward_pass": "backward_part",
    "operator_of_several_results": "route", "operator_of_a_list": "pack",
}  # fmt: skip
CALLS = {
    "array_interface": "__cuda_array_interface__", "dlpack": "to_dlpack",
    "dlpack_of_the_protocol": "__dlpack__", "storage_of_bytes": "whose bytes are read",
    "shared_memory_between_processes": "_share_cuda_", "source_compiled_at_run_time": "'f'",
    "kernel_package_without_a_stand_in": "flash_attn_with_kvcache",
}  # fmt: skip


def test_programs_that_need_what_does_not_exist_are_refused():
    result = rehearse("python", PROGRAMS / "refusals.py")
    assert result.returncode == 0, result.stderr
    ends = json.loads(result.stdout[result.stdout.index("{"):])
    assert len(ends) >= 120
    decided = set(ends)
    for words, advice in ((SHAPES, FIXED), (KERNELS, KERNEL), (CALLS, CALL)):
        decided -= set(words)
        for name, word in words.items():
            assert word in ends[name][1] and advice in ends[name][1], (name, ends[name])
    assert len(decided) >= 25
    for name in decided:
        assert re.search(r"a result of '(\w+)'.*--allow-stand-in \1 ", ends[name][1]), ends[name]
    for name, (code, text, first, last) in ends.items():
        files = "(?:refusals|hidden_values).py"
        place = re.search(rf"^error: cannot rehearse this program: {files}:(\d+): ", text, re.M)
        assert code == 4 and place, (name, code, text)
        # Helpers that make the unknown value are no part of the program.
        assert first <= int(place[1]) <= last, (name, text)


def test_unknown_values_are_printed_and_calculated_with():
    result = rehearse("python", PROGRAMS / "printed.py")
    assert result.returncode == 0, result.stderr
    said = result.stdout.splitlines()
    assert said[0] == "1.0 3.000 2"
    assert json.loads(said[3]) == {"loss": 1.0, "text": "3.00", "losses": [1.0] * 3}
    assert "stand-in     mean (read 3 times at printed.py:" in result.stderr


def test_allowed_stand_in_is_listed():
    report, said = report_of(
        "python", PROGRAMS / "branch.py", options=("--allow-stand-in", "mean")
    )
    assert said.endswith("small\n")
    uses = {(row["name"], row["use"], row["place"]) for row in report["stand_ins"]}
    assert uses == {("mean", "read", "branch.py:15"), ("mean", "decides", "branch.py:17")}
    assert report["step_time_s"] is None


def test_messages_that_nobody_receives_are_refused():
    result = rehearse("python", PROGRAMS / "branch.py", "--send", ranks=2)
    assert result.returncode == 4
    assert "branch.py:10: expected messages and collectives that meet" in result.stderr
    assert "rank 0 waits for number 1 of 0>1 in group 0 (0 to 1)" in result.stderr


def test_prices_of_unknown_operators(tmp_path):
    code = tmp_path / "own.py"
    code.write_text(
        "import torch\n"
        "x = torch.ones(1 << 20, device='cuda')\n"
        "w = torch.nn.Parameter(x)\n"
        "o = torch.optim.SGD([w], lr=1)\n"
        "for _ in range(2):\n"
        "    w.grad = torch.cumsum(x, 0)\n"
        "    o.step()\n"
    )
    report, _ = report_of("python", code, ranks=1)
    assert list(report["unpriced"]) == ["cumsum"]
    prices = tmp_path / "prices.txt"
    prices.write_text("cumsum time_s=in0[0]/1048576  # one second\nhost time_s=1e-3\n")
    report, _ = report_of("python", code, ranks=1, options=("--prices", prices))
    assert report["unpriced"] == {}
    assert 1 < report["step_time_s"] < 1.02
    assert report["assumed"] == {"host_s_per_operator": 1e-3}
    prices.write_text("cumsum 5\n")
    result = rehearse("python", code, ranks=1, options=("--prices", prices))
    assert result.returncode == 3
    assert f"{prices}:1: expected NAME time_s=FORMULA" in result.stderr


def test_stack_has_its_factors_on_kernels():
    program = ("python", PROGRAMS / "decoder.py", "--hidden", 4096)
    bare, _ = report_of(*program)
    # On H100 each stack has a factor below 1, since training lowers the clock.
    stacked, said = report_of(*program, options=("--stack", "nemo"))
    assert stacked["kernel_time_s"] > 1.05 * bare["kernel_time_s"]
    assert stacked["kernels"] == bare["kernels"]
    assert "(H100, stack nemo)" in said
    result = rehearse(*program, options=("--stack", "nemmo"))
    assert result.returncode == 3 and "did you mean 'nemo'" in result.stderr
