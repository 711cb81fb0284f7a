"""Attention of flash_attn: tensors of (sequences, rows, heads, width), or packed sequences."""

from typing import Any, Optional

import torch

from orrery_missing import missing_function  # type: ignore[import-not-found]


def _attention(
    q: Any, k: Any, v: Any, dropout: float, scale: Optional[float], causal: bool
) -> "tuple[Any, Any]":
    """Return the output and the logarithms of sums of the kernels of flash_attn in PyTorch."""
    operator = torch.ops.aten._flash_attention_forward
    result = operator(
        q, k, v, None, None, q.shape[1], k.shape[1], dropout, causal, False, scale=scale
    )
    return result[0], result[1]


def flash_attn_func(
    q: Any, k: Any, v: Any, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
    causal: bool = False, window_size: "tuple[int, int]" = (-1, -1), softcap: float = 0.0,
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False,
) -> Any:  # fmt: skip
    """Return the attention of (sequences, rows, heads, width) tensors; windows count as full."""
    output, sums = _attention(q, k, v, dropout_p, softmax_scale, causal)
    return (output, sums, None) if return_attn_probs else output


def flash_attn_qkvpacked_func(qkv: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the attention of a (sequences, rows, 3, heads, width) tensor."""
    return flash_attn_func(*qkv.unbind(-3), *args, **kwargs)


def flash_attn_kvpacked_func(q: Any, kv: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the attention of a tensor with keys and values in one."""
    return flash_attn_func(q, *kv.unbind(-3), *args, **kwargs)


def _sequences(tensor: Any, bounds: Any) -> Any:
    """Return packed sequences as equally long ones; as a single one if they cannot be equal."""
    count = bounds.numel() - 1
    if count < 1 or tensor.shape[0] % count:
        count = 1
    return tensor.reshape(count, -1, *tensor.shape[1:])


def flash_attn_varlen_func(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: Any,
    max_seqlen_k: Any, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
    causal: bool = False, window_size: "tuple[int, int]" = (-1, -1), softcap: float = 0.0,
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False,
    block_table: Any = None,
) -> Any:  # fmt: skip
    """Return the attention of packed sequences, which count as equally long."""
    parts = _sequences(q, cu_seqlens_q), _sequences(k, cu_seqlens_k), _sequences(v, cu_seqlens_k)
    if parts[0].shape[0] != parts[1].shape[0]:
        parts = q[None], k[None], v[None]
    output, sums = _attention(*parts, dropout_p, softmax_scale, causal)
    output = output.reshape(q.shape)
    return (output, sums, None) if return_attn_probs else output


def flash_attn_varlen_qkvpacked_func(
    qkv: Any, cu_seqlens: Any, max_seqlen: Any, *args: Any, **kwargs: Any
) -> Any:
    """Return the attention of packed sequences with queries, keys and values in one tensor."""
    bounds: "tuple[Any, ...]" = (cu_seqlens, cu_seqlens, max_seqlen, max_seqlen)
    return flash_attn_varlen_func(*qkv.unbind(-3), *bounds, *args, **kwargs)


def flash_attn_varlen_kvpacked_func(
    q: Any, kv: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: Any, max_seqlen_k: Any,
    *args: Any, **kwargs: Any,
) -> Any:  # fmt: skip
    """Return the attention of packed sequences with keys and values in one tensor."""
    bounds: "tuple[Any, ...]" = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    return flash_attn_varlen_func(q, *kv.unbind(-3), *bounds, *args, **kwargs)


def __getattr__(name: str) -> Any:
    return missing_function(__name__, name)
