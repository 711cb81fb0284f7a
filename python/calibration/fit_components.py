"""Fits the coefficients of sim/estimates/prices/cost_model.cpp to published component measurements.

Reads gemms.csv, memops.csv and collectives.csv (training-runs/ below ORRERY_DATA, else
../shared/data), fits per GPU family in log time, and writes topologies/catalog/kernels.yaml and
docs/accuracy.md. No measured row is written. Rows under CC-BY-SA (mleng_*, mamf_finder) are
compared with the fit and never enter it. Needs numpy and scipy.

    python3 python/calibration/fit_components.py            # fit, print, write both files
    python3 python/calibration/fit_components.py --check    # fail if they are not up to date
"""

import argparse
import collections
import csv
import functools
import math
import os
import pathlib
import sys

import numpy as np
from scipy.optimize import least_squares

import collective_fit
import kernel_tables
import page

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("ORRERY_DATA", ROOT.parent / "shared" / "data"))
SHARE_ALIKE = ("mleng_", "mamf_finder")
MIB = 2.0**20
FEWEST_TOKENS = 1024  # below, operators run from the cache in a few ticks of a 1 us timer
LINK_LATENCY = 1e-6  # a topology's default nvlink_latency, which the simulator adds per round


class Family(collections.namedtuple("Family", "name models stands_in_for peak fp8 memory nvlink "
                                              "processors")):
    """A family and the data-sheet rates of the GPUs measured (topologies/catalog/gpus.yaml)."""


FAMILIES = (
    Family("A100", ["A100-40GB", "A100-80GB"], ["A800"], 312e12, 0, 2039e9, 300e9, 108),
    Family("H100", ["H100"], ["H100-96GB-HBM2e-500W", "H800", "H200"], 989.4e12, 1978.9e12,
           3350e9, 450e9, 132),
)
# Fitted to the newer tables alone (kernel_tables.py): each row has its GPU's own rates.
BLACKWELL = Family("B200", ["B200", "B300", "GB200", "GB300"], [], 0, 0, 0, 900e9, 148)
# Products measured, the rest a relative's; the tiles of AMD's and Google's libraries are searched
# among those of NVIDIA's, with the chip's number of processors.
MI355X = Family("MI355X", ["MI355X"], ["MI350X"], 0, 0, 0, 537.6e9, 256)
TPU = Family("TPU", ["TPU-v6e", "TPU-7x"], ["TPU-v5e", "TPU-v5p"], 0, 0, 0, 448e9, 4)
# Nothing measured but, of MI300X, collectives.
MI300X = Family("MI300X", ["MI300X"], ["MI325X"], 0, 0, 0, 448e9, 304)
V100 = Family("V100", ["V100-16GB", "V100-32GB"], [], 0, 0, 0, 150e9, 80)

# Range of each coefficient, and the start of the search, which is also the mean of its prior.
BOUNDS = {
    "gemm_peak": (0.3, 1, 0.76), "gemm_tile_loss": (0.1, 500, 20), "gemm_wave": (0.05, 1, 0.7),
    "gemm_half_k": (0.1, 4000, 64), "gemm_memory": (0.2, 1, 0.85), "gemm_start": (1e-7, 2e-5, 2e-6),
    "gemm_overlap": (1, 12, 3), "gemm_low_peak": (0.3, 1, 0.76), "gemm_fp4_peak": (0.1, 1, 0.6),
    "attention_peak": (0.1, 1, 0.5), "attention_half": (1, 4000, 200),
    "norm": (0.02, 1, 0.5), "activation": (0.02, 1, 0.5), "rotary": (0.02, 1, 0.5),
    "residual": (0.02, 1, 0.8), "embedding": (0.02, 1, 0.2), "memory_start": (1e-7, 2e-5, 2e-6),
    "nvlink_all_reduce": (0.3, 1.2, 0.8), "nvlink_pair_loss": (0.001, 1, 0.3),
    "nvlink_start": (1e-6, 1e-4, 3e-5), "nvlink_fill": (1e-7, 1e-3, 3e-5),
}
GEMM = ["gemm_peak", "gemm_tile_loss", "gemm_half_k", "gemm_wave", "gemm_overlap", "gemm_memory",
        "gemm_start"]
# Weight of a coefficient's logarithm against its prior's mean in a fit of GEMM to the newer tables:
# a factor of 2.7 costs as much as a row that is 2% off. Their products have 1024 rows and more, and
# those of TPUs are fewer than the coefficients: without a prior, many sets of coefficients fit
# equally well, and the last bits of the processor choose among them. The tables of A100 and H100
# have products of 1 row and more, which determine all coefficients: no prior.
PRIOR = collective_fit.PRIOR
# The model takes the fastest tiling, which has no derivative where two tilings are equally fast.
# These fits replace the minimum by a power mean, first a soft one with a single optimum, at last
# one that is at most 0.4% below the minimum (six equal tilings). Each starts where the one before
# ended, so that the result does not depend on the start of the first.
SHARPNESS = (8, 32, 128, 512)
# Tight enough that the digits which the catalogue writes do not depend on the order of sums.
TOLERANCES = {"xtol": 1e-13, "ftol": 1e-15, "gtol": 1e-13, "max_nfev": 500}
TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64))
OPERATORS = {"input_layernorm": "norm", "mlp_act": "activation", "attn_rope": "rotary",
             "add": "residual", "emb": "embedding"}
