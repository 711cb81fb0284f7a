"""Bits that flip in the memory of ranks: parameters and moments of the training state.

Each run trains four ranks on this machine and writes checkpoints; runs with and without a sharded
optimizer alternate. A bit of a pattern is flipped in the memory of a random rank (/proc/PID/mem),
which is stopped meanwhile: of parameters that two checkpoints have in common (embeddings of bytes
that the text lacks), which every rank has in its memory, or of moments in a checkpoint that has
just been completed, which the next update changes. Every flip of parameters must be reported as the
loss of the rank in whose memory it was, within the steps after which the rank verifies its state;
no other rank may be reported, and the run must end with the bits of an undisturbed run. A flip of
moments that is not reported has hit a buffer; the bits show it. --verify-every N checks every N-th
step only: then bits may differ, because gradients of damaged parameters may become final.

--forge also changes the running checksum of the rank by the flip, as if its processor had computed
wrongly: only a comparison with the other ranks finds such damage. A run of four ranks must name and
replace the rank. A run of two ranks cannot know which one is right: it must continue from the
newest complete checkpoint and end with the undisturbed bits.

--unsaved flips parameters in runs without checkpoints that verify no step any more: each rank must
find the damage before it sends the hash of its parameters, and the run must end with the hash of
the others.
"""

import argparse
import array
import collections
import concurrent.futures
import contextlib
import json
import operator
import os
import random
import re
import signal
import statistics
import struct
import sys
import tempfile
import time

import attacks
import places

STEPS, EVERY, MOST = 400, 5, 5
BYTES = 64  # length of a pattern
LAST = 320  # newest step at which a bit is flipped
UNSAVED = 60  # steps of a run without checkpoints
SIDE = 2  # runs side by side, which mostly wait
PATIENCE = 3  # seconds beyond the steps in which a flip must be found, on a busy machine
# Steps beyond those between two verifications: one in progress at each end, two since the status
# before the flip was written, and two until the one after the loss is.
MORE_STEPS = 6
STEP = 0.1  # seconds a step at most, on a busy machine
# A stopped rank is not lost; steps of 48 ms.
UNHURRIED = ["survival.heartbeat_timeout=30 s", "job.pace.micro_batch=24 ms"]
HEAD, HASH = 116, 64  # bytes before the values of a shard, and after them (docs/checkpoints.md)


class Target(places.OneMachine):
    """One run, with more settings."""

    def __init__(self, name, folder, settings):
        self.settings = settings
        super().__init__(name, folder, STEPS, EVERY)

    def start_main(self):
        self.command += [word for pair in self.settings for word in ("--set", pair)]
        return super().start_main()


