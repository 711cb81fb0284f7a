"""Attacks live runs from outside, by process id, without knowledge of their internals.

build/venv/bin/python tests/chaos/chaos.py [--runs N] [--side N] [--seed N] [--minutes N]
    [--only ATTACK] [--at-least FAULTS]

Each run trains four ranks during a sequence of faults (tests/chaos/attacks.py), some of them before
the first step; some runs keep checkpoints, some have a sharded optimizer. Every run has to end by
itself with exit code 0 and the bits of an undisturbed run, nothing lost or repeated, no process or
folder left behind, and a folder of the user's beside those of the runs unchanged. One in four is
ended from outside instead (tests/chaos/endings.py): with the required exit code and last line, and,
if it kept a checkpoint, the undisturbed bits after its continuation. Prints the faults, with the
seed that repeats them, and the times until the training knew of a loss and continued.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

import attacks
import endings
import target

USERS_FOLDER = target.RUNS / "orrery-live-results"
GOALS = {"known to all": 0.2, "training again": 0.5}  # seconds at p99, on a quiet machine
KINDS = [target.PLAIN, target.PLAIN, target.SAVING, target.SHARDED]
TO_SPARE = 25  # steps at the end of a run in which nothing strikes
SPARED = "kill_a_rank before the first step"


def strike_all(run, dice, shim, only, struck):
    """Faults one after the other until the run nears its end; `struck`: their names."""
    if not only and dice.random() < 0.5:
        run.wait_for(lambda: run.those("agent"), 60)
        time.sleep(dice.uniform(0, 0.6))
        attacks.kill_a_rank(run, dice, shim)
        struck.append(SPARED)
    # Faults faster than replacements are lost runs by design: nobody is left with the state.
    run.wait_for(lambda: run.trains_beyond(1), 120)
    while run.wait_for(run.whole, 120):
        before = run.status()
        if before.get("step", 0) > run.steps - TO_SPARE:
            break
        attack = attacks.pick(run, dice, only)
        struck.append(attack.__name__)
        attack(run, dice, shim)
        run.recovers(run.status() if run.kind is target.SHARDED else before)
        time.sleep(dice.uniform(0, 0.3))


def strike_some(run, dice, shim, ending, struck):
    """A few faults, and then the end; `struck`: their names."""
    run.wait_for(lambda: run.trains_beyond(1), 120)
    for _ in range(dice.randrange(4)):
        attack = attacks.pick(run, dice, ["kill_a_rank", "cut_a_link", "shift_the_clock"])
        struck.append(attack.__name__)
        attack(run, dice, shim)
        run.recovers(run.status())
    time.sleep(dice.uniform(0, 1))
    if not run.over():
        ending.act(run, dice)
        struck.append(ending.name)


def end_of(run, seconds):
    """Returns the output; None: the run does not end, and is killed."""
    try:
        return run.process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        run.process.kill()
        return None


def left_behind(run, folder_may_stay=False):
    wrong = []
    if orphans := run.left_behind():
        wrong.append(f"processes are left: {orphans}")
    if run.folder_left() and not folder_may_stay:
        wrong.append("its folder is still there")
    return wrong


def verdict(run, out, err, sha):
    """Returns the errors of a run that has ended by itself."""
    code = run.process.returncode
    if code:
        return [f"exit code {code}", *left_behind(run)]
    wrong = target.faults_of(json.loads(out), sha) + endings.of_a_whole_run(err)
    return wrong + left_behind(run)


def go_on(run, ending, sha):
    """Returns the errors in the remains of a run that was ended."""
    kept = pathlib.Path(run.kept.name)
    if not any(path.name.endswith("manifest") for path in kept.iterdir()):
        return ["it has left no checkpoint"] if ending.saves else []
    done = subprocess.run([*run.command, "--from", run.kept.name], capture_output=True, text=True,
                          timeout=300)
    if done.returncode:
        return [f"goes on: exit code {done.returncode}"]
    return target.faults_of(json.loads(done.stdout), sha)


def attack(steps, seed, sha, only):
    """Returns the errors, the attacks, the report and the output."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        shim = attacks.Shim(target.SHIM, folder)
        run = target.Run(steps, f"chaos {os.getpid()} {seed}", shim, dice.choice(KINDS))
        ending = None if only else endings.pick(dice)
        struck, wrong = [], []
        try:
            if ending:
                strike_some(run, dice, shim, ending, struck)
            else:
                strike_all(run, dice, shim, only, struck)
        except AssertionError as error:
            wrong.append(str(error))
        printed = end_of(run, 180)
        if printed is None:
            return [*wrong, "it did not end"], struck, {}, run.process.communicate()[1]
        out, err = printed
        if not ending:
            wrong += verdict(run, out, err, sha)
        else:
            wrong += ending.faults(run, run.process.returncode, err)
            wrong += left_behind(run, ending.act is endings.kill_the_supervisor)
            if run.kept:
                wrong += go_on(run, ending, sha)
        return wrong, struck, json.loads(out) if out.strip() else {}, err


