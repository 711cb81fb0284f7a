"""Memory and time of a small model on one GPU, printed as JSON."""

import json
import time

import torch
from torch import nn

MIB = 1 << 20
net = nn.Sequential(nn.Linear(1024, 1024, bias=False), nn.ReLU(), nn.Linear(1024, 1024, bias=False))
net.cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
seen = {"parameters": torch.cuda.memory_allocated()}
x = torch.randn(512, 1024, device="cuda")
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
for _ in range(3):
    optimizer.zero_grad()
    torch.cuda.reset_peak_memory_stats()
    begin.record()
    loss = net(x).sum()
    loss.backward()
    optimizer.step()
    end.record()
seen["peak"] = torch.cuda.max_memory_allocated()
before = time.perf_counter()
torch.cuda.synchronize()
seen["event_s"] = begin.elapsed_time(end) / 1e3
a = torch.empty(8192, 8192, device="cuda", dtype=torch.bfloat16)
start = time.time(), time.perf_counter()
a @ a
torch.cuda.synchronize()
seen["matmul_s"] = time.time() - start[0], time.perf_counter() - start[1]
del a
votes = torch.tensor([3, 4, 5], device="cuda")
votes[1] += 10
seen["votes"] = votes.sum().item(), [votes.max().item(), bool((votes > 4).all())]
seen["total"] = torch.cuda.get_device_properties(0).total_memory
seen["is_cpu_real"] = torch.arange(5).double().mean().item()
try:
    torch.empty(200 << 30, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError as error:
    seen["refused"] = str(error)
kept = []
try:
    while True:
        kept.append(torch.empty(10 << 30, dtype=torch.uint8, device="cuda"))
except torch.cuda.OutOfMemoryError:
    seen["kept"] = len(kept)
kept.clear()
first, second = (each.weight for each in net if isinstance(each, nn.Linear))
seen["addresses"] = [
    first.data_ptr() != second.data_ptr(),
    first.data_ptr() == first.view(-1).data_ptr() == first.untyped_storage().data_ptr(),
    first[1].data_ptr() - first.data_ptr(),
]
print(json.dumps(seen), flush=True)
torch.empty(90 << 30, dtype=torch.uint8, device="cuda")
