"""Figures of users' PyTorch programs under Orrery. Run by `./dev bench programs [OPTIONS]`.

Telemetry: the time that the report of a step adds to an optimizer step, in pairs of a run under
torchrun and one under `orrery run`. Group: step time at 48 MiB of gradients in buckets of 25 MiB
(run_bench.py), with torchrun against itself. Forecast: each of four programs is calibrated on two
ranks with its compute declared as a sleep, and compared with real runs of two and of four ranks,
in turns with plain torchrun; medians of the rounds. Recovery: the same with a rank that is killed
halfway, and the time of the step in which this happens. Rebalancing: a program is calibrated, and
the simulator forecasts its step with one slow rank under predictive-rebalance; real runs have the
same slow rank and policy.

A row passes if the error of the forecast is within its goal, or within twice torchrun's own noise:
the largest deviation of one of its runs from their median. Exit code 1 if a row fails.
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
#: A lost rank ends this one.
ENDS_AT_A_LOSS = "fsdp.py"


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


def torchrun_step(script, ranks, steps, **more):
    """The median step time of a run that Orrery takes no part in, of its slowest rank."""
    words = [programs.TORCH.parent / "torchrun", "--standalone", "--nproc-per-node", ranks]
    text = run([*words, programs.PROGRAMS / script], steps, **more)
    found = re.findall(r"median step ([\d.]+) s of rank", text)
    assert len(found) == ranks, text
    return max(map(float, found))


def in_ms(times_s):
    """The median of times with their range, as a text in milliseconds."""
    middle, least, most = statistics.median(times_s), min(times_s), max(times_s)
    return f"{middle * 1e3:.1f} ({least * 1e3:.1f} to {most * 1e3:.1f})"


def print_row(name, ranks, forecast_s, orrery_s, torchrun_s, goal):
    """Prints a row of the table of forecasts. Returns true if the row passes."""
    error = forecast_s / statistics.median(orrery_s) - 1
    middle = statistics.median(torchrun_s)
    noise = max(abs(each / middle - 1) for each in torchrun_s)
    passes = abs(error) <= max(goal, 2 * noise)
    print(f"| {name} | {ranks} | {forecast_s * 1e3:.1f} | {in_ms(orrery_s)} | {error:+.1%} "
          f"| {in_ms(torchrun_s)} | {noise:.1%} | {goal:.0%} | {'yes' if passes else 'no'} |",
          flush=True)  # fmt: skip
    return passes


def compared(scenario, ranks, asked, told, *more):
    """Forecast and real run of a calibrated program on so many ranks."""
    text = run([programs.PROGRAM, "compare", scenario, "--ranks", ranks, "--json",
                "--set", f"run.steps={asked.steps}", *more], 100000, **told)  # fmt: skip
    (seen,) = json.loads(text)["runs"]
    return seen


def step_of_a_loss(seen):
    """The time of a step in which a rank is lost: the median step, and the time lost."""
    (lost_s,) = seen["lost_s"]
    return seen["step_time_s"] + lost_s


def forecast_passes(script, asked):
    """Prints the rows of a program's forecasts. Returns true if all of them pass.

    Each round calibrates anew, so that other work on the machine strikes forecasts and runs alike.
    """
    told = {"SLEEP_S": str(asked.sleep)}
    goals = {2: 0.10, 4: 0.15}
    forecasts_s, orrery_s, torchrun_s = ({ranks: [] for ranks in goals} for _ in range(3))
    kill = ("--set", f"faults=[{{at_step: {asked.steps // 2}, rank: 1, kill: true}}]")
    loss_forecasts_s, losses_s = [], []
    with tempfile.TemporaryDirectory() as folder:
        scenario = pathlib.Path(folder) / f"{pathlib.Path(script).stem}.yaml"
        for _ in range(asked.runs):
            run([programs.PROGRAM, "calibrate", "-o", scenario, "-n", 2, "--steps", asked.steps,
                 "--", "python", programs.PROGRAMS / script], 100000, **told)  # fmt: skip
            for ranks in goals:
                torchrun_s[ranks].append(torchrun_step(script, ranks, asked.steps, **told))
                seen = compared(scenario, ranks, asked, told)
                forecasts_s[ranks].append(seen["predicted"]["step_time_s"])
                orrery_s[ranks].append(seen["measured"]["step_time_s"])
            if script == ENDS_AT_A_LOSS:
                continue
            seen = compared(scenario, 4, asked, told, *kill)
            loss_forecasts_s.append(step_of_a_loss(seen["predicted"]))
            losses_s.append(step_of_a_loss(seen["measured"]))
    passes = [print_row(script, ranks, statistics.median(forecasts_s[ranks]), orrery_s[ranks],
                        torchrun_s[ranks], goal) for ranks, goal in goals.items()]  # fmt: skip
    if losses_s:
        passes.append(print_row(f"{script}, the step in which a rank is killed", 4,
                                statistics.median(loss_forecasts_s), losses_s, torchrun_s[4],
                                goals[4]))  # fmt: skip
    return all(passes)


def last_steps(words, steps, **more):
    """The median time of the last third of the steps of shares.py, of the slower rank."""
    text = run([*words, programs.PROGRAMS / "shares.py"], steps, **more)
    found = re.findall(r"step (\d+) of rank (\d): .*, ([\d.]+) s", text)
    by_rank = [[float(took) for step, of, took in found
                if of == rank and int(step) >= steps * 2 // 3] for rank in "01"]  # fmt: skip
    return max(map(statistics.median, by_rank))


def rebalancing_passes(asked):
    """Prints the rows of a program with a slow rank. Returns true if both pass."""
    batch = 8
    told = {"EXAMPLE_S": str(asked.example), "WIDTH": "512"}
    torchrun = [programs.TORCH.parent / "torchrun", "--standalone", "--nproc-per-node", 2]
    orrery = [programs.PROGRAM, "run", "-n", 2]
    with tempfile.TemporaryDirectory() as folder:
        scenario = pathlib.Path(folder) / "shares.yaml"
        run([programs.PROGRAM, "calibrate", "-o", scenario, "-n", 2, "--steps", asked.steps,
             "--per-example", "--", "python", programs.PROGRAMS / "shares.py"], 100000,
            BATCH=str(batch), **told)  # fmt: skip
        slow = f"faults=[{{at_step: 1, rank: 1, slow: {asked.slow}}}]"
        forecast_s = {}
        for policy in (None, "predictive-rebalance"):
            text = run([programs.PROGRAM, "simulate", scenario, "--json", "--set", slow,
                        "--set", f"run.steps={asked.steps}",
                        *(["--policy", policy] if policy else [])], 0)  # fmt: skip
            forecast_s[policy] = statistics.median(json.loads(text)["step_times_s"][-10:])
    told |= {"BATCH": str(batch), "SLOW": str(asked.slow)}
    plain_s, orrery_s, rebalanced_s = [], [], []
    for _ in range(asked.rebalance_runs):
        plain_s.append(last_steps(torchrun, asked.steps, **told))
        orrery_s.append(last_steps([*orrery, "--", "python"], asked.steps, **told))
        words = [*orrery, "--policy", "predictive-rebalance", "--", "python"]
        rebalanced_s.append(last_steps(words, asked.steps, **told))
    name = f"shares.py, rank 1 {asked.slow:g} times as slow"
    equal = print_row(name, 2, forecast_s[None], orrery_s, plain_s, 0.15)
    rebalanced = print_row(f"{name}, predictive-rebalance", 2, forecast_s["predictive-rebalance"],
                           rebalanced_s, plain_s, 0.15)  # fmt: skip
    return equal and rebalanced


def main():
    """Prints all figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=20, help="pairs of the group's cost")
    parser.add_argument("--telemetry-pairs", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5, help="real runs of each forecast")
    parser.add_argument("--rebalance-runs", type=int, default=5, help="the same of a slow rank")
    parser.add_argument("--example", type=float, default=0.06, help="its compute of an example")
    parser.add_argument("--slow", type=float, default=4, help="factor of the slow rank")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--sleep", type=float, default=0.4, help="declared compute, in seconds")
    parser.add_argument("--script", action="append", help="programs of the forecasts")
    asked = parser.parse_args()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    if asked.telemetry_pairs:
        print_telemetry(asked.telemetry_pairs)
    if asked.pairs:
        run_bench.print_cost(asked.pairs, asked.steps)
    if not asked.runs and not asked.rebalance_runs:
        return
    print(f"forecasts, {asked.sleep} s of declared compute ({asked.example} s an example), "
          f"{asked.runs} and {asked.rebalance_runs} rounds; ms\n"
          "| program | ranks | forecast | orrery run, median (range) | error | torchrun, median "
          "(range) | its noise | goal | passes |\n|---|---|---|---|---|---|---|---|---|",
          flush=True)  # fmt: skip
    chosen = (asked.script or SCRIPTS) if asked.runs else ()
    passes = [forecast_passes(script, asked) for script in chosen]
    if asked.rebalance_runs:
        passes.append(rebalancing_passes(asked))
    sys.exit(0 if all(passes) else 1)


if __name__ == "__main__":
    main()
