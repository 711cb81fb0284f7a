"""Changes for the frameworks around a program: optimizers' steps, compilers, Triton kernels.

Imported after torch.
"""

import contextlib
import importlib
import importlib.util
import types
from typing import Any

import torch
import torch.optim.optimizer as optimizers

from .fusing import EAGER
from .importing import on_import_of
from .mode import Parts, RehearsalMode, is_on_device
from .stand_ins import StandIn
from .state import state_of

#: Graphs of functions of flex_attention that are kept at most.
_MOST_GRAPHS = 64


def install(parts: Parts, mode: RehearsalMode) -> None:
    """Marks steps, leaves compilers out, prices Triton kernels by their bytes, speeds up FSDP."""
    _install_steps(parts)
    _install_embeddings(parts)
    _install_schedules()
    _install_compilers(parts)
    _install_chunks()
    _install_labels()
    _install_attention_graphs(parts)
    _install_transformers(mode)
    if importlib.util.find_spec("triton") is not None:
        _install_triton(mode)


def _install_steps(parts: Parts) -> None:
    session = parts.session

    def before(*_args: Any) -> None:
        parts.optimizing += 1

    def after(optimizer: Any, *_args: Any) -> None:
        parts.optimizing -= 1
        try:
            session.states[id(optimizer)] = state_of(optimizer, session.tables)
        except (AttributeError, TypeError) as error:
            session.note(f"the state of an optimizer was not counted: {error}")
        if parts.optimizing == 0:
            moment = max(session.clock.now, session.clock.busy_until())
            session.record.end_step(moment, session.cpu_seconds())
            session.end_passes()
            parts.fusing.regions.forget()

    optimizers.register_optimizer_step_pre_hook(before)
    optimizers.register_optimizer_step_post_hook(after)


def _install_embeddings(parts: Parts) -> None:
    original = torch.nn.Embedding.forward

    def forward(self: Any, tokens: Any) -> Any:
        shape = (self.num_embeddings, self.embedding_dim)
        parts.session.note_embedding(id(self), shape, tokens.numel())
        return original(self, tokens)

    torch.nn.Embedding.forward = forward


