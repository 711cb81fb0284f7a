"""Writes the parts of docs/accuracy.md about layout sweeps and memory: the predicted winner, the
order of layouts, and their needs of a GPU's memory.

    python3 python/calibration/sweeps.py            # print, and write the part of the page
    python3 python/calibration/sweeps.py --check    # fail if the page says something else

Every figure of a sweep comes from a fit that has not seen its family: its model size, or its number
of GPUs, is left out.
"""

import collections
import re
import sys

import accuracy
import fit_sweeps
import numpy as np
import page
import runs

PART = "layout sweeps"
GIB = 2.0**30
NEAR, FAR = np.log(1.05), np.log(1.15)
SLOW = np.log(1.3)  # a run that took so much longer than predicted was in the slow state


def scores(measured, predicted):
    """Returns, for one sweep, in logarithms: regret, rank, and the shares of pairs in the right
    order that differ by more than 5% and by more than 15%, with their numbers."""
    a, b = np.triu_indices(len(measured), 1)
    apart, said = measured[a] - measured[b], predicted[a] - predicted[b]
    right = apart * said > 0
    shares = []
    for least in (NEAR, FAR):
        far = np.abs(apart) > least
        shares += [right[far].sum(), far.sum()]
    regret = np.expm1(measured[np.argmin(predicted)] - measured.min())
    return regret, accuracy.spearman(measured, predicted), *shares


def random_choice(measured):
    """Mean regret of a layout taken at random: a constant rate cannot tell them apart."""
    return float(np.mean(np.expm1(measured - measured.min())))


def summary(name, groups, measured, predicted, constant):
    """A line of the table; sweeps in `groups`."""
    each = [scores(measured[at], predicted[at]) for at in groups]
    error = np.abs(np.expm1(predicted - measured))[np.concatenate(groups)]
    regret = np.array([one[0] for one in each])
    rank = np.array([one[1] for one in each])
    near = sum(one[2] for one in each) / sum(one[3] for one in each)
    far = sum(one[4] for one in each) / sum(one[5] for one in each)
    core = error[error < 0.3]
    return [name, len(error), accuracy.percent(np.median(regret)),
            accuracy.percent(np.quantile(regret, 0.9)), f"{np.nanmedian(rank):.2f}",
            accuracy.percent(near), accuracy.percent(far), accuracy.percent(error.mean()),
            accuracy.percent(np.median(error)), accuracy.percent(core.mean()), constant]
    # fmt: skip


def constant_error(rows, measured, keys):
    """The yardstick: one FLOP/s, of the rows that are not left out."""
    rate = np.array([np.log(accuracy.flop(row) / int(row["n_gpus"])) for row in rows]) - measured
    keys, error = np.array(keys), np.zeros(len(rows))
    for key in set(keys):
        out = keys == key
        error[out] = np.abs(np.expm1(rate[out] - rate[~out].mean()))
    return float(error.mean())


HEAD = ("left out", "rows", "regret, median", "p90", "rank", "pairs > 5%", "pairs > 15%",
        "mean error", "median error", "without outliers", "yardstick")  # fmt: skip


def sweep_tables(fit):
    rows, measured = fit.rows, fit.measured
    groups = accuracy.by([fit_sweeps.sweep_of(row) for row in rows])
    lines, sizes = [], None
    for name, keys in (("model size", [row["model"] for row in rows]),
                       ("GPU count", [row["n_gpus"] for row in rows])):
        predicted = fit.left_out(keys)
        each = [scores(measured[at], predicted[at]) for at in groups.values()]
        constant = accuracy.percent(constant_error(rows, measured, keys))
        lines.append(summary(name, list(groups.values()), measured, predicted, constant))
        # Bound of a model that knew only which runs would be slow.
        usual = [at[measured[at] - predicted[at] < SLOW] for at in groups.values()]
        lines.append(summary(f"{name}, without slow runs", usual, measured, predicted, ""))
        sizes = sizes if sizes is not None else (predicted, each)
    each_sweep = [
        [f"{model}, {gpus} GPUs", len(at), accuracy.percent(one[0]),
         accuracy.percent(random_choice(measured[at])), f"{one[1]:.2f}",
         accuracy.percent(one[4] / one[5]),
         accuracy.percent(float(np.median(np.abs(np.expm1(sizes[0][at] - measured[at])))))]
        for ((model, gpus), at), one in zip(groups.items(), sizes[1])]
    return (accuracy.table(HEAD, lines),
            accuracy.table(("sweep (its model size left out)", "rows", "regret",
                            "of a random layout", "rank", "pairs > 15%", "median error"),
                           sorted(each_sweep)))


