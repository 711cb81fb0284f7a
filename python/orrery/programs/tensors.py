"""Changes to torch.Tensor and parameters that a rehearsal needs. Imported after torch."""

import functools
import importlib
import types
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor

from .calls import forget_forms
from .mode import Parts, RehearsalMode
from .values import LIMIT

#: Bits of an address within a storage: handles are at least 64 apart, so that 1 TiB fits.
ADDRESS_BITS = 34
_WHOLE = torch.library.Library("aten", "IMPL")


def install(parts: Parts, mode: RehearsalMode) -> None:
    """Replaces what reads values back, and makes all parameters fake."""
    _install_readers(mode)
    _install_addresses()
    _install_data()
    _install_parameters(parts)
    _install_attention(parts)
    _install_whole_kernels()
    _install_optimizer_types()
    _install_initialisation()
    _keep_factories()
    _install_rules()


def _install_readers(mode: RehearsalMode) -> None:
    """Makes reads of fake tensors return values or stand-ins, which remember their operator."""
    tensor, disable = torch.Tensor, torch._C._DisableTorchDispatch
    original = {name: getattr(tensor, name) for name in ("item", "numpy", "tolist", "__array__")}

    def awaited(self: Any) -> Any:
        return self.trigger_wait() if isinstance(self, AsyncCollectiveTensor) else self

    def is_fake(self: Any) -> bool:
        return isinstance(self, FakeTensor) or not mode.is_known(self)

    def item(self: Any) -> Any:
        if type(self) is tensor and not mode.has_unknown():
            guard = disable()  # a real tensor, such as the step of an optimizer
            try:
                return original["item"](self)
            finally:
                del guard
        self = awaited(self)
        if is_fake(self) and self.numel() == 1:
            return mode.read_number(self)
        if hasattr(self, "full_tensor") and self.numel() == 1:  # a DTensor
            return item(self.full_tensor())
        return original["item"](self)

    def to_float(self: Any) -> float:
        return float(item(self))

    def numpy(self: Any, *args: Any, **kwargs: Any) -> Any:
        self = awaited(self)
        own = mode.read_array(self) if is_fake(self) else self
        return original["numpy"](own, *args, **kwargs)

    def array(self: Any, *args: Any, **kwargs: Any) -> Any:
        self = awaited(self)
        own = mode.read_array(self) if is_fake(self) else self
        return original["__array__"](own, *args, **kwargs)

    def tolist(self: Any) -> Any:
        self = awaited(self)
        if not is_fake(self):
            return original["tolist"](self)
        if self.dim() == 0:
            return item(self)
        if self.dtype.is_floating_point and not mode.is_known(self):
            return [tolist(each) for each in self]
        return original["tolist"](mode.read_array(self))

    def to_format(self: Any, form: str) -> str:
        self = awaited(self)
        if self.dim() == 0 and is_fake(self):
            return format(item(self), form)
        return str(original_format(self, form))

    def show(self: Any, *, tensor_contents: Any = None) -> str:
        self = awaited(self)
        if mode.is_known(self) or isinstance(self, FakeTensor):
            return str(original_show(self, tensor_contents=tensor_contents))
        return f"tensor(..., size={tuple(self.shape)})"

    original_show = tensor.__repr__
    original_format = tensor.__format__
    tensor.item, tensor.numpy, tensor.tolist = item, numpy, tolist
    tensor.orrery_item, tensor.__repr__ = item, show
    FakeTensor.tolist = tolist
    tensor.__array__, tensor.__float__, tensor.__format__ = array, to_float, to_format


def _install_addresses() -> None:
    """Gives fake memory addresses of its own, by which frameworks tell tensors apart.

    Storages without bytes keep the address 0, as on a GPU.
    """
    storage_address, tensor_address = torch.UntypedStorage.data_ptr, torch.Tensor.data_ptr

    def of_storage(self: Any) -> int:
        if self.device.type != "meta":
            return int(storage_address(self))
        return int(self._cdata) << ADDRESS_BITS if self.nbytes() > 0 else 0

    def of_tensor(self: Any) -> int:
        if not isinstance(self, FakeTensor):
            return int(tensor_address(self))
        base = of_storage(self.untyped_storage())
        return base + int(self.storage_offset()) * int(self.element_size()) if base else 0

    torch.UntypedStorage.data_ptr = of_storage
    torch.Tensor.data_ptr = of_tensor


def _install_data() -> None:
    """Lets `tensor.data = other` move a fake tensor to the device."""
    base = torch._C.TensorBase.__dict__.get("data", torch.Tensor.data)

    def set_data(self: Any, other: Any) -> None:
        base.__set__(self, other)
        forget_forms([self])
        if isinstance(other, FakeTensor):
            self.fake_device = other.fake_device
            for name in ("orrery_value", "orrery_name"):
                self.__dict__.pop(name, None)
                if name in other.__dict__:
                    self.__dict__[name] = other.__dict__[name]

    FakeTensor.data = property(lambda self: base.__get__(self), set_data)
    original_copy = FakeTensor.__deepcopy__

    def deep_copy(self: Any, memory: Any) -> Any:
        made = original_copy(self, memory)
        forget_forms([made])  # a copy may have another offset
        return made

    FakeTensor.__deepcopy__ = deep_copy
    original = torch.utils.swap_tensors

    def swap_tensors(first: Any, second: Any) -> None:
        if isinstance(first, FakeTensor) and isinstance(second, FakeTensor):
            with torch.no_grad():
                first.data = second
        else:
            original(first, second)

    torch.utils.swap_tensors = swap_tensors


