"""Fits one compute factor per newer GPU and software stack to published training runs
(runs-open.csv), for fit_stacks.py, and prints the errors with a family of runs left out.

The logarithm of the factor is a sum of effects, each drawn to its mean by a prior (a ridge): of the
vendor's generation, of the GPU, of the stack on all GPUs, of stack and generation together, of
products below 16 bits and of models with experts on the generation. Further effects are the rate
between nodes of a generation, the rate of attention where kernels.yaml has a relative's, the rate
of grouped products of experts over that of padded ones under a stack on a generation, the part of
exchanges that lengthens computation beside them on Blackwell, the host's time for a layer with
experts and for one with adapters of a stack without calibration rows, and the load of the busiest
rank under natural routing, which all stacks share. The priors were chosen among seven for the
errors below, that of grouped products among two; those of attention, of exchanges and of adapters
were set once. All other factors of a stack are those that fit_stacks.py finds on A100 and H100. A
GPU without a row takes the mean of its relatives', a stack without a row on a GPU the GPU's and its
own on other GPUs.

A stack without a calibration row on A100 or H100 has the factor of its relative there
(fit_stacks.py). If it has open runs on the GPU, these are fitted too: the effects of the stack, of
stack and generation and of experts then move that factor. Calibrated factors stay, and open runs
under them validate only.

    python3 python/calibration/fit_hardware.py            # print, and write the part of the page
    python3 python/calibration/fit_hardware.py --check    # fail if the page says something else
"""

import collections
import re
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
# GPUs of Blackwell are one chip under different power limits, with the same measured kernels.
SAME_CHIP_SD = 0.1
STACK_SD, BOTH_SD, LOW_SD, EXPERTS_SD = 0.2, 0.12, 0.5, 0.3
# Rate between nodes. On V100 no collective was measured, and all runs are of one cluster with
# Omni-Path, over which NCCL of that time reaches a part of the links' rate.
NETWORK_SD = {"V100": 1.0}
OTHER_NETWORK_SD = 0.3
# A transferred rate of attention: what a generation's differs by, and a GPU's from the generation.
ATTENTION_SD, GPU_ATTENTION_SD = 0.5, 0.2
GROUPED_SD = 1  # rate of grouped products over that of padded ones
HOST_SD = 2.0  # milliseconds
ADAPTERS_SD = 4.0  # milliseconds
# Part of exchanges beside computation by which that becomes longer; a TPU has engines for them.
BESIDE_MEAN, BESIDE_SD = 0.3, 0.2
BESIDE_ON = ("Blackwell",)
NATURAL_MEAN, NATURAL_SD = np.log(1.3), 0.2
NOISE, DELTA, STEPS = 0.08, 0.05, 5
# Effects that a derivative moves; `natural` and the logarithms of rates by DELTA, `host` by DELTA
# milliseconds.
MOVED = ("compute", "low", "experts", "network", "attention", "grouped", "host", "natural",
         "beside", "adapters")  # fmt: skip
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
# Generations whose kernels.yaml has a relative's attention (`transferred`).
TRANSFERRED_ATTENTION = ("AMD", "TPU", "V100")
# GPUs of the calibration rows, whose entries fit_stacks.py writes; its names of the entries.
OLDER = (
    Hardware("A100", [], "A100", ("A100", "A800"), "Ampere"),
    Hardware("H100", [], "H100", ("H100", "H800", "H200"), "Hopper"),
)
# Words of `overlap` on experts that compute their capacity, however few tokens they receive.
PADDED = re.compile(r"capacity factor.*\bpads?\b|dense_matmul, capacity factor")
# Seeds of random halves, and the least rows of a source that is halved.
SEEDS, LEAST_HALVED = range(5), 20


def hardware_of(gpu):
    return next((h for h in HARDWARE + OLDER if gpu.startswith(h.begins)), None)


def class_of(row):
    """The class of a run, as StackOnGpu.measured names it."""
    text = row["precision"].lower()
    bits = 4 if "fp4" in text else 8 if "fp8" in text else 16
    has_fp8 = not row["gpu"].startswith(("A100", "A800", "V100", "TPU-v"))
    return f"{'experts' if row['moe_experts'] else 'dense'} {bits if has_fp8 else 16}"


