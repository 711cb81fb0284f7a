"""State of an optimizer on the rehearsed rank, for the recording of a step. Needs no torch."""

import math
from typing import Any, Collection, Iterable, Mapping, NamedTuple


class State(NamedTuple):
    """Parameters of a whole model by class, and bytes on the rehearsed rank.

    Attributes
    ----------
    matrices, vectors, embeddings : int
        Trained parameters of the whole model: those with two and more dimensions, with one, and
        those of embedding tables.
    parameter_bytes, gradient_bytes, optimizer_bytes : int
        Bytes on this rank: parameters, their gradients, and the optimizer's tensors.
    """

    matrices: int = 0
    vectors: int = 0
    embeddings: int = 0
    parameter_bytes: int = 0
    gradient_bytes: int = 0
    optimizer_bytes: int = 0


def local_bytes(tensor: Any) -> int:
    """Return the bytes of this rank's part of a tensor or of a distributed tensor."""
    local = getattr(tensor, "_local_tensor", tensor)
    return int(math.prod(local.shape)) * int(local.element_size())


def whole_shape(parameter: Any) -> "tuple[int, ...]":
    """Return the shape of a parameter of the whole model; a flat one counts as a matrix."""
    flat = getattr(parameter, "_unpadded_unsharded_size", None)
    shape = tuple(int(each) for each in (flat if flat is not None else parameter.shape))
    return (*shape, 1) if flat is not None else shape


def state_of(optimizer: Any, tables: "Mapping[tuple[int, ...], Collection[int]]") -> State:
    """Return the state of an optimizer (torch.optim.Optimizer).

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Optimizer after an update.
    tables : mapping of tuple of int to collection
        Embedding modules by the shape of their table. The first parameters of that shape are
        tables.
    """
    left = {shape: len(modules) for shape, modules in tables.items()}
    sums = [0] * 6
    for group in optimizer.param_groups:
        for each in group["params"]:
            shape = whole_shape(each)
            place = 0 if len(shape) > 1 else 1
            if left.get(shape, 0) > 0:
                left[shape] -= 1
                place = 2
            sums[place] += math.prod(shape)
            sums[3] += local_bytes(each)
            if each.grad is not None:
                sums[4] += local_bytes(each.grad)
            values = optimizer.state.get(each, {}).values()
            sums[5] += sum(local_bytes(value) for value in values if hasattr(value, "element_size"))
    return State(*sums)


def sum_of(states: "Iterable[State]") -> State:
    """Return the sums of states."""
    return State(*(sum(column) for column in zip(State(), *states)))
