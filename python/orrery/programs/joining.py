"""Changes of PyTorch's objects at every rank when a new process joins. Imported after torch."""

import gc

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


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
