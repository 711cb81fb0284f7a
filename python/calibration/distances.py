"""Intervals by the basis of a prediction: the distance of measured from predicted times, class by
class, in rows that no fit had seen. Called by fit_stacks.py, which writes them into stacks.yaml,
and by accuracy.py, which prints their coverage.

Rows on newer GPUs are predicted without their family (fit_hardware.py); beside their exact classes
all rows of a kernel profile make one ("on TPU").

A class is four words that the program says of every prediction ("rests on"): is the stack fitted,
another's (kin) or unknown; is the run's configuration complete or partly assumed; dense or with
experts; is the GPU measured under that stack or scaled. A class of fewer than FEWEST rows takes the
intervals of the class without its last word.

Rows of fitted stacks are predicted with their own configuration (calibration rows) or their model
size (sweeps) left out of the fit; as kin, with their stack left out; as unknown, under the generic
stack, by a name that nobody knows.
"""

import collections

import fit_hardware
import numpy as np
import runs

FEWEST, FEWEST_ON_GPU = 30, 8
# Families that weigh as much as the factor 1 in the factors of a stack, and the families below
# which a stack narrows no interval.
PRIOR_FAMILIES, FEWEST_TO_NARROW = 2, 3
LEAST_FACTOR, MOST_FACTOR = 0.4, 4
SHARES = (0.8, 0.95)
# Residual: the class, the family left out together, log(measured / predicted), the id of the row
# and how it was predicted, and the stack.
Residual = collections.namedtuple("Residual", "words family value row stack")


def words_of(prediction):
    said = [w for w in prediction["reason"].split("; ") if w.startswith("rests on: ")]
    return said[0].removeprefix("rests on: ") if said else ""


def family_of(row):
    return row.get("family") or "/".join((row["source_key"], row["framework"], row["model"],
                                          row["gpu"]))


def residual_of(row, prediction, value, kin=False):
    """The residual of a row by its prediction; `kin`: its own stack had no part in the value."""
    words = replaced(words_of(prediction), "kin") if kin else words_of(prediction)
    return Residual(words, family_of(row), value, f"{row['id']} {'kin' if kin else 'own'}",
                    runs.stack_of(prediction))


def found_off(row, prediction):
    """Logarithm of measured over predicted time."""
    return np.log(row["measured"] / float(prediction["iter_time_s"]))


def as_unknown(rows):
    """The rows as published by a framework of which nothing is known."""
    anonymous = [dict(row, framework="a framework of one's own") for row in rows]
    return [residual_of(row, p, found_off(row, p))._replace(row=f"{row['id']} unknown")
            for row, p in zip(rows, runs.predict(anonymous)) if p["iter_time_s"]]


def replaced(words, first):
    return " ".join([first, *words.split()[1:]])


def on_hardware(hardware):
    """Open rows, each by a fit without its family. A class of newer GPUs ends with their kernel
    profile (gpu_word() in sim/estimates/predict/interval.cpp)."""
    found = []
    families = [row["family"] for row in hardware.rows]
    for row, h, p, value in zip(hardware.rows, hardware.hardware,
                                runs.predict(hardware.rows, hardware.stacks),
                                hardware.left_out(families)):
        made = residual_of(row, p, value)
        if h not in fit_hardware.OLDER:
            words = " ".join(made.words.split()[:-1] + [h.profile or "TPU"])
            made = made._replace(words=words)
        found.append(made)
    return found


def residuals(fit, within, between, sweeps, hardware):
    found = on_hardware(hardware)
    known = {row["id"] for row in hardware.rows}
    for row, p, w, b in zip(fit.rows, runs.predict(fit.rows), within, between):
        found += [residual_of(row, p, w), residual_of(row, p, b, kin=True)]
    out = sweeps.measured - sweeps.left_out([row["model"] for row in sweeps.rows])
    for row, p, value in zip(sweeps.rows, runs.predict(sweeps.rows), out):
        made = residual_of(row, p, value)
        found.append(made._replace(words=replaced(made.words, "fitted")))
    open_rows = [row for row in runs.open_rows() if row["measured"] and not row["duplicate_of"] and
                 row["id"] not in known]
    timed = [row for row in runs.measured_rows() if row["measured"]]
    tests = [row for row in timed if row["split"] != "calibration" and row["usable"] == "iteration"]
    for rows in (open_rows, tests):
        found += [residual_of(row, p, found_off(row, p))
                  for row, p in zip(rows, runs.predict(rows)) if p["iter_time_s"]]
    return found + as_unknown(fit.rows) + as_unknown(tests) + as_unknown(sweeps.rows)


