"""Ends of a live run from outside, and the required remains: an exit code, a last line on standard
error, and a checkpoint from which it continues if it keeps any."""

import dataclasses
import re
import signal
import subprocess

import attacks
import target

GOES_ON = r"  to continue from its newest complete checkpoint: orrery live .* --from \S+"
NOTHING = r"  nothing goes on from here: it kept no checkpoints .*"


@dataclasses.dataclass(frozen=True)
class Ending:
    """`saves`: a run that keeps checkpoints writes one more before it ends."""

    act: object
    code: int
    last: str = NOTHING
    last_if_saving: str = GOES_ON
    saves: bool = False

    @property
    def name(self):
        return self.act.__name__

    def faults(self, run, code, err):
        wrong = []
        if code != self.code:
            wrong.append(f"exit code {code}, not {self.code}")
        said = err.splitlines() or [""]
        wanted = self.last_if_saving if run.kind.saves else self.last
        if not re.fullmatch(wanted, said[-1]):
            wrong.append(f"its last line is {said[-1]!r}")
        return wrong


def signal_term(run, _):
    run.process.send_signal(signal.SIGTERM)


def signal_int(run, _):
    run.process.send_signal(signal.SIGINT)


def signal_hang_up(run, _):
    run.process.send_signal(signal.SIGHUP)


def stop_by_the_operator(run, dice):
    more = ["--checkpoint"] if run.kind.saves and dice.random() < 0.5 else []
    subprocess.run([target.BINARY, "stop", run.name, *more], capture_output=True, timeout=60)


def kill_all_ranks(run, _):
    attacks.send(run.those("agent"), signal.SIGKILL)


def kill_the_supervisor(run, _):
    attacks.send(run.those("supervisor"), signal.SIGKILL)


def kill_the_command(run, _):
    run.process.kill()


INTERRUPTED = r"interrupted"
ALL = [
    Ending(signal_term, 143, INTERRUPTED, saves=True),
    Ending(signal_int, 130, INTERRUPTED, saves=True),
    Ending(signal_hang_up, 129, INTERRUPTED, saves=True),
    Ending(stop_by_the_operator, 1),
    Ending(kill_all_ranks, 1),
    Ending(kill_the_supervisor, 5, r"error: .*ended before it reported.*",
           r"error: .*ended before it reported.*"),
    Ending(kill_the_command, -9, r"(?s).*", r"(?s).*"),
]


def pick(dice):
    """Returns the end of a run; most runs end by themselves."""
    return dice.choice(ALL) if dice.random() < 0.25 else None


def of_a_whole_run(err):
    """Returns the errors in the last line of a run that did everything."""
    last = (err.splitlines() or [""])[-1]
    bad = re.match(r"error|interrupted|orrery: |  (to go on|nothing goes on)", last)
    return [f"its last line is {last!r}"] if bad else []
