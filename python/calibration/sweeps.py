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
    return regret, runs.spearman(measured, predicted), *shares


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


# Kinds of the sources' peaks. allocated: torch.cuda.max_memory_allocated of a rank that is known,
# or of the worst one. Figures of other kinds are of the process: the allocator's reserve, or the
# device's memory. prime-rl and torchtitan print torch.cuda.max_memory_reserved.
ALLOCATED = {"simumax_b200", "mbridge_skill", "galvatron_mem"}
# Megatron-Bridge prints torch's bytes over 1e9 (report_memory in its train_utils.py), and its
# writers logged those of the last rank alone before its issue 3167. The rows of Llama are older;
# their source tells that 10 chunks of layers hold 1.4 GB more than 5 do, as on the last stage (74
# layers for 68 of 0.23 GB; on the first stage 86 for 92).
BRIDGE = "mbridge_skill"
# Galvatron's profiles of pipelines keep all micro-batches, which no schedule of ours does.
OTHERWISE = {"mcore_golden": "allocated, last rank",
             "galvatron_mem, pipelined": "allocated, all micro-batches in flight"}  # fmt: skip
HELD = {"torchao_e2e": "reserved", "primerl": "reserved", "pedgb": "reserved",
        "internevo_mem": "device", "bigscience": "device", "mcorefsdp": "device",
        "hy3gb300": "device", "primus": "share of the device", "hy3tpu": "share of the device",
        "trl": "not said"}  # fmt: skip


def attention_of(row):
    """Megatron-Core's tests without Transformer Engine in their name compute unfused attention, and
    so do runs of BigScience's in 2021 on V100."""
    if row["source_key"] == "bigscience":
        return "unfused"
    local = row["source_key"] == "mcore_golden" and "_te_" not in row["model"]
    return "unfused" if local and row["model"].startswith("gpt3_mcore") else row["attention"]


def galvatron_cells(row):
    """Cells of Galvatron's profiles that the table has otherwise: the states in their notes are
    those of FSDP with 16 bytes a parameter, and what a layer keeps is that of sequences of 4,096
    tokens, whose batch has a micro-batch for each stage."""
    share = int(row["gbs"]) // int(row["dp"]) // int(row["pp"])
    return {"gpu": "A800-SXM4-80GB", "dp_shard": "FSDP", "seq_len": "4096",
            "mbs": str(max(1, share))}  # fmt: skip


def bridge_cells(row):
    """Cells that the recipe of the row states (src/megatron/bridge/recipes/moonlight): moments in
    16 bits beside fp32 weights."""
    return {"optimizer_bytes": "8"} if row["model"].startswith("moonlight") else {}


def memory_rows():
    """All rows with a peak but nanotron's, as `predict` reads them; pipelined ones of Galvatron are
    a source of their own. Rows of memory-open.csv that runs-open.csv has too are left out."""
    rows = [{**row, "attention": attention_of(row)} for row in runs.open_rows()
            if row["peak_mem_gb"] and row["outcome"] == "ok"]  # fmt: skip
    names = list(rows[0])
    for row in rows:
        if row["source_key"] == BRIDGE:
            row.update(bridge_cells(row))

    def key(row):
        return tuple(row[name] for name in ("source_key", "model", "gpu", "recompute", "precision",
                                            "tp", "pp", "peak_mem_gb"))  # fmt: skip

    known = {key(row) for row in rows}
    for i, row in enumerate(runs.read("memory-open.csv.gz")):
        if not row["peak_mem_gb"] or row["source_key"] == "nanotron_ultrascale":
            continue
        if key(row) in known:
            continue
        cells = {**dict.fromkeys(names, ""), **{n: row[n] for n in names if n in row},
                 **runs.stated(row["notes"]), "id": f"memory-{i}",
                 "attention": attention_of(row), "peak_mem_kind": row["mem_kind"]}  # fmt: skip
        if row["source_key"] == "galvatron_mem":
            cells.update(galvatron_cells(row))
            cells["source_key"] += ", pipelined" if int(row["pp"]) > 1 else ""
        rows.append(cells)
    return rows


def peak_of(row):
    """GiB of a GPU; a chip of TPU v7 has two devices."""
    unit = 1e9 / GIB if row["source_key"] == BRIDGE else 1
    return float(row["peak_mem_gb"]) * unit * (2 if row["gpu"].startswith("TPU7x") else 1)


def allocated_of(row, prediction):
    """GiB of tensors on the rank whose peak the row has."""
    fullest, first, last = needed(prediction)
    if row["source_key"].startswith("galvatron_mem"):
        return first if row["peak_mem_kind"].endswith("rank 0") else last
    return last if row["source_key"] in OTHERWISE or row["source_key"] == BRIDGE else fullest


RESERVED = (0.1, 0.9)  # quantiles of reserved_p10 and reserved_p90


