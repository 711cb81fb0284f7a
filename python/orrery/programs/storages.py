"""Memory of the fake device: storages of fake tensors in the model of the allocator.

Imported after torch.
"""

import weakref
from typing import Any

import torch

from .allocator import Block, CachingAllocator, Exhausted
from .clock import Clock

GIB = 1 << 30


class _Held(weakref.ref):  # type: ignore[type-arg]
    """Reference to a storage with a block; `key` is the storage's address."""

    __slots__ = ("key",)
    key: int


class Storages:
    """Blocks of the living storages of one GPU.

    Parameters
    ----------
    capacity : int
        Bytes of the GPU.
    clock : Clock
        Clock of the rehearsal.
    gpu : str
        Name of the GPU, for messages.
    """

    def __init__(self, capacity: int, clock: Clock, gpu: str) -> None:
        self.allocator = CachingAllocator(
            capacity, lambda stream: clock.ready[stream], lambda: clock.now
        )
        self.peak = 0
        self._clock = clock
        self._gpu = gpu
        self._blocks: "dict[int, Block]" = {}
        self._held: "dict[int, _Held]" = {}
        #: Results of compiled code that no kernel has computed, by address (fusing.py).
        self.deferred: "dict[int, Any]" = {}
        self._resize = torch.UntypedStorage.resize_
        torch.UntypedStorage.resize_ = self._resizer()

    def hold(self, tensor: Any) -> None:
        """Allocates the storage of a tensor of the device, unless it is known or deferred.

        Raises
        ------
        torch.OutOfMemoryError
            If the storage does not fit.
        """
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._blocks or key in self.deferred:
            return
        size = storage.nbytes()
        self._blocks[key] = self._allocate(size)
        held = self._held[key] = _Held(storage, self._release)
        held.key = key

    def is_held(self, tensor: Any) -> bool:
        """Return true if the storage of a tensor has memory."""
        return tensor.untyped_storage()._cdata in self._blocks

    def use(self, tensor: Any, stream: int) -> None:
        """Keeps the memory of a tensor until `stream` is idle (torch.Tensor.record_stream)."""
        block = self._blocks.get(tensor.untyped_storage()._cdata)
        if block is not None and stream != block.stream:
            block.users = (block.users or set()) | {stream}

    def _allocate(self, size: int) -> Block:
        allocator = self.allocator
        try:
            block = allocator.allocate(size, self._clock.stream)
        except Exhausted as refused:
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {refused.requested / GIB:.2f} GiB. GPU 0 "
                f"({self._gpu}, rehearsed by Orrery) has a total capacity of "
                f"{allocator.capacity / GIB:.2f} GiB of which "
                f"{(allocator.capacity - allocator.reserved) / GIB:.2f} GiB is free. "
                f"{allocator.allocated / GIB:.2f} GiB is allocated by PyTorch, and "
                f"{(allocator.reserved - allocator.allocated) / GIB:.2f} GiB is reserved by "
                "PyTorch but unallocated."
            ) from None
        self.peak = max(self.peak, allocator.allocated)
        return block

    def _release(self, held: _Held) -> None:
        self._held.pop(held.key, None)
        block = self._blocks.pop(held.key, None)
        if block is not None:
            self.allocator.release(block)

    def _resizer(self) -> Any:
        original, blocks = self._resize, self._blocks

        def resize_(storage: Any, size: int) -> Any:
            old = blocks.get(storage._cdata)
            if old is not None:
                if size > old.size:
                    blocks[storage._cdata] = self._allocate(size)
                    self.allocator.release(old)
                elif size == 0:
                    self.allocator.release(old)
                    blocks[storage._cdata] = self._allocate(0)
            return original(storage, size)

        return resize_
