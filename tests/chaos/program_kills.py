"""Kills ranks of PyTorch programs under `orrery run` at random instants.

build/venv/bin/python tests/chaos/program_kills.py [--kills N] [--seed N] [--only TEXT]
    [--minutes N] [--record FILE] [--page docs/soak.md]

Each case is one start of four ranks, all forked from one warm process, and a fault. Up to ten cases
share one `orrery run`: a program that has ended well exits with code 9, so that --restart starts
all ranks again. Tier T0: the survivors do all steps and end with equal parameters. A refused
operation: the run ends (or starts again) with its name, and no process is left. Tier T1: the ranks
resume from the newest snapshot, and the last one ends with the bits of an undisturbed run. Tier T2:
each lost rank returns while the others train, and all end with equal parameters. A killed
`orrery run`: the program goes on, and ends with the bits of an undisturbed run. --record FILE keeps
one line a case; a later call runs only the cases that are missing in it.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import run_programs_test as programs  # noqa: E402

RANKS, STEPS, A_SESSION = 4, 80, 10
PACE_S = 0.01  # declared compute of a step, in seconds
HEARTBEAT_S = 4  # limit of a silent rank: a busy machine lets ranks wait for seconds
PATIENCE = 300
T0_KINDS = ("rank 0", "two at once", "two, one during recovery", "stopped")
BEGIN, END = "<!-- program kills -->", "<!-- end of program kills -->"

#: Program, kind, and the tier that a case shows.
CASES = [
    *((script, kind, "T0") for script in ("ddp.py", "hugging_face.py", "light.py")
      for kind in T0_KINDS),
    ("fsdp.py", "one rank", "refused"),
    ("hsdp.py", "one rank", "T0"),
    ("snapshot.py", "one rank", "T1"),
    *((script, "all ranks", "T1") for script in ("hugging_face.py", "light.py")),
    *((script, "one rank, replaced", "T2")
      for script in ("snapshot.py", "hugging_face.py", "light.py")),
    *((script, "orrery run", "goes on") for script in ("ddp.py", "hugging_face.py", "light.py")),
]  # fmt: skip


class Session:
    """One `orrery run` whose ranks are forked from a warm process."""

    def __init__(self, script, restarts, replacements=0, **more):
        self.folder = tempfile.TemporaryDirectory()
        self.lines = []
        self.came_s = []  # instants of the lines
        self._changed = threading.Condition()
        self._has_ended = False
        self.process = subprocess.Popen(
            [programs.PROGRAM, "run", "-n", str(RANKS), "--json", "--warm", "all",
             "--heartbeat-timeout", str(HEARTBEAT_S), "--restart", str(restarts),
             "--replace", str(replacements), "--", programs.TORCH, programs.PROGRAMS / script],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**programs.environment(STEPS), "SLEEP_S": str(PACE_S),
                 "RANKS": self.folder.name, **more},
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line)
                self.came_s.append(time.monotonic())
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def wait_for(self, pattern, begin):
        """Waits for a line with a pattern from number `begin` on; its number, or None at the end of
        the run."""
        until = time.monotonic() + PATIENCE
        at = begin
        with self._changed:
            while True:
                for number in range(at, len(self.lines)):
                    if re.search(pattern, self.lines[number]):
                        return number
                at = len(self.lines)
                if self._has_ended:
                    return None
                if not self._changed.wait(until - time.monotonic()):
                    self.process.terminate()
                    raise TimeoutError(f"no line with {pattern}:\n{''.join(self.lines[-40:])}")

    def ranks(self, attempt):
        """The process ids of an attempt, by rank."""
        found = {}
        for rank in range(RANKS):
            path = pathlib.Path(self.folder.name) / f"{attempt}.{rank}"
            if path.exists():
                found[rank] = int(path.read_text())
        return found

    def end(self):
        """The report and the exit code."""
        out = self.process.stdout.read()
        code = self.process.wait(PATIENCE)
        self._reader.join()
        self.folder.cleanup()
        return json.loads(out) if out else None, code


def kill(pid, number=signal.SIGKILL):
    """Sends a signal; False if there is no such process any more."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def left_of(pids, limit_s=5.0):
    """The seconds until none of the processes is left; None if one is left after the limit."""
    begin = time.monotonic()
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        if time.monotonic() - begin > limit_s:
            return None
        time.sleep(0.01)
    return time.monotonic() - begin


