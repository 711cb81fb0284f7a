"""Fits a few factors per software stack to published training runs.

Reads the rows of measured.csv marked split=calibration (no other row is looked at), and writes
traces/catalog/stacks.yaml. README.md beside this file describes the model: the logarithm of a
factor is a sum of effects, of the GPU family, of the framework family, of the framework and of
framework and GPU family together, each drawn to zero by a prior of its own (ridge). Runs that
differ in scale only share the weight of one.

    python3 python/calibration/fit_stacks.py            # fit, print, write stacks.yaml
    python3 python/calibration/fit_stacks.py --check    # fail if it is not up to date
"""

import argparse
import collections
import sys

import distances
import fit_hardware
import fit_sweeps
import numpy as np
import runs

OUT = runs.ROOT / "traces" / "catalog" / "stacks.yaml"

# A factor and the standard deviations of its effects' logarithms: of a framework family and of a
# framework. Gaps are times, in units of GAP, and never negative.
Factor = collections.namedtuple("Factor", "name family own")
FACTORS = (
    Factor("gemm", 0.03, 0.03),
    Factor("gemm_low", 0.1, 0.05),
    Factor("attention", 0.2, 0.15),
    Factor("memory_bytes", 0.2, 0.2),
    Factor("layer_gap", 1.0, 1.0),
    Factor("step_gap", 1.0, 1.0),
    Factor("nvlink", 0.1, 0.1),
    Factor("network", 0.1, 0.1),
)
GAP = {"layer_gap": 20e-6, "step_gap": 20e-3}
# Deviations of the compute rate: effects of the GPU family, and of framework and GPU family
# together.
GPU_SD, BOTH_SD = 0.15, 0.05
NOISE = 0.03  # deviation of a measured time, besides the factors
STEPS = 4  # steps of Gauss-Newton
DELTA = 0.05  # step of finite differences

# A stack, its framework family, and the framework of its rows (none: no rows).
Stack = collections.namedtuple("Stack", "name family framework kin")
STACKS = (
    Stack("megatron-lm-2022", "megatron", "Megatron-LM 2022", ""),
    Stack("nemo", "megatron", "NeMo/Megatron-Core", ""),
    Stack("composer-fsdp", "sharded", "Composer+FSDP", ""),
    Stack("maxtext", "sharded", "MaxText/JAX", ""),
    Stack("paxml", "sharded", "Paxml/JAX", ""),
    Stack("megatron-lm-2021", "megatron", "", "megatron-lm-2022"),
    Stack("megatron-deepspeed", "megatron", "", "megatron-lm-2022"),
    Stack("megatron-core", "megatron", "", "nemo"),
    Stack("megatron-bridge", "megatron", "", "nemo"),
    Stack("nemo-megatron", "megatron", "", ""),
    Stack("internevo", "megatron", "", ""),
    Stack("torchtitan", "sharded", "", ""),
    Stack("pytorch-fsdp", "sharded", "", ""),
    Stack("prime-rl", "sharded", "", ""),
)
FAMILIES = ("megatron", "sharded")
GPUS = {
    "A100": ["A100-40GB", "A100-80GB", "A800"],
    "H100": ["H100", "H800", "H200", "H100-96GB-HBM2e-500W"],
}
# Name of a family in kernels.yaml, which identifies GPUs independently of their own names. Newer
# GPUs have entries of their own (fit_hardware.py).
PROFILE = {"A100": "A100", "H100": "H100"}
GPU_FAMILIES = {gpu: (models, gpu) for gpu, models in GPUS.items()}


def effects():
    """Every effect as (kind, who, factor), with its standard deviation: the unknowns of the fit."""
    named = []
    for factor in FACTORS:
        named += [(("family", family, factor.name), factor.family) for family in FAMILIES]
        named += [(("stack", s.name, factor.name), factor.own) for s in STACKS if s.framework]
    named += [(("gpu", gpu, "compute"), GPU_SD) for gpu in GPUS]
    named += [(("both", (s.name, gpu), "compute"), BOTH_SD)
              for s in STACKS if s.framework for gpu in GPUS]
    return named


EFFECTS = effects()
INDEX = {name: i for i, (name, _) in enumerate(EFFECTS)}
SD = np.array([sd for _, sd in EFFECTS])
COLUMNS = [factor.name for factor in FACTORS] + ["compute"]


def parts(stack, factor, gpu=""):
    """The effects whose sum is a factor's logarithm (a gap's length): indices into the vector."""
    own = stack.name if stack.framework else stack.kin
    if factor == "compute":
        found = [INDEX["gpu", gpu, factor]]
        return found + ([INDEX["both", (own, gpu), factor]] if own else [])
    found = [INDEX["family", stack.family, factor]]
    return found + ([INDEX["stack", own, factor]] if own else [])


def factor_of(x, stack, factor, gpu=""):
    value = x[parts(stack, factor, gpu)].sum()
    return max(value, 0.0) if factor in GAP else value


