"""Lines of the user's program."""

import os
import sys
import sysconfig

_HERE = os.path.dirname(os.path.abspath(__file__))
_LIBRARIES = tuple(
    {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def program_place() -> str:
    """Return ``file:line`` of the innermost call that is outside libraries and this package.

    Falls back to the outermost call if the program itself is a library.
    """
    frame = sys._getframe(1)
    outermost = "?"
    here: "object" = frame
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<"):
            outermost = f"{os.path.basename(file)}:{frame.f_lineno}"
            path = os.path.abspath(file)
            if not path.startswith(_LIBRARIES) and not path.startswith(_HERE):
                return outermost
        here = frame.f_back
        if here is None:
            return outermost
        frame = frame.f_back  # type: ignore[assignment]
    return outermost
