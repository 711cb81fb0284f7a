"""Many optimizer steps that do next to nothing, for the cost of reporting a step. STEPS=N."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
dist.init_process_group("gloo")
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
loader = torch.utils.data.DataLoader(torch.ones(int(os.environ.get("STEPS", "4000")), 1))
model(torch.ones(1, 1)).sum().backward()
times = []
for _ in loader:
    begin = time.perf_counter()
    optimizer.step()
    times.append(time.perf_counter() - begin)
whole = sorted(times[100:])
print(f"optimizer step {1e6 * whole[len(whole) // 2]:.2f} us", flush=True)
dist.destroy_process_group()
