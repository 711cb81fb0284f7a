"""Cost of `orrery run` and time lost in losses. Run by `./dev bench run [OPTIONS]`.

Cost: a DistributedDataParallel program with 48 MiB of gradients in buckets of 25 MiB, 2 ranks, in
triples of one run under torchrun, one under `orrery run` and again one under torchrun, in rotating
order. The ratio of a pair is that of the runs' median step times. The interval of the mean ratio is
that of a t distribution, and torchrun against itself is printed beside it. Telemetry: the time of
the calls that the attachment hooks into a step of the same program, by a clock in the ranks, with
and without a policy; the larger median of the two ranks. Attaching: the CPU time of a process from
its start to its first process group, in pairs in turns with torchrun. Loss: 4 ranks of a small
program; ranks are killed at a random instant (or stopped), and the report contains the time of the
interrupted step beyond the median. Asserts nothing.
"""

import argparse
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import run_programs_test as programs  # noqa: E402

#: 97.5% points of the t distribution by degrees of freedom, up to 30.
T = {1: 12.7, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 7: 2.36, 9: 2.26, 14: 2.14, 19: 2.09, 29: 2.05}
KINDS = ("rank 0", "two at once", "two, one during recovery", "stopped")


def median_step(words, steps):
    """The median step time that a program prints, of its slowest rank, and the sum of CPU times."""
    result = subprocess.run(
        [*words, programs.PROGRAMS / "wide.py"],
        capture_output=True, text=True, env=programs.environment(steps), timeout=600,
    )  # fmt: skip
    found = re.findall(r"median ([\d.]+) cpu ([\d.]+) of rank", result.stdout)
    assert len(found) == 2, result.stderr
    return max(float(wall) for wall, _ in found), sum(float(cpu) for _, cpu in found)


def interval(ratios):
    """The mean of ratios with its interval of 95%, as a text in percent."""
    mean = statistics.mean(ratios) - 1
    if len(ratios) < 2:
        return f"{mean:+.1%}"
    freedom = max(each for each in T if each <= len(ratios) - 1)
    half = T[freedom] * statistics.stdev(ratios) / len(ratios) ** 0.5
    return f"{mean:+.1%} [{mean - half:+.1%}, {mean + half:+.1%}]"


