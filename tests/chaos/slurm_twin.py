"""Forecasts of `orrery twin slurm` beside those of `squeue --start`, on a real Slurm under load.

python3 tests/chaos/slurm_twin.py [--minutes 30] [--load 1.1] [--seed 1] [--record FILE]
    [--log OUT.csv] [--backlog 50] [--policies conservative,srtf]

Four users (root only; otherwise one) submit jobs of one minute and more, with limits of 1.2 to 5
times their durations, to eight nodes that Slurm's own backfill manages. The twin makes a forecast
every ten seconds, and `squeue --start` is read every five. The first of `--policies` stands for
Slurm, whose backfill has a reservation for each job in line, as `conservative` has. A pair is a
forecast of a start and the newest answer of Slurm before it, if Slurm had an estimate. The table
has a row for each horizon (time until the twin's median) and is of all pairs whose jobs have
started. Counted as wrong: a median error above a quarter of Slurm's at 1, 5 or 15 minutes, and a
coverage of the intervals beyond 80 +-5 and 95 +-3 percent. The first `--backlog` jobs are submitted
at once. --log writes the jobs as a log for `orrery twin jobs` and runs nothing; with a record, the
twin's tables stay in a folder beside it.
"""

import bisect
import collections
import csv
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

from slurm_target import PROGRAM, USERS, Book, arguments, cluster

NODES, GPUS = 8, 8
SIZES = [(1, 1), (1, 1), (1, 2), (1, 4), (1, 8), (1, 8), (2, 8)]  # about those of philly_mid
HORIZONS = [("1 min", 60), ("5 min", 300), ("15 min", 900), ("longer", math.inf)]
SLACK_S = 7  # most seconds between a forecast and the answer of Slurm before it


class Load:
    """Jobs to submit: (instant in seconds from the begin, nodes, GPUs, seconds, minutes of limit,
    name, user). Each user has two kinds of jobs, whose durations have their own median."""

    def __init__(self, dice, minutes, load, users, backlog):
        self.dice, self.users = dice, users
        self.medians = {(user, kind): dice.uniform(60, 240) for user in users for kind in "ab"}
        self.jobs, at, work = [], 0.0, 0.0
        while at < 60 * minutes:
            job = self.draw(at)
            self.jobs.append(job)
            work += job[1] * job[2] * job[3]
            if len(self.jobs) > backlog:
                mean = work / len(self.jobs) / (NODES * GPUS * load)
                at += dice.expovariate(1 / mean)

    def draw(self, at):
        user, kind = self.dice.choice(self.users), self.dice.choice("ab")
        seconds = max(60, round(self.medians[user, kind] * self.dice.lognormvariate(0, 0.25)))
        limit = math.ceil(seconds * self.dice.uniform(1.2, 5) / 60)
        return (at, *self.dice.choice(SIZES), seconds, limit, f"train-{kind}", user)


def write_log(load, path):
    """Writes the jobs of a load as a job log."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["job_id", "submit_s", "num_gpus", "duration_s", "vc", "user", "name",
                      "requested_s"])  # fmt: skip
        for number, (at, nodes, gpus, seconds, limit, name, user) in enumerate(load.jobs):
            out.writerow([number, round(at), nodes * gpus, seconds, "orrery", user, name,
                          60 * limit])  # fmt: skip


class Watch:
    """Answers of `squeue --start` by job: (instant, start)."""

    def __init__(self, slurm):
        self.slurm, self.answers = slurm, collections.defaultdict(list)
        self.waiting = []

    def read(self):
        at = time.time()
        output = self.slurm.run("squeue", "--start", "-a", "-h", "-p", "other", "-o",
                                "%i|%S")  # fmt: skip
        rows = [row.split("|") for row in output.splitlines()]
        self.waiting.append(len(rows))
        for job, start in rows:
            if start.isdigit():
                self.answers[job].append((at, float(start)))

    def before(self, job, at):
        """Slurm's newest estimate before an instant; none without a fresh one."""
        answers = self.answers[job]
        place = bisect.bisect(answers, (at + 1, math.inf)) - 1
        if place < 0 or answers[place][0] < at - SLACK_S:
            return None
        return answers[place][1]


