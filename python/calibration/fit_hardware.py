"""Fits one compute factor per newer GPU and software stack to published training runs
(runs-open.csv), for fit_stacks.py, and prints the errors with a family of runs left out.

The logarithm of the factor is a sum of effects, each drawn to its mean by a prior (a ridge): of the
vendor's generation, of the GPU, of stack and generation together, of products below 16 bits and of
models with experts on the generation. The priors were chosen among seven for the errors below. All
other factors of a stack are those that fit_stacks.py finds on A100 and H100. A GPU without a row
takes the mean of its relatives', a stack without a row on a GPU the GPU's.

    python3 python/calibration/fit_hardware.py    # print, and write the part of the page
"""

import collections
import sys

import numpy as np
import page
import runs

PART = "hardware"
# Rows that validate only: no licence was found, or their kernels are priced from a table of their
# own (`orrery calibrate --kernels`).
VALIDATE = ("hy3tpu", "hy3gb300", "pedgb", "simumax_b200")
# Effects of the compute rate: mean and standard deviation of the logarithm. Training runs reach
# about four fifths of what isolated kernels do, as on H100.
GPU_MEAN, GROUP_SD, GPU_SD = np.log(0.78), 0.4, 0.6
BOTH_SD, LOW_SD, EXPERTS_SD = 0.12, 0.5, 0.6
NOISE, DELTA, STEPS = 0.08, 0.05, 5
LEAST, MOST = np.log(0.15), np.log(5)
# Blackwell is at least as good as Hopper in every figure of the data sheet, so no run may be slower
# on it (monotone.py): its factor, that of experts included, is at least this share of H100's.
OVER_H100 = np.log(0.72)

# GPUs that share an effect: name, catalogue names, kernel profile, and first letters of a table's
# GPU.
Hardware = collections.namedtuple("Hardware", "name gpus profile begins group")
HARDWARE = (
    Hardware("B200", ["B200"], "B200", ("B200",), "Blackwell"),
    Hardware("B300", ["B300"], "B200", ("B300",), "Blackwell"),
    Hardware("GB200", ["GB200"], "B200", ("GB200",), "Blackwell"),
    Hardware("GB300", ["GB300"], "B200", ("GB300",), "Blackwell"),
    Hardware("MI300X", ["MI300X", "MI325X"], "MI300X", ("MI300X", "MI325X"), "AMD"),
    Hardware("MI355X", ["MI355X", "MI350X"], "MI355X", ("MI355X", "MI350X"), "AMD"),
    Hardware("TPU-v5e", ["TPU-v5e"], "", ("TPU-v5e",), "TPU"),
    Hardware("TPU-v5p", ["TPU-v5p"], "", ("TPU-v5p",), "TPU"),
    Hardware("TPU-v6e", ["TPU-v6e"], "", ("TPU-v6e",), "TPU"),
    Hardware("TPU-7x", ["TPU-7x"], "TPU", ("TPU7x",), "TPU"),
    Hardware("V100", ["V100-16GB", "V100-32GB"], "V100", ("V100",), "V100"),
)
LOW = ("fp8", "fp4")


def hardware_of(gpu):
    return next((h for h in HARDWARE if gpu.startswith(h.begins)), None)


def class_of(row):
    """The class of a run, as StackOnGpu.measured names it."""
    text = row["precision"].lower()
    bits = 4 if "fp4" in text else 8 if "fp8" in text else 16
    has_fp8 = not row["gpu"].startswith(("V100", "TPU-v"))
    return f"{'experts' if row['moe_experts'] else 'dense'} {bits if has_fp8 else 16}"


def usable_rows():
    """Rows on newer GPUs with everything that a step depends on, each configuration once."""
    return [row for row in runs.open_rows()
            if hardware_of(row["gpu"]) and row["measured"] and row["usable"] == "iteration" and
            not row["duplicate_of"]]


def names_of(text):
    """The names of the stacks of a stacks.yaml."""
    return [block.split("\n", 1)[0] for block in text.split("  - name: ")[1:]]


