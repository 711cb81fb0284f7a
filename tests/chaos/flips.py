"""Flips bits of the parameters in the memory of running ranks.

build/venv/bin/python tests/chaos/flips.py [--runs N] [--seed N] [--sharded]

Each run of four ranks gets up to five flips, by /proc/PID/mem. Parameters that training does not
change are found by their bytes in two checkpoints. A flip must be reported as the loss of the rank
in whose memory it was injected, unless it hit no state (a buffer, or a process that has not
received the state yet), and the run must end with the bits of an undisturbed run. --sharded: with a
sharded optimizer, whose state is not covered while it is distributed or its parameters are gathered
(docs/operating.md).
"""

import argparse
import collections
import contextlib
import json
import os
import random
import re
import sys
import tempfile
import time

import places

STEPS, EVERY, MOST = 150, 5, 5
BYTES = 64  # length of a pattern
LAST = 100  # newest step at which a bit is flipped


def shard_pairs(folder):
    """Contents of the shards of the two newest complete checkpoints, by index; empty: not yet."""
    steps = sorted(path.name[:17] for path in folder.glob("*.manifest"))[-2:]
    try:
        return [
            [next(folder.glob(f"{step}*.shard-{index}-of-4")).read_bytes() for step in steps]
            for index in range(4 if len(steps) == 2 else 0)
        ]
    except (OSError, StopIteration):  # an old checkpoint is being deleted
        return []


def unchanged_patterns(folder):
    """Parts of parameters with the same bytes in two checkpoints: no two words are equal."""
    found = []
    for older, newer in shard_pairs(folder):
        for at in range(0, min(len(older), len(newer)) - BYTES, BYTES):
            part = newer[at : at + BYTES]
            words = {part[i : i + 4] for i in range(0, BYTES, 4)}
            if older[at : at + BYTES] == part and len(words) == BYTES // 4:
                found.append(part)
    return found


def flip(pid, pattern, bit):
    """Flips one bit wherever the pattern is in the memory of a process; returns the places."""
    places_hit = 0
    changed = bytes([pattern[bit // 8] ^ 1 << bit % 8])
    with contextlib.suppress(OSError):  # the process ends as soon as it finds the first flip
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "r+b", 0) as memory:
            for line in maps.read().splitlines():
                begin, end, rights = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
                if not rights.startswith("rw") or "[v" in line:
                    continue
                begin, end = int(begin, 16), int(end, 16)
                memory.seek(begin)
                content = memory.read(end - begin)
                at = content.find(pattern)
                while at >= 0:
                    memory.seek(begin + at + bit // 8)
                    places_hit += memory.write(changed)
                    at = content.find(pattern, at + 1)
    return places_hit


class Target(places.OneMachine):
    """One run, with more settings."""

    MORE = ()

    def start_main(self):
        self.command += [word for pair in self.MORE for word in ("--set", pair)]
        return super().start_main()


class Sharded(Target):
    """The same with a sharded optimizer."""

    MORE = ("job.layout.shard=optimizer",)


def flip_some(run, dice):
    """Flips bits until the run nears its end; returns the ranks hit, in order."""
    hit = []
    while len(hit) < MOST and run.wait_until_saved(60):
        status = run.status()
        ranks = [rank for rank in status.get("ranks", []) if rank["state"] == "working"]
        patterns = unchanged_patterns(run.kept)
        if status.get("step", 0) > LAST:
            break
        if len(ranks) < 4 or not patterns:
            time.sleep(0.1)
            continue
        rank = dice.choice(ranks)
        if flip(rank["pid"], dice.choice(patterns), dice.randrange(8 * BYTES)):
            hit.append(rank["rank"])
        time.sleep(1.2)  # A replacement joins meanwhile.
    return hit


def strike(seed, kind, sha):
    """Returns the number of reported flips and the faults of one run."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="orrery-flips-") as folder:
        run = kind(f"flips {os.getpid()} {seed}", folder, STEPS, EVERY)
        try:
            hit = flip_some(run, dice)
            printed = run.wait_for_end(90)
        finally:
            run.close()
    if printed is None or run.code() != 0:
        return len(hit), [f"exit code {run.code()}: {printed and printed[1][-800:]}"]
    report, wrong = json.loads(printed[0]), []
    if report["parameters_sha256"] != sha:
        wrong.append("other bits")
    causes = [failure["cause"] for failure in report["failures"]]
    named = [int(re.match(r"rank (\d+)", cause)[1]) for cause in causes if "in memory" in cause]
    if collections.Counter(named) - collections.Counter(hit):
        wrong.append(f"flips in ranks {hit}, reported {named}: {causes}")
    return len(named), wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sharded", action="store_true")
    asked = parser.parse_args()
    kind = Sharded if asked.sharded else Target
    sha = places.undisturbed_bits(STEPS, EVERY)
    flips = bad = 0
    for seed in range(asked.seed, asked.seed + asked.runs):
        count, wrong = strike(seed, kind, sha)
        flips, bad = flips + count, bad + bool(wrong)
        print(f"seed {seed}: {count} flips reported: {'; '.join(wrong) or 'whole'}",
              flush=True)
    print(f"{flips} flipped bits reported in {asked.runs} runs, {bad} runs not whole")
    return 1 if bad or flips < asked.runs else 0


if __name__ == "__main__":
    sys.exit(main())
