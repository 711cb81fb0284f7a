"""Calls of operators that the rehearsal has seen, with results and costs of equal calls.

The fake kernel and the price of an operator depend on its numbers and on shapes, types, strides and
devices of its tensors, not on values. A program repeats few such calls: a step of Llama 8B has
13,000 calls of 400 kinds. A repeated one makes its results from the memory of the first. Known
values of small tensors are no part of the memory: the mode computes them at every call.
Imported after torch.
"""

import itertools
from typing import Any, NamedTuple, Optional, Sequence

import torch
from torch._library.utils import is_builtin
from torch._subclasses.fake_tensor import FakeTensor

from .device import Current
from .groups import FUNCTIONAL
from .kernels import Operator, Work
from .values import COUNTS, FINITE_CHECKS, LIMIT, NAME

#: Calls that are kept at most; programs whose shapes never repeat then begin anew.
MOST = 1 << 15
#: Attribute of a fake tensor: number of its type, shape, strides and device.
FORM = "orrery_form"
#: Numbers of types, shapes, strides and devices.
_FORMS: "dict[Any, int]" = {}
_META = torch.device("meta")
_EMPTY_STRIDED = torch.empty_strided
_MAKE = torch.Tensor._make_subclass
_SET = torch._C.TensorBase.set_
_THROW = torch._C._set_throw_on_mutable_data_ptr
_DEFAULT_DTYPE = torch.get_default_dtype
_IS_INFERENCE = torch.is_inference_mode_enabled
_SCALARS = frozenset(
    (int, bool, type(None), str, torch.dtype, torch.device, torch.layout, torch.memory_format)
)
_INTEGERS = {int}
#: Types of indices that are masks: the shape of the result depends on their values.
_MASKS = (torch.bool, torch.uint8, torch.int8)
_INDEX = torch.ops.aten.index.Tensor
#: Operators whose results depend on values, on the clock or on more than their arguments.
_NEVER = frozenset(
    "set_ resize_ resize_as_ lift lift_fresh lift_fresh_copy record_stream _local_scalar_dense "
    "equal _pin_memory is_pinned is_nonzero allclose item".split()
)
#: Namespaces of PyTorch's own operators beside the built-in ones.
_OF_PYTORCH = ("fsdp", *FUNCTIONAL)
_CHANGING = (
    torch.Tag.inplace_view,
    torch.Tag.data_dependent_output,
    torch.Tag.dynamic_output_shape,
)


class Made(NamedTuple):
    """Tensor that a call returns.

    Attributes
    ----------
    place : int
        Input that the tensor is, or with which the tensor shares its memory; -1 for new memory.
    is_input : bool
        True if the tensor is the input itself.
    shape, stride, offset, dtype, device
        Metadata of the tensor.
    state : dict
        Attributes of the fake tensor.
    is_conjugate, is_negative : bool
        True if the memory has the conjugate or the negative of the tensor's values.
    """

    place: int
    is_input: bool
    shape: "tuple[int, ...]" = ()
    stride: "tuple[int, ...]" = ()
    offset: int = 0
    dtype: Any = None
    device: Any = None
    state: "dict[str, Any]" = {}
    is_conjugate: bool = False
    is_negative: bool = False


class Cost(NamedTuple):
    """Cost of a call on the device.

    Attributes
    ----------
    name : str
        Name of the kernel in the report.
    work : Work or None
        Work of the kernel; None without a kernel.
    waits : bool
        True if the host waits for the kernel.
    """

    name: str
    work: "Optional[Work]"
    waits: bool


