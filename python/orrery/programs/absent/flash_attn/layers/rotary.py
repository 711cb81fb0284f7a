"""Rotary embeddings: one kernel, priced by its bytes."""

from typing import Any, Optional

import torch

from orrery_missing import missing_function  # type: ignore[import-not-found]


@torch.library.custom_op("flash_attn::rotary", mutates_args=())  # type: ignore[untyped-decorator]
def _rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@_rotary.register_fake  # type: ignore[untyped-decorator]
def _(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op(  # type: ignore[untyped-decorator]
    "flash_attn::rotary_", mutates_args=("x",)
)
def _rotary_in_place(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    pass


@_rotary_in_place.register_fake  # type: ignore[untyped-decorator]
def _(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    pass


class ApplyRotaryEmb(torch.autograd.Function):  # type: ignore[misc]
    """Rotation of queries or keys, in place or not; its gradient is a rotation too."""

    @staticmethod
    def forward(context: Any, x: Any, cos: Any, sin: Any, inplace: bool) -> Any:
        """Return the rotated tensor."""
        context.save_for_backward(cos, sin)
        if not inplace:
            return _rotary(x, cos, sin)
        context.mark_dirty(x)
        _rotary_in_place(x, cos, sin)
        return x

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        """Return the gradients of the arguments of `forward`."""
        return _rotary(gradient, *context.saved_tensors), None, None, None


def apply_rotary_emb(
    x: Any, cos: Any, sin: Any, interleaved: bool = False, inplace: bool = False,
    seqlen_offsets: Any = 0, cu_seqlens: Any = None, max_seqlen: Optional[int] = None,
) -> Any:  # fmt: skip
    """Return the rotated tensor."""
    return ApplyRotaryEmb.apply(x, cos, sin, inplace)


class RotaryEmbedding(torch.nn.Module):  # type: ignore[misc]
    """Tables of cosines and sines, and their application to packed queries, keys and values."""

    def __init__(
        self, dim: int, base: float = 10000.0, interleaved: bool = False, scale_base: Any = None,
        pos_idx_in_fp32: bool = True, device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.dim, self.base, self.interleaved = dim, float(base), interleaved
        self.scale_base, self.scale, self.pos_idx_in_fp32 = scale_base, None, pos_idx_in_fp32
        self.register_buffer("inv_freq", self._compute_inv_freq(device), persistent=False)
        self._seq_len_cached = 0
        self._cos_cached: Any = None
        self._sin_cached: Any = None
        self._cos_k_cached: Any = None
        self._sin_k_cached: Any = None

    def _compute_inv_freq(self, device: Any = None) -> Any:
        steps = torch.arange(0, self.dim, 2, device=device, dtype=torch.float32)
        return 1.0 / (self.base ** (steps / self.dim))

    def _update_cos_sin_cache(self, seqlen: int, device: Any = None, dtype: Any = None) -> None:
        if seqlen <= self._seq_len_cached and self._cos_cached is not None:
            return
        self._seq_len_cached = seqlen
        places = torch.arange(seqlen, device=device, dtype=torch.float32)
        angles = torch.outer(places, self.inv_freq.to(device=places.device))
        self._cos_cached = torch.cos(angles).to(dtype)
        self._sin_cached = torch.sin(angles).to(dtype)

    def forward(
        self, qkv: Any, kv: Any = None, seqlen_offset: Any = 0, cu_seqlens: Any = None,
        max_seqlen: Optional[int] = None, num_heads_q: Optional[int] = None,
    ) -> Any:  # fmt: skip
        """Return the rotated queries and keys beside their values, in the packing of the input."""
        length = max_seqlen or qkv.shape[1]
        self._update_cos_sin_cache(length, device=qkv.device, dtype=qkv.dtype)
        tables = self._cos_cached, self._sin_cached
        if kv is not None:
            keys, values = kv.unbind(-3)
            keys = apply_rotary_emb(keys, *tables)
            return apply_rotary_emb(qkv, *tables), torch.stack((keys, values), dim=-3)
        queries, keys, values = qkv.unbind(-3)
        rotated = [apply_rotary_emb(each, *tables) for each in (queries, keys)]
        return torch.stack((*rotated, values), dim=-3)


def __getattr__(name: str) -> Any:
    return missing_function(__name__, name)
