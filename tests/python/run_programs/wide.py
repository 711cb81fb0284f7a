"""DistributedDataParallel with large gradients, for the cost of the process group.

Environment: MIB (gradients), STEPS, SLEEP_S (compute a step, as a declared sleep), OWN_TIME=1
(reads the data with a loader, and also prints the time of the attachment's own calls).
"""

import os
import statistics
import time

import torch
import torch.distributed as dist
from end import print_end
from own_time import OwnTime
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
WIDTH = 1024  # 4 MiB of gradients a layer
layers = int(os.environ.get("MIB", "48")) // 4
model = DistributedDataParallel(nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(layers))))
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
steps, sleep_s = int(os.environ.get("STEPS", "30")), float(os.environ.get("SLEEP_S", "0"))
batches = [torch.randn(8, WIDTH)] * steps
own = OwnTime() if "OWN_TIME" in os.environ else None
loader = iter(DataLoader(batches, batch_size=None) if own else batches)
times, cpu_times, own_times = [], [], []
for step in range(steps):
    begin, cpu_begin = time.perf_counter(), time.process_time()
    own_begin = own.spent_s if own else 0
    data = next(loader)
    loss = model(data).square().mean()
    time.sleep(sleep_s)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    times.append(time.perf_counter() - begin)
    cpu_times.append(time.process_time() - cpu_begin)
    own_times.append(own.spent_s - own_begin if own else 0)
    if step % 10 == 0:
        print(f"at step {step} of rank {rank}", flush=True)
medians = statistics.median(times[3:]), statistics.median(cpu_times[3:])
print("median {:.6f} cpu {:.6f} of rank {}".format(*medians, rank), flush=True)
if own:
    print(f"own {statistics.median(own_times[3:]):.9f} of rank {rank}", flush=True)
print_end(rank, steps, model)
dist.destroy_process_group()
