"""Qwen 3 of transformers under FSDP2 with every layer recomputed, as prime-rl trains it.

A program for accuracy.py: the model of transformers with compiled layers, 16-bit parameters and
gradients summed in 32 bits, the loss of 32-bit logits (whole, as in supervised fine-tuning, or
`--chunked`, as in reinforcement learning), and low-rank adapters of the layers' products with a
frozen base (`--adapter`). Its last line has the seconds of a step.
"""

import argparse
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from flash_attn import flash_attn_func
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, Qwen3Config, Qwen3ForCausalLM

#: Size of a head of every Qwen 3, and tokens of a chunk of the loss.
HEAD, CHUNK = 128, 2048


def attend(_module, query, key, value, _mask, scaling=None, **_more):
    """Attention of flash_attn before its third version."""
    turned = (each.transpose(1, 2) for each in (query, key, value))
    return flash_attn_func(*turned, softmax_scale=scaling, causal=True), None


def attend_newest(_module, query, key, value, _mask, scaling=None, **_more):
    """Attention of the newest kernels."""
    found = F.scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=scaling, enable_gqa=True
    )
    return found.transpose(1, 2), None


class Adapted(nn.Module):
    """A frozen linear layer and one adapter beside it, as prime-rl's layer of many adapters.

    Groups of rows have products of their own, and the host reads the number of rows.
    """

    def __init__(self, base, rank):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.empty(rank, base.in_features))
        self.up = nn.Parameter(torch.empty(base.out_features, rank))

    def forward(self, x):
        rows = x.flatten(0, -2)
        counts = torch.full((1,), rows.shape[0], dtype=torch.int32, device=x.device)
        ends = counts.cumsum(0, dtype=torch.int32)
        assert ends[-1] == rows.shape[0]
        product = self.base(rows)
        down, up = (torch.stack([each]).transpose(-2, -1) for each in (self.down, self.up))
        low = torch._grouped_mm(torch._grouped_mm(rows, down, offs=ends), up, offs=ends)
        scale = torch.repeat_interleave(torch.ones(1, device=x.device), counts).unsqueeze(-1)
        return (product + scale.to(low.dtype) * low).view(*x.shape[:-1], -1)


def adapt(model, rank):
    """Freezes a model and puts adapters beside the products of its layers."""
    model.requires_grad_(False)
    for layer in model.model.layers:
        for part in (layer.self_attn, layer.mlp):
            for name, child in list(part.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(part, name, Adapted(child, rank))


def chunk_loss(hidden, weight, labels):
    return F.cross_entropy(F.linear(hidden, weight).float(), labels, reduction="sum")


class Trained(nn.Module):
    """A model with its loss, of whole logits or of chunks whose logits are recomputed."""

    def __init__(self, model, chunked):
        super().__init__()
        self.model, self.chunked = model, chunked

    def forward(self, tokens):
        hidden = self.model.model(tokens, use_cache=False).last_hidden_state.flatten(0, 1)
        weight, labels = self.model.lm_head.weight, tokens.roll(-1).flatten()
        if not self.chunked:
            return chunk_loss(hidden, weight, labels) / labels.numel()
        losses = [checkpoint(chunk_loss, part, weight, label, use_reentrant=False)
                  for part, label in zip(hidden.split(CHUNK), labels.split(CHUNK))]  # fmt: skip
        return sum(losses) / labels.numel()


#: Kernels of attention by the generation of flash_attn: causal, without a mask.
ATTENTION = {"second": attend, "third": attend_newest}


def build(told):
    """Returns the sharded model."""
    config = Qwen3Config(
        vocab_size=told.vocabulary, hidden_size=told.hidden, intermediate_size=told.wide,
        num_hidden_layers=told.layers, num_attention_heads=told.heads,
        num_key_value_heads=told.key_heads, head_dim=HEAD, tie_word_embeddings=True,
        max_position_embeddings=told.sequence,
        attn_implementation=told.attention,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config).float()
    if told.adapter:
        adapt(model, told.adapter)
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    layers = model.model.layers
    for place, layer in enumerate(layers):
        wrapped = checkpoint_wrapper(layer)
        wrapped.compile()
        layers[place] = fully_shard(wrapped, mp_policy=policy)
    return fully_shard(Trained(model, told.chunked).cuda(), mp_policy=policy)


def main():
    options = argparse.ArgumentParser()
    for name in ("layers", "hidden", "heads", "key-heads", "wide", "vocabulary", "sequence",
                 "micro-batch", "accumulate"):  # fmt: skip
        options.add_argument(f"--{name}", type=int, required=True)
    options.add_argument("--adapter", type=int, default=0, metavar="RANK")
    options.add_argument("--chunked", action="store_true")
    options.add_argument("--attention", choices=list(ATTENTION), default="second")
    told = options.parse_args()
    dist.init_process_group("nccl")
    AttentionInterface.register(told.attention, ATTENTION[told.attention])
    model = build(told)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5)
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(told.accumulate):
            tokens = torch.randint(0, told.vocabulary, (told.micro_batch, told.sequence)).cuda()
            (model(tokens) / told.accumulate).backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
    print(f"seconds {seconds:.6f}", flush=True)
    dist.destroy_process_group()


main()
