"""Cost of simulated worlds: a log of a million recorded jobs, two training jobs beside forty
recorded ones, a straggler, and weeks of losses on many GPUs. CPU time and memory of whole runs, the
start of processes included. Run by `./dev bench worlds [NAME]`; asserts nothing."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
GPUS = 16_384
DAY_S = 86_400

#: Replicas of 32 GPUs, as many as there is room for.
LOSSES = """
name: losses
cluster: {{preset: dgx-h100, nodes: {nodes}}}
job:
  model: {{preset: llama3-70b}}
  sequence_length: 8192
  global_batch: {batch}
  layout: {{tensor: 8, pipeline: 4, data: {data}}}
  stack: nemo
survival: {{replacement: 60 s, detection: 5 s, regroup: 10 s}}
checkpoints: {{folder: kept, every: 200, stall: 5 s, write: 60 s}}
run: {{steps: {steps}}}
faults:
{faults}
"""

#: The same without the settings for losses.
STRAGGLER = "".join(
    line for line in LOSSES.splitlines(True) if not line.startswith(("survival:", "live:"))
)


def run(*arguments):
    """The JSON object of a command, and the CPU time and largest memory of all its processes."""
    script = (
        "import json, resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))\n"
        "sys.stdout.write(done.stdout.decode())\n"
    )
    command = [sys.executable, "-c", script, str(BUILD / "bin" / "orrery"), *map(str, arguments)]
    used, _, report = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, text=True
    ).stdout.partition("\n")
    return json.loads(report), *json.loads(used)


def draw_jobs(trace, count, mean_s=3600):
    """Exponential arrivals and durations, sizes of powers of two, 90% of the GPUs asked for."""
    draw = random.Random(1)
    sizes = [1, 1, 1, 1, 2, 2, 4, 8, 8, 8, 16, 32, 64, 128]
    gap_s = sum(sizes) / len(sizes) * mean_s / (0.9 * GPUS)
    now = 0.0
    with trace.open("w") as lines:
        lines.write("job_id,submit_s,num_gpus,duration_s,vc\n")
        for job in range(count):
            now += draw.expovariate(1 / gap_s)
            duration = 1 + int(draw.expovariate(1 / mean_s))
            lines.write(f"{job},{int(now)},{draw.choice(sizes)},{duration},all\n")
    return trace


def a_million_jobs(folder):
    trace = draw_jobs(folder / "jobs.csv", 1_000_000)
    report, cpu_s, memory = run(
        "jobs", trace, "--nodes", GPUS // 8, "--gpus-per-node", 8, "--policy", "fifo", "--json"
    )
    what = f"{report['jobs_out']:,} recorded jobs on {GPUS:,} GPUs, fifo"
    return what, cpu_s, memory, f"utilization {100 * report['utilization']:.0f}%"


def straggler(folder):
    """One rank that becomes half as slow again, under a policy that reads every rank's pace."""
    scenario = folder / "straggler.yaml"
    faults = "  - {at_step: 20, rank: 5000, slow: 1.5}\npolicies: [{name: predictive-rebalance}]\n"
    text = dict(nodes=1280, batch=2560, data=320, steps=200, faults=faults)
    scenario.write_text(STRAGGLER.format(**text))
    report, cpu_s, memory = run("simulate", scenario, "--json")
    what = "10,240 GPUs, 200 steps, one straggler, predictive-rebalance"
    return what, cpu_s, memory, f"{report['decisions']} decisions"


def two_jobs(_folder):
    report, cpu_s, memory = run("simulate", ROOT / "examples/two-jobs-one-spine.yaml", "--json")
    more = report["step_time_s"] / report["jobs"][0]["step_time_alone_s"] - 1
    what = f"two jobs of 256 GPUs and {len(report['jobs']) - 2} recorded ones"
    return what, cpu_s, memory, f"{100 * more:.0f}% more than alone"


def losses(gpus, count, days):
    """Kills at random instants, ranks replaced where they were; checkpoints at a fixed interval."""

    def measure(folder):
        draw = random.Random(gpus)
        faults = "".join(
            f"  - {{at_time: {draw.uniform(0, days * DAY_S):.3f} s, "
            f"rank: {draw.randrange(gpus)}, kill: true}}\n"
            for _ in range(count)
        )
        scenario = folder / f"losses-{gpus}.yaml"
        data = gpus // 32
        text = dict(nodes=gpus // 8, batch=8 * data, data=data, faults=faults)
        scenario.write_text(LOSSES.format(steps=10, **text))
        step_s = run("simulate", scenario, "--json")[0]["step_time_s"]
        scenario.write_text(LOSSES.format(steps=int(days * DAY_S / step_s), **text))
        report, cpu_s, memory = run("simulate", scenario, "--json")
        what = f"{gpus:,} GPUs, {days} days, {len(report['failures']):,} losses"
        return what, cpu_s, memory, f"goodput {100 * report['goodput']:.1f}%"

    return measure


MEASURED = {
    "jobs": a_million_jobs,
    "two": two_jobs,
    "straggler": straggler,
    "512": losses(512, 417, 24),
    "16384": losses(16_384, 419, 24),
    "131072": losses(131_072, 1_750, 24),
}


def main():
    print("| world | CPU s | peak MB | |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, measure in MEASURED.items():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            what, cpu_s, memory, note = measure(pathlib.Path(folder))
            print(f"| {what} | {cpu_s:.2f} | {memory:.0f} | {note} |", flush=True)


if __name__ == "__main__":
    main()
