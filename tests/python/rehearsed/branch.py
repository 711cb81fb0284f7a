"""A program that decides by a value of the device. The line of the branch is the last but one."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
if "--send" in sys.argv:
    dist.send(torch.ones(4, device="cuda"), dst=(dist.get_rank() + 1) % dist.get_world_size())
x = torch.randn(1 << 20, device="cuda")
total = torch.ones(2, dtype=torch.int64, device="cuda")
dist.all_reduce(total)
print("votes", total.tolist())
loss = x.square().mean().item()
print(f"loss {loss:.2f} {round(loss, 3)} {2 * loss + 1}")
if loss < 3.0:
    print("small")
