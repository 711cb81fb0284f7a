"""Trains the same program through the same faults under Orrery, torchft and torchrun.

build/venv/bin/python tests/chaos/race/race.py [--contenders NAME,...] [--examples N] [--mean S]
    [--seed N] [--kills N] [--record FILE] [--page docs/run.md]

Four ranks on this machine, Gloo, averaged gradients; the compute of an example is a declared sleep,
so that fewer ranks are no faster. Whole runs: one schedule of faults (schedule.py) strikes each
contender: kills, ranks that stop for 20 s (SIGSTOP, then SIGCONT if the process is left), ranks
three times slower for 10 s. The clock begins when all ranks have trained, and ends when --examples
more are trained (counting.py). Kills: rank 0 is killed in --kills runs of each contender, in turns,
and nobody returns. --record FILE keeps one line a run; a later call leaves those runs out.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

import contenders
import counting
import schedule

BEGIN, END = "<!-- race -->", "<!-- end of race -->"
EXAMPLE_S = 0.02  # declared compute of an example
WHOLE_RUNS = ("orrery", "orrery-deals", "torchft", "torchft-tuned", "torchrun")
KILLED = ("orrery-shrinks", "torchft-as-shipped", "torchft", "torchft-tuned")
PATIENCE_S = 600  # until all ranks train (the first time after a compilation), and after a kill
KILL_LENGTH = 50_000  # examples of a run with one kill, which ends before
MEASURED_STEPS = 10  # steps of each rank before a kill and after it


@contextlib.contextmanager
def training(name, length, returns):
    """A contender whose ranks all train: (contender, tally, function that reads new updates)."""
    with tempfile.TemporaryDirectory(prefix="orrery-race-", ignore_cleanup_errors=True) as folder:
        contender = contenders.CONTENDERS[name](folder, EXAMPLE_S, length)
        tally = counting.Tally(contenders.RANKS)
        updates = counting.Updates(folder, tally)
        try:
            contender.start(returns)
            trains = lambda: min(map(len, tally.instants.values())) >= MEASURED_STEPS  # noqa: E731
            if not wait_until(trains, updates.read):
                log = (pathlib.Path(folder) / "log").read_text(errors="replace")
                sys.exit(f"{name}: expected {contenders.RANKS} ranks that train within "
                         f"{PATIENCE_S} s, found fewer; the end of its output:\n"
                         f"{log[-3000:]}")  # fmt: skip
            yield contender, tally, updates.read
        finally:
            contender.stop()


def wait_until(is_true, look):
    """Calls `look` until the condition is true; returns False at the end of the patience."""
    until = time.monotonic() + PATIENCE_S
    while not is_true():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
        look()
    return True


def send(pid, number):
    """Sends a signal; False if there is no such process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


class Faults:
    """The faults of a schedule that strike one contender."""

    def __init__(self, drawn, contender, begin_s):
        self._drawn = drawn
        self._contender = contender
        self._begin_s = begin_s
        self._next = next(drawn)
        self._ends = []  # (instant, function that ends a stop or a slow rank)
        self._slow_until = {}
        self.struck = []  # (instant, fault)
        self.missed = 0

    def apply_due(self, now_s):
        """Strikes with the faults that are due, and ends those that have lasted."""
        while self._begin_s + self._next.at_s <= now_s:
            fault, self._next = self._next, next(self._drawn)
            if self._strike(fault, now_s):
                self.struck.append((now_s, fault))
            else:
                self.missed += 1
        for each in [each for each in self._ends if each[0] <= now_s]:
            self._ends.remove(each)
            each[1]()

    def _strike(self, fault, now_s):
        """Applies a fault; False if the rank was away."""
        pid = self._contender.pid_of(fault.rank)
        if not send(pid, 0):
            return False
        if fault.kind == "kill":
            return send(pid, signal.SIGKILL)
        if fault.kind == "stop":
            self._ends.append((now_s + schedule.STOP_S, lambda: send(pid, signal.SIGCONT)))
            return send(pid, signal.SIGSTOP)
        end_s = now_s + schedule.SLOW_S
        self._slow_until[fault.rank] = end_s
        mark = self._contender.folder / f"slow.{fault.rank}"
        mark.touch()
        self._ends.append((end_s, lambda: self._slow_until[fault.rank] > end_s
                           or mark.unlink(missing_ok=True)))  # fmt: skip
        return True