def delays(report):
    """Returns, for every loss, the times until all knew of it and until a step was done again."""
    for failure in report.get("failures", []):
        if failure.get("known_s") is not None:
            yield "known to all", failure["known_s"] - failure["time_s"]
        if failure.get("resumed_s") is not None:
            yield "training again", failure["resumed_s"] - failure["time_s"]


class Book:
    """Counts of attacks and results; used by several threads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts, self.delays = collections.Counter(), collections.defaultdict(list)
        self.runs = self.bad = 0
        self.begin, self.loads = time.monotonic(), []

    def take(self, seed, wrong, struck, report, err):
        with self.lock:
            self.runs += 1
            self.bad += bool(wrong)
            self.counts.update(struck)
            self.loads.append(os.getloadavg()[0])
            for name, value in delays(report):
                self.delays[name].append(value)
            print(f"seed {seed}: {', '.join(struck) or 'nothing'}: {'; '.join(wrong) or 'whole'}",
                  flush=True)
            if wrong:
                print(err[-2000:], file=sys.stderr, flush=True)

    def show(self):
        for name, count in self.counts.most_common():
            print(f"{count:5} {name}")
        for name, values in sorted(self.delays.items()):
            values.sort()
            at = [values[min(len(values) - 1, int(len(values) * part))] for part in (.5, .9, .99)]
            print(f"{name} after a loss, of {len(values)}: p50 {at[0]:.2f} s, p90 {at[1]:.2f} s, "
                  f"p99 {at[2]:.2f} s (goal, on a quiet machine: p99 {GOALS[name]} s)")
        minutes = (time.monotonic() - self.begin) / 60
        print(f"{self.runs} runs in {minutes:.1f} minutes, {sum(self.counts.values())} faults, "
              f"{self.bad} not whole; load {min(self.loads, default=0):.1f} to "
              f"{max(self.loads, default=0):.1f} on {os.cpu_count()} cores")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--side", type=int, default=1, help="runs side by side")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--minutes", type=float, help="run after run for so long")
    parser.add_argument("--only", action="append", default=[], help="name of an attack")
    parser.add_argument("--at-least", type=int, default=1, help="faults, or the pass has failed")
    return parser.parse_args()


def calm(steps):
    done = subprocess.run(
        target.command(steps, "chaos calm"), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["parameters_sha256"]


def attack_all(asked, sha):
    book, seeds, lock = Book(), iter(range(asked.seed, sys.maxsize)), threading.Lock()
    end = time.monotonic() + 60 * (asked.minutes or 0)

    def next_seed():
        with lock:
            seed = next(seeds)
        enough = seed - asked.seed >= asked.runs
        return None if (enough if asked.minutes is None else time.monotonic() > end) else seed

    def one_after_the_other():
        while (seed := next_seed()) is not None:
            book.take(seed, *attack(asked.steps, seed, sha, asked.only))

    with concurrent.futures.ThreadPoolExecutor(asked.side) as pool:
        for lane in [pool.submit(one_after_the_other) for _ in range(asked.side)]:
            lane.result()
    return book


def main():
    asked = arguments()
    mine, before = not USERS_FOLDER.exists(), target.folders()
    USERS_FOLDER.mkdir(exist_ok=True)
    (USERS_FOLDER / "kept.txt").write_text("of the user\n")
    book = attack_all(asked, calm(asked.steps))
    calm(2)  # deletes files that killed runs have left
    left = {folder.name for folder in target.folders() - before}
    intact = (USERS_FOLDER / "kept.txt").read_text() == "of the user\n"
    if mine:
        (USERS_FOLDER / "kept.txt").unlink()
        USERS_FOLDER.rmdir()
    book.show()
    print(f"folders with secrets left: {len(left)}; the user's folder is "
          f"{'intact' if intact else 'not what it was'}")
    enough = sum(book.counts.values()) >= asked.at_least
    return 1 if book.bad or not enough or left or not intact else 0


if __name__ == "__main__":
    sys.exit(main())