def strike(pids, kind, dice):
    """Kills or stops ranks of an attempt; returns those that were still there."""
    lost = {
        "rank 0": [0],
        "one rank": [dice.randrange(RANKS)],
        "one rank, replaced": [dice.randrange(RANKS)],
        "all ranks": list(range(RANKS)),
        "two at once": dice.sample(range(RANKS), 2),
        "two, one during recovery": dice.sample(range(RANKS), 2),
        "stopped": [dice.randrange(RANKS)],
    }[kind]
    struck = []
    for at, rank in enumerate(lost):
        if at > 0 and "recovery" in kind:
            time.sleep(dice.random() * 0.1)
        if kill(pids[rank], signal.SIGSTOP if kind == "stopped" else signal.SIGKILL):
            struck.append(rank)
    return struck


def attempts_of(script, kind, count, dice, **more):
    """Runs attempts with one fault each: (attempt, struck ranks, lines, seconds to the end, ids),
    and at last the report and the exit code."""
    session = Session(script, count - 1, AGAIN=str(count - 1), **more)
    found, begin = [], 0
    for attempt in range(count):
        number = session.wait_for("^at step 10 ", begin)
        if number is None:
            break
        pids = session.ranks(attempt)
        time.sleep(dice.random() * 0.4)
        struck = strike(pids, kind, dice)
        struck_s = time.monotonic()
        ending = session.wait_for(f"restart {attempt + 1} of ", number)
        took_s = time.monotonic() - struck_s
        upto = len(session.lines) if ending is None else ending + 1
        found.append((attempt, struck, session.lines[begin:upto], took_s, pids))
        begin = upto
    report, code = session.end()
    return found, report, code, "".join(session.lines)


