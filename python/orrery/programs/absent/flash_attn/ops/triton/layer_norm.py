"""Norms with a residual: PyTorch's norms and one addition."""

from typing import Any

import torch

from orrery_missing import missing_function  # type: ignore[import-not-found]


def layer_norm_fn(
    x: Any, weight: Any, bias: Any = None, residual: Any = None, x1: Any = None,
    weight1: Any = None, bias1: Any = None, eps: float = 1e-6, dropout_p: float = 0.0,
    rowscale: Any = None, prenorm: bool = False, residual_in_fp32: bool = False,
    is_rms_norm: bool = False, return_dropout_mask: bool = False, **_more: Any,
) -> Any:  # fmt: skip
    """Return the norm of x plus residual, and the sum too if `prenorm`."""
    functional = torch.nn.functional
    if dropout_p:
        x = functional.dropout(x, dropout_p)
    if residual is not None:
        x = x + residual
    kept = x.float() if residual_in_fp32 else x
    if is_rms_norm:
        output = functional.rms_norm(x, (x.shape[-1],), weight, eps)
    else:
        output = functional.layer_norm(x, (x.shape[-1],), weight, bias, eps)
    return (output, kept) if prenorm else output


def rms_norm_fn(x: Any, weight: Any, bias: Any = None, **named: Any) -> Any:
    """Return the norm without a mean; takes the arguments of `layer_norm_fn`."""
    return layer_norm_fn(x, weight, bias, **{**named, "is_rms_norm": True})


def __getattr__(name: str) -> Any:
    return missing_function(__name__, name)
