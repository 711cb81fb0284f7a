"""Bits that flip in the memory of ranks: parameters and moments of the training state.

Each run trains four ranks on this machine and writes checkpoints; runs with and without a sharded
optimizer alternate. A bit of a pattern is flipped in the memory of a random rank (/proc/PID/mem),
which is stopped meanwhile: of parameters that two checkpoints have in common (embeddings of bytes
that the text lacks), which every rank has in its memory, or of moments in a checkpoint that has
just been completed, which the next update changes. Every flip of parameters must be reported as the
loss of the rank in whose memory it was, no other rank may be reported, and the run must end with
the bits of an undisturbed run. A flip of moments that is not reported has hit a buffer; the bits
show it. --verify-every N checks every N-th step only: then bits may differ, because gradients of
damaged parameters may become final.
"""

import argparse
import collections
import contextlib
import json
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import time

import attacks
import places

STEPS, EVERY, MOST = 400, 5, 5
BYTES = 64  # length of a pattern
LAST = 320  # newest step at which a bit is flipped
PATIENCE = 3  # seconds beyond the steps in which a flip must be found, on a busy machine
STEP = 0.1  # seconds a step at most, on a busy machine
HEAD, HASH = 116, 64  # bytes before the values of a shard, and after them (docs/checkpoints.md)


class Target(places.OneMachine):
    """One run, with more settings."""

    def __init__(self, name, folder, settings):
        self.settings = settings
        super().__init__(name, folder, STEPS, EVERY)

    def start_main(self):
        self.command += [word for pair in self.settings for word in ("--set", pair)]
        return super().start_main()


def shards(folder, count):
    """Values of the shards of the newest complete checkpoints, by step and index; [] if too few."""
    steps = sorted(path.name[:17] for path in folder.glob("*.manifest"))[-count:]
    try:
        return [
            [
                next(folder.glob(f"{step}*.shard-{index}-of-4")).read_bytes()[HEAD:-HASH]
                for index in range(4)
            ]
            for step in steps
        ] * (len(steps) == count)
    except (OSError, StopIteration):  # an old checkpoint is being deleted
        return []


def patterns(content, begin, end):
    """Parts of a shard's values in which no two words are equal, by their places."""
    found = {}
    for at in range(begin, end - BYTES, BYTES):
        part = content[at : at + BYTES]
        words = {part[i : i + 4] for i in range(0, BYTES, 4)}
        if len(words) == BYTES // 4:
            found[at] = part
    return found


