"""Plain DistributedDataParallel loop with a broadcast buffer and gathered metrics."""

import os

import torch
import torch.distributed as dist
from end import print_end
from pace import declare_pace
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(
    nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.Tanh(), nn.Linear(256, 64)),
    bucket_cap_mb=0.05,
)
declare_pace(model)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
steps = int(os.environ.get("STEPS", "40"))
for step in range(steps):
    torch.manual_seed(1000 * step + rank)
    data = torch.randn(16, 64)
    loss = (model(data) - data).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses = [torch.zeros(()) for _ in range(world)]
    dist.all_gather(losses, loss.detach())
    tokens = torch.tensor([data.numel()])
    dist.all_reduce(tokens)
    assert len(losses) == world and tokens.item() == world * data.numel()
    if step % 10 == 0:
        print(f"at step {step} of rank {rank}", flush=True)
dist.barrier()
print_end(rank, steps, model)
dist.destroy_process_group()