def prefixes(words):
    split = words.split()
    return [" ".join(split[:n]) for n in range(len(split), 0, -1)]


def is_on_hardware(name):
    """Whether the residuals of a class are of newer GPUs, each already without its family."""
    return name.split()[-1] not in ("measured", "scaled", *("fitted kin unknown complete assumed "
                                                            "dense experts").split())


def family_weights(of):
    """The weights of residuals of which a family counts once."""
    count = collections.Counter(each.family for each in of)
    return np.array([1 / count[each.family] for each in of])


def quantiles(values, weights, shares):
    """Weighted quantiles, linear between the middles of the weights."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return np.interp(shares, (reached - weights[order] / 2) / reached[-1], values[order])


def least_above(values, weights, share):
    """The least of the values that has at least this share of the weights up to itself."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / np.sum(weights)
    return float(values[order][min(np.searchsorted(reached, share - 1e-9), len(order) - 1)])


def held_bounds(of):
    """Both sides of the intervals of held-out residuals, the same below and above: families are too
    few for sides of their own."""
    size, weights = np.abs([each.value for each in of]), family_weights(of)
    sides = [max(0.01, least_above(size, weights, share)) for share in SHARES]
    sides[1] = max(sides[1], 1.1 * sides[0])
    return np.array([sides[0], sides[0], sides[1], sides[1]])


def classes(all_residuals):
    """Residuals by class and by every beginning of its words, those with enough rows."""
    groups = collections.defaultdict(list)
    for each in all_residuals:
        last = each.words.split()[-1] if each.words else ""
        # A newer GPU's rows say nothing of A100 and H100: they have classes of their own.
        names = (prefixes(each.words) if last in ("measured", "scaled", "") else
                 [each.words, "on " + last])
        for name in names:
            groups[name].append(each)
    return {name: of for name, of in sorted(groups.items())
            if len(of) >= (FEWEST_ON_GPU if name.startswith("on ") else FEWEST)}


def by_family(of):
    """The values of a class's residuals, an array a family."""
    families = collections.defaultdict(list)
    for each in of:
        families[each.family].append(each.value)
    return [np.array(values) for values in families.values()]


def group_weights(groups):
    return np.concatenate([np.full(len(values), 1 / len(values)) for values in groups])


def bounds(groups):
    """Both sides of the 80% and the 95% interval of families, at least one percent each."""
    low80, high80, low95, high95 = quantiles(np.concatenate(groups), group_weights(groups),
                                             (0.1, 0.9, 0.025, 0.975))
    return np.maximum(0.01, [-low80, high80, -low95, high95])


def times_too_narrow(groups):
    """Returns the factors by which the 80% and the 95% interval of the other families would have to
    be wider to contain each value: two arrays."""
    factors = ([], [])
    for i, values in enumerate(groups):
        others = groups[:i] + groups[i + 1:] or groups
        sides = bounds(others).reshape(2, 2)
        for found, (below, above) in zip(factors, sides):
            found.append(np.where(values < 0, -values / below, values / above))
    return [np.concatenate(each) for each in factors]


def widened_bounds(of):
    """Quantiles of a class know its families; a new one differs from all of them. Both intervals
    are widened until those made without a family hold as many of its rows as they should (CV+ of
    arXiv:1905.02928, a family at a time)."""
    groups = by_family(of)
    weights = group_weights(groups)
    factor80, factor95 = (max(1.0, least_above(factors, weights, share))
                          for factors, share in zip(times_too_narrow(groups), SHARES))
    found = bounds(groups) * [factor80, factor80, factor95, factor95]
    return ordered(found)


def ordered(sides):
    """The sides with a 95% interval that is wider than the 80% interval."""
    return np.concatenate([sides[:2], np.maximum(sides[2:], 1.05 * sides[:2])])