def whole_run(name, asked):
    """Runs a contender through the schedule until it has trained the examples."""
    limit_s = PATIENCE_S + 10 * ideal_s(asked.examples)
    with training(name, KILL_LENGTH + 3 * asked.examples, True) as (contender, tally, look):
        begin_s, already = time.time(), len(tally.trained)
        drawn = schedule.draw_faults(asked.seed, asked.mean, contenders.RANKS)
        faults = Faults(drawn, contender, begin_s)
        while len(tally.trained) - already < asked.examples:
            if time.time() - begin_s > limit_s or not contender.is_running():
                break
            faults.apply_due(time.time())
            contender.tend()
            time.sleep(0.01)
            look()
        end_s = time.time()
    instants = [at_s for at_s, _ in faults.struck] + [end_s]
    lost = [(fault.kind, tally.lost_s(at_s, following))
            for (at_s, fault), following in zip(faults.struck, instants[1:])]  # fmt: skip
    returns = [tally.return_s(fault.rank, at_s) for at_s, fault in faults.struck
               if fault.kind == "kill"]  # fmt: skip
    is_complete = len(tally.trained) - already >= asked.examples
    return {"took_s": end_s - begin_s if is_complete else None, "never": tally.never,
            "twice": tally.twice, "felt": len(faults.struck), "missed": faults.missed,
            "lost_s": [each for each in lost if each[1] is not None],
            "return_s": [each for each in returns if each is not None],
            "median_step_s": tally.median_step_s()}  # fmt: skip


def kill_run(name, asked, number):
    """Kills rank 0 at a random instant; the lost time is None if no survivor trains on."""
    dice = random.Random(f"{asked.seed} {number}")
    with training(name, KILL_LENGTH, False) as (contender, tally, look):
        time.sleep(dice.random())
        look()
        killed_s = time.time()
        send(contender.pid_of(0), signal.SIGKILL)
        survivors = [tally.instants[rank] for rank in range(1, contenders.RANKS)]
        wanted = min(map(len, survivors)) + MEASURED_STEPS
        wait_until(lambda: min(map(len, survivors)) >= wanted or not contender.is_running(), look)
        is_alive = min(map(len, survivors)) >= wanted
        lost_s = tally.lost_s(killed_s, time.time()) if is_alive else None
        return {"lost_s": lost_s, "median_step_s": tally.median_step_s()}


def ideal_s(examples):
    """The declared compute of the examples on all ranks, in seconds."""
    return examples * EXAMPLE_S / contenders.RANKS


