"""Rehearsed steps beside published ones: runs of a source become programs and options.

accuracy.py [SOURCE...]  rehearses the rows of the sources (all of them, or mpt, nanotron, prime-rl,
torchtitan) and prints Markdown: a row for each run, then the errors of each source. `--limit N`
takes at most N rows of a source, spread over its rows; `--row ID` one row. `--stack` rehearses each
row once more with the factors of a software stack that was fitted without the rows of its source.

Published runs are read as python/calibration/runs.py reads them (ORRERY_DATA, ORRERY_BUILD), which
needs numpy and scipy. Programs of others lie under ORRERY_PROGRAMS (table.py), and their
configurations need yaml. Programs have the shapes and the options of their row, and prices no
factor that the row or another one of its source was fitted to.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import typing

import table

HERE = pathlib.Path(__file__).resolve().parent
CALIBRATION = HERE.parents[1] / "python/calibration"
GIB = 1 << 30
#: Cluster for the GPU of a row, and the GPU in its nodes where no preset has it.
CLUSTERS = {
    "A100-SXM4-40GB": ("dgx-a100-40gb",), "A100-SXM4-80GB": ("dgx-a100",),
    "H100-SXM5-80GB": ("dgx-h100",), "H200-SXM-141GB": ("dgx-h200",),
    "B200-SXM-180GB": ("dgx-b200",), "MI300X": ("dgx-h100", "--gpu", "MI300X"),
}  # fmt: skip
#: The same where the nodes are joined by Amazon's EFA.
EFA_CLUSTERS = {"H100-SXM5-80GB": ("aws-p5",)}
#: Published peak of a row: whether the allocator's reserve, and bytes in its unit.
PEAKS = {"torchao_e2e": ("reserved_bytes", GIB), "primerl": ("reserved_bytes", GIB),
         "nanotron_ultrascale": ("memory_bytes", GIB)}  # fmt: skip
#: Rows of nanotron have at most so many micro-batches: each of them is rehearsed.
MICRO_BATCHES = 8
#: Elements of a tensor of the device whose values a rehearsal keeps.
KNOWN = 16384


class Run(typing.NamedTuple):
    """Program and options that stand for a published run."""

    row: "dict[str, str]"
    program: table.Program
    cluster: "tuple[str, ...]"


class Source(typing.NamedTuple):
    """Published runs of one program. `run_of` returns the Run of a row, or why there is none."""

    name: str
    file: str
    key: str  # source_key
    run_of: "typing.Callable[[dict[str, str]], Run | str]"
    stack: str  # software stack of the program


class Result(typing.NamedTuple):
    """Seconds and bytes of a row; None where there are none."""

    row: "dict[str, str]"
    seconds: "float | None"
    stacked: "float | None"  # seconds with the factors of a stack
    peak: "float | None"
    predictions: "dict[str, dict[str, str]]"
    reason: str


def shape_options(row, *more):
    """Returns the options of the programs of this folder for the shape of a row."""
    named = (("layers", "layers"), ("hidden", "hidden"), ("heads", "heads"),
             ("vocabulary", "vocab"), ("sequence", "seq_len"), ("micro-batch", "mbs"),
             ("accumulate", "grad_accum"), *more)  # fmt: skip
    return " ".join(f"--{option} {row[column]}" for option, column in named)


def made_run(row, command, checkout="", allowed=(), environment=None):
    """Returns the Run of a command on the cluster of a row."""
    program = table.Program(
        row["id"], int(row["n_gpus"]), command, checkout, allowed, environment or {}
    )
    clusters = EFA_CLUSTERS if "EFA" in row.get("fabric", "") else CLUSTERS
    return Run(row, program, clusters[row["gpu"]])


def mpt_run(row):
    """Returns the run of MPT for a row of LLM Foundry."""
    if "fp8" in row["precision"]:
        return "8-bit products by Transformer Engine, which no rehearsal has"
    checkpointed = " --checkpointed" if row["recompute"] == "full" else ""
    return made_run(row, f"python {{here}}/mpt.py {shape_options(row)}{checkpointed}")


#: Options of sft.py for the attention of a row.
GENERATIONS = {"flash_attention_2": "second", "flash_attention_3": "third"}


def prime_run(row):
    """Returns the run of a Qwen 3 of transformers for a row of prime-rl."""
    if row["usable"] != "iteration":
        return "its published time is not that of a step"
    if row["moe_experts"]:
        return "experts by prime-rl's own kernels"
    if row["recompute"] != "full":
        return "activations go to the host"
    if row["gpu"] not in CLUSTERS:
        return f"no preset of nodes with {row['gpu']}"
    rank = re.search(r"LoRA r(\d+)", row["notes"])
    words = [f"--adapter {rank[1]}" if rank else ""]
    words.append("--chunked" if "rl trainer" in row["notes"] else "")
    words.append(f"--attention {GENERATIONS[row['attention']]}")
    more = (("key-heads", "kv_heads"), ("wide", "ffn"))
    return made_run(row, f"python {{here}}/sft.py {shape_options(row, *more)} {' '.join(words)}")


#: Options of torchtitan for the precision of a row.
PRECISIONS = {
    "bf16": "",
    "fp8 tensorwise, fp8 all-gather":
        "--model.converters quantize.linear.float8 "
        "--quantize.linear.float8.enable_fsdp_float8_all_gather "
        "--quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp",
    "fp8 rowwise":
        "--model.converters quantize.linear.float8 --quantize.linear.float8.recipe_name rowwise",
    "fp8 rowwise_with_gw_hp":
        "--model.converters quantize.linear.float8 "
        "--quantize.linear.float8.recipe_name rowwise_with_gw_hp",
}  # fmt: skip


def titan_run(row):
    """Returns the run of torchtitan's own trainer for a row of torchao's page."""
    if row["model"] != "llama3-8b":
        return f"a configuration {row['model']} that its source does not publish"
    if row["precision"] not in PRECISIONS:
        return f"{row['precision']}: torchao 0.18 has no such products on a machine without a GPU"
    extra = (
        f"--training.local_batch_size {row['mbs']} --training.seq_len {row['seq_len']} "
        f"--compile.enable {PRECISIONS[row['precision']]}"
    )
    return made_run(row, table.titan(table.LLAMA + "8b", extra), "torchtitan")


def is_tied(row):
    """Returns whether the parameters of a row are those of tied embeddings."""
    hidden = int(row["hidden"])
    layer = 4 * hidden * hidden + 3 * hidden * int(row["ffn"])
    embedding = hidden * int(row["vocab"])
    parameters = int(row["layers"]) * layer + embedding
    return float(row["n_params_b"]) * 1e9 < parameters + embedding / 2


def nanotron_config(row, example):
    """Returns nanotron's configuration of a row, from that of its example."""
    model = example["model"]["model_config"]
    model.update(
        hidden_size=int(row["hidden"]), intermediate_size=int(row["ffn"]),
        num_hidden_layers=int(row["layers"]), num_attention_heads=int(row["heads"]),
        num_key_value_heads=int(row["kv_heads"]), vocab_size=int(row["vocab"]),
        max_position_embeddings=int(row["seq_len"]), tie_word_embeddings=is_tied(row),
    )  # fmt: skip
    example["parallelism"].update(
        {name: int(row[name]) for name in ("dp", "pp", "tp")},
        tp_mode="REDUCE_SCATTER" if row["seq_parallel"] == "1" else "ALL_REDUCE",
        tp_linear_async_communication=row["seq_parallel"] == "1",
    )
    example["tokens"].update(
        micro_batch_size=int(row["mbs"]), sequence_length=int(row["seq_len"]),
        batch_accumulation_per_replica=int(row["grad_accum"]), train_steps=3,
    )  # fmt: skip
    example["optimizer"]["zero_stage"] = 1 if row["dp_shard"] == "ZeRO-1" else 0
    return example


