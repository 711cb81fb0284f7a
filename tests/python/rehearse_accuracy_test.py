"""Published rows as programs and options (tests/programs/accuracy.py), and the figures of results;
no PyTorch and no measured tables."""

import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests/programs"))
import accuracy

ROW = {
    "id": "row-1", "model": "mpt-7b", "layers": "32", "hidden": "4096", "heads": "32",
    "kv_heads": "8", "ffn": "14336", "vocab": "50368", "seq_len": "2048", "gpu": "H100-SXM5-80GB",
    "n_gpus": "8", "dp": "4", "tp": "2", "pp": "1", "mbs": "6", "grad_accum": "3",
    "precision": "bf16", "recompute": "none", "usable": "iteration", "moe_experts": "",
    "notes": "sft trainer, full weights", "seq_parallel": "1", "dp_shard": "ZeRO-1",
    "clean": "yes", "n_params_b": "8.0", "measured": 2.0, "source_key": "primerl",
    "peak_mem_gb": "10", "attention": "flash_attention_2",
}  # fmt: skip


def row(**cells):
    return {**ROW, **cells}


def test_mpt_has_shape_micro_batches_and_checkpointing_of_its_row():
    run = accuracy.mpt_run(row(recompute="full"))
    words = run.program.command.split()
    for option, value in (("--layers", "32"), ("--hidden", "4096"), ("--vocabulary", "50368"),
                          ("--micro-batch", "6"), ("--accumulate", "3")):  # fmt: skip
        assert words[words.index(option) + 1] == value
    assert words[-1] == "--checkpointed"
    assert run.program.ranks == 8 and run.cluster == ("dgx-h100",)
    assert "--checkpointed" not in accuracy.mpt_run(ROW).program.command
    assert accuracy.mpt_run(row(gpu="A100-SXM4-40GB")).cluster == ("dgx-a100-40gb",)
    assert isinstance(accuracy.mpt_run(row(precision="amp_fp8")), str)


def test_prime_rl_has_adapters_and_loss_of_its_notes():
    run = accuracy.prime_run(
        row(recompute="full", notes="rl trainer, LoRA r16 (base frozen), 2 micro-batches")
    )
    assert run.program.command.split()[-5:] == [
        "--adapter", "16", "--chunked", "--attention", "second"
    ]  # fmt: skip
    plain = accuracy.prime_run(row(recompute="full")).program.command
    assert "--adapter" not in plain and "--chunked" not in plain
    assert "--key-heads 8 --wide 14336" in plain
    for cells in ({"usable": "partial"}, {"moe_experts": "128"}, {"gpu": "RTX-A6000"},
                  {"recompute": "activation offload (Offload)"}):  # fmt: skip
        assert isinstance(accuracy.prime_run(row(**{"recompute": "full", **cells})), str)


def test_torchtitan_has_precision_of_its_row():
    cells = {"model": "llama3-8b", "mbs": "1", "seq_len": "8192", "gpu": "MI300X"}
    run = accuracy.titan_run(row(**cells))
    assert run.cluster == ("dgx-h100", "--gpu", "MI300X")
    assert "--training.seq_len 8192" in run.program.command
    assert "float8" not in run.program.command
    assert "--compile.enable" in run.program.command
    assert "rowwise" in accuracy.titan_run(row(precision="fp8 rowwise", **cells)).program.command
    assert isinstance(accuracy.titan_run(row(precision="mxfp8 cublas", **cells)), str)
    assert isinstance(accuracy.titan_run(row(model="llama4-16e debug")), str)


def example():
    return {"model": {"model_config": {"vocab_size": 1}}, "parallelism": {"pp": 9},
            "tokens": {}, "optimizer": {}}  # fmt: skip


def test_nanotron_has_layout_and_shape_of_its_row():
    made = accuracy.nanotron_config(ROW, example())
    assert made["parallelism"] == {"dp": 4, "pp": 1, "tp": 2, "tp_mode": "REDUCE_SCATTER",
                                   "tp_linear_async_communication": True}  # fmt: skip
    assert made["model"]["model_config"]["intermediate_size"] == 14336
    assert made["tokens"]["micro_batch_size"] == 6
    assert made["tokens"]["batch_accumulation_per_replica"] == 3
    assert made["optimizer"]["zero_stage"] == 1
    assert made["model"]["model_config"]["tie_word_embeddings"]
    other = accuracy.nanotron_config(row(seq_parallel="0", dp_shard="none"), example())
    assert other["parallelism"]["tp_mode"] == "ALL_REDUCE"
    assert other["optimizer"]["zero_stage"] == 0
    large = row(n_params_b="8.86", ffn="14336", vocab="131072")
    config = accuracy.nanotron_config(large, example())["model"]["model_config"]
    assert not config["tie_word_embeddings"]
    assert isinstance(accuracy.nanotron_run(row(clean="")), str)
    assert isinstance(accuracy.nanotron_run(row(dp_shard="none", mbs="8")), accuracy.Run)
    for cells in ({"grad_accum": "9"}, {"pp": "2"}, {"mbs": "9"}, {"dp_shard": "ZeRO-1"}):
        assert isinstance(accuracy.nanotron_run(row(**{"dp_shard": "none", **cells})), str)


def test_rows_are_spread_from_the_first_to_the_last():
    assert accuracy.spread_rows(list(range(10)), 4) == [0, 3, 6, 9]
    assert accuracy.spread_rows([1, 2], 4) == [1, 2]
    assert accuracy.spread_rows([1, 2, 3], 1) == [1]


def result(seconds, measured, peak=None, reason=""):
    predictions = {name: {"iter_time_s": "3", "reserved_bytes": str(8 << 30)}
                   for name in ("shipped", "without")}  # fmt: skip
    return accuracy.Result(row(measured=measured), seconds, None, peak, predictions, reason)


def test_row_has_errors_and_summary_their_medians():
    text = accuracy.row_text(result(1.5, 2.0, 9 << 30))
    assert "| 2 | 1.5 (-25%) |  | 3 (+50%) | 3 (+50%) | 10.0; 9.0; 8.0 |" in text
    assert accuracy.row_text(result(None, 2.0, reason="no kernel")).endswith("| no kernel |")
    source = accuracy.SOURCES[0]
    results = [result(1.5, 2.0, 9 << 30), result(2.2, 2.0), result(None, 1.0), result(5.0, 4.0)]
    assert accuracy.summary_text(source, results).startswith(
        "| mpt | 3 | 4 | 25.0%, +10.0%, 0.87 |  | 50.0%, +50.0% |"
    )
    assert accuracy.summary_text(source, results).endswith("| 10.0%; 20.0% |")


def test_rank_correlation_of_opposite_order_is_minus_one():
    assert accuracy.rank_correlation([(1, 9), (2, 8), (3, 7)]) == pytest.approx(-1)
    assert accuracy.rank_correlation([(1, 9), (None, 8), (3, 7)]) is None


def test_same_figures_have_no_rank():
    assert accuracy.rank_correlation([(3, 9), (3, 8), (3, 7)]) is None