MEMORY = list(OPERATORS.values()) + ["memory_start"]
COLLECTIVE = ["nvlink_all_reduce", "nvlink_pair_loss", "nvlink_start", "nvlink_fill"]
# The backward pass's rate over the forward pass's on A100: no row measures it. Rounded from the
# figures of the FlashAttention-2 and -3 papers, head dimension 128 (which count 2.5 times the
# forward FLOPs for it, where the simulator counts twice).
ATTENTION_BACKWARD = 0.68
# Rate of the second generation's kernels over the third's on H100, forward and backward, from the
# figures of the FlashAttention-3 paper (arXiv:2407.08608). Of the first and of Triton's over the
# newest, rounded: FlashAttention-2's paper says about half for the first alone (arXiv:2307.08691).
FLASH_2_ON_HOPPER, FLASH_1 = 0.6, 0.6


def saturation(size, half):
    return size / (size + half)


def least(costs, sharpness=None):
    """Returns the least cost of each column, as a power mean if a sharpness is given."""
    least_cost = np.min(costs, axis=0)
    if sharpness is None:
        return least_cost
    return least_cost * np.sum((least_cost / costs) ** sharpness, axis=0) ** (-1 / sharpness)


def gemm_time(family, c, rows, peak=None, element=2, sharpness=None):
    """The best tiling; `peak`: FLOP/s at share 1, `element`: bytes of an operand."""
    m, n, k = rows["m"], rows["n"], rows["k"]
    costs = []
    for height, width in TILES:
        waves = np.ceil(m / height) * np.ceil(n / width) / family.processors
        paid = waves + c["gemm_wave"] * (np.ceil(waves) - waves)
        loss = 1 + c["gemm_tile_loss"] / np.sqrt(height * width)
        costs.append(paid * family.processors * height * width * loss)
    rate = family.peak * c["gemm_peak"] if peak is None else peak
    arithmetic = 2 * least(np.array(costs), sharpness) * (k + c["gemm_half_k"]) / rate
    moved = (2 * m * n + element * (n * k + m * k)) / (family.memory * c["gemm_memory"])
    power = c["gemm_overlap"]
    return (arithmetic ** power + moved ** power) ** (1 / power) + c["gemm_start"]


def low_time(family, c, rows):
    return gemm_time(family, c, rows, family.fp8 * c["gemm_low_peak"], element=1)


def attention_time(family, c, rows):
    return 1 / (family.peak * c["attention_peak"] * saturation(rows["m"], c["attention_half"]))


def memory_time(family, c, rows):
    share = np.array([c[kind] for kind in rows["kind"]])
    return rows["bytes"] / (family.memory * share) + c["memory_start"]


def all_reduce_time(family, c, rows):
    n = rows["ranks"]
    fewer = (1 - c["nvlink_pair_loss"] / n) / (1 - c["nvlink_pair_loss"] / 8)
    rate = family.nvlink * c["nvlink_all_reduce"] * fewer
    transfer = rows["bytes"] * 2 * (n - 1) / n / rate
    piped = transfer + 2 * np.sqrt(transfer * c["nvlink_fill"])
    return c["nvlink_start"] + 2 * (n - 1) * LINK_LATENCY + piped


def fit(names, model, family, rows, fixed=None):
    """Robust least squares over log(model / measured); the coefficients are searched as logs.
    Products of the newer tables have a prior and a softened choice of tiling (see PRIOR)."""
    low, high, mean = np.log([BOUNDS[name] for name in names]).T
    newer = model is modern_time
    stages = [functools.partial(model, sharpness=each) for each in SHARPNESS] if newer else [model]
    prior = np.full(len(names), PRIOR if newer else 0)

    def values(logs):
        return dict(fixed or {}, **dict(zip(names, (float(value) for value in np.exp(logs)))))

    def residuals(logs, stage):
        off = np.log(stage(family, values(logs), rows) / rows["time"])
        return np.concatenate([off, prior * (logs - mean)])

    logs = mean
    for stage in stages:
        found = least_squares(residuals, logs, bounds=(low, high), loss="soft_l1", f_scale=0.05,
                              jac="3-point", method="dogbox", args=(stage,), **TOLERANCES)
        logs = found.x
    return dict(values(logs), held=held_by_prior(names, found)) if newer else values(logs)


def held_by_prior(names, found):
    """Names of the coefficients whose variance the rows do not reduce to half of the prior's; a
    coefficient at the end of its range is held by the range."""
    inside = np.flatnonzero(found.active_mask == 0)
    jacobian = found.jac[:, inside]
    variance = np.diag(np.linalg.inv(jacobian.T @ jacobian)) * PRIOR**2
    return [names[index] for index, share in zip(inside, variance) if share > 0.5]


def pick(rows, mask):
    return {name: column[mask] for name, column in rows.items()}


def read(name):
    with open(DATA / "training-runs" / name, newline="") as file:
        return list(csv.DictReader(file))


