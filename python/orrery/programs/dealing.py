"""The examples of lost ranks, dealt to the others from the next batch on. Imported after torch.

A DistributedSampler gives each rank its own examples. Once a rank is lost, each batch of the others
also has an equal part of the lost rank's batch of the same number. All batches of a step stay of
equal size, so the mean over the ranks stays the mean over the examples. Example: batches of 16 and
one of four ranks lost: the others have batches of 21, 21, 22, ... examples.
"""

import copy
import os
from typing import Any, Iterator, Sequence

from torch.utils.data import BatchSampler, DistributedSampler


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
