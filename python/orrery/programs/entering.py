"""Stand-ins that enter tensors: results of calls with a stand-in are unknown. Imported after torch.

Operators of tensors take a stand-in by the protocol `__torch_function__`. Functions that take
numbers only, such as `torch.tensor`, are replaced.
"""

import functools
from typing import Any, Callable

import torch

from .stand_ins import StandIn, find_stand_in, plain
from .values import Values

#: Functions that make a tensor of numbers.
_FACTORIES = "tensor as_tensor asarray full full_like scalar_tensor".split()
#: Methods that make a tensor of numbers, or write them.
_METHODS = "new_tensor new_full __setitem__ clamp_ clamp addcmul addcdiv".split()


def install(values: Values) -> None:
    """Makes tensors that are computed from stand-ins unknown."""
    torch.utils._device._device_constructors()  # cached: the functions before their replacement
    for name in _FACTORIES:
        setattr(torch, name, _following(getattr(torch, name), values))
    for name in _METHODS:
        setattr(torch.Tensor, name, _following(getattr(torch.Tensor, name), values))

    def run(_: Any, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found = find_stand_in((*args, *kwargs.values()))
        return _run(func, args, kwargs, found, values)

    StandIn.__torch_function__ = classmethod(run)  # type: ignore[attr-defined]


def _following(function: Callable[..., Any], values: Values) -> Callable[..., Any]:
    @functools.wraps(function)
    def follow(*args: Any, **kwargs: Any) -> Any:
        if StandIn.newest is None:
            return function(*args, **kwargs)
        found = find_stand_in(args) or (find_stand_in(kwargs.values()) if kwargs else None)
        return _run(function, args, kwargs, found, values)

    return follow


def _run(func: Any, args: Any, kwargs: "dict[str, Any]", found: Any, values: Values) -> Any:
    """Calls a function with plain numbers, and makes unknown what it returns or writes."""
    if found is None:
        return func(*args, **kwargs)
    result = func(*plain(args), **plain(kwargs))
    written = args[0] if result is None and args else result
    for each in written if isinstance(written, (list, tuple)) else (written,):
        if isinstance(each, torch.Tensor):
            values.forget(each, found.name)
    return result
