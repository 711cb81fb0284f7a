"""A driven Slurm with 10,000 waiting jobs on 1,000 nodes, of which eight run.

python3 tests/chaos/slurm_queue.py [--jobs 10000] [--record FILE] [--mutant twice|no-starts]

Measures a reading of the whole queue by `orrery cluster slurm`, placements a second while the
first jobs are placed on 256 GPUs, and renewed leases a second. The nodes run with the lowest
priority, because on a cluster they have processors of their own. Beside the slowest reading
stands the processor time of a reading in shadow mode, with all commands of Slurm that it starts.
Counted as wrong: a job that began twice or without an order, a GPU of the 256 without a job, a
start that was sent twice, a reading beyond 0.3 s, and fewer than 200 placements a second.
"""

import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time

from slurm_target import IS_START, Book, Driver, arguments, cluster, keep_logs, read_rows

NODES, LISTED, GPUS = 8, 1000, 32
LEASE, LONG_LEASE = 1800, 7200
READ_S, DRIVE_S = 15, 60
MOST_MS, LEAST_RATE = 300, 200
SETTINGS = "MaxJobCount=30000"


def submit_all(slurm, count):
    """Submits the jobs, four at a time; the seconds that it took."""
    begin = time.monotonic()
    script = (
        f"sbatch --parsable -p orrery -N1 --gpus-per-node=1 -t 30 -J job$1 -o /dev/null "
        f"-D {slurm.folder}/jobs --wrap \"echo x >> mark-$1; sleep 900\" >/dev/null"
    )  # fmt: skip
    subprocess.run(["xargs", "-P", "4", "-n", "1", "sh", "-c", script, "sh"],
                   input="\n".join(map(str, range(count))), text=True, check=True,
                   env=slurm.environment)  # fmt: skip
    return time.monotonic() - begin


def cpu_s():
    """Processor seconds of all ended processes of this script."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def figures_of(driver, seconds):
    """Figures that a driver prints when it ends after some seconds, and its processor seconds."""
    before = cpu_s()
    driver.start()
    driver.process.wait(seconds + 120)
    used_s = cpu_s() - before
    text = (driver.slurm.folder / f"driver-{len(driver.spans)}.txt").read_text()
    return json.loads(text[text.rindex("{\n"):]) | {"cpu_s": used_s}


def time_of_squeue(slurm, *words):
    """The median of five readings by squeue alone, in seconds."""
    took = []
    for _ in range(5):
        begin = time.monotonic()
        slurm.run("squeue", "-r", "-a", "-h", "-t", "all", *words, "-o", "%i|%V|%T|%N")
        took.append(time.monotonic() - begin)
    return statistics.median(took)


def rate_of(commands, pattern, more_s=0.0):
    """Jobs in the lines with a pattern, and the seconds of the processes with any, with `more_s`
    for each."""
    jobs, seconds = 0, 0.0
    for begin, end, lines in commands:
        own = [line for line in lines if re.match(pattern, line)]
        if own and end is not None:
            jobs += sum(line.split()[1].count(",") + 1 for line in own)
            seconds += end - begin + more_s
    return jobs, seconds


def started_jobs(slurm, wrong):
    """Number of the jobs that have begun; adds their faults to `wrong`."""
    rows = read_rows(slurm)
    running = [row for row in rows.values() if row.state == "RUNNING"]
    marks = {path.name: len(path.read_text().splitlines())
             for path in (slurm.folder / "jobs").glob("mark-*")}  # fmt: skip
    wrong.extend(f"{name} began {count} times" for name, count in marks.items() if count != 1)
    if len(running) != NODES * GPUS:
        wrong.append(f"{len(running)} jobs run on {NODES * GPUS} GPUs")
    return len(running)


def measure(slurm, options):
    took_s = submit_all(slurm, options.jobs)
    case = {"seed": options.seed, "jobs": len(read_rows(slurm)),
            "sbatch a second": round(options.jobs / took_s),
            "squeue -o, ms": round(1e3 * time_of_squeue(slurm))}  # fmt: skip
    words = ("--json", "--every", "1", "--lease", LEASE)
    shadow = Driver(slurm, "fifo", *words, "--for", READ_S)
    printed = figures_of(shadow, READ_S)
    case |= {"readings": printed["readings"],
             "slowest reading, ms": round(printed["slowest_reading_ms"]),
             "CPU of a reading, ms":
             round(1e3 * printed["cpu_s"] / printed["readings"])}  # fmt: skip
    drive = Driver(slurm, "fifo", *words, "--for", DRIVE_S, "--mode", "drive",
                   mutant=options.mutant)  # fmt: skip
    printed, wrong = figures_of(drive, DRIVE_S), []
    # Each order reads the Comments of its jobs before.
    starts, seconds = rate_of(drive.commands(), IS_START, time_of_squeue(slurm, "-j", "1,2"))
    case |= {"placements": starts, "placements a second": round(starts / max(seconds, 1e-9)),
             "begun": started_jobs(slurm, wrong), "orders": printed["starts"],
             "slowest reading in drive mode, ms": round(printed["slowest_reading_ms"]),
             "load": os.getloadavg()[0]}  # fmt: skip
    if case["slowest reading, ms"] > MOST_MS:
        wrong.append(f"a reading of {case['slowest reading, ms']} ms, expected {MOST_MS} ms")
    if case["placements a second"] < LEAST_RATE:
        wrong.append(f"{case['placements a second']} placements a second, expected {LEAST_RATE}")
    if starts != printed["starts"]:
        wrong.append(f"{printed['starts']} orders, {starts} starts were sent")
    begin = len(drive.commands())
    lease = Driver(slurm, "fifo", *words[:-1], LONG_LEASE, "--for", DRIVE_S, "--mode", "drive")
    printed = figures_of(lease, DRIVE_S)
    commands = lease.commands()[begin:]
    jobs, seconds = rate_of(commands, r"^update JobId=\S+ StartTime=now\+")
    case |= {"leases": jobs, "leases a second": round(jobs / max(seconds, 1e-9)),
             "longest scontrol, s": round(max((end - begin for begin, end, _ in commands
                                               if end), default=0), 1),
             "scontrol beyond its deadline": sum(end is None for _, end, _ in commands),
             "failed readings": printed["failed_readings"]}  # fmt: skip
    return case | {"wrong": wrong}


def main():
    options = arguments(__doc__, jobs=10000)
    book = Book(options.record)
    if options.seed not in book.seeds():
        with cluster(nodes=NODES, listed=LISTED, gpus=GPUS, lease=LEASE,
                     settings=SETTINGS, niceness=19) as slurm:  # fmt: skip
            book.add(measure(slurm, options))
            if book.cases[-1]["wrong"]:
                keep_logs(slurm, options, options.seed)
    case = book.cases[-1]
    print(f"{case['jobs']} waiting jobs on {LISTED} nodes: {case['readings']} readings, "
          f"the slowest {case['slowest reading, ms']} ms (goal: {MOST_MS}), "
          f"{case['CPU of a reading, ms']} ms of processor time each, in drive mode "
          f"{case['slowest reading in drive mode, ms']} ms; "
          f"{case['placements']} placements, {case['placements a second']} a second "
          f"(goal: {LEAST_RATE}); {case['leases']} leases, {case['leases a second']} a second; "
          f"load {case['load']:.0f}")  # fmt: skip
    return 1 if book.wrong() else 0


if __name__ == "__main__":
    sys.exit(main())
