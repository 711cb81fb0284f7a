"""Gradient buckets of DistributedDataParallel, which policies send in codes. Imported after torch.

All-reduces of fp32 values in a backward pass are gradient buckets. The codes with their error
feedback are those of the process group (live/codec/coded_bucket.hpp).
"""

from typing import Any, Optional

import torch
from torch.nn.modules.batchnorm import SyncBatchNorm
from torch.nn.parallel import DistributedDataParallel


def problem_of_buckets(model: DistributedDataParallel) -> str:
    """Return why the gradients of a model cannot travel in codes; empty if they can."""
    if model._comm_hooks:
        return "expected a DistributedDataParallel without a communication hook, found one"
    for name, part in model.module.named_modules():
        if isinstance(part, SyncBatchNorm):
            return f"SyncBatchNorm '{name}' exchanges statistics in the backward pass"
    for name, parameter in model.module.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
            found = f"{parameter.dtype} on {parameter.device.type}"
            return f"expected fp32 parameters on the CPU, found {found}: '{name}'"
    return ""


class Buckets:
    """Gradient buckets of this rank.

    Parameters
    ----------
    attachment : Attachment
        Attachment of this process.
    """

    def __init__(self, attachment: Any) -> None:
        self._attachment = attachment
        self._problem: Optional[str] = None

    def note_forward(self, model: DistributedDataParallel) -> None:
        """Records a forward pass of a model."""
        if self._problem is None:
            self._problem = problem_of_buckets(model)

    def problem(self) -> str:
        """Return why gradients cannot travel in codes; empty if they can."""
        if self._problem is None:
            return "expected a model in DistributedDataParallel, found none"
        return self._problem

    def set_codec(self, name: str, parameter: float, has_feedback: bool) -> None:
        """Sets the code of all buckets from the next backward pass on."""
        self._attachment.module().set_codec(name, parameter, has_feedback)

    def begin_backward(self) -> Any:
        """Marks the begin of a backward pass, whose all-reduces are gradient buckets.

        Returns
        -------
        ModuleType, optional
            The process group module, whose end_backward() marks the end; None without one.
        """
        module = self._attachment.started_module
        if module is not None:
            module.begin_backward()
        return module


def install(attachment: Any) -> Buckets:
    """Return the buckets of this process, whose backward passes are marked from now on."""
    made = Buckets(attachment)
    forward, backward = DistributedDataParallel.forward, torch.autograd.backward

    def noted_forward(self: Any, *inputs: Any, **named: Any) -> Any:
        made.note_forward(self)
        return forward(self, *inputs, **named)

    def marked_backward(*arguments: Any, **named: Any) -> None:
        module = made.begin_backward()
        try:
            backward(*arguments, **named)
        finally:
            if module is not None:
                module.end_backward()

    DistributedDataParallel.forward = noted_forward
    torch.autograd.backward = marked_backward
    return made