def shards(folder, count, ranks=4):
    """Values of the shards of the newest complete checkpoints, by step and index; [] if too few."""
    steps = sorted(path.name[:17] for path in folder.glob("*.manifest"))[-count:]
    try:
        return [
            [
                next(folder.glob(f"{step}*.shard-{index}-of-{ranks}")).read_bytes()[HEAD:-HASH]
                for index in range(ranks)
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


def checksum(words, first):
    """Sum and weighted sum of the words with indices from `first` on (checksum.hpp)."""
    return [sum(words), sum(map(operator.mul, words, range(first + 1, first + 1 + len(words))))]


def running_checksum(content):
    """Bytes of the checksums of parameters and moments in the memory of a rank, and parameters."""
    parts = [array.array("I", b"".join(shard[k * len(shard) // 3 : (k + 1) * len(shard) // 3]
             for shard in content)) for k in range(3)]  # fmt: skip
    mean, square = checksum(parts[1], 1 << 40), checksum(parts[2], 2 << 40)
    numbers = checksum(parts[0], 0) + [mean[0] + square[0], mean[1] + square[1]]
    return struct.pack("<4Q", *(number % 2**64 for number in numbers)), parts[0]


def write_everywhere(pid, before, after):
    """Replaces bytes wherever they are in the memory of a process; returns the number of places."""
    places_hit = 0
    with contextlib.suppress(OSError):  # the process may have ended
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "r+b", 0) as memory:
            for line in maps.read().splitlines():
                begin, end, rights = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
                if not rights.startswith("rw") or "[v" in line:
                    continue
                begin, end = int(begin, 16), int(end, 16)
                memory.seek(begin)
                content = memory.read(end - begin)
                at = content.find(before)
                while at >= 0:
                    memory.seek(begin + at)
                    places_hit += memory.write(after) == len(after)
                    at = content.find(before, at + 1)
    return places_hit


def wait_for_checkpoint(folder):
    """Waits for another complete checkpoint, a second at most."""
    end, before = time.monotonic() + 1, set(folder.glob("*.manifest"))
    while time.monotonic() < end and not set(folder.glob("*.manifest")) - before:
        time.sleep(0.001)


def flip(pid, pattern, bit):
    """Flips one bit wherever the pattern is in the memory of a process; returns the places."""
    changed = bytearray(pattern)
    changed[bit // 8] ^= 1 << bit % 8
    return write_everywhere(pid, pattern, bytes(changed))


def forge(pid, folder, ranks, dice):
    """Flips a bit of a parameter and corrects the running checksum; returns whether it could."""
    content = (shards(folder, 1, ranks) or [[]])[0]
    if not content:
        return False
    before, parameters = running_checksum(content)
    index = dice.randrange(len(parameters) // 16) * 16
    old = parameters[index : index + 16]
    if len(set(old)) < 16:
        return False
    new = array.array("I", old)
    new[0] ^= 1 << dice.randrange(23)  # a bit of the mantissa: the gradient stays a number
    change = new[0] - old[0]
    total, weighted, *moments = struct.unpack("<4Q", before)
    numbers = (total + change, weighted + change * (index + 1), *moments)
    after = struct.pack("<4Q", *(number % 2**64 for number in numbers))
    hits = write_everywhere(pid, before, after)  # none: the next update has come
    return hits > 0 and write_everywhere(pid, old.tobytes(), new.tobytes()) > 0


class Attack:
    """Flips of one run."""

    def __init__(self, run, dice, every):
        self.run, self.dice, self.every = run, dice, every
        self.longest = every * STEP + PATIENCE
        self.parameters, self.moments = collections.Counter(), collections.Counter()
        self.waits, self.steps, self.late = [], [], []

    def strike(self):
        """Flips bits until the run nears its end."""
        while sum((self.parameters + self.moments).values()) < MOST:
            if not self.run.wait_until_saved(60) or self.run.status().get("step", 0) > LAST:
                return
            ranks = [r for r in self.run.status().get("ranks", []) if r["state"] == "working"]
            if len(ranks) == 4:
                self.strike_once(self.dice.choice(ranks))
            time.sleep(0.1)

    def next_step(self):
        """The step in a status that is written after this call; None: none is written."""
        before, end = self.run.status().get("elapsed_s"), time.monotonic() + 5
        while time.monotonic() < end and not self.run.over():
            status = self.run.status()
            if "step" in status and status.get("elapsed_s") != before:
                return status["step"]
            time.sleep(0.01)
        return None

    def count_steps(self, rank, before):
        after = self.next_step()
        if before is None or after is None:
            return
        self.steps.append(after - before)
        if after - before > self.every + MORE_STEPS:
            self.late.append(f"rank {rank} lived on for {after - before} steps after the flip")

    def strike_once(self, rank):
        of_moments = self.dice.random() < 0.7
        if of_moments:
            wait_for_checkpoint(self.run.kept)
        attacks.send([rank["pid"]], signal.SIGSTOP)
        found = newest_moments(self.run.kept) if of_moments else unchanged_parameters(self.run.kept)
        bit = self.dice.randrange(8 * BYTES)
        hit = found and flip(rank["pid"], self.dice.choice(found), bit)
        step = self.run.status().get("step")  # may be older than the flip, which counts steps more
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
            self.count_steps(rank["rank"], step)
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
    settings = [f"survival.verify_every={every}", *UNHURRIED]
    settings += ["job.layout.shard=optimizer"] * sharded
    with tempfile.TemporaryDirectory(prefix="orrery-flips-") as folder:
        run = Target(f"flips {os.getpid()} {seed}", folder, settings)
        attack = Attack(run, dice, every)
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


def strike_forged(seed, ranks, sha):
    """Returns the faults of a run in which one rank gets another state without its own notice."""
    dice = random.Random(seed)
    settings = [f"job.layout.data={ranks}", *UNHURRIED]
    with tempfile.TemporaryDirectory(prefix="orrery-flips-") as folder:
        run = Target(f"flips forged {os.getpid()} {seed}", folder, settings)
        rank = None
        try:
            while rank is None and not run.over() and run.status().get("step", 0) < LAST:
                wait_for_checkpoint(run.kept)
                working = [r for r in run.status().get("ranks", []) if r["state"] == "working"]
                if len(working) < ranks:
                    continue
                victim = dice.choice(working)
                attacks.send([victim["pid"]], signal.SIGSTOP)
                if forge(victim["pid"], run.kept, ranks, dice):
                    rank = victim["rank"]
                attacks.send([victim["pid"]], signal.SIGCONT)
            printed = run.wait_for_end(120)
        finally:
            run.close()
    if rank is None:
        return ["no bit was flipped"]
    if printed is None or run.code() != 0:
        return [f"exit code {run.code()}: {printed and printed[1][-800:]}"]
    report = json.loads(printed[0])
    if ranks == 2:
        same = report["parameters_sha256"] == sha
        told = "no majority shows the damaged one" in printed[1]
        return [] if same and told else [f"same bits: {same}, told: {told}: {printed[1][-800:]}"]
    causes = [failure["cause"] for failure in report["failures"]]
    named = len(causes) == 1 and causes[0].startswith(f"rank {rank} computed step")
    return [] if named else [f"rank {rank} was damaged, reported: {causes}"]


class Unsaved(Target):
    """One run without checkpoints."""

    def start_main(self):
        place = next(i for i, word in enumerate(self.command) if "checkpoints=" in word)
        del self.command[place - 1 : place + 1]
        return super().start_main()


def idle_parameters(folder):
    """Parameters that no step changes, from the checkpoints of a short run."""
    run = Target(f"flips idle {os.getpid()}", folder, [f"run.steps={4 * EVERY}"])
    try:
        run.wait_for_end(60)
        return unchanged_parameters(run.kept)
    finally:
        run.close()


def strike_unsaved(seed, found):
    """Returns the faults of a run in which only the end can show the flip."""
    dice = random.Random(seed)
    settings = [f"run.steps={UNSAVED}", "survival.verify_every=1000000", *UNHURRIED]
    with tempfile.TemporaryDirectory(prefix="orrery-flips-") as folder:
        run = Unsaved(f"flips unsaved {os.getpid()} {seed}", folder, settings)
        victim = None
        try:
            while victim is None and not run.over() and run.status().get("step", 0) < UNSAVED // 2:
                working = [r for r in run.status().get("ranks", []) if r["state"] == "working"]
                if len(working) == 4 and run.status()["step"] > 1:
                    chosen = dice.choice(working)
                    if flip(chosen["pid"], dice.choice(found), dice.randrange(8 * BYTES)):
                        victim = chosen["rank"]
            printed = run.wait_for_end(120)
        finally:
            run.close()
    if victim is None:
        return ["no bit was flipped"]
    if printed is None or run.code() != 0:
        return [f"exit code {run.code()}: {printed and printed[1][-800:]}"]
    causes = [failure["cause"] for failure in json.loads(printed[0])["failures"]]
    named = len(causes) == 1 and causes[0].startswith(f"rank {victim} ") and "memory" in causes[0]
    return [] if named else [f"rank {victim} was damaged, reported: {causes}"]


def run_unsaved(count, seed):
    with tempfile.TemporaryDirectory(prefix="orrery-flips-") as folder:
        found = idle_parameters(folder)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(SIDE) as pool:
        verdicts = pool.map(strike_unsaved, range(seed, seed + count), [found] * count)
        for number, wrong in enumerate(verdicts):
            bad += bool(wrong)
            print(f"seed {seed + number}, unsaved: {'; '.join(wrong) or 'found'}", flush=True)
    print(f"{count} flipped bits that no later step verifies, {count - bad} found at the end")
    return 1 if bad else 0


def run_forged(count, seed):
    sha, bad = places.undisturbed_bits(STEPS, EVERY), 0
    ranks = [4 if number % 2 == 0 else 2 for number in range(count)]
    # Processes: a rank stands still while Python computes the checksums of its memory.
    with concurrent.futures.ProcessPoolExecutor(SIDE) as pool:
        verdicts = pool.map(strike_forged, range(seed, seed + count), ranks, [sha] * count)
        for number, wrong in enumerate(verdicts):
            bad += bool(wrong)
            print(f"seed {seed + number}, {ranks[number]} ranks: {'; '.join(wrong) or 'found'}",
                  flush=True)
    print(f"{count} ranks with another state, {count - bad} found by comparison")
    return 1 if bad else 0


def run_flips(least, first, every):
    sha = places.undisturbed_bits(STEPS, EVERY)
    parameters = moments = named = bad = runs = 0
    waits, steps = [], []
    with concurrent.futures.ThreadPoolExecutor(SIDE) as pool:
        while named < least and runs < 2 + least:
            seeds = range(first + runs, first + runs + SIDE)
            strikes = pool.map(lambda seed: strike(seed, seed % 2 == 0, every, sha), seeds)
            for seed, (attack, reported, wrong) in zip(seeds, strikes, strict=True):
                parameters += attack.parameters.total()
                moments += attack.moments.total()
                named += reported.total()
                waits += attack.waits
                steps += attack.steps
                runs, bad = runs + 1, bad + bool(wrong)
                print(
                    f"seed {seed}, {'sharded' if seed % 2 == 0 else 'replicated'}: flips of "
                    f"parameters {attack.parameters.total()}, of moments "
                    f"{attack.moments.total()}, reported {reported.total()}: "
                    f"{'; '.join(wrong) or 'whole'}",
                    flush=True,
                )
    print(
        f"{parameters + moments} flipped bits in {runs} runs, verify_every {every}: "
        f"{parameters} of parameters, {moments} of moments; {named} reported, {bad} runs not "
        f"whole; from the flip to the end of the rank: median "
        f"{statistics.median(waits or [0]):.2f} s, longest {max(waits, default=0):.2f} s; "
        f"{len(steps)} of them counted, at most {max(steps, default=0)} steps"
    )
    return 1 if bad or named < least else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10, help="least number of reported flips")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verify-every", type=int, default=1)
    parser.add_argument("--forge", action="store_true")
    parser.add_argument("--unsaved", action="store_true")
    asked = parser.parse_args()
    if asked.unsaved:
        return run_unsaved(asked.count, asked.seed)
    if asked.forge:
        return run_forged(asked.count, asked.seed)
    return run_flips(asked.count, asked.seed, asked.verify_every)


if __name__ == "__main__":
    sys.exit(main())
