"""Functions of packages in this folder that have no stand-in: a call ends the rehearsal."""

import sys
from typing import Any, Callable


def refuse(name: str) -> Any:
    """Ends the rehearsal at the program's line: `name` has no stand-in."""
    places = sys.modules["orrery_programs.places"]
    sys.modules["orrery_programs.session"].Session.current.refuse(
        f"{places.program_place()}: expected a kernel that has a stand-in, found {name}; "
        f"make the call an operator (torch.library.custom_op) with torch.library.register_fake, "
        f"and register its price with a line of --prices: {name} flops=... bytes=..."
    )


def missing_function(module: str, name: str) -> Callable[..., Any]:
    """Return a function in place of `name`, whose call ends the rehearsal.

    Raises
    ------
    AttributeError
        For names with two underscores at both ends, which Python looks up itself.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda *_args, **_kwargs: refuse(f"{module}.{name}")
