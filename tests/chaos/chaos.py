"""Attacks live runs from outside, by process id, and knows nothing of their insides.

build/venv/bin/python tests/chaos/chaos.py [--runs N] [--seed N]

Each run trains four ranks while one fault after the other strikes: a rank killed, a rank stopped
for good, all ranks stopped for a while, the controller killed. Every run has to end by itself with
exit code 0 and the bits of an undisturbed run, nothing lost or repeated, and leave no folder.
 Prints what was struck and the seed with which it is struck again.
"""

import argparse
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
BINARY = BUILD / "bin" / "orrery"
SCENARIO = ROOT / "examples" / "straggler-4-ranks.yaml"
SETTINGS = {"faults": "[]", "policies": "[{name: static}]", "job.global_batch": 8}
MOST_CONTROLLERS = 3  # that a run replaces


def command(steps, name):
    pairs = SETTINGS | {"run.steps": steps, "name": name, "live.journal_tail": "4 KiB"}
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
    """agent, controller, or the supervisor's empty word."""
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    return words[1].decode() if len(words) > 1 else None


class Run:
    """One run under attack."""

    def __init__(self, steps, name):
        self.name = name
        self.process = subprocess.Popen(
            command(steps, name), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.controllers_killed = 0

    def those(self, wanted):
        below = [pid for top in children(self.process.pid) for pid in children(top)]
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


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def kill_a_rank(run, dice):
    send([dice.choice(run.those("agent"))], signal.SIGKILL)


def stop_a_rank(run, dice):
    send([dice.choice(run.those("agent"))], signal.SIGSTOP)


def stop_all_ranks(run, dice):
    stopped = run.those("agent")
    send(stopped, signal.SIGSTOP)
    time.sleep(dice.uniform(0.5, 2.5))
    send(stopped, signal.SIGCONT)


def kill_the_controller(run, dice):
    run.controllers_killed += 1
    send(run.those("controller"), signal.SIGKILL)


def strike(run, dice):
    """One fault; its name."""
    attacks = [kill_a_rank, kill_a_rank, stop_a_rank, stop_all_ranks]
    if run.controllers_killed < MOST_CONTROLLERS:
        attacks.append(kill_the_controller)
    attack = dice.choice(attacks)
    attack(run, dice)
    return attack.__name__


def left_behind(name):
    listed = subprocess.run([BINARY, "runs"], capture_output=True, text=True, timeout=60).stdout
    return re.search(rf"^\w+  {name} ", listed, re.MULTILINE) is not None


def attack(steps, seed, sha):
    """Returns what is wrong, and what struck."""
    dice = random.Random(seed)
    run = Run(steps, f"chaos {os.getpid()} {seed}")
    struck = []
    whole = lambda: len(run.those("agent")) == 4 and run.those("controller")  # noqa: E731
    run.wait_for(lambda: whole() and run.steps_done() > 2, 60)
    while run.wait_for(whole, 60):
        if run.steps_done() > steps - 25:
            break
        struck.append(strike(run, dice))
        # Faults faster than replacements are lost runs by design: nobody is left with the state.
        before = run.steps_done()
        run.wait_for(lambda: run.steps_done() > before + 3 and whole(), 60)
        time.sleep(dice.uniform(0, 0.3))
    try:
        out, err = run.process.communicate(timeout=180)
    except subprocess.TimeoutExpired:
        run.process.kill()
        out, err = run.process.communicate()
        return ["it did not end"], struck, err
    wrong = []
    if run.process.returncode != 0:
        wrong.append(f"exit code {run.process.returncode}")
    else:
        report = json.loads(out)
        if report["parameters_sha256"] != sha:
            wrong.append("other bits")
        if report["micro_batches_lost"] or report["micro_batches_repeated"]:
            wrong.append("micro-batches lost or repeated")
    if left_behind(run.name):
        wrong.append("its folder is still there")
    return wrong, struck, err


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=120)
    asked = parser.parse_args()
    calm = subprocess.run(
        command(asked.steps, "chaos calm"), capture_output=True, text=True, timeout=300
    )
    assert calm.returncode == 0, calm.stderr
    sha = json.loads(calm.stdout)["parameters_sha256"]
    faults = bad = 0
    for seed in range(asked.seed, asked.seed + asked.runs):
        wrong, struck, err = attack(asked.steps, seed, sha)
        faults += len(struck)
        bad += bool(wrong)
        print(f"seed {seed}: {', '.join(struck) or 'nothing'}: {'; '.join(wrong) or 'whole'}")
        if wrong:
            print(err[-2000:], file=sys.stderr)
    print(f"{asked.runs} runs, {faults} faults, {bad} not whole")
    return 1 if bad or faults == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
