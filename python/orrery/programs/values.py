"""True values of small tensors of the fake device. Imported after torch.

A fake tensor of at most 16,384 elements can carry its value as a tensor of the CPU, through
operators and collectives, so that flags, counts and votes keep their meaning. A value is valid
until an operator with an unknown input writes the tensor's memory. Tensors of the CPU are real, but
their memory becomes unknown in the same way.
"""

import functools
import math
import weakref
from typing import Any, Optional, Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensor

#: Attribute of a tensor: the operator that computed it.
NAME = "orrery_name"
#: Attribute of a storage: writes of unknown values so far.
_EPOCH = "orrery_epoch"
#: Elements of the largest tensor that keeps its value.
LIMIT = 1 << 14
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_CREATORS = ("aten::scalar_tensor", "aten::arange")
#: Checks for values that are not finite: gradients are taken to be finite.
FINITE_CHECKS = ("aten::_amp_foreach_non_finite_check_and_unscale_",)
#: Names of masks that tell which values are finite; they stay with what is computed of a mask.
MASKS = {"isnan": "isnan", "isinf": "isnan", "isfinite": "isfinite"}
_OPPOSITE = {"isnan": "isfinite", "isfinite": "isnan"}
#: Counts of unknown values, which `--allow-stand-in` takes to be spread evenly over the bins.
COUNTS = ("histc", "bincount")
#: Names that results of later calls keep.
_MARKS = frozenset((*COUNTS, *_OPPOSITE))


