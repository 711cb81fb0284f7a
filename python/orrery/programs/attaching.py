"""Attachment of a rehearsal: at the start of Python, and once torch has been imported."""

import atexit
import importlib.abc
import importlib.machinery
import os
import sys
from types import ModuleType
from typing import Any, Optional, Sequence

from .guard import GuardError, load_guard
from .prices import PriceClient, inherited_connection
from .registered import PriceFileError
from .session import CANNOT_REHEARSE, Session
from .settings import settings_from


def attach() -> None:
    """Attaches the rehearsal to this process, if the process inherited the connection.

    Processes that the program starts do not inherit it: they run as they are, without a GPU.
    """
    connection = inherited_connection()
    if connection is None:
        return
    settings = settings_from(os.environ["ORRERY_REHEARSE"])
    try:
        session = Session(settings, PriceClient(connection))
    except PriceFileError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(3)
    os.set_inheritable(connection.fileno(), True)  # torchrun replaces itself by the program
    sys.meta_path.insert(0, TorchFinder(session))


class TorchFinder(importlib.abc.MetaPathFinder):
    """Finder that loads the device guard before torch, and installs the rehearsal after torch."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def find_spec(
        self,
        fullname: str,
        path: Optional[Sequence[str]] = None,
        target: Optional[ModuleType] = None,
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Return the spec of torch with a loader that installs the rehearsal; None for others."""
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None or spec.origin is None:
            return spec
        try:
            load_guard(os.path.dirname(spec.origin))
        except (GuardError, OSError) as error:
            self._session.refuse(str(error))
        spec.loader = InstallingLoader(spec.loader, self._session)
        return spec


class InstallingLoader(importlib.abc.Loader):
    """Loader that executes torch with its own loader, then installs the rehearsal."""

    def __init__(self, loader: Any, session: Session) -> None:
        self._loader = loader
        self._session = session

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        """Return the module that torch's own loader creates."""
        created: Optional[ModuleType] = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        """Executes torch and installs the rehearsal."""
        self._loader.exec_module(module)
        try:
            install(self._session)
        except (AttributeError, ImportError) as error:
            version = getattr(module, "__version__", "?")
            self._session.refuse(
                f"expected PyTorch 2.13, found {version}, which lacks a part that the rehearsal "
                f"replaces: {type(error).__name__}: {error}"
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def install(session: Session) -> None:
    """Installs the fake device, the fake process groups and the clock into torch."""
    import torch

    from . import device, frameworks, groups, launching, tensors
    from .kernels import KernelPricer
    from .mode import Parts, RehearsalMode
    from .storages import Storages
    from .values import Values

    session.clock.replace_time_functions()
    settings = session.settings
    storages = Storages(int(settings.memory_bytes), session.clock, settings.gpu)
    values = Values()
    made_groups = groups.Groups(session, values)
    pricer = KernelPricer(session.client, session.registered)
    parts = Parts(session, storages, values, made_groups, pricer)
    mode = RehearsalMode(parts)
    device.install(session, storages)
    groups.install(session, made_groups)
    tensors.install(parts, mode)
    frameworks.install(parts, mode)
    launching.install()
    session.storages = storages
    torch._C._set_only_lift_cpu_tensors(True)
    torch.autograd.set_multithreading_enabled(False)
    mode.__enter__()
    os.register_at_fork(after_in_child=lambda: _detach(session, mode))
    atexit.register(session.send_report)


def _detach(session: Session, mode: Any) -> None:
    """Takes the rehearsal out of a forked process, for example of a DataLoader's worker."""
    session.client.close()
    try:
        mode.__exit__(None, None, None)
    except Exception as error:  # the child goes on; it has tensors of the CPU only
        sys.stderr.write(f"orrery: {type(error).__name__}: {error}\n")


__all__ = ["CANNOT_REHEARSE", "attach"]
