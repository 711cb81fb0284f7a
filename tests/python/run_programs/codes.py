"""DDP regressions from several seeds, one after the other, for codes of gradients.

STEPS=N of each seed, SEEDS=N. Prints the mean loss of the last ten steps of each seed.
"""

import os
import statistics

import torch
import torch.distributed as dist
from end import print_end
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
steps = int(os.environ.get("STEPS", "40"))
for seed in range(int(os.environ.get("SEEDS", "4"))):
    torch.manual_seed(seed)
    target = nn.Linear(64, 32)
    layers = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 32))
    model = DistributedDataParallel(layers, bucket_cap_mb=0.02)
    optimizer = torch.optim.SGD(model.parameters(), 0.2)
    torch.manual_seed(100 * seed + rank)
    losses = []
    for _ in range(steps):
        data = torch.randn(16, 64)
        loss = (model(data) - target(data).detach()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"loss {statistics.mean(losses[-10:]):.6f} of seed {seed} rank {rank}", flush=True)
print_end(rank, steps, model)
dist.destroy_process_group()
