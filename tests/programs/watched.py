"""Runs a program, unmodified, and prints the lines that kills.py reads.

watched.py PROGRAM.py [ARGUMENTS]  prints the loss of every tenth optimizer step and, at the end,
the number of steps and the hash of the parameters, as tests/python/run_programs/end.py does.
"""

import os
import pathlib
import runpy
import sys

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python" / "run_programs"))
from end import print_end  # noqa: E402


class Trained(torch.nn.Module):
    """The parameters of the newest optimizer, with the number of its steps and its loss."""

    def __init__(self):
        super().__init__()
        self.steps, self.loss = 0, float("nan")
        self.trained = torch.nn.ParameterList()

    def record_loss(self, loss):
        """Keeps the value that a backward pass begins with."""
        self.loss = float(loss.detach())

    def record_step(self, optimizer, *_):
        """Counts a step, and prints every tenth."""
        if len(self.trained) == 0:
            groups = (group["params"] for group in optimizer.param_groups)
            self.trained = torch.nn.ParameterList(each for group in groups for each in group)
        self.steps += 1
        if self.steps % 10 == 0:
            rank = os.environ["RANK"]
            print(f"at step {self.steps} of rank {rank}, loss {self.loss:.4f}", flush=True)


def main():
    seen = Trained()
    backward = torch.Tensor.backward

    def watched_backward(loss, *arguments, **more):
        seen.record_loss(loss)
        return backward(loss, *arguments, **more)

    torch.Tensor.backward = watched_backward
    register_optimizer_step_post_hook(seen.record_step)
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
    print_end(os.environ["RANK"], seen.steps, seen)


if __name__ == "__main__":
    main()
