"""Plans against the simulator: step of the first row and of the other layouts in full detail, dates
by failures alone against fresh seeds, and CPU time. Run by `./dev bench plan [SEEDS [LAYOUTS
[GPUS [ROW]]]]` (ROW: another row than the first); asserts nothing."""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
GPUS = sys.argv[3] if len(sys.argv) > 3 else "1024"
ROW = int(sys.argv[4]) if len(sys.argv) > 4 else 1
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


def full_step(scenario):
    out = orrery("simulate", scenario, "--json", "--detail", "full", "--set", "run.steps=1",
                 "--set", "failures={kinds: []}")  # fmt: skip
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
        ends = [json.loads(orrery("simulate", row, "--json", "--seed", seed))["elapsed_s"]
                for seed in range(1001, 1001 + seeds)]  # fmt: skip
        inside = sum(low <= end <= high for end in ends)
        before = sum(end < low for end in ends)
        print("| reserved H100 | row | CPU of the plan | P10 to P90 by failures alone, days "
              "| fresh seeds between | before |\n|---:|---|---:|---:|---:|---:|\n"
              f"| {int(GPUS):,} | {ROW}: {first['job_gpus']:,} with ranks, "
              f"{first['policies']['spare_nodes']} spare nodes, {words_of(first['layout'])} "
              f"| {cpu:.1f} s | {low / 86400:.2f} to {high / 86400:.2f} "
              f"| {inside} of {seeds} | {before} |", flush=True)  # fmt: skip
        # Rates of the whole job are compared: batches differ a little.
        full = first["global_batch"] / full_step(row)
        rates = []
        for rank in range(1, layouts + 1):
            orrery("layouts", *MODEL, "--scenario", layout, "--row", rank)
            rates.append((512 / full_step(layout), rank))
        if not rates:
            return
        best, rank = max(rates)
        print(f"row {ROW} in full detail, {first['job_gpus']} GPUs with ranks: {full:.2f} "
              f"sequences/s; best of the first {layouts} layouts on {GPUS}: {best:.2f} "
              f"(rank {rank}), {100 * (best / full - 1):+.2f}%")  # fmt: skip


if __name__ == "__main__":
    main()
