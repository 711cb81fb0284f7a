"""Prices of operators by their schema and shapes. Imported after torch.

Each operator has one source of its price:

table
    The kernel tables behind `orrery predict` have an entry: matrix products, attention,
    normalisation, activation, embedding.
stream
    Pointwise operators, copies, reductions and optimizer updates: bytes over the rate that a plain
    stream reaches.
flops
    Operators with a known number of floating point operations and no entry, for example
    convolutions: priced as a product of their shape.
registered
    A line of `--prices`.
unpriced
    Any other operator: its bytes as a plain stream, which is a guess. The report lists its share.
"""

import functools
import math
from typing import Any, NamedTuple, Optional, Sequence

import torch
from torch.utils.flop_counter import flop_registry

from .prices import PriceClient
from .record import Shape
from .registered import RegisteredPrice

_FREE = frozenset(
    "empty empty_strided empty_like new_empty new_empty_strided empty_permuted detach alias set_ "
    "resize_ lift_fresh _local_scalar_dense record_stream lift".split()
)
_VIEWS = frozenset("_unsafe_view _reshape_alias view_as_real view_as_complex".split())
_ENTRIES = {
    "norm": "native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit "
    "cudnn_batch_norm _fused_rms_norm _batch_norm_with_update",
    "activation": "gelu silu relu leaky_relu elu hardtanh threshold sigmoid tanh relu_",
    "embedding": "embedding embedding_dense",
}
_STREAMS = frozenset(
    "copy_ _to_copy clone cat stack sum mean amax amin max min fill_ zero_ zeros zeros_like ones "
    "ones_like full full_like new_zeros new_full new_ones scalar_tensor arange where masked_fill "
    "masked_fill_ _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data "
    "linalg_vector_norm nll_loss_forward nll_loss_backward slice_backward select_backward "
    "constant_pad_nd repeat expand_copy random_ uniform_ normal_ bernoulli_ native_dropout "
    "native_dropout_backward split_with_sizes_copy all_gather_copy_in chunk_cat _chunk_cat "
    "_amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_ argmax argmin tril triu roll "
    "flip any all var std var_mean logsumexp rand randn randint eye lift_fresh_copy rotary "
    "rotary_".split()
)
#: Products of groups of rows, each group with a matrix of its own.
_GROUPED = ("_grouped_mm", "_scaled_grouped_mm")
_ATTENTION = ("dot_product", "flash_attention", "efficient_attention", "flex_attention")
#: Entry of the kernels of flash_attn before its third version (traces/workload/kernel_name.hpp).
FLASH_2 = "attention_flash_2"
_PRECISIONS = {
    torch.bfloat16: "bf16",
    torch.float16: "bf16",
    torch.float8_e4m3fn: "fp8",
    torch.float8_e5m2: "fp8",
}


class Operator(NamedTuple):
    """Classification of an operator.

    Attributes
    ----------
    name : str
        Name in the report, without ``aten::``.
    kind : {'free', 'view', 'gemm', 'attention', 'memory'}
        Model of the price; 'free' and 'view' run no kernel.
    entry : str
        Entry of the kernel tables; empty: a plain stream.
    source : str
        Source of the price, see the module.
    written : tuple of int
        Positions of the arguments that the operator writes.
    in_place_list : bool
        True if the operator writes lists of tensors and returns nothing.
    """

    name: str
    kind: str
    entry: str
    source: str
    written: "tuple[int, ...]"
    in_place_list: bool


class Work(NamedTuple):
    """Work of one call: seconds, floating point operations, bytes, and the source of the price.

    `shape`: model of the price on other GPUs.
    """

    seconds: float
    flops: float
    moved: float
    source: str
    shape: Shape = Shape()


def _entry_of(name: str) -> str:
    base = name.removesuffix("_backward").removesuffix("_dense")
    for entry, names in _ENTRIES.items():
        if base in names.split() or name in names.split():
            return entry
    return ""


def _is_stream(func: Any, name: str) -> bool:
    if torch.Tag.pointwise in func.tags or name in _STREAMS:
        return True
    return name.startswith(("_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad"))