class Fit:
    """The calibration rows, their weights, and the effects as one vector."""

    def __init__(self, rows):
        by_framework = {s.framework: s for s in STACKS if s.framework}
        self.rows = [row for row in rows if row["framework"] in by_framework]
        self.stacks = [by_framework[row["framework"]] for row in self.rows]
        self.gpus = [runs.family(row["gpu"]) for row in self.rows]
        self.groups = [runs.group_of(row) for row in self.rows]
        sizes = collections.Counter(self.groups)
        self.weight = np.array([sizes[group] ** -0.5 for group in self.groups]) / NOISE
        self.measured = np.log([row["measured"] for row in self.rows])

    def log_times(self, x, moved=""):
        """Predicted, with the factor `moved` of every stack increased by DELTA."""
        text = "stacks:\n" + "".join(stack_text(x, s, moved) for s in STACKS if s.framework)
        found = np.log(runs.times(runs.predict(self.rows, text)))
        bad = [row["id"] for row, time in zip(self.rows, found) if np.isnan(time)]
        if bad:
            raise SystemExit(f"not supported: {', '.join(bad)}")
        return found

    def linearise(self, x):
        """Logarithms of predicted times at x, and their derivatives by every effect."""
        base = self.log_times(x)
        design = np.zeros((len(self.rows), len(EFFECTS)))
        for column in COLUMNS:
            slope = (self.log_times(x, column) - base) / DELTA
            for i, (stack, gpu) in enumerate(zip(self.stacks, self.gpus)):
                design[i, parts(stack, column, gpu)] += slope[i]
        return base, design

    def solve(self, design, target, keep):
        """Ridge over the rows in `keep`: the vector whose design reaches `target` best."""
        weight = self.weight * keep
        a = np.vstack([design * weight[:, None], np.diag(1 / SD)])
        b = np.concatenate([target * weight, np.zeros(len(SD))])
        return np.linalg.lstsq(a, b, rcond=None)[0]

    def run(self):
        self.x = np.zeros(len(SD))
        for _ in range(STEPS):
            self.base, self.design = self.linearise(self.x)
            target = self.measured - self.base + self.design @ self.x
            self.x = self.solve(self.design, target, np.ones(len(self.rows)))
        self.base, self.design = self.linearise(self.x)
        return self

    def left_out(self, leave):
        """Logarithms of measured over predicted time, each row by a fit to those that `leave` does
        not name like it (linear round the solution, which is near)."""
        target = self.measured - self.base + self.design @ self.x
        residual = np.full(len(self.rows), np.nan)
        for name in sorted(set(leave)):
            out = np.array([each == name for each in leave])
            without = self.solve(self.design, target, ~out)
            residual[out] = (target - self.design @ without)[out]
        return residual


def value_text(factor, value):
    if factor in GAP:
        return f"{value * GAP[factor] * 1e6:.3g} us"
    return f"{np.exp(value):.4g}"


def measured_classes(fit, stack, gpu):
    """Classes of a stack's fitted rows on a GPU family, as StackOnGpu.measured names them."""
    return sorted({fit_hardware.class_of(row) for row, s, g in zip(fit.rows, fit.stacks, fit.gpus)
                   if s.name == stack.name and g == gpu})


# Memory beyond that of fused kernels, counted in Megatron-Core's modules: rotated queries and keys
# beside the projection's result, which the values keep alive.
MEMORY = {"megatron-core": ["    kept_queries: 1.1"]}


def stack_text(x, stack, moved="", spread=None, source=("a fit",), fit=None):
    """A stack as stacks.yaml has it. spread(stack, gpu or None): its standard deviations."""
    shift = {moved: DELTA}
    lines = [f"  - name: {stack.name}"]
    for factor in FACTORS:
        value = factor_of(x, stack, factor.name) + shift.get(factor.name, 0)
        lines.append(f"    {factor.name}: {value_text(factor.name, value)}")
    lines += MEMORY.get(stack.name, [])
    if spread:
        lines.append(f"    spread: {spread(stack, None):.3g}")
        lines += [f"    kin: {stack.kin or stack.family}"] if not stack.framework else []
    lines.append("    on:")
    for family, (models, like) in GPU_FAMILIES.items():
        compute = factor_of(x, stack, "compute", like) + shift.get("compute", 0)
        lines += [f"      - gpus: [{', '.join(models)}]", f"        family: {PROFILE[family]}",
                  f"        compute: {np.exp(compute):.4g}"]
        if spread:
            lines.append(f"        spread: {spread(stack, family):.3g}")
        if fit and measured_classes(fit, stack, family):
            lines.append(f"        measured: [{', '.join(measured_classes(fit, stack, family))}]")
    lines += ["    source:"] + [f'      - "{each}"' for each in source]
    return "\n".join(lines) + "\n"


def rms(values):
    return float(np.sqrt(np.mean(np.square(values)))) if len(values) else 0.0