def on_h100(text):
    """Logarithms of the compute factor on H100 by stack."""
    found, name, here = {}, "", False
    for line in text.splitlines():
        if line.startswith("  - name: "):
            name = line.removeprefix("  - name: ")
        elif line.startswith("      - gpus: ["):
            here = "H100" in line.split("[")[1].strip("]").split(", ")
        elif line.startswith("        compute: ") and here:
            found[name] = float(np.log(float(line.split(": ")[1])))
    return found


def with_entries(text, entries):
    """The text of a stacks.yaml whose stacks have these further entries of `on`, text by stack."""
    blocks = text.split("  - name: ")
    made = [blocks[0]]
    for block in blocks[1:]:
        name = block.split("\n", 1)[0]
        added = entries.get(name, "")
        head, source = block.split("    source:\n", 1)
        if name == "generic":  # kernels as they were measured, and nothing else
            added = ""
        elif "    on:\n" not in head:
            head += "    on:\n"
        made.append(head + added + "    source:\n" + source)
    return "  - name: ".join(made)


class HardwareFit:
    """Rows, the stacks that predict them, and the effects as one vector. `stacks`: text of a
    stacks.yaml without entries for the newer GPUs."""

    def __init__(self, stacks):
        self.stacks = stacks
        rows = usable_rows()
        found = runs.predict(rows, stacks)
        keep = [p["iter_time_s"] != "" for p in found]
        self.on_h100 = on_h100(stacks)
        self.unsupported = [(row, p) for row, p, k in zip(rows, found, keep) if not k]
        self.rows = [row for row, k in zip(rows, keep) if k]
        self.stack = [runs.stack_of(p) for p, k in zip(found, keep) if k]
        self.hardware = [hardware_of(row["gpu"]) for row in self.rows]
        self.low = [not class_of(row).endswith("16") for row in self.rows]
        self.experts = [bool(row["moe_experts"]) for row in self.rows]
        self.measured = np.log([row["measured"] for row in self.rows])
        self.fitted = np.array([row["source_key"] not in VALIDATE for row in self.rows])
        count = collections.Counter(row["family"] for row in self.rows)
        self.weight = np.array([count[row["family"]] ** -0.5 for row in self.rows]) / NOISE
        self.index, mean, sd = {}, [], []

        def add(key, m, s):
            if key not in self.index:
                self.index[key] = len(mean)
                mean.append(m)
                sd.append(s)

        for h in HARDWARE:
            add(("group", h.group), GPU_MEAN, GROUP_SD)
            add(("gpu", h.name), 0, GPU_SD)
            add(("low", h.group), 0, LOW_SD)
            add(("experts", h.group), 0, EXPERTS_SD)
        for stack, h in zip(self.stack, self.hardware):
            add(("both", stack, h.group), 0, BOTH_SD)
        self.mean, self.sd = np.array(mean), np.array(sd)

    def parts(self, i):
        h = self.hardware[i]
        found = [self.index["group", h.group], self.index["gpu", h.name],
                 self.index["both", self.stack[i], h.group]]
        return found, self.index["low", h.group], self.index["experts", h.group]

    def least(self, stack, hardware):
        """The least logarithm of the compute factor of a stack on a GPU."""
        bound = hardware.group == "Blackwell" and stack in self.on_h100
        return self.on_h100[stack] + OVER_H100 if bound else LEAST

    def lift(self, x):
        """Logarithms by which least() raises the factor of each row."""
        found = np.zeros(len(self.rows))
        for i, (stack, h) in enumerate(zip(self.stack, self.hardware)):
            parts, _, experts = self.parts(i)
            factor = x[parts].sum() + (x[experts] if self.experts[i] else 0)
            found[i] = max(0, self.least(stack, h) - factor)
        return found

    def value(self, x, *keys):
        return sum(x[self.index[key]] for key in keys if key in self.index)

    def entry(self, x, stack, hardware, moved, measured=()):
        shift = moved or {}
        compute = self.value(x, ("group", hardware.group), ("gpu", hardware.name),
                             ("both", stack, hardware.group)) + shift.get("compute", 0)
        low = self.value(x, ("low", hardware.group)) + shift.get("low", 0)
        experts = self.value(x, ("experts", hardware.group)) + shift.get("experts", 0)
        if moved is None:
            compute = max(compute, self.least(stack, hardware))
            experts = max(experts, self.least(stack, hardware) - compute)
        lines = [f"      - gpus: [{', '.join(hardware.gpus)}]"]
        if hardware.profile:
            lines.append(f"        family: {hardware.profile}")
        for name, value in (("compute", compute), ("low", low), ("experts", experts)):
            lines.append(f"        {name}: {np.exp(np.clip(value, LEAST, MOST)):.4g}")
        if measured:
            lines.append(f"        measured: [{', '.join(measured)}]")
        return lines

    def entries(self, x, moved=None):
        """Text of the entries by stack. `moved`: effects to increase, for a derivative, without
        least()."""
        classes = collections.defaultdict(set)
        for row, stack, h, fitted in zip(self.rows, self.stack, self.hardware, self.fitted):
            if fitted:
                classes[stack, h.name].add(class_of(row))
        made = {}
        for stack in names_of(self.stacks):
            lines = []
            for h in HARDWARE:
                lines += self.entry(x, stack, h, moved, sorted(classes[stack, h.name]))
            made[stack] = "\n".join(lines) + "\n"
        return made

    def log_times(self, x, moved=None):
        text = with_entries(self.stacks, self.entries(x, moved))
        return np.log(runs.times(runs.predict(self.rows, text)))

    def linearise(self, x):
        base = self.log_times(x, {"compute": 0})
        slopes = {name: (self.log_times(x, {name: DELTA}) - base) / DELTA
                  for name in ("compute", "low", "experts")}
        design = np.zeros((len(self.rows), len(x)))
        for i in range(len(self.rows)):
            compute, low, experts = self.parts(i)
            design[i, compute] = slopes["compute"][i]
            if self.low[i]:
                design[i, low] = slopes["low"][i]
            if self.experts[i]:
                design[i, experts] = slopes["experts"][i]
        return base, design

    def solve(self, design, target, keep):
        """Ridge with weights that bound the pull of rows far off (iterated least squares)."""
        x = self.mean
        for _ in range(12):
            left = target - design @ x
            weight = self.weight * keep / np.sqrt(1 + (left / (2 * NOISE)) ** 2)
            a = np.vstack([design * weight[:, None], np.diag(1 / self.sd)])
            b = np.concatenate([target * weight, self.mean / self.sd])
            x = np.linalg.lstsq(a, b, rcond=None)[0]
        return x

    def run(self):
        x = self.mean
        for _ in range(STEPS):
            base, design = self.linearise(x)
            x = self.solve(design, self.measured - base + design @ x, self.fitted)
        self.x = x
        self.base, self.design = self.linearise(x)
        return self

    def left_out(self, leave):
        """Logarithms of measured over predicted time, each row by a fit to those that `leave` does
        not name like it (linear round the solution)."""
        target = self.measured - self.base + self.design @ self.x
        residual = np.full(len(self.rows), np.nan)
        for name in sorted(set(leave)):
            out = np.array([each == name for each in leave])
            x = self.solve(self.design, target, self.fitted & ~out)
            slope = np.array([self.design[i, self.parts(i)[0][0]] for i in range(len(self.rows))])
            residual[out] = (target - self.design @ x - slope * self.lift(x))[out]
        return residual