def is_padded(row):
    """Whether experts compute their capacity, as `orrery predict` reads it (docs/predict.md)."""
    return row.get("padded") == "1" or bool(PADDED.search(row.get("overlap", "")))


def attention_keys(hardware):
    """Effects on a transferred rate of attention."""
    return ("attention", hardware.group), ("own attention", hardware.name)


def usable_rows():
    """Open rows with everything that a step depends on, each configuration once."""
    return [row for row in runs.open_rows()
            if hardware_of(row["gpu"]) and row["measured"] and row["usable"] == "iteration" and
            not row["duplicate_of"]]


def names_of(text):
    """The names of the stacks of a stacks.yaml."""
    return [block.split("\n", 1)[0] for block in text.split("  - name: ")[1:]]


# Entry of a stack on A100 or H100: logarithm of its compute factor, and whether calibration rows
# were fitted there.
OlderEntry = collections.namedtuple("OlderEntry", "compute calibrated")


def older_name(line):
    """The name of the older hardware whose entry of `on` begins with this line, or None."""
    if not line.startswith("      - gpus: ["):
        return None
    gpus = line.split("[")[1].strip("]").split(", ")
    return next((h.name for h in OLDER if any(gpu.startswith(h.name) for gpu in gpus)), None)


def older_entries(text):
    """The entries of a stacks.yaml on A100 and H100, by stack and name of the hardware."""
    found, name, here = {}, "", None
    for line in text.splitlines():
        if line.startswith("  - name: "):
            name = line.removeprefix("  - name: ")
        elif line.startswith("      - gpus: ["):
            here = older_name(line)
        elif not line.startswith("        "):
            here = None
        elif here and line.startswith("        compute: "):
            found[name, here] = OlderEntry(float(np.log(float(line.split(": ")[1]))), False)
        elif here and line.startswith("        measured: "):
            found[name, here] = found[name, here]._replace(calibrated=True)
    return found


def moved_older(head, moves):
    """The lines of a stack whose entries on A100 and H100 have moved. `moves`: by name of the
    hardware, the logarithms by which compute grows and of the factor of experts, and the classes of
    the rows."""
    lines, at = [], None
    for line in head.splitlines(keepends=True):
        if not line.startswith("        "):
            at = moves.get(older_name(line.rstrip()))
        lines.append(line)
        if at and line.startswith("        compute: "):
            compute = np.log(float(line.split(": ")[1])) + at[0]
            lines[-1] = f"        compute: {np.exp(np.clip(compute, LEAST, MOST)):.4g}\n"
            if at[1]:
                lines.append(f"        experts: {np.exp(np.clip(at[1], LEAST, MOST)):.4g}\n")
            if at[2]:
                lines.append(f"        measured: [{', '.join(at[2])}]\n")
    return "".join(lines)


def with_entries(text, entries, moves=None, fields=None):
    """The text of a stacks.yaml whose stacks have these further entries of `on`, text by stack.
    `moves`: by stack, the changes of its entries on A100 and H100 (moved_older). `fields`: by
    stack, the lines before its entries."""
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
        head = moved_older(head, (moves or {}).get(name, {}))
        if name != "generic":
            head = head.replace("    on:\n", (fields or {}).get(name, "") + "    on:\n", 1)
        made.append(head + added + "    source:\n" + source)
    return "  - name: ".join(made)


