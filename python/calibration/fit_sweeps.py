"""Fits the stacks that have layout sweeps of their own, minimising error of time and wrong order.

Called by fit_stacks.py, which writes what it returns into traces/catalog/stacks.yaml. A stack's
factors start from physics (launching a layer from Python takes about a millisecond, an optimizer
reads and writes its state once), each pulled back by a prior; nothing here is shared with the
stacks of fit_stacks.py, so sweeps of one cluster cannot move another framework's numbers.

The objective is a robust sum (a single iteration is off by a factor now and then) over

- rows: log(measured / predicted), weighted by NOISE, and
- pairs of one sweep (a model on a number of GPUs) that differ by more than MARGIN and are predicted
  in the wrong order: how far the predicted difference is from the measured one.

    python3 python/calibration/fit_sweeps.py    # fit and print
"""

import collections
import sys

import numpy as np
import runs

NOISE = 0.08  # deviation of one iteration
MARGIN = np.log(1.05)  # pairs nearer than that have no order
PAIR = 0.5  # weight of a wrongly ordered pair, of a row's; a row's pairs together count at most 2
STEPS = 3  # steps of Gauss-Newton; the search starts near
DELTA = 0.05  # step of finite differences
LONGEST = 0.7  # step of a factor's logarithm

# A factor, where its search starts and the standard deviation of its logarithm. Times in us.
Factor = collections.namedtuple("Factor", "name start sd")
TIMES = ("layer_gap", "step_gap", "host_layer", "host_tensor", "host_stages", "transfer_gap",
         "transfer_stall", "group_gap", "host_update")  # fmt: skip
EAGER = (
    Factor("gemm", 0.95, 0.1), Factor("attention", 0.9, 0.2), Factor("memory_bytes", 1, 0.3),
    Factor("layer_gap", 10, 1), Factor("step_gap", 2e4, 1), Factor("host_update", 1000, 1),
    Factor("host_layer", 1100, 1), Factor("host_tensor", 1100, 1), Factor("host_stages", 900, 1),
    Factor("transfer_gap", 400, 1), Factor("transfer_stall", 4.5e5, 0.3),
    Factor("group_gap", 5000, 1), Factor("latency", 9, 1), Factor("network", 0.9, 0.3),
    Factor("nvlink", 1, 0.2), Factor("update_bytes", 1, 0.3), Factor("loss_bytes", 1, 0.3),
    Factor("compute", 0.76, 0.1),
)  # fmt: skip

# Memory beyond that of fused kernels, counted in nanotron's modules: rotated queries and keys, the
# activation apart from its product, logits in 16 and 32 bits and their gradients, a 16-bit gradient
# beside the fp32 one. Both model sizes keep as many bytes a token of gathered inputs (13 kB each
# where tensors are split most, less where the host is not ahead).
MEMORY = {"kept_queries": 1.8, "kept_inner": 2, "kept_gathered": 11400, "logit_bytes": 9.5,
          "parameter_bytes": 2.1}  # fmt: skip


def stack_text(name, factors, x, source="a fit", measured=False):
    lines = [f"  - name: {name}"]
    for factor, value in zip(factors, x):
        if factor.name == "compute":
            continue
        unit = " us" if factor.name in TIMES else ""
        lines.append(f"    {factor.name}: {factor.start * np.exp(value):.4g}{unit}")
    lines += [f"    {key}: {value}" for key, value in MEMORY.items()]
    found = [f.start * np.exp(value) for f, value in zip(factors, x) if f.name == "compute"]
    lines += ["    spread: 0.104", "    on:",
              "      - gpus: [H100, H800, H200, H100-96GB-HBM2e-500W]", "        family: H100",
              f"        compute: {found[0]:.4g}", "        spread: 0.08"]  # fmt: skip
    lines += ["        measured: [dense 16]"] if measured else []
    lines += ["    source:", f'      - "{source}"']
    return "\n".join(lines) + "\n"


def sweep_of(row):
    return row["model"], int(row["n_gpus"])


def pairs_of(rows, measured):
    """Indices of rows of one sweep that differ by more than MARGIN, the faster one first."""
    first, second = [], []
    by_sweep = collections.defaultdict(list)
    for i, row in enumerate(rows):
        by_sweep[sweep_of(row)].append(i)
    for at in by_sweep.values():
        at = np.array(at)
        a, b = np.triu_indices(len(at), 1)
        a, b = at[a], at[b]
        swap = measured[a] > measured[b]
        a, b = np.where(swap, b, a), np.where(swap, a, b)
        apart = measured[b] - measured[a] > MARGIN
        first.append(a[apart])
        second.append(b[apart])
    return np.concatenate(first), np.concatenate(second)