def modern_time(family, c, rows, peak="gemm_peak", sharpness=None):
    """gemm_time where every row has rates and an operand of its own."""
    own = family._replace(peak=rows["peak"], memory=rows["memory"])
    return gemm_time(own, c, rows, rows["peak"] * c[peak], rows["element"], sharpness)


def modern_low(family, c, rows):
    return modern_time(family, c, rows, "gemm_low_peak")


def modern_fp4(family, c, rows):
    return modern_time(family, c, rows, "gemm_fp4_peak")


def modern_attention(family, c, rows):
    return 1 / (rows["peak"] * c["attention_peak"] * saturation(rows["m"], c["attention_half"]))


def columns(rows, **made):
    table = {name: np.array([of(row) for row in rows]) for name, of in made.items()}
    for name, column in table.items():
        if column.dtype.kind in "iu":
            table[name] = column.astype(float)
    return table


def number(row, name):
    return float(row[name])


def gemm_rows(family):
    rows = [r for r in read("gemms.csv") if r["source_key"] == "vidur_" + family.name.lower()]
    return columns(rows, m=lambda r: number(r, "m"), n=lambda r: number(r, "n"),
                   k=lambda r: number(r, "k"), time=lambda r: number(r, "time_us") * 1e-6,
                   group=lambda r: r["op"].split()[1])


def low_rows(family):
    """cuBLASLt in FP8; a group is a shape."""
    rows = [r for r in read("gemms.csv") if r["source_key"] == "azure_ai_benchmarking_guide" and
            r["op"] == "cublasLt gemm" and r["dtype"] == "fp8" and r["gpu"] == family.name]
    return columns(rows, m=lambda r: number(r, "m"), n=lambda r: number(r, "n"),
                   k=lambda r: number(r, "k"), time=lambda r: number(r, "time_us") * 1e-6,
                   group=lambda r: r["m"] + " " + r["n"])


def attention_rows(family):
    """Rows that state a rate: time per FLOP. Fused kernels only, forward."""
    def fused(row):
        return (row["op"].startswith("attention") and row["gpu"].startswith(family.name) and
                not row["source_key"].startswith(SHARE_ALIKE) and
                any(name in row["op"] for name in ("Flash", "cuDNN")))
    rows = [r for r in read("gemms.csv") if fused(r)]
    return columns(rows, m=lambda r: number(r, "m"), time=lambda r: 1e-12 / number(r, "tflops"),
                   group=lambda r: r["source_key"])


def projections(family):
    """Output widths of the query-key-value and of the first MLP product, by model and tp."""
    found = {}
    for row in read("gemms.csv"):
        if row["source_key"] == "vidur_" + family.name.lower():
            kind, model, tensor = row["op"].split()
            found[kind, model, tensor.removeprefix("tp")] = number(row, "n")
    return found


def memory_bytes(row, widths):
    """Counts FLOPs and bytes as the simulator does: 16-bit elements, passes are reads and
    writes."""
    hidden, tensor = number(row, "hidden"), number(row, "tp")
    tokens = number(row, "num_tokens")
    if row["op"] == "attn_rope":
        query = hidden / tensor
        return 2 * 2 * tokens * (query + (widths["attn_qkv", row["model"], row["tp"]] - query) / 2)
    if row["op"] == "mlp_act":
        up = widths["mlp_up", row["model"], row["tp"]]
        return 2 * tokens * (up + number(row, "ffn") / tensor)
    return 2 * tokens * hidden * (3 if row["op"] == "add" else 2)


def memory_rows(family):
    widths = projections(family)
    rows = [r for r in read("memops.csv") if r["gpu"] == family.name]
    return columns(rows, bytes=lambda r: memory_bytes(r, widths), kind=lambda r: OPERATORS[r["op"]],
                   time=lambda r: number(r, "time_us") * 1e-6, group=lambda r: r["model"],
                   tokens=lambda r: number(r, "num_tokens"))


def in_one_node(row, family, share_alike):
    """All-reduces over NVSwitch; machines whose GPUs are linked in pairs are another thing."""
    return (row["collective"] == "all_reduce" and row["gpu"].startswith(family.name) and
            row["nodes"] == "1" and row["ranks"] and row["time_us"] and
            "pairwise" not in row["source_key"] and number(row, "size_bytes") >= MIB and
            row["source_key"].startswith(SHARE_ALIKE) == share_alike)


def collective_rows(family, share_alike=False):
    rows = [r for r in read("collectives.csv") if in_one_node(r, family, share_alike)]
    return columns(rows, bytes=lambda r: number(r, "size_bytes"),
                   ranks=lambda r: number(r, "ranks"),
                   time=lambda r: number(r, "time_us") * 1e-6, group=lambda r: r["source_key"])


def asymptote(gpu, nic, note=""):
    for row in read("collectives.csv"):
        if row["source_key"] == "nvidia_gtc24" and row["gpu"] == gpu and nic in row["nic"] and (
                row["algo_note"] == note):
            return number(row, "busbw_GBs") * 1e9
    raise SystemExit(f"collectives.csv has no nvidia_gtc24 row {gpu} {nic} {note}")


