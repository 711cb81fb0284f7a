"""Attacks live runs from outside, by process id, and knows nothing of their insides.

build/venv/bin/python tests/chaos/chaos.py [--runs N] [--seed N] [--minutes N] [--only ATTACK]

Each run trains four ranks while one fault after the other strikes (tests/chaos/attacks.py), the
first of them before the first step. Every run has to end by itself with exit code 0 and the bits of
an undisturbed run, nothing lost or repeated, no process or folder left behind, and a folder of the
user's beside those of the runs untouched. Prints what was struck, with the seed that strikes it
again, and how long training took to know of a loss and to go on.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import attacks

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
BINARY = BUILD / "bin" / "orrery"
SHIM = BUILD / "tests" / "libchaos_shim.so"
SCENARIO = ROOT / "examples" / "straggler-4-ranks.yaml"
SETTINGS = {
    "faults": "[]",
    "policies": "[{name: static}]",
    "job.global_batch": 8,
    "live.progress_timeout": "3 s",
    "live.journal_tail": "4 KiB",
}
USERS_FOLDER = pathlib.Path("/tmp/orrery-live-results")
GOALS = {"known to all": 0.2, "training again": 0.5}  # seconds at p99, on a quiet machine


def command(steps, name):
    pairs = SETTINGS | {"run.steps": steps, "name": name}
    words = [word for key, value in pairs.items() for word in ("--set", f"{key}={value}")]
    return [BINARY, "live", SCENARIO, "--json", *words]


def children(pid):
    """Of all its threads: whoever started them."""
    found = []
    for listing in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, listing.read_text().split())
        except OSError:
            pass
    return found


def role(pid):
    """agent, controller, or the supervisor's empty word; None: it is gone."""
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    if not words[0].endswith(b"orrery-live"):
        return None
    return words[1].decode() or "supervisor" if len(words) > 1 else "supervisor"


class Run:
    """One run under attack."""

    MOST_CONTROLLERS = 3  # that a run replaces

    def __init__(self, steps, name, shim):
        self.name = name
        self.process = subprocess.Popen(
            command(steps, name),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | shim.environment,
        )
        self.controllers_killed = 0
        self.seen = set()

    def those(self, wanted):
        tops = children(self.process.pid)
        below = tops + [pid for top in tops for pid in children(top)]
        self.seen.update(below)
        return sorted(pid for pid in below if role(pid) == wanted)

    def steps_done(self):
        looked = subprocess.run(
            [BINARY, "status", self.name, "--json"], capture_output=True, text=True, timeout=60
        )
        return json.loads(looked.stdout).get("step", 0) if looked.returncode == 0 else 0

    def over(self):
        return self.process.poll() is not None

    def wait_for(self, true, seconds):
        end = time.monotonic() + seconds
        while not self.over() and not true():
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return not self.over()

    def whole(self):
        return len(self.those("agent")) == 4 and len(self.those("controller")) == 1

    def orphans(self):
        """Processes of the run that are still there a moment after its end."""
        end = time.monotonic() + 5
        while (left := [pid for pid in self.seen if role(pid)]) and time.monotonic() < end:
            time.sleep(0.1)
        return left


def pick(run, dice, only):
    if only:
        known = [*attacks.OFTEN, *attacks.ALL, *attacks.RARE, attacks.kill_the_controller]
        return dice.choice([each for each in known if each.__name__ in only])
    some = attacks.OFTEN + attacks.ALL
    if run.controllers_killed < run.MOST_CONTROLLERS:
        return dice.choice([*some, attacks.kill_the_controller])
    return dice.choice([each for each in some if each not in attacks.OF_CONTROLLERS])


def strike_all(run, dice, shim, steps, only):
    """Faults one after the other until the run nears its end; their names."""
    struck = []
    if not only and dice.random() < 0.5:
        run.wait_for(lambda: run.those("agent"), 60)
        time.sleep(dice.uniform(0, 0.6))
        attacks.kill_a_rank(run, dice, shim)
        struck.append("kill_a_rank before the first step")
    run.wait_for(lambda: run.whole() and run.steps_done() > 2, 90)
    while run.wait_for(run.whole, 90):
        before = run.steps_done()
        if before > steps - 15:
            break
        attack = pick(run, dice, only)
        attack(run, dice, shim)
        struck.append(attack.__name__)
        # Faults faster than replacements are lost runs by design: nobody is left with the state.
        run.wait_for(lambda: run.steps_done() > before + 2 and run.whole(), 90)
        time.sleep(dice.uniform(0, 0.3))
    return struck


