"""Tables of newer kernels (kernels/*.csv.gz below ORRERY_DATA) as rows that fit_components.py fits
and compares: products in 16, 8 and 4 bits and fused attention on Hopper and Blackwell, forward and
backward. Inference frameworks' kernels: quantisation of the input is inside some of the times in 8
and 4 bits, which is why those are fitted apart from the products in 16 bits.

A GPU's own rates are those of topologies/catalog/gpus.yaml.
"""

import csv
import gzip
import os
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("ORRERY_DATA", ROOT.parent / "shared" / "data"))

# Rates keyed by the first letters of a table's GPU: bf16, FP8 and FP4 in FLOP/s, memory and NVLink
# in bytes/s.
RATES = {
    "A100": (312e12, 0, 0, 2039e9, 300e9), "H100": (989.4e12, 1978.9e12, 0, 3350e9, 450e9),
    "H200": (989.4e12, 1978.9e12, 0, 4800e9, 450e9),
    "B200": (2250e12, 4500e12, 9000e12, 8000e9, 900e9),
    "B300": (2250e12, 4500e12, 13500e12, 8000e9, 900e9),
    "GB200": (2500e12, 5000e12, 10000e12, 8000e9, 900e9),
    "GB300": (2500e12, 5000e12, 15000e12, 8000e9, 900e9),
    "MI355X": (2516.6e12, 5033e12, 10066e12, 8000e9, 537.6e9),
    "TPU": (918e12, 0, 0, 1640e9, 448e9),
}
# Rows of one core, half a chip, of TPU7x.
TPU_CORE = (1153.5e12, 3690e9)
FORMATS = {"bfloat16": 0, "bf16": 0, "fp8": 1, "fp8_block": 1, "nvfp4": 2, "mxfp4": 2}
ELEMENT = {"bfloat16": 2, "bf16": 2, "fp8": 1, "fp8_block": 1, "nvfp4": 0.5625, "mxfp4": 0.53125}


def read(name):
    with gzip.open(DATA / "kernels" / f"{name}.csv.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))


def short(gpu):
    """H200-SXM-141GB is H200; None: a GPU that is not in the catalogue."""
    name = gpu.split("-")[0]
    return name if name in RATES else None


def table(rows, **made):
    return {name: np.array([of(row) for row in rows]) for name, of in made.items()}


def products(gpus, dtypes):
    """Forward products of training's sizes: 1024 rows and more, weights not in the cache."""
    rows = [r for r in read("gemm-lowprec")
            if r["source_key"] == "aiconfigurator" and short(r["gpu"]) in gpus and
            r["dtype"] in dtypes and int(r["m"]) >= 1024]
    return table(rows, m=lambda r: float(r["m"]), n=lambda r: float(r["n"]),
                 k=lambda r: float(r["k"]), time=lambda r: float(r["time_us"]) * 1e-6,
                 peak=lambda r: RATES[short(r["gpu"])][FORMATS[r["dtype"]]],
                 memory=lambda r: RATES[short(r["gpu"])][3],
                 element=lambda r: ELEMENT[r["dtype"]], gpu=lambda r: short(r["gpu"]),
                 dtype=lambda r: r["dtype"],
                 group=lambda r: f'{short(r["gpu"])} {r["framework"]}')


def best_products(gpu, source_keys, dtypes):
    """Forward products of 1024 rows and more, the fastest kernel of each shape: the libraries of
    AMD and of Google choose among several, which their tables list."""
    best = {}
    for row in read("gemm-lowprec"):
        rows = float(row["m"]) if row["m"] else 0
        if (not row["gpu"].startswith(gpu) or row["source_key"] not in source_keys or
                row["dtype"] not in dtypes or rows < 1024 or not row["time_us"]):
            continue
        key = tuple(row[name] for name in ("gpu", "m", "n", "k", "dtype"))
        if key not in best or float(row["time_us"]) < float(best[key]["time_us"]):
            best[key] = row

    def rate(row, which):
        if row["gpu"].startswith("TPU7x"):
            return TPU_CORE[0 if which < 3 else 1]
        return RATES[short(row["gpu"])][which]
    return table([best[key] for key in sorted(best)], m=lambda r: float(r["m"]),
                 n=lambda r: float(r["n"]), k=lambda r: float(r["k"]),
                 time=lambda r: float(r["time_us"]) * 1e-6,
                 peak=lambda r: rate(r, FORMATS[r["dtype"]]), memory=lambda r: rate(r, 3),
                 element=lambda r: ELEMENT[r["dtype"]], gpu=lambda r: short(r["gpu"]) or "TPU",
                 dtype=lambda r: r["dtype"], group=lambda r: r["source_key"])


def attention(gpus, backward):
    """cuDNN's training kernels in 16 bits, causal, heads of 128: time per FLOP of the causal half
    (the backward pass takes 2.5 times the forward pass's, as published; twice here)."""
    rows = [r for r in read("attention-bwd")
            if short(r["gpu"]) in gpus and r["dtype"] in ("bf16", "bfloat16") and
            r["backend"] in ("cudnn", "cudnn_fe", "pyt_cudnn") and r["mask"] == "top_left" and
            r["head_dim_qk"] == "128" and "window" not in r["note"] and
            r["direction"] == ("bwd" if backward else "fwd")]
    scale = 2.5 / 2 if backward else 1
    return table(rows, m=lambda r: float(r["seq_kv"]),
                 time=lambda r: scale * 1e-12 / float(r["tflops"]),
                 peak=lambda r: RATES[short(r["gpu"])][0], gpu=lambda r: short(r["gpu"]),
                 group=lambda r: short(r["gpu"]))


def older_attention(gpu, kernels):
    """Rate of older kernels over cuDNN's where both were timed on the same problem."""
    best, older = {}, {}
    for row in read("attention-bwd"):
        if short(row["gpu"]) != gpu or row["dtype"] not in ("bf16", "bfloat16"):
            continue
        key = tuple(row[c] for c in ("mask", "batch", "seq_q", "seq_kv", "heads", "kv_heads",
                                     "head_dim_qk", "head_dim_v", "direction"))
        into = older if row["backend"] in kernels else best
        if row["backend"] in kernels or "cudnn" in row["backend"]:
            into[key] = max(into.get(key, 0), float(row["tflops"]))
    ratios = [older[key] / best[key] for key in older if key in best and float(key[2]) >= 2048]
    return float(np.median(ratios)) if ratios else 1.0


def norms(gpu):
    """Norms as frameworks run them (torch.compile), forward: achieved bytes per second over the
    data sheet's."""
    rows = [r for r in read("norms-fwd-bwd")
            if r["gpu"] == gpu and r["op"].endswith("_fwd torch_compile") and
            int(r["num_tokens"]) >= 4096]
    return float(np.median([float(r["gbps"]) * 1e9 / RATES[gpu][3] for r in rows]))


def ring(gpu, collective):
    """Bus bandwidth of eight GPUs' collectives of 256 MiB and more, over NVLink's rate."""
    rows = [float(r["busbw_GBs"]) for r in read("collectives-2026")
            if r["source_key"] == "aic_nccl" and short(r["gpu"]) == gpu and r["ranks"] == "8" and
            r["collective"] == collective and float(r["size_bytes"]) >= 2**28]
    return max(rows) * 1e9 / RATES[gpu][4]