def network_share(family):
    """Returns the rate of eight rails in rings at once, over that of eight NICs."""
    nic = {"A100": ("8x200Gb RDMA", 200e9), "H100": ("8x400Gb RDMA", 400e9)}[family.name]
    return asymptote("DGX " + family.name, nic[0]) / nic[1]


def ring_share(family, coefficients):
    """In-switch reduction serves all-reduces only; a plain ring's bandwidth stands apart."""
    if family.name == "H100":
        return asymptote("H100", "NVLink4", "Ring") / family.nvlink
    return coefficients["nvlink_all_reduce"]


def held_out(names, model, family, rows, fixed=None, fitted=True):
    """Relative error of each row under the fit to the `fitted` rows of all groups but its own."""
    error = np.zeros(len(rows["time"]))
    for group in sorted(set(rows["group"])):
        out = rows["group"] == group
        found = fit(names, model, family, pick(rows, ~out & fitted), fixed)
        error[out] = model(family, found, pick(rows, out)) / rows["time"][out] - 1
    return error


def constant_rate(work, rows):
    """The yardstick: one rate, the median of the other groups' rates."""
    error = np.zeros(len(rows["time"]))
    for group in sorted(set(rows["group"])):
        out = rows["group"] == group
        rate = np.median(work[~out] / rows["time"][~out])
        error[out] = work[out] / rate / rows["time"][out] - 1
    return error


class Line:
    """One line of the table: errors as fractions."""

    def __init__(self, table, family, kind, error, shipped, yardstick):
        self.key = (table, family.name, kind)
        self.error, self.shipped, self.yardstick = error, shipped, yardstick

    def text(self):
        size = np.abs(self.error)
        parts = [np.median(size), size.mean(), np.median(self.error), np.quantile(size, 0.9),
                 np.median(np.abs(self.yardstick)), np.abs(self.yardstick).mean(),
                 np.median(np.abs(self.shipped))]
        return "| " + " | ".join([*self.key, str(len(size))] +
                                 [f"{100 * part:.1f}%" for part in parts]) + " |"


def gemm_lines(family, found, lines):
    rows = gemm_rows(family)
    found["gemm_processors"] = family.processors
    found.update(fit(GEMM, gemm_time, family, rows))
    error = held_out(GEMM, gemm_time, family, rows)
    shipped = gemm_time(family, found, rows) / rows["time"] - 1
    base = constant_rate(rows["m"] * rows["n"] * rows["k"], rows)
    for kind, low, high in (("below 64 rows", 0, 64), ("64 to 1023 rows", 64, 1024),
                            ("1024 rows and more", 1024, 1e9)):
        part = (rows["m"] >= low) & (rows["m"] < high)
        lines.append(Line("gemms", family, kind, error[part], shipped[part], base[part]))


def low_lines(family, found, lines):
    """Everything but the peak is that of 16 bits."""
    if not family.fp8:
        found["gemm_low_peak"] = found["gemm_peak"]  # never used: it has no such products
        return
    rows, names = low_rows(family), ["gemm_low_peak"]
    fixed = {name: found[name] for name in GEMM}
    found.update(fit(names, low_time, family, rows, fixed))
    error = held_out(names, low_time, family, rows, fixed)
    shipped = low_time(family, found, rows) / rows["time"] - 1
    base = constant_rate(rows["m"] * rows["n"] * rows["k"], rows)
    lines.append(Line("gemms", family, "FP8", error, shipped, base))


def attention_lines(family, found, lines, other):
    rows = attention_rows(family)
    names, fixed = ["attention_peak", "attention_half"], None
    if len(rows["time"]) < 3:  # too few to say how it grows with the sequence: taken from `other`
        names, fixed = names[:1], {"attention_half": other["attention_half"]}
    found.update(fit(names, attention_time, family, rows, fixed))
    found["attention_backward"] = ATTENTION_BACKWARD
    if len(set(rows["group"])) < 2:
        return
    error = held_out(names, attention_time, family, rows, fixed)
    shipped = attention_time(family, found, rows) / rows["time"] - 1
    base = constant_rate(np.ones(len(error)), rows)
    lines.append(Line("gemms", family, "fused attention", error, shipped, base))


def memory_lines(family, found, lines):
    rows = memory_rows(family)
    large = rows["tokens"] >= FEWEST_TOKENS
    found.update(fit(MEMORY, memory_time, family, pick(rows, large)))
    error = held_out(MEMORY, memory_time, family, rows, fitted=large)
    shipped = memory_time(family, found, rows) / rows["time"] - 1
    base = constant_rate(rows["bytes"], rows)
    for kind in OPERATORS.values():
        for text, part in (("below 1024 tokens", ~large), ("1024 tokens and more", large)):
            mask = part & (rows["kind"] == kind)
            lines.append(Line("memops", family, f"{kind}, {text}", error[mask], shipped[mask],
                              base[mask]))


