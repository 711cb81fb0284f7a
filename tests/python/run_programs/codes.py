"""DDP regressions from several seeds, one after the other, for codes of gradients and for shares.

STEPS=N of each seed, SEEDS=N. Prints the mean loss of the last ten steps of each seed. With
EXAMPLE_S=SECONDS of declared compute for each example the data come from a loader, SLOW=FACTOR
makes the last rank slower, and the loss is that of data which no rank has trained.
"""

import os
import statistics
import time

import torch
import torch.distributed as dist
from end import print_end
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
steps = int(os.environ.get("STEPS", "40"))
example_s = float(os.environ.get("EXAMPLE_S", "0"))
if rank == world - 1:
    example_s *= float(os.environ.get("SLOW", "1"))


def batches(seed):
    """Yields the batches of a rank."""
    if "EXAMPLE_S" not in os.environ:
        torch.manual_seed(100 * seed + rank)
        for _ in range(steps):
            yield torch.randn(16, 64)
        return
    torch.manual_seed(100 * seed)
    data = TensorDataset(torch.randn(16 * world * steps, 64))
    for (batch,) in DataLoader(data, 16, sampler=DistributedSampler(data)):
        time.sleep(example_s * len(batch))
        yield batch


for seed in range(int(os.environ.get("SEEDS", "4"))):
    torch.manual_seed(seed)
    target = nn.Linear(64, 32)
    layers = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 32))
    model = DistributedDataParallel(layers, bucket_cap_mb=0.02)
    optimizer = torch.optim.SGD(model.parameters(), 0.2)
    losses, rows = [], 0
    for data in batches(seed):
        loss = (model(data) - target(data).detach()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        rows = len(data)
    if "EXAMPLE_S" in os.environ:
        torch.manual_seed(seed)
        unseen = torch.randn(1024, 64)
        losses = [(layers(unseen) - target(unseen)).square().mean().item()]
        print(f"seed {seed} ended with {rows} examples of rank {rank}", flush=True)
    print(f"loss {statistics.mean(losses[-10:]):.6f} of seed {seed} rank {rank}", flush=True)
print_end(rank, steps, model)
dist.destroy_process_group()
