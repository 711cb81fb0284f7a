"""Figures of users' PyTorch programs under Orrery. Run by `./dev bench programs [OPTIONS]`.

Telemetry: the time that the report of a step adds to an optimizer step, in pairs of a run under
torchrun and one under `orrery run`. Group: step time at 48 MiB of gradients in buckets of 25 MiB
(run_bench.py), with torchrun against itself. Forecast: each of four programs is calibrated on two
ranks with its compute declared as a sleep, and compared with real runs of two and of four ranks;
the spread of the real runs' medians is printed beside the error. Asserts nothing.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import run_bench

programs = run_bench.programs
SCRIPTS = ("ddp.py", "fsdp.py", "hugging_face.py", "light.py")


def run(words, steps, **more):
    """The standard output of a command with PyTorch's Python in PATH; its errors end the bench."""
    result = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, timeout=600, check=False,
        env={**programs.environment(steps), **more},
    )  # fmt: skip
    if result.returncode not in (0, 1):
        sys.exit(result.stderr)
    return result.stdout


def print_telemetry(pairs):
    """Prints the cost of the report of a step."""
    torchrun = [programs.TORCH.parent / "torchrun", "--standalone", "--nproc-per-node", "1"]
    orrery = [programs.PROGRAM, "run", "--", "python"]
    costs = []
    for _ in range(pairs):
        pair = []
        for words in (torchrun, orrery):
            text = run([*words, programs.PROGRAMS / "telemetry.py"], 4000)
            pair.append(float(re.search(r"optimizer step ([\d.]+) us", text).group(1)))
        costs.append(pair[1] - pair[0])
    print(f"telemetry: {statistics.median(costs):+.1f} us a step, median of {pairs} pairs "
          f"({min(costs):+.1f} to {max(costs):+.1f}); goal 50 us", flush=True)  # fmt: skip


def print_forecast(script, sleep_s, runs, steps):
    """Prints the error of the forecast of one program."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = pathlib.Path(folder) / f"{pathlib.Path(script).stem}.yaml"
        told = {"SLEEP_S": str(sleep_s)}
        run([programs.PROGRAM, "calibrate", "-o", scenario, "-n", 2, "--steps", steps, "--",
             "python", programs.PROGRAMS / script], 100000, **told)  # fmt: skip
        for ranks, goal in ((2, 10), (4, 15)):
            measured = []
            for _ in range(runs):
                text = run([programs.PROGRAM, "compare", scenario, "--ranks", ranks, "--json",
                            "--set", f"run.steps={steps}"], 100000, **told)  # fmt: skip
                (seen,) = json.loads(text)["runs"]
                measured.append(seen["measured"]["step_time_s"])
            predicted, middle = seen["predicted"]["step_time_s"], statistics.median(measured)
            print(f"  {script:16} {ranks} ranks: predicted {predicted * 1e3:7.2f} ms, measured "
                  f"{middle * 1e3:7.2f} ms ({min(measured) * 1e3:.2f} to "
                  f"{max(measured) * 1e3:.2f}), error {predicted / middle - 1:+.1%}, "
                  f"goal {goal}%", flush=True)  # fmt: skip


def main():
    """Prints all figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=20, help="pairs of the group's cost")
    parser.add_argument("--telemetry-pairs", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5, help="real runs of each forecast")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--sleep", type=float, default=0.05, help="declared compute, in seconds")
    parser.add_argument("--script", action="append", help="programs of the forecasts")
    asked = parser.parse_args()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    if asked.telemetry_pairs:
        print_telemetry(asked.telemetry_pairs)
    if asked.pairs:
        run_bench.print_cost(asked.pairs, asked.steps)
    if asked.runs:
        print(f"forecasts, {asked.sleep} s of declared compute, {asked.runs} real runs each")
        for script in asked.script or SCRIPTS:
            print_forecast(script, asked.sleep, asked.runs, asked.steps)


if __name__ == "__main__":
    main()
