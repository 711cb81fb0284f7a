"""One operation in each of 60 steps, given by its name; rank 1 of 3 kills itself before the 30th.

Every rank prints the exceptions that it sees, and its end.
"""

import os
import signal
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
values = torch.ones(4)


def scatter_from(source):
    """Scatters a tensor from rank `source`."""
    dist.scatter(values, [torch.ones(4)] * world if rank == source else None, source)


def send_and_receive():
    """Sends a tensor from rank 1 to rank 0."""
    if rank == 0:
        dist.recv(values, 1)
    elif rank == 1:
        dist.send(values, 0)


OPERATIONS = {
    "scatter": lambda: scatter_from(1),
    "scatter of another": lambda: scatter_from(0),
    "send": send_and_receive,
    "reduce": lambda: dist.reduce(values, 0),
    "reduce to the lost": lambda: dist.reduce(values, 1),
    "all_to_all": lambda: dist.all_to_all_single(torch.zeros(world), torch.ones(world)),
    "all_to_all of lists": lambda: dist.all_to_all(
        [torch.zeros(2) for _ in range(world)], [torch.ones(2)] * world
    ),
    "reduce_scatter": lambda: dist.reduce_scatter_tensor(torch.zeros(2), torch.ones(2 * world)),
    "sparse": lambda: dist.all_reduce(torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (4,))),
    "monitored": dist.monitored_barrier,
}
for step in range(60):
    if step == 30 and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        OPERATIONS[sys.argv[1]]()
    except Exception as error:
        print(f"exception in rank {rank}: {error}", flush=True)
        sys.exit(1)
print(f"end of rank {rank}", flush=True)
