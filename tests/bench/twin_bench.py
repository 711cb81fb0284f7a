"""Forecasts and choices beside job logs: durations against the running median by size, starts by
horizon, and every choice against its active policy. The logs of the shared data, if they exist, and
synthetic ones. And the CPU time of one forecast of a day for 10,000 waiting jobs on 16,384 GPUs.
Run by `./dev bench twin [durations | learning | starts | choice | day]`; `choice LOG...` takes the
logs of these names only. Ends with 1 if a choice is more than 2% worse than its active policy, or
if a forecast takes more CPU time than its limit."""

import csv
import gzip
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
DATA = pathlib.Path(os.environ.get("ORRERY_DATA", ROOT.parent / "shared" / "data"))
POLICIES = ("fifo", "easy", "sjf", "srtf", "las")
#: Goals, and the key of each in `orrery jobs --json`.
GOALS = {"wait": "queue_mean_s", "jct": "jct_mean_s", "slowdown": "bounded_slowdown_mean"}
#: Most CPU time of a forecast of a day, and the policies and the number of jobs of the forecast.
MOST_CPU_S = 5
DAY_POLICIES = ("fifo", "easy", "sjf", "srtf", "las", "fifo-skip")
DAY_JOBS = 10_000
#: Largest loss of a choice against its active policy, in percent.
MOST_LOSS = 2


def orrery(*words):
    done = subprocess.run(
        [BUILD / "bin" / "orrery", *map(str, words)], check=True, capture_output=True, text=True
    )
    return done.stdout, done.stderr


def logs(folder):
    """Yields name, file and number of nodes of 8 GPUs."""
    jobs, samples = DATA / "jobs", DATA / "jobs" / "samples"
    for name, file, nodes in (
        ("philly_small", jobs / "philly_small.csv", 3),
        ("philly_mid", jobs / "philly_mid.csv", 16),
        ("philly_big", jobs / "philly_big.csv.gz", 64),
        ("openb", jobs / "openb2023" / "openb_pod_list_default.csv.gz", 100),
        ("lublin_256", samples / "lublin_256-first.swf", 32),
        ("tiresias_60", samples / "tiresias_60_job.csv", 1),
        ("gavel_small", samples / "gavel_physical_small.trace", 1),
        ("gavel_debug", samples / "gavel_physical_debug.trace", 1),
    ):
        if file.exists():
            yield name, file, nodes
        else:
            print(f"{file} is not here: set ORRERY_DATA")
    for like in ("seren", "kalos", "helios"):
        file = folder / f"{like}.csv"
        orrery("new", "jobs", "--like", like, "--jobs", 2000, "--gpus", 512, "--load", 0.9,
               "-o", file)  # fmt: skip
        yield like, file, 64


def habitual_logs(folder):
    """Yields drawn logs whose users, names and sizes tell a share of the variance of the durations,
    from nothing to almost all, and the load of the twin's test on a real Slurm."""
    for habits in (0, 0.5, 0.8, 0.95):
        for gpus in (16, 64):
            file = folder / f"habits_{gpus}.csv"
            orrery("new", "jobs", "--like", "seren", "--jobs", 20000, "--gpus", gpus, "--load",
                   0.8, "--habits", habits, "-o", file)  # fmt: skip
            yield f"seren, habits {habits}, {gpus} GPUs", file, gpus // 8
    file = folder / "slurm.csv"
    script = ROOT / "tests" / "chaos" / "slurm_twin.py"
    subprocess.run([sys.executable, script, "--log", file, "--seed", "1"], check=True,
                   capture_output=True)  # fmt: skip
    yield "load of slurm_twin.py", file, 8


def size(nodes):
    return "--nodes", nodes, "--gpus-per-node", 8, "--placement", "count"


def reading(name):
    """Returns the options with which a log is read."""
    table = DATA / "jobs" / "gavel_simulation_throughputs.json.gz"
    return ("--throughputs", table) if name.startswith("gavel") else ()


