"""HSDP loop of FSDP2: two replicas, each of which shards the parameters between two ranks."""

import os

import torch
import torch.distributed as dist
from end import print_end
from pace import declare_pace
from torch import nn
from torch.distributed.fsdp import fully_shard

torch.manual_seed(0)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = dist.init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard"))
model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64))
declare_pace(model)
for layer in (model[0], model[2]):
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
steps = int(os.environ.get("STEPS", "40"))
for step in range(steps):
    torch.manual_seed(1000 * step + rank)
    data = torch.randn(16, 64)
    loss = (model(data) - data).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"at step {step} of rank {rank}", flush=True)
print_end(rank, steps, model, [each.full_tensor() for each in model.parameters()])
dist.destroy_process_group()
