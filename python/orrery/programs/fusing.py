"""Kernels of compiled code: torch.compile fuses pointwise operators with their readers.

A rehearsed program runs eagerly. Inside a compiled function, and in the part of a backward pass
that belongs to the function, a result of a pointwise operator has neither a kernel nor memory
before a kernel that cannot compute it (a product, attention, a collective) reads it: that kernel is
preceded by one that reads the tensors from which the result is computed, and writes the result. A
result that only pointwise operators and reductions read is computed anew in each of them, also in
the backward pass, as TorchInductor and its partitioner do. Results of the function exist.

For example, silu(a) * b between three products reads a and b and writes one tensor, where eager
kernels read three and write two. Imported after torch.
"""

import bisect
import functools
import weakref
from typing import Any, Callable, Iterable, Sequence

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor

from .kernels import Operator, Work, touched_bytes
from .record import Shape
from .session import Session
from .storages import Storages

#: Tensors from which a result is computed anew at most: realize_reads_threshold of TorchInductor.
MOST_SOURCES = 4
#: A result of at most this share of the largest tensor of its operator is a reduction's: it exists.
REDUCED = 1 / 16
#: Entries of the kernel tables that compiled code replaces by kernels of its own.
_ENTRIES = ("", "norm", "activation")
#: Operators on lists of tensors, and those with random results; kernels of their own in any case.
_NEVER = (
    "_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad", "split_with_sizes_copy",
    "all_gather_copy_in", "chunk_cat", "_chunk_cat", "_amp_", "rand", "normal_", "uniform_",
    "random_", "bernoulli_", "embedding",
)  # fmt: skip
#: Backends of torch.compile that fuse nothing.
EAGER = ("eager", "aot_eager", "aot_eager_decomp_partition", "cudagraphs")


class Regions:
    """Calls of compiled functions, and the nodes of the autograd graph that were made in them."""

    def __init__(self) -> None:
        self._depth = 0
        self._begins: "list[int]" = []
        self._ends: "list[int]" = []

    def is_inside(self) -> bool:
        """Return true in a compiled function, and in the backward pass of one."""
        if self._depth > 0:
            return True
        if not self._begins or torch._C._current_graph_task_id() == -1:
            return False
        node = torch._C._current_autograd_node()
        if node is None:
            return False
        number = node._sequence_nr()
        place = bisect.bisect_right(self._begins, number) - 1
        return place >= 0 and number < self._ends[place]

    def run(self, function: "Callable[..., Any]", args: Any, kwargs: Any) -> Any:
        """Calls a function as a part of compiled code."""
        if self._depth > 0:
            return function(*args, **kwargs)
        begin = torch._C._autograd._get_sequence_nr()
        self._depth = 1
        try:
            return function(*args, **kwargs)
        finally:
            self._depth = 0
            end = torch._C._autograd._get_sequence_nr()
            if end > begin:
                self._begins.append(begin)
                self._ends.append(end)

    def forget(self) -> None:
        """Forgets the nodes of earlier calls, whose backward passes are over."""
        self._begins.clear()
        self._ends.clear()


class Deferred:
    """Result that no kernel has computed: the tensors from which it is computed.

    `sources` has the storage and the bytes to read by the address of the storage.
    """

    __slots__ = ("sources", "reference")

    def __init__(self, storage: Any, sources: "dict[int, tuple[Any, float]]", end: Any) -> None:
        self.sources = sources
        self.reference = weakref.ref(storage, end)


