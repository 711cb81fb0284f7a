"""Attachment of `orrery run`: the program's Gloo and NCCL groups become fault-tolerant ones.

Nothing here raises into the program: without the process group it runs as under torchrun, and a
line says so.
"""

import atexit
import datetime
import json
import os
import socket
import struct
import sys
import time
from types import ModuleType
from typing import Any, Iterator, Optional

from .importing import on_import_of_torch
from .prices import DESCRIPTOR, inherited_connection


#: Backends whose groups become fault-tolerant, with the type of the devices of their tensors.
DEVICES = {"gloo": "cpu", "nccl": "cuda"}
#: Backends whose groups stay as they are, so that a loss ends the run.
OTHER_BACKENDS = ("xccl", "ucc", "mpi")
#: Folder with a package orrery that has orrery.torch only; an installed package comes first.
LIGHT_PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "light")
#: Settings of PyTorch's NCCL groups, where the user has not set them: a lost rank must not end the
#: process, and nothing must be written about an operation that stands still.
NCCL_SETTINGS = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
}


#: Attachment of this process; None before attach().
attachment: "Optional[Attachment]" = None


class Attachment:
    """State of this process's attachment.

    Parameters
    ----------
    settings : dict
        JSON object in ORRERY_RUN (live/programs/program_run.cpp).
    connection : socket.socket
        Socket to the command line.
    """

    def __init__(self, settings: "dict[str, Any]", connection: socket.socket) -> None:
        self._settings = settings
        self._connection = connection
        self._is_warm = bool(settings["warm_file"])
        self._early: "list[tuple[str, ...]]" = []
        #: Process group module; None before the first group, and in a process that this rank has
        #: forked, such as a loader's.
        self.started_module: Optional[ModuleType] = None
        self._has_tried = False
        self._has_failed = False
        self._process = os.getpid()
        self._excepthook = sys.excepthook
        self.steps = 0
        self.input_s = 0.0
        self._dealt = 0
        #: Folder of snapshots that belong to this run (training.py).
        self.snapshot_folder: str = settings["snapshots"]
        #: True if this process takes the place of a lost rank.
        self.replaces: bool = settings["replaces"]
        #: True if the examples of lost ranks go to the others (dealing.py).
        self.deals_data: bool = settings["deals_data"]
        #: Steps of this rank under policies (steering.py); None without policies.
        self.steering: Any = None
        self.has_policies: bool = settings["policies"]
        #: NCCL's table of collectives at this rank (collectives.py); None without policies.
        self.collectives: Any = None
        #: Steps of the program's trainers (trainer_joins.py); None while they are not followed.
        self.trainer_steps: Any = None
        #: Gradient buckets of this rank (buckets.py).
        self.buckets: Any = None
        #: Profile of this rank's steps for a calibration (profiling.py); None without one.
        self.profiler: Any = None
        #: Trial of `orrery run --prove` (proving.py): folder, steps, shares, weighs.
        self.proof: "dict[str, Any]" = settings["proof"]
        #: False if shares do not weigh the gradients (sharing.py).
        self.weighs: bool = settings["weighs"]
        self.profile_folder: str = settings["profile_folder"]
        self.profile_steps: int = settings["profile_steps"]
        self.trace_folder: str = settings["trace_folder"]

    def is_here(self) -> bool:
        """Return False in a process that this rank has forked, such as a loader's."""
        return os.getpid() == self._process

    def move_here(self, settings: "dict[str, Any]") -> None:
        """Makes this process, a fork of the warm one, the rank; the hooks in torch are in place."""
        self._settings = settings
        self._process = os.getpid()
        self._is_warm = False
        self.snapshot_folder = settings["snapshots"]
        self.replaces = settings["replaces"]
        self.proof = settings["proof"]
        early, self._early = self._early, []
        for words in early:
            self.send_fields(*words)

    def leave_fork(self) -> None:
        """Detaches a process that this rank has forked, and closes its socket."""
        self.started_module = None
        self._connection.close()

    def module(self) -> Optional[ModuleType]:
        """Return the started process group module; None if this process is not attached."""
        if not self.is_here():
            return None
        if not self._has_tried:
            self._has_tried = True
            try:
                self.started_module = self._start()
            except Exception as error:
                self.report_plain(f"{type(error).__name__}: {error}")
        return self.started_module

    def _start(self) -> ModuleType:
        import torch

        from .process_group import load_module

        module = load_module(
            self._settings["native"], torch.__version__, os.path.dirname(torch.__file__)
        )
        rank = int(os.environ["RANK"])
        if self.collectives is not None:
            self.collectives.begin_rank(rank, self.replaces)
        module.start_runtime(
            DESCRIPTOR,
            rank,
            self._settings["store"],
            self._settings["shares_sums"],
            self._settings["in_flight"],
            build_groups,
        )
        if self.profile_folder:
            module.start_logging()
        os.register_at_fork(before=self._before_fork)
        atexit.register(self._leave)
        self._excepthook = sys.excepthook
        sys.excepthook = self._mark_failed
        return module

    def lost_ranks(self) -> "tuple[int, ...]":
        """Return the lost ranks, ascending; none in a process that is to join the others."""
        if self.started_module is None or self.replaces:
            return ()
        living = set(self.started_module.living_ranks())
        return tuple(rank for rank in range(int(os.environ["WORLD_SIZE"])) if rank not in living)

    def _before_fork(self) -> None:
        """Lets a recovery end: a fork in its middle would copy locks that no thread releases."""
        if self.started_module is not None:
            self.started_module.wait_until_settled()

    def report_plain(self, reason: str) -> None:
        """Tells the command line, which prints one line, that the program runs without Orrery."""
        self.send_fields("plain", reason)

    def send_fields(self, *words: str) -> None:
        """Sends a message to the command line; in the warm process, once it has forked a rank."""
        if self._is_warm:
            self._early.append(words)
            return
        if self.started_module is not None:
            self.started_module.send_fields(list(words))
            return
        fields = [each.encode() for each in words]
        body = b"".join(struct.pack("<I", len(each)) + each for each in fields)
        try:
            self._connection.sendall(struct.pack("<I", len(body)) + body)
        except OSError:
            pass

    def _mark_failed(self, kind: Any, value: Any, trace: Any) -> None:
        self._has_failed = True
        self._excepthook(kind, value, trace)

    def _leave(self) -> None:
        """Waits at the end until no other rank needs a result of this one.

        A program that has failed sends its last reports only.
        """
        if self.started_module is None:
            return
        if self._has_failed:
            self.started_module.send_reports()
            return
        sys.stdout.flush()
        self.started_module.leave_run()

    def count_dealt(self, count: int) -> None:
        """Reports examples of lost ranks that this rank has received."""
        self._dealt += count
        if count > 0:
            self.send_fields("dealt", str(self._dealt))

    def note_input(self, begin_s: float) -> None:
        """Adds the time since `begin_s`, which the program has spent in a data loader."""
        self.input_s += time.monotonic() - begin_s
        if self.profiler is not None:
            self.profiler.note_part("input", begin_s)

    def count_step(self, optimizer: Any, *_: Any) -> None:
        """Reports the end of an optimizer step."""
        self.steps += 1
        if self.profiler is not None:
            self.profiler.end_update(optimizer)
        module, steering = self.started_module, self.steering
        if module is None:
            return
        if steering is None or not steering.ends_with_update():
            module.report_step(self.steps, self.input_s, steering is None)
        else:
            steering.end_step()


