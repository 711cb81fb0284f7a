"""Schedule of faults of a whole run, drawn from a seed: the same one for every contender."""

import random
from typing import NamedTuple

KINDS = ("kill", "stop", "slow")
#: Seconds until a stopped rank may run again, and a slow rank is as fast as before.
STOP_S, SLOW_S = 20.0, 10.0


class Fault(NamedTuple):
    """A fault of one rank, at seconds after the begin of the race."""

    at_s: float
    kind: str
    rank: int


def draw_faults(seed, mean_s, ranks):
    """Yields faults without end: the distances are exponential with the mean `mean_s`, and each
    three faults are one of each kind, so that short runs have all kinds."""
    dice = random.Random(f"faults of a race {seed}")
    at_s = 0.0
    while True:
        for kind in dice.sample(KINDS, len(KINDS)):
            at_s += dice.expovariate(1 / mean_s)
            yield Fault(at_s, kind, dice.randrange(ranks))