def catalogue(fit):
    """The text of the stacks with the entries of the newer GPUs."""
    return with_entries(fit.stacks, fit.entries(fit.x))


def family_errors(fit, residual):
    """Absolute errors by group of GPUs: medians of each family's rows, and of all rows."""
    error = np.expm1(-residual)
    found = {}
    for group in dict.fromkeys(h.group for h in HARDWARE):
        by_family = collections.defaultdict(list)
        for row, h, e in zip(fit.rows, fit.hardware, error):
            if h.group == group:
                by_family[row["family"]].append(abs(e))
        found[group] = by_family
    return found


def group_table(fit, by_family, by_source):
    lines = ["| hardware | rows | families | median over families | median over rows | "
             "worst decile | source left out, over families |", "|---" * 7 + "|"]
    other = family_errors(fit, by_source)
    for group, families in family_errors(fit, by_family).items():
        if not families:
            continue
        rows = np.concatenate([np.array(f) for f in families.values()])
        medians = [np.median(f) for f in families.values()]
        by_sources = [np.median(f) for f in other[group].values()]
        lines.append(f"| {group} | {len(rows)} | {len(families)} | {np.median(medians):.1%} | "
                     f"{np.median(rows):.1%} | {np.quantile(rows, 0.9):.1%} | "
                     f"{np.median(by_sources):.1%} |")
    return "\n".join(lines)


