"""Lines of the user's program."""

import os
import sys
import sysconfig
from types import FrameType, TracebackType
from typing import Optional

_HERE = os.path.dirname(os.path.abspath(__file__))
_LIBRARIES = tuple(
    {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def program_place() -> str:
    """Return ``file:line`` of the innermost call that is outside libraries and this package.

    Falls back to the outermost call if the program itself is a library.
    """
    calls: "list[tuple[str, int]]" = []
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        calls.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return _innermost(calls)


def place_in(trace: Optional[TracebackType]) -> str:
    """Return ``file:line`` of the innermost call of the program in a traceback."""
    calls: "list[tuple[str, int]]" = []
    while trace is not None:
        calls.insert(0, (trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return _innermost(calls)


def _innermost(calls: "list[tuple[str, int]]") -> str:
    """Return the first of calls, innermost first, that is outside libraries and this package."""
    place = "?"
    for file, line in calls:
        if file.startswith("<"):
            continue
        place = f"{os.path.basename(file)}:{line}"
        path = os.path.abspath(file)
        if not path.startswith(_LIBRARIES) and not path.startswith(_HERE):
            return place
    return place
