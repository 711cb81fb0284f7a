"""Published training runs and predictions of `orrery predict` for them, for fit_stacks.py and
accuracy.py. The measurements are found through ORRERY_DATA, else ../shared/data; the program
through ORRERY_BUILD, else build.

    python3 python/calibration/runs.py OUT

writes the open runs with the columns that their notes state, for `./dev bench own`."""

import csv
import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("ORRERY_DATA", ROOT.parent / "shared" / "data"))
PROGRAM = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build")) / "bin" / "orrery"
OUTCOMES = (
    "iter_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "tflops_kind",
    "mfu_pct", "hfu_pct", "iter_time_derived_s", "derived_from", "check", "usable", "grade",
    "split", "notes",
)  # fmt: skip


def read(name):
    path = DATA / "training-runs" / name
    if not path.exists():
        raise SystemExit("data not found (set ORRERY_DATA or provide ../shared/data)")
    opened = gzip.open(path, "rt", newline="") if name.endswith(".gz") else open(path, newline="")
    with opened as file:
        return list(csv.DictReader(file))


def timed(rows):
    for row in rows:
        time = row["iter_time_s"] or row["iter_time_derived_s"]
        row["measured"] = float(time) if time and row["outcome"] == "ok" else None
    return rows


def sweep_rows():
    """Layout sweeps (layouts-open.csv.gz), those that failed with `measured` None."""
    return timed(read("layouts-open.csv.gz"))


# Columns of `orrery predict` that runs-open.csv has in words only: the words, and the value.
WORDS = {
    "balance": ((r"router forced to balance|forced expert balance|(^|[;,] )forced balance(;|$)",
                 "forced"),
                (r"natural routing|router natural|real routing", "natural")),
    "head_size": ((r"head_dim (\d+)|q_dim = heads\*(\d+)", r"\1\2"),),
    # 16 is the rank of MLPerf's fine-tuning benchmark.
    "adapter_rank": ((r"LoRA r(\d+)", r"\1"), (r"\bLoRA\b", "16")),
    # Recipes of Megatron-Bridge capture the whole iteration from release 26.06 on: the same layout
    # takes 0.64 of its time under 26.04.01 (megatron_bridge, qwen3-30b-a3b). Without graphs, the
    # sync-free experts of Primus do not let the host wait for counts of routed tokens either.
    "graphs": ((r"sync-free MoE", "full"), (r"(?i)no CUDA graph|CUDA graphs off", "none"),
               (r"(?i)partial CUDA graph|scoped CUDA graph|router CUDA graph|CUDA graph over"
                r"|attention CUDA graph", "partial"),
               (r"(?i)full.iteration|full CUDA graph", "full"),
               (r"\b26\.0[6-9][.\d]* NeMo Container|container nemo:26\.0[6-9]", "full")),
    # prime-rl's trainer of reinforcement learning makes logits in chunks (FusedOutputLinear).
    "loss": ((r"chunked loss|\brl trainer", "chunked"), (r"\bsft trainer", "plain"),
             (r"loss fusion|fused CE|CE fusion", "fused")),
    # fp32 weights, and Adam's moments in 16 bits.
    "optimizer_bytes": ((r"precision-aware optimizer \(bf16 states\)", "8"),),
}  # fmt: skip
# Notes of a run that is the one of the row before, but for what they state themselves.
REPEATED = re.compile(r"^(as the row before|repeat of the pretrain run|repeat from step)\b")
# Rows of many documents, whose lengths and padding the source does not state.
PACKED = re.compile(r"\bpacked rows of\b")


# Cells that a source states elsewhere than in its rows: weights and moments in 16 bits under
# maxtext-slurm (configs/*.gpu.yml: weight_dtype, which Adam's moments follow in MaxText); the nodes
# of InternEvo's measurements, with four RoCE links of 100 Gbit/s (doc/en/train_performance.md).
SOURCES = {"mxslurm": {"optimizer_bytes": "4"},
           "interevo": {"nics_per_node": "4", "nic_gbps": "100", "fabric": "RoCE"}}


def stated(words):
    """The cells that the words about a run state, "" where they state none."""
    cells = {}
    for column, patterns in WORDS.items():
        matches = ((re.search(pattern, words), value) for pattern, value in patterns)
        cells[column] = next((match.expand(value) for match, value in matches if match), "")
    return cells


def open_rows():
    """Runs on newer GPUs and of other frameworks (runs-open.csv), with the columns that their notes
    state. Rows of packed documents are partial."""
    rows = timed(read("runs-open.csv"))
    for before, row in zip([{}, *rows], rows):
        words = (row["notes"], row["arch_source"], row["location"], row["overlap"])
        cells = stated("; ".join(words))
        if REPEATED.search(row["notes"]) and before.get("source_key") == row["source_key"]:
            cells = {column: cell or before[column] for column, cell in cells.items()}
        row.update(cells)
        row.update(SOURCES.get(row["source_key"], {}))
        if PACKED.search(row["notes"]):
            row["usable"] = "partial"
    return rows


def measured_rows():
    """The rows of measured.csv, with `measured` (seconds of a step, or None) added to each."""
    rows = read("measured.csv")
    for row in rows:
        time = row["iter_time_s"] or row["iter_time_derived_s"]
        row["measured"] = float(time) if time else None
    return rows


def write_stated(path):
    """Writes the open runs with the columns that their notes state."""
    rows = open_rows()
    with open(path, "w", newline="") as file:
        names = [name for name in rows[0] if name != "measured"]
        writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def predict(rows, stacks=None, options=()):
    """Returns the program's predictions for the rows, without their outcomes: one dict a row.

    stacks: text of a stacks.yaml whose stacks replace the shipped ones of the same name.
    options: further options of the command.
    """
    names = [name for name in rows[0] if name not in OUTCOMES and name != "measured"]
    with tempfile.TemporaryDirectory() as folder:
        cases, out = pathlib.Path(folder, "cases.csv"), pathlib.Path(folder, "out.csv")
        with open(cases, "w", newline="") as file:
            writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        command = [PROGRAM, "predict", cases, "-o", out, *options]
        if stacks is not None:
            own = pathlib.Path(folder, "stacks.yaml")
            own.write_text(stacks)
            command += ["--stacks", own]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(out, newline="") as file:
            return list(csv.DictReader(file))


def times(predictions):
    """Predicted seconds, nan where the run is not supported."""
    return np.array([float(p["iter_time_s"] or "nan") for p in predictions])


def stack_of(prediction):
    """The name of the stack that a supported prediction used."""
    words = [w for w in prediction["reason"].split("; ") if w.startswith("stack ")]
    return words[0].split()[1]


def ranks(values):
    """Ranks from 0; equal values have the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[inverse]


def spearman(a, b):
    """Spearman's rank correlation; nan for fewer than three values or equal ones."""
    if len(a) < 3 or len(set(a)) < 2 or len(set(b)) < 2:
        return float("nan")
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def family(gpu):
    """A100-SXM4-80GB and A100-SXM4-40GB are A100."""
    return gpu.split("-")[0]


def group_of(row):
    """Runs that differ in scale only are not independent measurements of a stack."""
    return (row["source_key"], row["framework"], row["model"], row["gpu"], row["precision"],
            row["recompute"])  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: runs.py OUT")
    write_stated(sys.argv[1])