def of_kills(runs):
    """The table of the kills of rank 0."""
    lines = ["| contender | kills | survived | lost time p50 | p99 | median step |",
             "|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    for name in contenders.CONTENDERS:
        own = [each for each in runs if (each["mode"], each["contender"]) == ("kill", name)]
        if own:
            lost_s = [each["lost_s"] for each in own if each["lost_s"] is not None]
            lines.append(f"| `{name}` | {len(own)} | {len(lost_s)} | {percentiles(lost_s)} | "
                         f"{counting.percentile([each['median_step_s'] for each in own], 0.5):.2f}"
                         " s |")  # fmt: skip
    return lines


def percentiles(lost_s):
    """Two cells: p50 and p99 of lost times."""
    if not lost_s:
        return "the run | the run"
    return " | ".join(f"{counting.percentile(lost_s, share):.2f} s" for share in (0.5, 0.99))


def of_whole_runs(runs):
    """The table of the whole runs."""
    lines = [
        "| contender | seed | examples | time | never trained | trained twice | faults felt "
        "| lost per kill p50 | p99 | longest return |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for run in runs:
        if run["mode"] == "run":
            took = "not reached" if run["took_s"] is None else f"{run['took_s']:.0f} s"
            kills = [lost_s for kind, lost_s in run["lost_s"] if kind == "kill"]
            cells = "| | "
            if kills and run["return_s"]:
                cells = f"{percentiles(kills)} | {max(run['return_s']):.1f} s "
            lines.append(f"| `{run['contender']}` | {run['seed']} | {run['examples']} | {took} | "
                         f"{run['never']} | {run['twice']} | {run['felt']} of "
                         f"{run['felt'] + run['missed']} | {cells}|")  # fmt: skip
    return lines


def tables_of(runs):
    """The lines of both tables, with the days and the load of their runs."""
    loads = [each["load"] for each in runs]
    days = sorted({each["day"] for each in runs})
    return [f"Runs of {' and '.join(sorted({days[0], days[-1]}))}, {os.cpu_count()} processors, "
            f"load {min(loads):.1f} to {max(loads):.1f}.", "", *of_kills(runs), "",
            *of_whole_runs(runs)]  # fmt: skip


def write_section(page, runs):
    """Writes the tables between their marks in the page."""
    text = pathlib.Path(page).read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    section = "\n".join([BEGIN, *tables_of(runs), END])
    pathlib.Path(page).write_text(head + section + tail, encoding="utf-8")


def read_runs(record):
    """The recorded runs."""
    if not record or not pathlib.Path(record).exists():
        return []
    return [json.loads(line) for line in pathlib.Path(record).read_text().splitlines()]


def planned(asked):
    """The keys of all runs, in their order: kills in turns, then whole runs."""
    wanted = asked.contenders.split(",") if asked.contenders else None
    for number in range(asked.kills):
        for name in wanted or KILLED:
            yield {"mode": "kill", "contender": name, "seed": asked.seed, "number": number}
    for name in (wanted or WHOLE_RUNS) if asked.examples else ():
        yield {"mode": "run", "contender": name, "seed": asked.seed, "examples": asked.examples,
               "mean_s": asked.mean}  # fmt: skip


def parse():
    """The options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--contenders", default="", help=f"of {', '.join(contenders.CONTENDERS)}")
    parser.add_argument("--examples", type=int, default=36_000, help="of whole runs; 0: none")
    parser.add_argument("--mean", type=float, default=30, help="mean seconds between two faults")
    parser.add_argument("--kills", type=int, default=50, help="of rank 0; 0: none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", default="", help="file with one line a run")
    parser.add_argument("--page", default="", help="page with the tables")
    asked = parser.parse_args()
    for name in filter(None, asked.contenders.split(",")):
        if name not in contenders.CONTENDERS:
            parser.error(f"--contenders: expected names of {', '.join(contenders.CONTENDERS)}, "
                         f"found '{name}'")  # fmt: skip
    return asked


def main():
    """Runs the races that are missing, and prints the tables of all."""
    asked = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the contender, too
    runs = read_runs(asked.record)
    for key in planned(asked):
        if any(key.items() <= each.items() for each in runs):
            continue
        load, day = os.getloadavg()[0], time.strftime("%Y-%m-%d")
        if key["mode"] == "run":
            outcome = whole_run(key["contender"], asked)
        else:
            outcome = kill_run(key["contender"], asked, key["number"])
        runs.append({**key, "day": day, "load": load, **outcome})
        print(json.dumps(runs[-1]), flush=True)
        if asked.record:
            with open(asked.record, "a", encoding="utf-8") as file:
                file.write(json.dumps(runs[-1]) + "\n")
        if asked.page:
            write_section(asked.page, runs)
    print("\n".join(tables_of(runs)) if runs else "no run: --kills 0 --examples 0")


if __name__ == "__main__":
    main()
