"""Published long runs beside the simulation: goodput by failure rates, detection, restart and
checkpoint times that were read, derived or assumed, none of them fitted to the published goodput.
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


def survival(detection, regroup, restart):
    return {"survival.detection": detection, "survival.regroup": regroup,
            "survival.restart": restart}


def saved(every, stall, write):
    """A checkpoint after so many steps."""
    return {"live.checkpoints": f"{{folder: kept, every: {every}, stall: {stall}, write: {write}}}",
            "policies": "[{name: recover, parameters: {how: restart}}]"}


def kinds(*entries):
    return {"failures": f"{{kinds: [{', '.join(entries)}]}}"}


@dataclasses.dataclass
class Run:
    """One published run."""

    published: str
    settings: dict
    read: str
    derived: str
    assumed: str
    steps: int = 40_000


#: Median of 3 min 42 s and mean of 38 min 54 s, of a log-normal distribution.
OLMO = "{median: 222 s, sigma: 2.17}"
RUNS = {
    "Llama 3, 16,384 H100": Run(
        "> 90", h100(128) | survival("30 s", "60 s", "4 min"),
        "466 interruptions by cause in 54 days (arXiv:2407.21783)", "-",
        "detection, restart and checkpoints as in the month above", 350_000),
    "ByteRobust, 9,600 GPUs": Run(
        "97", h100(75) | survival("30 s", "60 s", "60 s") | saved(1, "0.04 s", "5 s"),
        "a checkpoint in memory at each step blocks for 0.01 to 0.04 s (arXiv:2509.16293)",
        "-", "Llama 3's rates; detection 30 s, regroup and restart 60 s each"),
    "MegaScale, 12,288 GPUs": Run(
        "> 90", h100(96) | survival("10 min", "1 s", "5 min")
        | kinds("{cause: restart, part: job, counted: {count: 100, time: 21 d}, kill: true}"),
        "detection and diagnosis within 10 min (NSDI 2024)",
        "restart 5 min: within 15 min including the detection",
        "100 restarts in three weeks, not verified; checkpoints as in the month above",
        150_000),
    "FT-HSDP before, 98,304 GPUs": Run(
        "44", h100(78) | survival("0 s", "1 s", "10 min")
        | kinds("{cause: failure, part: job, mtbf: 18 min, kill: true}"),
        "a failure every 18 min, 10 min of recovery (arXiv:2602.00277)",
        "the size is in the rate: 9,984 GPUs stand for all",
        "checkpoints as in the month above", 4000),
    "FT-HSDP after, 98,304 GPUs": Run(
        "80", h100(78) | survival("0 s", "1 s", "3 min") | saved(1, "0 s", "1 ms")
        | kinds("{cause: failure, part: job, mtbf: 18 min, kill: true}"),
        "a failure every 18 min, 3 min of stall",
        "the others keep their work: a checkpoint at each step; no work is lost",
        "-", 4000),
    "BLOOM, 384 A100": Run(
        "88.5 (derived)", h100(3, 4) | saved(800, "40 s", "1 s")
        | survival("30 min", "1 s", "20 min")
        | kinds("{cause: GPU, part: job, counted: {count: 25, time: 117 d}, kill: true, restart: "
                "{values: [" + ", ".join(["20 min"] * 21 + ["6 h", "7.3 h", "11 h", "18 h"])
                + "]}}"),
        "checkpoint in 40 s every 3 h; 6, 7.3, 11 and 18 h lost in four incidents",
        "1.5 failures a week are 25 in 117 days; the published value is tokens over rate and days",
        "the other restarts 20 min, detection 30 min; H100 stand for A100 (only the ratio counts)",
        800_000),
    "OPT-175B, 992 A100": Run(
        "59", h100(8, 4) | saved(800, "40 s", "1 s") | survival("5 min", "1 s", "20 min")
        | kinds("{cause: automatic, part: job, counted: {count: 70, time: 57 d}, kill: true, "
                f"restart: {OLMO}}}",
                "{cause: people, part: job, counted: {count: 35, time: 57 d}, kill: true, "
                "restart: {median: 6 h, p90: 24 h}}"),
        "105 restarts, 35 of them by people, in 57 days (not verified at the source; final "
        "update: ~90)",
        "restart times of the automatic ones: OLMo's median 3 min 42 s and mean 38 min 54 s",
        "people: median 6 h, p90 24 h", 400_000),
    "OPT-175B, restarts as OLMo's": Run(
        "59", h100(8, 4) | saved(800, "40 s", "1 s") | survival("5 min", "1 s", "20 min")
        | kinds("{cause: restart, part: job, counted: {count: 105, time: 57 d}, kill: true, "
                f"restart: {OLMO}}}"),
        "as above", "all restarts: OLMo's", "-", 400_000),
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


def main():
    print("| run | published, % | simulated, median (lowest to highest of "
          f"{len(SEEDS)} seeds) | read | derived | assumed |\n|---|---:|---:|---|---|---|")
    for name, run in RUNS.items():
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        found = sorted(goodput_of(run, seed) for seed in SEEDS)
        print(f"| {name} | {run.published} | {found[len(found) // 2]:.1f} "
              f"({found[0]:.1f} to {found[-1]:.1f}) | {run.read} | {run.derived} | {run.assumed} |",
              flush=True)


if __name__ == "__main__":
    main()