def _install_parameters(parts: Parts) -> None:
    """Makes every parameter fake: a model of any size costs no memory before it is moved."""
    original = torch.nn.Parameter.__new__

    def make(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        if type(data) is torch.Tensor and data.device.type == "cpu":
            real = data
            with torch.no_grad(), parts.fake_mode:
                data = torch.empty_strided(real.shape, real.stride(), dtype=real.dtype)
            if real.numel() <= LIMIT:
                parts.values.keep(data, real.detach().clone(), "a parameter")
            else:
                parts.values.keep(data, None, "a parameter")
        made = original(cls, data, requires_grad)
        if cls is not torch.nn.Parameter and type(made) is FakeTensor:
            made.__class__ = _fake_type_of(cls)
        return made

    torch.nn.Parameter.__new__ = make
    new_fake = FakeTensor.__new__

    def copy_type(cls: Any, first: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(first, torch.Tensor):
            return new_fake(cls, first, *args, **kwargs)
        # Programs make a parameter on another device of the type and attributes of a parameter.
        return torch.nn.Parameter(first, kwargs.get("requires_grad", first.requires_grad))

    FakeTensor.__new__ = staticmethod(copy_type)


@functools.lru_cache(None)
def _fake_type_of(parameter: Any) -> Any:
    """Return the type of fake parameters that have the methods of a type of parameters."""
    return type(parameter)(parameter.__name__, (FakeTensor, parameter), {})


def _install_attention(parts: Parts) -> None:
    """Sends attention in 16 bits to the flash operator, as a CUDA build does.

    A CPU build would compute all scores. A mask is given up: the operator then prices the whole
    square of scores.
    """
    original = torch.nn.functional.scaled_dot_product_attention
    flash = torch.ops.aten._scaled_dot_product_flash_attention

    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: "float | None" = None,
        enable_gqa: bool = False,
    ) -> Any:
        local = getattr(query, "_local_tensor", query)  # the shard of a DTensor
        if (
            isinstance(local, FakeTensor)
            and local.fake_device.type == "cuda"
            and query.dtype in (torch.bfloat16, torch.float16)
            and query.dim() == 4
        ):
            if attn_mask is not None:
                parts.session.note("attention with a mask has the price of attention without one")
            return flash(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        return original(
            query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal,
            scale=scale, enable_gqa=enable_gqa,
        )  # fmt: skip

    torch.nn.functional.scaled_dot_product_attention = attention
    torch._C._nn.scaled_dot_product_attention = attention


def _install_whole_kernels() -> None:
    """Keeps operators whole that CUDA has kernels for, and that a CPU build takes apart.

    The dispatcher prefers an operator's parts (CompositeImplicitAutograd) where its table has no
    kernel for CUDA. The mode runs the operators; the kernels here are never called.
    """
    for name in ("silu_backward", "mish_backward"):
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CUDA"):
            _WHOLE.impl(name, lambda gradient, _input: torch.empty_like(gradient), "CUDA")


def _install_optimizer_types() -> None:
    """Lets optimizers choose their implementations for lists by the type FakeTensor too."""
    import torch.optim.optimizer as optimizers
    import torch.utils._foreach_utils as foreach

    for types in (foreach._foreach_supported_types, optimizers._foreach_supported_types):
        for each in (FakeTensor, torch.nn.Parameter):
            if each not in types:
                types.append(each)


def _install_initialisation() -> None:
    """Replaces rejection sampling, which draws until no value is outside, by one draw."""

    def truncated_normal(
        tensor: Any, mean: float, std: float, a: float, b: float, generator: Any = None
    ) -> Any:
        with torch.no_grad():
            return tensor.normal_(mean, std, generator=generator).clamp_(min=a, max=b)

    torch.nn.init._no_grad_trunc_normal_ = truncated_normal


def _keep_factories() -> None:
    """Lets the shape arithmetic of PyTorch use its own factories.

    Programs replace torch.empty and others by functions that choose the device.
    """
    own = types.ModuleType("torch")
    for factory in "empty empty_strided empty_like full ones zeros".split():
        setattr(own, factory, getattr(torch, factory))
    own.__getattr__ = lambda name: getattr(torch, name)  # type: ignore[method-assign]
    for name in ("_meta_registrations", "_refs", "_prims", "_prims_common"):
        module = importlib.import_module(f"torch.{name}")
        module.torch = own  # type: ignore[attr-defined]


def _install_rules() -> None:
    """Leaves out the search for rules between operators and modes while nobody has registered one.

    PyTorch searches at every operator (torch.library.register_torch_dispatch).
    """
    registry: Any = importlib.import_module("torch._library.simple_registry")
    holder = registry.GenericTorchDispatchRuleHolder
    original, register = registry.find_torch_dispatch_rule, holder.register

    def find_none(_operator: Any, _mode: Any) -> None:
        return None

    def register_first(self: Any, *args: Any) -> Any:
        registry.find_torch_dispatch_rule = original
        return register(self, *args)

    holder.register = register_first
    if not any(each.torch_dispatch_rules._data for each in registry.singleton._data.values()):
        registry.find_torch_dispatch_rule = find_none
