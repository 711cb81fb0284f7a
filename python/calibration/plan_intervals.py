"""Coverage of the dates of `orrery plan` by runs that no fit had seen.

    python3 python/calibration/plan_intervals.py

The interval of a date, with failures and the error of the step price, is that of the step price,
times the number of steps, spread by the failures (docs/plan.md). Published runs state the time of
their steps and no failures, so that a date without failures is compared: it lies between P10 and
P90 if the measured step time lies in the 80% interval of the prediction. Every row is predicted by
factors that have not seen its family, configuration or stack, and its interval is made from the
residuals of the other families. A family counts once in `families`, each row once in `rows`.
"""

import collections

import distances
import fit_stacks
import numpy as np

BASES = ("fitted", "kin", "unknown")


def used_class(words, known):
    """The class whose interval the program uses (distance_named() in interval.cpp)."""
    on_gpu = "on " + words.split()[-1]
    for name in distances.prefixes(words):
        if name in known:
            return name
        if on_gpu in known:
            return on_gpu
    return None


def bounds_of(name, of):
    found = (distances.held_bounds if distances.is_on_hardware(name) else
             distances.widened_bounds)(of)
    return found[:2]


def covered(residuals):
    """Yields each residual with its class, and whether the interval of that class made without the
    residual's family contains it."""
    groups = distances.classes(residuals)
    bounds = {}
    for each in residuals:
        name = used_class(each.words, groups)
        if name is None:
            continue
        if (name, each.family) not in bounds:
            others = [one for one in groups[name] if one.family != each.family]
            bounds[name, each.family] = bounds_of(name, others) if others else None
        if bounds[name, each.family] is None:
            continue  # the only family of its class: no interval without it
        below, above = bounds[name, each.family]
        yield each, name, -below <= each.value <= above


def line(label, found):
    families = collections.defaultdict(list)
    for each, _, inside in found:
        families[each.family].append(inside)
    rows = np.mean([inside for _, _, inside in found])
    whole = np.mean([np.mean(of) for of in families.values()])
    return f"| {label} | {len(found)} | {rows:.0%} | {len(families)} | {whole:.0%} |"


def main():
    residuals = distances.residuals(*fit_stacks.fit_everything())
    found = list(covered(residuals))
    print("| step price | rows | in 80% | families | in 80% |\n|---|---:|---:|---:|---:|")
    print(line("all", found))
    for base in BASES:
        print(line(base, [f for f in found if f[0].words.startswith(base)]))
    on_newer = [f for f in found if distances.is_on_hardware(f[1])]
    print(line("on GPUs after H100, TPU and V100", on_newer))
    for name in sorted({f[1] for f in found}):
        print(line("class: " + name, [f for f in found if f[1] == name]))


if __name__ == "__main__":
    main()