class Call(NamedTuple):
    """Memory of a call.

    Attributes
    ----------
    operator : Operator
        Classification of the operator.
    results : tuple
        A Made for each tensor that the call returns, and the integers and None beside them.
    form : type or None
        list or tuple of results; None for a single result.
    written : tuple of int
        Inputs that the call writes.
    may_be_known : bool
        True if no input is too large for a known value.
    depends_on_values : bool
        True if the call is another one where all values are known.
    is_on_device : bool
        True if the call has a tensor of the device.
    cost : Cost or None
        Cost on the device; None if it depends on more than the call.
    loses : bool
        True if the call writes or returns one of its inputs, whose value is then another one.
    held : tuple of int
        Positions, among the tensors that the call returns, of those with new memory of the device.
    """

    operator: Operator
    results: "tuple[Any, ...]"
    form: "Optional[type]"
    written: "tuple[int, ...]"
    may_be_known: bool
    depends_on_values: bool
    is_on_device: bool
    cost: "Optional[Cost]"
    loses: bool
    held: "tuple[int, ...]"

    def make(self, inputs: Sequence[Any]) -> "tuple[Any, list[Any]]":
        """Return the result of a call with other tensors, and the tensors in the result."""
        if self.form is None:
            each = self.results[0]
            if type(each) is not Made:
                return each, []
            made = _made(each, inputs)
            return made, [made]
        outputs: "list[Any]" = []
        results: "list[Any]" = []
        for each in self.results:
            if type(each) is Made:
                each = _made(each, inputs)
                outputs.append(each)
            results.append(each)
        return self.form(results), outputs


def _made(recipe: Made, inputs: Sequence[Any]) -> Any:
    place, is_input, shape, stride, offset, dtype, device, state, is_conjugate, is_negative = recipe
    if is_input:
        return inputs[place]
    memory = _EMPTY_STRIDED(shape, stride, dtype=dtype, device=_META)
    if place >= 0:
        _SET(memory, inputs[place].untyped_storage(), offset, shape, stride)
    if is_conjugate:
        torch._C._set_conj(memory, True)
    if is_negative:
        torch._C._set_neg(memory, True)
    made = _MAKE(FakeTensor, memory, False, dispatch_device=True, device_for_backend_keys=device)
    _THROW(made)
    made.__dict__.update(state)
    return made


class _Remembered(NamedTuple):
    """Rule for an operator: its number, whether fractions change no shape, whether it writes."""

    number: int
    ignores_floats: bool
    writes: bool


#: Attribute of an operator: its rule, because the hash of an operator is a function of Python.
_RULE = "orrery_rule"
_NUMBERS = itertools.count()


def _rule_of(func: Any) -> "Optional[_Remembered]":
    """Return the rule for an operator; None if its calls are not remembered."""
    kept = func.__dict__
    if _RULE not in kept:
        kept[_RULE] = _made_rule(func)
    rule: "Optional[_Remembered]" = kept[_RULE]
    return rule


def _made_rule(func: Any) -> "Optional[_Remembered]":
    if not isinstance(func, torch._ops.OpOverload):
        return None
    if not is_builtin(func) and func.namespace not in _OF_PYTORCH:
        return None
    name = func._schema.name.split("::")[1]
    if func.namespace == "prim" or name in _NEVER or name in COUNTS:
        return None
    if func._schema.name in FINITE_CHECKS:
        return None
    if any(tag in func.tags for tag in _CHANGING) and func is not _INDEX:
        return None
    writes = any(
        each.alias_info is not None and each.alias_info.is_write for each in func._schema.arguments
    )
    pointwise = torch.Tag.pointwise in func.tags or name.startswith(("_foreach_", "_fused_"))
    return _Remembered(next(_NUMBERS), pointwise or name.endswith("_"), writes)


