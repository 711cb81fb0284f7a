"""Parts of PyTorch and of kernel packages that large programs use; prints each result as JSON."""

import json
import os

import flash_attn
import grouped_gemm
import torch
import torch.distributed as dist
from flash_attn.bert_padding import pad_input, unpad_input
from flash_attn.layers.rotary import apply_rotary_emb
from flash_attn.ops.triton.layer_norm import layer_norm_fn

N = 1 << 15


class Tied(torch.nn.Parameter):
    """Parameter with a method of its own."""

    def name_of_owner(self):
        return "embedding"


def attention():
    parts = [torch.randn(2, 1024, 8, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    parts[0].requires_grad_()
    output = flash_attn.flash_attn_func(*parts, causal=True)
    bounds = torch.tensor([0, 1024, 2048], dtype=torch.int32, device="cuda")
    packed = [each.reshape(2048, 8, 64) for each in parts]
    other = flash_attn.flash_attn_varlen_func(*packed, bounds, bounds, 1024, 1024, causal=True)
    turned = apply_rotary_emb(output, *[torch.randn(1024, 32, device="cuda") for _ in range(2)])
    norm = layer_norm_fn(turned, torch.ones(64, device="cuda"), is_rms_norm=True)
    (norm.sum() + other.sum()).backward()
    return [list(output.shape), list(other.shape), list(parts[0].grad.shape)]


def groups_of_rows():
    rows = torch.randn(4096, 512, device="cuda", dtype=torch.bfloat16)
    matrices = torch.randn(8, 512, 256, device="cuda", dtype=torch.bfloat16)
    sizes = torch.full((8,), 512)
    return list(grouped_gemm.ops.gmm(rows, matrices, sizes).shape)


def known_masks():
    mask = torch.arange(8, device="cuda") > 4
    rows = torch.randn(8, N, device="cuda")
    padding = torch.tensor([[1, 1, 0], [1, 0, 0]], device="cuda").bool()
    kept, places, bounds, longest, _ = unpad_input(torch.randn(2, 3, N, device="cuda"), padding)
    back = pad_input(kept, places, 2, 3)
    return [list(rows[mask].shape), mask.nonzero().flatten().tolist(), list(kept.shape),
            bounds.tolist(), longest, list(back.shape)]  # fmt: skip


def even_counts():
    experts = torch.randn(N, 8, device="cuda").argmax(1)
    counts = torch.histc(experts.float(), bins=5, min=0, max=4)
    return [counts.tolist(), counts.view(5, 1).sum(1).int().tolist()]


def slices():
    buffer = torch.zeros(2 * N, device="cuda")
    before = torch.cuda.memory_allocated()
    storage = buffer.untyped_storage()
    part = torch.empty([], device=storage[4:8].device).set_(source=storage[4 * N : 8 * N])
    same = part.untyped_storage().data_ptr() == storage.data_ptr()
    return [list(part.shape), same, torch.cuda.memory_allocated() - before < 4096]


def generators():
    torch.cuda.manual_seed(7)
    state = torch.cuda.get_rng_state()
    torch.cuda.manual_seed(8)
    torch.cuda.set_rng_state(state)
    own = torch.Generator(device="cuda").manual_seed(3)
    drawn = torch.randn(4, device="cuda", generator=own)
    plain = torch.Generator()
    plain.set_state(plain.get_state().to("cuda").cpu())  # accelerate sends a state so
    return [state.numel(), torch.cuda.initial_seed(), list(drawn.shape),
            len(torch.cuda.default_generators)]  # fmt: skip


def gathered_into_a_view():
    table = torch.zeros(dist.get_world_size(), 3, device="cuda")
    table[dist.get_rank(), 1] = 5
    dist.all_gather_into_tensor(table.view(-1), table[dist.get_rank()])
    return table[:, 1].tolist()


def exchanged():
    sent = torch.arange(4, device="cuda")
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    return received.tolist()


def parameters():
    tied = Tied(torch.randn(N, device="cuda"))
    plain = torch.nn.Parameter(torch.empty(2048, 1024))
    moved = type(plain)(plain.to("meta"), requires_grad=True, **plain.__dict__)
    return [tied.name_of_owner(), isinstance(tied, torch.nn.Parameter), str(moved.device)]


def quotient():
    count = (torch.randn(N, device="cuda") > 0).sum()
    return list((torch.ones(3, device="cuda") / count.item()).shape)


def time_of_a_child():
    read, write = os.pipe()
    if os.fork() == 0:
        import time

        begin = time.monotonic()
        time.sleep(0.01)
        os.write(write, b"moves" if time.monotonic() > begin else b"stands")
        os._exit(0)
    os.wait()
    return os.read(read, 10).decode()


dist.init_process_group("nccl")
PARTS = (
    attention, groups_of_rows, known_masks, even_counts, slices, generators, gathered_into_a_view,
    exchanged, parameters, quotient, time_of_a_child,
)  # fmt: skip
print(json.dumps({part.__name__: part() for part in PARTS}))
flash_attn.flash_attn_interface.flash_attn_with_kvcache()
