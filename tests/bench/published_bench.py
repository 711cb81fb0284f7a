"""Published long runs beside the simulation: goodput by failure rates, detection, restart and
checkpoint times that were read, derived from read values, or assumed, none of them fitted to the
published goodput. Prints the results, then every input with its origin.
Run by `./dev bench published [NAME...]`; asserts nothing."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
EXAMPLE = ROOT / "examples" / "month-10k-h100.yaml"
SEEDS = range(1, 6)


def h100(replicas, spare=2):
    """Replicas of 128 GPUs of the example's job."""
    return {"cluster.nodes": 16 * replicas + spare, "job.layout.data": replicas,
            "job.global_batch": 26 * replicas}


def survival(detection, regroup, restart, **more):
    return {"survival.detection": detection, "survival.regroup": regroup,
            "survival.restart": restart} | {f"survival.{key}": value for key, value in more.items()}


def saved(every, stall, write):
    """A checkpoint after so many steps; restarts from it."""
    return {"checkpoints": f"{{folder: kept, every: {every}, stall: {stall}, write: {write}}}",
            "policies": "[{name: recover, parameters: {how: restart}}]"}


def others_continue(replacement):
    """The other replicas continue until the lost one is back, with the state of a peer."""
    return {"survival.on_loss": "go-on", "survival.replacement": replacement,
            "policies": "[{name: recover, parameters: {how: replace}}]"}


def kinds(*entries):
    return {"failures": f"{{kinds: [{', '.join(entries)}]}}"}


@dataclasses.dataclass
class Run:
    """One published run. `inputs`: name, value, and origin: read, derived or assumed."""

    published: float
    settings: dict
    inputs: list
    above: bool = False  #: the published value is a bound
    steps: int = 40_000

    def recovery(self):
        """Returns the weakest origin of the times of recovery."""
        origins = [origin.split(":")[0] for key, _, origin in self.inputs
                   if key.startswith(("recovery", "detection", "restart", "stall", "replica"))]
        return next(each for each in ("assumed", "derived", "read") if each in origins)


#: Median of 3 min 42 s and mean of 38 min 54 s, of a log-normal distribution.
OLMO = "{median: 222 s, sigma: 2.17}"
#: Detection, rescheduling, restore and first step of an elastic run on TPU v5e.
ELASTIC = "Google's elastic demonstration (blog, July 2026)"
MONTH = ("checkpoints", "stall 5 s, write 2 min, interval by `checkpoint-interval`",
         "assumed: as the month on 10,000 GPUs")


def replica_restarts(replicas):
    """FT-HSDP with its recovery simulated: a lost replica restarts while the others train on. The
    time without it costs its share of the job, which no source states."""
    return Run(
        80, h100(replicas) | survival("1 min", "1 min", "10 min") | saved(1000, "0 s", "1 s")
        | others_continue("10 min")
        | kinds("{cause: failure, part: job, mtbf: 18 min, kill: true}"),
        [("failures", "every 18 min", "read: arXiv:2602.00277"),
         ("stall", "3 min: 2 at the loss, 1 at the return",
          "derived: of the 3 min read (arXiv:2602.00277)"),
         ("replica away", "10 min", "assumed: as long as the whole job took before"),
         ("replica", f"1/{replicas} of the job", "assumed: its size is in no source that was read"),
         ("checkpoints", "without cost", "assumed"),
         ("GPUs of a replica", "128 stand for all", "derived: only shares of the job count")],
        steps=8000)


