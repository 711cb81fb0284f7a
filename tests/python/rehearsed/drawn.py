"""Small programs drawn by number: layers, sharding, accumulation, checkpointing, streams.

drawn.py FIRST COUNT FOLDER trains the programs of these numbers for two steps in one process group,
on the CPU with Gloo or on rehearsed GPUs, and writes FOLDER/RANK.json: the collectives of each
second step as [kind, bytes, ranks of the group], its peak of memory, the memory at its begin, that
memory counted by hand, the peak of its update, and that peak counted by hand.
"""

import contextlib
import gc
import json
import random
import sys
import weakref

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

KINDS = {
    "allreduce": "all_reduce", "all_reduce": "all_reduce", "broadcast": "broadcast",
    "allgather_base": "all_gather", "all_gather_into_tensor": "all_gather",
    "reduce_scatter_base": "reduce_scatter", "reduce_scatter_tensor": "reduce_scatter",
    "allgather": "all_gather", "barrier": "barrier",
}  # fmt: skip
#: Operators whose results are on the host in a program that runs on GPUs.
HOST = ("lift_fresh", "arange")
RESIZE = torch.UntypedStorage.resize_
SHARDINGS = ("fsdp", "ddp", "ddp", "fsdp", "fsdp", "hybrid", "tensor", "tensor and fsdp")


class Real(TorchDispatchMode):
    """Collectives of this process, and the bytes of its living tensors in blocks of 512.

    Tensors that a GPU does not hold are left out: those of the host (numbers of the program, such
    as AdamW's counts of steps, and the ranks of a mesh), those without memory (DTensor's for the
    arithmetic of shapes, and wrappers), and Gloo's copy of the input of a reduce-scatter
    (ProcessGroupGloo::reduce_scatter_tensor_coalesced), which first shows as the input of a view.
    """

    def __init__(self):
        super().__init__()
        self.rows, self.held, self.now, self.peak, self.base = [], {}, 0, 0, 0

    def begin(self):
        """Counts storages that FSDP2 empties and fills again, which no operator tells."""
        resize = RESIZE

        def resized(storage, size):
            result = resize(storage, size)
            if storage._cdata in self.held:
                self.change(storage._cdata, storage.nbytes())
            return result

        torch.UntypedStorage.resize_ = resized

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(each.__name__ == "DTensor" for each in types):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[1].strip("_")
        if func.namespace in ("c10d", "_c10d_functional") and name in KINDS:
            groups = [self.group_of(each) for each in (*args, *(kwargs or {}).values())]
            group = next(each for each in groups if each is not None)
            buffers = (*args[:2], result if func.namespace != "c10d" else ())
            sizes = [
                sum(t.nbytes for t in tree_leaves(each) if isinstance(t, torch.Tensor))
                for each in buffers
            ]
            ranks = dist.get_process_group_ranks(group)
            if len(ranks) > 1:
                self.rows.append([KINDS[name], max(sizes), ranks])
        counts = not func.is_view and name not in HOST
        for each in tree_leaves(result):
            if type(each) in (torch.Tensor, nn.Parameter):
                self.hold(each, counts)
        return result

    def begin_step(self):
        self.peak = self.base = self.now

    def begin_update(self):
        self.passes, self.peak = self.peak, self.now

    @staticmethod
    def group_of(argument):
        if isinstance(argument, torch.ScriptObject):
            with contextlib.suppress(RuntimeError):
                return dist.ProcessGroup.unbox(argument)
        if isinstance(argument, str) and not argument.isalpha():
            with contextlib.suppress(Exception):
                return dist.distributed_c10d._resolve_process_group(argument)
        return None

    def hold(self, tensor, counts):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.held:
            return
        self.held[key] = 0
        if counts:
            self.change(key, storage.nbytes())
        weakref.finalize(storage, self.release, key).atexit = False

    def change(self, key, size):
        size = blocks(size)
        self.now += size - self.held[key]
        self.held[key] = size
        self.peak = max(self.peak, self.now)

    def release(self, key):
        self.now -= self.held.pop(key)


class Rehearsed:
    """The same of a rehearsal, from its own record."""

    def __init__(self):
        self.session = sys.modules["orrery_programs.session"].Session.current
        self.before = self.base = 0

    def begin(self):
        self.before = torch.cuda.memory_allocated()

    def begin_step(self):
        torch.cuda.reset_peak_memory_stats()
        self.base = torch.cuda.memory_allocated() - self.before

    def begin_update(self):
        self.passes = self.peak
        torch.cuda.reset_peak_memory_stats()

    @property
    def rows(self):
        found = self.session.record.last.rows
        return [[r.kind, r.size, list(r.members)] for r in found if hasattr(r, "members")]

    @property
    def peak(self):
        return torch.cuda.max_memory_allocated() - self.before