def unchanged_parameters(folder):
    found = []
    for older, newer in zip(*(shards(folder, 2) or [[], []]), strict=True):
        for at, part in patterns(newer, 0, len(newer) // 3).items():
            if older[at : at + BYTES] == part:
                found.append(part)
    return found


def newest_moments(folder):
    found = []
    for content in (shards(folder, 1) or [[]])[0]:
        found += patterns(content, len(content) // 3, len(content)).values()
    return found


def wait_for_checkpoint(folder):
    """Waits for another complete checkpoint, a second at most."""
    end, before = time.monotonic() + 1, set(folder.glob("*.manifest"))
    while time.monotonic() < end and not set(folder.glob("*.manifest")) - before:
        time.sleep(0.001)


def flip(pid, pattern, bit):
    """Flips one bit wherever the pattern is in the memory of a process; returns the places."""
    places_hit = 0
    changed = bytes([pattern[bit // 8] ^ 1 << bit % 8])
    with contextlib.suppress(OSError):  # the process may have ended
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


class Attack:
    """Flips of one run."""

    def __init__(self, run, dice, longest):
        self.run, self.dice, self.longest = run, dice, longest
        self.parameters, self.moments = collections.Counter(), collections.Counter()
        self.waits, self.late = [], []

    def strike(self):
        """Flips bits until the run nears its end."""
        while sum((self.parameters + self.moments).values()) < MOST:
            if not self.run.wait_until_saved(60) or self.run.status().get("step", 0) > LAST:
                return
            ranks = [r for r in self.run.status().get("ranks", []) if r["state"] == "working"]
            if len(ranks) == 4:
                self.strike_once(self.dice.choice(ranks))
            time.sleep(0.1)

    def strike_once(self, rank):
        of_moments = self.dice.random() < 0.7
        if of_moments:
            wait_for_checkpoint(self.run.kept)
        attacks.send([rank["pid"]], signal.SIGSTOP)
        found = newest_moments(self.run.kept) if of_moments else unchanged_parameters(self.run.kept)
        bit = self.dice.randrange(8 * BYTES)
        hit = found and flip(rank["pid"], self.dice.choice(found), bit)
        attacks.send([rank["pid"]], signal.SIGCONT)
        if not hit:
            return
        (self.moments if of_moments else self.parameters)[rank["rank"]] += 1
        begin = time.monotonic()
        while time.monotonic() - begin < self.longest and places.target.role(rank["pid"]):
            time.sleep(0.005)
        took = time.monotonic() - begin
        if took < self.longest:
            self.waits.append(took)
        elif not of_moments:
            self.late.append(f"rank {rank['rank']} lived on for {took:.1f} s after the flip")
        time.sleep(1)  # A replacement joins meanwhile.

    def faults(self, named):
        wrong = list(self.late)
        if missed := self.parameters - named:
            wrong.append(f"flips of parameters missed: {dict(missed)}")
        if others := named - (self.parameters + self.moments):
            wrong.append(f"reported without a flip: {dict(others)}")
        return wrong


def strike(seed, sharded, every, sha):
    """Returns the attack, the ranks reported and the faults of one run."""
    dice = random.Random(seed)
    settings = ["job.layout.shard=optimizer"] if sharded else []
    settings.append(f"survival.verify_every={every}")
    with tempfile.TemporaryDirectory(prefix="orrery-flips-") as folder:
        run = Target(f"flips {os.getpid()} {seed}", folder, settings)
        attack = Attack(run, dice, every * STEP + PATIENCE)
        try:
            attack.strike()
            printed = run.wait_for_end(120)
        finally:
            run.close()
    named = collections.Counter()
    if printed is None or run.code() != 0:
        return attack, named, [f"exit code {run.code()}: {printed and printed[1][-800:]}"]
    report = json.loads(printed[0])
    causes = [failure["cause"] for failure in report["failures"]]
    named.update(int(re.match(r"rank (\d+)", cause)[1]) for cause in causes if "in memory" in cause)
    wrong = attack.faults(named)
    if every == 1 and report["parameters_sha256"] != sha:
        wrong.append("other bits")
    return attack, named, wrong + ([str(causes)] if wrong else [])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10, help="least number of flips")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verify-every", type=int, default=1)
    asked = parser.parse_args()
    sha = places.undisturbed_bits(STEPS, EVERY)
    parameters = moments = named = bad = runs = 0
    waits = []
    while parameters + moments < asked.count and runs < 2 + asked.count:
        seed = asked.seed + runs
        attack, reported, wrong = strike(seed, seed % 2 == 0, asked.verify_every, sha)
        parameters += attack.parameters.total()
        moments += attack.moments.total()
        named += reported.total()
        waits += attack.waits
        runs, bad = runs + 1, bad + bool(wrong)
        print(
            f"seed {seed}, {'sharded' if seed % 2 == 0 else 'replicated'}: flips of parameters "
            f"{attack.parameters.total()}, of moments {attack.moments.total()}, reported "
            f"{reported.total()}: {'; '.join(wrong) or 'whole'}",
            flush=True,
        )
    print(
        f"{parameters + moments} flipped bits in {runs} runs, verify_every {asked.verify_every}: "
        f"{parameters} of parameters, {moments} of moments; {named} reported, {bad} runs not "
        f"whole; from the flip to the end of the rank: median "
        f"{statistics.median(waits or [0]):.2f} s, longest {max(waits, default=0):.2f} s"
    )
    return 1 if bad or parameters + moments < asked.count else 0


if __name__ == "__main__":
    sys.exit(main())
