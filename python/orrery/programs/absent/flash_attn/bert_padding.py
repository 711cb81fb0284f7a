"""Removal and insertion of padding. The mask must be known: at most 16,384 elements."""

from typing import Any

import torch


def index_first_axis(input: Any, indices: Any) -> Any:
    """Return the rows at `indices`."""
    return input[indices]


def index_put_first_axis(values: Any, indices: Any, first_axis_dim: int) -> Any:
    """Return a tensor of `first_axis_dim` rows with the values at `indices`, and zeros."""
    output = values.new_zeros(first_axis_dim, *values.shape[1:])
    return output.index_copy(0, indices, values)


def unpad_input(hidden_states: Any, attention_mask: Any, unused_mask: Any = None) -> Any:
    """Return kept rows, their indices, bounds of the sequences, longest sequence, and lengths."""
    mask = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = mask.sum(dim=-1, dtype=torch.int32)
    used = attention_mask.sum(dim=-1, dtype=torch.int32)
    indices = torch.nonzero(mask.flatten(), as_tuple=False).flatten()
    longest = lengths.max().item()
    bounds = torch.nn.functional.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
    rows = hidden_states.reshape(-1, *hidden_states.shape[2:])
    return index_first_axis(rows, indices), indices, bounds, longest, used


def pad_input(hidden_states: Any, indices: Any, batch: int, seqlen: int) -> Any:
    """Return the rows in their places in `batch` sequences of `seqlen` rows."""
    output = index_put_first_axis(hidden_states, indices, batch * seqlen)
    return output.view(batch, seqlen, *hidden_states.shape[1:])