class Spread:
    """How far predictions are off, from rows left out: with their configuration (`within` a stack),
    and with their stack (`between` stacks). A stack's own rows count like four of the others."""

    def __init__(self, fit, within, between):
        self.fit, self.within = fit, within
        self.all_within = np.hypot(rms(within), NOISE)
        # Stacks count equally: each is one draw of the variation between stacks.
        names = [stack.name for stack in fit.stacks]
        each = [rms(between[[n == name for n in names]]) for name in sorted(set(names))]
        self.between = np.hypot(rms(each), NOISE)

    def __call__(self, stack, gpu):
        if not stack.framework:
            kin = next((s for s in STACKS if s.name == stack.kin), None)
            if kin is None:
                return self.between
            return float(np.hypot(self(kin, gpu), self.between / 2))
        mine = np.array([s.name == stack.name and g == gpu
                         for s, g in zip(self.fit.stacks, self.fit.gpus)])
        if not mine.any():
            return self.between
        own = self.within[mine]
        groups = len({g for g, is_mine in zip(self.fit.groups, mine) if is_mine})
        weight = 4 / (4 + groups)
        return float(np.hypot(NOISE, np.sqrt(weight * rms(self.within)**2 +
                                             (1 - weight) * rms(own)**2)))


HEAD = """\
# Software stacks: factors over the component prices of topologies/catalog/kernels.yaml. Written by
# python/calibration/fit_stacks.py from the calibration rows of published training runs;
# docs/accuracy.md says how good they are. `spread`: standard deviation of the logarithm of measured
# over predicted time.
stacks:
  - name: generic
    spread: {spread:.3g}
    source:
      - component prices as they were fitted (topologies/catalog/kernels.yaml)
"""


def source_of(fit, stack):
    own = [row for row, s in zip(fit.rows, fit.stacks) if s.name == stack.name]
    if own:
        sources = ", ".join(sorted({row["source_key"] for row in own}))
        return [f"{len(own)} calibration rows of {sources}"]
    like = stack.kin or f"the {stack.family} frameworks together"
    return [f"no rows of its own; factors of {like}"]


def catalogue(fit, within, between):
    spread = Spread(fit, within, between)
    text = HEAD.format(spread=np.hypot(spread.between, GPU_SD))
    return text + "".join(stack_text(fit.x, stack, "", spread, source_of(fit, stack), fit)
                          for stack in STACKS)


# All fits, and the residuals of the calibration rows with their configuration (`within`) and with
# their stack (`between`) left out.
Everything = collections.namedtuple("Everything", "fit within between sweeps hardware")


def fit_everything():
    """All fits: the stacks to the calibration rows, those of the sweeps, and the newer hardware
    with factors that neither has moved."""
    fit, within, between = fit_all()
    sweeps = fit_sweeps.fit_nanotron()
    stacks = catalogue(fit, within, between) + fit_sweeps.catalogue(sweeps)
    return Everything(fit, within, between, sweeps, fit_hardware.HardwareFit(stacks).run())


def whole_catalogue(fits):
    """The stacks with the entries of newer GPUs and, from all rows that no fit had seen, the
    intervals."""
    return fit_hardware.catalogue(fits.hardware) + distances.catalogue(distances.residuals(*fits))


def report(fit, within, between):
    for stack in STACKS:
        values = [f"{f.name} {value_text(f.name, factor_of(fit.x, stack, f.name))}"
                  for f in FACTORS]
        values += [f"{gpu} {value_text('compute', factor_of(fit.x, stack, 'compute', gpu))}"
                   for gpu in GPUS]
        print(f"{stack.name:20s} " + ", ".join(values))
    print("\nrow, predicted / measured - 1; with its configuration, its stack left out")
    for row, e, w, b in zip(fit.rows, fit.base - fit.measured, -within, -between):
        print(f"{row['id']:24s} {row['model']:16s} {row['gpu'][:4]} n {row['n_gpus']:>5s} "
              f"{row['precision']:9s} {np.expm1(e):+7.1%} {np.expm1(w):+7.1%} {np.expm1(b):+7.1%}")
    for name, residual in (("fitted", fit.measured - fit.base), ("configuration left out", within),
                           ("stack left out", between)):
        print(f"mean absolute error, {name}: {np.abs(np.expm1(-residual)).mean():.1%}")


def fit_all():
    """The fit, and residuals with each row's configuration and with its stack left out."""
    rows = [row for row in runs.measured_rows()
            if row["split"] == "calibration" and row["measured"]]
    fit = Fit(rows).run()
    return fit, fit.left_out(fit.groups), fit.left_out([s.name for s in fit.stacks])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the file only")
    check = parser.parse_args().check
    fits = fit_everything()
    report(fits.fit, fits.within, fits.between)
    text = whole_catalogue(fits)
    if check:
        return 0 if OUT.read_text() == text else 1
    OUT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
