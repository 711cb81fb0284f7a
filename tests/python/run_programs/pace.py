"""Declared compute of a program: SLEEP_S=SECONDS in each forward pass, in place of arithmetic."""

import os
import time


def declare_pace(model):
    """Sleeps before each forward pass of the model, if SLEEP_S is set."""
    sleep_s = float(os.environ.get("SLEEP_S", "0"))
    if sleep_s > 0:
        model.register_forward_pre_hook(lambda *_: time.sleep(sleep_s))
