"""Fault-tolerant process group: compiled once for each PyTorch, loaded into the user's process."""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from types import ModuleType
from typing import Iterator

#: Sources below the folder of the project's C++ files, in an order without forward references.
SOURCES = (
    "core/error.cpp",
    "core/files/socket_address.cpp",
    "traces/workload/gradient_codec.cpp",
    "live/codec/codec.cpp",
    "live/codec/half_codec.cpp",
    "live/codec/block_codec.cpp",
    "live/codec/top_k_codec.cpp",
    "live/codec/power_sgd_codec.cpp",
    "live/codec/coded_bucket.cpp",
    "live/codec/gradient_codes.cpp",
    "live/codec/gradient_meter.cpp",
    "live/group/member.cpp",
    "live/group/frames.cpp",
    "live/group/meeting_point.cpp",
    "live/group/step_plans.cpp",
    "live/group/step_reports.cpp",
    "live/group/sent_facts.cpp",
    "live/group/shared_sums.cpp",
    "live/group/operation_log.cpp",
    "live/group/process_state.cpp",
    "live/group/program_epoch.cpp",
    "live/torch/control.cpp",
    "live/torch/program_store.cpp",
    "live/torch/operation.cpp",
    "live/torch/tensor_sums.cpp",
    "live/torch/group_worker.cpp",
    "live/torch/operation_line.cpp",
    "live/torch/bypassing_work.cpp",
    "live/torch/bucket_measurement.cpp",
    "live/torch/program_runtime.cpp",
    "live/torch/surviving_backend.cpp",
)
HEADERS = (
    "core/error.hpp",
    "core/files/socket_address.hpp",
    "core/processor/vector_clones.hpp",
    "core/schema/names.hpp",
    "traces/workload/gradient_codec.hpp",
    "live/codec/arithmetic.hpp",
    "live/codec/codec.hpp",
    "live/codec/codecs.hpp",
    "live/codec/power_sgd.hpp",
    "live/codec/coded_bucket.hpp",
    "live/codec/gradient_codes.hpp",
    "live/codec/gradient_meter.hpp",
    "live/group/member.hpp",
    "live/group/frames.hpp",
    "live/group/messages.hpp",
    "live/group/meeting_point.hpp",
    "live/group/step_plans.hpp",
    "live/group/step_reports.hpp",
    "live/group/sent_facts.hpp",
    "live/group/takeover_files.hpp",
    "live/group/shared_sums.hpp",
    "live/group/operation_log.hpp",
    "live/group/process_state.hpp",
    "live/group/program_epoch.hpp",
    "live/group/virtual_ranks.hpp",
    "live/torch/control.hpp",
    "live/torch/program_store.hpp",
    "live/torch/operation.hpp",
    "live/torch/operation_line.hpp",
    "live/torch/tensor_sums.hpp",
    "live/torch/group_worker.hpp",
    "live/torch/bypassing_work.hpp",
    "live/torch/bucket_measurement.hpp",
    "live/torch/program_runtime.hpp",
    "live/torch/surviving_backend.hpp",
)
BINDING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "process_group.cpp")
MODULE = "orrery_process_group"


class GroupError(RuntimeError):
    """Machine on which the process group cannot be compiled."""


def cache_folder() -> str:
    """Return the folder of compiled process groups."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "orrery", "run")


def _key(native: str, version: str, torch_folder: str) -> str:
    """Return a text that changes with the sources, PyTorch and Python."""
    hashed = hashlib.sha256(f"{version} {torch_folder} {sys.version}".encode())
    for path in [__file__, BINDING, *(os.path.join(native, name) for name in (*SOURCES, *HEADERS))]:
        with open(path, "rb") as file:
            hashed.update(file.read())
    return hashed.hexdigest()[:16]


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Lets one process at a time compile."""
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compile(native: str, torch_folder: str, target: str) -> None:
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is None:
        raise GroupError("expected a C++ compiler, found none in PATH (c++, g++, clang++)")
    python = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(python, "Python.h")):
        raise GroupError(f"expected Python's headers in {python}, found no Python.h")
    sys.stderr.write("orrery: compiling the process group for this PyTorch, once\n")
    with tempfile.TemporaryDirectory(dir=os.path.dirname(target)) as folder:
        unity = os.path.join(folder, "unity.cpp")
        with open(unity, "w", encoding="utf-8") as file:
            for path in [*(os.path.join(native, name) for name in SOURCES), BINDING]:
                file.write(f'#include "{path}"\n')
        made = os.path.join(folder, "made.so")
        include = os.path.join(torch_folder, "include")
        folders = [native, include, os.path.join(include, "torch/csrc/api/include"), python]
        command = [compiler, "-O3", "-std=c++20", "-shared", "-fPIC", "-fvisibility=hidden"]
        command.append("-ffp-contract=off")  # codes have equal bytes on every machine
        command += [f"-I{each}" for each in folders] + [unity, "-o", made]
        libraries = os.path.join(torch_folder, "lib")
        command += [f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
        command += ["-lc10", "-ltorch_cpu", "-ltorch_python"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise GroupError(f"{compiler} cannot compile the process group: {result.stderr[:2000]}")
        os.replace(made, target)


def load_module(native: str, version: str, torch_folder: str) -> ModuleType:
    """Return the compiled module; compiles it if it is missing.

    Parameters
    ----------
    native : str
        Folder with the sources of the group.
    version, torch_folder : str
        Version and folder of the imported PyTorch.

    Raises
    ------
    GroupError
        If the module cannot be compiled.
    OSError
        If files cannot be read or written.
    """
    folder = cache_folder()
    path = os.path.join(folder, _key(native, version, torch_folder), f"{MODULE}.so")
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with _alone(folder):
            if not os.path.exists(path):
                _compile(native, torch_folder, path)
    spec = importlib.util.spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None:
        raise GroupError(f"expected a Python module at {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