class Block(nn.Module):
    """Two products, with drawn layers between and around them."""

    def __init__(self, width, draw):
        super().__init__()
        self.norm = nn.LayerNorm(width) if draw.random() < 0.5 else nn.Identity()
        inner, bias = width * draw.choice((1, 2, 4)), draw.random() < 0.5
        self.first, self.second = nn.Linear(width, inner, bias), nn.Linear(inner, width, bias)
        self.act = draw.choice((nn.GELU, nn.ReLU, nn.SiLU))()
        self.again = draw.random() < 0.4

    def part(self, x):
        return self.second(self.act(self.first(self.norm(x))))

    def forward(self, x):
        return x + (checkpoint(self.part, x, use_reentrant=False) if self.again else self.part(x))


def shard(net, kind, device, draw):
    """Returns the model, divided or copied among the ranks."""
    ranks = dist.get_world_size()
    policy = MixedPrecisionPolicy(draw.choice((None, torch.bfloat16)), torch.float32)
    reshard = draw.random() < 0.5
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(
            net, bucket_cap_mb=draw.choice((0.05, 1, 25)), gradient_as_bucket_view=reshard
        )
    if kind.startswith("tensor"):
        shape = (1, ranks) if kind == "tensor" else (ranks // 2, 2)
        mesh = init_device_mesh(device, shape, mesh_dim_names=("data", "tensor"))
        for block in net:
            plan = {"first": ColwiseParallel(), "second": RowwiseParallel()}
            parallelize_module(block, mesh["tensor"], plan)
        if kind == "tensor":
            return net
        mesh = mesh["data"]
    elif kind == "hybrid":
        mesh = init_device_mesh(device, (2, ranks // 2), mesh_dim_names=("copies", "shares"))
    else:
        mesh = init_device_mesh(device, (ranks,))
    for block in net:
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    return fully_shard(net, mesh=mesh, mp_policy=policy)


def optimizer_of(net, kind, draw):
    """Returns an optimizer; PyTorch refuses lists of parameters that are divided differently."""
    choice, momentum = draw.randrange(3), draw.choice((0, 0.9))
    lists = choice == 1 and not kind.startswith("tensor")
    if choice == 0:
        return torch.optim.SGD(net.parameters(), lr=0.1, momentum=momentum, foreach=lists)
    return torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=lists)


def local_sizes(shapes, kind):
    """Returns the parameters of each tensor on a rank, in values.

    Divided as _init_sharded_param of FSDP2 and the plan of tensor parallelism divide them.
    """
    ranks = dist.get_world_size()
    shares = {"fsdp": ranks, "hybrid": ranks // 2, "tensor and fsdp": 2}.get(kind, 1)
    parts = {"tensor": ranks, "tensor and fsdp": ranks // 2}.get(kind, 1)
    divided = ["first" in name or "second.weight" in name for name, _ in shapes]
    return [
        count // shares // (parts if part else 1) for (_, count), part in zip(shapes, divided)
    ]


def count_gradients_by_hand(shapes, kind, in_buckets):
    """Returns the bytes of the gradients of a rank behind the backward pass, in blocks.

    Gradients of an FSDP2 unit, here a block, lie in one output of its reduce-scatter
    (foreach_reduce); those of DDP in their own memory, or in its buckets.
    """
    sizes = local_sizes(shapes, kind)
    if kind in ("ddp", "tensor"):
        return 0 if in_buckets else sum(blocks(4 * size) for size in sizes)
    units = {}
    for (name, _), size in zip(shapes, sizes):
        unit = name.partition(".")[0]
        units[unit] = units.get(unit, 0) + size
    return sum(blocks(4 * size) for size in units.values())


def count_update_by_hand(shapes, kind, adam, lists, clips):
    """Returns the bytes that clipping and the update need beyond state and gradients, in blocks.

    AdamW's denominators: those of all parameters at once (_multi_tensor_adam), or a square root
    and a quotient beside the denominator of the parameter before (_single_tensor_adam). SGD has
    none. Clipping has the norm of each gradient, the norms in a row, and their norm
    (get_total_norm); of shares the norms in a row, their powers, the sums of these among ranks,
    and the roots of the sums (_NormPartial._reduce_value).
    """
    sizes = [blocks(4 * size) for size in local_sizes(shapes, kind)]
    update = 0
    if adam and lists:
        update = sum(sizes)
    elif adam:
        update = max(before + 2 * size for before, size in zip([0, *sizes], sizes))
    if not clips:
        return update
    row = blocks(4 * len(sizes))
    return max(update, len(sizes) * blocks(4) + (row + blocks(4) if kind == "ddp" else 4 * row))


def count_by_hand(shapes, kind, copies, cap, rebuilt):
    """Returns the bytes that a rank holds between two steps, in blocks of 512.

    Parameters and `copies` of each as state of the optimizer (torch.optim: AdamW._init_group,
    _single_tensor_sgd); unsharded parameters are free (free_unsharded_param). DDP has its buckets
    (Reducer::initialize_buckets), closed by compute_bucket_assignment_by_size at `cap` bytes: in
    the order of the model, once `rebuilt` (Reducer::rebuild_buckets) in that of the gradients.
    """
    held = (1 + copies) * sum(blocks(4 * size) for size in local_sizes(shapes, kind))
    if kind != "ddp":
        return held
    if rebuilt:  # backward: blocks and layers from the last, their biases before their weights
        layers = {}
        for name, count in shapes:
            layers.setdefault(name.rpartition(".")[0], []).append((name, count))
        norm_first = [each if "norm" in key else each[::-1] for key, each in layers.items()]
        shapes = [pair for each in norm_first[::-1] for pair in each]
    bucket = 0
    for _, count in shapes:
        bucket += 4 * count
        if bucket >= cap:
            held, bucket = held + blocks(bucket), 0
    return held + blocks(bucket)


def blocks(size):
    """Returns bytes rounded up to the allocator's blocks."""
    return -(-size // 512) * 512


def count_tokens(device, draw):
    """Sums a count among all ranks, on a stream of its own where there are streams."""
    kind = draw.randrange(3)
    stream = torch.cuda.Stream() if device == "cuda" else None
    context = torch.cuda.stream(stream) if stream else contextlib.nullcontext()
    with context:
        count = torch.ones(draw.choice((1, 100)), device=device)
        if kind == 0:
            dist.all_reduce(count)
        elif kind == 1:
            dist.broadcast(count, 0)
        else:
            dist.all_reduce(count, async_op=True).wait()
    if stream:
        torch.cuda.current_stream().wait_stream(stream)


def train(number, device, log):
    """Returns the collectives of the second step of a program, its memory at peak and begin."""
    draw = random.Random(number)
    kind, width = draw.choice(SHARDINGS), draw.choice((64, 128, 256))
    net = nn.Sequential(*[Block(width, draw) for _ in range(draw.randint(1, 4))]).to(device)
    shapes = [(name, each.numel()) for name, each in net.named_parameters()]
    net = shard(net, kind, device, draw)
    optimizer = optimizer_of(net, kind, draw)
    passes, batch = draw.randint(1, 3), draw.choice((2, 8, 32))
    defers, clips, counts = draw.random() < 0.5, draw.random() < 0.5, draw.random() < 0.5
    for _ in range(2):
        begin = len(log.rows) if device == "cpu" else 0
        log.begin_step()
        for place in range(passes):
            last = place == passes - 1
            held = contextlib.nullcontext()
            if defers and kind == "ddp" and not last:
                held = net.no_sync()
            elif defers and hasattr(net, "set_requires_gradient_sync"):
                net.set_requires_gradient_sync(last)
            with held:
                net(torch.randn(batch, width, device=device)).square().mean().backward()
        if counts:
            count_tokens(device, draw)
        log.begin_update()
        if clips and not kind.startswith("tensor"):
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        update = log.peak
        optimizer.zero_grad()
    adam = isinstance(optimizer, torch.optim.AdamW)
    copies = 2 if adam else int(optimizer.defaults["momentum"] > 0)
    rebuilt = passes > 1 and not defers
    by_hand = count_by_hand(shapes, kind, copies, getattr(net, "bucket_bytes_cap", 0), rebuilt)
    in_buckets = getattr(net, "gradient_as_bucket_view", False)
    lists = bool(optimizer.defaults["foreach"])
    by_hand_update = by_hand + count_gradients_by_hand(shapes, kind, in_buckets)
    by_hand_update += count_update_by_hand(
        shapes, kind, adam, lists, clips and not kind.startswith("tensor")
    )
    peak = max(log.passes, log.peak)
    return [kind, log.rows[begin:], peak, log.base, by_hand, update, by_hand_update]


def main():
    first, count, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    torch.autograd.set_multithreading_enabled(False)
    seen = {}
    for number in range(first, first + count):
        log = Rehearsed() if device == "cuda" else Real()
        gc.collect()  # modules with hooks are cycles
        log.begin()
        torch.manual_seed(number)
        with contextlib.nullcontext() if device == "cuda" else log:
            seen[number] = train(number, device, log)
    with open(f"{folder}/{dist.get_rank()}.json", "w", encoding="utf-8") as file:
        json.dump(seen, file)
    dist.destroy_process_group()


main()
