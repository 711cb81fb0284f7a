"""Join of a new process, at every rank of a program. Imported after torch."""

import functools
import gc
import pathlib
import sys
from typing import Any, Callable

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def meet_others(
    module: Any, write_state: "Callable[[pathlib.Path], None]", save: "Callable[[], None]"
) -> None:
    """Waits between two steps until a new process has joined, or cannot join.

    Parameters
    ----------
    module : module
        Started process group module, whose mark_step() has just returned True.
    write_state : callable
        Called on one rank, with the file of the state for the new process.
    save : callable
        Called on all ranks if `orrery run` wants a snapshot here.
    """
    module.announce_arrival()
    while True:
        words = module.wait_for_instruction()
        if words[0] == "resume":
            break
        if words[0] == "save":
            save()
            continue
        _, join, path = words
        write_state(pathlib.Path(path))
        module.send_fields(["given", join])
    if words[1:]:
        rebuild_reducers()


def keep_own_objects(attachment: Any) -> None:
    """Lets a process keep its own objects where others would broadcast some, until it has joined.

    The source is not there: PyTorch would read the objects from uninitialised memory.
    """
    broadcast = dist.broadcast_object_list

    @functools.wraps(broadcast)
    def broadcast_object_list(*positional: Any, **named: Any) -> None:
        if not attachment.replaces:
            broadcast(*positional, **named)

    modules: "tuple[Any, ...]" = (dist, sys.modules["torch.distributed.distributed_c10d"])
    for module in modules:
        module.broadcast_object_list = broadcast_object_list


def wait_for_state(module: Any) -> "tuple[pathlib.Path, list[str]]":
    """Returns the file of the others' state, once they wait between two steps, and the operations
    that they have done: the argument of join_others(). Called by the new process."""
    module.send_fields(["ready"])
    _, path, *operations = module.wait_for_instruction()
    return pathlib.Path(path), operations


def join_others(attachment: Any, module: Any, operations: "list[str]") -> None:
    """Makes the new process a member: all groups continue with the numbers of the operations."""
    unknown = module.adopt_progress(operations)
    if unknown:
        raise RuntimeError(
            f"expected the process groups of the other ranks, found a difference in {unknown}: "
            f"create all groups before the loop, on all ranks"
        )
    attachment.replaces = False
    module.send_fields(["joined"])
    module.wait_for_instruction()
    rebuild_reducers()


def rebuild_reducers() -> None:
    """Gives every DistributedDataParallel a new reducer, as on all other ranks.

    A reducer orders its buckets anew after its first step. The new process has not done so, and
    buckets of another order would be summed with other ones.
    """
    for module in gc.get_objects():
        if isinstance(type(module), type) and issubclass(type(module), DistributedDataParallel):
            _rebuild_reducer(module)


def _rebuild_reducer(module: DistributedDataParallel) -> None:
    """Builds the reducer as for an unpickled module (DistributedDataParallel.__setstate__)."""
    parameters, expects_sparse = module._build_params_for_reducer()
    names = module._build_debug_param_to_name_mapping(parameters)
    module._has_rebuilt_buckets = False
    module._ddp_init_helper(parameters, expects_sparse, names, module.static_graph)
    if module.static_graph:
        module.reducer._set_static_graph()
        module.logger._set_static_graph()
    for hook, state in module._comm_hooks:
        dist._register_comm_hook(module.reducer, state, hook)
