"""Rehearsed programs that call torch.compile: kernels and memory of fused operators, by hand.

The program has products with results of 256 MiB (T) between pointwise operators, and parameters of
128 MiB.
"""

import pytest
from rehearse_test import MIB, PROGRAMS, pytestmark, rehearse, report_of  # noqa: F401

T = 256 * MIB
#: Bytes a second of a plain stream on an H100 (gpus.yaml, kernels.yaml), and start of a kernel.
RATE, START = 3.35e12, 0.748e-6


@pytest.fixture(scope="module")
def reports():
    return {
        kind: report_of("python", PROGRAMS / "compiled.py", kind, ranks=1)[0]
        for kind in ("eager", "backend", "function", "module", "checkpointed", "complex")
    }


def fused_seconds(report):
    return report["operators_by_time"]["compiled"] * report["kernel_time_s"]


@pytest.mark.parametrize("kind", ["function", "module"])
def test_chain_between_products_reads_its_sources_and_writes_its_result(reports, kind):
    # silu(gate) * up reads two and writes one. Backward, d * silu(gate) reads two and writes one,
    # and d * up * silu'(gate) reads three and writes one.
    expected = (3 + 3 + 4) * T / RATE + 3 * START
    assert fused_seconds(reports[kind]) == pytest.approx(expected, rel=1e-3)
    assert reports[kind]["kernels"] == reports["eager"]["kernels"] - 2
    for name in ("silu", "mul", "silu_backward"):
        assert name not in reports[kind]["operators_by_time"]
        assert name in reports["eager"]["operators_by_time"]


def test_recomputed_chain_is_fused_too(reports):
    # Recomputed are both products and silu(gate) * up, which the gradient of `down` reads.
    expected = (3 + 3 + 3 + 4) * T / RATE + 4 * START
    assert fused_seconds(reports["checkpointed"]) == pytest.approx(expected, rel=1e-3)


def test_result_that_no_kernel_reads_has_no_memory(reports):
    # Eager, when the gradient of the product of silu(gate) and up is computed: the input, gate, up,
    # silu, the product, three gradients of it and of its factors, and the given gradient; three
    # parameters and one gradient of these.
    assert reports["eager"]["memory_bytes"] == 9 * T + 4 * T // 2
    # Compiled, when the gradient of the parameters of `up` is: without silu and with one gradient
    # of a factor, but with two gradients of parameters.
    assert reports["function"]["memory_bytes"] == 7 * T + 5 * T // 2


def test_backend_without_fusion_runs_eagerly(reports):
    assert reports["backend"]["kernel_time_s"] == reports["eager"]["kernel_time_s"]
    assert not any("torch.compile" in note for note in reports["backend"]["notes"])
    assert any("torch.compile" in note for note in reports["function"]["notes"])


def test_complex_numbers_are_not_fused(reports):
    assert reports["complex"]["operators_by_time"]["mul"] > 0


def test_sharded_result_of_a_compiled_function_exists():
    result = rehearse("python", PROGRAMS / "compiled.py", "sharded", ranks=2)
    assert result.stdout.splitlines()[-1] == str(T), result.stderr
