"""Parts of the memory of the fake device: slices of storages. Imported after torch.

A program that divides one buffer among its parameters slices the storage of the buffer, and makes
tensors of the slices. For example, ``tensor.set_(storage[64:128])`` is a view of 64 bytes.
"""

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .device import Current


class StorageSlice:
    """Bytes `begin` to `end` of a storage of the fake device."""

    def __init__(self, storage: Any, begin: int, end: int) -> None:
        self._storage = storage
        self._begin = begin
        self._end = max(begin, end)

    @property
    def device(self) -> Any:
        """Device of the storage."""
        return torch.device("cuda", Current.index)

    def nbytes(self) -> int:
        """Return the bytes of the slice."""
        return self._end - self._begin

    size = __len__ = nbytes

    def data_ptr(self) -> int:
        """Return the address of the first byte; 0 for an empty slice."""
        return int(self._storage.data_ptr()) + self._begin if self.nbytes() else 0

    def __getitem__(self, part: slice) -> "StorageSlice":
        begin, end, _ = part.indices(self.nbytes())
        return StorageSlice(self._storage, self._begin + begin, self._begin + end)

    def set_into(self, tensor: Any) -> Any:
        """Makes a tensor a view of the slice, in one dimension, and returns the tensor."""
        width = tensor.element_size()
        count = self.nbytes() // width
        return tensor.set_(self._storage, self._begin // width, (count,), (1,))


def install() -> None:
    """Lets storages of the fake device be sliced, and tensors be views of slices."""
    get, set_storage = torch.UntypedStorage.__getitem__, torch.Tensor.set_

    def get_item(self: Any, part: Any) -> Any:
        if self.device.type == "meta" and isinstance(part, slice):
            return StorageSlice(self, 0, self.nbytes())[part]
        return get(self, part)

    def set_(self: Any, source: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(source, StorageSlice):
            return source.set_into(self)
        return set_storage(self) if source is None else set_storage(self, source, *args, **kwargs)

    torch.UntypedStorage.__getitem__ = get_item
    torch.Tensor.set_ = FakeTensor.set_ = set_