def rank(a, b):
    if len(a) < 10 or len(set(b)) < 3:
        return ""
    order = [np.argsort(np.argsort(v)) for v in (a, b)]
    return f"{np.corrcoef(*order)[0, 1]:.2f}"


def source_table(fit, by_family):
    lines = ["| source | hardware | stack | fitted | rows | family left out: median | bias | worst "
             "| rank |", "|---" * 9 + "|"]
    keys = [(row["source_key"], h.group, stack, "yes" if fitted else "no")
            for row, h, stack, fitted in zip(fit.rows, fit.hardware, fit.stack, fit.fitted)]
    error = np.expm1(-by_family)
    for key in sorted(set(keys)):
        at = np.array([k == key for k in keys])
        lines.append("| " + " | ".join(key) + f" | {at.sum()} | {np.median(abs(error[at])):.1%} | "
                     f"{np.median(error[at]):+.1%} | {abs(error[at]).max():.1%} | "
                     f"{rank((fit.measured - by_family)[at], fit.measured[at])} |")
    return "\n".join(lines)


TEXT = """\
## Hardware, with the family left out

Written by `python3 python/calibration/fit_hardware.py`: runs of runs-open.csv on GPUs newer or
older than A100 and H100, under factors of a fit that has not seen the row's family (a model on a
GPU under a framework, as the table names it) or, in the last column, the row's source. Errors are
of the time of a step; a family counts once. The widths of the fit's priors were chosen for these
errors, so they are a little better than a new family's. `fitted` is `no` for sources without a
licence file and for the node whose kernels have a table of their own; these validate only.

{groups}

{sources}

Not priced: {unsupported}.
"""


def refusals(fit):
    count = collections.Counter()
    for row, p in fit.unsupported:
        count[f"{row['source_key']} on {row['gpu']}: {p['reason']}"] += 1
    return "; ".join(f"{n} of {text}" for text, n in sorted(count.items())) or "nothing"


def page_text(fit):
    by_family = fit.left_out([row["family"] for row in fit.rows])
    by_source = fit.left_out([row["source_key"] for row in fit.rows])
    return TEXT.format(groups=group_table(fit, by_family, by_source),
                       sources=source_table(fit, by_family), unsupported=refusals(fit))


def plain_stacks():
    """The shipped stacks without their entries for the newer GPUs, and without the intervals."""
    text = (runs.ROOT / "traces" / "catalog" / "stacks.yaml").read_text().split("distances:\n")[0]
    newer = {gpu for h in HARDWARE for gpu in h.gpus}
    lines, skipping = [], False
    for line in text.splitlines():
        if line.startswith("      - gpus: ["):
            skipping = line.split("[")[1].split("]")[0].split(", ")[0] in newer
        elif not line.startswith("        "):
            skipping = False
        if not skipping:
            lines.append(line)
    return "\n".join(lines) + "\n"


def main():
    fit = HardwareFit(plain_stacks()).run()
    text = page_text(fit)
    print(text)
    page.write_part(PART, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
