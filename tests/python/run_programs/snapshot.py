"""FSDP2 or DDP loop with two lines of orrery.torch: WRAP=fsdp|ddp|fixed, FOLDER=PATH, EVERY=STEPS.

fixed: DDP that keeps the buckets of its first step.

Two passes over a shuffled data set, with dropout: all that a resumption must restore. With END=PATH
the loop ends once that file exists. WORKERS=N processes of the loader.
"""

import os

import orrery.torch
import torch
import torch.distributed as dist
from end import print_end
from pace import declare_pace
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Dropout(0.1), nn.Linear(256, 64))
if os.environ.get("WRAP") == "fsdp":
    fully_shard(model, mesh=dist.init_device_mesh("cpu", (dist.get_world_size(),)))
else:
    fixed = os.environ.get("WRAP") == "fixed"
    model = DistributedDataParallel(model, find_unused_parameters=fixed)
declare_pace(model)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
torch.manual_seed(100 + rank)
steps = int(os.environ.get("STEPS", "40"))
data = torch.utils.data.TensorDataset(torch.randn(8 * steps // 2, 64))
workers = int(os.environ.get("WORKERS", "0"))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=workers)
snapshots = orrery.torch.state(
    model=model, optimizer=optimizer, scheduler=scheduler,
    every=int(os.environ.get("EVERY", "5")), folder=os.environ.get("FOLDER"),
)  # fmt: skip
print(f"begins at step {snapshots.step} of rank {rank}", flush=True)
for _epoch in range(2):
    for (batch,) in snapshots.steps(loader):
        loss = (model(batch) - batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if "END" in os.environ:
            ends = torch.tensor([os.path.exists(os.environ["END"])], dtype=torch.int)
            dist.all_reduce(ends, dist.ReduceOp.MAX)
            if ends.item():
                break
        if snapshots.step % 10 == 0:
            print(f"at step {snapshots.step} of rank {rank}", flush=True)
    scheduler.step()
parameters = [getattr(each, "full_tensor", lambda each=each: each)() for each in model.parameters()]
print_end(rank, snapshots.step, model, parameters)
dist.destroy_process_group()
