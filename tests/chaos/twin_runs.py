"""Live training runs with kills and stragglers, and `orrery twin` beside each.

python3 tests/chaos/twin_runs.py [--runs 10] [--seed 1] [--steps 100] [--record FILE]

Each seed is one run of four ranks, which loses ranks at random instants (rates of the scenario,
drawn by the seed; the twin knows the rates and not the seed), and in which two ranks become slow
for a while. Micro-batches have a declared pace of 100 ms, for which the ranks wait, so that a step
of 0.4 s is long beside the delays of a busy machine. The twin reads the log of the run while it
grows. Printed: a table with a row for each run, the median error of the forecasts of the next step
(from commit to commit, steps with a loss included), and the number of runs whose end is inside the
80% interval of the first forecast after half of the run. Exit code 1 if the error exceeds 5%, or
fewer than eight of ten ends are inside. With --record, runs in the file are not repeated.
"""

import argparse
import csv
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build")) / "bin" / "orrery"
MOST_ERROR, LEAST_INSIDE = 0.05, 0.8
STEP_S = 0.4  # four micro-batches


def overrides(seed, steps):
    """Settings of one run: rates of kills, and two ranks that are slow for a while."""
    dice = random.Random(seed)
    slow = []
    for begin, end in ((0.1, 0.4), (0.5, 0.8)):
        at = int(steps * dice.uniform(begin, end))
        rank, factor = dice.randrange(4), round(dice.uniform(1.5, 2.5), 2)
        slow.append(f"{{at_step: {at}, until_step: {at + steps // 6}, rank: {rank}, "
                    f"slow: {factor}}}")  # fmt: skip
    kills_every = steps * STEP_S / 3
    values = [
        "cluster.nodes=4", "cluster.node.gpus_per_node=1", "cluster.node.nics_per_node=1",
        "job.sequence_length=8", "job.pace.micro_batch=100 ms", f"run.steps={steps}",
        f"run.seed={seed}", f"faults=[{', '.join(slow)}]",
        f"failures={{kinds: [{{cause: crash, part: job, mtbf: {kills_every:.0f} s, kill: true}}]}}",
    ]  # fmt: skip
    return [word for value in values for word in ("--set", value)]


def run_beside(seed, steps, folder, every=2):
    """Trains one run with a twin beside it; returns its row of the table."""
    log, out = folder / f"{seed}.log", folder / f"{seed}.twin"
    live = subprocess.Popen(
        [PROGRAM, "live", ROOT / "examples" / "kill-one-rank.yaml", *overrides(seed, steps),
         "--record", log, "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        while live.poll() is None and not pathlib.Path(f"{log}.partial").exists():
            live_wait(live)
        twin = subprocess.run(
            [PROGRAM, "twin", log, "--every", str(every), "--json", "--out", out],
            capture_output=True, text=True, timeout=60 + 20 * steps * STEP_S,
        )  # fmt: skip
        output, errors = live.communicate(timeout=120)
    finally:
        live.kill()
    if live.returncode != 0 or twin.returncode != 0:
        raise RuntimeError(f"seed {seed}: {errors}{twin.stderr}")
    return row_of(seed, json.loads(output), json.loads(twin.stdout), out / "forecasts.csv")


def live_wait(live):
    try:
        live.wait(0.1)
    except subprocess.TimeoutExpired:
        pass


def row_of(seed, report, score, table):
    with open(table) as file:
        known = list(csv.DictReader(file))
    ends = [row for row in known if row["kind"] == "end"]
    end_s = float(ends[-1]["actual_s"])
    half = next(row for row in ends if float(row["made_s"]) >= end_s / 2)
    low, high = float(half["low80_s"]), float(half["high80_s"] or "inf")
    return {
        "seed": seed,
        "losses": len(report["failures"]),
        "end_s": round(end_s, 1),
        "forecasts": score["forecasts"],
        "next_steps": score["next_steps"],
        "error": score["next_step_error_p50"],
        "made_s": float(half["made_s"]),
        "median_s": float(half["median_s"]),
        "low_s": low,
        "high_s": high,
        "inside": low <= end_s <= high,
        "node_loss_s": score["newest"]["policies"][0]["node_loss_s"],
        "decision_p50_ms": score["decision_p50_ms"],
    }


def print_table(rows):
    print("| run | losses | forecasts | next step, median error | half of the run: end forecast, "
          "80% interval | end | inside |")  # fmt: skip
    print("|---:|---:|---:|---:|---:|---:|---|")
    for row in rows:
        print(f"| {row['seed']} | {row['losses']} | {row['forecasts']} | {100 * row['error']:.1f}% "
              f"| {row['median_s']:.1f} s, {row['low_s']:.1f} to {row['high_s']:.1f} | "
              f"{row['end_s']:.1f} s | {'yes' if row['inside'] else 'no'} |")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--record", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    if options.record and options.record.exists():
        rows = [json.loads(line) for line in options.record.read_text().splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.runs):
            if any(row["seed"] == seed for row in rows):
                continue
            rows.append(run_beside(seed, options.steps, pathlib.Path(folder)))
            if options.record:
                with options.record.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print_table(rows)
    error = statistics.median(row["error"] for row in rows)
    inside = sum(row["inside"] for row in rows)
    times = statistics.median(row["decision_p50_ms"] for row in rows)
    print(f"\n{len(rows)} runs: next step {100 * error:.1f}% (median of the runs), end inside its "
          f"80% interval in {inside}; a forecast takes {times:.0f} ms (median); "
          f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end")  # fmt: skip
    return 0 if error <= MOST_ERROR and inside >= LEAST_INSIDE * len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
