"""Times of attention by PyTorch's function and by flash_attn; mask of a model of transformers.

attentions.py kernels   prints the seconds of both, as JSON
attentions.py mask      one forward pass of a small Llama
"""

import json
import sys
import time

import torch
import torch.nn.functional as F


def seconds_of(call, shape):
    """Returns the time of a forward and a backward pass."""
    parts = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    for each in parts:
        each.requires_grad_()
    gradient = torch.ones_like(parts[0])
    torch.cuda.synchronize()
    begin = time.perf_counter()
    call(*parts).backward(gradient)
    torch.cuda.synchronize()
    return time.perf_counter() - begin


if sys.argv[1] == "kernels":
    from flash_attn import flash_attn_func

    own = seconds_of(lambda *parts: F.scaled_dot_product_attention(*parts, is_causal=True),
                     (2, 32, 16384, 128))  # fmt: skip
    other = seconds_of(lambda *parts: flash_attn_func(*parts, causal=True), (2, 16384, 32, 128))
    print(json.dumps([own, other]))
else:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128,
                         num_hidden_layers=2, num_attention_heads=4)  # fmt: skip
    model = LlamaForCausalLM(config).cuda().bfloat16()
    model(torch.randint(0, 256, (2, 512), device="cuda"), use_cache=False)
