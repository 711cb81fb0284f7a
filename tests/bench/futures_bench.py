"""Cost of a run beside others of its kind: a point of a sweep, forked from one program, and one of
a thousand futures of a run. CPU of all processes. Run by `./dev bench futures`; asserts nothing."""

import json
import os
import pathlib
import resource
import subprocess
import time

import orrery

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
EXAMPLES = ROOT / "examples"
POINTS = 400
REPEATS = 5
FUTURES = 1000
# Every rank's computation varies, one rank is slow for a while, two are killed and replaced, one
# NIC is slow: before the instant and after it.
NOISE_AND_FAULTS = {
    "run.steps": 2000,
    "noise.compute_cv": 0.03,
    "policies": "[{name: recover}]",
    "faults": "[{at_time: 10 min, rank: 5, kill: true}, "
    "{at_time: 40 min, rank: 17, slow: 1.2, for: 5 min}, "
    "{at_time: 70 min, rank: 40, kill: true}, "
    "{at_time: 80 min, rank: 99, link_slow: 2, for: 10 min}, "
    "{at_time: 100 min, rank: 200, slow: 1.1, for: 5 min}]",
}


def cpu_s(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def measured(run):
    """CPU of this process and of its children, and the time on the clock, seconds."""
    both = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    before, wall = [cpu_s(who) for who in both], time.perf_counter()
    run()
    own, children = (cpu_s(who) - used for who, used in zip(both, before))
    return own + children, children, time.perf_counter() - wall


def row(name, count, run):
    """Returns the fastest repetition: other load of the machine only adds to it."""
    each = [1e3 * value / count for value in min(measured(run) for _ in range(REPEATS))]
    print(f"| {name} | {count} | " + " | ".join(f"{value:.2f}" for value in each) + " |")


def points():
    scenario = orrery.load(EXAMPLES / "straggler-4-ranks.yaml", {"run.steps": 1})
    print(f"workers: {os.cpu_count()}\n")
    print("| a point of one step on four ranks | points | CPU ms each | of runs | wall ms each |")
    print("|---|---:|---:|---:|---:|")

    def one_by_one():
        for seed in range(POINTS // 10):
            orrery.simulate(scenario, seed=seed)

    def swept():
        orrery.sweep(scenario, {"seed": list(range(POINTS))}, progress=False)

    def loaded():
        for seed in range(POINTS):
            orrery.load(scenario, {"run.seed": seed})

    row("`orrery.simulate`, a program each", POINTS // 10, one_by_one)
    row("`orrery.sweep`, a fork each", POINTS, swept)
    row("of which checking its scenario", POINTS, loaded)


def futures():
    settings = [f"{path}={value}" for path, value in NOISE_AND_FAULTS.items()]
    example = EXAMPLES / "llama3-70b-512-h100.yaml"
    command = [BUILD / "bin" / "orrery", "simulate", example, "--json"]
    for setting in settings:
        command += ["--set", setting]
    command += ["--futures", str(FUTURES), "--at", "1 h", "--for", "1 h"]
    out = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    quantiles = out["policies"]["the run's own"]
    print(f"\n{FUTURES} futures of 512 GPUs, an hour ahead, noise and faults:")
    print(f"{out['host']['cpu_s']:.1f} s of CPU, {out['host']['wall_s']:.1f} s on the clock")
    print(f"steps ahead: {quantiles['steps_ahead']}")


if __name__ == "__main__":
    points()
    futures()
