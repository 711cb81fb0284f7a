"""Power of a node beside published measurements, and a month under a power budget of 80% by day:
the savings of caps that follow the limit, of the policy that divides it among two jobs, and of the
ways to spend it in a queue of jobs, compared with a flat cap, for the same work. Run by `./dev
bench power [node|month|jobs|queues]`; asserts nothing."""

import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
EXAMPLE = ROOT / "examples" / "month-power-budget.yaml"
DAY_S = 86_400
BY_DAY = "[{share: 80%, from: 8 h, until: 20 h, every: 24 h}]"

#: Llama 2 13B on one node, as arXiv:2412.08602 and arXiv:2506.14551 measured; the batch is assumed.
LLAMA2 = """
name: llama2-13b
cluster: {preset: dgx-h100, nodes: 1, price: {pue: 1}}
job:
  model: {preset: llama2-13b}
  sequence_length: 4096
  global_batch: 64
  layout: {data: 8, shard: parameters}
  recompute: full
  stack: torchtitan
run: {steps: 20, memory: warn}
"""
#: BLOOM (arXiv:2211.05100): 384 A100, 48 of which hold a replica.
BLOOM = """
name: bloom
cluster: {preset: jean-zay-a100, nodes: 48, price: {pue: 1}}
job:
  model: {preset: bloom-176b}
  sequence_length: 2048
  global_batch: 2048
  micro_batch: 2
  layout: {tensor: 4, pipeline: 12, data: 8, shard: optimizer}
  recompute: full
  stack: megatron-deepspeed
run: {steps: 5, memory: warn}
"""


#: The catalogue's H100, with room for another activity.
H100 = ("{name: Own, memory: 81559 MiB, memory_bandwidth: 3.35 TB/s, fp32: 66.9 TFLOP/s, "
        "tf32: 494.7 TFLOP/s, bf16: 989.4 TFLOP/s, fp8: 1978.9 TFLOP/s, nvlink: 450 GB/s, "
        "pcie: 64 GB/s, idle_power: 75 W, max_power: 700 W, nvls: true, source: [data sheet], "
        "family: H100, ")


def simulate(file, **settings):
    command = [BUILD / "bin" / "orrery", "simulate", file, "--json"]
    for key, value in settings.items():
        command += ["--set", f"{key.replace('__', '.')}={value}"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr}")
    return json.loads(result.stdout)


def of_text(text, **settings):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        return simulate(file.name, **settings)


def activity(report):
    use = report["energy_use"]
    keys = ("products_j", "memory_j", "communication_j", "waiting_j", "idle_j")
    gpus = sum(use[key] for key in keys)
    return ", ".join(f"{key[:-2]} {100 * use[key] / gpus:.0f}%" for key in keys if use[key] > 0)


def node():
    print("| | published | ours | off | activity of the GPUs (share of their energy) |\n"
          "|---|---:|---:|---:|---|")

    def row(name, published, ours, unit, what):
        print(f"| {name} | {published:,.0f} {unit} | {ours:,.0f} {unit} | "
              f"{100 * (ours / published - 1):+.1f}% | {what} |")

    row("8 x H100, at most (arXiv:2412.08602)", 8400, 8 * 700 + 2800, "W",
        "assumed: products only; the host is derived from this value")
    llama = of_text(LLAMA2)
    row("8 x H100, compute-heavy training (arXiv:2506.14551)", 7750, llama["node_power_w"], "W",
        activity(llama))
    bloom = of_text(BLOOM)
    row("BLOOM, a GPU with its part of the node, as its report counts", 637, 400 + 2000 / 8, "W",
        "assumed by the report: 400 W at all times; 237 W measured beside")
    row("BLOOM, a GPU with its part of the node, simulated", 637, bloom["node_power_w"] / 8, "W",
        activity(bloom))
    print("\n| assumption | lower | default | higher |\n|---|---:|---:|---:|")
    for key, low, high in (("memory", 0.5, 0.7), ("communication", 0.25, 0.45),
                           ("waiting", 0.1, 0.3)):
        values = []
        for share in (low, high):
            own = LLAMA2.replace("nodes: 1,", "nodes: 1, node: {gpu: Own}, gpus: [" + H100 +
                                 f"activity: {{{key}: {share}}}}}],")
            values.append(of_text(own)["node_power_w"])
        print(f"| share of {key} {low} / {high} | {values[0]:,.0f} W | "
              f"{llama['node_power_w']:,.0f} W | {values[1]:,.0f} W |")


