"""Attachment of `orrery run`: the program's Gloo groups become fault-tolerant ones.

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


#: Backends whose groups stay as they are, so that a loss ends the run.
OTHER_BACKENDS = ("nccl", "xccl", "ucc", "mpi")


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
        self._module: Optional[ModuleType] = None
        self._has_tried = False
        self._has_failed = False
        self._process = os.getpid()
        self._excepthook = sys.excepthook
        self.steps = 0
        self.input_s = 0.0

    def module(self) -> Optional[ModuleType]:
        """Return the started process group module; None if this process is not attached."""
        if os.getpid() != self._process:
            return None
        if not self._has_tried:
            self._has_tried = True
            try:
                self._module = self._start()
            except Exception as error:
                self.report_plain(f"{type(error).__name__}: {error}")
        return self._module

    def _start(self) -> ModuleType:
        import torch

        from .process_group import load_module

        module = load_module(
            self._settings["native"], torch.__version__, os.path.dirname(torch.__file__)
        )
        rank = int(os.environ["RANK"])
        module.start_runtime(DESCRIPTOR, rank, self._settings["store"], build_gloo)
        os.register_at_fork(before=self._before_fork)
        atexit.register(self._leave)
        self._excepthook = sys.excepthook
        sys.excepthook = self._mark_failed
        return module

    def _before_fork(self) -> None:
        """Lets a recovery end: a fork in its middle would copy locks that no thread releases."""
        if self._module is not None and os.getpid() == self._process:
            self._module.wait_until_settled()

    def report_plain(self, reason: str) -> None:
        """Tells the command line, which prints one line, that the program runs without Orrery."""
        fields = [b"plain", reason.encode()]
        body = b"".join(struct.pack("<I", len(each)) + each for each in fields)
        try:
            self._connection.sendall(struct.pack("<I", len(body)) + body)
        except OSError:
            pass

    def _mark_failed(self, kind: Any, value: Any, trace: Any) -> None:
        self._has_failed = True
        self._excepthook(kind, value, trace)

    def _leave(self) -> None:
        """Waits at the end until no other rank needs a result of this one."""
        if self._module is not None and os.getpid() == self._process and not self._has_failed:
            sys.stdout.flush()
            self._module.leave_run()

    def count_step(self, *_: Any) -> None:
        """Reports the end of an optimizer step."""
        self.steps += 1
        if self._module is not None and os.getpid() == self._process:
            self._module.report_step(self.steps, self.input_s)


def build_gloo(
    store: Any, prefix: str, rank: int, size: int, timeout: datetime.timedelta, address: str
) -> Any:
    """Return Gloo's group of one membership epoch."""
    from torch._C import _distributed_c10d as c10d

    gloo = c10d.ProcessGroupGloo
    options = gloo._Options()
    options._timeout = timeout
    options._devices = [gloo.create_device(hostname=address)]
    return gloo(c10d.PrefixStore(prefix, store), rank, size, options)


def attach() -> None:
    """Attaches this process, if it is a rank that `orrery run` has started."""
    connection = inherited_connection()
    if connection is None:
        return
    attachment = Attachment(json.loads(os.environ["ORRERY_RUN"]), connection)
    os.set_inheritable(DESCRIPTOR, False)
    os.register_at_fork(after_in_child=connection.close)
    on_import_of_torch(lambda: install(attachment), attachment.report_plain)


def install(attachment: Attachment) -> None:
    """Replaces Gloo's groups, the rendezvous and the hooks that measure steps and input."""
    import torch.distributed.distributed_c10d as c10d

    _replace_rendezvous(attachment)
    _replace_groups(attachment, c10d)
    _measure(attachment)


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
    """Makes PyTorch create fault-tolerant groups where it would create Gloo's."""
    gloo = c10d.ProcessGroupGloo
    helper = c10d._new_process_group_helper
    creating: "list[tuple[str, list[int]]]" = []

    def new_process_group_helper(
        group_size: int, group_rank: int, global_ranks: "list[int]", backend: Any, store: Any,
        group_name: str, *more: Any, **named: Any,
    ) -> Any:  # fmt: skip
        creating.append((str(group_name), list(global_ranks) or list(range(group_size))))
        try:
            made = helper(
                group_size, group_rank, global_ranks, backend, store, group_name, *more, **named
            )
        finally:
            creating.pop()
        others = [name for name in OTHER_BACKENDS if name in str(backend).lower()]
        if others:
            attachment.report_plain(f"expected Gloo's groups only, found one of {others[0]}")
        return made

    class Instances(type):
        """Type whose instances are Gloo's backends and ours."""

        def __instancecheck__(cls, instance: Any) -> bool:
            module = attachment.module()
            ours = module is not None and isinstance(instance, module.SurvivingBackend)
            return ours or isinstance(instance, gloo)

    class ProcessGroupGloo(metaclass=Instances):
        """Stands in the place of torch.distributed.ProcessGroupGloo."""

        def __new__(cls, store: Any, rank: int, size: int, *more: Any, **named: Any) -> Any:
            module = attachment.module() if creating else None
            if module is None:
                return gloo(store, rank, size, *more, **named)
            name, ranks = creating[-1]
            world = int(os.environ["WORLD_SIZE"])
            if ranks[rank] != int(os.environ["RANK"]) or max(ranks) >= world:
                attachment.report_plain("the program numbers its ranks itself")
                return gloo(store, rank, size, *more, **named)
            timeout = named.get("timeout") or (more[0] if more else c10d.default_pg_timeout)
            key = f"{name}:{'-'.join(map(str, ranks))}"
            return module.create_group(key, ranks, rank, timeout)

    for name in ("create_device", "create_default_device", "_Options", "Options"):
        if hasattr(gloo, name):
            setattr(ProcessGroupGloo, name, getattr(gloo, name))
    c10d._new_process_group_helper = new_process_group_helper
    c10d.ProcessGroupGloo = ProcessGroupGloo


def _measure(attachment: Attachment) -> None:
    """Counts optimizer steps, and the seconds in which the program waits for its data loaders."""
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    register_optimizer_step_post_hook(attachment.count_step)
    fetch = _BaseDataLoaderIter.__next__

    def fetch_measured(self: Any) -> Any:
        begin = time.monotonic()
        try:
            return fetch(self)
        finally:
            attachment.input_s += time.monotonic() - begin

    _BaseDataLoaderIter.__next__ = fetch_measured
