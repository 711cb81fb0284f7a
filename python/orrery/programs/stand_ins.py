"""Numbers in place of values that no kernel computed.

A stand-in carries the name of the operator that would have computed the value. Arithmetic and
printing are allowed, and the result of arithmetic is a stand-in; a comparison, a truth value or a
use as an index decides something, and ends the rehearsal unless the name is allowed.
conversions.py and entering.py keep the name in calls of Python, NumPy and PyTorch.
"""

import collections
import math
import operator
from typing import Any, Callable, Iterable, NoReturn, Optional

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
        """Counts a use of a stand-in at the program's line.

        A use is 'read', 'decides', 'assumed' or 'converted' (into a plain number, which is not
        followed).
        """
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
        self.refuse_use(program_place(), name)

    def refuse_use(self, place: str, name: str) -> NoReturn:
        """Ends the rehearsal at a line of the program that decides by results of `name`."""
        self._refuse(
            f"{place}: expected a branch or a shape of known values, found one that "
            f"depends on a result of '{name}', which no kernel computed; --allow-stand-in {name} "
            "goes on with a stand-in (1, false, finite)"
        )


def _binary(apply: Callable[[Any, Any], Any], swapped: bool) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        number = plain(other)
        if not isinstance(number, (int, float)):
            return NotImplemented  # tensors and arrays calculate with stand-ins themselves
        left, right = (number, self.number) if swapped else (self.number, number)
        return make_stand_in(apply(left, right), self.name, self.ledger)

    return method


def _compare(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        number = plain(other)
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
    #: The newest stand-in; None before the first.
    newest: "Optional[StandIn]" = None

    def __bool__(self) -> bool:
        self.ledger.decide(self.name)
        return bool(self.number)

    def __int__(self) -> int:
        self.ledger.decide(self.name)
        return int(self.number)

    def __index__(self) -> int:
        return self.__int__()

    def __float__(self) -> float:
        self.ledger.note(self.name, "converted")
        return float(self.number)

    def __complex__(self) -> complex:
        self.ledger.decide(self.name)
        return complex(self.number)

    def as_float(self) -> Any:
        """Return the stand-in as a floating point number that remembers its name."""
        return make_stand_in(float(self.number), self.name, self.ledger)

    def __invert__(self) -> Any:
        return make_stand_in(~self.number, self.name, self.ledger)

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
        return StandInText.made(repr(self.number), self)

    def __str__(self) -> str:
        return StandInText.made(str(self.number), self)

    def __format__(self, form: str) -> str:
        return StandInText.made(format(self.number, form), self)

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


class StandInText(str):
    """Text of a stand-in: text for all purposes, and a stand-in again once it is read as a number.

    For example, ``float(f"{loss:.3f}")``.
    """

    of: StandIn

    @classmethod
    def made(cls, text: str, of: StandIn) -> "StandInText":
        """Return a text that remembers its stand-in."""
        made = cls(text)
        made.of = of
        return made

    def __int__(self) -> int:
        self.of.ledger.decide(self.of.name)
        return int(str.__str__(self))

    def __reduce__(self) -> Any:
        return (str, (str.__str__(self),))


for _name in "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift".split():
    _apply = getattr(operator, _name)
    _name = _name.rstrip("_")
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
    StandIn.newest = made
    return made


_LISTS = (list, tuple, collections.deque)


def plain(value: Any) -> Any:
    """Return a value with plain numbers and texts for stand-ins, also in lists and dictionaries."""
    if isinstance(value, StandIn):
        return value.number
    if isinstance(value, StandInText):
        return str.__str__(value)
    if type(value) in _LISTS:
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {key: plain(each) for key, each in value.items()}
    return value


def find_stand_in(values: Iterable[Any]) -> "Optional[StandIn]":
    """Return the first stand-in among values, also in lists and dictionaries; None without one."""
    if StandIn.newest is None:
        return None
    for each in values:
        found = None
        if isinstance(each, StandIn):
            return each
        if type(each) in _LISTS:
            found = find_stand_in(each)
        elif type(each) is dict:
            found = find_stand_in(each.values())
        if found is not None:
            return found
    return None
