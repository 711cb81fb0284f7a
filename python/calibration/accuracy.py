"""Writes the part of docs/accuracy.md about whole training runs: predictions of `orrery predict`
for the rows of measured.csv against the measurements.

    python3 python/calibration/accuracy.py            # print, and write the part of the page
    python3 python/calibration/accuracy.py --check    # fail if the page says something else
"""

import collections
import math
import sys

import distances
import fit_stacks
import numpy as np
import page
import plan_intervals
import runs

PART = "training runs"
LOW = ("fp8", "mxfp8", "nvfp4")


def number(row, name, otherwise=0.0):
    try:
        return float(row[name])
    except ValueError:
        return otherwise


def flop(row):
    """Returns the FLOPs of a step, recomputation included, attention without its causal half: the
    basis of the yardstick's single rate."""
    hidden, layers, tokens = (number(row, n) for n in ("hidden", "layers", "seq_len"))
    heads, kv_heads = number(row, "heads"), number(row, "kv_heads", number(row, "heads"))
    attention = 2 * hidden * hidden * (1 + kv_heads / heads)
    mlp = (3 if row["gated_mlp"] == "1" else 2) * hidden * number(row, "ffn")
    mlp *= number(row, "moe_topk", 1.0) if row["moe_experts"] else 1
    scores = 2 * 2 * number(row, "seq_len") * hidden
    layer = 2 * (attention + mlp) + scores
    table = 2 * hidden * number(row, "vocab")
    again = layer if row["recompute"] == "full" else 0
    again = scores if row["recompute"].startswith("selective") else again
    return number(row, "gbs") * tokens * (layers * (3 * layer + again) + 3 * table)


def software(row):
    """The family of a framework: its name without the year."""
    return row["framework"].rstrip("0123456789. r").split("/")[0]


def rate_key(row):
    return runs.family(row["gpu"]), any(low in row["precision"].lower() for low in LOW)


def yardstick(rows, fitted):
    """Seconds at one FLOP/s per GPU type, precision and framework family of the `fitted` rows;
    where the family has none, of all of them on that GPU."""
    rates = collections.defaultdict(list)
    for row in fitted:
        rate = np.log(flop(row) / int(row["n_gpus"]) / row["measured"])
        rates[rate_key(row), software(row)].append(rate)
        rates[rate_key(row)].append(rate)
        rates[rate_key(row)[0]].append(rate)

    def seconds(row):
        for key in ((rate_key(row), software(row)), rate_key(row), rate_key(row)[0]):
            if key in rates:
                return flop(row) / int(row["n_gpus"]) / np.exp(np.mean(rates[key]))
        return float("nan")

    return np.array([seconds(row) for row in rows])


def percent(value):
    return "" if np.isnan(value) else f"{100 * value:.1f}%"


def error_cells(predicted, measured):
    error = predicted / measured - 1
    rank = runs.spearman(predicted, measured)
    return [percent(np.abs(error).mean()), percent(np.abs(error).max()), percent(error.mean()),
            "" if np.isnan(rank) else f"{rank:.2f}"]  # fmt: skip


def table(head, lines):
    text = "| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|\n"
    return text + "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def by(keys):
    """Indices by key, in order of first appearance."""
    groups = collections.defaultdict(list)
    for i, key in enumerate(keys):
        groups[key].append(i)
    return {key: np.array(each) for key, each in groups.items()}


def source_table(rows, predicted, fitted):
    """One line per source and framework: the shipped factors, and the yardstick beside them."""
    measured = np.array([row["measured"] for row in rows])
    constant = yardstick(rows, fitted)
    lines = []
    for (source, framework), at in by([(r["source_key"], r["framework"]) for r in rows]).items():
        role = "fitted" if rows[at[0]]["split"] == "calibration" else "not fitted"
        constant_error = np.abs(constant[at] / measured[at] - 1)
        lines.append([source, framework, len(at), role, *error_cells(predicted[at], measured[at]),
                      percent(constant_error.mean())])
    return table(("source", "framework", "rows", "", "mean", "max", "bias", "rank", "yardstick"),
                 lines)


def left_out_table(fit, keys, residual):
    """Rows predicted by factors and rates that have not seen the rows of the same key."""
    measured = np.exp(fit.measured)
    lines = []
    for key, at in by(keys).items():
        others = [row for row, k in zip(fit.rows, keys) if k != key]
        rows = [fit.rows[i] for i in at]
        constant = np.abs(yardstick(rows, others) / measured[at] - 1)
        predicted = measured[at] * np.exp(-residual[at])
        lines.append([key, len(at), *error_cells(predicted, measured[at]),
                      percent(np.nanmean(constant))])
    return table(("left out", "rows", "mean", "max", "bias", "rank", "yardstick"), lines)


def chance_range(families, share=0.8, within=0.9):
    """Returns the least and the largest part of so many families that lie in intervals which each
    one lies in with probability `share`: the middle `within` of the binomial distribution. For
    example, of two families none lies outside 0.5 to 1."""
    reached, low = 0.0, None
    for inside in range(families + 1):
        reached += (math.comb(families, inside) * share**inside *
                    (1 - share) ** (families - inside))  # fmt: skip
        if low is None and reached > (1 - within) / 2:
            low = inside
        if reached >= (1 + within) / 2:
            return low / families, inside / families
    return low / families, 1.0