class Calls:
    """Calls by their operator, numbers, and metadata of tensors.

    Parameters
    ----------
    has_own_prices : bool
        True if the user has registered prices.

    Attributes
    ----------
    has_bits : bool
        True once a tensor had the conjugate or negative of its memory; keys then have these bits.
    """

    has_bits = False

    def __init__(self, has_own_prices: bool) -> None:
        self.known: "dict[Any, Call]" = {}
        #: Leaves of results of operators that take functions.
        self.leaves: "dict[Any, tuple[Any, ...]]" = {}
        self._has_own_prices = has_own_prices

    def key_of(
        self, func: Any, args: Sequence[Any], kwargs: "dict[str, Any]", inputs: "list[Any]"
    ) -> Any:
        """Return the key of a call; None for a call that is never remembered.

        Appends the tensors of the call to `inputs`.
        """
        rule = _rule_of(func)
        if rule is None:
            return None
        number, ignores_floats, writes = rule
        key = [number, _DEFAULT_DTYPE(), _IS_INFERENCE()]
        if not self._append(key, args, inputs, ignores_floats, True):
            return None
        if kwargs:
            key.extend(kwargs)
            if not self._append(key, kwargs.values(), inputs, ignores_floats, True):
                return None
            if "device" in kwargs:
                key.append(Current.index)
        if writes and len(inputs) > 1:
            key.append(len(set(map(id, inputs))))
        return tuple(key)

    def _append(
        self, key: "list[Any]", given: Any, inputs: "list[Any]", ignores_floats: bool, outer: bool
    ) -> bool:
        """Appends arguments to a key. Returns false for an argument that is no part of a key."""
        for each in given:
            kind = type(each)
            if kind is FakeTensor or (kind not in _SCALARS and isinstance(each, FakeTensor)):
                if each.constant is not None:
                    return False
                inputs.append(each)
                form = each.__dict__.get(FORM)
                if form is None:
                    form = _form_of(each)
                key += (form, each.untyped_storage().nbytes(), each.requires_grad)
                if Calls.has_bits:
                    key += (each.is_neg(), each.is_conj())
            elif kind in _SCALARS:
                key += (kind, each)
            elif kind is float:
                key += (kind, None if ignores_floats else each)
            elif outer and isinstance(each, (list, tuple)):
                key += (kind, len(each))
                if set(map(type, each)) == _INTEGERS:
                    key.append(tuple(each))
                elif not self._append(key, each, inputs, ignores_floats, False):
                    return False
            else:
                return False
        return True

    def remember(
        self,
        key: Any,
        call: "tuple[Any, Sequence[Any], dict[str, Any]]",
        operator: Operator,
        inputs: Sequence[Any],
        result: Any,
        cost: "Optional[Cost]",
        name: str = "",
    ) -> None:
        """Keeps a call, unless its results cannot be made from their metadata.

        Parameters
        ----------
        key
            Result of `key_of` before the call.
        call : tuple
            Operator, positional and keyword arguments.
        operator, inputs, result
            Classification of the operator, tensors of the call, and its result.
        cost : Cost or None
            Cost on the device; None for a call without a tensor of the device.
        name : str
            Name of the results (Values); empty: the caller names them.
        """
        func, args, kwargs = call
        if len(self.known) >= MOST:
            self.known.clear()
        if self.key_of(func, args, kwargs, []) != key:
            return  # the call has changed a tensor
        if func is _INDEX and any(each.dtype in _MASKS for each in inputs[1:]):
            return
        form = type(result) if isinstance(result, (list, tuple)) else None
        if form not in (None, list, tuple):
            return
        results: "list[Any]" = []
        tensors: "list[tuple[Any, Made]]" = []
        for each in (result,) if form is None else result:
            if isinstance(each, torch.Tensor):
                recipe = self._recipe_of(each, inputs)
                if recipe is None:
                    return
                if name and not recipe.is_input:
                    recipe.state[NAME] = name
                tensors.append((each, recipe))
                each = recipe
            elif each is not None and type(each) is not int:
                return
            results.append(each)
        if not _has_own_memory(result, results, form):
            return
        written = _places(operator, args)
        known = all(each.numel() <= LIMIT for each in inputs)
        # The precision of products of 32 bits is a setting of the program (precision_of).
        fixed = operator.kind not in ("gemm", "attention") and not self._has_own_prices
        if all(each.dtype != torch.float32 for each in inputs):
            fixed = True
        self.known[key] = Call(
            operator, tuple(results), form, written, known, func is _INDEX, cost is not None,
            cost if fixed else None,
            bool(written) or any(made.is_input for _, made in tensors),
            tuple(
                place
                for place, (each, made) in enumerate(tensors)
                if made.place < 0 and each.fake_device.type == "cuda"
            ),
        )  # fmt: skip

    def remember_leaves(self, key: Any, inputs: Sequence[Any], leaves: Sequence[Any]) -> None:
        """Keeps the leaves of a result that has new memory, unless they cannot be made."""
        made: "list[Any]" = []
        for each in leaves:
            recipe = self._recipe_of(each, inputs) if isinstance(each, torch.Tensor) else each
            if recipe is None or (type(recipe) is Made and recipe.place >= 0):
                return
            made.append(recipe)
        if _has_own_memory(leaves, made, tuple):
            self.leaves[key] = tuple(made)

    def leaves_of(self, key: Any, inputs: Sequence[Any]) -> "Optional[list[Any]]":
        """Return the leaves of the result of an equal call; None before the first."""
        known = self.leaves.get(key)
        if known is None:
            return None
        return [_made(each, inputs) if type(each) is Made else each for each in known]

    def key_of_leaves(self, name: str, leaves: Sequence[Any], inputs: "list[Any]") -> Any:
        """Return the key of a call whose result does not depend on functions among its arguments.

        Appends the tensors of the call to `inputs`.
        """
        key: "list[Any]" = [name, _DEFAULT_DTYPE(), _IS_INFERENCE()]
        given = [None if callable(each) else each for each in leaves]
        return tuple(key) if self._append(key, given, inputs, False, False) else None

    def _recipe_of(self, tensor: Any, inputs: Sequence[Any]) -> "Optional[Made]":
        """Return how a tensor is made; None if it cannot be made."""
        for place, each in enumerate(inputs):
            if each is tensor:
                return Made(place, True)
        if type(tensor) is not FakeTensor or tensor.layout != torch.strided:
            return None
        if tensor.is_neg() or tensor.is_conj():
            Calls.has_bits = True
        if tensor.constant is not None or tensor.requires_grad:
            return None
        storage = tensor.untyped_storage()
        sharing = [
            place
            for place, each in enumerate(inputs)
            if each.untyped_storage()._cdata == storage._cdata
        ]
        if len(sharing) > 1:
            return None
        state = {k: v for k, v in tensor.__dict__.items() if not k.startswith("orrery_")}
        recipe = Made(
            sharing[0] if sharing else -1, False, tuple(tensor.shape), tensor.stride(),
            tensor.storage_offset(), tensor.dtype, tensor.fake_device, state, tensor.is_conj(),
            tensor.is_neg(),
        )  # fmt: skip
        made = _made(recipe, inputs)
        state[FORM] = _form_of(made)
        keys = torch._C._dispatch_key_set
        same = (
            keys(made) == keys(tensor)
            and made.untyped_storage().nbytes() == storage.nbytes()
            and made.storage_offset() == tensor.storage_offset()
        )
        return recipe if same else None


