"""DDP loop in double precision whose every pass is one step of two accumulated batches.

The learning rate is 0 and the order fixed, so that all steps have equal gradients, however their
examples are dealt. STEPS=N; BATCH=N examples a batch, EXAMPLE_S seconds of declared compute for
each; WIDTH=N of the layers; SLOW=FACTOR makes the last rank slower, NORM=1 adds a BatchNorm.
LOSS=global divides a sum by the examples of all ranks, LOSS=contrast compares the examples of a
batch with each other.
"""

import contextlib
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.set_default_dtype(torch.float64)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
width = int(os.environ.get("WIDTH", "32"))
layers = [nn.Linear(16, width), nn.Tanh(), nn.Linear(width, 8)]
if "NORM" in os.environ:
    layers.insert(1, nn.BatchNorm1d(width))
model = DistributedDataParallel(nn.Sequential(*layers))
batch = int(os.environ.get("BATCH", "8"))
data = TensorDataset(torch.randn(2 * batch * world, 16), torch.randn(2 * batch * world, 8))
loader = DataLoader(data, batch, sampler=DistributedSampler(data, shuffle=False))
optimizer = torch.optim.SGD(model.parameters(), 0)


def loss_of(outputs, targets):
    """Return the loss of a batch, of the kind LOSS."""
    kind = os.environ.get("LOSS", "mean")
    if kind == "contrast":
        return nn.functional.cross_entropy(outputs @ targets.T, torch.arange(len(outputs)))
    if kind == "mean":
        return (outputs - targets).square().mean()
    count = torch.tensor([outputs.numel()])
    dist.all_reduce(count)
    return (outputs - targets).square().sum() * world / count.item()


example_s = float(os.environ.get("EXAMPLE_S", "0.002"))
if rank == world - 1:
    example_s *= float(os.environ.get("SLOW", "1"))
first = None
for step in range(int(os.environ.get("STEPS", "40"))):
    begin_s = time.monotonic()
    optimizer.zero_grad()
    rows = []
    for at, (inputs, targets) in enumerate(loader):
        rows.append(len(inputs))
        time.sleep(example_s * len(inputs))
        with model.no_sync() if at == 0 else contextlib.nullcontext():
            (loss_of(model(inputs), targets) / 2).backward()
    gradient = torch.cat([each.grad.flatten() for each in model.parameters()])
    first = gradient.clone() if first is None else first
    error = float((gradient - first).abs().max() / first.abs().max())
    optimizer.step()
    took_s = time.monotonic() - begin_s
    print(f"step {step} of rank {rank}: {rows} rows, error {error}, {took_s:.4f} s", flush=True)
dist.destroy_process_group()
