"""Numbers in place of values that no kernel computed.

A stand-in carries the name of the operator that would have computed the value. Arithmetic and
printing are allowed; a comparison, a truth value or a use as an index decides something, and ends
the rehearsal unless the name is allowed.
"""

import math
import operator
from typing import Any, Callable, NoReturn

from .places import program_place


class Ledger:
    """Stand-ins that the program read, for the report.

    Parameters
    ----------
    allowed : frozenset of str
        Names that may decide a branch or a shape; ``all`` allows every name.
    refuse : callable
        Ends the rehearsal with a message; does not return.
    """

    def __init__(self, allowed: "frozenset[str]", refuse: Callable[[str], NoReturn]) -> None:
        self._allowed = allowed
        self._refuse = refuse
        self.reads: "dict[tuple[str, str, str], int]" = {}

    def note(self, name: str, use: str) -> None:
        """Counts a use ('read', 'decides', 'assumed') of a stand-in at the program's line."""
        key = (name, use, program_place())
        self.reads[key] = self.reads.get(key, 0) + 1

    def is_allowed(self, name: str) -> bool:
        """Return true if results of operator `name` may decide branches and shapes."""
        return name in self._allowed or "all" in self._allowed

    def decide(self, name: str) -> None:
        """Refuses a branch or a shape that depends on the stand-in, unless its name is allowed."""
        if self.is_allowed(name):
            self.note(name, "decides")
            return
        self._refuse(
            f"{program_place()}: expected a branch or a shape of known values, found one that "
            f"depends on a result of '{name}', which no kernel computed; --allow-stand-in {name} "
            "goes on with a stand-in (1, false, finite)"
        )


def _binary(apply: Callable[[Any, Any], Any], swapped: bool) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        number = other.number if hasattr(other, "number") else other
        if hasattr(other, "__torch_function__"):
            left, right = (other, self.number) if swapped else (self.number, other)
            return _unknown(apply(left, right), self)
        if not isinstance(number, (int, float)):
            return NotImplemented
        left, right = (number, self.number) if swapped else (self.number, number)
        return make_stand_in(apply(left, right), self.name, self.ledger)

    return method


def _unknown(tensor: Any, of: "StandIn") -> Any:
    """Return a tensor that was computed with a stand-in, without a known value."""
    own = tensor.__dict__
    own.pop("orrery_value", None)
    own["orrery_name"] = of.name
    return tensor


def _compare(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        number = other.number if hasattr(other, "number") else other
        if not isinstance(number, (int, float)):
            return NotImplemented
        self.ledger.decide(self.name)
        return apply(self.number, number)

    return method


class StandIn:
    """Integer that no kernel computed. Not an int, so that it cannot become a shape unnoticed."""

    number: Any
    name: str
    ledger: Ledger

    def __bool__(self) -> bool:
        self.ledger.decide(self.name)
        return bool(self.number)

    def __int__(self) -> int:
        self.ledger.decide(self.name)
        return int(self.number)

    def __index__(self) -> int:
        return self.__int__()

    def __float__(self) -> float:
        return float(self.number)

    def __neg__(self) -> Any:
        return make_stand_in(-self.number, self.name, self.ledger)

    def __pos__(self) -> Any:
        return self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __floor__(self) -> Any:
        return make_stand_in(math.floor(self.number), self.name, self.ledger)

    def __ceil__(self) -> Any:
        return make_stand_in(math.ceil(self.number), self.name, self.ledger)

    def __trunc__(self) -> Any:
        return make_stand_in(math.trunc(self.number), self.name, self.ledger)

    def __abs__(self) -> Any:
        return make_stand_in(abs(self.number), self.name, self.ledger)

    def __round__(self, digits: "int | None" = None) -> Any:
        return make_stand_in(round(self.number, digits), self.name, self.ledger)

    def __repr__(self) -> str:
        return repr(self.number)

    def __str__(self) -> str:
        return str(self.number)

    def __format__(self, form: str) -> str:
        return format(self.number, form)

    def __hash__(self) -> int:
        return hash(self.number)

    def __reduce__(self) -> Any:
        return (type(self.number), (self.number,))

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, _: Any) -> Any:
        return self


class StandInFloat(StandIn, float):  # type: ignore[misc]
    """Floating point number that no kernel computed; a float for printing and JSON."""

    def __new__(cls, number: Any) -> Any:
        """Return a plain float: the module `statistics` calls the type of its numbers."""
        return float(number)

    def is_integer(self) -> bool:
        self.ledger.decide(self.name)
        return float(self.number).is_integer()

    def as_integer_ratio(self) -> "tuple[int, int]":
        self.ledger.decide(self.name)
        return float(self.number).as_integer_ratio()


for _name in "add sub mul truediv floordiv mod pow".split():
    _apply = getattr(operator, _name)
    setattr(StandIn, f"__{_name}__", _binary(_apply, False))
    setattr(StandIn, f"__r{_name}__", _binary(_apply, True))
for _name in "eq ne lt le gt ge".split():
    setattr(StandIn, f"__{_name}__", _compare(getattr(operator, _name)))


def make_stand_in(number: Any, name: str, ledger: Ledger) -> Any:
    """Return a stand-in with the value `number` for a result of operator `name`."""
    made: StandIn = (
        float.__new__(StandInFloat, number) if isinstance(number, float) else StandIn()
    )
    made.number, made.name, made.ledger = number, name, ledger
    return made


def guard_math() -> None:
    """Makes checks of `math` decide as those of tensors do: `isnan`, `isinf`, `isfinite`."""
    for check, name in (("isnan", "isnan"), ("isinf", "isnan"), ("isfinite", "isfinite")):
        setattr(math, check, _guarded(getattr(math, check), name))


def _guarded(check: Callable[[Any], bool], name: str) -> Callable[[Any], bool]:
    def guarded(number: Any, /) -> bool:
        if isinstance(number, StandIn):
            number.ledger.decide(name)
        return check(number)

    return guarded
