"""States of a training's parts as plain tensors of the CPU, and random states.

A sharded tensor (DTensor) is stored as the shard of this rank. The stored shard becomes a sharded
tensor again by the mesh and the placements of the live parameter, so a snapshot needs no process
group.
"""

import sys
from importlib import import_module
from typing import Any

import torch
from torch.distributed.tensor import DTensor


#: Only key of the dictionary that stores a shard.
SHARD = "orrery:shard"


def is_shard(value: Any) -> bool:
    """Return True if a stored value is the shard of a sharded tensor."""
    return isinstance(value, dict) and set(value) == {SHARD}


def stored_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy on the CPU with memory of its own."""
    return tensor.detach().to("cpu", copy=True).contiguous()


def stored(value: Any) -> Any:
    """Return a copy of a state that needs neither device nor process group."""
    if isinstance(value, DTensor):
        return {SHARD: stored_tensor(value.to_local())}
    if isinstance(value, torch.Tensor):
        return stored_tensor(value)
    if isinstance(value, dict):
        return {key: stored(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(stored(each) for each in value)
    return value


def stored_parts(parts: "dict[str, Any]") -> "dict[str, Any]":
    """Return the stored state of each part, by its name."""
    return {name: stored(part.state_dict()) for name, part in parts.items()}


def load_parts(parts: "dict[str, Any]", saved: "dict[str, Any]") -> None:
    """Loads stored states into the parts.

    Raises
    ------
    ValueError
        If the states are not those of these parts.
    """
    if set(saved) != set(parts):
        raise ValueError(
            f"expected a snapshot of {', '.join(sorted(parts))}, found one of "
            f"{', '.join(sorted(saved))}: name another folder, or the same parts"
        )
    for name, part in parts.items():
        if isinstance(part, torch.optim.Optimizer):
            part.load_state_dict(_optimizer_state(part, saved[name]))
        else:
            part.load_state_dict(_like(part.state_dict(), saved[name]))


def has_shards(parts: "dict[str, Any]") -> bool:
    """Return True if a part's state has sharded tensors: each rank has data of its own."""
    return any(_contains_shard(part.state_dict()) for part in parts.values())


def _contains_shard(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_contains_shard, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_contains_shard, value))
    return isinstance(value, DTensor)


def _sharded_like(live: Any, shard: "dict[str, torch.Tensor]") -> Any:
    local = shard[SHARD].to(live.to_local().device)
    return DTensor.from_local(
        local, live.device_mesh, live.placements, shape=live.shape, stride=live.stride()
    )


def _like(live: Any, saved: Any) -> Any:
    """Return a stored state whose shards are sharded like the tensors at the same place."""
    if is_shard(saved):
        return _sharded_like(live, saved)
    if isinstance(saved, dict):
        known = live if isinstance(live, dict) else {}
        return {key: _like(known.get(key), each) for key, each in saved.items()}
    return saved


def _optimizer_state(optimizer: torch.optim.Optimizer, saved: "dict[str, Any]") -> Any:
    """Return a stored state whose shards are sharded like their parameters."""
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    state = {
        number: {
            key: _sharded_like(parameters[number], each) if is_shard(each) else each
            for key, each in of_parameter.items()
        }
        for number, of_parameter in saved["state"].items()
    }
    return {**saved, "state": state}


def random_states() -> "dict[str, Any]":
    """Return the random states of PyTorch (CPU and the present GPU), Python and NumPy."""
    states: "dict[str, Any]" = {"torch": torch.get_rng_state()}
    states["python"] = import_module("random").getstate()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state()
    if "numpy" in sys.modules:
        states["numpy"] = sys.modules["numpy"].random.get_state()
    return states


def set_random_states(states: "dict[str, Any]") -> None:
    """Sets the random states that random_states() returned."""
    torch.set_rng_state(states["torch"])
    import_module("random").setstate(states["python"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
    if "numpy" in states:
        import numpy

        numpy.random.set_state(states["numpy"])
