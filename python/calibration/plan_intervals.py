"""Coverage and sharpness of the intervals of step times, and so of the dates of `orrery plan`, in
runs that no fit had seen.

    python3 python/calibration/plan_intervals.py             # tables
    python3 python/calibration/plan_intervals.py --freeze    # the scores become the baseline

The interval of a date, with failures and the error of the step price, is that of the step price,
times the number of steps, spread by the failures (docs/plan.md). Published runs state the time of
their steps and no failures, so that a date without failures is compared: it lies between P10 and
P90 if the measured step time lies in the 80% interval of the prediction. Every row is predicted by
factors that have not seen its family, configuration or stack, and its interval is made from the
residuals of the other families. In `rows` and `in 80%` each row counts once; in all other columns a
family counts once. `score` is the interval score of the logarithm of the time (distances.score),
which punishes both width and misses. `/ baseline`: the score over that in interval-baseline.csv,
which an earlier state of the fits and intervals left behind, in the rows that both have.
"""

import argparse
import collections
import csv
import pathlib

import distances
import fit_stacks
import numpy as np

BASES = ("fitted", "kin", "unknown")
BASELINE = pathlib.Path(__file__).with_name("interval-baseline.csv")
# A residual, its class, whether the 80% and the 95% interval contain it, and both scores.
Judged = collections.namedtuple("Judged", "residual name in80 in95 score80 score95")


def judge(placed, factors):
    """A placed residual by its interval, whose widths a stack's factors multiply."""
    sides = distances.ordered(placed.sides * np.repeat(factors, 2))
    below80, above80, below95, above95 = sides
    value = placed.residual.value
    return Judged(placed.residual, placed.name, -below80 <= value <= above80,
                  -below95 <= value <= above95, distances.score(value, below80, above80, 0.2),
                  distances.score(value, below95, above95, 0.05))


def judged(residuals):
    """Yields each residual judged by the interval of its class under its stack that is made without
    the residual's family."""
    placed, factors = distances.placed(residuals), {}
    for each in placed:
        stack, family = each.residual.stack, each.residual.family
        if (stack, family) not in factors:
            factors[stack, family] = distances.stack_factors(
                [one for one in placed
                 if one.residual.stack == stack and one.residual.family != family])
        yield judge(each, factors[stack, family])


def family_mean(pairs):
    """The mean of values, a family counted once. `pairs`: family and value."""
    families = collections.defaultdict(list)
    for family, value in pairs:
        families[family].append(value)
    return np.mean([np.mean(of) for of in families.values()])


def over_baseline(found, baseline, column):
    """The score of rows over their score in the baseline, or ""."""
    both = [each for each in found if each.residual.row in baseline]
    if not both:
        return ""
    now = family_mean((each.residual.family, getattr(each, column)) for each in both)
    then = family_mean((each.residual.family, baseline[each.residual.row][column])
                       for each in both)
    return f"{now / then:.2f}"


HEAD = ("| step price | rows | in 80% | families | in 80% | in 95% | score 80% | / baseline "
        "| score 95% | / baseline |\n|---|" + "---:|" * 9)


def line(label, found, baseline):
    def mean(column):
        return family_mean((each.residual.family, getattr(each, column)) for each in found)

    families = len({each.residual.family for each in found})
    rows = np.mean([each.in80 for each in found])
    return (f"| {label} | {len(found)} | {rows:.0%} | {families} | {mean('in80'):.0%} | "
            f"{mean('in95'):.0%} | {mean('score80'):.3f} | "
            f"{over_baseline(found, baseline, 'score80')} | {mean('score95'):.3f} | "
            f"{over_baseline(found, baseline, 'score95')} |")


def read_baseline():
    if not BASELINE.exists():
        return {}
    with open(BASELINE, newline="") as file:
        return {row["row"]: {name: float(row[name]) for name in ("score80", "score95")}
                for row in csv.DictReader(file)}


def write_baseline(found):
    with open(BASELINE, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("row", "score80", "score95"))
        for each in sorted(found, key=lambda each: each.residual.row):
            writer.writerow((each.residual.row, f"{each.score80:.3f}", f"{each.score95:.3f}"))


def tables(found, baseline):
    """The lines of the table: all rows, by what a prediction rests on, by class, by stack."""
    parts = [("all", found)]
    for base in BASES:
        parts.append((base, [f for f in found if f.residual.words.startswith(base)]))
    parts.append(("on GPUs after H100, TPU and V100",
                  [f for f in found if distances.is_on_hardware(f.name)]))
    for name in sorted({f.name for f in found}):
        parts.append(("class: " + name, [f for f in found if f.name == name]))
    for stack in sorted({f.residual.stack for f in found}):
        parts.append(("stack: " + stack, [f for f in found if f.residual.stack == stack]))
    return [HEAD, *(line(label, of, baseline) for label, of in parts if of)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--freeze", action="store_true", help="write interval-baseline.csv")
    freeze = parser.parse_args().freeze
    found = list(judged(distances.residuals(*fit_stacks.fit_everything())))
    print("\n".join(tables(found, {} if freeze else read_baseline())))
    if freeze:
        write_baseline(found)


if __name__ == "__main__":
    main()
