"""Cost of replays of job logs: every queue policy on a log of 68,503 recorded jobs (if the shared
data exist), some of them on a million synthetic jobs, fifo on ten million, and two kinds of
logs of simulated speed on one spine. CPU time, and memory, of whole runs, reading included. Run by
`./dev bench jobs [NAME]`; asserts nothing."""

import os
import pathlib
import random
import subprocess
import sys
import tempfile

from worlds_bench import BUILD, ROOT, draw_jobs, run

DATA = pathlib.Path(os.environ.get("ORRERY_DATA", ROOT.parent / "shared" / "data"))
POLICIES = [
    *("fifo", "fifo-skip", "sjf", "easy", "conservative", "srtf", "srsf", "las"),
    *("gittins", "finish-time-fairness", "drf", "max-min", "multifactor", "priority", "elastic"),
]


def replay(trace, nodes, policy, placement):
    size = ("--nodes", nodes, "--gpus-per-node", 8)
    return run("jobs", trace, *size, "--policy", policy, "--placement", placement, "--json")


def show(what, report, cpu_s, memory):
    jobs = report["jobs_out"]
    print(
        f"| {what} | {cpu_s:.2f} | {memory:.0f} | {jobs / cpu_s:,.0f} | {report['jct_mean_s']:.1f} "
        f"| {100 * report['utilization']:.1f} | {report['preemptions']:,} |",
        flush=True,
    )


def recorded():
    trace = DATA / "jobs" / "philly_big.csv.gz"
    if not trace.exists():
        print(f"| {trace.name} is not here: set ORRERY_DATA | | | | | | |")
        return
    for policy in POLICIES:
        for placement in ("consolidated", "count"):
            result = replay(trace, 64, policy, placement)
            show(f"68,503 jobs, 512 GPUs, {policy}, {placement}", *result)


def synthetic():
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "jobs.csv"
        draw = ("--jobs", "1000000", "--gpus", "16384", "--load", "0.9", "--seed", "1")
        subprocess.run(
            [BUILD / "bin" / "orrery", "new", "jobs", "--like", "helios", *draw, "-o", trace],
            check=True,
        )
        for policy in ("fifo", "fifo-skip", "easy", "srtf"):
            result = replay(trace, 2048, policy, "consolidated")
            show(f"1,000,000 jobs, 16,384 GPUs, {policy}", *result)


def year():
    """Returns jobs like the million of `./dev bench worlds`, on as many GPUs, but so short that
    they are done in a year."""
    with tempfile.TemporaryDirectory() as folder:
        trace = draw_jobs(pathlib.Path(folder) / "jobs.csv", 10_000_000, mean_s=2358)
        show("10,000,000 jobs, 16,384 GPUs, fifo, count", *replay(trace, 2048, "fifo", "count"))


def simulated():
    """Replays jobs of the example at simulated speed, drawn as in the first measurement of their
    cost, and the same jobs at their recorded speed."""
    example = ROOT / "examples" / "replay-one-spine.yaml"
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "jobs.csv"
        for count in (20, 100, 400):
            draw = random.Random(1)
            now_s = 0.0
            with trace.open("w") as lines:
                lines.write("job_id,submit_s,num_gpus,duration_s,name\n")
                for job in range(count):
                    now_s += draw.expovariate(1 / 3000)
                    gpus, duration_s = draw.choice((16, 64, 128, 256)), draw.randint(3600, 14400)
                    lines.write(f"{job},{int(now_s)},{gpus},{duration_s},llama\n")
            for speed in ("simulated", "recorded"):
                result = run("jobs", example, "--set", f"trace={trace}", "--speed", speed, "--json")
                show(f"{count:,} jobs, 768 GPUs, one spine, speed {speed}", *result)


#: Sixteen nodes in four units, whose leaves have links to one spine.
ONE_SPINE = "preset: dgx-h100\nnodes: 16\nfabric: {nodes_per_unit: 4, spines: 1}\n"
#: Within a node every job is one replica's work; larger ones have replicas of 8 GPUs and more.
KINDS_8B = """speed: {speed}
kinds:
  - most_gpus: 8
    job: {{model: {{preset: llama3-8b}}, sequence_length: 4096, global_batch: 64,
          layout: {{data: 1, shard: optimizer}}}}
  - job: {{model: {{preset: llama3-8b}}, sequence_length: 4096, global_batch: 64,
          layout: {{data: 8, shard: optimizer}}}}
"""


def mixed():
    """Replays jobs of many sizes, 1 to 128 GPUs, drawn like those of Seren, under easy: jobs of a
    few GPUs are placed over several nodes, and share the links of one spine with large ones."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "cluster.yaml").write_text(ONE_SPINE)
        draw = ("--like", "seren", "--jobs", "400", "--gpus", "128", "-o", folder / "all.csv")
        subprocess.run([BUILD / "bin" / "orrery", "new", "jobs", *draw], check=True,
                       stdout=subprocess.DEVNULL)
        lines = (folder / "all.csv").read_text().splitlines(keepends=True)
        for count in (100, 400):
            trace = folder / "jobs.csv"
            trace.write_text("".join(lines[:count + 1]))
            for speed in ("simulated", "recorded"):
                (folder / "conditions.yaml").write_text(KINDS_8B.format(speed=speed))
                files = ("--cluster", folder / "cluster.yaml", "--conditions",
                         folder / "conditions.yaml")
                result = run("jobs", trace, *files, "--policy", "easy", "--placement", "count",
                             "--json")
                show(f"{count:,} jobs like Seren's, 128 GPUs, one spine, speed {speed}", *result)


MEASURED = {"recorded": recorded, "synthetic": synthetic, "year": year, "simulated": simulated,
            "mixed": mixed}


def main():
    print("| replay | CPU s | peak MB | jobs / CPU s | mean JCT s | utilization % | preemptions |")
    print("|---|---|---|---|---|---|---|")
    for name, measure in MEASURED.items():
        if not sys.argv[1:] or name in sys.argv[1:]:
            measure()


if __name__ == "__main__":
    main()
