"""Strangers at a live run's ports: 2,000 connections that say nothing, to processes that may have
1,024 descriptors each, while ranks are killed.

build/venv/bin/python tests/chaos/strangers.py [--strangers N] [--descriptors N]

The run has to end with exit code 0 and the bits of an undisturbed one. Prints how many descriptors
its processes had open at most, and how long the last stranger was suffered.
"""

import argparse
import json
import os
import pathlib
import random
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time

import attacks
import chaos
import target

LISTENS = "0A"  # in /proc/net/tcp and tcp6, where gRPC maps addresses of IPv4


def ports_of(pids):
    """Ports of loopback at which these processes listen."""
    inodes = set()
    for pid in pids:
        for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            try:
                name = os.readlink(entry)
            except OSError:
                continue
            if name.startswith("socket:["):
                inodes.add(name[8:-1])
    tables = [pathlib.Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6")]
    rows = [row.split() for table in tables for row in table.splitlines()[1:]]
    return [int(row[1].split(":")[1], 16) for row in rows if row[3] == LISTENS and row[9] in inodes]


def descriptors(pids):
    counts = [0]
    for pid in pids:
        try:
            counts.append(len(os.listdir(f"/proc/{pid}/fd")))
        except OSError:
            pass
    return max(counts)


def knock(ports, count, dice):
    strangers = []
    while len(strangers) < count:
        stranger = socket.socket()
        stranger.setblocking(False)
        stranger.connect_ex(("127.0.0.1", dice.choice(ports)))
        strangers.append(stranger)
    return strangers


def suffered(strangers, run, everybody):
    """Seconds until all have been shown out, and the most descriptors that they cost a process."""
    begin, most = time.monotonic(), 0
    poll = select.poll()
    for stranger in strangers:
        poll.register(stranger, select.POLLIN | select.POLLHUP)
    left = {stranger.fileno(): stranger for stranger in strangers}
    while left and not run.over() and time.monotonic() - begin < 60:
        most = max(most, descriptors(everybody()))
        for number, _ in poll.poll(100):
            try:
                if left[number].recv(4096):
                    continue
            except BlockingIOError:
                continue
            except OSError:
                pass
            poll.unregister(number)
            left.pop(number).close()
    return time.monotonic() - begin, most, len(left)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--strangers", type=int, default=2000)
    parser.add_argument("--descriptors", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=250)
    asked = parser.parse_args()
    target.SETTINGS["live.listen"] = "127.0.0.1"
    calm = subprocess.run(
        target.command(asked.steps, "calm"), capture_output=True, text=True, timeout=300
    )
    sha = json.loads(calm.stdout)["parameters_sha256"]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    dice = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        shim = attacks.Shim(target.SHIM, folder)
        resource.setrlimit(resource.RLIMIT_NOFILE, (asked.descriptors, before[1]))
        run = target.Run(asked.steps, "strangers", shim)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 65536), before[1]))
        run.wait_for(lambda: run.whole() and run.steps_done() > 2, 90)

        def everybody():
            return run.those("agent") + run.those("controller")

        strangers = knock(ports_of(everybody()), asked.strangers, dice)
        attacks.kill_a_rank(run, dice, shim)
        seconds, most, left = suffered(strangers, run, everybody)
        attacks.kill_a_rank(run, dice, shim)
        out, err = run.process.communicate(timeout=300)
        wrong = chaos.verdict(run, out, err, sha)
    print(f"{asked.strangers} strangers, {asked.descriptors} descriptors a process: at most {most} "
          f"open, all shown out after {seconds:.1f} s, {left} still there: "
          f"{'; '.join(wrong) or 'whole'}")
    if wrong:
        print(err[-2000:], file=sys.stderr)
    return 1 if wrong or left else 0


if __name__ == "__main__":
    sys.exit(main())