def nanotron_run(row):
    """Returns the run of nanotron's own trainer for a clean row of its sweeps."""
    if row["clean"] != "yes" or not row["measured"]:
        return "no clean time"
    if int(row["pp"]) > 1:
        return "nanotron's Qwen does not run on several stages at this commit"
    if row["dp_shard"] != "none" and int(row["dp"]) > 1:
        return "nanotron does not divide 32-bit gradients at this commit"
    if int(row["grad_accum"]) > MICRO_BATCHES:
        return f"more than {MICRO_BATCHES} micro-batches"
    if int(row["mbs"]) * int(row["seq_len"]) > KNOWN:
        return f"its model reads more than {KNOWN} positions, which the rehearsal does not know"
    return made_run(
        row, f"python run_train.py --config-file {{inputs}}/{row['id']}.yaml", "nanotron",
        ("pow_", "all_reduce"), {**table.ONE_CONNECTION, "PYTHONPATH": "src"},
    )  # fmt: skip


SOURCES = (
    Source("mpt", "measured", "mosaicml", mpt_run, "composer-fsdp"),
    Source("nanotron", "layouts", "nanotron_ultrascale", nanotron_run, "nemo-megatron"),
    Source("prime-rl", "open", "primerl", prime_run, "prime-rl"),
    Source("torchtitan", "open", "torchao_e2e", titan_run, "torchtitan"),
)