def interval(name):
    """Returns the seconds between two forecasts of a choice: short for logs of some hours."""
    return 300 if name in ("tiresias_60", "gavel_small") else 6 * 3600


def least_error(file):
    """Returns the mean log error of the best estimates in hindsight: medians of all jobs with the
    same columns, for the best set of columns. Nothing if the log has other columns."""
    with (gzip.open if str(file).endswith(".gz") else open)(file, "rt", newline="") as source:
        jobs = list(csv.DictReader(source))
    if not jobs or "duration_s" not in jobs[0] or "user" not in jobs[0]:
        return None
    sets = (("num_gpus", "requested_s"), ("user", "name"), ("user", "name", "num_gpus"))
    errors = []
    for columns in sets:
        groups = {}
        for job in jobs:
            key = tuple(job[column] for column in columns)
            groups.setdefault(key, []).append(math.log(max(1, float(job["duration_s"]))))
        errors.append(sum(abs(value - statistics.median(group))
                          for group in groups.values() for value in group) / len(jobs))  # fmt: skip
    return min(errors)


def durations(all_logs):
    print("| log | jobs | factor p50 | by size | log error | by size | first week | first quarter "
          "| second half | in hindsight |")  # fmt: skip
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, file, nodes in all_logs:
        out, _ = orrery("twin", "jobs", file, *size(nodes), *reading(name), "--policy",
                        "fifo-skip", "--every", 10**9, "--samples", 2, "--json")  # fmt: skip
        found = json.loads(out)["durations"]
        known, least = found["all"], least_error(file)
        print(
            f"| {name} | {known['jobs']:,} | {known['factor_p50']:.2f} "
            f"| {known['by_size_factor_p50']:.2f} | {known['log_error_mean']:.3f} "
            f"| {known['by_size_log_error_mean']:.3f} "
            f"| {found['first_week']['log_error_mean']:.3f} "
            f"| {found['first_quarter']['log_error_mean']:.3f} "
            f"| {found['second_half']['log_error_mean']:.3f} "
            f"| {'' if least is None else f'{least:.3f}'} |",
            flush=True,
        )


