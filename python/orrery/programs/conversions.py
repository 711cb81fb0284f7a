"""Conversions and functions of Python and NumPy that keep the name of a stand-in.

A number that is computed from a stand-in is a stand-in, too. Functions of C read the number only:
`float`, those of `math` and those of NumPy therefore ask here first.
"""

import ctypes
import functools
import math
import sys
import sysconfig
import types
from typing import Any, Callable

from .guard import GuardError, compiled_conversions
from .stand_ins import StandIn, StandInText, find_stand_in, make_stand_in, plain

#: Checks of `math` and NumPy, with the name that `--allow-stand-in` has for them.
_CHECKS = {"isnan": "isnan", "isinf": "isnan", "isfinite": "isfinite"}
#: Functions of NumPy that programs call with numbers or lists of numbers.
_NUMPY = """
    all allclose amax amin any argmax argmin argsort array array_equal asanyarray asarray
    ascontiguousarray average concatenate cumsum diff full full_like histogram interp isclose
    linspace max mean median min nanmax nanmean nanmin nanstd percentile prod quantile round sort
    stack std sum unique var where
"""
#: Place of tp_basicsize in a type object of CPython, and of tp_vectorcall_offset behind it, bytes.
_BASIC_SIZE, _CALL_OFFSET = 32, 56


def follow_conversions() -> str:
    """Makes `float` keep names. Returns the reason if it cannot, else an empty text."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this Python is no CPython with a lock"
    read = ctypes.c_ssize_t.from_address
    place = read(id(type) + _CALL_OFFSET).value
    if read(id(type) + _BASIC_SIZE).value != vars(type)["__basicsize__"].__get__(type):
        return "this Python has type objects of another form"
    try:
        library = ctypes.PyDLL(compiled_conversions())
    except (GuardError, OSError) as error:
        return str(error)
    library.replace_float.argtypes = [ctypes.c_int64, ctypes.py_object]
    library.replace_float.restype = None
    library.replace_float(place, _to_float)
    try:
        float(_Probe())  # type: ignore[arg-type]
    except TypeError:
        return "this Python has another form of float()"
    return ""


class _Probe:
    """Object that only the replaced `float` converts."""

    @staticmethod
    def orrery_item(_: Any) -> float:
        return 1.0


def _to_float(value: Any) -> Any:
    """Return a stand-in as a float; NotImplemented for all that Python converts itself."""
    if isinstance(value, StandIn):
        return value.as_float()
    if isinstance(value, StandInText):
        number = float(str.__str__(value))
        return make_stand_in(number, value.of.name, value.of.ledger)
    item = getattr(type(value), "orrery_item", None)  # a tensor (tensors.py)
    if item is None:
        return NotImplemented
    number = item(value)
    return number.as_float() if isinstance(number, StandIn) else float(number)


def guard_math() -> None:
    """Makes the functions of `math` return stand-ins for stand-ins, and its checks decide."""
    for name, function in list(vars(math).items()):
        if isinstance(function, types.BuiltinFunctionType):
            setattr(math, name, _guarded(function, name))


def guard_numpy(numpy: Any) -> None:
    """Makes functions of NumPy return stand-ins for stand-ins; arrays and checks decide."""
    for name in _NUMPY.split():
        function = getattr(numpy, name, None)
        if function is not None:
            setattr(numpy, name, _guarded(function, name))
    StandIn.__array_ufunc__ = _run_ufunc  # type: ignore[attr-defined]


def _guarded(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if StandIn.newest is None:
            return function(*args, **kwargs)
        if args and isinstance(args[0], types.GeneratorType):
            args = (list(args[0]), *args[1:])
        found = find_stand_in((*args, *kwargs.values()))
        if found is None:
            return function(*args, **kwargs)
        return _computed(function(*plain(args), **plain(kwargs)), found, name)

    return guarded


def _run_ufunc(self: StandIn, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Runs an elementwise function of NumPy (protocol `__array_ufunc__`)."""
    result = getattr(ufunc, method)(*plain(inputs), **plain(kwargs))
    return _computed(result, self, ufunc.__name__)


def _computed(result: Any, of: StandIn, name: str) -> Any:
    """Return a result that was computed with a stand-in: numbers as stand-ins; others decide."""
    if isinstance(result, tuple):
        return tuple(_computed(each, of, name) for each in result)
    number = result.item() if type(result).__module__ == "numpy" and not result.shape else result
    if isinstance(number, (int, float)) and not isinstance(number, bool):
        return make_stand_in(number, of.name, of.ledger)
    of.ledger.decide(_CHECKS.get(name, of.name))
    return result
