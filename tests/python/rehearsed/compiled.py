"""A gated layer between products, eager or compiled.

compiled.py eager|backend|function|module|checkpointed|complex|sharded
Each product has 256 MiB for its result, so that the bytes of kernels can be counted by hand.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.utils.checkpoint import checkpoint

ROWS, WIDTH = 16384, 8192


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, WIDTH, bias=False)
        self.down = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


def turned(x):
    """Returns the numbers of x in pairs, as complex numbers times i."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * torch.full_like(pairs, 1j)).flatten(-2).bfloat16()


def sharded_bytes():
    """Returns the bytes of the device that the sharded result of a compiled function takes."""
    dist.init_process_group("nccl")
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    local = torch.ones(ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)
    tensor = DTensor.from_local(local, mesh, [Shard(0)])
    before = torch.cuda.memory_allocated()
    result = torch.compile(lambda x: x * 2)(tensor)
    return torch.cuda.memory_allocated() - before, result.shape


kind = sys.argv[1]
if kind == "sharded":
    print(sharded_bytes()[0])
    sys.exit()
model = Gated().cuda().bfloat16()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
called = model
if kind == "function":
    called = torch.compile(lambda x: model(x))
elif kind == "module":
    called = torch.compile(model)
elif kind == "checkpointed":
    called = torch.compile(lambda x: checkpoint(model, x, use_reentrant=False))
elif kind == "complex":
    called = torch.compile(lambda x: model(turned(x)))
elif kind == "backend":
    called = torch.compile(model, backend="aot_eager")
x = torch.randn(ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)
for _ in range(3):
    called(x).backward(torch.ones_like(x))
    optimizer.step()
    optimizer.zero_grad()
