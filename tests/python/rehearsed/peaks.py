"""Peaks of memory that the test counts by hand: of a loss over a vocabulary, of the gradients and
buckets of DistributedDataParallel, and of checkpointed layers under FSDP2.

peaks.py KIND: prints max_memory_allocated in bytes.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

TOKENS, HIDDEN, VOCABULARY, LAYERS = 4096, 1024, 32768, 8


def loss():
    """Cross-entropy of 16-bit logits, in fp32, as in most training programs."""
    head = nn.Linear(HIDDEN, VOCABULARY, bias=False, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(TOKENS, HIDDEN, device="cuda", dtype=torch.bfloat16)
    y = torch.zeros(TOKENS, device="cuda", dtype=torch.int64)
    logits = head(x)
    F.cross_entropy(logits.float(), y).backward()


def layers(count, **more):
    return nn.Sequential(*(nn.Linear(HIDDEN, HIDDEN, bias=False, **more) for _ in range(count)))


def ddp(view):
    model = nn.parallel.DistributedDataParallel(
        layers(LAYERS, device="cuda"), gradient_as_bucket_view=view
    )
    x = torch.randn(1, HIDDEN, device="cuda")
    for _ in range(3):
        model.zero_grad()
        model(x).sum().backward()


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(HIDDEN, 4 * HIDDEN, bias=False), nn.GELU(), nn.Linear(4 * HIDDEN, HIDDEN)
        )

    def forward(self, x):
        return checkpoint(self.net, x, use_reentrant=False)


def checkpointed():
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    model = nn.Sequential(*(Checkpointed() for _ in range(LAYERS))).cuda()
    for layer in model:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    torch.cuda.reset_peak_memory_stats()
    x = torch.randn(TOKENS * 8, HIDDEN, device="cuda", dtype=torch.bfloat16)
    model(x).sum().backward()


def main():
    dist.init_process_group("nccl")
    kinds = {"loss": loss, "ddp": lambda: ddp(False), "ddp-view": lambda: ddp(True),
             "checkpointed": checkpointed}  # fmt: skip
    kinds[sys.argv[1]]()
    torch.cuda.synchronize()
    print(torch.cuda.max_memory_allocated())


main()