def build_groups(
    backend: str,
    store: Any,
    prefix: str,
    rank: int,
    size: int,
    timeout: datetime.timedelta,
    address: str,
) -> "tuple[Any, Any]":
    """Return the groups of one membership epoch: for the operations, and for small CPU tensors."""
    gloo = _build_gloo(store, prefix, rank, size, timeout, address)
    if backend == "gloo":
        return gloo, gloo
    return _build_nccl(store, f"{prefix}/nccl", rank, size, timeout), gloo


def _build_gloo(
    store: Any, prefix: str, rank: int, size: int, timeout: datetime.timedelta, address: str
) -> Any:
    from torch._C import _distributed_c10d as c10d

    gloo = c10d.ProcessGroupGloo
    options = gloo._Options()
    options._timeout = timeout
    options._devices = [gloo.create_device(hostname=address)]
    return gloo(c10d.PrefixStore(prefix, store), rank, size, options)


def _build_nccl(
    store: Any, prefix: str, rank: int, size: int, timeout: datetime.timedelta
) -> Any:
    from torch._C import _distributed_c10d as c10d

    options = c10d.ProcessGroupNCCL.Options()
    options._timeout = timeout
    return c10d.ProcessGroupNCCL(c10d.PrefixStore(prefix, store), rank, size, options)


def attach() -> None:
    """Attaches this process, if it is a rank that `orrery run` has started."""
    connection = inherited_connection()
    if connection is None:
        return
    global attachment
    settings = json.loads(os.environ["ORRERY_RUN"])
    made = attachment = Attachment(settings, connection)
    sys.path.append(LIGHT_PACKAGE)
    on_import_of_torch(lambda: install(made), made.report_plain)
    if settings["warm_file"]:
        from .warming import serve_forks

        serve_forks(connection, settings["warm_file"])
        made.move_here(json.loads(os.environ["ORRERY_RUN"]))
    os.set_inheritable(DESCRIPTOR, False)
    os.register_at_fork(after_in_child=made.leave_fork)


def install(attachment: Attachment) -> None:
    """Replaces the groups, the rendezvous and the hooks that measure steps and input."""
    import torch.distributed.distributed_c10d as c10d

    from . import buckets

    for name, value in NCCL_SETTINGS.items():
        os.environ.setdefault(name, value)

    _replace_rendezvous(attachment)
    _replace_groups(attachment, c10d)
    _measure(attachment)
    attachment.buckets = buckets.install(attachment)
    if attachment.profile_folder:
        from . import profiling

        attachment.profiler = profiling.install(
            attachment, attachment.profile_folder, attachment.profile_steps
        )
    if attachment.has_policies:
        from . import collectives, prefetching, proving, sharing, steering

        attachment.collectives = collectives.Collectives()
        steers = proving if attachment.proof["folder"] else steering
        attachment.steering = steers.install(attachment)
        sharing.install(attachment)
        prefetching.install(attachment)
    if not attachment.profile_folder and not attachment.proof["folder"]:
        from . import trainer_joins

        trainer_joins.install(attachment)
    if attachment.deals_data or attachment.has_policies:
        from . import dealing

        dealing.install(attachment)


