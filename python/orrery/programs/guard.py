"""Device guard for "cuda" in a CPU build of PyTorch: compiled once, loaded before torch."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard.cpp")


class GuardError(RuntimeError):
    """Machine on which the guard cannot be compiled."""


def cache_folder() -> str:
    """Return the folder of compiled guards."""
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
    with open(SOURCE, encoding="utf-8") as file:
        content = file.read() + _version_of(torch_folder) + torch_folder
    name = f"guard-{hashlib.sha256(content.encode()).hexdigest()[:16]}.so"
    path = os.path.join(cache_folder(), name)
    if os.path.exists(path):
        return path
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is None:
        raise GuardError(
            "a CPU build of PyTorch needs a C++ compiler for the rehearsal, found none (c++, g++ "
            "and clang++ are not in PATH): install g++"
        )
    os.makedirs(cache_folder(), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        made = os.path.join(folder, name)
        include = os.path.join(torch_folder, "include")
        command = [compiler, "-O1", "-std=c++20", "-shared", "-fPIC", "-I", include]
        result = subprocess.run(
            [*command, SOURCE, "-o", made], capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            raise GuardError(f"{compiler} cannot compile {SOURCE}: {result.stderr[:2000]}")
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