def run_under_load(slurm, options, folder):
    """The twin's table of forecasts and Slurm's answers."""
    users = USERS if os.geteuid() == 0 else (None,)
    load = Load(random.Random(options.seed), options.minutes, options.load, users,
                options.backlog)  # fmt: skip
    slurm.environment["SLURM_TIME_FORMAT"] = "%s"
    twin = subprocess.Popen(
        [PROGRAM, "twin", "slurm", "--policy", options.policies, "--partition", "other", "--every",
         "10", "--horizon", "3600", "--out", folder, "--json"],
        env=slurm.environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    watch, begin, at = Watch(slurm), time.monotonic(), 0
    try:
        while time.monotonic() - begin < 60 * options.minutes:
            while at < len(load.jobs) and load.jobs[at][0] <= time.monotonic() - begin:
                _, nodes, gpus, seconds, limit, name, user = load.jobs[at]
                slurm.submit(nodes, gpus, f"sleep {seconds}", "-t", limit, "-J", name,
                             partition="other", user=user)  # fmt: skip
                at += 1
            watch.read()
            time.sleep(5)
    finally:
        twin.terminate()
        printed = twin.communicate(timeout=60)[0]
    (folder / "twin.json").write_text(printed)
    with open(folder / "forecasts.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file)), watch, at


def pairs_of(forecasts, watch):
    """(seconds ahead, error of the twin, error of Slurm) and (inside 80%, inside 95%) of starts."""
    pairs, inside = [], []
    for row in forecasts:
        if row["kind"] != "start" or not row["median_s"]:
            continue
        value = {name: float(row[name] or "inf") for name in row if name.endswith("_s")}
        actual = value["actual_s"]
        inside.append([value[f"low{share}_s"] - 1 <= actual <= value[f"high{share}_s"] + 1
                       for share in (80, 95)])  # fmt: skip
        slurm = watch.before(row["job_id"], value["made_s"])
        if slurm is not None:
            pairs.append((value["median_s"] - value["made_s"], abs(value["median_s"] - actual),
                          abs(slurm - actual)))  # fmt: skip
    return pairs, inside


def table_of(pairs):
    rows, least = [], 0
    for name, most in HORIZONS:
        own = [each for each in pairs if least < each[0] <= most or (least == each[0] == 0)]
        least = most
        if not own:
            continue
        twin, slurm = (statistics.median(each[k] for each in own) for k in (1, 2))
        shares = [sum(each[k] <= limit for each in own) / len(own)
                  for k in (1, 2) for limit in (60, 600)]  # fmt: skip
        rows.append(f"| {name} | {len(own)} | {twin:.0f} s | {slurm:.0f} s | "
                    f"{slurm / max(twin, 0.5):.1f} | " +
                    " | ".join(f"{share:.0%}" for share in shares) + " |")  # fmt: skip
    return rows


def faults(pairs, inside):
    """Goals that the forecasts miss."""
    found, count = [], max(1, len(inside))
    for share, wanted, slack in ((0, 80, 5), (1, 95, 3)):
        covered = 100 * sum(each[share] for each in inside) / count
        if abs(covered - wanted) > slack:
            found.append(f"{covered:.1f}% inside the {wanted}% interval, "
                         f"expected {wanted} +-{slack}")  # fmt: skip
    least = 0
    for name, most in HORIZONS[:3]:
        own = [each for each in pairs if least < each[0] <= most]
        least = most
        twin, slurm = (statistics.median(each[k] for each in own or [(0, 1, 0)]) for k in (1, 2))
        if slurm < 4 * twin:
            found.append(f"{name}: {twin:.0f} s beside {slurm:.0f} s of Slurm, expected a quarter")
    return found


def keep_tables(folder, options):
    """Copies the twin's tables to a folder beside the record."""
    if options.record:
        shutil.copytree(folder, f"{options.record}.seed-{options.seed}", dirs_exist_ok=True)


def main():
    options = arguments(__doc__, minutes=30.0, load=1.1, log="", backlog=50,
                        policies="conservative,srtf")  # fmt: skip
    if options.log:
        write_log(Load(random.Random(options.seed), options.minutes, options.load, USERS,
                       options.backlog), options.log)  # fmt: skip
        return 0
    book = Book(options.record)
    if options.seed not in book.seeds():
        with cluster(nodes=NODES, gpus=GPUS, users=USERS if os.geteuid() == 0 else ()) as slurm:
            folder = slurm.folder / "twin"
            folder.mkdir()
            forecasts, watch, submitted = run_under_load(slurm, options, folder)
            keep_tables(folder, options)
            pairs, inside = pairs_of(forecasts, watch)
            book.add({"seed": options.seed, "policies": options.policies,
                      "minutes": options.minutes, "jobs": submitted,
                      "jobs waiting in the median": statistics.median(watch.waiting),
                      "pairs": len(pairs), "forecasts of a start": len(inside),
                      "inside 80%": sum(each[0] for each in inside),
                      "inside 95%": sum(each[1] for each in inside),
                      "rows": table_of(pairs), "twin": (folder / "twin.json").read_text(),
                      "wrong": faults(pairs, inside)})  # fmt: skip
    case = next(each for each in book.cases if each["seed"] == options.seed)
    print("| horizon | pairs | median error, twin | Slurm | ratio | twin within 1 min | 10 min | "
          "Slurm within 1 min | 10 min |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    print("\n".join(case["rows"]))
    count = max(1, case["forecasts of a start"])
    print(f"{case['jobs']} jobs in {case['minutes']:.0f} min, "
          f"{case['jobs waiting in the median']:.0f} waiting in the median; "
          f"{case['forecasts of a start']} forecasts of a start: "
          f"{case['inside 80%'] / count:.1%} inside the 80% interval, "
          f"{case['inside 95%'] / count:.1%} inside the 95% interval")  # fmt: skip
    durations = json.loads(case["twin"])["durations"]
    first, later = (durations[part]["log_error_mean"] for part in ("first_quarter", "second_half"))
    print(f"durations: mean log error {first:.3f} in the first quarter of the jobs, {later:.3f} in "
          "the second half")  # fmt: skip
    return 1 if book.wrong() else 0


if __name__ == "__main__":
    sys.exit(main())