def _replace_rendezvous(attachment: Attachment) -> None:
    """Makes env:// use the store of `orrery run`, which outlives rank 0."""
    # The function torch.distributed.rendezvous hides the module of the same name.
    handlers = sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers
    original = handlers["env"]

    def handler(url: str, timeout: Any = None, **options: Any) -> Iterator[Any]:
        module = attachment.module()
        if module is None:
            if timeout is not None:
                options["timeout"] = timeout
            yield from original(url, **options)
            return
        yield module.open_store(), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    handlers["env"] = handler


def _replace_groups(attachment: Attachment, c10d: Any) -> None:
    """Makes PyTorch create fault-tolerant groups where it would create those of DEVICES."""
    helper = c10d._new_process_group_helper
    creating: "list[tuple[str, str, list[int]]]" = []

    def new_process_group_helper(
        group_size: int, group_rank: int, global_ranks: "list[int]", backend: Any, store: Any,
        group_name: str, *more: Any, **named: Any,
    ) -> Any:  # fmt: skip
        described = str(named.get("group_desc") or "unnamed")
        ranks = list(global_ranks) or list(range(group_size))
        creating.append((str(group_name), described, ranks))
        try:
            made = helper(
                group_size, group_rank, global_ranks, backend, store, group_name, *more, **named
            )
        finally:
            creating.pop()
        others = [name for name in OTHER_BACKENDS if name in str(backend).lower()]
        if others:
            attachment.report_plain(
                f"expected groups of {' and '.join(DEVICES)} only, found one of {others[0]}"
            )
        return made

    c10d._new_process_group_helper = new_process_group_helper
    for backend in DEVICES:
        name = f"ProcessGroup{'NCCL' if backend == 'nccl' else 'Gloo'}"
        if hasattr(c10d, name):
            stand_in = _stand_in(attachment, backend, getattr(c10d, name), creating)
            setattr(c10d, name, stand_in)


def _timeout_of(arguments: "tuple[Any, ...]", named: "dict[str, Any]") -> datetime.timedelta:
    """Return the timeout among the arguments of a group: itself (Gloo), or in options (NCCL)."""
    given = named.get("timeout") or named.get("options") or (arguments[0] if arguments else None)
    if isinstance(given, datetime.timedelta):
        return given
    return getattr(given, "_timeout", None) or datetime.timedelta(minutes=30)


def _stand_in(
    attachment: Attachment,
    backend: str,
    original: Any,
    creating: "list[tuple[str, str, list[int]]]",
) -> Any:
    """Return the type that stands in the place of `original`, PyTorch's group of this backend."""

    class Instances(type):
        """Type whose instances are the backends of `original` and, where PyTorch expects one, ours.

        NCCL's groups have methods that ours lack: ours count only while PyTorch creates a group.
        """

        def __instancecheck__(cls, instance: Any) -> bool:
            module = attachment.module()
            is_expected = backend == "gloo" or bool(creating)
            ours = module is not None and isinstance(instance, module.SurvivingBackend)
            return (is_expected and ours) or isinstance(instance, original)

        def __getattr__(cls, name: str) -> Any:
            return getattr(original, name)

    class ProcessGroup(metaclass=Instances):
        """Stands in the place of one of PyTorch's groups."""

        def __new__(cls, store: Any, rank: int, size: int, *more: Any, **named: Any) -> Any:
            module = attachment.module() if creating else None
            if module is None:
                return original(store, rank, size, *more, **named)
            name, described, ranks = creating[-1]
            world = int(os.environ["WORLD_SIZE"])
            if ranks[rank] != int(os.environ["RANK"]) or max(ranks) >= world:
                attachment.report_plain("the program numbers its ranks itself")
                return original(store, rank, size, *more, **named)
            if attachment.collectives is not None:
                attachment.collectives.backends.add(backend)
            key = f"{backend}:{name}:{'-'.join(map(str, ranks))}"
            timeout = _timeout_of(more, named)
            return module.create_group(
                key, described, ranks, rank, timeout, backend, DEVICES[backend]
            )

    ProcessGroup.__name__ = original.__name__
    return ProcessGroup


def _measure(attachment: Attachment) -> None:
    """Counts optimizer steps, and the seconds in which the program waits for its data loaders."""
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    register_optimizer_step_post_hook(attachment.count_step)
    fetch = _BaseDataLoaderIter.__next__

    def fetch_measured(self: Any) -> Any:
        begin = time.monotonic()
        try:
            batch = fetch(self)
        finally:
            attachment.note_input(begin)
        if attachment.profiler is not None:
            attachment.profiler.note_batch(batch)
        return batch

    _BaseDataLoaderIter.__next__ = fetch_measured
