"""Calls of operators with and without the rehearsal's memory of calls, and a training loop.

Prints a JSON object: `differences` of equal calls without and with the memory of calls (results,
kernels, simulated time, memory); `remembered`, how many of the calls the memory answers; `new`, the
calls that a third and a fourth step add to the memory; `values`, small values that stay true; and
`errors` of calls that fail every time.
"""

import json
import sys

import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

CALLS = next(m for m in _get_current_dispatch_mode_stack() if hasattr(m, "read_scalar"))._calls
SESSION = sys.modules["orrery_programs.session"].Session.current
DEVICE = "cuda"
big = torch.randn(512, 256, device=DEVICE)
half = torch.randn(512, 256, device=DEVICE, dtype=torch.bfloat16)
square, square_half = torch.randn(300, 300, device=DEVICE), torch.ones(300, 300, device=DEVICE)
square_half, square_integer = square_half.half(), square_half.int()
square_host = nn.Parameter(torch.randn(300, 300)).detach()
cube = torch.randn(4, 128, 256, device=DEVICE)
whole = torch.arange(512 * 256, device=DEVICE).view(512, 256)
rows = torch.arange(64, device=DEVICE)
with torch.inference_mode():
    of_inference = torch.arange(512 * 256, device=DEVICE).view(512, 256)
turned = torch.view_as_complex(big.view(512, 128, 2))


def lists():
    return [big.clone(), big.clone()], [big, big]


def added(*alphas):
    left, right = lists()
    torch._foreach_add_(left, right, alpha=alphas[0])
    return left


def resized():
    made = torch.empty(4, device=DEVICE)
    return made.resize_(512, 256)


def turned_in_place():
    made = big.clone()
    made.t_()
    return made


def counted(end):
    return torch.arange(0, end, out=torch.empty(5, device=DEVICE))


def written(*shape):
    out = torch.empty(*shape, device=DEVICE)
    torch.add(big, big, out=out)
    return out


#: Calls in pairs that differ in a number, a type, a stride or an offset only.
TRIED = {
    "sum of integers": lambda: whole + 1,
    "sum with a fraction": lambda: whole + 1.0,
    "sum with true": lambda: whole + True,
    "columns": lambda: big.sum(0),
    "rows": lambda: big.sum(1),
    "kept": lambda: big.sum(1, keepdim=True),
    "transposed": lambda: square.t() * 2,
    "plain": lambda: square * 2,
    "half": lambda: square_half * 2,
    "integers": lambda: square_integer * 2,
    "of the host": lambda: square_host * 2,
    "upper": lambda: big[:256],
    "lower": lambda: big[256:],
    "part of the upper": lambda: big[:256][:9],
    "part of the lower": lambda: big[256:][:9],
    "view": lambda: big.view(256, 512),
    "same memory": lambda: torch.ops.aten._unsafe_view(big, [256, 512]),
    "reshaped copy": lambda: big.t().reshape(-1),
    "product": lambda: big @ big.t(),
    "half product": lambda: half @ half.t(),
    "batched": lambda: torch.bmm(cube, cube.transpose(1, 2)),
    "parts": lambda: big.split(100),
    "chunks": lambda: big.chunk(2, 1),
    "largest": lambda: big.max(1),
    "joined": lambda: torch.cat([big, big]),
    "joined columns": lambda: torch.cat([big, big], 1),
    "stacked": lambda: torch.stack([big, big.clone()]),
    "picked rows": lambda: big[rows],
    "picked columns": lambda: big[:, rows],
    "cast": lambda: big.to(torch.bfloat16),
    "cast to its type": lambda: big.to(torch.float32),
    "copied": lambda: big.to(torch.float32, copy=True),
    "in place": lambda: big.clone().mul_(2),
    "in place with itself": lambda: (lambda x: x.add_(x))(big.clone()),
    "lists": lambda: added(1),
    "lists by another number": lambda: added(2.5),
    "resized": resized,
    "turned in place": turned_in_place,
    "out": lambda: written(512, 256),
    "out of another shape": lambda: written(0),
    "out of arange": lambda: counted(5.0),
    "out of a longer arange": lambda: counted(7.0),
    "conjugate": lambda: turned.conj(),
    "product of a conjugate": lambda: turned.conj() * turned,
    "imaginary part of a conjugate": lambda: turned.conj().imag,
    "real view": lambda: torch.view_as_real(turned),
    "zeros": lambda: torch.zeros(512, 256, device=DEVICE),
    "zeros of half": lambda: torch.zeros(512, 256, device=DEVICE, dtype=torch.bfloat16),
    "like": lambda: torch.zeros_like(big.t()),
    "attention": lambda: torch.ops.aten._scaled_dot_product_flash_attention(
        *[half.view(1, 512, 4, 64).transpose(1, 2)] * 3, 0.0, True
    )[0],
    "norm": lambda: nn.functional.layer_norm(big, (256,)),
    "dropout": lambda: nn.functional.dropout(big, 0.5),
    "from the host": lambda: torch.ones(512, 256).to(DEVICE),
    "to the host": lambda: big.cpu(),
    "expanded": lambda: big[:1].expand(64, 256) + 1,
    "view of the integers": lambda: whole.view(256, 512),
    "view of inference": lambda: of_inference.view(256, 512),
}
FAILING = {
    "shapes that do not fit": lambda: big @ big,
    "a view that does not fit": lambda: big.view(100, 100),
}


