"""Trial steps of `orrery run --prove`: do shares of a step's examples change the gradients?

A trial runs the program's first steps with equal or with unequal shares, and writes sums of the
gradients of each step. The command line compares the trials (cli/shared/program_proof.hpp). Dropout
is left out, because other shares would draw other masks. Imported after torch.
"""

import json
import os
import time
from typing import Any

import torch
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from .sharing import Sharing
from .steering import Steering

#: Random projections of a gradient; their squared differences estimate that of the gradients.
PROJECTIONS = 8
DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout")


def uneven_shares(full: int, ranks: int) -> "dict[int, int]":
    """Return shares of a trial by rank: half a batch of the last rank moves to the first one.

    Parameters
    ----------
    full : int
        Examples in a batch of one rank, at least 2.
    ranks : int
        Number of ranks, at least 2.
    """
    moved = full // 2
    shares = {rank: full for rank in range(ranks)}
    shares[0] += moved
    shares[ranks - 1] -= moved
    return shares


def sums_of(gradient: torch.Tensor, seed: int) -> "list[float]":
    """Return the squared norm of a gradient, and its PROJECTIONS on random signs of `seed`."""
    flat = gradient.detach().to("cpu", torch.float64).flatten()
    sums = [float(flat.square().sum())]
    generator = torch.Generator().manual_seed(seed)
    for _ in range(PROJECTIONS):
        signs = torch.randint(0, 2, flat.shape, generator=generator, dtype=torch.int8)
        sums.append(float(torch.where(signs == 0, -flat, flat).sum()))
    return sums


class TrialSharing(Sharing):
    """Shares of a trial, from the first batch on."""

    def __init__(self, attachment: Any) -> None:
        super().__init__()
        self._attachment = attachment

    def shares_of(self, full: int) -> "dict[int, int]":
        """Return the shares of the trial; empty: equal batches."""
        ranks = int(os.environ["WORLD_SIZE"])
        if not self._attachment.proof["shares"] or full < 2 or ranks < 2:
            return {}
        return uneven_shares(full, ranks)

    @property
    def weighs(self) -> bool:
        """Whether outputs are weighted with the shares."""
        weighs: bool = self._attachment.proof["weighs"]
        return weighs


class Trial(Steering):
    """Steps of this rank in a trial, which waits for no policies and ends in its last step."""

    def __init__(self, attachment: Any) -> None:
        super().__init__(attachment)
        self.sharing = TrialSharing(attachment)
        self._steps: "list[dict[str, list[float]]]" = []
        self._names: "dict[int, str]" = {}

    def before_update(self, *arguments: Any) -> None:
        """Records the gradients of a step; after the last one waits for the end of the trial."""
        proof = self._attachment.proof
        self._steps.append(self._gradients(arguments[0]))
        if len(self._steps) < proof["steps"]:
            return
        batch, problem = self.sharing.facts()
        if not problem and batch < 2:
            problem = f"expected batches of at least 2 examples, found {batch}"
        path = os.path.join(proof["folder"], os.environ["RANK"])
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            json.dump({"problem": problem, "steps": self._steps}, file)
        os.replace(f"{path}.part", path)
        while True:  # the command line ends the trial
            time.sleep(1)

    def end_step(self) -> None:
        """Does nothing: no policy looks on."""

    def _gradients(self, optimizer: Any) -> "dict[str, list[float]]":
        found: "dict[str, list[float]]" = {}
        for group in optimizer.param_groups:
            for each in group["params"]:
                if each.grad is None:
                    continue
                number = len(found)
                name = self._names.get(id(each), f"parameter {number}")
                found[name] = sums_of(each.grad, number)
        return found

    def note_names(self, model: DistributedDataParallel) -> None:
        """Records the names of a model's parameters."""
        if not self._names:
            self._names = {id(each): name for name, each in model.module.named_parameters()}


def _leave_out_dropout() -> None:
    """Makes dropout the identity."""

    def same(values: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return values

    for name in DROPOUTS:
        setattr(functional, name, same)
    attention = functional.scaled_dot_product_attention

    def attention_without_dropout(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
        *more: Any, **named: Any,
    ) -> Any:  # fmt: skip
        return attention(query, key, value, attn_mask, 0.0, *more, **named)

    functional.scaled_dot_product_attention = attention_without_dropout


def install(attachment: Any) -> Trial:
    """Return the trial of this process, which is called in each optimizer step."""
    from .updates import call_before_updates

    made = Trial(attachment)
    _leave_out_dropout()
    forward = DistributedDataParallel.forward

    def noted_forward(self: Any, *inputs: Any, **named: Any) -> Any:
        made.note_names(self)
        return forward(self, *inputs, **named)

    DistributedDataParallel.forward = noted_forward

    def before_update(optimizer: Any) -> None:
        if attachment.is_here():
            made.before_update(optimizer)

    call_before_updates(before_update)
    return made
