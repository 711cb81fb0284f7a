"""Interpreters for which a wheel is built: their facts, and the search for them on this machine."""

import dataclasses
import glob
import json
import os
import pathlib
import shutil
import subprocess

OLDEST = (3, 9)  # requires-python in pyproject.toml

_FACTS = """
import json, sys, sysconfig
paths = sysconfig.get_paths()
print(json.dumps({
    "version": list(sys.version_info[:2]), "implementation": sys.implementation.name,
    "suffix": sysconfig.get_config_var("EXT_SUFFIX"),
    "threads": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "include": paths["include"], "platinclude": paths["platinclude"],
}))
"""


class NoModule(Exception):
    """Reason for which no extension module can be built for an interpreter."""


@dataclasses.dataclass(frozen=True)
class Interpreter:
    """A CPython with headers.

    Attributes
    ----------
    place : str
        The path of the program; in a root, with the root before it.
    tag : str
        Tag of Python and ABI, for example ``"cp313"``.
    suffix : str
        Suffix of extension modules, for example ``".cpython-313-x86_64-linux-gnu.so"``.
    include : tuple of str
        Folders of the headers.
    """

    place: str
    tag: str
    suffix: str
    include: tuple


def _facts(command, place):
    try:
        said = subprocess.run(
            [*command, "-c", _FACTS], capture_output=True, text=True, check=True, timeout=60
        )
        return json.loads(said.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as problem:
        raise NoModule(f"{place}: expected an interpreter of Python; found: {problem}") from None


def _interpreter(place, facts, include):
    version = tuple(facts["version"])
    if facts["implementation"] != "cpython" or facts["threads"]:
        raise NoModule(f"{place}: expected CPython with a global lock")
    if version < OLDEST:
        raise NoModule(f"{place}: expected Python {OLDEST[0]}.{OLDEST[1]} or later, found "
                       f"{version[0]}.{version[1]}")  # fmt: skip
    if not any((pathlib.Path(folder) / "Python.h").is_file() for folder in include):
        raise NoModule(f"{place}: expected Python.h in {include[0]}; install the headers "
                       f"(python{version[0]}.{version[1]}-dev)")  # fmt: skip
    return Interpreter(place, f"cp{version[0]}{version[1]}", facts["suffix"], tuple(include))


def interpreter_at(path):
    """Return the interpreter of this machine at a path.

    Parameters
    ----------
    path : str
        The program.

    Returns
    -------
    Interpreter

    Raises
    ------
    NoModule
        If it does not run, is no CPython of a supported version, or has no headers.
    """
    facts = _facts([path], path)
    return _interpreter(path, facts, dict.fromkeys([facts["include"], facts["platinclude"]]))


def interpreter_in(root):
    """Return the interpreter of another distribution, whose root is a folder (needs chroot).

    The headers are searched in the root, and in its folder ``headers``, where a package with
    headers can be unpacked without being installed.

    Parameters
    ----------
    root : str
        The folder that contains ``usr/bin/python3``.

    Returns
    -------
    Interpreter

    Raises
    ------
    NoModule
        As `interpreter_at`.
    """
    place = str(pathlib.Path(root) / "usr/bin/python3")
    facts = _facts(["chroot", root, "/usr/bin/python3"], place)
    inside = facts["include"].lstrip("/")
    for base in (pathlib.Path(root) / "headers", pathlib.Path(root)):
        if (base / inside / "Python.h").is_file():
            # Debian's pyconfig.h includes the one of the architecture by its path from usr/include.
            return _interpreter(place, facts, [str(base / inside), str(base / "usr/include")])
    return _interpreter(place, facts, [str(pathlib.Path(root) / inside)])


def found():
    """Return the interpreters of this machine: of PATH, pyenv and uv, the first of each version.

    Returns
    -------
    list of Interpreter
        By version, oldest first.
    """
    folders = os.environ.get("PATH", "").split(os.pathsep)
    home = pathlib.Path.home()
    pyenv = os.environ.get("PYENV_ROOT", str(home / ".pyenv"))
    folders += glob.glob(f"{pyenv}/versions/*/bin")
    folders += glob.glob(f"{home}/.local/share/uv/python/*/bin")
    of_version = {}
    for minor in range(OLDEST[1], 30):
        for folder in folders:
            path = shutil.which(f"python3.{minor}", path=folder)
            if path is None or f"3.{minor}" in of_version:
                continue
            try:
                of_version[f"3.{minor}"] = interpreter_at(path)
            except NoModule:
                continue
    return list(of_version.values())
