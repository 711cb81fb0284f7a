"""Stand-ins that enter tensors: results of calls with a stand-in are unknown. Imported after torch.

Operators of tensors take a stand-in by the protocol `__torch_function__`. Functions that take
numbers only, such as `torch.tensor`, are replaced. An integer in the place of a shape or an index
decides.
"""

import functools
from typing import Any, Callable, Iterable

import torch

from .stand_ins import StandIn, find_stand_in, plain
from .values import Values

#: Functions that make a tensor of numbers, and those whose numbers are a shape.
_FACTORIES = "tensor as_tensor asarray full full_like scalar_tensor arange linspace".split()
_SHAPES = ("arange",)
#: Methods that make a tensor of numbers, or write them.
_METHODS = "new_tensor new_full __setitem__".split()
#: Functions that take lists of values. Elsewhere, lists of integers are shapes and indices.
_OF_LISTS = ("tensor", "as_tensor", "asarray", "new_tensor", "__setitem__")
#: Functions whose single integers are values.
_OF_VALUES = frozenset(
    f"""
    {" ".join(_OF_LISTS)} full full_like new_full scalar_tensor fill_ clamp clamp_ linspace where
    add sub mul div true_divide divide floor_divide remainder fmod pow float_power rsub maximum
    minimum eq ne lt le gt ge add_ sub_ mul_ div_ pow_ addcmul addcdiv lerp masked_fill
    masked_fill_ bitwise_and bitwise_or bitwise_xor atan2 hypot copysign
    __add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__ __truediv__
    __rtruediv__ __itruediv__ __rdiv__ __floordiv__ __rfloordiv__ __mod__ __rmod__ __pow__ __rpow__
    __ipow__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __and__ __or__ __xor__
    """.split()
)


def install(values: Values) -> None:
    """Makes tensors that are computed from stand-ins unknown."""
    torch.utils._device._device_constructors()  # cached: the functions before their replacement
    for owner, names in ((torch, _FACTORIES), (torch.Tensor, _METHODS)):
        for name in names:
            setattr(owner, name, _following(getattr(owner, name), values))

    def run(_: Any, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found = find_stand_in((*args, *kwargs.values()))
        return func(*args, **kwargs) if found is None else _run(func, args, kwargs, found, values)

    StandIn.__torch_function__ = classmethod(run)  # type: ignore[attr-defined]


def _following(function: Callable[..., Any], values: Values) -> Callable[..., Any]:
    @functools.wraps(function)
    def follow(*args: Any, **kwargs: Any) -> Any:
        if StandIn.newest is None:
            return function(*args, **kwargs)
        found = find_stand_in((*args, *kwargs.values()))
        if found is None:
            return function(*args, **kwargs)
        return _run(function, args, kwargs, found, values)

    return follow


def _run(func: Any, args: Any, kwargs: "dict[str, Any]", found: StandIn, values: Values) -> Any:
    """Calls a function with plain numbers, and makes unknown what it returns or writes."""
    name = getattr(func, "__name__", "?")
    if _is_shape(name, args, kwargs):
        found.ledger.decide(found.name)
    result = func(*plain(args), **plain(kwargs))
    written = args[0] if result is None and args else result
    for each in written if isinstance(written, (list, tuple)) else (written,):
        if isinstance(each, torch.Tensor):
            values.forget(each, found.name)
    return result


def _is_shape(name: str, args: Any, kwargs: "dict[str, Any]") -> bool:
    """Return true if a stand-in among the arguments of a function is a shape or an index."""
    if name in _SHAPES:
        return True
    if name == "__setitem__":
        return find_stand_in(args[1:2]) is not None
    given = (*args, *kwargs.values())
    lists = (each for each in given if isinstance(each, (list, tuple)))
    if name not in _OF_LISTS and _begins_with_integer(lists):
        return True
    numbers = (each for each in given if isinstance(each, StandIn))
    return name not in _OF_VALUES and _begins_with_integer(numbers)


def _begins_with_integer(values: Iterable[Any]) -> bool:
    found = find_stand_in(values)
    return found is not None and not isinstance(found, float)
