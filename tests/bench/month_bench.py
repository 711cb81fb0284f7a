"""A month on 10,000 GPUs: what a run of it costs, the band over 100 seeds, how the answer moves
with what is assumed; and how often a job of 16,384 GPUs is interrupted in 54 days by the failure
rates of other clusters. Run by `./dev bench month`; asserts nothing."""

import math
import os
import pathlib
import sys

import numpy
import orrery

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "month-10k-h100.yaml"
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
DAY_S = 86_400
SEEDS, FEW = 100, 5
STEPS = 700_000  # more than 54 days

#: As long as the failures are drawn for, on the cluster and with the job of the Llama 3 report.
INTERRUPTED = {
    "cluster.nodes": 2048,
    "job.layout.data": 128,
    "job.global_batch": 2048,
    "failures.until": "54 d",
}


def quantiles(values):
    return numpy.quantile(values, [0.05, 0.5, 0.95])


def one_run():
    report = orrery.simulate(EXAMPLE)
    host = report.host
    print(f"one run: {host['cpu_s']:.2f} s of CPU, {host['peak_rss_bytes'] / 2**20:.0f} MiB, "
          f"{len(report.failures)} ranks lost in {report.elapsed_s / DAY_S:.1f} days")
    time = report.gpu_time
    print("\n| GPU time | share |\n|---|---:|")
    for use, seconds in time.items():
        if use != "total":
            print(f"| {use.replace('_', ' ')} | {100 * seconds / time['total']:.2f}% |")


def band():
    runs = orrery.sweep(EXAMPLE, {"seed": range(1, SEEDS + 1)}, progress=False)
    print(f"\n| {SEEDS} seeds | 5% | median | 95% |\n|---|---:|---:|---:|")
    for name, values in (
        ("goodput", 100 * runs["goodput"]),
        ("days until it is done", runs["elapsed_s"] / DAY_S),
        ("cost, million USD", runs["cost_usd"] / 1e6),
        ("energy, GWh", runs["energy_j"] / 3.6e12),
    ):
        low, middle, high = quantiles(values)
        print(f"| {name} | {low:.2f} | {middle:.2f} | {high:.2f} |")


def middle(changes):
    grid = {**{key: [value] for key, value in changes.items()}, "seed": range(1, FEW + 1)}
    return f"{100 * orrery.sweep(EXAMPLE, grid, progress=False)['goodput'].median():.2f}%"


def assumptions():
    """Each of them halved and doubled."""
    print(f"\n| goodput, median of {FEW} seeds | halved | as it is | doubled |")
    print("|---|---:|---:|---:|")
    as_it_is = middle({})
    for key, value, unit in (
        ("survival.detection", 30, " s"),
        ("survival.restart", 240, " s"),
        ("survival.regroup", 60, " s"),
        ("live.checkpoints.stall", 5, " s"),
        ("live.checkpoints.write", 120, " s"),
        ("failures.scale", 1, ""),
    ):
        half, double = (middle({key: f"{factor * value}{unit}"}) for factor in (0.5, 2))
        print(f"| `{key}` | {half} | {as_it_is} | {double} |")


def interruptions():
    """Counted in the simulation; beside them the interval in which 95% of such counts lie."""
    print("\n| interruptions of 16,384 GPUs in 54 days | mean of 20 seeds | 95% of the months | "
          "Llama 3 had |\n|---|---:|---:|---:|")
    for profile in ("rsc-1", "rsc-2", "llama3"):
        runs = orrery.sweep(
            EXAMPLE, {**{key: [value] for key, value in INTERRUPTED.items()},
                      "failures.profile": [profile], "run.steps": [STEPS],
                      "seed": range(1, 21)},
            progress=False,
        )
        counts = runs["faults_injected"]
        mean = counts.mean()
        spread = 1.96 * math.sqrt(mean)
        print(f"| {profile} | {mean:.0f} | {mean - spread:.0f} to {mean + spread:.0f} "
              "| 419 unexpected, 466 in all |")


MEASURED = {"run": one_run, "band": band, "assumptions": assumptions,
            "interruptions": interruptions}


def main():
    for name, measure in MEASURED.items():
        if not sys.argv[1:] or name in sys.argv[1:]:
            measure()


if __name__ == "__main__":
    main()
