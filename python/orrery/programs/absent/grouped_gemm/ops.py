"""Products of groups of rows, each group with a matrix of its own."""

from typing import Any

import torch
from orrery_missing import missing_function  # type: ignore[import-not-found]


def gmm(a: Any, b: Any, batch_sizes: Any, trans_b: bool = False) -> Any:
    """Return the products of the rows of `a`, `batch_sizes` of them with each matrix of `b`."""
    ends = torch.cumsum(batch_sizes.to(a.device), 0, dtype=torch.int32)
    return torch._grouped_mm(a, b.transpose(-2, -1) if trans_b else b, offs=ends)


def __getattr__(name: str) -> Any:
    return missing_function(__name__, name)
