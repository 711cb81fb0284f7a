"""Native parts of a rehearsal, compiled once, on the user's machine.

The device guard for "cuda" in a CPU build of PyTorch is loaded before torch; the conversions of
stand-ins (conversions.py) with the rehearsal.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile

_HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(_HERE, "guard.cpp")
CONVERSIONS = os.path.join(_HERE, "conversions.cpp")


class GuardError(RuntimeError):
    """Machine on which the native parts cannot be compiled."""


def cache_folder() -> str:
    """Return the folder of compiled parts."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "orrery", "rehearse")


def _version_of(torch_folder: str) -> str:
    with open(os.path.join(torch_folder, "version.py"), encoding="utf-8") as file:
        return file.read()


def compiled_guard(torch_folder: str) -> str:
    """Return the path of the guard for the PyTorch in a folder; compiles it if it is missing.

    Raises
    ------
    GuardError
        If there is no C++ compiler, or if the compiler fails.
    """
    include = os.path.join(torch_folder, "include")
    return _compiled(
        "guard", SOURCE, ["-I", include], _version_of(torch_folder) + torch_folder,
        "a CPU build of PyTorch needs a C++ compiler for the rehearsal",
    )  # fmt: skip


def compiled_conversions() -> str:
    """Return the path of the conversions; compiles them if they are missing.

    Raises
    ------
    GuardError
        If there is no C++ compiler, or if the compiler fails.
    """
    return _compiled("conversions", CONVERSIONS, [], "", "float(x) needs a C++ compiler")


def _compiled(part: str, source: str, options: "list[str]", version: str, need: str) -> str:
    """Return the path of the library of a source; compiles the source if it is missing."""
    with open(source, encoding="utf-8") as file:
        content = file.read() + version
    name = f"{part}-{hashlib.sha256(content.encode()).hexdigest()[:16]}.so"
    path = os.path.join(cache_folder(), name)
    if os.path.exists(path):
        return path
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is None:
        raise GuardError(
            f"{need}, found none (c++, g++ and clang++ are not in PATH): install g++"
        )
    os.makedirs(cache_folder(), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        made = os.path.join(folder, name)
        command = [compiler, "-O1", "-std=c++20", "-shared", "-fPIC", *options]
        result = subprocess.run(
            [*command, source, "-o", made], capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            raise GuardError(f"{compiler} cannot compile {source}: {result.stderr[:2000]}")
        os.replace(made, path)
    return path


def load_guard(torch_folder: str) -> None:
    """Loads the guard, unless PyTorch is a CUDA build, which has a guard of its own.

    Raises
    ------
    GuardError
        If the guard cannot be compiled.
    """
    libraries = os.path.join(torch_folder, "lib")
    if os.path.exists(os.path.join(libraries, "libtorch_cuda.so")):
        return
    path = compiled_guard(torch_folder)
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(os.path.join(libraries, name), ctypes.RTLD_GLOBAL)
    ctypes.CDLL(path)
