"""Model of PyTorch's caching allocator: which request fits, and how much memory is reserved.

Follows c10/cuda/CUDACachingAllocator.cpp: requests are rounded to 512 bytes; small ones (up to
1 MiB) come from segments of 2 MiB, those below 10 MiB from segments of 20 MiB, larger ones get a
segment of their own in steps of 2 MiB. A free block serves requests of its own stream only.
"""

import bisect
from typing import Callable, Optional

KIB, MIB = 1 << 10, 1 << 20
ROUNDING = 512
SMALL = MIB
SMALL_SEGMENT = 2 * MIB
LARGE = 10 * MIB
LARGE_SEGMENT = 20 * MIB
SEGMENT_ROUNDING = 2 * MIB


class Exhausted(Exception):
    """Request that does not fit.

    Attributes
    ----------
    requested : int
        Bytes of the request.
    """

    def __init__(self, requested: int) -> None:
        super().__init__(f"{requested} bytes do not fit")
        self.requested = requested


class Block:
    """Part of a segment. `before` and `behind` are its neighbours in the segment."""

    __slots__ = ("size", "free", "stream", "small", "serial", "before", "behind", "users")

    def __init__(self, size: int, stream: int, small: bool, serial: int) -> None:
        self.size = size
        self.stream = stream
        self.small = small
        self.serial = serial
        self.free = False
        self.before: "Optional[Block]" = None
        self.behind: "Optional[Block]" = None
        self.users: "Optional[set[int]]" = None  # other streams that use the block


def round_up(size: int, step: int) -> int:
    """Return the least multiple of `step` that is at least `size`."""
    return -(-size // step) * step


def segment_size(size: int) -> int:
    """Return the bytes that are reserved for a request that no free block serves."""
    if size <= SMALL:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if size < LARGE else round_up(size, SEGMENT_ROUNDING)


class CachingAllocator:
    """Memory of one GPU.

    Parameters
    ----------
    capacity : int
        Bytes of the GPU.
    idle_at : callable
        Returns the moment, in seconds, at which a stream is idle.
    now : callable
        Returns the present moment of the host in seconds.
    """

    def __init__(
        self, capacity: int, idle_at: Callable[[int], float], now: Callable[[], float]
    ) -> None:
        self.capacity = capacity
        self.allocated = 0
        self.reserved = 0
        self.peak_allocated = 0
        self.peak_reserved = 0
        self.retries = 0
        self._idle_at = idle_at
        self._now = now
        self._serial = 0
        self._pools: "dict[tuple[int, bool], list[tuple[int, int, Block]]]" = {}
        self._waiting: "list[tuple[float, Block]]" = []

    def allocate(self, size: int, stream: int) -> Block:
        """Return a block of at least `size` bytes.

        Raises
        ------
        Exhausted
            If the request does not fit, even after all cached segments are released.
        """
        if size == 0:
            return Block(0, stream, True, 0)
        if self._waiting:
            self._release_unused()
        wanted = max(ROUNDING, round_up(size, ROUNDING))
        small = wanted <= SMALL
        pool = self._pools.setdefault((stream, small), [])
        place = bisect.bisect_left(pool, (wanted, 0))
        if place < len(pool):
            block = pool.pop(place)[2]
        else:
            block = self._reserve(wanted, stream, small)
        self._split(block, wanted)
        block.free = False
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return block

    def release(self, block: Block) -> None:
        """Frees a block, once the other streams that use the block are idle."""
        if block.size == 0:
            return
        if block.users:
            moment = max(self._idle_at(stream) for stream in block.users)
            block.users = None
            if moment > self._now():
                self._waiting.append((moment, block))
                return
        self.allocated -= block.size
        for other in (block.before, block.behind):
            if other is not None and other.free:
                self._merge(block, other)
        block.free = True
        pool = self._pools.setdefault((block.stream, block.small), [])
        bisect.insort(pool, (block.size, block.serial, block))

    def release_cached(self) -> None:
        """Returns all segments without a used block to the GPU (torch.cuda.empty_cache)."""
        for pool in self._pools.values():
            kept = []
            for entry in pool:
                if entry[2].before is None and entry[2].behind is None:
                    self.reserved -= entry[0]
                else:
                    kept.append(entry)
            pool[:] = kept

    def reset_peaks(self) -> None:
        """Forgets the peaks of before."""
        self.peak_allocated = self.allocated
        self.peak_reserved = self.reserved

    def _reserve(self, wanted: int, stream: int, small: bool) -> Block:
        size = segment_size(wanted)
        if self.reserved + size > self.capacity:
            self.retries += 1
            self._release_unused(everything=True)
            self.release_cached()
        if self.reserved + size > self.capacity:
            raise Exhausted(wanted)
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return self._new_block(size, stream, small)

    def _new_block(self, size: int, stream: int, small: bool) -> Block:
        self._serial += 1
        return Block(size, stream, small, self._serial)

    def _split(self, block: Block, wanted: int) -> None:
        rest = block.size - wanted
        if rest < ROUNDING if block.small else rest <= SMALL:
            return
        other = self._new_block(rest, block.stream, block.small)
        other.free = True
        other.before, other.behind = block, block.behind
        if block.behind is not None:
            block.behind.before = other
        block.behind = other
        block.size = wanted
        bisect.insort(self._pools[(block.stream, block.small)], (rest, other.serial, other))

    def _merge(self, block: Block, other: Block) -> None:
        """Absorbs a free neighbour."""
        pool = self._pools[(other.stream, other.small)]
        pool.pop(bisect.bisect_left(pool, (other.size, other.serial)))
        if other is block.before:
            block.before = other.before
            if other.before is not None:
                other.before.behind = block
        else:
            block.behind = other.behind
            if other.behind is not None:
                other.behind.before = block
        block.size += other.size

    def _release_unused(self, everything: bool = False) -> None:
        """Frees the blocks whose other streams have become idle; all of them if `everything`."""
        now = self._now()
        waiting, self._waiting = self._waiting, []
        for moment, block in waiting:
            if everything or moment <= now:
                self.release(block)
            else:
                self._waiting.append((moment, block))
