"""DistributedDataParallel over NCCL, whose ranks may share a GPU: step times and a hash.

STEPS, WIDTH, LAYERS and BATCH are the sizes; KILL=RANK:STEP,... kills ranks before the all-reduces
of a step; BACKEND=gloo runs on CPUs.
"""

import os
import signal
import time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
# Must precede NCCL: ranks that share a GPU are each on a node of their own to NCCL.
os.environ.setdefault("NCCL_HOSTID", f"rank-{RANK}")
os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist
from end import print_end
from torch import nn
from torch.nn.parallel import DistributedDataParallel

backend = os.environ.get("BACKEND", "nccl")
device = torch.device("cuda:0" if backend == "nccl" else "cpu")
if backend == "nccl":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    device = torch.device("cuda", torch.cuda.current_device())
steps = int(os.environ.get("STEPS", "40"))
width, layers = int(os.environ.get("WIDTH", "256")), int(os.environ.get("LAYERS", "4"))
batch = int(os.environ.get("BATCH", "64"))
kills = [tuple(map(int, each.split(":"))) for each in os.environ.get("KILL", "").split(",") if each]

torch.manual_seed(0)
dist.init_process_group(backend)
blocks = [each for _ in range(layers) for each in (nn.Linear(width, width), nn.Tanh())]
model = DistributedDataParallel(nn.Sequential(*blocks).to(device))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
times = []
for step in range(steps):
    torch.manual_seed(1000 * step + RANK)
    data = torch.randn(batch, width, device=device)
    begin = time.perf_counter()
    loss = (model(data) - data).square().mean()
    optimizer.zero_grad()
    if (RANK, step) in kills:
        os.kill(os.getpid(), signal.SIGKILL)
    loss.backward()
    optimizer.step()
    tokens = torch.tensor([data.numel()], device=device)
    dist.all_reduce(tokens)
    losses = [torch.zeros((), device=device) for _ in range(WORLD)]
    dist.all_gather(losses, loss.detach())
    assert tokens.item() == WORLD * data.numel()
    times.append(time.perf_counter() - begin)
dist.barrier()
late = sorted(times[5:] or times)
print(f"rank {RANK}: median step {1e3 * late[len(late) // 2]:.3f} ms", flush=True)
print_end(RANK, steps, model, [each.cpu() for each in model.parameters()])
dist.destroy_process_group()