def _install_schedules() -> None:
    """Makes the schedule that follows a loss decide by it, at the line of the program."""
    original = torch.optim.lr_scheduler.ReduceLROnPlateau.step

    def step(self: Any, metrics: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(metrics, torch.Tensor):
            metrics = metrics.item()
        if isinstance(metrics, StandIn):
            bool(metrics)
        original(self, metrics, *args, **kwargs)

    torch.optim.lr_scheduler.ReduceLROnPlateau.step = step


def _install_compilers(parts: Parts) -> None:
    fused = "torch.compile: no compiler runs, and pointwise operators are priced as fused"
    graphs = "CUDA graphs are left out: the host launches each kernel"
    fusing = parts.fusing

    def compiled(
        model: Any = None, *args: Any, backend: Any = None, disable: bool = False, **kwargs: Any
    ) -> Any:
        if model is None:
            return lambda function: compiled(function, backend=backend, disable=disable)
        if disable or backend in EAGER:
            return model
        parts.session.note(fused)
        return fusing.compiled(model)

    def compile_module(
        self: Any, *_args: Any, backend: Any = None, disable: bool = False, **_kwargs: Any
    ) -> None:
        if not disable and backend not in EAGER:
            parts.session.note(fused)
            fusing.compiled(self)

    def graph(*_args: Any, **_kwargs: Any) -> Any:
        parts.session.note(graphs)
        return contextlib.nullcontext()

    torch.compile = compiled
    torch.nn.Module.compile = compile_module
    torch.cuda.graph = graph


class Chunks:
    """Chunks of a tensor, made when they are read: a program reads two of thousands.

    Parameters
    ----------
    tensor : torch.Tensor
        Tensor of which FSDP takes this rank's chunk.
    count, dim : int
        Number of chunks, and the dimension that is divided.
    """

    def __init__(self, tensor: Any, count: int, dim: int) -> None:
        self._tensor = tensor
        self._dim = dim
        self._each = -(-int(tensor.shape[dim]) // count) if count else 0

    def __getitem__(self, place: int) -> Any:
        begin = place * self._each
        length = min(self._each, int(self._tensor.shape[self._dim]) - begin)
        if length <= 0:
            return self._tensor.new_empty(0)
        return self._tensor.narrow(self._dim, begin, length)


def _install_chunks() -> None:
    import torch.distributed.fsdp._fully_shard._fsdp_param as parameters

    def chunk_with_empty(tensor: Any, num_chunks: int, dim: int) -> Chunks:
        return Chunks(tensor, num_chunks, dim)

    if not hasattr(parameters, "_chunk_with_empty"):
        raise AttributeError("torch.distributed.fsdp._fully_shard has no _chunk_with_empty")
    parameters._chunk_with_empty = chunk_with_empty


def _install_labels() -> None:
    """Leaves the labels of profilers out while no profiler runs."""
    labels = torch.autograd.profiler.record_function
    enter, leave = labels.__enter__, labels.__exit__

    def enter_profiled(self: Any) -> Any:
        return enter(self) if torch._C._autograd._profiler_enabled() else self

    def leave_profiled(self: Any, *error: Any) -> Any:
        return None if self.record is None else leave(self, *error)

    labels.__enter__, labels.__exit__ = enter_profiled, leave_profiled


def _install_attention_graphs(parts: Parts) -> None:
    """Keeps the graphs of flex_attention's functions, which PyTorch traces anew in each eager call.

    The graphs depend on the function and on shapes and types of its scores and indices. A function
    that has tensors of its own is traced each time. Tracing runs no kernels. Each call allocates
    two examples of scores on the device, one of which lives until the garbage collector breaks the
    cycles of its graph.
    """
    module: Any = importlib.import_module("torch._higher_order_ops.flex_attention")
    original = module.create_fw_bw_graph
    known: "dict[Any, Any]" = {}

    def trace(function: Any, values: Any, buffers: Any) -> Any:
        with parts.fake_mode:
            return original(function, values, buffers)

    def create(function: Any, values: Any, buffers: Any) -> Any:
        score = values[0]
        examples: "list[Any]" = [
            torch.empty_strided((), (), device=score.device, dtype=score.dtype) for _ in range(2)
        ]
        examples[0] = examples
        if buffers or not isinstance(function, types.FunctionType):
            return trace(function, values, buffers)
        shapes = tuple((each.shape, each.dtype, each.device, each.requires_grad) for each in values)
        key = (function, shapes)
        if key not in known:
            if len(known) >= _MOST_GRAPHS:
                known.clear()
            known[key] = trace(function, values, buffers)
        return known[key]

    module.create_fw_bw_graph = create


def _install_transformers(mode: RehearsalMode) -> None:
    """Makes transformers decide by known values as in a real run.

    It takes fake tensors for those of a tracer, which have no values, and would give every model a
    mask in place of causal attention.
    """

    def follow(module: types.ModuleType) -> None:
        def is_traced(value: Any) -> bool:
            return is_on_device(value) and not mode.is_known(value)

        module.is_fake_tensor = is_traced  # type: ignore[attr-defined]

    on_import_of("transformers.utils.import_utils", follow)


def _install_triton(mode: RehearsalMode) -> None:
    import triton.runtime.autotuner as autotuner
    import triton.runtime.jit as jit

    def run(self: Any, *args: Any, **kwargs: Any) -> None:
        inner = getattr(self, "fn", None)
        name = getattr(self, "__name__", None) or getattr(inner, "__name__", "?")
        tensors = [each for each in (*args, *kwargs.values()) if is_on_device(each)]
        mode.launch_outside(f"triton::{name}", tensors)

    jit.JITFunction.run = run
    autotuner.Autotuner.run = run
