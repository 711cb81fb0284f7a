"""Writes docs/open-runs.md: every open training run with the prediction of `orrery predict`, its
80% interval and state, by source, GPU and stack, and the ten worst with their causes.

    python3 python/calibration/open_rows.py            # write the page
    python3 python/calibration/open_rows.py --check    # fail if the page says something else

The command fails if one of the ten worst runs has no cause in CAUSES.
"""

import argparse
import collections
import sys
import textwrap

import fit_hardware
import numpy as np
import runs
from accuracy import by, percent, table

PAGE = runs.ROOT / "docs" / "open-runs.md"
WORST = 10
#: Rows of these sources validate only (fit_hardware.py says why).
VALIDATE = fit_hardware.VALIDATE

HEAD = """\
# Open runs

For readers who ask how far off a prediction of a run like theirs was. First command, which writes
this page from the measured tables (`ORRERY_DATA`):

```
python3 python/calibration/open_rows.py
```

The page has every published training run of the tables `runs-open.csv`, `measured.csv` and
`layouts-open.csv` that ran and states all of its configuration, each configuration once. Times are
seconds of one optimizer step; an error is predicted over measured time, less 1. The predictions are
those of the shipped factors, most of which were fitted to some of these runs: errors with families
and sources left out are in [accuracy.md](accuracy.md). A run *validates* if it was never fitted:
no licence was found, its kernels are priced from a table of their own, or `measured.csv` reserves
it for tests. `state` has the meaning of [predict.md](predict.md). Causes are those that the
source's notes or other runs of the same source show; *presumably* marks the others.

"""

SWEEP = "nanotron_ultrascale"
HOST = ("no full CUDA graph stated: the host, which waits for the counts of routed tokens in each "
        "layer with experts, sets the pace; the stack's `host_experts` is 0 until it is fitted")
NATURAL = ("natural routing: the busiest rank of experts has more than the mean load; the stack's "
           "`natural_load` is 1 until it is fitted")
CROSSING = ("all-to-alls by NCCL over two to eight nodes, presumably far below the rate of the "
            "NICs; the GPU's `network` factor is 1 until it is fitted")
CAPACITY = ("a capacity factor of 4: experts are padded fourfold, and the products with one-hot "
            "masks that dispatch tokens grow with it; kernels of such shapes were not measured "
            "on the GPU")
SMALL = ("one GPU and a model of 0.6 billion parameters with adapters: presumably the host, which "
         "launches small kernels one by one, sets the pace")
TRAINER = ("a trainer measured for three steps with fake data: no run of its stack with experts is "
           "fitted on the GPU")
TOKENDROP = ("a recipe that drops tokens, whose capacity its table does not state, without full "
             "CUDA graphs")
SPREAD = ("the source itself warns of 40 percent between allocations: the same configuration took "
          "125 to 225 s")
#: Causes of large errors by the run's id.
CAUSES = {
    **{f"misc-{number:03}": "one micro-batch of 27 layers of 17 ms, " + HOST
       for number in range(8, 14)},
    "n23-mbcards-006": NATURAL + "; all-to-alls by NCCL, which its source calls untuned",
    "n23-mbcards-007": NATURAL + "; all-to-alls by NCCL, which its source calls untuned",
    "n23-mbcards-008": NATURAL + "; all-to-alls by NCCL, which its source calls untuned",
    "n23-mbcards-010": NATURAL + "; " + HOST,
    "n23-mbcards-011": NATURAL + "; " + HOST,
    "n23-mbcards-015": NATURAL + "; " + HOST,
    "n23-mcorefsdp-001": HOST,
    "n23-mcorefsdp-002": HOST,
    "n23-mcorefsdp-003": HOST,
    "n23-moerecipes-014": HOST,
    "n23-moerecipes-017": HOST,
    "n23-moerecipes-022": HOST,
    "n23-pedgb-014": HOST + "; graphs of Transformer Engine cover parts of a layer",
    **{f"n23-pedgb-{number:03}": "batch derived from TFLOP/s, interleaving not stated; " + HOST
       for number in (15, 16, 17)},
    "n23-primus-072": "the batch comes from a configuration file, not from the log, and experts "
                      "are spread over two nodes: the row is doubtful",
    "n23-primerl-008": SMALL,
    **{f"n23-primerl-{number:03}": TRAINER for number in (39, 51, 55)},
    **{f"n23-mxslurm-{number:03}": CROSSING for number in (206, 207, 208)},
    **{f"n23-mxslurm-{number:03}": CAPACITY for number in (23, 123, 203, 204, 205)},
    "n23-mxslurm-031": HOST + "; experts dropless with DeepEP",
    "n23-mxslurm-078": HOST + "; experts dropless with DeepEP",
    "n23-bigscience-007": SPREAD,
    "n23-bigscience-008": SPREAD,
    "megatron_bridge-022": HOST,
    "megatron_bridge-266": TOKENDROP,
    "megatron_bridge-267": TOKENDROP,
}  # fmt: skip


def gpu_of(row):
    """TPUs by generation, other GPUs by family."""
    return row.gpu if row.gpu.startswith("TPU") else runs.family(row.gpu)