def month():
    print("\n| same work, seed 1 | days | GPU-hours | energy, GWh | electricity, USD | CO2, t | "
          "rent and electricity, million USD |\n|---|---:|---:|---:|---:|---:|---:|")
    found = {}
    for name, settings in (
        ("no limit", {"power__limits": "[{share: 100%}]"}),
        ("flat cap of 80%", {"power__limits": BY_DAY, "power__spend": "flat"}),
        ("caps follow the limit", {"power__limits": BY_DAY, "power__spend": "follow"}),
        ("jobs pause by day", {"power__limits": BY_DAY, "power__spend": "pause"}),
        ("caps follow the limit and an event of the grid (60% for 3 h)", {}),
    ):
        report = simulate(EXAMPLE, **settings)
        hours = report["elapsed_s"] / 3600 * report["ranks"]
        total = report["cost_usd"] + report["electricity_usd"]
        found[name] = report, total
        print(f"| {name} | {report['elapsed_s'] / DAY_S:.2f} | {hours:,.0f} | "
              f"{report['energy_j'] / 3.6e12:.3f} | {report['electricity_usd']:,.0f} | "
              f"{report['carbon_kg'] / 1000:,.0f} | {total / 1e6:.3f} |", flush=True)
    (flat, flat_usd), (follow, follow_usd) = (found["flat cap of 80%"],
                                              found["caps follow the limit"])
    saved = flat["elapsed_s"] - follow["elapsed_s"]
    print(f"\nfollowing the limit saves {saved / 3600:.1f} h, {saved / 3600 * flat['ranks']:,.0f} "
          f"GPU-hours and {flat_usd - follow_usd:,.0f} USD of rent and electricity against the "
          f"flat cap; energy {100 * (follow['energy_j'] / flat['energy_j'] - 1):+.2f}%, CO2 "
          f"{100 * (follow['carbon_kg'] / flat['carbon_kg'] - 1):+.2f}%")


def two_jobs():
    """Returns the month's scenario with two jobs of half the size, without a budget."""
    text = EXAMPLE.read_text(encoding="utf-8").replace("data: 78", "data: 39").replace(
        "global_batch: 2028", "global_batch: 1014")
    text = re.sub(r"(?ms)^power:.*?(?=^failures:)", "", text)
    job = re.search(r"(?ms)^job:\n(.*?)(?=^\w)", text)[1].rstrip()
    indented = "\n".join(f"    {line}" for line in job.splitlines())
    return text + f"\njobs:\n  - name: second\n    first_gpu: 4992\n    steps: 100000\n" \
                  f"    job:\n{indented}\n"


def jobs():
    policy = ("[{name: recover, parameters: {how: restart}}, {name: checkpoint-interval, "
              "parameters: {method: adaptive, mtbf: 3 h}}, {name: power-budget, parameters: "
              f"{{spend: SPEND, limits: {BY_DAY}}}}}]")
    print("\n| two jobs of 4,992 GPUs, 100,000 steps each, seed 1 | first ends, days | "
          "second ends, days | mean | GPU-hours |\n|---|---:|---:|---:|---:|")
    found = {}
    for name, settings in (
        ("no limit", {}),
        ("flat cap of 80%", {"power": f"{{limits: {BY_DAY}, spend: flat}}"}),
        ("caps follow the limit", {"power": f"{{limits: {BY_DAY}}}"}),
        ("`power-budget`, even", {"policies": policy.replace("SPEND", "even")}),
        ("`power-budget`, priority", {"policies": policy.replace("SPEND", "priority")}),
        ("`power-budget`, pause", {"policies": policy.replace("SPEND", "pause")}),
    ):
        report = of_text(two_jobs(), **settings, run__steps=100_000)
        days = [each["ended_s"] / DAY_S for each in report["jobs"]]
        found[name] = days, sum(days) * 24 * 4992
        print(f"| {name} | {days[0]:.2f} | {days[1]:.2f} | {sum(days) / 2:.2f} | "
              f"{found[name][1]:,.0f} |", flush=True)
    flat = found.pop("flat cap of 80%")
    for name, (days, hours) in found.items():
        if "power-budget" not in name:
            continue
        print(f"\n{name}: {flat[1] - hours:+,.0f} GPU-hours saved against the flat cap; the first "
              f"job ends {24 * (flat[0][0] - days[0]):+.1f} h earlier, the second one "
              f"{24 * (flat[0][1] - days[1]):+.1f} h", flush=True)