def collective_lines(family, found, lines):
    rows = collective_rows(family)
    found.update(fit(COLLECTIVE, all_reduce_time, family, rows))
    found["nvlink"] = ring_share(family, found)
    found["network"] = network_share(family)
    error = held_out(COLLECTIVE, all_reduce_time, family, rows)
    shipped = all_reduce_time(family, found, rows) / rows["time"] - 1
    base = constant_rate(rows["bytes"] * (rows["ranks"] - 1) / rows["ranks"], rows)
    for kind, part in (("all-reduce, below 32 MiB", rows["bytes"] < 32 * MIB),
                       ("all-reduce, 32 MiB and more", rows["bytes"] >= 32 * MIB)):
        lines.append(Line("collectives", family, kind, error[part], shipped[part], base[part]))


def modern_lines(family, found, lines):
    """Blackwell; held out: each GPU's rows under the fit to the other three's."""
    gpus = family.models
    found["gemm_processors"] = family.processors
    kinds = (("products in bf16", GEMM, modern_time, ["bfloat16"], gpus),
             ("products in FP8", ["gemm_low_peak"], modern_low, ["fp8", "fp8_block"], gpus),
             ("products in NVFP4", ["gemm_fp4_peak"], modern_fp4, ["nvfp4"], ["B200", "GB200"]))
    for kind, names, model, dtypes, on in kinds:
        rows = kernel_tables.products(on, dtypes)
        fixed = None if names is GEMM else {name: found[name] for name in GEMM}
        found.update(fit(names, model, family, rows, fixed))
        add_modern(family, kind, (names, model, rows, fixed), found, lines)
    rows = kernel_tables.attention(gpus, backward=False)
    names = ["attention_peak", "attention_half"]
    found.update(fit(names, modern_attention, family, rows))
    add_modern(family, "attention", (names, modern_attention, rows, None), found, lines)
    found["attention_backward"] = backward_share(gpus)
    found["attention_flash_2"] = kernel_tables.older_attention(
        "B200", ("flash_attention", "pyt_flash_attention"))
    found["norm"] = kernel_tables.norms("GB200")
    found["nvlink"] = kernel_tables.ring("B200", "all_gather")
    found["nvlink_all_reduce"] = kernel_tables.ring("B200", "all_reduce")


def add_modern(family, kind, fitted, found, lines):
    names, model, rows, fixed = fitted
    parts = dict(rows, group=rows["gpu"])
    error = held_out(names, model, family, parts, fixed)
    shipped = model(family, found, rows) / rows["time"] - 1
    work = rows["m"] * rows["n"] * rows["k"] if "n" in rows else np.ones(len(error))
    lines.append(Line("kernels", family, kind, error, shipped, constant_rate(work, parts)))


def hopper_attention(family, found, lines):
    """Training's kernels on H200, whose processors are H100's; the older rows, three libraries in
    one fit, stay beside it as a comparison."""
    rows = kernel_tables.attention(["H200"], backward=False)
    names = ["attention_peak", "attention_half"]
    found.update(fit(names, modern_attention, family, rows))
    shipped = modern_attention(family, found, rows) / rows["time"] - 1
    lines.append(Line("kernels", family, "attention (on H200)", shipped, shipped,
                      constant_rate(np.ones(len(shipped)), dict(rows, group=rows["m"]))))
    found["attention_backward"] = backward_share(["H200"])


def backward_share(gpus):
    """The backward pass's rate over the forward pass's, sequences of 4096 and more."""
    rates = []
    for backward in (True, False):
        rows = kernel_tables.attention(gpus, backward)
        long = pick(rows, rows["m"] >= 4096)
        rates.append(np.median(1 / long["time"] / long["peak"]))
    return float(rates[0] / rates[1])


def transferred_profiles(found):
    """Families of which a part was measured; the rest is the nearest relative's, of 16-bit kernels
    of its year: A100's for V100, H100's for the others."""
    found["V100"] = dict(found["A100"], gemm_processors=V100.processors)
    for family, keys in ((MI355X, ("primus_hipblaslt", "aiter")), (TPU, ("tpu_recipes",))):
        found[family.name] = dict(found["H100"], gemm_processors=family.processors)
        mine = found[family.name]
        rows = kernel_tables.best_products(family.name, keys, ["bfloat16", "bf16"])
        mine.update(fit(GEMM, modern_time, family, rows))
        mine["gemm_low_peak"] = mine["gemm_fp4_peak"] = mine["gemm_peak"]
    fixed = {name: found["MI355X"][name] for name in GEMM}
    for name, model, dtype in (("gemm_low_peak", modern_low, "fp8"),
                               ("gemm_fp4_peak", modern_fp4, "mxfp4")):
        rows = kernel_tables.best_products("MI355X", ("primus_hipblaslt", "aiter"), [dtype])
        found["MI355X"].update(fit([name], model, MI355X, rows, fixed))
    found["MI300X"] = dict(found["MI355X"], gemm_processors=MI300X.processors)


