"""Declared compute of a program: SLEEP_S=SECONDS in each forward pass, in place of arithmetic.

With SLEEP_S each rank prints the median time of its optimizer steps at its end.
"""

import atexit
import os
import statistics
import time

from torch.optim.optimizer import register_optimizer_step_post_hook

#: First steps that the median leaves out.
WARM_UP = 4


def declare_pace(model):
    """Sleeps before each forward pass of the model, if SLEEP_S is set."""
    sleep_s = float(os.environ.get("SLEEP_S", "0"))
    if sleep_s > 0:
        model.register_forward_pre_hook(lambda *_: time.sleep(sleep_s))
        ends_s = []
        register_optimizer_step_post_hook(lambda *_: ends_s.append(time.monotonic()))
        atexit.register(_print_median, ends_s)


def _print_median(ends_s):
    """Prints the median time between the ends of two steps."""
    times_s = [after - before for before, after in zip(ends_s[WARM_UP:], ends_s[WARM_UP + 1 :])]
    if times_s:
        rank = os.environ["RANK"]
        print(f"median step {statistics.median(times_s):.6f} s of rank {rank}", flush=True)