#: A month of jobs like those of Helios, without those of more than three days or half the cluster.
QUEUE_JOBS, QUEUE_LOAD, MOST_S = 49_700, 0.97, 3 * DAY_S
QUEUE_GPUS, MOST_GPUS = 512, 256


def queue_cluster():
    """Returns the cluster of the queue, with the prices and carbon by the hour of the month."""
    price = re.search(r"(?ms)^  price:\n(.*?)(?=^\w)", EXAMPLE.read_text(encoding="utf-8"))[0]
    return f"preset: dgx-h100\nnodes: {QUEUE_GPUS // 8}\n" + "\n".join(
        line[2:] for line in price.rstrip().splitlines())


def queue_log(log):
    """Writes the jobs of the queue, and returns their number and the share of the GPUs that they
    request until the last submission."""
    subprocess.run([BUILD / "bin" / "orrery", "new", "jobs", "--like", "helios", "--jobs",
                    str(QUEUE_JOBS), "--gpus", str(QUEUE_GPUS), "--load", str(QUEUE_LOAD), "--seed",
                    "1", "-o", log], check=True, capture_output=True)
    with open(log, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file)
                if float(row["duration_s"]) <= MOST_S and float(row["num_gpus"]) <= MOST_GPUS]
    with open(log, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    work = sum(float(row["duration_s"]) * float(row["num_gpus"]) for row in rows)
    return len(rows), work / QUEUE_GPUS / float(rows[-1]["submit_s"])


def queues():
    orrery = BUILD / "bin" / "orrery"
    with tempfile.TemporaryDirectory() as folder:
        log, cluster = pathlib.Path(folder, "jobs.csv"), pathlib.Path(folder, "cluster.yaml")
        cluster.write_text(queue_cluster(), encoding="utf-8")
        count, load = queue_log(log)

        def replay(policy, limits, spend):
            command = [orrery, "jobs", log, "--cluster", cluster, "--policy", policy, "--json",
                       "--set", "conditions.restart_cost=2min"]
            if limits:
                command += ["--set", f"power.limits={limits}", "--set", f"power.spend={spend}"]
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode != 0:
                sys.exit(result.stderr)
            return json.loads(result.stdout)

        print(f"\n| {count:,} jobs for {100 * load:.0f}% of 64 nodes of 8 H100 | days | "
              "mean wait, h | GPU-hours of jobs | pauses | energy, MWh | electricity, USD | CO2, t "
              "|\n"
              "|---|---:|---:|---:|---:|---:|---:|---:|")
        found = {}
        for policy in ("easy", "srtf"):
            for name, limits, spend in (
                ("no limit", None, None),
                ("flat cap of 80% for each GPU", BY_DAY, "flat"),
                ("80% at all times, shared by the jobs", "[{share: 80%}]", "follow"),
                ("80% by day, `follow`", BY_DAY, "follow"),
                ("80% by day, `pause`", BY_DAY, "pause"),
                ("80% by day, `wait`", BY_DAY, "wait"),
            ):
                if policy == "srtf" and spend == "wait":
                    continue  # a policy that preempts does not wait
                report = replay(policy, limits, spend)
                power = report["power"]
                found[policy, spend] = report
                print(f"| {policy}, {name} | {report['makespan_s'] / DAY_S:.2f} | "
                      f"{report['queue_mean_s'] / 3600:.2f} | {power['gpu_hours']:,.0f} | "
                      f"{power['pauses'] or 0:,} | {power['energy_j'] / 3.6e9:,.1f} | "
                      f"{power['electricity_usd']:,.0f} | {power['carbon_kg'] / 1000:,.1f} |",
                      flush=True)
        flat = found["easy", "flat"]
        for spend in ("follow", "pause", "wait"):
            report = found["easy", spend]
            hours = flat["power"]["gpu_hours"] - report["power"]["gpu_hours"]
            done, wait = ((report[key] - flat[key]) / 3600
                          for key in ("jct_mean_s", "queue_mean_s"))
            print(f"\n`{spend}` beside the flat cap: {hours:,.0f} GPU-hours saved, "
                  f"{done:+.2f} h of mean completion, {wait:+.2f} h of mean wait, energy "
                  f"{100 * (report['power']['energy_j'] / flat['power']['energy_j'] - 1):+.2f}%")


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["node", "month", "jobs", "queues"]
    if "node" in wanted:
        node()
    if "month" in wanted:
        month()
    if "jobs" in wanted:
        jobs()
    if "queues" in wanted:
        queues()
