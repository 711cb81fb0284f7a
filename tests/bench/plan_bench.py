"""Plans against the simulator: dates by failures alone against the same and against fresh seeds,
CPU time, and the step of a row in full detail against the other layouts with as many ranks and
spares. Run by `./dev bench plan [SEEDS [LAYOUTS [GPUS [ROW]]]]` (ROW: another row than the first).
Exit code 1: the plan takes more than 15 s of CPU.

Equal conditions: the layouts are the first ones of `orrery layouts` for the row's number of ranks
and its batch, on the same reserved nodes. The number of spares is no property of a layout: it comes
from the failures, and the dates of the rows compare it."""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
sys.path.insert(0, str(BUILD / "python"))

import orrery as package  # noqa: E402

GPUS = sys.argv[3] if len(sys.argv) > 3 else "1024"
ROW = int(sys.argv[4]) if len(sys.argv) > 4 else 1
MOST_CPU_S = 15
MODEL = ["--model", "llama3-70b", "--cluster", "dgx-h100", "--gpus", GPUS]


def orrery(*arguments):
    result = subprocess.run(
        [BUILD / "bin" / "orrery", *map(str, arguments)], capture_output=True, text=True
    )
    if result.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, arguments))}\n{result.stderr}")
    return result.stdout


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def full_step(scenario, *changes):
    out = orrery("simulate", scenario, "--json", "--detail", "full", "--set", "run.steps=1",
                 "--set", "failures={kinds: []}",
                 *(word for each in changes for word in ("--set", each)))  # fmt: skip
    return json.loads(out)["step_time_s"]


def words_of(layout):
    names = ("tensor", "context", "pipeline", "data", "expert", "chunks")
    return " x ".join(f"{name} {layout[name]}" for name in names if layout[name] > 1)


def main():
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    layouts = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    with tempfile.TemporaryDirectory() as folder:
        row, layout = pathlib.Path(folder, "row.yaml"), pathlib.Path(folder, "layout.yaml")
        began = cpu_of_children()
        plan = json.loads(orrery("plan", *MODEL, "--tokens", "2T", "--json", "--scenario", row,
                                 "--row", ROW))  # fmt: skip
        cpu = cpu_of_children() - began
        first = plan["candidates"][ROW - 1]
        low, high = (first["finish_failures_only_s"][key] for key in ("p10", "p90"))
        ends = simulated_ends(row, range(1001, 1001 + seeds))
        inside = sum(low <= end <= high for end in ends)
        before = sum(end < low for end in ends)
        print("| reserved H100 | row | CPU of the plan | P10 to P90 by failures alone, days "
              "| fresh seeds between | before |\n|---:|---|---:|---:|---:|---:|\n"
              f"| {int(GPUS):,} | {ROW}: {first['job_gpus']:,} with ranks, "
              f"{first['policies']['spare_nodes']} spare nodes, {words_of(first['layout'])} "
              f"| {cpu:.1f} s | {low / 86400:.2f} to {high / 86400:.2f} "
              f"| {inside} of {seeds} | {before} |", flush=True)  # fmt: skip
        compare_seeds(row, min(seeds, plan["seeds"]))
        compare_layouts(first, row, layout, layouts)
    if cpu > MOST_CPU_S:
        sys.exit(f"expected at most {MOST_CPU_S} s of CPU for the plan, found {cpu:.1f} s")


def simulated_ends(row, seeds):
    """Simulated ends of a row in seconds, a seed each."""
    return [json.loads(orrery("simulate", row, "--json", "--seed", seed))["elapsed_s"]
            for seed in seeds]  # fmt: skip


def compare_seeds(row, count):
    """Prints the differences of played and simulated ends of the plan's own first seeds."""
    plan = package.plan(MODEL[1], MODEL[3], gpus=int(GPUS), tokens="2T")
    played = plan.play(ROW).alone_s[:count]
    simulated = simulated_ends(row, range(1, count + 1))
    apart = sorted(100 * (each / end - 1) for each, end in zip(played, simulated))
    print(f"row {ROW}, played against simulated ends of the same {count} seeds: mean "
          f"{sum(apart) / count:+.3f}%, from {apart[0]:+.3f}% to {apart[-1]:+.3f}%", flush=True)


def compare_layouts(row, scenario, file, count):
    """Prints the rate of a row over the best of the first `count` layouts with as many ranks."""
    full = row["global_batch"] / full_step(scenario)
    asked = ["--gpus", row["job_gpus"], "--global-batch", row["global_batch"]]
    known = json.loads(orrery("layouts", *MODEL[:4], *asked, "--json"))["layouts_that_fit"]
    rates = []
    for rank in range(1, min(count, known) + 1):
        orrery("layouts", *MODEL[:4], *asked, "--scenario", file, "--row", rank)
        rates.append((row["global_batch"] / full_step(file, f"cluster.nodes={row['gpus'] // 8}"),
                      rank))  # fmt: skip
    if not rates:
        return
    best, rank = max(rates)
    print(f"row {ROW} in full detail, {row['job_gpus']:,} ranks on {row['gpus']:,} GPUs, batch "
          f"{row['global_batch']}: {full:.2f} sequences/s; best of the first {len(rates)} layouts "
          f"with as many ranks: {best:.2f} (rank {rank}), {100 * (best / full - 1):+.2f}%")


if __name__ == "__main__":
    main()