@functools.lru_cache(None)
def operator_of(func: Any) -> Operator:
    """Return the classification of an operator (torch._ops.OpOverload)."""
    schema = func._schema
    name = schema.name.split("::")[1]
    shown = name if func.namespace == "aten" else schema.name
    written = tuple(
        place
        for place, each in enumerate(schema.arguments)
        if each.alias_info is not None and each.alias_info.is_write
    )
    lists = not schema.returns and bool(written)

    def of(kind: str, entry: str, source: str) -> Operator:
        return Operator(shown, kind, entry, source, written, lists)

    if name in _FREE:
        return of("free", "", "")
    returns = schema.returns
    if name in _VIEWS or (
        returns and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
    ):
        return of("view", "", "")
    if any(word in name for word in _ATTENTION):
        entry = FLASH_2 if name.startswith("_flash_attention") else "attention"
        return of("attention", f"{entry}_backward" if "backward" in name else entry, "table")
    if func._overloadpacket in flop_registry or name in _GROUPED:
        is_product = name in ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm", *_GROUPED)
        return of("gemm", "", "table" if is_product else "flops")
    entry = _entry_of(name)
    if entry:
        return of("memory", entry, "table")
    return of("memory", "", "stream" if _is_stream(func, name) else "unpriced")


def touched_bytes(tensor: Any) -> int:
    """Return the bytes of a tensor that a kernel touches: a broadcast view has fewer."""
    size = int(tensor.numel()) * int(tensor.element_size())
    return min(size, int(tensor.untyped_storage().nbytes())) if size else 0


def precision_of(dtype: Any) -> str:
    """Return the precision of products of this type, by the program's own settings."""
    if dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32:
        return "tf32"
    return _PRECISIONS.get(dtype, "fp32")


def _product_shape(name: str, inputs: Sequence[Any], flops: float) -> "tuple[float, ...]":
    """Return rows, columns, inner dimension and number of the products of a call."""
    first, second = inputs[-2], inputs[-1]
    if name in ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm"):
        if name == "_scaled_mm":
            first, second = inputs[0], inputs[1]
        batch = first.shape[0] if first.dim() == 3 else 1
        return (first.shape[-2], second.shape[-1], first.shape[-1], batch)
    side = max(1.0, (flops / 2) ** (1 / 3))
    return (side, side, side, 1)


def _grouped_shape(inputs: Sequence[Any], output: Any) -> "tuple[float, float, float, float]":
    """Return rows, columns, inner dimension and number of equal groups of a grouped product.

    For example, 24,576 rows of width 2,048 and 8 matrices of 2,048 x 1,408 are 8 products of 3,072
    rows. Where both factors have two dimensions, the groups divide the inner one.
    """
    first, second = inputs[0], inputs[1]
    if first.dim() == 2 and second.dim() == 2:
        groups = output.shape[0]
        return (first.shape[0], second.shape[1], first.shape[1] / groups, groups)
    groups = (second if second.dim() == 3 else first).shape[0]
    rows = first.shape[-2] / (groups if first.dim() == 2 else 1)
    columns = second.shape[-1] / (groups if second.dim() == 2 else 1)
    return (rows, columns, first.shape[-1], groups)