class SweepFit:
    def __init__(self, name, factors, rows):
        self.name, self.factors, self.rows = name, factors, rows
        self.sd = np.array([factor.sd for factor in factors])
        self.measured = np.log([row["measured"] for row in rows])
        self.pairs = pairs_of(rows, self.measured)
        sizes = collections.Counter(sweep_of(row) for row in rows)
        size = np.array([sizes[sweep_of(row)] for row in rows], float)
        self.pair_weight = PAIR * np.sqrt(2 / size[self.pairs[0]])

    def log_times(self, x):
        text = "stacks:\n" + stack_text(self.name, self.factors, x)
        return np.log(runs.times(runs.predict(self.rows, text)))

    def linearise(self, x):
        base = self.log_times(x)
        design = np.zeros((len(base), len(x)))
        for j in range(len(x)):
            moved = x.copy()
            moved[j] += DELTA
            design[:, j] = (self.log_times(moved) - base) / DELTA
        return base, design

    def solve(self, x, base, design, keep):
        """Robust ridge, reweighted, over the rows of `keep`."""
        target = self.measured - base + design @ x
        faster, slower = self.pairs
        inside = keep[faster] & keep[slower]
        faster, slower, weight = faster[inside], slower[inside], self.pair_weight[inside]
        found = x
        for _ in range(8):
            left = target - design @ found
            rows = keep / NOISE / np.sqrt(1 + (left / NOISE) ** 2)
            predicted = base + design @ (found - x)
            wrong = predicted[faster] >= predicted[slower]
            apart = left[slower] - left[faster]
            pairs = wrong * weight / NOISE / (1 + (apart / NOISE) ** 2)
            difference = design[slower] - design[faster]
            a = np.vstack([design * rows[:, None], difference * pairs[:, None],
                           np.diag(1 / self.sd)])
            b = np.concatenate([target * rows, (target[slower] - target[faster]) * pairs,
                                np.zeros(len(x))])
            found = np.linalg.lstsq(a, b, rcond=None)[0]
        return found

    def run(self):
        x, every = np.zeros(len(self.factors)), np.ones(len(self.rows), bool)
        for _ in range(STEPS):
            base, design = self.linearise(x)
            x = x + np.clip(self.solve(x, base, design, every) - x, -LONGEST, LONGEST)
        self.x = x
        self.base, self.design = self.linearise(x)
        return self

    def left_out(self, leave):
        """Logarithms of predicted times, each row by a fit to those that `leave` does not name like
        it (linear round the solution)."""
        predicted = np.full(len(self.rows), np.nan)
        for name in sorted(set(leave)):
            out = np.array([each == name for each in leave])
            x = self.solve(self.x, self.base, self.design, ~out)
            predicted[out] = (self.base + self.design @ (x - self.x))[out]
        return predicted


def fit_nanotron():
    rows = [row for row in runs.sweep_rows() if row["measured"] and row["clean"] == "yes"]
    return SweepFit("nanotron", EAGER, rows).run()


def catalogue(fit):
    text = stack_text(fit.name, fit.factors, fit.x,
                      f"{len(fit.rows)} clean rows of nanotron_ultrascale (layout sweeps)", True)
    # Launched from Python as well; no rows of its own. It does not poll (docs/accuracy.md).
    known = [factor.name != "transfer_stall" for factor in fit.factors]
    other = stack_text("pytorch-eager", [f for f, keep in zip(fit.factors, known) if keep],
                       fit.x[known], "no rows of its own; factors of nanotron")
    return text + other.replace("    spread: 0.104\n", "    spread: 0.2\n    kin: nanotron\n")


def main():
    fit = fit_nanotron()
    print(catalogue(fit))
    for name, keys in (("model size", [row["model"] for row in fit.rows]),
                       ("GPU count", [row["n_gpus"] for row in fit.rows])):
        error = np.abs(np.expm1(fit.left_out(keys) - fit.measured))
        print(f"{name} left out: mean {error.mean():.1%}, median {np.median(error):.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
