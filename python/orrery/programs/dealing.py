"""The examples of lost ranks, dealt to the others from the next batch on. Imported after torch.

A DistributedSampler gives each rank its own examples, and so does the BatchSamplerShard of
accelerate, which the Trainer of transformers uses. Once a rank is lost, each batch of the others
also has an equal part of the lost rank's batch of the same number. All batches of a step stay of
equal size, so the mean over the ranks stays the mean over the examples. Example: batches of 16 and
one of four ranks lost: the others have batches of 21, 21, 22, ... examples.
"""

import collections
import copy
import os
import sys
from typing import Any, Iterator, Optional, Sequence

from torch.utils.data import BatchSampler, DataLoader, DistributedSampler


def dealt_part(
    pool: Sequence[Any], since: int, before: int, until: int, position: int, living: int
) -> "list[Any]":
    """Return the part of a living rank in the examples of one batch.

    All ranks get equally many. Up to living - 1 examples are left for the next batch; those at the
    begin of the first batch belong to no rank, because the lost ranks have trained the batch before
    it. A rank gets an example by its place in the pool, so that two ranks that do not agree about
    the first batch get none twice.

    Parameters
    ----------
    pool : sequence
        Examples of all lost ranks, in the order of their batches.
    since, before, until : int
        Number of examples in the batches before the first one that is dealt, before this one, and
        with this one.
    position, living : int
        Place of the rank among the living ones, and their number.
    """
    begin = max(before // living, -(-since // living)) * living
    return list(pool[begin + position : until // living * living : living])


class Dealer:
    """Deals the examples of lost ranks in one pass over a DistributedSampler.

    Parameters
    ----------
    sampler : DistributedSampler
        Sampler of this rank, at the begin of a pass.
    batch_size : int
        Examples in a batch of one rank.
    """

    def __init__(self, sampler: Any, batch_size: int) -> None:
        self._sampler = copy.copy(sampler)
        self.batch_size = batch_size
        self.rank: int = sampler.rank
        self._pools: "dict[tuple[int, ...], list[Any]]" = {}
        self._lost: "tuple[int, ...]" = ()
        self._first = 0  # batch from which on the examples of these ranks are dealt
        self._next = 0  # batch behind the newest one that was dealt

    def with_lost(self, number: int, batch: "list[Any]", attachment: Any) -> "list[Any]":
        """Return batch `number` of this rank with its part of the lost ranks' examples.

        Batches between two calls were shared by policies (sharing.py), with all of their examples.
        """
        lost = attachment.lost_ranks()
        if lost != self._lost or number != self._next:
            self._lost, self._first = lost, number
        self._next = number + 1
        part = self.part_of_batch(number, lost) if lost else []
        attachment.count_dealt(len(part))
        return [*batch, *part]

    def step_pool(self, number: int) -> "list[Any]":
        """Return the examples of all ranks' batches `number`, in the order of the ranks."""
        every = tuple(range(self._sampler.num_replicas))
        if every not in self._pools:
            self._pools[every] = self._pool_of(every)
        count = len(every) * self.batch_size
        return self._pools[every][number * count : (number + 1) * count]

    def part_of_batch(self, number: int, lost: "tuple[int, ...]") -> "list[Any]":
        """Return the examples of lost ranks that batch `number` of this rank gets."""
        if lost not in self._pools:
            self._pools[lost] = self._pool_of(lost)
        living = [rank for rank in range(self._sampler.num_replicas) if rank not in lost]
        share = len(lost) * self.batch_size
        return dealt_part(
            self._pools[lost],
            self._first * share,
            min(number * share, len(self._pools[lost])),
            min((number + 1) * share, len(self._pools[lost])),
            living.index(self._sampler.rank),
            len(living),
        )

    def _pool_of(self, lost: "tuple[int, ...]") -> "list[Any]":
        """Return the examples of the lost ranks: those of their first batches first."""
        orders = []
        for rank in lost:
            sampler = copy.copy(self._sampler)
            sampler.rank = rank
            orders.append(list(sampler))
        size = self.batch_size
        return [
            example
            for begin in range(0, len(orders[0]), size)
            for order in orders
            for example in order[begin : begin + size]
        ]


class ShardDealer:
    """Deals the examples of lost ranks in one pass over a BatchSamplerShard.

    Each rank reads the batches of all ranks there, so the lost ones are known as they come.

    Parameters
    ----------
    rank, ranks : int
        This rank and the number of ranks at the start.
    batch_size : int
        Examples in a batch of one rank.
    """

    def __init__(self, rank: int, ranks: int, batch_size: int) -> None:
        self._rank, self._ranks, self._batch_size = rank, ranks, batch_size
        self._lost: "tuple[int, ...]" = ()
        self._first = 0  # batch from which on the examples of these ranks are dealt
        self._pool: "list[Any]" = []

    def with_lost(
        self, number: int, batch: "list[Any]", every: "Optional[list[Any]]", attachment: Any
    ) -> "list[Any]":
        """Return batch `number` of this rank with its part of the lost ranks' examples.

        `every` has the batches of all ranks; None at the end of a pass, if some are not full.
        """
        lost = attachment.lost_ranks()
        share = len(lost) * self._batch_size
        if lost != self._lost:
            self._lost, self._first, self._pool = lost, number, [None] * (number * share)
        if not lost or every is None:
            return batch
        self._pool += [example for rank in lost for example in every[rank]]
        living = [rank for rank in range(self._ranks) if rank not in lost]
        bounds = (self._first * share, number * share, (number + 1) * share)
        part = dealt_part(self._pool, *bounds, living.index(self._rank), len(living))
        attachment.count_dealt(len(part))
        return [*batch, *part]


class RecordedBatches:
    """Batches that a BatchSamplerShard reads; keeps the newest `count`."""

    def __init__(self, batches: Any, count: int) -> None:
        self._batches = batches
        self._newest: "collections.deque[list[Any]]" = collections.deque(maxlen=count)
        self._count = 0

    def __iter__(self) -> "Iterator[list[Any]]":
        for batch in self._batches:
            self._count += 1
            self._newest.append(list(batch))
            yield batch

    def __len__(self) -> int:
        return len(self._batches)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)

    def newest(self, count: int, size: int) -> "Optional[list[Any]]":
        """Return the newest batches if `count` have been read so far, the last of `size` values."""
        is_whole = self._count == count and len(self._newest[-1]) == size
        return list(self._newest) if is_whole else None


def deal_shards(attachment: Any) -> None:
    """Deals the examples of lost ranks in the loaders of accelerate, if that is imported."""
    module = sys.modules.get("accelerate.data_loader")
    shard = getattr(module, "BatchSamplerShard", None)
    if shard is None or getattr(shard, "deals_lost_ranks", False):
        return
    original = shard.__iter__

    def batches(self: Any) -> Iterator[Any]:
        ranks, own = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
        is_ours = (self.num_processes, self.process_index) == (ranks, own)
        if not is_ours or self.split_batches or self.batch_size is None:
            yield from original(self)
            return
        reader = copy.copy(self)
        reader.batch_sampler = RecordedBatches(self.batch_sampler, ranks)
        dealer = ShardDealer(own, ranks, self.batch_size)
        for number, batch in enumerate(original(reader)):
            every = reader.batch_sampler.newest((number + 1) * ranks, self.batch_size)
            yield dealer.with_lost(number, batch, every, attachment)

    shard.__iter__ = batches
    shard.deals_lost_ranks = True


def _is_dealt(sampler: Any) -> bool:
    """Return True for a DistributedSampler of this rank among all ranks of the program."""
    world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    return isinstance(sampler, DistributedSampler) and (
        (sampler.num_replicas, sampler.rank) == (world, rank)
    )


def install(attachment: Any) -> None:
    """Deals the examples of lost ranks to the others, and all examples by policies' shares."""
    original = BatchSampler.__iter__

    def batches(self: Any) -> Iterator[Any]:
        return batches_of(self) if attachment.steering is None else shared_batches_of(self)

    def shared_batches_of(self: Any) -> Iterator[Any]:
        from .sharing import SharedBatches

        plain: Iterator[Any] = original(self)
        if not _is_dealt(self.sampler):
            return plain
        dealer = Dealer(self.sampler, self.batch_size)
        return SharedBatches(plain, dealer, attachment)

    def batches_of(self: Any) -> Iterator[Any]:
        if not _is_dealt(self.sampler):
            yield from original(self)
            return
        dealer = Dealer(self.sampler, self.batch_size)
        for number, batch in enumerate(original(self)):
            yield dealer.with_lost(number, batch, attachment)

    BatchSampler.__iter__ = batches
    if not attachment.deals_data:
        return
    begin = DataLoader.__iter__

    def begin_with_shards(self: Any) -> Any:
        deal_shards(attachment)
        return begin(self)

    DataLoader.__iter__ = begin_with_shards
