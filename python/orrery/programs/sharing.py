"""Shares of a step's examples that a policy sets, in place of equal batches. Imported after torch.

The examples of a step, those of all ranks' batches of one number together, are dealt by shares, and
the gradient at the model's output is multiplied by share * ranks / examples. The mean that
DistributedDataParallel takes over the ranks is then the mean over the examples of the step, as with
equal shares. Example: of 16 examples rank 0 gets 13 and rank 1 gets 3; their mean losses have the
weights 13 * 2 / 16 and 3 * 2 / 16.
"""

from typing import Any, Iterable, Iterator, Optional

import torch
from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm
from torch.nn.parallel import DistributedDataParallel


def shared_part(pool: "list[Any]", shares: "dict[int, int]", rank: int) -> "list[Any]":
    """Return the part of a rank in the examples of one step: the ranks follow each other.

    Parameters
    ----------
    pool : list
        Examples of the step, as many as all shares together.
    shares : dict
        Number of examples by rank.
    rank : int
        One of the ranks.
    """
    begin = sum(count for other, count in shares.items() if other < rank)
    return pool[begin : begin + shares[rank]]


def weight_of(shares: "dict[int, int]", rank: int) -> float:
    """Return the weight of a rank's mean loss in the mean over the ranks."""
    return shares[rank] * len(shares) / sum(shares.values())


def first_rows(values: Iterable[Any]) -> Optional[int]:
    """Return the first dimension of the first tensor with dimensions; None without one."""
    for value in values:
        if isinstance(value, torch.Tensor) and value.dim() > 0:
            count: int = value.shape[0]
            return count
        if isinstance(value, (list, tuple)):
            rows = first_rows(value)
        else:
            rows = first_rows(value.values()) if isinstance(value, dict) else None
        if rows is not None:
            return rows
    return None


def weighted(output: Any, weight: float) -> Any:
    """Return the output of a model with another gradient: multiplied by `weight`."""
    if isinstance(output, torch.Tensor):
        if not output.requires_grad:
            return output
        copied = output.view_as(output)
        copied.register_hook(lambda gradient: gradient * weight)
        return copied
    if isinstance(output, dict):  # also an output of transformers, which is a dict
        changed = {key: weighted(value, weight) for key, value in output.items()}
        return changed if type(output) is dict else type(output)(**changed)
    if isinstance(output, (list, tuple)):
        parts = [weighted(value, weight) for value in output]
        return type(output)(*parts) if hasattr(output, "_fields") else type(output)(parts)
    return output


class Sharing:
    """Batches of this rank, and their weights.

    Attributes
    ----------
    shares : dict
        Number of examples by rank, for batches of full size; empty: equal batches.
    batch : int, optional
        Examples in the batch of this step; None before the first batch.

    Parameters
    ----------
    weighs : bool
        False for a program that divides a sum by the number of examples or tokens of all ranks.
    """

    def __init__(self, weighs: bool = True) -> None:
        self.shares: "dict[int, int]" = {}
        self._weighs = weighs
        self.batch: Optional[int] = None
        self._full = 0
        self._weight = 1.0
        self._has_workers = False
        self._fetches = 0
        self._forwards = 0
        self._problem = ""
        self._is_stated = False

    def shares_of(self, full: int) -> "dict[int, int]":
        """Return the shares of batches of `full` examples; empty: equal batches."""
        return self.shares

    @property
    def weighs(self) -> bool:
        """Whether the gradients of unequal batches are weighted."""
        return self._weighs

    def note_batch(self, batch: int, full: int, weight: float, has_workers: bool) -> None:
        """Records that the program has fetched a batch of a DistributedSampler.

        Parameters
        ----------
        batch, full : int
            Examples in the batch, and in a batch of equal shares.
        weight : float
            Weight of its mean loss.
        has_workers : bool
            True if processes of the loader prepare later batches already.
        """
        self._fetches += 1
        self.batch, self._full, self._weight = batch, full, weight
        self._has_workers = self._has_workers or has_workers

    def weigh_output(self, model: Any, inputs: "tuple[Any, ...]", output: Any) -> Any:
        """Return the output of a DistributedDataParallel, with the weight of the batch."""
        if self._is_stated and not self.shares and self._weight == 1:
            return output
        if not torch.is_grad_enabled():
            return output
        self._forwards += 1
        rows = first_rows(inputs)
        if self._forwards == 1:
            self._problem = self._problem or problem_of_model(model)
        if rows != self.batch and self.batch is not None:
            found = f"the model gets {rows} rows for a batch of {self.batch} examples"
            if self.shares_of(self._full):
                raise RuntimeError(f"orrery run: shares cannot be weighted: {found}")
            self._problem = self._problem or found
        if self._weight == 1 or not self.weighs:
            return output
        return weighted(output, self._weight)

    def facts(self) -> "tuple[int, str]":
        """Return the examples in a batch, and an empty text; or 0 and why shares cannot be set.

        Call before the first update of the parameters. Later passes are checked with shares only.
        """
        self._is_stated = True
        problem = self._problem
        if self._fetches == 0:
            problem = "expected a DataLoader with a DistributedSampler, found none"
        elif self._has_workers:
            problem = "expected a DataLoader with num_workers=0, found one that reads ahead"
        elif self._forwards == 0:
            problem = "expected a model in DistributedDataParallel, found none"
        elif self._fetches != self._forwards:
            problem = f"the model has seen {self._forwards} of {self._fetches} read batches"
        return (0, problem) if problem else (self._full, "")


