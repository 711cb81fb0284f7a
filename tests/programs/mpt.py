"""MPT in plain PyTorch, trained as LLM Foundry trains it: FSDP of whole blocks, 16-bit parameters.

A program for accuracy.py. LLM Foundry's own trainer does not end in a rehearsal (table.py), so this
program has its model (learned positions, biases, kernels of flash_attn, tied embeddings, a loss of
16-bit logits), its sharding (FSDP's gathers after a block's backward pass, gradients summed in 16
bits in every micro-batch) and its optimizer, which updates one tensor after the other. Its last
line has the seconds of a step of `--accumulate` micro-batches; only steps of one and of two of them
run.
"""

import argparse
import functools
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from flash_attn import flash_attn_func
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.distributed.fsdp import (
    BackwardPrefetch,
    FullyShardedDataParallel,
    MixedPrecision,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        parts = self.qkv(self.norm_1(x)).chunk(3, dim=-1)
        heads = (part.unflatten(-1, (self.heads, -1)) for part in parts)
        x = x + self.out(flash_attn_func(*heads, causal=True).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Model(nn.Module):
    def __init__(self, told):
        super().__init__()
        self.words = nn.Embedding(told.vocabulary, told.hidden)
        self.positions = nn.Embedding(told.sequence, told.hidden)
        self.blocks = nn.ModuleList(Block(told.hidden, told.heads) for _ in range(told.layers))
        self.norm = nn.LayerNorm(told.hidden)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.words.weight)


class DecoupledAdamW(torch.optim.Optimizer):
    """AdamW of one tensor after the other, whose decay does not depend on the learning rate."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr, "betas": (0.9, 0.95), "decay": 1e-5})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            first, second = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["step"] = 0
                    state["mean"] = torch.zeros_like(parameter)
                    state["square"] = torch.zeros_like(parameter)
                state["step"] += 1
                parameter.mul_(1 - group["decay"])
                state["mean"].mul_(first).add_(parameter.grad, alpha=1 - first)
                square = state["square"].mul_(second)
                square.addcmul_(parameter.grad, parameter.grad, value=1 - second)
                scale = (1 - second ** state["step"]) ** 0.5
                below = (square.sqrt() / scale).add_(1e-8)
                rate = group["lr"] / (1 - first ** state["step"])
                parameter.addcdiv_(state["mean"], below, value=-rate)


def shard(model, checkpointed):
    """Returns the model with each block as a unit of FSDP, recomputed in backward or not."""
    half = torch.bfloat16
    model = FullyShardedDataParallel(
        model, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.cuda.current_device(),
        mixed_precision=MixedPrecision(param_dtype=half, reduce_dtype=half, buffer_dtype=half),
        backward_prefetch=BackwardPrefetch.BACKWARD_POST, limit_all_gathers=True,
        use_orig_params=True,
    )  # fmt: skip
    if checkpointed:
        apply_activation_checkpointing(
            model, checkpoint_wrapper_fn=functools.partial(checkpoint_wrapper),
            check_fn=lambda module: isinstance(module, Block),
        )  # fmt: skip
    return model


def step(model, optimizer, told, count):
    """Returns the seconds of a step of `count` micro-batches."""
    begin = time.perf_counter()
    for _ in range(count):
        tokens = torch.randint(0, told.vocabulary, (told.micro_batch, told.sequence)).cuda()
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens.roll(-1).flatten()) / count
        del logits
        loss.backward()
    model.clip_grad_norm_(1.0)
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def main():
    options = argparse.ArgumentParser()
    for name in ("layers", "hidden", "heads", "vocabulary", "sequence", "micro-batch",
                 "accumulate"):  # fmt: skip
        options.add_argument(f"--{name}", type=int, required=True)
    options.add_argument("--checkpointed", action="store_true")
    told = options.parse_args()
    dist.init_process_group("nccl")
    model = shard(Model(told), told.checkpointed)
    optimizer = DecoupledAdamW(model.parameters(), lr=1e-4)
    _, one, two = (step(model, optimizer, told, count) for count in (1, 1, 2))
    print(f"seconds {one + (told.accumulate - 1) * (two - one):.6f}", flush=True)
    dist.destroy_process_group()


main()
