"""Warm process of `orrery run`: imports PyTorch once, and forks ranks that then need not.

The warm process is a rank that stops before the program begins. A rank is a fork of a fork, whose
parent becomes `orrery run`, so that the rank is a child like any other one. After the fork a rank
sets its environment and continues as a process that was started anew. The process forks only while
it has one thread and no CUDA context; otherwise it says why, and ranks are started without it.
"""

import ast
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import struct
import sys
import time
from types import ModuleType
from typing import Optional

from .prices import DESCRIPTOR

#: Libraries that the warm process imports if the program's script imports them at its top.
LIBRARIES = ("torch", "numpy", "transformers", "accelerate", "lightning", "pytorch_lightning")
#: Modules that keep the rank of the environment from the time of their import.
RANK_KEEPERS = ("lightning.fabric.utilities.rank_zero", "lightning_utilities.core.rank_zero")
_PR_SET_PDEATHSIG = 1


def imports_of(script: str) -> "list[tuple[str, list[str]]]":
    """Return the imports of LIBRARIES at the top level of a script: modules with their names.

    Parameters
    ----------
    script : str
        Path of a Python file; another path, or a file that cannot be read, has no imports.
    """
    try:
        with open(script, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return []
    found: "list[tuple[str, list[str]]]" = []
    for line in tree.body:
        if isinstance(line, ast.Import):
            found += [(each.name, []) for each in line.names]
        elif isinstance(line, ast.ImportFrom) and line.module and line.level == 0:
            found.append((line.module, [each.name for each in line.names]))
    return [each for each in found if each[0].split(".")[0] in LIBRARIES]


def import_libraries(script: str) -> None:
    """Imports torch and the libraries of the script; raises what their imports raise."""
    importlib.import_module("torch")
    for name, parts in imports_of(script):
        module = importlib.import_module(name)
        for part in parts:
            getattr(module, part, None)  # some libraries import a part when it is first used


def problem_of_process(torch: ModuleType) -> str:
    """Return why this process must not fork ranks; empty if it may."""
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return (
            f"expected one thread after the imports, found {threads}; OMP_NUM_THREADS=1 prevents "
            f"those of NumPy"
        )
    if torch.cuda.is_initialized():
        return "expected imports that leave CUDA alone, found an initialised CUDA"
    return ""


def _prepare() -> str:
    """Imports the libraries as the program would. Return a problem, or an empty text."""
    script = sys.argv[0] if sys.argv else ""
    folder = os.path.dirname(os.path.abspath(script))
    has_script = os.path.isfile(script)
    if has_script:  # Python puts it there too, once the program begins
        sys.path.insert(0, folder)
    try:
        import_libraries(script)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        if has_script and folder in sys.path:
            sys.path.remove(folder)
    gc.collect()
    gc.freeze()  # the collector would copy the shared pages of every rank
    return problem_of_process(sys.modules["torch"])


def _write_answer(path: str, problem: str) -> None:
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        file.write(problem)
    os.replace(f"{path}.part", path)


def _fork_orphan() -> "tuple[int, int]":
    """Forks a process whose parent ends at once.

    Returns
    -------
    tuple of int
        In this process: the id of the new one and 0. In the new one: 0 and the id of its parent.
    """
    read, write = os.pipe()
    middle = os.fork()
    if middle == 0:
        parent = os.getpid()
        made = os.fork()
        if made == 0:
            os.close(read)
            os.close(write)
            return 0, parent
        os.setpgid(made, 0)
        os.write(write, struct.pack("<q", made))
        os._exit(0)
    os.close(write)
    content = os.read(read, 8)
    os.close(read)
    os.waitpid(middle, 0)
    return (struct.unpack("<q", content)[0], 0) if len(content) == 8 else (-11, 0)


def read_fields(connection: socket.socket) -> "list[str]":
    """Return the fields of one message (live/group/frames.hpp), and read nothing after it."""

    def read(count: int) -> bytes:
        parts = b""
        while len(parts) < count:
            part = connection.recv(count - len(parts))
            if not part:
                os._exit(0)  # `orrery run` is gone
            parts += part
        return parts

    (length,) = struct.unpack("<I", read(4))
    body, at, fields = read(length), 0, []
    while at < length:
        (size,) = struct.unpack_from("<I", body, at)
        fields.append(body[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return fields


def _become_rank(connection: socket.socket, channel: int, middle: int, run: int) -> None:
    """Makes this fork a rank: child of `orrery run`, with a channel and an environment of its own.

    Parameters
    ----------
    connection : socket.socket
        Socket with the number DESCRIPTOR, which becomes that of the rank.
    channel : int
        Descriptor of the rank's socket.
    middle, run : int
        Process ids of the first parent and of `orrery run`.
    """
    os.dup2(channel, DESCRIPTOR, inheritable=False)
    os.close(channel)
    while os.getppid() == middle:
        time.sleep(0.0005)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != run:
        os._exit(127)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for each in read_fields(connection):
        name, _, value = each.partition("=")
        os.environ[name] = value
    if json.loads(os.environ["ORRERY_RUN"])["outlives_run"]:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()  # the random module does so by itself
    for keeper in RANK_KEEPERS:
        zero = getattr(sys.modules.get(keeper), "rank_zero_only", None)
        if zero is not None:
            zero.rank = int(os.environ["RANK"])


def serve_forks(connection: socket.socket, path: str) -> None:
    """Forks a rank for each request of `orrery run`. Returns in the ranks only.

    Parameters
    ----------
    connection : socket.socket
        Socket with the number DESCRIPTOR. A request is one byte with the descriptor of the rank's
        socket, its answer the process id as 8 bytes (core/process.hpp, ForkServer). The first
        message over the rank's socket is its environment: NAME=VALUE for each field.
    path : str
        File that is written once the imports are done: empty, or with the reason why this process
        cannot fork ranks.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # `orrery run` decides about the end
    run = os.getppid()
    made: Optional[int] = None
    try:
        _write_answer(path, _prepare())
        while True:
            message, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
            if not message or not descriptors:
                os._exit(0)
            made, middle = _fork_orphan()
            if made == 0:
                break
            os.close(descriptors[0])
            connection.sendall(struct.pack("<q", made))
    except OSError:
        os._exit(0)
    except BaseException as error:  # the program must not begin in this process
        sys.stderr.write(f"orrery: the warm process ends: {type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(1)
    _become_rank(connection, descriptors[0], middle, run)
