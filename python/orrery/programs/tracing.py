"""Traces of PyTorch's own tools for `orrery calibrate --traces`. Imported after torch.

Behind the measured steps a rank records further ones with ExecutionTraceObserver and
torch.profiler, in the form that torch_traces.py reads. A recorded step begins with the first
forward pass behind an optimizer's step.
"""

import os
import sys
from typing import Any, Callable

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule

#: Recorded steps, behind one in which the tools start.
STEPS = 2


class Tracer:
    """Recorder of the steps of this rank that follow.

    Parameters
    ----------
    folder : str
        Folder of the traces: et.RANK.json and kineto.RANK.json.
    on_end : callable
        Called once, without an argument, when the traces are written or have failed.
    """

    def __init__(self, folder: str, on_end: "Callable[[], None]") -> None:
        rank = os.environ["RANK"]
        self._on_end = on_end
        self._path = os.path.join(folder, f"kineto.{rank}.json")
        self._observer = ExecutionTraceObserver()
        self._observer.register_callback(os.path.join(folder, f"et.{rank}.json"))
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            activities.append(ProfilerActivity.CUDA)
        self._profile = profile(
            activities=activities,
            record_shapes=True,
            execution_trace_observer=self._observer,
            schedule=schedule(wait=0, warmup=1, active=STEPS, repeat=1),
            on_trace_ready=self._export,
        )
        self._left = STEPS + 2
        self._has_ended_step = True
        self._hook = register_module_forward_pre_hook(self._begin_step)

    def end_step(self) -> None:
        """Records that an optimizer has ended its step."""
        self._has_ended_step = True

    def _begin_step(self, *_: Any) -> None:
        if not self._has_ended_step or self._left == 0:
            return
        self._has_ended_step = False
        try:
            if self._left == STEPS + 2:
                self._profile.start()
            else:
                self._profile.step()
            self._left -= 1
        except Exception as error:
            sys.stderr.write(f"orrery: the traces failed: {type(error).__name__}: {error}\n")
            self._left = 0
        if self._left == 0:
            self._hook.remove()
            self._on_end()

    def _export(self, profiler: Any) -> None:
        self._observer.unregister_callback()
        profiler.export_chrome_trace(self._path)
