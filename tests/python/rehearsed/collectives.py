"""Two training steps of a small model, under DDP or FSDP2: on GPUs, rehearsed ones, or the CPU.

collectives.py KIND... [FILE.json]: on the CPU, rank 0 writes the collectives of the last step of
each kind, in order, as they were dispatched.
"""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils._pytree import tree_leaves
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint


class Log(TorchDispatchMode):
    """Collectives of this process: operator and bytes of the whole buffer."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(each.__name__ == "DTensor" for each in types):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[1].strip("_")
        named = func.namespace == "_c10d_functional" and not name.startswith("wait")
        if func.namespace == "c10d" or (named and "wrap" not in name):
            sizes = [
                sum(t.nbytes for t in tree_leaves(each) if isinstance(t, torch.Tensor))
                for each in (*args[:2], result if named else ())
            ]
            self.rows.append([name, max(sizes)])
        return result


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256))

    def forward(self, x):
        return x + checkpoint(self.net, x, use_reentrant=False)


def wrapped(kind, net, device):
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1)
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for block in net:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(net, mesh=mesh, mp_policy=policy)


def train(kind, device, log):
    torch.manual_seed(0)
    net = wrapped(kind, nn.Sequential(*[Block() for _ in range(3)]).to(device), device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(3):
        begin = len(log.rows) if log else 0
        loss = net(torch.randn(8, 256, device=device)).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return log.rows[begin:] if log else []


def main():
    words = sys.argv[1:]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    log = None
    if device == "cpu":
        torch.autograd.set_multithreading_enabled(False)
        log = Log()
        log.__enter__()
    seen = {kind: train(kind, device, log) for kind in words if kind in ("ddp", "fsdp2")}
    if log and dist.get_rank() == 0:  # the last word is the file
        with open(words[-1], "w", encoding="utf-8") as file:
            json.dump(seen, file)
    dist.destroy_process_group()


main()