class Row:
    """One open run beside its prediction."""

    def __init__(self, row, prediction):
        self.id, self.source, self.gpu = row["id"], row["source_key"], row["gpu"]
        self.measured, self.reason = row["measured"], prediction["reason"]
        self.priced = bool(prediction["iter_time_s"])
        self.is_swept = row["source_key"] == SWEEP
        if not self.priced:
            return
        self.stack = runs.stack_of(prediction)
        self.state = prediction["state"]
        self.validates = row["source_key"] in VALIDATE or row.get("split") == "open-test"
        self.predicted = float(prediction["iter_time_s"])
        self.low, self.high = float(prediction["p10_s"]), float(prediction["p90_s"])

    @property
    def error(self):
        return self.predicted / self.measured - 1

    @property
    def distance(self):
        return abs(np.log(self.predicted / self.measured))

    @property
    def is_inside(self):
        return self.low <= self.measured <= self.high


def open_runs():
    """The open rows that ran with all of their configuration, each configuration once."""
    found = []
    for rows in (runs.measured_rows(), runs.open_rows(), runs.sweep_rows()):
        kept = [row for row in rows if row["measured"] and row["usable"] == "iteration" and
                not row.get("duplicate_of")]
        found += [Row(row, p) for row, p in zip(kept, runs.predict(kept))]
    return found


def seconds(value):
    return f"{value:.4g}"


def summary(head, rows, key):
    """One line a group: number of rows, errors, and the share inside the 80% interval."""
    lines = []
    for name, at in sorted(by([key(row) for row in rows]).items()):
        errors = np.array([rows[i].error for i in at])
        inside = np.mean([rows[i].is_inside for i in at])
        states = collections.Counter(rows[i].state for i in at)
        lines.append([name, len(at), percent(np.median(np.abs(errors))),
                      percent(np.median(errors)), percent(errors[np.argmax(np.abs(errors))]),
                      f"{inside:.0%}", ", ".join(f"{s} {n}" for s, n in sorted(states.items()))])
    return table((head, "runs", "median error", "median of signed errors", "worst", "in 80%",
                  "states"), lines)  # fmt: skip


def worst_text(rows):
    worst = sorted(rows, key=lambda row: -row.distance)[:WORST]
    unexplained = [row.id for row in worst if row.id not in CAUSES]
    if unexplained:
        raise SystemExit(f"open_rows.py: expected a cause in CAUSES for each of the {WORST} worst "
                         f"runs, found none for {', '.join(unexplained)}: add one")
    lines = [[row.id, row.source, row.gpu, row.stack, seconds(row.measured),
              seconds(row.predicted), percent(row.error), CAUSES[row.id]] for row in worst]
    return table(("run", "source", "GPU", "stack", "measured", "predicted", "error", "cause"),
                 lines)


def source_text(rows):
    """All runs of a source, by GPU and stack."""
    lines = []
    for row in sorted(rows, key=lambda row: (row.gpu, row.stack, row.id)):
        state = row.state + (", validates" if row.validates else "")
        lines.append([row.id, row.gpu, row.stack, seconds(row.measured), seconds(row.predicted),
                      percent(row.error), f"{seconds(row.low)} to {seconds(row.high)}",
                      "" if row.is_inside else "outside", state])
    return table(("run", "GPU", "stack", "measured", "predicted", "error", "80% interval", "",
                  "state"), lines)


def refused_text(rows):
    lines = [[row.id, row.source, row.gpu, row.reason.replace("|", "/")] for row in rows]
    return table(("run", "source", "GPU", "reason"), lines)


def page_text():
    everything = open_runs()
    rows = [row for row in everything if row.priced]
    refused = [row for row in everything if not row.priced]
    single = [row for row in rows if not row.is_swept]
    counts = (
        f"{len(everything)} runs, {len(rows)} of them priced. The {len(rows) - len(single)} runs "
        f"of the layout sweep {SWEEP} have a line under *By source* and are counted in no other "
        "figure above their own section: each is the time of one iteration, the same layout again "
        "takes 5 to 25% more or less, once 4.7 times as long, and part of them ran with a version "
        "that polls for messages ([accuracy.md](accuracy.md) separates these)."
    )  # fmt: skip
    text = HEAD + (
        f"{textwrap.fill(counts, 100, break_on_hyphens=False)}\n\n"
        f"## The {WORST} worst runs\n\n{worst_text(single)}\n"
        f"## By source\n\n{summary('source', rows, lambda row: row.source)}\n"
        f"## By GPU\n\n{summary('GPU', single, gpu_of)}\n"
        f"## By stack\n\n{summary('stack', single, lambda row: row.stack)}\n"
    )  # fmt: skip
    if refused:
        text += f"## Refused runs\n\n{refused_text(refused)}\n"
    for source, at in sorted(by([row.source for row in rows]).items()):
        text += f"## {source}\n\n{source_text([rows[i] for i in at])}\n"
    return text.rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the page only")
    check = parser.parse_args().check
    text = page_text()
    if check:
        return 0 if PAGE.exists() and PAGE.read_text() == text else 1
    PAGE.write_text(text)
    print(f"wrote {PAGE.relative_to(runs.ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