def stack_table(residuals):
    """Factors of the widths under each stack, and coverage of intervals made without a family."""
    placed = by([each.residual.stack for each in distances.placed(residuals)])
    all_placed, judged = distances.placed(residuals), list(plan_intervals.judged(residuals))
    lines = []
    for stack, at in sorted(placed.items()):
        factor80, factor95 = distances.stack_factors([all_placed[i] for i in at])
        found = [judged[i] for i in at]
        inside = [plan_intervals.family_mean((each.residual.family, getattr(each, column))
                                             for each in found) for column in ("in80", "in95")]
        families = len({each.residual.family for each in found})
        low, high = chance_range(families)
        lines.append([stack, len(at), families, f"{factor80:.2f}", f"{factor95:.2f}",
                      f"{inside[0]:.0%}", f"{low:.0%} to {high:.0%}", f"{inside[1]:.0%}"])
    return table(("stack", "rows", "families", "factor, 80%", "factor, 95%", "in 80%", "by chance",
                  "in 95%"), lines)


def coverage_table(residuals):
    lines = []
    for name, of in distances.classes(residuals).items():
        c = distances.coverage(of, name)
        lines.append([name, len(of), c.families, f"{c.plain80:.0%}", f"{c.held80:.0%}",
                      f"{c.plain95:.0%}", f"{c.held95:.0%}", percent(c.width80)])
    return table(("rests on", "rows", "families", "80%: quantiles", "widened", "95%: quantiles",
                  "widened", "width of the 80% interval"), lines)


SWEEP = ("source_key", "framework", "model", "layers", "gpu", "n_gpus", "seq_len", "precision",
         "gbs")  # fmt: skip


def regret_text(rows, predicted):
    """Compares configurations that differ in layout only: the predicted best's time over the
    best."""
    measured = np.array([row["measured"] for row in rows])
    regrets = []
    for at in by([tuple(row[name] for name in SWEEP) for row in rows]).values():
        if len(at) < 2:
            continue
        chosen = at[np.argmin(predicted[at])]
        regrets.append(measured[chosen] / measured[at].min() - 1)
    if not regrets:
        return "No two rows differ in layout only: regret cannot be measured here.\n"
    return (f"{len(regrets)} sets of rows differ in layout, recomputation or micro-batch only: the "
            f"configuration predicted to be the fastest takes {np.median(regrets):.1%} (median; at "
            f"most {max(regrets):.1%}) longer than the best measured one.\n")


def partial_table(rows, predictions):
    lines = []
    at_groups = by([(row["source_key"], row["framework"]) for row in rows])
    for (source, framework), at in at_groups.items():
        known = [i for i in at if predictions[i]["iter_time_s"] and rows[i]["measured"]]
        error = np.array([float(predictions[i]["iter_time_s"]) / rows[i]["measured"] - 1
                          for i in known])
        lines.append([source, framework, len(at), len(known),
                      percent(np.median(error)) if len(known) else "",
                      percent(np.abs(error).max()) if len(known) else ""])
    return table(("source", "framework", "rows", "compared", "median", "largest"), lines)


TEXT = """\
## Training runs

Written by `python3 python/calibration/accuracy.py`; the factors by
`python3 python/calibration/fit_stacks.py`, which sees the rows of `split=calibration` and no other.
Errors are of the time of a step, (predicted - measured) / measured; `rank` is Spearman's. Published
times of one configuration differ by 4.7% (median) between software releases: a difference below
that is noise. `yardstick`: one FLOP/s per GPU type, precision and framework family, the mean of the
calibration rows (of all rows on that GPU where the family has none): it knows how many operations a
step has, recomputation included, and nothing else.

{sources}
Factors and rates that have not seen the rows in question:

{stacks}
{whole_sources}
Intervals come by what a prediction rests on (`python/calibration/distances.py`): the stack is
fitted, another's (kin) or unknown; the configuration complete or assumed; dense or with experts;
the GPU measured or scaled. A class below 30 rows takes the intervals of the class without its last
word. The quantiles of a class know its families, and a new one differs from all of them: where
intervals that were made without a family hold too few of its rows (`quantiles`), one factor a class
widens them until they hold as many as they should (`widened`; one number for all its families).
A family counts once, in the quantiles and in these shares of measured times inside intervals that
were made without their family:

{coverage}

Under a stack the widths of all classes are multiplied by two factors: the parts of them that 80%
and 95% of the stack's rows reach, drawn to 1 as if two more families were there; fewer than three
families narrow nothing. The shares are again of intervals that have not seen the row's family
(`python/calibration/plan_intervals.py` prints scores too). `by chance`: the shares between which
nine of ten stacks with so many families would lie if 80% were exact and the rows of a family lay
inside or outside together:

{stack_factors}
{regret}
Rows that lack a part of their configuration (`partial`) are predicted with assumptions, compared,
and not judged:

{partial}
"""


def make_text():
    rows = [row for row in runs.measured_rows() if row["measured"]]
    predictions = runs.predict(rows)
    predicted = runs.times(predictions)
    fitted = [row for row in rows if row["split"] == "calibration"]
    whole = [i for i, row in enumerate(rows) if row["usable"] == "iteration"]
    partial = [i for i, row in enumerate(rows) if row["usable"] != "iteration"]
    judged = [rows[i] for i in whole]
    fits = fit_stacks.fit_everything()
    fit, between = fits.fit, fits.between
    residuals = distances.residuals(*fits)
    sources = [row["source_key"] for row in fit.rows]
    return TEXT.format(
        sources=source_table(judged, predicted[whole], fitted),
        stacks=left_out_table(fit, [stack.name for stack in fit.stacks], between),
        whole_sources=left_out_table(fit, sources, fit.left_out(sources)),
        coverage=coverage_table(residuals), stack_factors=stack_table(residuals),
        regret=regret_text(judged, predicted[whole]),
        partial=partial_table([rows[i] for i in partial], [predictions[i] for i in partial]))


if __name__ == "__main__":
    sys.exit(page.run_script(PART, make_text, __doc__))
