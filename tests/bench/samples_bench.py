"""Cost of reading telemetry: a Python policy that looks at 10,240 ranks in a simulation and in a
replay of recorded samples, a Python scheduler of 10,000 jobs, and `predictive-rebalance` beside the
same run without a policy. Run by `./dev bench samples [NAME]`; the exit code is 1 if a measured
figure misses its goal of docs/performance.md."""

import pathlib
import random
import resource
import statistics
import sys
import tempfile
import time

import orrery
import worlds_bench

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from outside_policies import QuotaGangs

TICK_S = 0.05
GPUS = 10_240
#: Goals: milliseconds of a look, percent of a core, CPU seconds of the scheduler, cost of a ramp as
#: a multiple of the run without a policy, and CPU seconds beside 1.5 times such a run.
MOST_LOOK_MS, MOST_CORE, MOST_SCHEDULER_S, MOST_RAMP, MOST_MANY_S = 0.1, 1, 5, 3, 0.5
missed = []


def judge(what, figure, most):
    """Notes a figure above its goal; returns the goal as a text."""
    if figure > most:
        missed.append(what)
    return f"goal: at most {most:.3g}"


def scenario(folder, gpus, steps, faults="", noise="", policy=False):
    """Writes a scenario of replicas of 32 ranks; returns its path."""
    data = gpus // 32
    text = worlds_bench.STRAGGLER.format(
        nodes=gpus // 8, batch=8 * data, data=data, steps=steps, faults=faults
    )
    if not faults:
        text = text.replace("faults:\n", "")
    if noise:
        text += f"noise: {{{noise}}}\n"
    if policy:
        text += "policies: [{name: predictive-rebalance}]\n"
    path = folder / "scenario.yaml"
    path.write_text(text)
    return path


class Looker(orrery.Policy):
    """Reads the times of all ranks at every tick."""

    def __init__(self):
        self.looks = []

    def needs(self):
        return orrery.Needs(settings=["Shares"], tick=TICK_S)

    def observe(self, seen, decisions):
        begin = time.perf_counter()
        for job in seen.jobs:
            times = seen.samples.ranks(job)["micro_batch_time"]
            if len(times):
                times.max()
        self.looks.append(time.perf_counter() - begin)


def calls(folder):
    """Milliseconds of the calls of a policy that looks: columns that come with the observation are
    computed and sent before the look."""
    policy = Looker()
    host = orrery.simulate(scenario(folder, GPUS, 3), policy=policy).host
    each = host["policy_time_s"] / len(policy.looks)
    print(
        f"| whole call with such a look, mean | {1e3 * each:.3f} ms "
        f"| longest {1e3 * host['policy_time_max_s']:.3f} ms |",
        flush=True,
    )


def look(folder, noise):
    policy = Looker()
    orrery.simulate(scenario(folder, GPUS, 3, noise=noise), policy=policy)
    return policy.looks


def looks(folder):
    """Milliseconds of one look, on the clock, the median of a run."""
    for name, noise in (("exact samples", "sample_cv: 0"), ("samples with errors", "")):
        each = look(folder, noise)
        median = 1e3 * statistics.median(each)
        print(
            f"| look at {GPUS:,} ranks from Python, {name} | {median:.3f} ms "
            f"| {len(each)} looks; {judge(f'look, {name}', median, MOST_LOOK_MS)} ms |",
            flush=True,
        )


def cpu_s(who=resource.RUSAGE_SELF):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def recorded(folder):
    """CPU of a replay, reading of the log included, as a share of the time between two looks."""
    log = folder / "looks.log"
    orrery.simulate(scenario(folder, GPUS, 20), policy=Looker(), record=log)
    begin = cpu_s()
    replay = orrery.replay(log, policy=Looker())
    used = cpu_s() - begin
    each = used / replay.calls
    share = 100 * each / TICK_S
    print(
        f"| look at {GPUS:,} recorded ranks every 50 ms | {share:.2f}% of a core "
        f"| {replay.calls} looks, {1e3 * each:.3f} ms of CPU each; "
        f"{judge('recorded', share, MOST_CORE)}% |",
        flush=True,
    )


def scheduler(folder):
    trace = folder / "jobs.csv"
    draw = random.Random(1)
    now, lines = 0.0, ["job_id,submit_s,num_gpus,duration_s,vc,user"]
    for job in range(10_000):
        now += draw.expovariate(1 / 20)
        size, duration = draw.choice([1, 1, 2, 4, 8, 8, 16]), 1 + int(draw.expovariate(1 / 3600))
        lines.append(f"{job},{int(now)},{size},{duration},vc,u{job % 7}")
    trace.write_text("\n".join(lines) + "\n")
    begin = cpu_s(resource.RUSAGE_SELF) + cpu_s(resource.RUSAGE_CHILDREN)
    report = orrery.jobs(trace, nodes=128, gpus_per_node=8, policy=QuotaGangs())
    used = cpu_s(resource.RUSAGE_SELF) + cpu_s(resource.RUSAGE_CHILDREN) - begin
    print(
        f"| Python scheduler of 10,000 jobs | {used:.2f} s of CPU "
        f"| {report.jobs_out} jobs; {judge('scheduler', used, MOST_SCHEDULER_S)} s |",
        flush=True,
    )


def simulated(path):
    """CPU seconds of one run, the least of three."""
    return min(worlds_bench.run("simulate", path, "--json")[1] for _ in range(3))


def beside(name, goal, **setting):
    """`goal`: the most CPU seconds, from those of the run without a policy."""

    def measure(folder):
        alone = simulated(scenario(folder, **setting))
        watched = simulated(scenario(folder, policy=True, **setting))
        print(
            f"| {name} under predictive-rebalance | {watched:.2f} s of CPU "
            f"| {alone:.2f} s without a policy: {watched / alone:.1f} times; "
            f"{judge(name, watched, goal(alone))} s |",
            flush=True,
        )

    return measure


MEASURED = {
    "looks": looks,
    "calls": calls,
    "recorded": recorded,
    "scheduler": scheduler,
    "ramp": beside(
        "ramp of one rank among 512, 300 steps",
        lambda alone: MOST_RAMP * alone,
        gpus=512,
        steps=300,
        faults="  - {at_step: 1, rank: 256, ramp: {slow: 2, steps: 300}}\n",
        noise="compute_cv: 0.02",
    ),
    "many": beside(
        "131,072 ranks, 400 steps",
        lambda alone: 1.5 * alone + MOST_MANY_S,
        gpus=131_072,
        steps=400,
    ),
}


def main():
    print("| what | cost | |")
    print("|---|---:|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, measure in MEASURED.items():
            if not sys.argv[1:] or name in sys.argv[1:]:
                measure(pathlib.Path(folder))
    if missed:
        sys.exit(f"expected figures within their goals, found above them: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