def with_replicas(script, struck):
    """The ranks that a run loses: of HSDP the replicas, pairs of ranks, of the struck ones."""
    if script != "hsdp.py":
        return struck
    return [rank for rank in range(RANKS) if rank // 2 in {each // 2 for each in struck}]


def shrink_cases(script, kind, count, dice):
    """Cases of tier T0: survivors with all steps and equal parameters, and the lost time."""
    found, report, code, text = attempts_of(script, kind, count, dice)
    if report is None or len(found) < count:
        raise RuntimeError(f"expected {count} attempts, found {len(found)}, exit code {code}:\n"
                           f"{text[-3000:]}")  # fmt: skip
    for attempt, hit, lines, _, _ in found:
        ends = programs.ends_in("".join(lines))
        if set(ends) & set(hit) or not hit:
            continue  # a rank had ended before the fault: no case
        struck = with_replicas(script, hit)
        losses = [each for each in report["losses"] if each["attempt"] == attempt]
        problem = ""
        if sorted(each["rank"] for each in losses) != sorted(struck):
            problem = f"struck {struck}, lost {[each['rank'] for each in losses]}"
        elif sorted(ends) != sorted(set(range(RANKS)) - set(struck)):
            problem = f"struck {struck}, ended {sorted(ends)}"
        elif {steps for steps, _ in ends.values()} != {STEPS} or len(set(ends.values())) != 1:
            problem = f"other ends: {ends}"
        lost_s = [each["lost_s"] for each in losses if each["lost_s"] is not None]
        yield {"lost_s": max(lost_s, default=None), "problem": problem,
               "text": "".join(lines) if problem else ""}  # fmt: skip


def refused_cases(script, kind, count, dice):
    """Cases of a refused operation: its name, and no process that is left."""
    found, report, code, _ = attempts_of(script, kind, count, dice)
    for attempt, struck, lines, took_s, pids in found:
        text = "".join(lines)
        if programs.ends_in(text) or not struck:
            continue
        problem = ""
        if "a rank was lost: reduce_scatter cannot be carried through a loss" not in text:
            problem = f"no name of the operation:\n{text[-2000:]}"
        elif left_of(pids.values()) is None:
            problem = "a process is left"
        is_last = attempt == count - 1
        if is_last and (code, report["refused_operation"]) != (4, "reduce_scatter"):
            problem = f"exit code {code}"
        yield {"lost_s": took_s, "problem": problem}


def undisturbed(script, steps):
    """The last line of the ranks without a fault."""
    session = Session(script, 0, STEPS=str(steps), WRAP="fsdp", EVERY="1000000")
    session.end()
    return programs.ends_in("".join(session.lines))


def are_whole_ends(script, steps, ends):
    """Whether all ranks have all steps, with the bits of an undisturbed run.

    Lightning begins a pass over the data again if it resumes within it: its bits are equal among
    the ranks.
    """
    if script != "light.py":
        return ends == undisturbed(script, steps)
    return len(ends) == RANKS and {each[0] for each in ends.values()} == {steps} and (
        len(set(ends.values())) == 1
    )  # fmt: skip


def restart_cases(script, kind, count, dice):
    """Cases of tier T1: ranks that resume from the newest snapshot, or the newest checkpoint of
    their own trainer, in the same run."""
    steps = 40 * count + 40
    folder = tempfile.TemporaryDirectory()
    kept = {} if script == "snapshot.py" else {"CHECKPOINTS": f"{folder.name}/kept"}
    every = "20" if kept else "5"
    session = Session(script, count, STEPS=str(steps), WRAP="fsdp", EVERY=every, **kept)
    begin, cases = 0, []
    for attempt in range(count):
        number = session.wait_for("^at step ", begin)
        if number is None:
            break
        pids = session.ranks(attempt)
        time.sleep(dice.random() * 0.3)
        if not strike(pids, kind, dice):
            break
        struck_s = time.monotonic()
        begin = session.wait_for("^begins at step ", number)
        if begin is None:
            break
        cases.append({"lost_s": time.monotonic() - struck_s, "problem": ""})
    _, code = session.end()
    ends = programs.ends_in("".join(session.lines))
    folder.cleanup()
    if code != 0 or not are_whole_ends(script, steps, ends):
        for case in cases:
            case["problem"] = f"exit code {code}, not the ends of an undisturbed run: {ends}"
    yield from cases


def replaced_cases(script, kind, count, dice):
    """Cases of tier T2: ranks that return one after the other in the same run. The lost time is
    that of the lost rank, until it trains again."""
    steps = 300 * count
    session = Session(script, 0, count, STEPS=str(steps), EVERY="1000000")
    begin, cases = 0, []
    for _ in range(count):
        number = session.wait_for("^at step ", begin)
        if number is None:
            break
        time.sleep(dice.random() * 0.3)
        if not strike(session.ranks(0), kind, dice):
            break
        struck_s = time.monotonic()
        begin = session.wait_for("^orrery run: rank . replaced after step ", number)
        if begin is None:
            break
        cases.append({"lost_s": time.monotonic() - struck_s, "problem": ""})
    _, code = session.end()
    ends = programs.ends_in("".join(session.lines))
    is_whole = {each[0] for each in ends.values()} == {steps} and len(set(ends.values())) == 1
    if code != 0 or len(ends) < RANKS or not is_whole:
        for case in cases:
            case["problem"] = f"exit code {code}, not the ends of all ranks: {ends}"
    yield from cases


def alone_cases(script, _kind, count, dice):
    """Cases of a killed `orrery run`: its ranks go on, and end with the bits of an undisturbed run.

    The lost time is that of the ten steps of the kill beyond the median of ten steps.
    """
    session = Session(script, 0)
    session.end()
    expected = programs.ends_in("".join(session.lines))
    for _ in range(count):
        session = Session(script, 0)
        if session.wait_for("^at step 10 ", 0) is None:
            break
        pids = session.ranks(0)
        time.sleep(dice.random() * 0.4)
        had_ended = session.process.poll() is not None
        session.process.kill()
        struck_s = time.monotonic()
        session.end()
        text = "".join(session.lines)
        if had_ended or "`orrery run` was killed" not in text:
            continue  # the ranks had ended before: no case
        ends, problem = programs.ends_in(text), ""
        if ends != expected:
            problem = f"ends {ends}, undisturbed {expected}"
        elif left_of(pids.values()) is None:
            problem = "a process is left"
        lost_s = time_lost(session, struck_s)
        yield {"lost_s": lost_s, "problem": problem, "text": text if problem else ""}


def time_lost(session, struck_s):
    """The time of the ten steps in which a fault struck beyond the median of ten steps."""
    ends_s = [came_s for line, came_s in zip(session.lines, session.came_s)
              if re.search(r"^at step \d+ of rank 0\b", line)]  # fmt: skip
    spans = list(zip(ends_s, ends_s[1:]))
    struck = [end - begin for begin, end in spans if begin <= struck_s < end]
    usual_s = statistics.median(end - begin for begin, end in spans)
    return max(0.0, max(struck) - usual_s) if struck else None


RUNNERS = {"T0": shrink_cases, "refused": refused_cases, "T1": restart_cases,
           "T2": replaced_cases, "goes on": alone_cases}  # fmt: skip


def percentile(values, share):
    """The value below which a share of the values lies, by the nearest rank."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def table_of(cases):
    """The table of all recorded cases."""
    lines = [
        "| program | killed | outcome | cases | whole | lost time p50 | p99 |",
        "|---|---|---|---|---|---|---|",
    ]
    for script, kind, tier in CASES:
        own = [each for each in cases if (each["script"], each["kind"]) == (script, kind)]
        lost_s = [each["lost_s"] for each in own if each["lost_s"] is not None]
        whole = sum(not each["problem"] for each in own)
        times = "| | |"
        if lost_s:
            times = f"| {percentile(lost_s, 0.5):.2f} s | {percentile(lost_s, 0.99):.2f} s |"
        lines.append(f"| `{script}` | {kind} | {tier} | {len(own)} | {whole} {times}")
    return lines


def write_section(page, cases):
    """Writes the table between its marks in the page."""
    text = pathlib.Path(page).read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    section = "\n".join([BEGIN, *table_of(cases), END])
    pathlib.Path(page).write_text(head + section + tail, encoding="utf-8")


def read_cases(record):
    """The recorded cases."""
    if not record or not pathlib.Path(record).exists():
        return []
    return [json.loads(line) for line in pathlib.Path(record).read_text().splitlines()]


def run_session(case, count, seed, record):
    """Runs cases of one kind, and records them."""
    script, kind, tier = case
    made = []
    for outcome in RUNNERS[tier](script, kind, count, random.Random(seed)):
        made.append({"script": script, "kind": kind, "seed": seed, **outcome})
        if outcome["problem"]:
            print(f"{script}, {kind}, seed {seed}: {outcome['problem']}", flush=True)
    if record:
        with open(record, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(each) + "\n" for each in made)
    return made


def next_case(cases, kills, only):
    """The kind with the fewest recorded cases, and how many it lacks; None if all are complete."""
    counts = collections.Counter((each["script"], each["kind"]) for each in cases)
    wanted = [case for case in CASES if only in " ".join(case)]
    case = min(wanted, key=lambda each: counts[each[:2]])
    missing = kills - counts[case[:2]]
    return (case, missing) if missing > 0 else None


def main():
    """Runs the cases that are missing, and prints the table of all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50, help="cases of each kind")
    parser.add_argument("--session", type=int, default=A_SESSION, help="most cases of one run")
    parser.add_argument("--seed", type=int, default=programs.SEED)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--only", default="", help="kinds whose name has this text")
    parser.add_argument("--record", default="", help="file with one line a case")
    parser.add_argument("--page", default="", help="page with the table")
    asked = parser.parse_args()
    until = time.monotonic() + 60 * asked.minutes
    cases = read_cases(asked.record)
    while time.monotonic() < until:
        following = next_case(cases, asked.kills, asked.only)
        if following is None:
            break
        case, missing = following
        begin = time.monotonic()
        made = run_session(case, min(missing, asked.session), asked.seed + len(cases), asked.record)
        cases += made
        took_s = time.monotonic() - begin
        print(f"{' '.join(case)}: {len(made)} cases in {took_s:.0f} s", flush=True)
        if asked.page:
            write_section(asked.page, cases)
        if not made:
            sys.exit(f"no case of {case}")
    if asked.page:
        write_section(asked.page, cases)
    print("\n".join(table_of(cases)))
    return 1 if any(each["problem"] for each in cases) else 0


if __name__ == "__main__":
    sys.exit(main())