def seen_of(result):
    """Returns the metadata of results, and with which of the tensors they share memory."""
    results = result if isinstance(result, (list, tuple)) else [result]
    shared = [each.untyped_storage()._cdata for each in (big, half, cube, whole, turned, square)]
    return [
        (
            list(each.shape), list(each.stride()), each.storage_offset(), str(each.dtype),
            str(each.device), each.requires_grad, each.is_conj(), each.is_neg(), each.is_leaf,
            each.untyped_storage().nbytes(), each._is_view(), each.is_inference(),
            0 if each.is_inference() else each._version,
            [each.untyped_storage()._cdata == one for one in shared],
            str(torch._C._dispatch_keys(each)), type(each).__name__,
        )
        for each in results
    ]  # fmt: skip


def measured(call):
    """Returns what a call returns, with its kernels, simulated time and memory."""
    clock = SESSION.clock
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    begin, first, base = clock.now, len(SESSION.record.rows), torch.cuda.memory_allocated()
    result = call()
    kernels = [tuple(row)[:5] for row in SESSION.record.rows[first:] if hasattr(row, "operator")]
    torch.cuda.synchronize()
    seconds = round(clock.now - begin, 12)
    peak = torch.cuda.max_memory_allocated() - base
    return seen_of(result), kernels, seconds, torch.cuda.memory_allocated() - base, peak


def failed(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return "no error"


def steps():
    """Returns the sizes of the memory of calls after each of four steps of a small model."""
    net = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.LayerNorm(1024), nn.Linear(1024, 64))
    net.to(DEVICE)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
    sizes = []
    for _ in range(4):
        net(torch.randn(512, 256, device=DEVICE)).square().mean().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        sizes.append(len(CALLS.known))
    return sizes


def values():
    """Returns small values that equal calls compute from different ones."""
    found = []
    for start in (1, 5):
        small = torch.arange(start, start + 4, device=DEVICE)
        small[0] += 10
        found.append([small.sum().item(), (small * 2).tolist(), bool((small > 6).all())])
        found.append(small[small > 2 + start].tolist())
    return found


def compare():
    """Returns the calls whose results differ with the memory of calls, and how many it answers.

    Every call is made without the memory, then with the memory of itself, then with that of all.
    """
    differences, remembered, expected = [], 0, {}
    for name, call in TRIED.items():
        call()  # first views have caches of their own
        CALLS.known.clear()
        expected[name] = measured(call)
        size = len(CALLS.known)
        again = measured(call)
        remembered += size > 0 and len(CALLS.known) == size
        if again != expected[name]:
            differences.append([name, expected[name], again])
    for _ in range(2):
        for name, call in TRIED.items():
            again = measured(call)
            if again != expected[name]:
                differences.append([f"{name}, behind the others", expected[name], again])
    return differences, remembered


def main():
    differences, remembered = compare()
    grown = steps()
    seen = {
        "differences": differences, "remembered": remembered, "tried": len(TRIED),
        "errors": {name: [failed(call), failed(call)] for name, call in FAILING.items()},
        "new": [grown[2] - grown[1], grown[3] - grown[2]], "values": values(),
    }  # fmt: skip
    print(json.dumps(seen))


main()
