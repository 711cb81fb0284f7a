"""The training that all contenders of race.py run: model, data, declared compute and records.

A contender's program adds its own process group, restart and data position. The folder RACE is
where the ranks write their process ids (`rank.RANK`) and updates (`updates`, one JSON line for each
rank and step), and where race.py slows ranks down (`slow.RANK`). EXAMPLE_S is the time of an
example in seconds, LENGTH the number of examples.
"""

import json
import os
import pathlib
import time

import torch

RANKS, BATCH, WIDTH = 4, 8, 64
BUCKET_MB = 0.05  # several buckets of gradients in a step, as larger models have
FOLDER = pathlib.Path(os.environ["RACE"])
EXAMPLE_S = float(os.environ["EXAMPLE_S"])
SLOWDOWN = 3.0  # compute of a slow rank by that of another one


class Examples(torch.utils.data.Dataset):
    """Examples of one pass: (id, values). Example i is the business of rank i mod RANKS."""

    def __init__(self):
        self._rows = torch.randn(1024, WIDTH, generator=torch.Generator().manual_seed(7))

    def __len__(self):
        return int(os.environ["LENGTH"])

    def __getitem__(self, number):
        return number, self._rows[number % len(self._rows)]


def make_model():
    """Returns the model with the same parameters in every process."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 256), torch.nn.Tanh(), torch.nn.Linear(256, WIDTH)
    )


def announce(rank):
    """Writes the id of this process, which race.py may kill or stop from then on."""
    unfinished = FOLDER / f"rank.{rank}.{os.getpid()}"
    unfinished.write_text(str(os.getpid()))
    unfinished.rename(FOLDER / f"rank.{rank}")


def loss_of(model, batch, rank):
    """Returns the loss of a batch, after the declared sleep of its examples."""
    slow = SLOWDOWN if (FOLDER / f"slow.{rank}").exists() else 1.0
    time.sleep(EXAMPLE_S * len(batch) * slow)
    return (model(batch) - batch).square().mean()


def record(rank, step, ids):
    """Appends an update that this rank has applied to its parameters."""
    update = {"at_s": time.time(), "rank": rank, "step": step, "ids": ids.tolist()}
    with open(FOLDER / "updates", "ab", buffering=0) as file:
        file.write(json.dumps(update).encode() + b"\n")
