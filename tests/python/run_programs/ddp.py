"""Plain DistributedDataParallel loop over text, with a broadcast buffer and gathered metrics."""

import os

import torch
import torch.distributed as dist
from end import print_end
from pace import declare_pace
from texts import examples, layers
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(
    layers(128, nn.BatchNorm1d(128)), bucket_cap_mb=0.05
)
declare_pace(model)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
steps = int(os.environ.get("STEPS", "40"))
contexts, following = examples()
for step in range(steps):
    torch.manual_seed(1000 * step + rank)
    drawn = torch.randint(len(contexts), (16,))
    loss = nn.functional.cross_entropy(model(contexts[drawn]), following[drawn])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses = [torch.zeros(()) for _ in range(world)]
    dist.all_gather(losses, loss.detach())
    tokens = torch.tensor([contexts[drawn].numel()])
    dist.all_reduce(tokens)
    assert len(losses) == world and tokens.item() == world * contexts[drawn].numel()
    if step % 10 == 0:
        print(f"at step {step} of rank {rank}", flush=True)
dist.barrier()
print_end(rank, steps, model)
dist.destroy_process_group()
