"""Profile of this rank's steps for `orrery calibrate`. Imported after torch.

The times of operators, groups and data loaders are those of the running program; nothing is
repeated and no value changes. After enough steps the profile is written, and the command line ends
the program.
"""

import collections
import gc
import json
import os
import resource
import time
from typing import Any, Callable

import torch
from torch import nn

from .state import state_of

#: First steps of a program, in which PyTorch orders buckets anew and allocators grow.
WARM_UP = 4


class Profiler:
    """Parts of the steps of this rank.

    Parameters
    ----------
    attachment : Attachment
        Attachment of this process (running.py).
    folder : str
        Folder of the profiles, one file a rank.
    steps : int
        Steps whose times are wanted.
    """

    def __init__(self, attachment: Any, folder: str, steps: int) -> None:
        self._attachment = attachment
        self._folder = folder
        self._left = WARM_UP + steps
        self._parts: "list[tuple[str, float, float]]" = []
        self._tokens = 0
        self._sizes: "collections.Counter[int]" = collections.Counter()
        self._update_s = 0.0
        self._tracer: Any = None

    @property
    def is_active(self) -> bool:
        """Whether this process still measures: not a forked one, and not after the last step."""
        is_here: bool = self._attachment.is_here()
        return self._left > 0 and is_here

    def note_part(self, kind: str, begin_s: float) -> None:
        """Records a part of the step that ends now."""
        if self.is_active:
            self._parts.append((kind, begin_s, time.monotonic()))

    def note_tokens(self, count: int) -> None:
        """Records a look-up in an embedding table."""
        self._tokens = max(self._tokens, count)

    def note_batch(self, batch: Any) -> None:
        """Records the number of examples of a batch from a data loader."""
        if self.is_active:
            self._sizes[rows_of(batch)] += 1

    def begin_update(self, *_: Any) -> None:
        """Records the begin of an optimizer's step."""
        self._update_s = time.monotonic()

    def end_update(self, optimizer: Any) -> None:
        """Records the end of an optimizer's step, and writes the profile after the last one."""
        if self._tracer is not None:
            self._tracer.end_step()
        if not self.is_active:
            return
        self.note_part("update", self._update_s)
        self._left -= 1
        if self._left > 0:
            return
        profile, folder = self._profile(optimizer), self._attachment.trace_folder
        if not folder:
            self._write(profile)
            return
        from .tracing import Tracer

        self._tracer = Tracer(folder, lambda: self._write(profile))

    def _profile(self, optimizer: Any) -> "dict[str, Any]":
        """Return the profile of the measured steps."""
        rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        module = self._attachment.module()
        return {
            "rank": rank,
            "ranks": ranks,
            "examples": self._sizes.most_common(1)[0][0] if self._sizes else 0,
            "parts": self._parts,
            "operations": [] if module is None else module.stop_logging(),
            "state": self._state(optimizer),
        }

    def _write(self, profile: "dict[str, Any]") -> None:
        path = os.path.join(self._folder, str(profile["rank"]))
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            json.dump(profile, file)
        os.replace(f"{path}.part", path)

    def _state(self, optimizer: Any) -> "dict[str, Any]":
        """Return parameters and memory, with the keys of RecordedStep in traces/scenario.proto."""
        tables: "dict[tuple[int, ...], set[int]]" = {}
        for each in gc.get_objects():
            if type(each) is nn.Embedding:
                tables.setdefault(tuple(each.weight.shape), set()).add(id(each))
        state = state_of(optimizer, tables)
        gradients = (each.grad for group in optimizer.param_groups for each in group["params"])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        reserved = peak
        gpu = "processor"  # kRecordedProcessor: the peak is that of the whole process
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            peak, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
            gpu = "measured"
        return {
            "gpu": gpu,
            "tokens": self._tokens,
            "parameters": {
                "matrices": state.matrices,
                "vectors": state.vectors,
                "embeddings": state.embeddings,
            },
            "parameter_bytes": state.parameter_bytes,
            "gradient_bytes": state.gradient_bytes,
            "optimizer_bytes": state.optimizer_bytes,
            "peak_bytes": peak,
            "reserved_bytes": reserved,
            "gradient_value_bytes": max(
                (each.element_size() for each in gradients if each is not None), default=0
            ),
        }


def rows_of(batch: Any) -> int:
    """Return the rows of the first tensor in a batch; 0 without one."""
    if isinstance(batch, torch.Tensor):
        return len(batch) if batch.dim() > 0 else 0
    parts = batch.values() if isinstance(batch, dict) else batch
    if isinstance(parts, (str, bytes)) or not hasattr(parts, "__iter__"):
        return 0
    return next((rows for rows in map(rows_of, parts) if rows > 0), 0)


def install(attachment: Any, folder: str, steps: int) -> Profiler:
    """Return the profiler of this process, which measures backward passes, updates and look-ups."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    made = Profiler(attachment, folder, steps)
    register_optimizer_step_pre_hook(made.begin_update)
    _measure_backward(made)
    look_up = nn.Embedding.forward

    def measured_look_up(self: Any, tokens: Any) -> Any:
        made.note_tokens(tokens.numel())
        return look_up(self, tokens)

    nn.Embedding.forward = measured_look_up
    return made


def _measure_backward(profiler: Profiler) -> None:
    """Measures torch.autograd.backward, which Tensor.backward calls."""
    backward: "Callable[..., None]" = torch.autograd.backward

    def measured_backward(*arguments: Any, **named: Any) -> None:
        begin_s = time.monotonic()
        backward(*arguments, **named)
        profiler.note_part("backward", begin_s)

    torch.autograd.backward = measured_backward