class HardwareFit:
    """Rows, the stacks that predict them, and the effects as one vector. `stacks`: text of a
    stacks.yaml without entries for the newer GPUs, its entries on A100 and H100 as calibrated."""

    def __init__(self, stacks):
        self.stacks = stacks
        rows = usable_rows()
        found = runs.predict(rows, stacks)
        keep = [p["iter_time_s"] != "" for p in found]
        self.older = older_entries(stacks)
        self.unsupported = [(row, p) for row, p, k in zip(rows, found, keep) if not k]
        self.rows = [row for row, k in zip(rows, keep) if k]
        self.stack = [runs.stack_of(p) for p, k in zip(found, keep) if k]
        self.hardware = [hardware_of(row["gpu"]) for row in self.rows]
        self.low = [not class_of(row).endswith("16") for row in self.rows]
        self.experts = [bool(row["moe_experts"]) for row in self.rows]
        self.measured = np.log([row["measured"] for row in self.rows])
        self.fitted = np.array([row["source_key"] not in VALIDATE for row in self.rows])
        self.opened = {(s, h.name) for s, h, f in zip(self.stack, self.hardware, self.fitted)
                       if f and h in OLDER and not self.is_calibrated(s, h)}
        self.moves = [self.is_moved(s, h) for s, h in zip(self.stack, self.hardware)]
        self.fitted &= np.array(self.moves, bool)
        count = collections.Counter(row["family"] for row in self.rows)
        self.weight = np.array([count[row["family"]] ** -0.5 for row in self.rows]) / NOISE
        self.add_effects()

    def add_effects(self):
        """Numbers the effects, and sets their means and deviations."""
        self.index, mean, sd = {}, [], []

        def add(key, m, s):
            if key not in self.index:
                self.index[key] = len(mean)
                mean.append(m)
                sd.append(s)

        for h in HARDWARE:
            add(("group", h.group), GPU_MEAN, GROUP_SD)
            add(("gpu", h.name), 0, SAME_CHIP_SD if h.group == "Blackwell" else GPU_SD)
            add(("low", h.group), 0, LOW_SD)
            add(("network", h.group), 0, NETWORK_SD.get(h.group, OTHER_NETWORK_SD))
            if h.group in BESIDE_ON:
                add(("beside", h.group), BESIDE_MEAN, BESIDE_SD)
            if h.group in TRANSFERRED_ATTENTION:
                add(("attention", h.group), 0, ATTENTION_SD)
                add(("own attention", h.name), 0, GPU_ATTENTION_SD)
        add(("natural",), NATURAL_MEAN, NATURAL_SD)
        for h in HARDWARE + OLDER:
            add(("experts", h.group), 0, EXPERTS_SD)
        for stack, group in self.pairs_of_experts():
            add(("grouped", stack, group), 0, GROUPED_SD)
        for stack, h, moves in zip(self.stack, self.hardware, self.moves):
            if moves:
                add(("stack", stack), 0, STACK_SD)
                add(("both", stack, h.group), 0, BOTH_SD)
            if self.has_host(stack):
                add(("host", stack), 0, HOST_SD)
                add(("adapters", stack), 0, ADAPTERS_SD)
        self.mean, self.sd = np.array(mean), np.array(sd)
        self.least_zero = [at for key, at in self.index.items()
                           if key[0] in ("host", "adapters", "beside")]

    def pairs_of_experts(self):
        """Stacks and generations with fitted runs both of padded and of grouped experts: only
        these tell the rate of the one from that of the other."""
        found = collections.defaultdict(set)
        for row, stack, h, fitted in zip(self.rows, self.stack, self.hardware, self.fitted):
            if fitted and row["moe_experts"] and h not in OLDER:
                found[stack, h.group].add(is_padded(row))
        return sorted(pair for pair, kinds in found.items() if len(kinds) == 2)

    def is_calibrated(self, stack, hardware):
        """Whether a factor on A100 or H100 is not this fit's: that of calibration rows, or none at
        all."""
        entry = self.older.get((stack, hardware.name))
        return entry is None or entry.calibrated

    def has_host(self, stack):
        """Whether the host's time of a stack is this fit's: without calibration rows."""
        return not any(self.older.get((stack, h.name), OlderEntry(0, False)).calibrated
                       for h in OLDER)

    def has_runs(self, stack, group):
        """Whether a stack has fitted runs on a generation."""
        return any(fitted and s == stack and h.group == group
                   for s, h, fitted in zip(self.stack, self.hardware, self.fitted))

    def is_moved(self, stack, hardware):
        """Whether effects move the factor of a stack on a GPU: everywhere but on A100 and H100,
        there only for open runs of a stack without calibration rows."""
        return hardware not in OLDER or (stack, hardware.name) in self.opened

    def parts(self, i):
        """Indices of the effects on a row's compute, on its products below 16 bits and on its
        experts; -1 for an effect that it has not."""
        h = self.hardware[i]
        if not self.moves[i]:
            return [], -1, -1
        names = [("stack", self.stack[i]), ("both", self.stack[i], h.group)]
        if h not in OLDER:
            names += [("group", h.group), ("gpu", h.name)]
        return ([self.index[name] for name in names], self.index.get(("low", h.group), -1),
                self.index["experts", h.group])

    def on_h100(self, x, stack, experts):
        """The logarithm of a stack's factor on H100, that of experts included if `experts`; None if
        the stack has no entry there."""
        entry = self.older.get((stack, "H100"))
        if entry is None:
            return None
        moved = (stack, "H100") in self.opened
        return entry.compute + (self.older_move(x, stack, "Hopper", experts) if moved else 0)

    def older_move(self, x, stack, group, experts):
        return (self.value(x, ("stack", stack), ("both", stack, group)) +
                (self.value(x, ("experts", group)) if experts else 0))

    def least(self, x, stack, hardware, experts):
        """The least logarithm of the compute factor of a stack on a GPU."""
        bound = self.on_h100(x, stack, experts) if hardware.group == "Blackwell" else None
        return LEAST if bound is None else bound + OVER_H100

    def lift(self, x):
        """Logarithms by which least() raises the factor of each row."""
        found = np.zeros(len(self.rows))
        for i, (stack, h) in enumerate(zip(self.stack, self.hardware)):
            parts, _, experts = self.parts(i)
            if h in OLDER:
                continue
            factor = x[parts].sum() + (x[experts] if self.experts[i] else 0)
            least = self.least(x, stack, h, False)
            if self.experts[i]:
                least = max(least, self.least(x, stack, h, True))
            found[i] = max(0, least - factor)
        return found

    def value(self, x, *keys):
        return sum(x[self.index[key]] for key in keys if key in self.index)

    def entry(self, x, stack, hardware, moved, measured=()):
        shift = moved or {}
        compute = self.value(x, ("group", hardware.group), ("gpu", hardware.name),
                             ("stack", stack), ("both", stack, hardware.group))
        compute += shift.get("compute", 0)
        low = self.value(x, ("low", hardware.group)) + shift.get("low", 0)
        experts = self.value(x, ("experts", hardware.group)) + shift.get("experts", 0)
        network = self.value(x, ("network", hardware.group)) + shift.get("network", 0)
        if moved is None:
            compute = max(compute, self.least(x, stack, hardware, False))
            least = max(self.least(x, stack, hardware, each) for each in (False, True))
            experts = max(experts, least - compute)
        lines = [f"      - gpus: [{', '.join(hardware.gpus)}]"]
        if hardware.profile:
            lines.append(f"        family: {hardware.profile}")
        rates = [("compute", compute), ("low", low), ("experts", experts), ("network", network)]
        if hardware.group in TRANSFERRED_ATTENTION:
            attention = self.value(x, *attention_keys(hardware)) + shift.get("attention", 0)
            rates.append(("attention", attention))
        if ("grouped", stack, hardware.group) in self.index:
            grouped = self.value(x, ("grouped", stack, hardware.group)) + shift.get("grouped", 0)
            rates.append(("grouped", grouped))
        for name, value in rates:
            lines.append(f"        {name}: {np.exp(np.clip(value, LEAST, MOST)):.4g}")
        if ("beside", hardware.group) in self.index and self.has_runs(stack, hardware.group):
            beside = max(0, self.value(x, ("beside", hardware.group))) + shift.get("beside", 0)
            lines.append(f"        beside: {min(1, beside):.4g}")
        if measured:
            lines.append(f"        measured: [{', '.join(measured)}]")
        return lines

    def fields(self, x, stack, shift):
        """The lines of a stack beside its entries."""
        natural = np.exp(max(0, self.value(x, ("natural",)) + shift.get("natural", 0)))
        host = max(0, self.value(x, ("host", stack))) + shift.get("host", 0)
        lines = f"    natural_load: {natural:.4g}\n"
        adapters = max(0, self.value(x, ("adapters", stack))) + shift.get("adapters", 0)
        for name, value in (("host_adapters", adapters), ("host_experts", host)):
            micros = round(1e3 * value)
            lines = (f"    {name}: {micros} us\n" if micros > 0 else "") + lines
        return lines

    def fitted_classes(self):
        """Classes of the fitted rows by stack and name of the hardware."""
        classes = collections.defaultdict(set)
        for row, stack, h, fitted in zip(self.rows, self.stack, self.hardware, self.fitted):
            if fitted:
                classes[stack, h.name].add(class_of(row))
        return classes

    def text(self, x, moved=None):
        """The text of the stacks under these effects. `moved`: effects to increase, for a
        derivative, without least()."""
        classes = self.fitted_classes()
        entries, fields, moves = {}, {}, collections.defaultdict(dict)
        for stack in names_of(self.stacks):
            lines = []
            for h in HARDWARE:
                lines += self.entry(x, stack, h, moved, sorted(classes[stack, h.name]))
            entries[stack] = "\n".join(lines) + "\n"
            fields[stack] = self.fields(x, stack, moved or {})
            for h in OLDER:
                if not self.is_moved(stack, h):
                    continue
                shift = moved or {}
                compute = self.older_move(x, stack, h.group, False) + shift.get("compute", 0)
                experts = self.value(x, ("experts", h.group)) + shift.get("experts", 0)
                moves[stack][h.name] = compute, experts, sorted(classes[stack, h.name])
        return with_entries(self.stacks, entries, moves, fields)

    def log_times(self, x, moved=None):
        return np.log(runs.times(runs.predict(self.rows, self.text(x, moved))))

    def linearise(self, x):
        base = self.log_times(x, {"compute": 0})
        slopes = {name: (self.log_times(x, {name: DELTA}) - base) / DELTA
                  for name in MOVED}
        design = np.zeros((len(self.rows), len(x)))
        for i in range(len(self.rows)):
            compute, low, experts = self.parts(i)
            design[i, compute] = slopes["compute"][i]
            if self.low[i] and low >= 0:
                design[i, low] = slopes["low"][i]
            if self.experts[i] and experts >= 0:
                design[i, experts] = slopes["experts"][i]
            group = self.hardware[i].group
            keys = [("network", ("network", group)), ("host", ("host", self.stack[i])),
                    ("natural", ("natural",)), ("grouped", ("grouped", self.stack[i], group)),
                    ("beside", ("beside", group)), ("adapters", ("adapters", self.stack[i]))]
            keys += [("attention", key) for key in attention_keys(self.hardware[i])]
            for name, key in keys:
                if key in self.index:
                    design[i, self.index[key]] = slopes[name][i]
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
            x[self.least_zero] = np.maximum(x[self.least_zero], 0)
        return x

    def run(self):
        x = self.mean
        for _ in range(STEPS):
            base, design = self.linearise(x)
            x = self.solve(design, self.measured - base + design @ x, self.fitted)
        self.x = x
        self.base, self.design = self.linearise(x)
        return self

    def without(self, out):
        """Logarithms of measured over predicted time of the rows in the mask `out`, by a fit to the
        other ones (linear round the solution)."""
        target = self.measured - self.base + self.design @ self.x
        x = self.solve(self.design, target, self.fitted & ~out)
        slope = np.array([self.design[i, self.parts(i)[0][0]] if self.moves[i] else 0
                          for i in range(len(self.rows))])
        return (target - self.design @ x - slope * self.lift(x))[out]

    def left_out(self, leave):
        """Logarithms of measured over predicted time, each row by a fit to those that `leave` does
        not name like it."""
        residual = np.full(len(self.rows), np.nan)
        for name in sorted(set(leave)):
            out = np.array([each == name for each in leave])
            residual[out] = self.without(out)
        return residual

    def halves(self, source):
        """Median absolute errors of a random half of a source's fitted rows, by fits to the other
        half and to all other sources: one for each seed."""
        at = np.flatnonzero([row["source_key"] == source and fitted
                             for row, fitted in zip(self.rows, self.fitted)])
        found = []
        for seed in SEEDS:
            out = np.zeros(len(self.rows), bool)
            out[np.random.default_rng(seed).permutation(at)[:len(at) // 2]] = True
            found.append(np.median(abs(np.expm1(-self.without(out)))))
        return found


def catalogue(fit):
    """The text of the stacks with the entries of the newer GPUs."""
    return fit.text(fit.x)


def family_errors(fit, residual):
    """Absolute errors by group of GPUs: medians of each family's rows, and of all rows."""
    error = np.expm1(-residual)
    found = {}
    for group in dict.fromkeys(h.group for h in HARDWARE + OLDER):
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
    return f"{runs.spearman(a, b):.2f}"


def error_cells(fit, at, residual):
    error = np.expm1(-residual[at])
    return (f"{np.median(abs(error)):.1%} | {np.median(error):+.1%} | {abs(error).max():.1%} | "
            f"{rank((fit.measured - residual)[at], fit.measured[at])}")


def source_table(fit, by_family, by_source):
    lines = ["| source | hardware | stack | fitted | rows | family left out: median | bias | worst "
             "| rank | source left out: median | bias | worst | rank |", "|---" * 13 + "|"]
    keys = [(row["source_key"], h.group, stack, "yes" if fitted else "no")
            for row, h, stack, fitted in zip(fit.rows, fit.hardware, fit.stack, fit.fitted)]
    for key in sorted(set(keys)):
        at = np.array([k == key for k in keys])
        lines.append("| " + " | ".join(key) + f" | {at.sum()} | {error_cells(fit, at, by_family)} "
                     f"| {error_cells(fit, at, by_source)} |")
    return "\n".join(lines)


def rank_table(fit, by_family, by_source):
    """Order within whole sources, on all hardware and stacks together."""
    lines = ["| source | rows | rank, family left out | rank, source left out |", "|---" * 4 + "|"]
    sources = np.array([row["source_key"] for row in fit.rows])
    for source in sorted(set(sources)):
        at = sources == source
        ranks = [rank((fit.measured - each)[at], fit.measured[at]) for each in (by_family,
                                                                                by_source)]
        if ranks[0]:
            lines.append(f"| {source} | {at.sum()} | {ranks[0]} | {ranks[1]} |")
    return "\n".join(lines)


def halves_table(fit):
    lines = ["| source | rows | random half, mean of five seeds | worst seed |", "|---" * 4 + "|"]
    count = collections.Counter(row["source_key"]
                                for row, fitted in zip(fit.rows, fit.fitted) if fitted)
    medians = []
    for source in sorted(name for name, n in count.items() if n >= LEAST_HALVED):
        found = fit.halves(source)
        medians.append(np.mean(found))
        lines.append(f"| {source} | {count[source]} | {medians[-1]:.1%} | {max(found):.1%} |")
    if medians:
        lines.append(f"| median of the sources | | {np.median(medians):.1%} | "
                     f"{max(medians):.1%} (worst source) |")
    return "\n".join(lines)


TEXT = """\
## Hardware, with the family left out

Written by `python3 python/calibration/fit_hardware.py`: runs of runs-open.csv under factors of a
fit that has not seen the row's family (a model on a GPU under a framework, as the table names it)
or the row's source. Errors are of the time of a step; a family counts once. The widths of the fit's
priors were chosen for these errors, so they are a little better than a new family's. `fitted` is
`no` for sources without a licence file, for the node whose kernels have a table of their own, and
on A100 and H100 for stacks that have calibration rows there or no entry at all; these validate
only.

{groups}

{sources}

Spearman's rank correlation of predicted and measured times in sources of ten rows and more:

{ranks}

Sources of 20 fitted rows and more, a random half of whose rows is left out (five seeds), by a fit
to the other half and to all other sources; median absolute errors:

{halves}

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
                       sources=source_table(fit, by_family, by_source),
                       ranks=rank_table(fit, by_family, by_source), halves=halves_table(fit),
                       unsupported=refusals(fit))


def make_text():
    import fit_stacks  # fit_stacks imports this module

    return page_text(fit_stacks.fit_everything().hardware)


if __name__ == "__main__":
    sys.exit(page.run_script(PART, make_text, __doc__))