def verdict(run, out, sha):
    """What is wrong with a run that has ended."""
    wrong = []
    if run.process.returncode != 0:
        wrong.append(f"exit code {run.process.returncode}")
    else:
        report = json.loads(out)
        if report["parameters_sha256"] != sha:
            wrong.append("other bits")
        if report["micro_batches_lost"] or report["micro_batches_repeated"]:
            wrong.append("micro-batches lost or repeated")
    listed = subprocess.run([BINARY, "runs"], capture_output=True, text=True, timeout=60).stdout
    if re.search(rf"^\w+  {run.name} ", listed, re.MULTILINE):
        wrong.append("its folder is still there")
    if orphans := run.orphans():
        wrong.append(f"processes are left: {orphans}")
    return wrong


def attack(steps, seed, sha, only):
    """Returns what is wrong, what struck, the report and what was said."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        shim = attacks.Shim(SHIM, folder)
        run = Run(steps, f"chaos {os.getpid()} {seed}", shim)
        struck, wrong = [], []
        try:
            struck = strike_all(run, dice, shim, steps, only)
        except AssertionError as error:
            wrong.append(str(error))
        try:
            out, err = run.process.communicate(timeout=180)
        except subprocess.TimeoutExpired:
            run.process.send_signal(signal.SIGKILL)
            out, err = run.process.communicate()
            return [*wrong, "it did not end"], struck, {}, err
        wrong += verdict(run, out, sha)
        return wrong, struck, {} if run.process.returncode else json.loads(out), err


def delays(report):
    """Of every loss: until all knew of it, until a step was done again."""
    for failure in report.get("failures", []):
        if failure.get("known_s") is not None:
            yield "known to all", failure["known_s"] - failure["time_s"]
        if failure.get("resumed_s") is not None:
            yield "training again", failure["resumed_s"] - failure["time_s"]


def print_delays(seen):
    for name, values in sorted(seen.items()):
        values.sort()
        at = [values[min(len(values) - 1, int(len(values) * part))] for part in (0.5, 0.9, 0.99)]
        print(
            f"{name} after a loss, of {len(values)}: p50 {at[0]:.2f} s, p90 {at[1]:.2f} s, "
            f"p99 {at[2]:.2f} s (on a quiet machine: p99 {GOALS[name]} s)"
        )


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--minutes", type=float, help="run after run for so long")
    parser.add_argument("--only", action="append", default=[], help="name of an attack")
    return parser.parse_args()


def main():
    asked = arguments()
    mine = not USERS_FOLDER.exists()
    USERS_FOLDER.mkdir(exist_ok=True)
    (USERS_FOLDER / "kept.txt").write_text("of the user\n")
    calm = subprocess.run(
        command(asked.steps, "chaos calm"), capture_output=True, text=True, timeout=300
    )
    assert calm.returncode == 0, calm.stderr
    sha = json.loads(calm.stdout)["parameters_sha256"]
    counts, seen, bad, runs = collections.Counter(), collections.defaultdict(list), 0, 0
    end = time.monotonic() + 60 * (asked.minutes or 0)
    while runs < asked.runs if asked.minutes is None else time.monotonic() < end:
        seed = asked.seed + runs
        runs += 1
        wrong, struck, report, err = attack(asked.steps, seed, sha, asked.only)
        counts.update(struck)
        bad += bool(wrong)
        for name, value in delays(report):
            seen[name].append(value)
        print(f"seed {seed}: {', '.join(struck) or 'nothing'}: {'; '.join(wrong) or 'whole'}",
              flush=True)
        if wrong:
            print(err[-2000:], file=sys.stderr, flush=True)
    intact = (USERS_FOLDER / "kept.txt").read_text() == "of the user\n"
    if mine:
        (USERS_FOLDER / "kept.txt").unlink()
        USERS_FOLDER.rmdir()
    for name, count in counts.most_common():
        print(f"{count:5} {name}")
    print_delays(seen)
    print(f"{runs} runs, {sum(counts.values())} faults, {bad} not whole; the user's folder is "
          f"{'intact' if intact else 'not what it was'}")
    return 1 if bad or not counts or not intact else 0


if __name__ == "__main__":
    sys.exit(main())