def problem_of_model(model: Any) -> str:
    """Return why the examples of a model cannot be shared unequally; empty if they can."""
    for name, part in model.module.named_modules():
        is_plain = isinstance(part, _BatchNorm) and not isinstance(part, SyncBatchNorm)
        if is_plain and part.training:
            return (
                f"{type(part).__name__} '{name}' has statistics of each rank's own batch; use "
                f"SyncBatchNorm"
            )
    return ""


class SharedBatches:
    """Batches of one pass over a DistributedSampler, dealt by shares.

    Batches that are fetched without gradients, for a validation, stay equal.

    Parameters
    ----------
    batches : iterator
        Batches of the sampler.
    dealer : Dealer
        Dealer of this pass (dealing.py).
    attachment : Attachment
        Attachment of this process, with its steering.
    """

    def __init__(self, batches: "Iterator[list[Any]]", dealer: Any, attachment: Any) -> None:
        self._batches = batches
        self._dealer = dealer
        self._attachment = attachment
        self._number = 0
        self.newest: "tuple[int, int, float]" = (0, 0, 1.0)

    def __iter__(self) -> "SharedBatches":
        return self

    def __next__(self) -> "list[Any]":
        batch = next(self._batches)
        own, full = len(batch), self._dealer.batch_size
        number, self._number = self._number, self._number + 1
        rank = self._dealer.rank
        shares = self._attachment.steering.sharing.shares_of(full)
        weight = 1.0
        if rank in shares and own == full and torch.is_grad_enabled():
            pool = self._dealer.step_pool(number)
            if len(pool) == sum(shares.values()):
                batch = shared_part(pool, shares, rank)
                weight = weight_of(shares, rank)
        elif self._attachment.deals_data:
            batch = self._dealer.with_lost(number, batch, self._attachment)
        self.newest = (len(batch), full, weight)
        return batch


def install(attachment: Any) -> None:
    """Weighs the outputs of all DistributedDataParallel models, and counts their batches."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    sharing = attachment.steering.sharing
    forward = DistributedDataParallel.forward

    def weighing_forward(self: Any, *inputs: Any, **named: Any) -> Any:
        output = forward(self, *inputs, **named)
        return sharing.weigh_output(self, (*inputs, *named.values()), output)

    DistributedDataParallel.forward = weighing_forward
    fetch = _BaseDataLoaderIter.__next__

    def noting_fetch(self: Any) -> Any:
        item = fetch(self)
        batches = getattr(self, "_sampler_iter", None)
        if isinstance(batches, SharedBatches) and torch.is_grad_enabled():
            sharing.note_batch(*batches.newest, has_workers=self._num_workers > 0)
        return item

    _BaseDataLoaderIter.__next__ = noting_fetch
