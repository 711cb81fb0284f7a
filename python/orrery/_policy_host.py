"""Process that serves the policies of a file to the command line.

``orrery simulate SCENARIO --policy FILE.py:CLASS`` starts one beside the run. The output of a
policy goes to the error stream, so that the command line's own output stays a report.
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
import types
from typing import List

from orrery import _core
from orrery._errors import InputError
from orrery._policy import Policy


def main() -> None:
    """Serve until the command line is gone."""
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command line ends this process
    sys.argv = sys.argv[:1]
    _core.serve_policies(policy_of)


def policy_of(file: str, name: str) -> Policy:
    """Make the policy of a file.

    Parameters
    ----------
    file : str
        Path of a Python file. Its folder is searched for imports, as for a script.
    name : str
        Name of a class in it; empty for the only policy that the file defines.

    Returns
    -------
    Policy
        A new object of the class, made without arguments.

    Raises
    ------
    InputError
        If the file has no such class, or several without a name, or the class needs arguments.
    """
    found = _class_of(_module_of(file), file, name)
    try:
        inspect.signature(found).bind()
    except TypeError as problem:
        raise _refused(
            file,
            f"expected a policy that is made without arguments, found {found.__name__}"
            f"{inspect.signature(found)}: {problem}; give the arguments default values",
            inspect.getsourcelines(found)[1],
        ) from None
    return found()


def _module_of(file: str) -> types.ModuleType:
    path = os.path.abspath(file)
    stem = os.path.splitext(os.path.basename(path))[0]
    sys.path.insert(0, os.path.dirname(path))
    module = types.ModuleType(stem if stem not in sys.modules else f"_policy_{stem}")
    module.__file__ = path
    sys.modules[module.__name__] = module
    with open(file, "rb") as source:
        exec(compile(source.read(), file, "exec"), vars(module))
    return module


def _class_of(module: types.ModuleType, file: str, name: str) -> "type[Policy]":
    policies: List["type[Policy]"] = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Policy) and each is not Policy
    ]
    own = [each for each in policies if each.__module__ == module.__name__]
    if name:
        for each in policies:
            if each.__name__ == name:
                return each
    elif len(own) == 1:
        return own[0]
    names = ", ".join(each.__name__ for each in own) or "no policy"
    if not name:
        raise _refused(
            file,
            f"expected one class derived from orrery.Policy, found {names}"
            + (f": choose one with --policy {file}:CLASS" if own else ""),
        )
    raise _refused(file, f"expected the class {name} derived from orrery.Policy, found {names}")


def _refused(file: str, text: str, line: int = 1) -> InputError:
    return InputError(f"{file}:{line}:1: {text}", text, file, line, 1)
