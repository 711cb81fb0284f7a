"""Plain FSDP2 loop: its reduce-scatter cannot be carried through a loss."""

import os

import torch
import torch.distributed as dist
from end import print_end
from torch import nn
from torch.distributed.fsdp import fully_shard

torch.manual_seed(0)
dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64))
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