RUNS = {
    "Llama 3, 16,384 H100": Run(
        90, h100(128) | survival("30 s", "60 s", "4 min"),
        [("interruptions", "466 by cause in 54 days", "read: arXiv:2407.21783, table 5"),
         ("detection, regroup, restart", "30 s, 60 s, 4 min", "assumed"), MONTH],
        above=True, steps=350_000),
    "ByteRobust, dense, 9,600 GPUs": Run(
        97, h100(75) | survival("30 s", "60 s", "60 s") | saved(1, "0.04 s", "5 s"),
        [("checkpoints", "each step, in memory, blocks for 0.01 to 0.04 s",
          "read: arXiv:2509.16293"),
         ("failures", "Llama 3's by GPU and day", "assumed"),
         ("detection, regroup, restart", "30 s, 60 s, 60 s", "assumed")]),
    "ByteRobust, experts, 1 month": Run(
        91, h100(75) | survival("30 s", "60 s", "60 s") | saved(1, "0.04 s", "5 s")
        | kinds("{cause: incident, part: job, counted: {count: 49212, time: 90 d, "
                "parts: 20.83}, kill: true}"),
        [("checkpoints", "each step, in memory, blocks for 0.01 to 0.04 s",
          "read: arXiv:2509.16293"),
         ("failures", "26 a day: 49,212 of 200,000 GPUs in 3 months",
          "derived: of the whole fleet, debugging included"),
         ("size", "9,600 GPUs", "assumed: as the dense run"),
         ("detection, regroup, restart", "30 s, 60 s, 60 s", "assumed")]),
    "MegaScale, 12,288 GPUs": Run(
        90, h100(96) | survival("10 min", "1 s", "5 min")
        | kinds("{cause: restart, part: job, counted: {count: 100, time: 21 d}, kill: true}"),
        [("failures", "100 restarts in three weeks", "assumed: NSDI 2024 says over 100 in several "
          "weeks, not verified"),
         ("detection", "10 min, with diagnosis", "read: NSDI 2024, not verified"),
         ("restart", "5 min", "derived: within 15 min including the detection"), MONTH],
        above=True, steps=150_000),
    "Gemini 1.0": Run(
        97, h100(96) | survival("13 s", "10 s", "68.1 s") | saved(1, "0 s", "1 s")
        | kinds("{cause: interruption, part: job, mtbf: 7.5 h, kill: true}"),
        [("failures", "an interruption every 7.5 h", "read: Glenn Lockwood's table, of whose "
          "columns the order is ambiguous"),
         ("checkpoints", "redundant copies in memory: no work is lost",
          "read: arXiv:2312.11805"),
         ("regroup", "10 s for the optical switch", "read: arXiv:2312.11805"),
         ("size", "12,288 GPUs stand for all", "derived: the size is in the rate"),
         ("detection, restart", "13 s, 50 + 5.4 + 12.7 s", f"assumed: as in {ELASTIC}")]),
    "Gemini 2.5": Run(
        93.4, h100(32) | survival("13 s", "17 s", "4 min") | saved(1000, "0 s", "1 s")
        | others_continue("10 min")
        | kinds("{cause: interruption, part: job, mtbf: 20 min, kill: true}"),
        [("size", "32 slices", "derived: 97% of the throughput without one (a summary of "
          "arXiv:2507.06261)"),
         ("failures", "three an hour", "assumed: several an hour, not verified"),
         ("stall", "30 s at a loss, 17 s at a return", "assumed: tens of seconds, not verified"),
         ("replica away", "10 min", "assumed: ten minutes or more, not verified")],
        steps=10_000),
    "FT-HSDP before, 98,304 GPUs": Run(
        44, h100(78) | survival("0 s", "1 s", "10 min")
        | kinds("{cause: failure, part: job, mtbf: 18 min, kill: true}"),
        [("failures", "every 18 min", "read: arXiv:2602.00277"),
         ("recovery", "10 min", "read: arXiv:2602.00277"),
         ("size", "9,984 GPUs stand for all", "derived: the size is in the rate"), MONTH],
        steps=20_000),
    "FT-HSDP after, 98,304 GPUs": Run(
        80, h100(78) | survival("0 s", "1 s", "3 min") | saved(1, "0 s", "1 ms")
        | kinds("{cause: failure, part: job, mtbf: 18 min, kill: true}"),
        [("failures", "every 18 min", "read: arXiv:2602.00277"),
         ("stall", "3 min", "read: arXiv:2602.00277"),
         ("checkpoints", "at each step, without cost",
          "derived: the other replicas keep their work, so none is lost"),
         ("size", "9,984 GPUs stand for all", "derived: the size is in the rate")], steps=4000),
    "FT-HSDP after, one replica of 78 restarts": replica_restarts(78),
    "FT-HSDP after, one replica of 12 restarts": replica_restarts(12),
    "BLOOM, 384 A100": Run(
        88.5, h100(3, 4) | saved(800, "40 s", "1 s") | survival("30 min", "1 s", "20 min")
        | kinds("{cause: GPU, part: job, counted: {count: 25, time: 117 d}, kill: true, restart: "
                "{values: [" + ", ".join(["20 min"] * 21 + ["6 h", "7.3 h", "11 h", "18 h"])
                + "]}}"),
        [("published value", "tokens over rate and days", "derived"),
         ("failures", "25 in 117 days", "derived: 1.5 a week (bigscience chronicles)"),
         ("checkpoints", "40 s every 3 h", "read: stas00/ml-engineering"),
         ("restart, four incidents", "6, 7.3, 11 and 18 h", "read: bigscience chronicles"),
         ("detection, other restarts", "30 min, 20 min", "assumed"),
         ("GPUs", "H100", "derived: only ratios of times count")], steps=800_000),
    "OPT-175B, 992 A100": Run(
        59, h100(8, 4) | saved(800, "40 s", "1 s") | survival("5 min", "1 s", "20 min")
        | kinds("{cause: automatic, part: job, counted: {count: 70, time: 57 d}, kill: true, "
                f"restart: {OLMO}}}",
                "{cause: people, part: job, counted: {count: 35, time: 57 d}, kill: true, "
                "restart: {median: 6 h, p90: 24 h}}"),
        [("failures", "105 restarts in 57 days, 35 by people",
          "read: arXiv:2205.01068, not verified; the final update says about 90"),
         ("restart, automatic", "median 3 min 42 s, mean 38 min 54 s",
          "assumed: OLMo's (Lambda's blog)"),
         ("restart by people", "median 6 h, p90 24 h", "assumed"),
         ("checkpoints, detection", "40 s every 3 h, 5 min", "assumed")], steps=400_000),
    "OPT-175B, restarts as OLMo's": Run(
        59, h100(8, 4) | saved(800, "40 s", "1 s") | survival("5 min", "1 s", "20 min")
        | kinds("{cause: restart, part: job, counted: {count: 105, time: 57 d}, kill: true, "
                f"restart: {OLMO}}}"),
        [("restart, all", "median 3 min 42 s, mean 38 min 54 s", "assumed: OLMo's (Lambda's blog)"),
         ("the rest", "as above", "assumed: as above")], steps=400_000),
}