class KernelPricer:
    """Prices of device operators.

    Parameters
    ----------
    client : PriceClient
        Service with the kernel tables.
    registered : dict of str to RegisteredPrice
        The user's own prices, by operator.
    """

    def __init__(self, client: PriceClient, registered: "dict[str, RegisteredPrice]") -> None:
        self._client = client
        self._registered = registered
        #: True if the user has registered prices.
        self.has_own_prices = bool(registered)

    def work(
        self,
        func: Any,
        operator: Operator,
        call: "tuple[Sequence[Any], dict[str, Any]]",
        inputs: Sequence[Any],
        outputs: Sequence[Any],
    ) -> Work:
        """Return the work of one call.

        Parameters
        ----------
        func, operator
            The operator and its classification.
        call : tuple
            Positional and keyword arguments.
        inputs, outputs : sequence of torch.Tensor
            Tensors of the device that the call reads and returns.

        Raises
        ------
        PriceError
            If the command line is gone.
        """
        read = sum(map(touched_bytes, inputs))
        wrote = sum(map(touched_bytes, {id(each): each for each in outputs}.values()))
        if self._registered:
            own = self._own_price(func._schema.name, inputs, outputs, read, wrote)
            if own is not None:
                return own
        if operator.kind == "gemm":
            return self._product(func, operator, call, inputs, outputs, read + wrote)
        if operator.kind == "attention":
            return self._attention(operator, call, inputs, read + wrote)
        seconds = self._client.kernel("memory", "bf16", moved=read + wrote, entry=operator.entry)
        shape = Shape("memory", entry=operator.entry)
        return Work(seconds, 0, read + wrote, operator.source, shape)

    def flexible_attention(
        self, query: Any, key: Any, density: float, backward: bool, moved: int
    ) -> Work:
        """Return the work of flex_attention, which computes a share `density` of the scores."""
        heads = math.prod(query.shape[:-2])
        rows, columns, width = query.shape[-2], key.shape[-2], query.shape[-1]
        flops = 4.0 * heads * rows * columns * width * density * (1 + backward)
        entry = "attention_backward" if backward else "attention"
        model = Shape("attention", precision_of(query.dtype), rows, columns, width, heads, entry)
        return self._priced(model, flops, moved, "table")

    def launched(self, name: str, tensors: Sequence[Any]) -> Work:
        """Return the work of a kernel outside PyTorch that is given these tensors."""
        moved = sum(map(touched_bytes, tensors))
        if self._registered:
            own = self._own_price(name, tensors, (), moved, 0)
            if own is not None:
                return own
        seconds = self._client.kernel("memory", "bf16", moved=moved)
        return Work(seconds, 0, moved, "unpriced", Shape("memory"))

    def _own_price(
        self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], read: int, wrote: int
    ) -> Optional[Work]:
        price = self._registered.get(name) or self._registered.get(name.removeprefix("aten::"))
        if price is None:
            return None
        told = price.values([t.shape for t in inputs], [t.shape for t in outputs], read, wrote)
        flops, moved = told.get("flops", 0.0), told.get("bytes", 0.0)
        seconds = told.get("time_s")
        if seconds is None:
            side = max(1.0, (flops / 2) ** (1 / 3))
            kind = "gemm" if flops > 0 else "memory"
            dtype = inputs[0].dtype if inputs else torch.bfloat16
            shape = (side, side, side, 1.0)
            seconds = self._client.kernel(kind, precision_of(dtype), shape, flops, moved)
        return Work(seconds, flops, moved, "registered")

    def _product(
        self,
        func: Any,
        operator: Operator,
        call: "tuple[Sequence[Any], dict[str, Any]]",
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        moved: int,
    ) -> Work:
        if operator.name in _GROUPED:
            grouped = _grouped_shape(inputs, outputs[0])
            model = Shape("gemm", precision_of(inputs[0].dtype), *grouped)
            flops = 2.0 * math.prod(grouped)
            return self._priced(model, flops, moved, operator.source)
        result = outputs[0] if len(outputs) == 1 else tuple(outputs)
        flops = float(flop_registry[func._overloadpacket](*call[0], **call[1], out_val=result))
        shape = _product_shape(operator.name, inputs, flops)
        dtype = inputs[0].dtype if operator.name == "_scaled_mm" else outputs[0].dtype
        model = Shape("gemm", precision_of(dtype), shape[0], shape[1], shape[2], shape[3])
        return self._priced(model, flops, moved, operator.source)

    def _attention(
        self,
        operator: Operator,
        call: "tuple[Sequence[Any], dict[str, Any]]",
        inputs: Sequence[Any],
        moved: int,
    ) -> Work:
        """A causal mask halves the operations; the backward pass counts twice the forward pass.

        Tensors are (sequences, heads, rows, width), those of flash_attn (sequences, rows, heads,
        width).
        """
        backward = operator.entry.endswith("_backward")
        query, key = inputs[1:3] if backward else inputs[0:2]
        at = -3 if operator.entry.startswith(FLASH_2) else -2
        rows, columns, width = query.shape[at], key.shape[at], query.shape[-1]
        heads = math.prod(query.shape) / (rows * width)
        causal = any(each is True for each in call[0][3:]) or call[1].get("is_causal", False)
        flops = 4.0 * heads * rows * columns * width * (0.5 if causal else 1) * (1 + backward)
        model = Shape(
            "attention", precision_of(query.dtype), rows, columns, width, heads, operator.entry
        )
        return self._priced(model, flops, moved, operator.source)

    def _priced(self, model: Shape, flops: float, moved: int, source: str) -> Work:
        seconds = self._client.kernel(
            model.kind, model.precision, model[2:6], flops, moved, model.entry
        )
        return Work(seconds, flops, moved, source, model)