def print_cost(pairs, steps):
    """Prints the cost of the process group."""
    torchrun = [programs.TORCH.parent / "torchrun", "--standalone", "--nproc-per-node", "2"]
    orrery = [programs.PROGRAM, "run", "-n", "2", "--", "python"]
    ways = {"torchrun": torchrun, "orrery": orrery, "again": torchrun}
    median_step(orrery, 5)  # compiles the process group if necessary
    times = {way: [] for way in ways}
    for pair in range(pairs):
        order = list(ways)[pair % 3 :] + list(ways)[: pair % 3]
        for way in order:
            times[way].append(median_step(ways[way], steps))
    print(f"cost at 48 MiB of gradients, 2 ranks, {pairs} pairs, {os.cpu_count()} processors, "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    for at, unit in enumerate(("wall time", "CPU time of both ranks")):
        by_way = {way: [each[at] for each in of_way] for way, of_way in times.items()}
        middle = {way: statistics.median(each) * 1e3 for way, each in by_way.items()}
        own = [a / b for a, b in zip(by_way["orrery"], by_way["torchrun"])]
        noise = [a / b for a, b in zip(by_way["again"], by_way["torchrun"])]
        print(f"  {unit} a step: torchrun {middle['torchrun']:.1f} ms, "
              f"orrery run {middle['orrery']:.1f} ms")  # fmt: skip
        print(f"    orrery run / torchrun    {interval(own)}")
        print(f"    torchrun / torchrun      {interval(noise)}")


def print_telemetry(steps):
    """Prints the time of the attachment's own calls in a step."""
    for title, options in (("no policies", []), ("a policy", ["--policy", "recover"])):
        result = subprocess.run(
            [programs.PROGRAM, "run", "-n", "2", *options, "--", "python",
             programs.PROGRAMS / "wide.py"],
            capture_output=True, text=True, timeout=600,
            env={**programs.environment(steps), "OWN_TIME": "1"},
        )  # fmt: skip
        own = [float(each) for each in re.findall(r"own ([\d.]+) of rank", result.stdout)]
        step = [float(each) for each in re.findall(r"median ([\d.]+) cpu", result.stdout)]
        assert len(own) == len(step) == 2, result.stderr
        print(f"telemetry, {title}: {max(own) * 1e6:.1f} us in a step of {max(step) * 1e3:.1f} ms, "
              f"{max(own) / max(step):.3%}, load {os.getloadavg()[0]:.1f}; goals 50 us, 0.1%",
              flush=True)  # fmt: skip


#: Program of one process that prints the CPU time of its start.
START = """
import time
import torch.distributed as dist
dist.init_process_group("gloo")
print(f"started {time.process_time():.4f}", flush=True)
dist.destroy_process_group()
"""


def print_attaching(pairs):
    """Prints the CPU time that a process needs more until it has a process group."""
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "start.py"
        script.write_text(START)
        ways = {
            "torchrun": [programs.TORCH.parent / "torchrun", "--standalone"],
            "orrery": [programs.PROGRAM, "run", "-n", "1", "--", "python"],
        }
        times = {way: [] for way in ways}
        for pair in range(pairs + 1):
            for way in list(ways)[:: 1 if pair % 2 else -1]:
                result = subprocess.run(
                    [*ways[way], script], capture_output=True, text=True, timeout=600,
                    env=programs.environment(1),
                )  # fmt: skip
                (found,) = re.findall(r"started ([\d.]+)", result.stdout)
                if pair > 0:  # the first pair reads the files and may compile the group
                    times[way].append(float(found))
    more = [a - b for a, b in zip(times["orrery"], times["torchrun"])]
    print(f"attaching, {pairs} pairs: CPU time up to the first group "
          f"{statistics.median(times['torchrun']):.3f} s under torchrun, "
          f"{statistics.median(times['orrery']):.3f} s under orrery run; median difference "
          f"{statistics.median(more) * 1e3:+.1f} ms, load {os.getloadavg()[0]:.1f}; goal 50 ms",
          flush=True)  # fmt: skip


def percentile(values, share):
    """The value below which a share of the values lies, by the nearest rank."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def print_losses(script, kills, seed):
    """Kills ranks at random instants and prints the lost times."""
    print(f"{script}, 4 ranks, {kills} runs of each kind, seed {seed}: time beyond the median step")
    for kind in KINDS:
        lost_s, medians, problems = [], [], 0
        for number in range(kills):
            chance = random.Random(f"{seed} {script} {kind} {number}")
            run = programs.Run(script, ranks=4, steps=200)
            run.wait_for_training()
            lost = programs.disturb(run, kind, chance)
            report, ends, code = run.end()
            survivors = set(range(4)) - set(lost)
            whole = code == 6 and set(ends) == survivors and len(set(ends.values())) == 1
            problems += not (whole and next(iter(ends.values()))[0] == 200)
            medians.append(report["step_time_s"])
            lost_s += [loss["lost_s"] for loss in report["losses"] if loss["lost_s"] is not None]
        print(f"  {kind:26} p50 {percentile(lost_s, 0.5):.3f} s, "
              f"p99 {percentile(lost_s, 0.99):.3f} s,"
              f" median step {statistics.median(medians):.4f} s; "
              f"{problems} of {kills} runs with another end than all steps, equal bits",
              flush=True)  # fmt: skip


def main():
    """Prints all tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--telemetry-steps", type=int, default=100)
    parser.add_argument("--attach-pairs", type=int, default=7)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--script", action="append")
    asked = parser.parse_args()
    if asked.pairs:
        print_cost(asked.pairs, asked.steps)
    if asked.telemetry_steps:
        print_telemetry(asked.telemetry_steps)
    if asked.attach_pairs:
        print_attaching(asked.attach_pairs)
    for script in (asked.script or ["ddp.py"]) if asked.kills else []:
        print_losses(script, asked.kills, programs.SEED)


if __name__ == "__main__":
    main()
