"""Forecasts and choices beside job logs: durations against the running median by size, starts by
horizon, and every choice against its active policy. The logs of the shared data, if they exist, and
synthetic ones. Run by `./dev bench twin [durations | starts | choice]`; asserts nothing."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
DATA = pathlib.Path(os.environ.get("ORRERY_DATA", ROOT.parent / "shared" / "data"))
POLICIES = ("fifo", "easy", "sjf", "srtf", "las")


def orrery(*words):
    done = subprocess.run(
        [BUILD / "bin" / "orrery", *map(str, words)], check=True, capture_output=True, text=True
    )
    return done.stdout, done.stderr


def logs(folder):
    """Yields name, file and number of nodes of 8 GPUs."""
    jobs = DATA / "jobs"
    for name, file, nodes in (
        ("philly_small", jobs / "philly_small.csv", 3),
        ("philly_mid", jobs / "philly_mid.csv", 16),
        ("philly_big", jobs / "philly_big.csv.gz", 64),
        ("openb", jobs / "openb2023" / "openb_pod_list_default.csv.gz", 100),
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


def size(nodes):
    return "--nodes", nodes, "--gpus-per-node", 8, "--placement", "count"


def durations(all_logs):
    print("| log | jobs | factor p50 | by size | log error | by size | first week | second half |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, file, nodes in all_logs:
        out, _ = orrery("twin", "jobs", file, *size(nodes), "--policy", "fifo-skip", "--every",
                        10**9, "--samples", 2, "--json")  # fmt: skip
        found = json.loads(out)["durations"]
        known = found["all"]
        print(
            f"| {name} | {known['jobs']:,} | {known['factor_p50']:.2f} "
            f"| {known['by_size_factor_p50']:.2f} | {known['log_error_mean']:.3f} "
            f"| {known['by_size_log_error_mean']:.3f} "
            f"| {found['first_week']['log_error_mean']:.3f} "
            f"| {found['second_half']['log_error_mean']:.3f} |",
            flush=True,
        )


def starts(all_logs):
    print("| log, policy | horizon | forecasts | median error s | in 10 min | in 80% | in 95% |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name, file, nodes in all_logs:
        every = 24 * 3600 if name in ("philly_big", "openb") else 6 * 3600
        for policy in ("fifo", "easy"):
            out, _ = orrery("twin", "jobs", file, *size(nodes), "--policy", policy, "--every",
                            every, "--json")  # fmt: skip
            for row in json.loads(out)["starts"]:
                print(
                    f"| {name}, {policy} | {row['horizon']} | {row['forecasts']:,} "
                    f"| {row['median_error_s']:.0f} | {100 * row['within_10_min']:.1f}% "
                    f"| {100 * row['coverage_80']:.1f}% | {100 * row['coverage_95']:.1f}% |",
                    flush=True,
                )


def choice(all_logs):
    print("| log | active | goal | active s | choice s | change | switches |")
    print("|---|---|---|---:|---:|---:|---:|")
    for name, file, nodes in all_logs:
        for goal, key in (("wait", "queue_mean_s"), ("jct", "jct_mean_s")):
            for policy in POLICIES:
                out, told = orrery("jobs", file, *size(nodes), "--policy", policy, "--choose",
                                   ",".join(POLICIES), "--by", goal, "--choose-every", 6 * 3600,
                                   "--json")  # fmt: skip
                active, chosen = (report[key] for report in json.loads(out))
                change = 100 * (chosen / active - 1) if active > 0 else 0
                print(
                    f"| {name} | {policy} | {goal} | {active:.0f} | {chosen:.0f} "
                    f"| {change:+.1f}% | {told.count(' instead of ') // 2} |",
                    flush=True,
                )


def main():
    tables = {"durations": durations, "starts": starts, "choice": choice}
    for name in sys.argv[1:] or tables:
        if name not in tables:
            sys.exit(f"expected one of {', '.join(tables)}, got '{name}'")
    with tempfile.TemporaryDirectory() as folder:
        all_logs = list(logs(pathlib.Path(folder)))
        for name in sys.argv[1:] or tables:
            tables[name](all_logs)


if __name__ == "__main__":
    main()
