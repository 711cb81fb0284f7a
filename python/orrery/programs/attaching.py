"""Attachment of a rehearsal: at the start of Python, and once torch has been imported."""

import atexit
import os
import sys
from typing import Any

from .conversions import follow_conversions, guard_math, guard_numpy
from .guard import GuardError, load_guard
from .importing import on_import_of_torch
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
        session = Session.current = Session(settings, PriceClient(connection))
    except PriceFileError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(3)
    _follow_stand_ins(session)
    _add_stand_in_packages()
    os.set_inheritable(connection.fileno(), True)  # torchrun replaces itself by the program

    def prepare(folder: str) -> None:
        try:
            load_guard(folder)
        except (GuardError, OSError) as error:
            session.refuse(str(error))

    on_import_of_torch(lambda: _install_or_refuse(session), session.refuse, prepare)


def _install_or_refuse(session: Session) -> None:
    """Installs the rehearsal into the torch that has been imported, or says which part it lacks."""
    try:
        install(session)
    except (AttributeError, ImportError) as error:
        version = getattr(sys.modules["torch"], "__version__", "?")
        session.refuse(
            f"expected PyTorch 2.13, found {version}, which lacks a part that the rehearsal "
            f"replaces: {type(error).__name__}: {error}"
        )


def _follow_stand_ins(session: Session) -> None:
    """Lets stand-ins stay stand-ins in functions of Python, before the program imports them."""
    guard_math()
    reason = follow_conversions()
    if reason:
        session.note(f"branches behind float() of a stand-in are not seen: {reason}")


def _add_stand_in_packages() -> None:
    """Lets the program import packages of kernels that are not installed (absent/)."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "absent")
    if folder not in sys.path:
        sys.path.append(folder)


def install(session: Session) -> None:
    """Installs the fake device, the fake process groups and the clock into torch."""
    import torch

    from . import device, entering, exports, frameworks, groups, launching, slices, tensors
    from .kernels import KernelPricer
    from .mode import Parts, RehearsalMode
    from .roles import Roles
    from .storages import Storages
    from .values import Values

    session.clock.replace_time_functions()
    settings = session.settings
    storages = Storages(int(settings.memory_bytes), session.clock, settings.gpu)
    values = Values()
    made_groups = groups.Groups(session, values, Roles(session))
    pricer = KernelPricer(session.client, session.registered)
    parts = Parts(session, storages, values, made_groups, pricer)
    mode = RehearsalMode(parts)
    device.install(session, storages)
    groups.install(session, made_groups)
    tensors.install(parts, mode)
    entering.install(values)
    if "numpy" in sys.modules:  # imported by torch, if it is installed
        guard_numpy(sys.modules["numpy"])
    frameworks.install(parts, mode)
    launching.install()
    exports.install(session)
    slices.install()
    session.storages = storages
    torch._C._set_only_lift_cpu_tensors(True)
    torch.autograd.set_multithreading_enabled(False)
    mode.__enter__()
    os.register_at_fork(after_in_child=lambda: _detach(session, mode))
    atexit.register(session.send_report)


def _detach(session: Session, mode: Any) -> None:
    """Takes the rehearsal out of a forked process, for example of a DataLoader's worker."""
    session.client.close()
    session.clock.restore_time_functions()
    try:
        mode.__exit__(None, None, None)
    except Exception as error:  # the child goes on; it has tensors of the CPU only
        sys.stderr.write(f"orrery: {type(error).__name__}: {error}\n")


__all__ = ["CANNOT_REHEARSE", "attach"]
