"""Sums of tensors of several types, sizes and layouts, printed as a hash of their bits.

Prints whether this process adds them in memory that ranks share. STEPS=N optimizer steps follow.
"""

import hashlib
import os

import torch
import torch.distributed as dist
from end import print_end
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
bits = hashlib.sha256()
for kind in (torch.float32, torch.float64, torch.int32, torch.int64, torch.float16):
    for count in (0, 1, 17, 4099, 700001):
        values = torch.randn(count, dtype=torch.float64) * 10.0 ** torch.randint(-3, 4, (count,))
        tensor = values.to(kind)
        dist.all_reduce(tensor)
        bits.update(tensor.numpy().tobytes())
columns = torch.randn(300, 200).t()  # Gloo adds in the order of memory
dist.all_reduce(columns)
bits.update(columns.contiguous().numpy().tobytes())
largest = torch.randn(1000)
dist.all_reduce(largest, op=dist.ReduceOp.MAX)
bits.update(largest.numpy().tobytes())
with open("/proc/self/maps", encoding="utf-8") as file:
    shared = "memfd:orrery-sums" in file.read()
print(f"shared memory {shared}, sums {bits.hexdigest()[:16]} of rank {rank}", flush=True)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(int(os.environ.get("STEPS", "1"))):
    optimizer.step()
print_end(rank, 1, model)
dist.destroy_process_group()
