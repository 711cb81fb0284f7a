"""Refusal of programs that read memory of the device outside PyTorch. Imported after torch.

Fake tensors have no memory. A program that hands them to another library, or whose extension reads
their addresses, ends with exit code 4, its line, and the registration that makes it rehearsable.
"""

import sys
from types import TracebackType
from typing import Any, Callable, NoReturn, Optional

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor

from .places import place_in, program_place
from .session import Session
from .stand_ins import StandIn, plain

#: Advice of all refusals: the registration of a kernel.
REGISTER = (
    "make the call an operator with a fake kernel (torch.library.custom_op and register_fake) and "
    "register its price with a line of --prices"
)
#: Parts of the messages of errors that only a rehearsal causes, and their reasons.
_ERRORS = (
    ("Cannot access data pointer", "memory of the device that an extension reads"),
    ("Not available for 'meta' device", "memory of the device whose bytes are read"),
)


def install(session: Session) -> None:
    """Refuses exports of device memory and kernels compiled at run time; leaves files out."""
    _install_exports(session)
    _install_compilation(session)
    _install_saving(session)
    _install_hook(session)


def _refuse(session: Session, found: str) -> NoReturn:
    session.refuse(
        f"{program_place()}: expected kernels that PyTorch dispatches, found {found}; {REGISTER}"
    )


def _install_exports(session: Session) -> None:
    """Replaces the protocols by which other libraries take a tensor's memory."""
    tensor = torch.Tensor

    def refusing(original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(self, FakeTensor):
                _refuse(session, f"memory of the device handed to another library ({name})")
            return original(self, *args, **kwargs)

        return call

    tensor.__dlpack__ = refusing(tensor.__dlpack__, "__dlpack__")
    interface = refusing(tensor.__cuda_array_interface__.fget, "__cuda_array_interface__")
    tensor.__cuda_array_interface__ = property(interface)
    to_dlpack = refusing(torch.utils.dlpack.to_dlpack, "to_dlpack")
    torch.utils.dlpack.to_dlpack = torch.to_dlpack = to_dlpack

    def share(_self: Any, *_args: Any, **_kwargs: Any) -> NoReturn:
        _refuse(session, "memory of the device shared with another process (_share_cuda_)")

    torch.UntypedStorage._share_cuda_ = share


def _install_compilation(session: Session) -> None:
    def compile_kernel(_source: Any = "", name: str = "?", *_args: Any, **_kwargs: Any) -> NoReturn:
        _refuse(session, f"a kernel compiled at run time ('{name}')")

    torch.cuda._compile_kernel = compile_kernel


def _contains_fake(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_contains_fake, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_contains_fake, value))
    return isinstance(getattr(value, "_local_tensor", value), FakeTensor)


def _install_saving(session: Session) -> None:
    """Leaves files of tensors without values out."""
    original = torch.save

    def save(obj: Any, *args: Any, **kwargs: Any) -> None:
        if _contains_fake(obj):
            session.note("torch.save wrote no file: tensors of the device have no values")
        elif StandIn.newest is None:
            original(obj, *args, **kwargs)
        else:  # readers of files accept plain numbers only
            original(pytree.tree_map(plain, obj), *args, **kwargs)

    torch.save = torch.serialization.save = save


def _install_hook(session: Session) -> None:
    """Turns uncaught errors that only a rehearsal causes into a refusal, behind the traceback."""
    original = sys.excepthook

    def hook(kind: Any, error: BaseException, trace: Optional[TracebackType]) -> None:
        original(kind, error, trace)
        text = str(error)
        for part, found in _ERRORS:
            if part in text:
                session.refuse(f"{place_in(trace)}: expected kernels that PyTorch dispatches, "
                               f"found {found}; {REGISTER}")  # fmt: skip
        # Functions of C refuse integers without a value by their type.
        if isinstance(error, TypeError) and "StandIn" in text and StandIn.newest is not None:
            session.ledger.refuse_use(place_in(trace), StandIn.newest.name)

    sys.excepthook = hook