def goodput_of(run, seed):
    command = [BUILD / "bin" / "orrery", "simulate", EXAMPLE, "--json", "--seed", str(seed),
               "--set", f"run.steps={run.steps}", "--set", "run.memory=warn"]
    for key, value in run.settings.items():
        command += ["--set", f"{key}={value}"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr}")
    return 100 * json.loads(result.stdout)["goodput"]


def row(name, run):
    found = sorted(goodput_of(run, seed) for seed in SEEDS)
    median = (found[(len(found) - 1) // 2] + found[len(found) // 2]) / 2
    off = median - run.published
    reached = run.above and off >= 0
    return (f"| {name} | {'> ' if run.above else ''}{run.published:g} | {median:.1f} | "
            f"{found[0]:.1f} to {found[-1]:.1f} | {'reached' if reached else f'{off:+.1f}'} | "
            f"{run.recovery()} |")


def main():
    chosen = {name: run for name, run in RUNS.items()
              if not sys.argv[1:] or any(word in name for word in sys.argv[1:])}
    print(f"| run | published, % | ours, median | {len(SEEDS)} seeds | off, points | recovery is |"
          "\n|---|---:|---:|---:|---:|---|")
    for name, run in chosen.items():
        print(row(name, run), flush=True)
    print("\n| run | input | value | origin |\n|---|---|---|---|")
    for name, run in chosen.items():
        for key, value, origin in run.inputs:
            print(f"| {name} | {key} | {value} | {origin} |")


if __name__ == "__main__":
    main()