def spread_rows(items, limit):
    """Returns at most `limit` items, evenly from the first to the last."""
    if limit is None or len(items) <= limit:
        return items
    if limit == 1:
        return items[:1]
    return [items[round(i * (len(items) - 1) / (limit - 1))] for i in range(limit)]


def published_rows(source):
    """Returns the published runs of a source."""
    import runs

    read = {"measured": runs.measured_rows, "open": runs.open_rows, "layouts": runs.sweep_rows}
    return [row for row in read[source.file]() if row["source_key"] == source.key]


#: Stacks that `orrery predict` chooses for sources whose own stack in SOURCES is another one's.
CHOSEN = {"nanotron": "nanotron"}


def stack_without(source, rows, name):
    """Returns the text of a stack that is fitted again without the rows of its source, as `name`:
    of stacks with calibration rows to the others of these, of the others by their family of
    frameworks; on newer GPUs, if a row ran on one, to the open runs of all other sources."""
    import fit_hardware
    import fit_stacks
    import runs

    kept = [row for row in runs.measured_rows() if row["split"] == "calibration"
            and row["measured"] and row["source_key"] != source.key]  # fmt: skip
    fit = fit_stacks.Fit(kept).run()
    text = "stacks:\n" + "".join(
        fit_stacks.stack_text(fit.x, each, fit=fit) for each in fit_stacks.STACKS
    )
    if any(fit_hardware.hardware_of(row["gpu"]) in fit_hardware.HARDWARE for row in rows):
        hardware = fit_hardware.HardwareFit(text)
        hardware.fitted &= [row["source_key"] != source.key for row in hardware.rows]
        text = fit_hardware.catalogue(hardware.run())
    found = next(block for block in text.split("  - name: ")
                 if block.startswith(f"{source.stack}\n"))  # fmt: skip
    own = "" if name == source.stack else f"    kin: {source.stack}\n"
    return f"stacks:\n  - name: {name}\n{own}" + found.split("\n", 1)[1]


def predictions_of(source, rows, stack):
    """Returns {name: predictions of the rows}: by the shipped stacks, and by the text of a stack
    without the source."""
    import runs

    chosen = CHOSEN.get(source.name, source.stack)
    named = stack.replace("name: without-the-source\n", f"name: {chosen}\n", 1)
    named = named.replace(f"    kin: {source.stack}\n", "", 1)
    return {"shipped": runs.predict(rows), "without": runs.predict(rows, named)}


def write_inputs(folder, chosen):
    """Writes the inputs of the programs, and nanotron's configurations of the chosen runs."""
    subprocess.run([table.TORCH, HERE / "inputs.py", folder, table.CHECKOUTS], check=True)
    for run in chosen:
        if run.program.checkout == "nanotron":
            import yaml

            path = folder / "nanotron.yaml"
            config = nanotron_config(run.row, yaml.safe_load(path.read_text()))
            (folder / f"{run.row['id']}.yaml").write_text(yaml.safe_dump(config))


