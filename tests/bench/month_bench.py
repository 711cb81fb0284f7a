"""A month on 10,000 GPUs: the cost of a run, the band over 100 seeds, and the sensitivity to the
assumptions; and the interruptions of a job of 16,384 GPUs in 54 days by the failure rates of other
clusters. Run by `./dev bench month`; asserts nothing."""

import math
import pathlib
import sys

import numpy
import orrery

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "month-10k-h100.yaml"
LARGE = ROOT / "examples" / "month-131k-multiplane.yaml"
DAY_S = 86_400
SEEDS, FEW = 100, 5
STEPS = 700_000  # more than 54 days
JOB_HOURS = 10.88  # time between failures that RSC-1's jobs cause themselves (failures.yaml)

#: As long as the failures are drawn for, on the cluster and with the job of the Llama 3 report.
INTERRUPTED = {
    "cluster.nodes": 2048,
    "job.layout.data": 128,
    "job.global_batch": 2048,
    "failures.until": "54 d",
}


def quantiles(values):
    return numpy.quantile(values, [0.05, 0.5, 0.95])


def one_run(example=EXAMPLE):
    report = orrery.simulate(example)
    host = report.host
    print(f"one run: {host['cpu_s']:.2f} s of CPU, {host['peak_rss_bytes'] / 2**20:.0f} MiB, "
          f"{len(report.failures)} ranks lost in {report.elapsed_s / DAY_S:.1f} days")
    time = report.gpu_time
    print("\n| GPU time | share |\n|---|---:|")
    for use, seconds in time.items():
        if use != "total":
            print(f"| {use.replace('_', ' ')} | {100 * seconds / time['total']:.2f}% |")
    return report


def large():
    """131,072 GPUs whose cables flap; then a few days of it by how long traffic takes to notice."""
    print("\n131,072 GPUs, eight planes")
    report = one_run(LARGE)
    time = report.gpu_time
    parts = sum(seconds for use, seconds in time.items() if use != "total")
    flaps = next(each for each in report.fault_counts if each["cause"] == "cable flap")
    print(f"\n{flaps['injected']:,} flaps; the parts are {100 * parts / time['total']:.12f}% of "
          f"elapsed time x GPUs, {report.carbon_kg / 1e6:.1f} kt of CO2")
    print("\n| until traffic avoids a lost cable | recovery | goodput |\n|---|---:|---:|")
    for reroute in ("10 us", "1 ms", "10 ms", "1 s", "10 s"):
        days = orrery.simulate(LARGE, overrides={"cluster.fabric.reroute": reroute,
                                                 "run.steps": 10_000})
        share = days.gpu_time["recovery"] / days.gpu_time["total"]
        print(f"| {reroute} | {100 * share:.2f}% | {100 * days.goodput:.2f}% |")


def time_to_failure():
    """RSC-1's rates at three sizes, by the node alone and with the failures that its jobs cause
    themselves."""
    print("\n| mean time to failure, RSC-1's rates | of nodes | of the job too | Meta's |\n"
          "|---|---:|---:|---:|")
    for gpus, published in ((1024, "7.9 h measured"), (16_384, "1.8 h"), (131_072, "0.23 h")):
        days = min(54, 2 * 131_072 // gpus)
        runs = orrery.sweep(EXAMPLE, {
            "cluster.nodes": [gpus // 8], "job.layout.data": [gpus // 128],
            "job.global_batch": [gpus // 8], "failures.profile": ["rsc-1"],
            "failures.until": [f"{days} d"], "run.steps": [days * 9000],
            "seed": range(1, 6)}, progress=False)
        every = days * 24 / runs["faults_injected"].mean()
        nodes = 1 / (1 / every - 1 / JOB_HOURS)
        print(f"| {gpus:,} GPUs | {nodes:.2f} h | {every:.2f} h | {published} |")


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
        ("checkpoints.stall", 5, " s"),
        ("checkpoints.write", 120, " s"),
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


def plotted():
    """The days until it is done, by seed, sorted, with the band in which 90% of them lie."""
    from matplotlib import pyplot

    runs = orrery.sweep(EXAMPLE, {"seed": range(1, SEEDS + 1)}, progress=False)
    days = numpy.sort(runs["elapsed_s"] / DAY_S)
    low, middle, high = quantiles(days)
    figure, axes = pyplot.subplots(figsize=(6, 3.2), layout="constrained")
    axes.step(days, numpy.arange(1, len(days) + 1) / len(days), where="post")
    axes.axvspan(low, high, alpha=0.15, label=f"90% of the months: {low:.2f} to {high:.2f} days")
    axes.axvline(middle, linestyle=":", label=f"median: {middle:.2f} days")
    axes.set_xlabel("days until Llama 3 405B is done on 10,000 H100")
    axes.set_ylabel("share of seeds")
    axes.legend(loc="lower right", fontsize="small")
    figure.savefig(ROOT / "docs" / "month.svg", metadata={"Date": None})
    print("\nplotted: docs/month.svg")


MEASURED = {"run": one_run, "band": band, "plot": plotted, "assumptions": assumptions,
            "interruptions": interruptions, "failure": time_to_failure, "large": large}


def main():
    for name, measure in MEASURED.items():
        if not sys.argv[1:] or name in sys.argv[1:]:
            measure()


if __name__ == "__main__":
    main()
