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


def held_bounds(of):
    """Both sides of the intervals of held-out residuals, the same below and above: families are too
    few for sides of their own. A family counts once."""
    count = collections.Counter(each.family for each in of)
    size = np.abs([each.value for each in of])
    order = np.argsort(size, kind="stable")
    reached = np.cumsum([1 / count[of[i].family] for i in order]) / len(count)
    sides = [max(0.01, float(size[order][min(np.searchsorted(reached, share - 1e-9), len(of) - 1)]))
             for share in (0.8, 0.95)]
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


def bounds(values):
    """Both sides of the 80% and the 95% interval, at least one percent each."""
    low80, high80, low95, high95 = np.quantile(values, (0.1, 0.9, 0.025, 0.975))
    return np.maximum(0.01, [-low80, high80, -low95, high95])


def by_family(of):
    """The values of a class's residuals, an array a family."""
    families = collections.defaultdict(list)
    for each in of:
        families[each.family].append(each.value)
    return [np.array(values) for values in families.values()]


def times_too_narrow(groups):
    """Returns the factors by which the 80% and the 95% interval of the other families would have to
    be wider to contain each value: two arrays."""
    factors = ([], [])
    for i, values in enumerate(groups):
        others = groups[:i] + groups[i + 1:] or groups
        sides = bounds(np.concatenate(others)).reshape(2, 2)
        for found, (below, above) in zip(factors, sides):
            found.append(np.where(values < 0, -values / below, values / above))
    return [np.concatenate(each) for each in factors]


def widened_bounds(of):
    """Quantiles of a class know its families; a new one differs from all of them. Both intervals
    are widened until those made without a family hold as many of its rows as they should (CV+ of
    arXiv:1905.02928, a family at a time)."""
    groups = by_family(of)
    factor80, factor95 = (max(1.0, np.quantile(factors, share, method="higher"))
                          for factors, share in zip(times_too_narrow(groups), (0.8, 0.95)))
    return bounds(np.concatenate(groups)) * [factor80, factor80, factor95, factor95]


def catalogue(all_residuals):
    text = "distances:\n"
    for name, of in classes(all_residuals).items():
        b80, a80, b95, a95 = held_bounds(of) if is_on_hardware(name) else widened_bounds(of)
        text += (f"  - name: {name}\n    below_80: {b80:.4g}\n    above_80: {a80:.4g}\n"
                 f"    below_95: {b95:.4g}\n    above_95: {a95:.4g}\n")
    return text


def score(value, below, above, outside):
    """Interval score of a residual (Gneiting and Raftery, doi:10.1198/016214506000001437): the
    width, and for a value outside its distance from the interval times 2 / `outside`, the share of
    values that should be outside. Smaller is better."""
    return below + above + 2 / outside * max(0.0, -below - value, value - above)


Coverage = collections.namedtuple("Coverage", "families plain80 plain95 held80 held95 width80")


def coverage(of, name=""):
    """Shares of a class's rows inside intervals made without their family, as the quantiles are and
    widened, and the width of the widened 80% interval."""
    if name and is_on_hardware(name):
        size = np.abs([each.value for each in of])
        _, a80, _, a95 = held_bounds(of)
        inside80, inside95 = (size <= a80).mean(), (size <= a95).mean()
        return Coverage(len(by_family(of)), inside80, inside95, inside80, inside95,
                        np.exp(a80) - np.exp(-a80))
    groups = by_family(of)
    narrow80, narrow95 = times_too_narrow(groups)
    plain = bounds(np.concatenate(groups))
    b80, a80, _, a95 = widened_bounds(of)
    return Coverage(len(groups), (narrow80 <= 1).mean(), (narrow95 <= 1).mean(),
                    (narrow80 <= a80 / plain[1]).mean(), (narrow95 <= a95 / plain[3]).mean(),
                    np.exp(a80) - np.exp(-b80))