def quantiles_of(residuals):
    """Quantiles of residuals in which each source counts once."""
    sources = collections.Counter(source for source, _ in residuals)
    order = sorted(residuals, key=lambda each: each[1])
    weights = np.cumsum([1 / sources[source] for source, _ in order])
    weights = weights / weights[-1]
    return [order[int(np.searchsorted(weights, q))][1] for q in RESERVED]


def held_text(held):
    """The interval of a process's memory: its quantiles, and how many rows lie between those of the
    other sources. `held`: source and logarithm of measured over predicted memory."""
    inside = []
    for source in {each[0] for each in held}:
        low, high = quantiles_of([each for each in held if each[0] != source])
        own = [low <= value <= high for each, value in held if each == source]
        inside.append(np.mean(own))
    low, high = quantiles_of(held)
    return (f"Measured over predicted memory of a process (`reserved_bytes`), a source counted "
            f"once:\n{np.exp(low):.2f} (P10, logarithm {low:.3f}) to {np.exp(high):.2f} (P90, "
            f"{high:.3f}).\nBetween the quantiles of the other sources lie {np.mean(inside):.0%} "
            f"of a source's rows.")  # fmt: skip


def other_memory():
    """Tables of the peaks of other frameworks, which nothing was fitted to: allocated peaks of a
    known rank, then all others."""
    rows = memory_rows()
    predictions = runs.predict(rows)
    judged, others, ratios, held = [], [], [], []
    for source, at in accuracy.by([row["source_key"] for row in rows]).items():
        priced = [i for i in at if predictions[i]["status"] != "unsupported"]
        if not priced:
            continue
        is_held = source in HELD
        ratio = np.array([
            (float(predictions[i]["reserved_bytes"]) / GIB if is_held else
             allocated_of(rows[i], predictions[i])) / peak_of(rows[i]) for i in priced])
        if source in ALLOCATED:
            ratios += list(ratio)
            judged.append(memory_line(source, ratio - 1))
            continue
        kind = OTHERWISE.get(source) or HELD.get(source, "not said")
        others.append([source, kind, *memory_line(source, ratio - 1)[1:]])
        if is_held:
            held += [(source, -np.log(value)) for value in ratio]
    judged.append(["all", len(ratios), *memory_line("", np.array(ratios) - 1)[2:]])
    return (accuracy.table(HEAD_MEMORY, judged),
            accuracy.table(("peak memory", "kind", *HEAD_MEMORY[1:]), others), held_text(held))


def ran_text():
    """Rows that ran and are predicted not to fit."""
    rows = [row for row in runs.open_rows() if row["measured"] and row["usable"] == "iteration"]
    predictions = runs.predict(rows)
    priced = [p for p in predictions if p["status"] != "unsupported"]
    bad = [f"{row['id']} ({p['reason'].split(', would')[0].split('needs ')[-1]})"
           for row, p in zip(rows, predictions) if p["status"] == "out-of-memory"]
    return (f"Of {len(priced)} rows of runs-open.csv that ran and are priced, {len(bad)} have the "
            f"status `out-of-memory`:\n{', '.join(bad) if bad else 'none'}.")


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

Nanotron's table does not say whether a peak is allocated or reserved: these figures are listed
apart from those below. The same memory configuration, repeated, differs by 1.1% (median).

Other frameworks, nothing fitted to them. Allocated peaks of a known rank or of the worst one:

{judged}
Megatron-Bridge's GB are 10^9 bytes. Its rows of Llama are read as those of the last rank, which
its writers logged then. Where little is kept of the forward pass, the peak is that of the
optimizer's step, which copies gradients of 16 bits in fp32: in both runs that recompute `mlp`, and
at TP 8. That one, the worst, has FP8 weights and one data rank; their casts are not modelled.

All other kinds: the last rank's (Megatron-Core's tests are toys, of 0.8 to 56 GiB), and the memory
of a process, beside `reserved_bytes`:

{others}
{held}

{ran}

Their causes: recomputation by modules of Megatron-Core counts as one share of all values
(`mbcards`, `moerecipes`), layers by id are not those of the fullest stage (`primus`), a test whose
name says unfused attention (`mcore`), and a policy of its own on 32 GB (`tpu-031`).
"""


def make_text():
    fit = fit_sweeps.fit_nanotron()
    rows = runs.sweep_rows()
    table, sweeps = sweep_tables(fit)
    count, rank, right = every_row(fit, rows)
    memory, failures = memory_part(rows)
    judged, others, held = other_memory()
    return TEXT.format(table=table, sweeps=sweeps, floor=floor_text(rows), slow=slow_text(fit),
                       polling=polling_text(rows), count=count, rank=rank, right=right,
                       memory=memory, failures=failures, judged=judged, others=others, held=held,
                       ran=ran_text())


if __name__ == "__main__":
    sys.exit(page.run_script(PART, make_text, __doc__))