def product_lines(found, lines):
    """Held out: the rows of a library (MI355X) or, of TPUs, none, since a shape stands alone."""
    for family, kind, names, model, keys, dtypes in (
            (MI355X, "products in bf16", GEMM, modern_time, ("primus_hipblaslt", "aiter"),
             ["bfloat16"]),
            (MI355X, "products in FP8", ["gemm_low_peak"], modern_low,
             ("primus_hipblaslt", "aiter"), ["fp8"]),
            (TPU, "products in bf16", GEMM, modern_time, ("tpu_recipes",), ["bf16"])):
        mine = found[family.name]
        rows = kernel_tables.best_products(family.name, keys, dtypes)
        fixed = None if names is GEMM else {name: mine[name] for name in GEMM}
        shipped = model(family, mine, rows) / rows["time"] - 1
        alone = len(set(rows["group"])) < 2
        error = shipped if alone else held_out(names, model, family, rows, fixed)
        work = rows["m"] * rows["n"] * rows["k"]
        base = constant_rate(work, dict(rows, group=rows["m"]))
        lines.append(Line("kernels", family, kind, error, shipped, base))


def all_collectives():
    """Rows of both tables of collectives that state a time or a rate."""
    rows = read("collectives.csv") + kernel_tables.read("collectives-2026")
    return [row for row in rows
            if float(row["time_us"] or 0) > 0 or float(row["busbw_GBs"] or 0) > 0]


def fit_all():
    found = {family.name: {} for family in FAMILIES}
    lines = []
    for family in FAMILIES:
        gemm_lines(family, found[family.name], lines)
        low_lines(family, found[family.name], lines)
        memory_lines(family, found[family.name], lines)
        collective_lines(family, found[family.name], lines)
    for family in reversed(FAMILIES):
        attention_lines(family, found[family.name], lines, found["H100"])
    hopper_attention(FAMILIES[1], found["H100"], lines)
    found["A100"].update(attention_flash_1=FLASH_1, attention_flash_2=1)
    found["H100"].update(attention_flash_1=FLASH_1,
                         attention_flash_2=FLASH_2_ON_HOPPER)
    found["B200"] = dict(found["H100"])  # coefficients that the newer tables lack
    modern_lines(BLACKWELL, found["B200"], lines)
    found["B200"]["attention_flash_1"] = FLASH_1 * found["B200"]["attention_flash_2"]
    for family in FAMILIES:
        found[family.name]["gemm_fp4_peak"] = found[family.name]["gemm_low_peak"]
    transferred_profiles(found)
    product_lines(found, lines)
    collectives = collective_fit.fit_collectives(all_collectives(), found)
    for name in collective_fit.FAMILIES:
        found[name].update(collective_fit.profile_values(collectives.found, name))
    for name, like in (("MI355X", "MI300X"), ("TPU", "MI300X"), ("V100", "A100")):
        found[name].update(collective_fit.profile_values(collectives.found, like))
    for name in TRANSFERRED:  # no switch adds up
        found[name]["nvlink"] = found[name]["nvlink_all_reduce"] = found[name]["collective_ring"]
    return found, sorted(lines, key=lambda line: line.key[:2]), collectives


SOURCES = {
    "A100": [
        "Products, memory-bound operators: microsoft/vidur, profiling/compute/a100 (MIT)",
        "Attention, forward: one row of Azure/AI-benchmarking-guide (MIT); its growth is H100's",
        "Attention, backward over forward: FlashAttention-2 and -3 papers, rounded, not fitted",
        "All-reduce in a node: VIA-Research/vTrain (KAIST, permissive), microsoft/vidur (MIT)",
        "All-reduce in a node: Azure/AI-benchmarking-guide (MIT), aws-ofi-nccl issue (quoted)",
        "Network: asymptote on a slide of NVIDIA's GTC 2024 talk on NCCL (quoted)",
        "Protocols: all machines of python/calibration/collective_fit.py that are fitted",
    ],
    "H100": [
        "Products, memory-bound operators: microsoft/vidur, profiling/compute/h100 (MIT)",
        "Products in FP8: Azure/AI-benchmarking-guide (MIT)",
        "Attention, forward: figures of the FlashAttention-3 paper, pytorch/benchmark (quoted)",
        "Attention, forward: Azure/AI-benchmarking-guide (MIT)",
        "Attention, backward over forward: FlashAttention-2 and -3 papers, rounded, not fitted",
        "All-reduce in a node: Azure/AI-benchmarking-guide (MIT), microsoft/vidur (MIT)",
        "Ring in a node, network: asymptotes on slides of NVIDIA's GTC 2024 talk on NCCL (quoted)",
        "Protocols: all machines of python/calibration/collective_fit.py that are fitted",
    ],
}
SOURCES["B200"] = [
    "Products in bf16, FP8, NVFP4: ai-dynamo/aiconfigurator, B200 to GB300 (Apache-2.0)",
    "Attention, forward and backward, and norms: NVIDIA/cudnn-frontend (MIT)",
    "Ring in a node: ai-dynamo/aiconfigurator, NCCL 2.29 on 8 B200 (Apache-2.0)",
    "Activation, rotary, residual, embedding, starts, protocols: scaled from H100, not measured",
]
SOURCES["MI355X"] = [
    "Products in bf16, FP8, MXFP4: ROCm/aiter, AMD-AIG-AIMA/Primus with hipBLASLt (MIT)",
    "Attention, memory-bound operators: H100's; collectives: MI300X's",
]
SOURCES["MI300X"] = [
    "All-reduce in a node: rccl-tests on 8 MI300X (quoted)",
    "Products: MI355X's; attention, memory-bound operators: H100's",
]
SOURCES["TPU"] = [
    "Products in bf16: AI-Hypercomputer/tpu-recipes, v6e and TPU7x (Apache-2.0)",
    "Attention, memory-bound operators: H100's; collectives: MI300X's",
    "Lanes of attention: NUM_LANES of splash_attention_kernel.py, JAX (Apache-2.0)",
]
SOURCES["V100"] = [
    "Everything: A100's shares of V100's rates (DGX-1, which was measured, has no switch)",
]
#: Multiple to which fused attention pads the size of a head.
LANES = {"TPU": 128}
TRANSFERRED = {
    "MI355X": ["attention", "memory", "collectives"],
    "MI300X": ["products", "attention", "memory"], "TPU": ["attention", "memory", "collectives"],
    "V100": ["products", "attention", "memory", "collectives"],
}
SOURCES["H100"][4] = "Attention, backward over forward: NVIDIA/cudnn-frontend on H200 (MIT)"
ORDER = ["gemm_peak", "gemm_low_peak", "gemm_fp4_peak", "gemm_processors", "gemm_tile_loss",
         "gemm_half_k",
         "gemm_wave", "gemm_overlap", "gemm_memory", "gemm_start", "attention_peak",
         "attention_half", "attention_backward", "attention_flash_1", "attention_flash_2",
         "norm", "activation", "rotary", "residual",
         "embedding", "memory_start", "nvlink", "nvlink_all_reduce", "nvlink_pair_loss",
         "nvlink_start", "nvlink_fill", "network", "collective_start", "collective_ll",
         "collective_ll128", "collective_hop", "collective_fill", "collective_pair_loss", "nvls",
         "network_hop", "network_fill", "send", "send_start", "collective_round",
         "collective_nvls_fill", "collective_ring", "collective_direct", "collective_half_loss",
         "network_pair_loss", "collective_start_low", "collective_start_high"]