def starts(all_logs):
    print("| log, policy | horizon | forecasts | median error s | in 10 min | in 80% | in 95% |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name, file, nodes in all_logs:
        every = 24 * 3600 if name in ("philly_big", "openb") else 6 * 3600
        for policy in ("fifo", "easy"):
            out, _ = orrery("twin", "jobs", file, *size(nodes), *reading(name), "--policy",
                            policy, "--every", every, "--json")  # fmt: skip
            for row in json.loads(out)["starts"]:
                print(
                    f"| {name}, {policy} | {row['horizon']} | {row['forecasts']:,} "
                    f"| {row['median_error_s']:.0f} | {100 * row['within_10_min']:.1f}% "
                    f"| {100 * row['coverage_80']:.1f}% | {100 * row['coverage_95']:.1f}% |",
                    flush=True,
                )


def choose(name, file, nodes, policy, goal):
    """Returns the mean under the policy and under the choice, and the switches and returns."""
    out, told = orrery("jobs", file, *size(nodes), *reading(name), "--policy", policy, "--choose",
                       ",".join(POLICIES), "--by", goal, "--choose-every", interval(name),
                       "--json")  # fmt: skip
    key = GOALS[goal]
    active, chosen = (report[key] for report in json.loads(out))
    lines = [line for line in told.splitlines() if " instead of " in line]
    return active, chosen, len(lines), sum(" realised " in line for line in lines)


def contended(name, nodes):
    """Returns the number of nodes on which the jobs of a log wait for each other."""
    return 3 if name == "openb" else nodes


def figure(mean):
    return f"{mean:,.0f}" if mean >= 100 else f"{mean:.2f}"


def choice(all_logs):
    """Prints all choices; returns those with more than MOST_LOSS."""
    worse, cases = [], 0
    print("| log | active | goal | active (s; slowdown) | choice | change | switches | returns |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for name, file, nodes in all_logs:
        for goal in GOALS:
            for policy in POLICIES:
                active, chosen, switches, returns = choose(
                    name, file, contended(name, nodes), policy, goal
                )
                change = 100 * (chosen / active - 1) if active > 0 else 0
                cases += 1
                if change > MOST_LOSS:
                    worse.append(f"{name} under {policy} by {goal}: {change:+.1f}%")
                print(
                    f"| {name} | {policy} | {goal} | {figure(active)} | {figure(chosen)} "
                    f"| {change:+.1f}% | {switches} | {returns} |",
                    flush=True,
                )
    print(f"{len(worse)} of {cases} choices are more than {MOST_LOSS}% worse than their policy")
    return worse


def waiting_at_once(folder, like):
    """Returns the file of a log of DAY_JOBS jobs that are all submitted at the same instant."""
    drawn, file = folder / f"{like}_drawn.csv", folder / f"{like}_at_once.csv"
    orrery("new", "jobs", "--like", like, "--jobs", DAY_JOBS, "--gpus", 16384, "-o", drawn)
    with open(drawn, newline="") as source, open(file, "w", newline="") as target:
        rows = csv.DictReader(source)
        written = csv.DictWriter(target, rows.fieldnames, lineterminator="\n")
        written.writeheader()
        for row in rows:
            written.writerow({**row, "submit_s": 0})
    return file


def cpu_s(*words):
    """Returns the CPU seconds of a command, user and system, and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out, _ = orrery(*words)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, out


def day(folder):
    """Prints the CPU time of one forecast of a day, the least of three; returns those above the
    limit."""
    slow = []
    print("| 10,000 jobs like | GPUs | policies | futures of each | CPU s | limit |")
    print("|---|---:|---:|---:|---:|---:|")
    for like in ("seren", "kalos"):
        file = waiting_at_once(folder, like)
        times = []
        for _ in range(3):
            took, out = cpu_s("twin", "jobs", file, "--nodes", 2048, "--gpus-per-node", 8,
                              "--placement", "count", "--policy", ",".join(DAY_POLICIES),
                              "--horizon", 86400, "--every", 10**9, "--json")  # fmt: skip
            made = json.loads(out)
            if (made["forecasts"], made["most_waiting"]) != (1, DAY_JOBS):
                sys.exit(f"{like}: expected one forecast of {DAY_JOBS} waiting jobs, found "
                         f"{made['forecasts']} of {made['most_waiting']}")  # fmt: skip
            times.append(took)
        print(
            f"| {like} | 16,384 | {len(DAY_POLICIES)} | 24 | {min(times):.1f} | {MOST_CPU_S} |",
            flush=True,
        )
        if min(times) > MOST_CPU_S:
            slow.append(f"forecast of a day like {like}: {min(times):.1f} s of CPU time")
    return slow


def main():
    tables = {"durations": durations, "learning": durations, "starts": starts, "choice": choice,
              "day": day}  # fmt: skip
    words = sys.argv[1:]
    chosen = [word for word in words if word in tables] or list(tables)
    names = [word for word in words if word not in tables]
    worse = []
    with tempfile.TemporaryDirectory() as folder:
        all_logs = list(logs(pathlib.Path(folder))) if chosen != ["day"] else []
        unknown = set(names) - {name for name, _, _ in all_logs}
        if unknown:
            sys.exit(f"expected one of {', '.join(tables)} or a log, got {', '.join(unknown)}")
        if names:
            all_logs = [each for each in all_logs if each[0] in names]
        for name in chosen:
            if name == "day":
                worse += day(pathlib.Path(folder))
                continue
            drawn = habitual_logs(pathlib.Path(folder)) if name == "learning" else all_logs
            worse += tables[name](drawn) or []
    for each in worse:
        print(each, file=sys.stderr)
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
