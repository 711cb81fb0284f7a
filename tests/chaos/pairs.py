"""Strikes live runs with pairs of faults that are 0 to 2 s apart.

build/venv/bin/python tests/chaos/pairs.py [--from SEED] [--count N] [--side N] [--minutes N]
    [--record FILE] [--place one|several] [--sharded]

Each seed is one case: a run of four ranks with a checkpoint every two steps, on one machine or as
four processes of a launcher that starts dead ones again, and two faults. A case is whole if the
parameters have the bits of an undisturbed run, no micro-batch is lost or repeated, the checkpoint
of the last step is there, a run that ended early continues from its newest checkpoint, no run ended
or went back to a checkpoint while a rank that nobody killed held the state, and the status changed
at least every 15 s. A case whose cut found no connection is not counted. --record FILE keeps one
line a case; a later call skips the seeds in it and prints the table of all.

--sharded runs the cases with a sharded optimizer (one record for each kind). Each part of the state
has two holders, so two killed ranks may take a part with them: only such a run may go back to its
checkpoint while other ranks live, and only with that reason. A stopped rank may not: the others
must wait for a part that it holds alone.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import attacks
import places
import target

STEPS, EVERY = 30, 2  # 3 s, as long as the two faults may take
MOST_SILENCE = 15  # seconds without a step and without a new line in the status
PATIENCE = 60  # seconds after which a case counts as a run without an end


# ---- faults --------------------------------------------------------------------------------------


def one_rank(run, dice):
    """The process of one rank; none after a first fault that has ended all."""
    ranks = run.ranks()
    return dice.sample(ranks, min(1, len(ranks)))


def kill_a_rank(run, dice):
    run.kill(one_rank(run, dice))


def kill_all_ranks(run, _):
    run.kill(run.ranks())


def kill_the_controller(run, _):
    attacks.send(run.controllers(), signal.SIGKILL)


def kill_the_supervisor(run, _):
    run.kill_supervisor()


def cut_a_link(run, dice):
    return run.cut_link(dice)


def stall(run, pids, seconds):
    attacks.send(pids, signal.SIGSTOP)
    run.later(seconds, lambda: attacks.send(pids, signal.SIGCONT))


def stall_a_rank(run, dice):
    stall(run, one_rank(run, dice), dice.choice((1, 3)))


def stall_all_ranks(run, dice):
    stall(run, run.ranks(), dice.choice((1, 3)))


def stall_the_controller(run, dice):
    stall(run, run.controllers(), dice.choice((1, 3)))


# Functions of the run and its dice, which return False if they struck nothing.
FAULTS = [kill_a_rank, kill_all_ranks, kill_the_controller, kill_the_supervisor, cut_a_link,
          stall_a_rank, stall_all_ranks, stall_the_controller]


# ---- one case ------------------------------------------------------------------------------------


class Watch(threading.Thread):
    """Reader of the status of a run: the longest time in which it said nothing."""

    def __init__(self, run):
        super().__init__(daemon=True)
        self.run_watched, self.ended = run, threading.Event()
        self.longest, self.saved, self.said = 0.0, 0, []

    def run(self):
        newest, since = None, time.monotonic()
        while not self.ended.wait(0.1):
            status = self.run_watched.status()
            events = status.get("events", [])
            seen = (status.get("step"), status.get("phase"), status.get("ranks_missing"),
                    events[-1]["number"] if events else 0)
            if status and seen != newest:
                newest, since = seen, time.monotonic()
                self.saved = max(self.saved, status.get("saved_step") or 0)
                self.said = [event["what"] for event in events]
            if not self.run_watched.over():
                self.longest = max(self.longest, time.monotonic() - since)

    def close(self):
        self.ended.set()
        self.join()


def continuation(run, saved, sha):
    """Continues an ended run from its newest checkpoint; returns the faults of that."""
    done = subprocess.run(
        [*run.command, "--from", str(run.kept)], capture_output=True, text=True, timeout=120
    )
    if done.returncode:
        return [f"no continuation: exit code {done.returncode}: {done.stderr[-300:]}"]
    report = json.loads(done.stdout)
    wrong = target.faults_of(report, sha)
    if report["steps_completed"] > STEPS - saved:
        wrong.append(f"checkpoint of step {saved} was lost")
    return wrong


def has_lost_a_part(run, err):
    """Whether killed ranks alone held a part of a sharded state, as the run says."""
    return run.sharded and len(run.killed) > 1 and places.STATE_LOST in err


def verdict(run, watch, printed, sha):
    """Returns how the case went and what is wrong."""
    if printed is None:
        said = f"{watch.said[-3:]}; {run.output()[-2000:]}"
        return "no end", [f"did not end in {PATIENCE} s; last: {said}"]
    out, err = printed
    code, wrong = run.code(), []
    survivors = run.survivors()
    restored = "it continues by itself from the newest complete checkpoint" in err
    if code in (0, 6) and out.strip():
        wrong += target.faults_of(json.loads(out), sha)
        how = "restored" if restored else "whole" if code == 0 else "short of ranks"
        last = f"step-{STEPS:012}."
        if not any(name.startswith(last) and name.endswith("manifest")
                   for name in os.listdir(run.kept)):
            wrong.append("no checkpoint of the last step")
        may_restore = run.supervisor_killed or has_lost_a_part(run, err)
        if restored and survivors and not may_restore:
            wrong.append(f"back to a checkpoint though {len(survivors)} ranks were not killed")
        return how, wrong
    if code in (0, 6):
        wrong.append(f"exit code {code} without a report")
    if survivors and not run.supervisor_killed:
        wrong.append(f"exit code {code} though {len(survivors)} ranks were not killed: "
                     f"{err[-400:]}")
    return "continued", wrong + continuation(run, watch.saved, sha)


def case_of(seed, place=None):
    """Returns the dice, the place, both faults, the delay before the first and the gap."""
    dice = random.Random(seed)
    where = dice.choice(("one", "one", "several"))
    # The death of the supervisor leaves nothing to strike.
    first = dice.choice([fault for fault in FAULTS if fault is not kill_the_supervisor])
    second = dice.choice(FAULTS)
    return dice, place or where, first, second, dice.uniform(0.1, 0.6), dice.uniform(0, 2)


def strike(seed, sha, place, sharded):
    dice, where, first, second, delay, gap = case_of(seed, place)
    begin = time.monotonic()
    record = {"seed": seed, "place": where, "first": first.__name__, "second": second.__name__,
              "gap_s": round(gap, 3), "sharded": sharded}
    with tempfile.TemporaryDirectory(prefix="orrery-pairs-") as folder:
        run = places.PLACES[where](f"pairs {os.getpid()} {seed}", folder, STEPS, EVERY,
                                   sharded)
        watch = Watch(run)
        try:
            if not run.wait_until_saved(60):
                return record | {"how": "not started", "wrong": [run.output()[-600:]]}
            watch.start()
            time.sleep(delay)
            missed = first(run, dice) is False
            time.sleep(gap)
            late = run.over()
            if not late:
                missed = second(run, dice) is False or missed
            run.mark_survivors()
            printed = run.wait_for_end(PATIENCE)
            watch.close()
            how, wrong = verdict(run, watch, printed, sha)
        finally:
            run.close()
        if watch.longest > MOST_SILENCE:
            wrong.append(f"silent for {watch.longest:.1f} s; last: {watch.said[-3:]}")
        if run.left_behind():
            wrong.append("processes are left")
    struck = not missed or bool(wrong)
    return record | {"how": "late" if late else how, "wrong": wrong, "struck": struck,
                     "silence_s": round(watch.longest, 2),
                     "took_s": round(time.monotonic() - begin, 1), "said": watch.said[-6:]}


# ---- many cases ----------------------------------------------------------------------------------


class Book:
    """Records of all cases, in a file if one is given; used by several threads."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.file = open(path, "a+") if path else None  # closed with the process
        self.cases = {}
        if self.file:
            self.file.seek(0)
            for line in self.file:
                with contextlib.suppress(ValueError):
                    case = json.loads(line)
                    self.cases[case["seed"]] = case

    def add(self, case):
        with self.lock:
            self.cases[case["seed"]] = case
            if self.file:
                print(json.dumps(case), file=self.file, flush=True)
            print(f"seed {case['seed']}: {case['place']}: {case['first']}, "
                  f"{case['gap_s']:.2f} s, {case['second']}: {case['how']}"
                  + "".join(f"\n    {line}" for line in case["wrong"]), flush=True)

    def counted(self):
        return [case for case in self.cases.values() if case.get("struck", True)]

    def table(self):
        rows = collections.defaultdict(list)
        for case in self.counted():
            rows[case["place"], *sorted((case["first"], case["second"]))].append(case)
        yield "| place | faults | cases | whole | lost | longest standstill |"
        yield "|---|---|---|---|---|---|"
        for (place, first, second), cases in sorted(rows.items()):
            lost = sum(bool(case["wrong"]) for case in cases)
            silence = max(case.get("silence_s", 0) for case in cases)
            yield (f"| {place} | {first}, {second} | {len(cases)} | {len(cases) - lost} | {lost} "
                   f"| {silence:.1f} s |")

    def show(self):
        print("\n".join(self.table()))
        cases = self.counted()
        hows = collections.Counter(case["how"] for case in cases)
        lost = sum(bool(case["wrong"]) for case in cases)
        print(f"{len(cases)} pairs, {lost} lost; "
              + ", ".join(f"{count} {how}" for how, count in hows.most_common())
              + f"; not counted: {len(self.cases) - len(cases)}, which cut no connection")
        return lost


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--from", dest="first", type=int, default=1)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--side", type=int, default=2, help="runs side by side")
    parser.add_argument("--minutes", type=float, help="begin no case after this time")
    parser.add_argument("--record", help="file with a line a case, to continue from")
    parser.add_argument("--place", choices=list(places.PLACES))
    parser.add_argument("--sharded", action="store_true", help="with a sharded optimizer")
    return parser.parse_args()


def main():
    asked = arguments()
    book = Book(asked.record)
    sha = places.undisturbed_bits(STEPS, EVERY)
    end = time.monotonic() + 60 * asked.minutes if asked.minutes else float("inf")

    def run_case(seed):
        if seed not in book.cases and time.monotonic() < end:
            book.add(strike(seed, sha, asked.place, asked.sharded))

    with concurrent.futures.ThreadPoolExecutor(asked.side) as pool:
        for case in [pool.submit(run_case, seed)
                     for seed in range(asked.first, asked.first + asked.count)]:
            case.result()
    return 1 if book.show() else 0


if __name__ == "__main__":
    sys.exit(main())