TIMES = ("_start", "_start_low", "_start_high", "nvlink_fill", "collective_fill", "nvls_fill")
DIGITS = 5  # significant digits that the catalogue has at most; the tables state three or four


def value_text(name, value):
    """Text of a coefficient: microseconds to a nanosecond, others to four decimals, both to
    DIGITS."""
    scaled, decimals, unit = (value * 1e6, 3, " us") if name.endswith(TIMES) else (value, 4, "")
    before = math.floor(math.log10(scaled)) + 1 if scaled >= 1 else 0
    return f"{scaled:.{min(decimals, max(0, DIGITS - before))}f}{unit}"


def profile_text(values):
    """Lines of the coefficients of one profile, in the order of the catalogue."""
    return "".join(f"    {each}: {value_text(each, values[each])}\n" for each in ORDER)


def source_text(name, values):
    """Lines of the sources of one profile; the last names the coefficients that a prior holds."""
    lines = list(SOURCES[name])
    if values.get("held") and "products" not in TRANSFERRED.get(name, ()):
        lines.append(f"A prior, not the rows: {', '.join(values['held'])}")
    return "    source:\n" + "".join(f'      - "{line}"\n' for line in lines)


def interval_text(collectives):
    """The intervals of single collectives (CollectiveSpread in topologies/topology.proto)."""
    text = ""
    for name, sides in collectives.spreads.items():
        text += f"{name}:\n"
        text += "".join(f"  {side}: {value:.4f}\n" for side, value in zip(
            ("below_80", "above_80", "below_95", "above_95"), sides))
    return text + (f"start_below_95: {collectives.found['widen_low']:.3f}\n"
                   f"start_above_95: {collectives.found['widen_high']:.3f}\n")


def catalogue(found, collectives):
    text = ("# Shares of a data sheet's rates that kernels and links reach, per GPU family. "
            "Written by\n# python/calibration/fit_components.py from published measurements; "
            "docs/accuracy.md says how\n# good the fit is. `stands_in_for`: GPUs without enough "
            "measurements of their own.\nfallback: H100\nprofiles:\n")
    for family in (*FAMILIES, BLACKWELL, MI300X, MI355X, TPU, V100):
        text += f"  - name: {family.name}\n    gpus: [{', '.join(family.models)}]\n"
        if family.stands_in_for:
            text += f"    stands_in_for: [{', '.join(family.stands_in_for)}]\n"
        if family.name in LANES:
            text += f"    attention_lanes: {LANES[family.name]}\n"
        text += profile_text(found[family.name])
        if family.name in TRANSFERRED:
            text += f"    transferred: [{', '.join(TRANSFERRED[family.name])}]\n"
        text += source_text(family.name, found[family.name])
    return text + interval_text(collectives)


def validation(found):
    """Share-alike rows beside the fit; figures of the comparison only."""
    text = []
    for family in FAMILIES:
        rows = collective_rows(family, share_alike=True)
        if len(rows["time"]):
            error = all_reduce_time(family, found[family.name], rows) / rows["time"] - 1
            text.append(f"{family.name} all-reduce of 1 MiB and more in a node, {len(error)} rows "
                        f"of stas00/ml-engineering (CC-BY-SA-4.0, never fitted): median error "
                        f"{100 * np.median(np.abs(error)):.1f}%, bias "
                        f"{100 * np.median(error):+.1f}%.")
    return "\n".join(text)


