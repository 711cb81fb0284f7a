"""Prices the open runs of one B200 node from the kernels measured on that node, and from no step
time of it, and writes the part of docs/accuracy.md about them.

The kernels are those of kernels/simumax.csv.gz, the runs those of runs-open.csv whose source is
simumax_b200: few-layer Llama-70B and DeepSeek-V2, with their step times and peak memory. The
source's own simulator states errors of 5.6% and 0.5% for all 43 runs of its table, of which 22 are
open.
"""

import pathlib
import subprocess
import sys
import tempfile

import accuracy
import numpy as np
import page
import runs

PART = "node kernels"
SOURCE, GPU = "simumax_b200", "B200"
GIB = 2.0**30
HEAD = ("run", "layout", "measured", "predicted", "error", "catalogue", "peak GiB", "predicted",
        "error")  # fmt: skip


def node_file(folder):
    path = pathlib.Path(folder, "node.yaml")
    table = runs.DATA / "kernels" / "simumax.csv.gz"
    if not table.exists():
        raise SystemExit("data not found (set ORRERY_DATA or provide ../shared/data)")
    command = [runs.PROGRAM, "calibrate", "--kernels", table, "--gpu", GPU, "-o", path]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def layout_of(row):
    sizes = (("TP", "tp"), ("PP", "pp"), ("CP", "cp"), ("EP", "ep"))
    words = [f"{word} {row[column]}" for word, column in sizes if int(row[column]) > 1]
    return f"{row['model']} {', '.join(words)}, {row['seq_len']} x {row['grad_accum']}"


def relative(predicted, measured):
    return predicted / measured - 1


def make_text():
    rows = [row for row in runs.open_rows() if row["source_key"] == SOURCE and row["measured"]]
    with tempfile.TemporaryDirectory() as folder:
        node = ["--kernels", node_file(folder)]
        own = runs.predict(rows, options=node)
    shipped = runs.times(runs.predict(rows))
    measured = np.array([row["measured"] for row in rows])
    peaks = np.array([float(row["peak_mem_gb"]) for row in rows])
    times = runs.times(own)
    memory = np.array([float(p["memory_bytes"]) / GIB for p in own])
    off, room = relative(times, measured), relative(memory, peaks)
    lines = [[row["id"], layout_of(row), f"{measured[i]:.3f} s", f"{times[i]:.3f} s",
              f"{off[i]:+.1%}", f"{relative(shipped[i], measured[i]):+.1%}", f"{peaks[i]:.2f}",
              f"{memory[i]:.2f}", f"{room[i]:+.1%}"] for i, row in enumerate(rows)]  # fmt: skip
    return TEXT.format(
        table=accuracy.table(HEAD, lines), count=len(rows),
        time=np.median(np.abs(off)), most=np.max(np.abs(off)), bias=np.median(off),
        catalogue=np.median(np.abs(relative(shipped, measured))),
        memory=np.median(np.abs(room)), largest=np.max(np.abs(room)),
    )  # fmt: skip


TEXT = """\
## A node's own kernels

Written by `python3 python/calibration/node_kernels.py`: runs of one node of 8 B200, priced by the
kernels that were measured on that node ([how](predict.md#a-nodes-own-kernels)) and by no step time
of it. `catalogue`: the error with the shipped prices of B200. The runs fuse the loss and overlap
nothing.

{table}
Median error of the {count} step times {time:.1%}, at most {most:.1%}, bias {bias:+.1%}; with the
shipped prices {catalogue:.1%}. Median error of peak memory {memory:.1%}, at most {largest:.1%}. The
simulator of the measurements' authors states 5.6% and 0.5% for the 43 runs of their table.
"""


if __name__ == "__main__":
    sys.exit(page.run_script(PART, make_text, __doc__))