def rehearse(run, folder, options=()):
    """Returns (seconds, report) of a run, rehearsed with further options; seconds are those that
    the program prints in a line `seconds`, else the step time. Returns (None, reason) without a
    step."""
    program = run.program
    if not table.is_at_hand(program):
        return None, f"no checkout {program.checkout} under ORRERY_PROGRAMS"
    words = program.command.format(inputs=folder, here=HERE).split()
    allowed = [word for name in program.allowed for word in ("--allow-stand-in", name)]
    try:
        result = subprocess.run(
            [table.BUILD / "bin/orrery", "rehearse", "--json", "--ranks", str(program.ranks),
             "--cluster", *run.cluster, *allowed, *options, "--", *words],
            capture_output=True, text=True, env=table.environment_of(program),
            timeout=table.LIMIT, cwd=table.CHECKOUTS / program.checkout if program.checkout
            else folder,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, f"expected an end within {table.LIMIT} s, found none"
    lines = result.stdout.strip().splitlines()
    report = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else None
    if result.returncode or report is None or report["step_time_s"] is None:
        said = result.stderr.strip().splitlines() or ["no message"]
        named = [line for line in said if "error: " in line or "Error: " in line] or said
        return None, f"exit code {result.returncode}: {named[-1][:160]}"
    printed = re.findall(r"^seconds ([\d.]+)$", result.stderr, re.MULTILINE)
    return float(printed[-1]) if printed else report["step_time_s"], report


def published_peak(row):
    """Returns (key of the report, bytes) of a published peak, or None."""
    if row["source_key"] not in PEAKS or not row.get("peak_mem_gb"):
        return None
    key, unit = PEAKS[row["source_key"]]
    return key, float(row["peak_mem_gb"]) * unit


def errors_of(pairs):
    """Returns the relative errors of (value, published) pairs that both exist."""
    return [value / published - 1 for value, published in pairs if value and published]


def rank_correlation(pairs):
    """Returns Spearman's correlation of (value, published) pairs; None below three of them,
    and if all values are equal."""
    known = [(value, published) for value, published in pairs if value and published]
    if len(known) < 3:
        return None

    def ranks(values):
        order = sorted(values)
        return [order.index(value) + (order.count(value) - 1) / 2 for value in values]

    both = [ranks(values) for values in zip(*known)]
    return statistics.correlation(*both) if all(len(set(each)) > 1 for each in both) else None


def errors_text(pairs):
    """Returns the median size of errors, their median, and the rank correlation of pairs."""
    errors = errors_of(pairs)
    if not errors:
        return ""
    rank = rank_correlation(pairs)
    shown = "" if rank is None else f", {rank:.2f}"
    return f"{median_text(errors)}, {statistics.median(errors):+.1%}{shown}"


def median_text(errors):
    """Returns the median size of errors in percent."""
    return f"{statistics.median(map(abs, errors)):.1%}" if errors else ""


def row_text(result):
    """Returns the Markdown row of a result."""
    row = result.row
    layout = "x".join(row[name] or "1" for name in ("dp", "tp", "pp"))
    head = f"| {row['id']} | {row['model']} | {row['gpu'].split('-')[0]} | {layout} " \
           f"| {row['mbs']} x {row['grad_accum']} | {row['measured']:.4g} |"  # fmt: skip
    cells = []
    times = [result.seconds, result.stacked]
    times += [number(each["iter_time_s"]) for each in result.predictions.values()]
    for seconds in times:
        error = errors_of([(seconds, row["measured"])])
        cells.append(f"{seconds:.4g} ({error[0]:+.0%})" if error else "")
    peak = published_peak(row)
    if peak:
        memory = number(result.predictions["shipped"].get(peak[0], ""))
        shown = [f"{value / GIB:.1f}" if value else "" for value in (result.peak, memory)]
        cells.append(f"{peak[1] / GIB:.1f}; {'; '.join(shown)}")
    else:
        cells.append("")
    return f"{head} {' | '.join(cells)} | {result.reason} |"


def number(text):
    """Returns the number of a cell, None of an empty one."""
    return float(text) if text else None


def summary_text(source, results):
    """Returns the Markdown row of a source: errors of rehearsed, predicted and memory."""
    cells = [source.name, str(sum(r.seconds is not None for r in results)), str(len(results))]
    names = list(results[0].predictions) if results else []
    for value in [lambda r: r.seconds, lambda r: r.stacked] + [
        lambda r, name=name: number(r.predictions[name]["iter_time_s"]) for name in names
    ]:
        pairs = [(value(r), r.row["measured"]) for r in results if r.seconds]
        cells.append(errors_text(pairs))
    peaks = [(r, published_peak(r.row)) for r in results if r.peak and published_peak(r.row)]
    own = errors_of([(r.peak, peak[1]) for r, peak in peaks])
    theirs = errors_of([(number(r.predictions["shipped"].get(peak[0], "")), peak[1])
                        for r, peak in peaks])  # fmt: skip
    cells.append(f"{median_text(own)}; {median_text(theirs)}" if own else "")
    return f"| {' | '.join(cells)} |"


HEAD = (
    "| run | model | GPU | data x tensor x pipeline | micro-batches | published s | rehearsed s "
    "| with a stack | `predict` | without the source | GiB: published; rehearsed; `predict` | |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)
SUMMARY = (
    "| source | rehearsed | rows | rehearsed: median error, bias, rank "
    "| with a stack | `predict` | without the source | memory: rehearsed; `predict` |\n"
    "|---|---|---|---|---|---|---|---|"
)


def result_of(row, run, predicted, folder, stack):
    """Returns the result of a row, with the factors of a file `stack`, too, unless it is None."""
    if isinstance(run, str):
        return Result(row, None, None, None, predicted, run)
    seconds, report = rehearse(run, folder)
    if seconds is None:
        return Result(row, None, None, None, predicted, report)
    stacked = rehearse(run, folder, ("--stack", stack))[0] if stack else None
    peak = published_peak(row)
    return Result(row, seconds, stacked, report[peak[0]] if peak else None, predicted, "")


def results_of(source, told):
    """Yields the results of the chosen rows of a source. Rows that no program stands for are left
    out if `--limit` chooses rows."""
    rows = [row for row in published_rows(source) if row["measured"]]
    runs_of = [(row, source.run_of(row)) for row in rows]
    if told.row:
        runs_of = [(row, run) for row, run in runs_of if row["id"] == told.row]
    if told.limit is not None:
        runs_of = spread_rows([(r, run) for r, run in runs_of if isinstance(run, Run)], told.limit)
    if not runs_of:
        return
    rows = [row for row, _ in runs_of]
    text = stack_without(source, rows, "without-the-source")
    predictions = predictions_of(source, rows, text)
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        write_inputs(folder, [run for _, run in runs_of if isinstance(run, Run)])
        stack = folder / "stack.yaml"
        if told.stack:
            stack.write_text(text)
        for place, (row, run) in enumerate(runs_of):
            predicted = {name: each[place] for name, each in predictions.items()}
            yield result_of(row, run, predicted, folder, stack if told.stack else None)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("sources", nargs="*", metavar="SOURCE",
                         choices=[[], *(source.name for source in SOURCES)])  # fmt: skip
    options.add_argument("--limit", type=int, help="at most so many rows of a source")
    options.add_argument("--row", help="one row, by its id")
    options.add_argument("--stack", action="store_true", help="rehearse with a stack, too")
    told = options.parse_args()
    sys.path.insert(0, str(CALIBRATION))
    summaries = []
    print(HEAD)
    for source in SOURCES:
        if told.sources and source.name not in told.sources:
            continue
        results = []
        for result in results_of(source, told):
            results.append(result)
            print(row_text(result), flush=True)
        if results:
            summaries.append(summary_text(source, results))
    print(f"\n{SUMMARY}", *summaries, sep="\n")


if __name__ == "__main__":
    main()