PAGE = """\
## Component models

Written by `python3 python/calibration/fit_components.py` (numpy and scipy; the measurements are
found through `ORRERY_DATA`), which also writes `topologies/catalog/kernels.yaml`. This part
is about single kernels and collectives.

Held out: a model's rows (`gemms`, `memops`) or a source's rows (`collectives`, attention) are
predicted by a fit to all the others. Errors are of time, (predicted - measured) / measured; `bias`
is the median with its sign, `worst decile` the absolute error that one row in ten exceeds. The
yardstick is one constant rate, the median of the other groups: one FLOP/s for products and
attention, one bandwidth for all memory-bound operators, one bus bandwidth for collectives.
`shipped`: the same rows under the coefficients in the catalogue, which have seen them; a test
recomputes this column from the C++ model.

{head}
{table}

{validation}

### Collectives, over all machines and kinds

What `sim/estimates/collectives` prices: the fastest algorithm (ring, double binary tree,
in the switches) under the fastest protocol (LL, LL128, Simple), on each machine as its source
describes it. One fit over all machines. **Held out**: the rows of a machine under the fit to all
other machines. Medians of the absolute error of time; `bias` is the signed median. The yardstick is
one bus bandwidth, the median of the other machines'. Rows of machines that are not fitted (`no`:
CC-BY-SA; or a reporter calls it slow; or an older release of another row's software) are held out
by nature and stand in the second table only.

{collectives}

`80%` and `95%`: the share of a machine's times inside the intervals of a fit that has not seen the
machine's source. A source that times a call without its launch is far below all others for small
messages, and no interval that the others make contains it; the interval that ships spans the starts
of all fitted sources.

Left out, because the model has no input for them: V100 (DGX-1 links its GPUs without a switch),
machines whose NIC speed, size or number of nodes is not stated, four GPUs that are linked in pairs,
rows below 1 KiB, a pathological case, and rows that repeat another machine's.
Of NVIDIA's racks, 20 at once
are slower than anything that one or two of them show, and are not fitted. Between nodes two
generations of EFA were measured at all sizes: their latency from NIC to NIC ({efa}) is fitted as a
property of the fabric. No all-to-all between nodes is fitted, and of all-gather and reduce-scatter
between nodes one source with one GPU a node.

### What is weak

- Forward products only: no backward product is fitted. The shapes come from inference profiles;
  the largest of the older GPUs have 4096 rows. On H100 FP8 has nine rows of one library, without
  its conversions; on Blackwell the times in 8 and 4 bits hold the conversion of the input in part
  of the rows, which is why they are far off.
- Attention: on A100 a single row, and its backward pass from a paper. Older generations than the
  newest take a rounded share of its rate, on Blackwell a measured one. Latent attention, FP8
  attention and grouped products of experts were measured, but are not fitted.
- Memory-bound operators are those of an inference stack, unfused; frameworks that fuse the norm or
  the activation are faster. Rows below 1024 tokens are not fitted: the data sit in the cache
  and the times are a few ticks of a 1 us timer.
- Loss and optimizer take the share of the residual addition: no row measures them.
- Inside a training step, collectives have an older price of their own, fitted to all-reduces of
  1 MiB and more; single collectives and execution traces have the one above.
- Products of Blackwell, MI355X and TPUs have 1024 rows and more. Such rows do not determine all
  seven coefficients (of TPUs there are six rows), so that a weak prior pulls each towards a typical
  value. The last line of `source` in a profile names the coefficients that the prior holds: of
  TPUs `gemm_wave`, which no row shows, and three more. Their values are assumptions.
- H800 and H200 have H100's shares of their own data-sheet rates (measured products on H200 agree);
  B200, B300, GB200 and GB300 are one family, though GB300 reaches a tenth more of its rate and B200
  a tenth less. Of MI355X and TPUs products alone were measured, of MI300X all-reduces
  alone, of V100 nothing; everything else of theirs is a relative's, which training runs correct
  ([accuracy of hardware](#hardware-with-the-family-left-out)).
"""


HEAD = ("table", "GPU", "kind", "rows", "median", "mean", "bias", "worst decile",
        "yardstick median", "yardstick mean", "shipped")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files only")
    check = parser.parse_args().check
    if not (DATA / "training-runs").is_dir():
        raise SystemExit("data not found (set ORRERY_DATA or provide ../shared/data)")
    found, lines, collectives = fit_all()
    head = "| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|"
    part = PAGE.format(head=head, table="\n".join(line.text() for line in lines),
                       validation=validation(found),
                       collectives=collective_fit.report(collectives),
                       efa=f"p4d {1e6 * collectives.found['efa_p4']:.0f} us, p5 "
                           f"{1e6 * collectives.found['efa_p5']:.0f} us")
    print(part)
    yaml, text = ROOT / "topologies/catalog/kernels.yaml", catalogue(found, collectives)
    if check:
        return 1 if yaml.read_text() != text or page.read_part("components") != part else 0
    yaml.write_text(text)
    page.write_part("components", part)
    return 0


if __name__ == "__main__":
    sys.exit(main())