def bounds_of(name, of):
    """Both sides of the 80% and of the 95% interval of a class."""
    return held_bounds(of) if is_on_hardware(name) else widened_bounds(of)


def used_class(words, known):
    """The class whose interval the program uses (distance_named() in interval.cpp)."""
    on_gpu = "on " + words.split()[-1]
    for name in prefixes(words):
        if name in known:
            return name
        if on_gpu in known:
            return on_gpu
    return None


#: A residual, its class, the interval of that class without the residual's family, and the part of
#: its sides at which the value lies, in the 80% and in the 95% interval.
Placed = collections.namedtuple("Placed", "residual name sides at80 at95")


def placed(all_residuals):
    """Places residuals in the intervals of their classes, made without their family each. A family
    that is the only one of its class has no such interval and is left out."""
    groups, made, found = classes(all_residuals), {}, []
    for each in all_residuals:
        name = used_class(each.words, groups)
        if name is None:
            continue
        if (name, each.family) not in made:
            others = [one for one in groups[name] if one.family != each.family]
            made[name, each.family] = bounds_of(name, others) if others else None
        sides = made[name, each.family]
        if sides is not None:
            at = abs(each.value) / sides[[0, 2] if each.value < 0 else [1, 3]]
            found.append(Placed(each, name, sides, *at))
    return found


def stack_factors(of):
    """The factors of the widths of both intervals for the placed residuals of one stack."""
    if not of:
        return np.ones(2)
    residuals_of = [each.residual for each in of]
    weights, families = family_weights(residuals_of), len({r.family for r in residuals_of})
    found = []
    for values, share in zip(([p.at80 for p in of], [p.at95 for p in of]), SHARES):
        reached = max(1e-3, least_above(np.array(values), weights, share))
        factor = reached ** (families / (families + PRIOR_FAMILIES))
        least = LEAST_FACTOR if families >= FEWEST_TO_NARROW else 1
        found.append(np.clip(factor, least, MOST_FACTOR))
    return np.array(found)


def line(name, sides):
    b80, a80, b95, a95 = sides
    return (f"  - name: {name}\n    below_80: {b80:.4g}\n    above_80: {a80:.4g}\n"
            f"    below_95: {b95:.4g}\n    above_95: {a95:.4g}\n")


def catalogue(all_residuals):
    text = "distances:\n"
    for name, of in classes(all_residuals).items():
        text += line(name, bounds_of(name, of))
    by_stack = collections.defaultdict(list)
    for each in placed(all_residuals):
        by_stack[each.residual.stack].append(each)
    for stack, of in sorted(by_stack.items()):
        text += line(f"under {stack}", np.repeat(stack_factors(of), 2))
    return text


def score(value, below, above, outside):
    """Interval score of a residual (Gneiting and Raftery, doi:10.1198/016214506000001437): the
    width, and for a value outside its distance from the interval times 2 / `outside`, the share of
    values that should be outside. Smaller is better."""
    return below + above + 2 / outside * max(0.0, -below - value, value - above)


Coverage = collections.namedtuple("Coverage", "families plain80 plain95 held80 held95 width80")


def coverage(of, name=""):
    """Shares of a class's rows inside intervals made without their family, as the quantiles are and
    widened, and the width of the widened 80% interval. A family counts once."""
    if name and is_on_hardware(name):
        size, weights = np.abs([each.value for each in of]), family_weights(of)
        _, a80, _, a95 = held_bounds(of)
        inside80, inside95 = (np.average(size <= side, weights=weights) for side in (a80, a95))
        return Coverage(len(by_family(of)), inside80, inside95, inside80, inside95,
                        np.exp(a80) - np.exp(-a80))
    groups = by_family(of)
    weights = group_weights(groups)
    narrow80, narrow95 = times_too_narrow(groups)
    plain = bounds(groups)
    b80, a80, _, a95 = widened_bounds(of)
    inside = [np.average(narrow <= most, weights=weights)
              for narrow, most in ((narrow80, 1), (narrow95, 1), (narrow80, a80 / plain[1]),
                                   (narrow95, a95 / plain[3]))]
    return Coverage(len(groups), *inside, np.exp(a80) - np.exp(-b80))