def slow_text(fit):
    """How many runs of each number of GPUs were slow, their model size left out."""
    slow = fit.measured - fit.left_out([row["model"] for row in fit.rows]) >= SLOW
    gpus = np.array([int(row["n_gpus"]) for row in fit.rows])
    return ", ".join(f"{slow[gpus == n].sum()} of {(gpus == n).sum()} on {n}"
                     for n in sorted(set(gpus)))


POLLED = 0.1  # seconds a micro-batch between those that polled and those that did not


def polling_text(all_rows):
    """Prints the pipelined runs, clean or not, by the time of a micro-batch beyond the
    prediction."""
    rows = [row for row in all_rows
            if row["measured"] and int(row["pp"]) > 1 and int(row["tp"]) <= 8 and
            int(row["n_gpus"]) < 384]  # fmt: skip
    stages = np.array([int(row["pp"]) for row in rows])
    beats = np.array([int(row["grad_accum"]) for row in rows]) + stages - 1
    beyond = np.array([row["measured"] for row in rows]) - runs.times(runs.predict(rows))
    beyond = (beyond / beats)[np.isfinite(beyond)]
    stages = stages[: len(beyond)]
    two, more = (np.median(beyond[(beyond > 3 * POLLED) & which])
                 for which in (stages == 2, stages > 2))
    between = ((np.abs(beyond) >= POLLED) & (beyond < 3 * POLLED)).sum()
    return (f"{len(beyond)} pipelined runs on up to 256 GPUs,\n{(np.abs(beyond) < POLLED).sum()} "
            f"are within {POLLED} s a micro-batch of what is predicted, {between} between that and "
            f"{3 * POLLED:.1f} s,\nand {(beyond >= 3 * POLLED).sum()} beyond: {two:.1f} s on two "
            f"stages, {more:.1f} s on more")


def every_row(fit, all_rows):
    """All rows that ran, clean or not, under the shipped factors: order inside a schedule class."""
    rows = [row for row in all_rows if row["measured"]]
    predicted = np.log(runs.times(runs.predict(rows)))
    measured = np.log([row["measured"] for row in rows])
    known = np.isfinite(predicted)
    keys = [(*fit_sweeps.sweep_of(row), row["pp"] == "1", row["dp_shard"]) for row in rows]
    right, count, ranks = 0, 0, []
    for at in accuracy.by(keys).values():
        at = at[known[at]]
        if len(at) < 3:
            continue
        one = scores(measured[at], predicted[at])
        right, count = right + one[4], count + one[5]
        ranks.append(one[1])
    return len(rows), np.nanmedian(ranks), right / count


def floor_text(rows):
    """Layouts that were run twice."""
    names = ("model", "n_gpus", "tp", "pp", "dp", "mbs", "gbs", "dp_shard")
    groups = collections.defaultdict(list)
    for row in rows:
        if row["measured"]:
            groups[tuple(row[name] for name in names)].append(row["measured"])
    spread = sorted(max(times) / min(times) - 1 for times in groups.values() if len(times) > 1)
    if not spread:
        return "No layout was run twice."
    return (f"Of repeated layouts there are {len(spread)}: the slower run took "
            f"{np.median(spread):.1%} longer.")


