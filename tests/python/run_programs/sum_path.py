"""ddp.py, which prints in a later step whether the ranks add tensors in memory that they share."""

import pathlib
import runpy

from torch.optim.optimizer import register_optimizer_step_post_hook

PRINTS_AT = 6
steps = 0


def print_path(*_):
    global steps
    steps += 1
    if steps != PRINTS_AT:
        return
    with open("/proc/self/maps", encoding="utf-8") as file:
        print(f"shared memory {'memfd:orrery-sums' in file.read()}", flush=True)


register_optimizer_step_post_hook(print_path)
runpy.run_path(str(pathlib.Path(__file__).with_name("ddp.py")), run_name="__main__")
