"""What a run costs beside others of its kind: a point of a sweep, forked from one program, and one
of a thousand futures of a run. CPU of all processes. Run by `./dev bench futures`; asserts
nothing."""

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


def cpu_s():
    """Of this process and of all that it has waited for."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def row(name, count, run):
    cpu, wall = cpu_s(), time.perf_counter()
    run()
    cpu, wall = cpu_s() - cpu, time.perf_counter() - wall
    print(f"| {name} | {count} | {1e3 * cpu / count:.2f} | {1e3 * wall / count:.2f} |")


def points():
    scenario = orrery.load(EXAMPLES / "straggler-4-ranks.yaml", {"run.steps": 1})
    print(f"workers: {os.cpu_count()}\n")
    print("| a point of one step on four ranks | points | CPU ms each | wall ms each |")
    print("|---|---|---|---|")

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