def needed(prediction):
    """GiB of tensors: of the fullest GPU, of one of the first stage, and of one of the last."""
    fullest = float(prediction["memory_bytes"]) / GIB
    first = re.search(r"the first one needs ([0-9.]+) GiB", prediction["reason"])
    last = re.search(r"the last stage needs ([0-9.]+) GiB", prediction["reason"])
    return (fullest, float(first.group(1)) if first else fullest,
            float(last.group(1)) if last else fullest)


def memory_line(name, error):
    size = np.abs(error)
    return [name, len(error), accuracy.percent(np.median(size)),
            accuracy.percent(np.quantile(size, 0.9)), accuracy.percent(np.median(error))]


HEAD_MEMORY = ("peak memory", "rows", "median error", "p90", "bias")


def memory_part(all_rows):
    predictions = runs.predict(all_rows)
    ran = [(row, p) for row, p in zip(all_rows, predictions) if row["measured"] and
           p["status"] != "unsupported" and row["peak_mem_gb"]]
    error = np.array([needed(p)[1] / float(row["peak_mem_gb"]) - 1 for row, p in ran])
    clean = np.array([row["clean"] == "yes" for row, _ in ran])
    lines = [memory_line("clean rows", error[clean])]
    lines += [memory_line(f"of them, {model}",
                          error[clean & np.array([row["model"] == model for row, _ in ran])])
              for model in sorted({row["model"] for row, _ in ran})]
    lines.append(memory_line("all rows that ran", error))
    fits = [p["status"] == "ok" for p in predictions]
    worked = [bool(row["measured"]) for row in all_rows]
    said_ok = sum(f and w for f, w in zip(fits, worked)) / sum(worked)
    said_bad = sum(not f and not w for f, w in zip(fits, worked)) / (len(worked) - sum(worked))
    return accuracy.table(HEAD_MEMORY, lines), (
        f"Of {sum(worked)} layouts that ran, {said_ok:.1%} are predicted to fit; of "
        f"{len(worked) - sum(worked)} that failed, whatever the cause, {said_bad:.1%} are "
        f"predicted to be out of memory or refused: balanced accuracy "
        f"{(said_ok + said_bad) / 2:.2f}.")


def fused_loss():
    """The stack of Megatron-Core with a fused loss, whose gradient overwrites the logits: they are
    kept in 16 bits only."""
    text = (runs.ROOT / "traces" / "catalog" / "stacks.yaml").read_text()
    name = "  - name: megatron-core\n"
    begin = text.index(name)
    block = text[begin : text.index("  - name: ", begin + len(name))]
    return "stacks:\n" + block.replace(name, name + "    logit_bytes: 2\n")


def fused_memory_line():
    """Peaks of one node of 8 B200, whose runs fuse the loss (their notes), of the worst rank."""
    rows = [row for row in runs.open_rows() if row["source_key"] == "simumax_b200"]
    predictions = runs.predict(rows, fused_loss())
    error = np.array([needed(prediction)[0] / float(row["peak_mem_gb"]) - 1
                      for row, prediction in zip(rows, predictions)])
    return ["simumax_b200", "allocated", *memory_line("", error)[1:]]


# Kinds of the sources' peaks.
KINDS = {"mcore_golden": "allocated, last rank", "mbridge_skill": "allocated",
         "torchao_e2e": "reserved", "internevo_mem": "device"}  # fmt: skip


def attention_of(row):
    """Megatron-Core's tests without Transformer Engine in their name compute unfused attention."""
    local = row["source_key"] == "mcore_golden" and "_te_" not in row["model"]
    return "unfused" if local and row["model"].startswith("gpt3_mcore") else row["attention"]


