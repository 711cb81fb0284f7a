"""Attacks on a live run from outside, by process id: each attack is a function of the run, its dice
and the orders to the shim, and returns after the attack. None of them may change a bit of the
result."""

import ctypes
import errno
import mmap
import os
import pathlib
import resource
import signal
import socket
import struct
import time

LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WAIT_FOR_ALL = 0x40000000
PIDFD_GETFD = 438  # x86-64 and arm64
HOUR = 3600
SHIFTS = (25 * HOUR, 49 * HOUR, 8 * 24 * HOUR, 30 * 24 * HOUR)


class Shim:
    """Orders to the processes of a run that have tests/chaos/shim.cpp preloaded."""

    MOST_DISKS = 64

    def __init__(self, library, folder):
        self.path = pathlib.Path(folder) / "orders"
        self.path.write_bytes(bytes(8 + 8 * self.MOST_DISKS))
        self.file = self.path.open("r+b")
        self.memory = mmap.mmap(self.file.fileno(), 0)
        self.environment = {"LD_PRELOAD": str(library), "ORRERY_CHAOS": str(self.path)}
        self.clock = 0

    def shift_clock(self, seconds):
        self.clock = seconds
        struct.pack_into("q", self.memory, 0, seconds)

    def fail_disks(self, pids, error):
        """Sends orders to these processes alone; an empty list means none."""
        for place in range(self.MOST_DISKS):
            pid = pids[place] if place < len(pids) else 0
            struct.pack_into("ii", self.memory, 8 + 8 * place, pid, error if pid else 0)


def send(pids, number):
    for pid in filter(None, pids):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def one(run, dice, wanted="agent"):
    there = run.those(wanted)
    return dice.choice(there) if there else None


def limit(pid, what, soft):
    """Returns the previous state; None: the process is gone."""
    try:
        before = resource.prlimit(pid, what)
        resource.prlimit(pid, what, (soft, before[1]))
        return before
    except (ProcessLookupError, ValueError, PermissionError):
        return None


def starve(pid, what, soft, seconds):
    before = limit(pid, what, soft)
    time.sleep(seconds)
    if before:
        limit(pid, what, before[0])


def role_of_dice(dice):
    return dice.choice(("agent", "controller", "supervisor"))


# ---- processes -------------------------------------------------------------------------------


def kill_a_rank(run, dice, _):
    send([one(run, dice)], signal.SIGKILL)


def kill_two_ranks(run, dice, _):
    send(dice.sample(run.those("agent"), 2), signal.SIGKILL)


def stop_a_rank(run, dice, _):
    send([one(run, dice)], signal.SIGSTOP)


def stop_all_ranks(run, dice, _, seconds=None):
    stopped = run.those("agent")
    send(stopped, signal.SIGSTOP)
    time.sleep(seconds or dice.choice((1, 1, 2.5, 5)))
    send(stopped, signal.SIGCONT)


def stop_all_ranks_for_a_minute(run, dice, shim):
    stop_all_ranks(run, dice, shim, 60)


def suspend_the_machine(run, dice, _, seconds=None):
    everything = run.those("agent") + run.those("controller") + run.those("supervisor")
    send(everything, signal.SIGSTOP)
    time.sleep(seconds or dice.choice((1, 1, 2.5, 5)))
    send(everything, signal.SIGCONT)


def suspend_the_machine_for_a_minute(run, dice, shim):
    suspend_the_machine(run, dice, shim, 60)


def kill_the_controller(run, _, __):
    run.controllers_killed += 1
    send(run.those("controller"), signal.SIGKILL)


def freeze_a_main_thread(run, dice, _):
    """The one that trains; those that send heartbeats go on. Ends with the rank's end, which the
    run has to bring about."""
    pid = one(run, dice)
    if LIBC.ptrace(PTRACE_SEIZE, pid, 0, 0) != 0:
        return
    LIBC.ptrace(PTRACE_INTERRUPT, pid, 0, 0)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            gone, status = os.waitpid(pid, os.WNOHANG | WAIT_FOR_ALL)
        except ChildProcessError:
            return
        if gone and (os.WIFSIGNALED(status) or os.WIFEXITED(status)):
            return
        time.sleep(0.02)
    LIBC.ptrace(PTRACE_DETACH, pid, 0, 0)
    raise AssertionError("a rank that does nothing was left alone for 30 s")