class Values:
    """Values by tensor; each storage has an epoch, which unknown writes advance.

    Attributes
    ----------
    has_marks : bool
        True if names of results may stay with later results (`MASKS`, `COUNTS`).
    unknown : mapping
        Storages of real tensors that have unknown values, with the operator that wrote them.
    """

    def __init__(self) -> None:
        self._has_epochs = False
        self.unknown: "weakref.WeakKeyDictionary[Any, str]" = weakref.WeakKeyDictionary()
        self.has_marks = False

    def of(self, tensor: Any) -> Any:
        """Return the value of a tensor; None if it is unknown. Real tensors are their own value."""
        if not isinstance(tensor, FakeTensor):
            return None if self.unknown and self._unknown_name(tensor) else tensor
        kept = tensor.__dict__.get("orrery_value")
        if kept is None or kept[0] != self._epoch(tensor):
            return None
        return kept[1]

    def keep(self, tensor: Any, value: Any, name: str) -> None:
        """Sets the value of a fake tensor; None: a result of `name` that is unknown."""
        self._note_mark(name)
        tensor.__dict__[NAME] = name
        if value is None:
            tensor.__dict__.pop("orrery_value", None)
        else:
            tensor.__dict__["orrery_value"] = (self._epoch(tensor), value)

    def forget(self, tensor: Any, name: str) -> None:
        """Marks the memory of a tensor as written by operator `name` with unknown values."""
        tensor = getattr(tensor, "_local_tensor", tensor)  # the shard of a DTensor
        if isinstance(tensor, FakeTensor):
            kept = tensor.untyped_storage().__dict__
            kept[_EPOCH] = kept.get(_EPOCH, 0) + 1
            self._has_epochs = True
            self.keep(tensor, None, name)
        elif tensor.layout == torch.strided and not tensor.is_meta:
            self._note_mark(name)
            self.unknown[tensor.untyped_storage()] = name

    def _note_mark(self, name: str) -> None:
        if name in _MARKS:
            self.has_marks = True

    def clear(self, tensor: Any) -> bool:
        """Marks a real tensor as known. Returns false if the tensor is a part of unknown memory."""
        storage = tensor.untyped_storage()
        whole = bool(tensor.numel() * tensor.element_size() == storage.nbytes())
        if whole:
            self.unknown.pop(storage, None)
        return whole or storage not in self.unknown

    def _unknown_name(self, tensor: Any) -> str:
        """Return the operator that wrote unknown values into a real tensor; empty if none did."""
        if type(tensor) not in _PLAIN or tensor.layout != torch.strided or tensor.is_meta:
            return ""
        return self.unknown.get(tensor.untyped_storage(), "")

    def write(self, tensor: Any, value: Any, name: str) -> None:
        """Sets the value that `name` has written into the memory of a fake tensor.

        Known values of tensors that share the memory follow.
        """
        known = self.of(tensor) if isinstance(tensor, FakeTensor) else tensor
        if known is None:
            self.forget(tensor, name)
            self.keep(tensor, value.to(tensor.dtype).reshape(tensor.shape), name)
        else:
            known.copy_(value.reshape(tensor.shape))
            self._note_mark(name)
            tensor.__dict__[NAME] = name

    def name_of(self, tensor: Any) -> str:
        """Return the operator that computed a tensor."""
        if self.unknown and not isinstance(tensor, FakeTensor):
            return self._unknown_name(tensor) or "a device tensor"
        return str(getattr(tensor, "__dict__", {}).get(NAME, "a device tensor"))

    def arguments(
        self, func: Any, args: Sequence[Any], kwargs: "dict[str, Any]", inputs: Sequence[Any]
    ) -> "Optional[tuple[list[Any], dict[str, Any]]]":
        """Return the arguments of a call with values in place of fake tensors; None if unknown."""
        if func.namespace != "aten":
            return None
        for each in inputs:
            if each.numel() > LIMIT or self.of(each) is None:
                return None
        if not inputs and not _makes_little(func, args):
            return None
        known = [self._replaced(each) for each in args]
        named = {key: self._replaced(each) for key, each in kwargs.items()}
        if named.get("device") is not None:
            named["device"] = torch.device("cpu")
        return known, named

    def compute(
        self,
        func: Any,
        known: "Optional[tuple[list[Any], dict[str, Any]]]",
        written: Sequence[Any],
        outputs: Sequence[Any],
        inputs: Sequence[Any] = (),
    ) -> None:
        """Computes the values of a call's outputs, after the call.

        Parameters
        ----------
        func
            Operator.
        known : tuple or None
            Result of `arguments`, taken before the call.
        written, outputs, inputs : sequence of torch.Tensor
            Tensors that the call wrote in place, that it returned, and that it was given.
        """
        results = None
        if known is not None and all(each.numel() <= LIMIT for each in outputs):
            results = run_known(func, known)
        if results is None or len(results) != len(outputs):
            self.lose(func, written, outputs, inputs)
            return
        name = self._name(func, outputs, inputs)
        for each, value in zip(outputs, results):
            if isinstance(each, FakeTensor):
                same = each.shape == value.shape
                self.keep(each, value if same else None, name)

    def lose(
        self, func: Any, written: Sequence[Any], outputs: Sequence[Any], inputs: Sequence[Any]
    ) -> None:
        """Marks the tensors that a call has written and returned as unknown (see `compute`)."""
        name = self._name(func, outputs, inputs) if self.has_marks else base_name(func)
        for each in written:
            self.forget(each, name)
        self._note_mark(name)
        for each in outputs:
            if isinstance(each, FakeTensor):
                kept = each.__dict__
                kept[NAME] = name
                kept.pop("orrery_value", None)

    def _name(self, func: Any, outputs: Sequence[Any], inputs: Sequence[Any]) -> str:
        """Return the name of a call's results: the operator's, or that of a mask it is given."""
        name = base_name(func)
        if not self.has_marks:
            return name
        if name in MASKS.values():
            return name
        if not self.unknown and _MARKS.isdisjoint(each.__dict__.get(NAME) for each in inputs):
            return name
        for each in inputs:
            if self.name_of(each) in COUNTS:
                return self.name_of(each)
        if len(outputs) == 1 and outputs[0].dtype == torch.bool:
            for each in inputs:
                mask = self.name_of(each)
                if mask in _OPPOSITE:
                    return _OPPOSITE[mask] if name.endswith("_not") else mask
        return name

    def _epoch(self, tensor: Any) -> int:
        if not self._has_epochs:
            return 0
        return int(tensor.untyped_storage().__dict__.get(_EPOCH, 0))

    def _replaced(self, argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            return self.of(argument)
        if isinstance(argument, (list, tuple)):
            return [self._replaced(each) for each in argument]
        return torch.device("cpu") if isinstance(argument, torch.device) else argument


@functools.lru_cache(None)
def base_name(func: Any) -> str:
    """Return the name of an operator's results: its own, or that of its kind of masks."""
    name: str = func._schema.name.removeprefix("aten::")
    return MASKS.get(name, name)


def _makes_little(func: Any, args: Sequence[Any]) -> bool:
    name = func._schema.name
    if "empty" in name:
        return False
    size = args[0] if args else None
    if isinstance(size, (list, tuple)) and all(isinstance(each, int) for each in size):
        return math.prod(size) <= LIMIT
    return name in _CREATORS and not (isinstance(size, int) and size > LIMIT)


def run_known(func: Any, known: "tuple[list[Any], dict[str, Any]]") -> "Optional[list[Any]]":
    """Return the tensors that an operator computes on the CPU; None if it has no such kernel."""
    try:
        result = func(*known[0], **known[1])
    except (RuntimeError, NotImplementedError, TypeError, IndexError):
        return None
    found = result if isinstance(result, (list, tuple)) else [result]
    return [each for each in found if isinstance(each, torch.Tensor)]