def other_memory():
    """Peaks of other frameworks, which nothing was fitted to, of the fullest GPU."""
    names = ("source_key", "model", "n_params_b", "layers", "hidden", "heads", "kv_heads", "ffn",
             "gated_mlp", "vocab", "seq_len", "moe_experts", "moe_topk", "gpu", "n_gpus", "tp",
             "pp", "dp", "cp", "ep", "vpp", "seq_parallel", "dp_shard", "precision", "mbs", "gbs",
             "recompute", "attention", "framework")  # fmt: skip
    rows = [row for row in runs.read("memory-open.csv.gz")
            if row["peak_mem_gb"] and row["source_key"] != "nanotron_ultrascale"]
    asked = [{"id": str(i), **{name: row[name] for name in names}, "attention": attention_of(row)}
             for i, row in enumerate(rows)]
    predictions = runs.predict(asked)
    lines = []
    for source, at in accuracy.by([row["source_key"] for row in rows]).items():
        rank = 2 if source == "mcore_golden" else 0  # its tests log the last rank
        error = np.array([needed(predictions[i])[rank] / float(rows[i]["peak_mem_gb"]) - 1
                          for i in at if predictions[i]["status"] != "unsupported"])
        if len(error):
            lines.append([source, KINDS.get(source, "not said"), *memory_line(source, error)[1:]])
    lines.append(fused_memory_line())
    return accuracy.table(("peak memory", "kind", *HEAD_MEMORY[1:]), lines)


TEXT = """\
## Layout sweeps

Written by `python3 python/calibration/sweeps.py`: nanotron's sweeps of two model sizes on 8 to 512
H100 over EFA (figure data of the ultrascale playbook). `regret`: how much longer the layout
predicted to be the fastest takes than the fastest one measured; `pairs`: of layouts of one sweep
whose times differ by more than that, the share in the right order; `without outliers`: the mean
error of rows that are off by less than 30%. The yardstick is one FLOP/s, of the rows not left out;
it gives all layouts of a sweep the same time.

{table}
{sweeps}
A time is that of one iteration, the third: noise of 5 to 25% is its source's own figure. {floor}
Some runs take 0.5 to 1.5 s a micro-batch longer than their neighbours, whatever the layers of a
stage, and hold less memory than they: they ran in another state of the software that no column
tells ({slow}
GPUs). One layout was run in both states (above).

For pipelines the cause is public: a commit of the authors' benchmark branch (huggingface/nanotron
67c5ebb6 of 2024-12-27, never in its main branch) polls every message that announces a tensor with
`time.sleep(0.1)`. Of {polling}: whole polls, and nothing but
which code was checked out that day decides. The runs on 512 GPUs, all of which polled, are priced
with it (`transfer_stall`). Without pipelines slow runs wait 10 to 50 ms a layer and micro-batch, as
hosts with too few cores would.

Slow runs are in every figure but `without outliers` (rows off by less than 30%) and `without slow
runs` (without those that took 30% longer than predicted): regret and pairs can get no better than
there by any model of layouts, since a winner that happens to run slow is none. On 512 GPUs slow
runs are the majority, and no layout can be named there.

All {count} rows that ran, inside a schedule class (pipelined or not, ZeRO stage) of a sweep, by the
shipped factors: rank {rank:.2f} (median), {right:.1%} of the pairs that differ by more than 15% in
the right order.

### Memory

A published peak is that of one rank: nanotron's is of the first stage, which is the fullest but for
the loss of large micro-batches. Some runs hold less than others of the same layout, and are slow.

{memory}
{failures}

Other frameworks, nothing fitted to them, beside the fullest GPU (Megatron-Core's tests are toys, of
0.8 to 56 GiB; figures of the device or of the allocator's reserve are not those of the tensors):

{others}
"""


def make_text():
    fit = fit_sweeps.fit_nanotron()
    rows = runs.sweep_rows()
    table, sweeps = sweep_tables(fit)
    count, rank, right = every_row(fit, rows)
    memory, failures = memory_part(rows)
    return TEXT.format(table=table, sweeps=sweeps, floor=floor_text(rows), slow=slow_text(fit),
                       polling=polling_text(rows), count=count, rank=rank, right=right,
                       memory=memory, failures=failures, others=other_memory())


if __name__ == "__main__":
    sys.exit(page.run_script(PART, make_text, __doc__))