class Fusing:
    """Results of compiled code that have no kernel yet.

    Parameters
    ----------
    session : Session
        The rehearsal.
    storages : Storages
        Memory of the device. A deferred result has none.
    """

    def __init__(self, session: Session, storages: Storages) -> None:
        self._session = session
        self._storages = storages
        self.regions = Regions()
        self.deferred = storages.deferred
        #: True once the program has compiled a function.
        self.is_used = False
        #: Puts a kernel on the clock (mode.py).
        self.launch: "Callable[[str, Work], None]" = lambda _name, _work: None

    def compiled(self, function: Any) -> Any:
        """Return a function or module whose calls are compiled code."""
        self.is_used = True
        if isinstance(function, torch.nn.Module):
            module = function

            def call_module(*args: Any, **kwargs: Any) -> Any:
                return self._run(module._call_impl, args, kwargs)

            module._compiled_call_impl = call_module
            return module

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._run(function, args, kwargs)

        return call

    def _run(self, function: "Callable[..., Any]", args: Any, kwargs: Any) -> Any:
        result = self.regions.run(function, args, kwargs)
        if self.deferred:
            leaves = pytree.tree_leaves(result)
            # The shard of a DTensor.
            self.compute([getattr(each, "_local_tensor", each) for each in leaves])
        return result

    def absorbs(self, operator: Operator, inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
        """Runs a pointwise operator of compiled code, and returns true; returns false for any
        other call, which the caller runs after compute()."""
        if not _is_fused(operator) or self._session.clock.stream != 0:
            return False
        if not self.regions.is_inside():
            return False
        read = [each for each in inputs if _is_on_device(each)]
        made = [each for each in outputs if _is_on_device(each)]
        both = [*read, *made]
        if len(read) != len(inputs) or len(made) != len(outputs):
            if any(_is_large_on_host(each) for each in (*inputs, *outputs)):
                return False  # a copy between host and device
        if not both or any(each.is_complex() for each in both):
            return False  # TorchInductor leaves complex numbers to kernels of PyTorch
        written = {_key(inputs[place]) for place in operator.written if place < len(inputs)}
        sources: "dict[int, tuple[Any, float]]" = {}
        for each in read:
            if operator.name not in ("copy_", "fill_", "zero_") or _key(each) not in written:
                self._add(sources, each)
        largest = max(touched_bytes(each) for each in both)
        exists = 0.0
        for each in {_key(one): one for one in both}.values():
            exists += self._place(each, written, sources, largest)
        if exists > 0:
            self._launch(sources, exists)
        return True

    def compute(self, tensors: "Iterable[Any]") -> None:
        """Launches a kernel that computes the deferred results among tensors."""
        sources: "dict[int, tuple[Any, float]]" = {}
        size = 0.0
        for each in tensors:
            found = self.deferred.pop(_key(each), None) if isinstance(each, FakeTensor) else None
            if found is not None:
                _join(sources, found.sources)
                self._storages.hold(each)
                size += float(each.untyped_storage().nbytes())
        if size > 0:
            self._launch(sources, size)

    def _place(
        self, tensor: Any, written: "set[int]", sources: "dict[int, tuple[Any, float]]",
        largest: float,
    ) -> float:
        """Defers a new result, and returns the bytes that a kernel writes now."""
        key, size = _key(tensor), touched_bytes(tensor)
        known = self.deferred.get(key)
        if known is not None:
            if key in written:
                _join(known.sources, sources)
                if len(known.sources) > MOST_SOURCES:
                    self.compute([tensor])
            return 0.0
        if self._storages.is_held(tensor):
            return float(size) if key in written else 0.0
        if size <= REDUCED * largest or len(sources) > MOST_SOURCES:
            self._storages.hold(tensor)
            return float(size)

        def end(_reference: Any, key: int = key) -> None:
            self.deferred.pop(key, None)

        self.deferred[key] = Deferred(tensor.untyped_storage(), dict(sources), end)
        return 0.0

    def _add(self, sources: "dict[int, tuple[Any, float]]", tensor: Any) -> None:
        """Adds the tensors from which a tensor is computed, or itself if it exists."""
        key, size = _key(tensor), float(touched_bytes(tensor))
        known = self.deferred.get(key)
        storage = tensor.untyped_storage()
        if known is None:
            _join(sources, {key: (storage, size)})
            return
        share = min(1.0, size / max(1.0, float(storage.nbytes())))
        _join(sources, {at: (one, each * share) for at, (one, each) in known.sources.items()})

    def _launch(self, sources: "dict[int, tuple[Any, float]]", size: float) -> None:
        moved = int(size + sum(each for _, each in sources.values()))
        seconds = self._session.client.kernel("memory", "bf16", moved=moved)
        self.launch("compiled", Work(seconds, 0, moved, "stream", Shape("memory")))


def _join(
    sources: "dict[int, tuple[Any, float]]", more: "dict[int, tuple[Any, float]]"
) -> None:
    """Adds sources to others; no storage is read more than once as a whole."""
    for key, (storage, size) in more.items():
        before = sources[key][1] if key in sources else 0.0
        sources[key] = (storage, min(before + size, max(size, float(storage.nbytes()))))


def _key(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _is_on_device(tensor: Any) -> bool:
    return isinstance(tensor, FakeTensor) and tensor.fake_device.type == "cuda"


def _is_large_on_host(tensor: Any) -> bool:
    return not _is_on_device(tensor) and tensor.dim() > 0


@functools.lru_cache(None)
def _is_fused(operator: Operator) -> bool:
    """Return true for an operator that compiled code fuses."""
    return (
        operator.kind == "memory"
        and operator.entry in _ENTRIES
        and operator.source in ("stream", "table")
        and not operator.in_place_list
        and not operator.name.startswith(_NEVER)
    )
