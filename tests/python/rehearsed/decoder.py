"""Decoder of any size, trained under DDP, FSDP2 or DTensor's tensor parallelism: what a user would
write. It prints nothing but its last step time and its peak of memory.
"""

import argparse
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)


class Layer(nn.Module):
    def __init__(self, hidden, head):
        super().__init__()
        self.head = head
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.query, self.key, self.value, self.out = (nn.Linear(hidden, hidden) for _ in range(4))
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        y = self.norm1(x)
        heads = (
            w(y).unflatten(-1, (-1, self.head)).transpose(1, 2)
            for w in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self, told):
        super().__init__()
        self.embedding = nn.Embedding(told.vocabulary, told.hidden)
        self.layers = nn.ModuleList(Layer(told.hidden, told.head) for _ in range(told.layers))
        self.output = nn.Linear(told.hidden, told.vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(x)


PLAN = {
    **{name: ColwiseParallel() for name in ("query", "key", "value", "up")},
    **{name: RowwiseParallel() for name in ("out", "down")},
}


def wrapped(model, told):
    """The model under the parallelism of the options."""
    ranks = dist.get_world_size()
    if ranks % told.tp or told.hidden // told.head % told.tp:
        raise ValueError(f"{told.tp} tensor-parallel ranks do not divide the job")
    mesh = init_device_mesh("cuda", (ranks // told.tp, told.tp), mesh_dim_names=("dp", "tp"))
    if told.tp > 1:
        for layer in model.layers:
            parallelize_module(layer, mesh["tp"], PLAN)
    if told.kind == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh["dp"], mp_policy=policy)
    return fully_shard(model, mesh=mesh["dp"], mp_policy=policy)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--kind", choices=("ddp", "fsdp2"), default="fsdp2")
    for name, value in (("layers", 2), ("hidden", 1024), ("head", 128), ("vocabulary", 8192),
                        ("sequence", 2048), ("micro-batch", 1), ("accumulate", 1), ("tp", 1),
                        ("steps", 3)):  # fmt: skip
        options.add_argument(f"--{name}", type=int, default=value)
    options.add_argument("--deferred", action="store_true",
                         help="parameters come to the device divided; for models beyond its memory")
    told = options.parse_args()
    dist.init_process_group("nccl")
    with torch.device("meta" if told.deferred else "cpu"):
        model = Decoder(told)
    if not told.deferred:
        model = model.cuda()
    if told.kind == "ddp":
        model = model.to(torch.bfloat16)
    model = wrapped(model, told)
    if told.deferred:
        model.to_empty(device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(told.steps):
        begin = time.perf_counter()
        for number in range(told.accumulate):
            last = number + 1 == told.accumulate
            if told.kind == "ddp":
                model.require_backward_grad_sync = last
            shape = (told.micro_batch, told.sequence)
            tokens = torch.randint(0, told.vocabulary, shape).cuda()
            logits = model(tokens)
            F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten()).backward()
        if told.tp == 1:  # norms of tensors on different meshes have no sum
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    print(f"{seconds:.6f} s, {torch.cuda.max_memory_allocated()} bytes", flush=True)
    dist.destroy_process_group()


main()