def _form_of(tensor: Any) -> int:
    """Return the number of a tensor's type, shape, strides and device, kept with the tensor.

    `forget_forms` removes the number from a tensor that may have changed.
    """
    told = (
        tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset(), tensor._fake_device,
        tensor.is_inference(),
    )  # fmt: skip
    form = _FORMS.setdefault(told, len(_FORMS))
    tensor.__dict__[FORM] = form
    return form


def forget_forms(tensors: Sequence[Any]) -> None:
    """Removes what is kept with fake tensors whose shape, strides or device may have changed."""
    for each in tensors:
        each.__dict__.pop(FORM, None)


def _has_own_memory(result: Any, results: "list[Any]", form: Any) -> bool:
    """Return true if no two new tensors of a result share their memory."""
    tensors = (result,) if form is None else result
    new = [
        each.untyped_storage()._cdata
        for each, made in zip(tensors, results)
        if type(made) is Made and made.place < 0
    ]
    return len(set(new)) == len(new)


def _places(operator: Operator, args: Sequence[Any]) -> "tuple[int, ...]":
    """Return the positions, among the tensors of a call, of those that the operator writes."""
    places: "list[int]" = []
    count = 0
    for position, each in enumerate(args):
        tensors = [each] if isinstance(each, torch.Tensor) else []
        if isinstance(each, (list, tuple)):
            tensors = [one for one in each if isinstance(one, torch.Tensor)]
        if position in operator.written:
            places.extend(range(count, count + len(tensors)))
        count += len(tensors)
    return tuple(places)