# ---- links -----------------------------------------------------------------------------------


def cut_a_link(run, dice, _):
    cut_a_link_of(one(run, dice), dice)


def cut_a_link_of(pid, dice):
    """Shuts one of a rank's connections down, under its feet; returns whether it did."""
    if pid is None:  # no rank is there at this instant
        return False
    try:
        handle = os.pidfd_open(pid)
        numbers = [
            int(entry.name)
            for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir()
            if int(entry.name) > 3 and os.readlink(entry).startswith("socket:")
        ]
    except OSError:
        return False
    dice.shuffle(numbers)
    is_cut = False
    for number in numbers:
        copy = LIBC.syscall(PIDFD_GETFD, handle, number, 0)
        if copy < 0:
            continue
        with socket.socket(fileno=copy) as connection:
            try:
                connection.getpeername()
                connection.shutdown(socket.SHUT_RDWR)
                is_cut = True
                break
            except OSError:  # it listens
                pass
    os.close(handle)
    return is_cut


# ---- what a machine runs out of ---------------------------------------------------------------


def starve_of_descriptors(run, dice, _):
    role = role_of_dice(dice)
    if role == "controller":
        run.controllers_killed += 1  # it ends if somebody connects
    pid = one(run, dice, role)
    try:
        open_now = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    except OSError:
        return
    free = next(number for number in range(len(open_now) + 1) if number not in open_now)
    if dice.random() < 0.5:
        send([one(run, dice)], signal.SIGKILL)  # makes the copies necessary
    starve(pid, resource.RLIMIT_NOFILE, free, dice.uniform(0.5, 2))


def starve_of_memory(run, dice, _):
    role = role_of_dice(dice)
    if role == "controller":
        run.controllers_killed += 1  # it may end of it
    pid = one(run, dice, role)
    try:
        pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[0])
    except OSError:
        return
    if dice.random() < 0.5:
        send([one(run, dice)], signal.SIGKILL)
    starve(pid, resource.RLIMIT_AS, pages * resource.getpagesize(), dice.uniform(0.5, 2))


def fail_a_disk(run, dice, shim, error):
    role = role_of_dice(dice)
    if role == "controller":
        # No other controller continues without a journal.
        run.controllers_killed = run.MOST_CONTROLLERS
    shim.fail_disks(run.those(role), error)
    if dice.random() < 0.5:
        send([one(run, dice)], signal.SIGKILL)
    time.sleep(dice.uniform(0.5, 2))
    shim.fail_disks([], 0)


def fill_a_disk(run, dice, shim):
    fail_a_disk(run, dice, shim, errno.ENOSPC)


def break_a_disk(run, dice, shim):
    fail_a_disk(run, dice, shim, errno.EIO)


# ---- time ------------------------------------------------------------------------------------


def shift_the_clock(_, __, shim):
    """To 25 h, 49 h, 8 days, 30 days ahead, and back to where it was."""
    shim.shift_clock(next((shift for shift in SHIFTS if shift > shim.clock), 0))


OFTEN = [kill_a_rank] * 4 + [stop_a_rank, shift_the_clock, cut_a_link]
OTHERS = [
    kill_two_ranks,
    stop_all_ranks,
    suspend_the_machine,
    freeze_a_main_thread,
    starve_of_descriptors,
    starve_of_memory,
    fill_a_disk,
    break_a_disk,
    kill_the_controller,
]
RARE = [stop_all_ranks_for_a_minute, suspend_the_machine_for_a_minute]
ALL = [*OFTEN, *OTHERS, *RARE]
OF_CONTROLLERS = [kill_the_controller, starve_of_descriptors, starve_of_memory]
# Two ranks at once may take a part of a sharded state with them.
OF_SEVERAL_RANKS = [kill_two_ranks, starve_of_descriptors, starve_of_memory, fill_a_disk,
                    break_a_disk]


def pick(run, dice, only):
    if only:
        return dice.choice([each for each in ALL if each.__name__ in only])
    if dice.random() < 0.002:
        return dice.choice(RARE)
    known = list(OFTEN) if dice.random() < 0.5 else list(OTHERS)
    if run.controllers_killed >= run.MOST_CONTROLLERS:
        known = [each for each in known if each not in OF_CONTROLLERS]
    if run.kind.name == "sharded":
        known = [each for each in known if each not in OF_SEVERAL_RANKS]
    return dice.choice(known)
