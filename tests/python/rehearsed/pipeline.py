"""Training steps of pipelines of torch.distributed.pipelining: on GPUs, rehearsed ones, or the CPU.

pipeline.py SCHEDULE,... STAGES MICRO_BATCHES WIDTH [FILE | ddp | fsdp]: products of WIDTH x WIDTH,
2,048 rows in a micro-batch, 8 on the CPU. There, each rank writes the messages of its last step
with each schedule to FILE.RANK. ddp, fsdp: replicas exchange gradients.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.pipelining as pipelining
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils._python_dispatch import TorchDispatchMode

ENDS = ("is_first", "is_last")


class Log(TorchDispatchMode):
    """Messages of this process: send or receive, and bytes."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name
        if name in ("c10d::send", "c10d::recv_"):
            kind = "send" if name.endswith("send") else "receive"
            self.rows.append([kind, sum(each.nbytes for each in args[0])])
        return func(*args, **(kwargs or {}))


def replicated(block, mesh):
    """Returns the layers of a stage whose gradients its replicas exchange, if asked for."""
    if "ddp" in sys.argv:
        return nn.parallel.DistributedDataParallel(block, process_group=mesh.get_group())
    if "fsdp" in sys.argv:
        for layer in block:
            fully_shard(layer, mesh=mesh)
        return fully_shard(block, mesh=mesh)
    return block


def make_stages(schedule, count, width, device, mesh):
    """Returns the stages of this rank: one, two in a loop, or two in a V."""
    group = mesh["stages"].get_group()
    place, chunks = dist.get_rank(group), 1 if schedule in ("1F1B", "GPipe") else 2
    places = [place + count * chunk for chunk in range(chunks)]
    if schedule in ("ZBVZeroBubble", "DualPipeV"):
        places = [place, 2 * count - 1 - place]
    stages = []
    for each in places:
        layers = [nn.Linear(width, width, bias=False) for _ in range(2)]
        block = nn.Sequential(*layers).to(device, torch.bfloat16)
        block = replicated(block, mesh["replicas"])
        stages.append(
            pipelining.PipelineStage(block, each, count * chunks, device, group=group)
        )
    return stages


def train(name, kind, device, words):
    """Trains with a schedule and returns the messages of the last step on the CPU."""
    count, micro_batches, width = words
    mesh = init_device_mesh(
        kind, (count, dist.get_world_size() // count), mesh_dim_names=("stages", "replicas")
    )
    stages = make_stages(name, count, width, device, mesh)
    is_first, is_last = (any(getattr(each, key) for each in stages) for key in ENDS)
    weights = [weight for stage in stages for weight in stage.submod.parameters()]
    optimizer = torch.optim.SGD(weights, lr=0.1)
    run = getattr(pipelining, f"Schedule{name}")(
        stages if len(stages) > 1 else stages[0], micro_batches,
        loss_fn=lambda out, target: (out - target).square().mean(),
    )  # fmt: skip
    rows, log = 2048 if kind == "cuda" else 8, Log()
    for _ in range(3):
        batch = torch.randn(micro_batches * rows, width, device=device, dtype=torch.bfloat16)
        losses, begin = [], time.time()
        log.rows.clear()
        with log if kind == "cpu" else torch.enable_grad():
            run.step(
                *([batch] if is_first else []),
                **({"target": batch, "losses": losses} if is_last else {}),
            )
        optimizer.step()
        optimizer.zero_grad()
        if kind == "cuda":
            torch.cuda.synchronize()
        seconds = time.time() - begin
    places = torch.tensor([mesh.get_coordinate()[0]], device=device)
    dist.all_reduce(places)
    told = {"seconds": seconds, "losses": len(losses), "places": places.item()}
    # In one piece, beside the lines of the other ranks.
    os.write(1, (json.dumps({"rank": dist.get_rank(), **told}) + "\n").encode())
    return log.rows


def main():
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    device = torch.device(kind, int(os.environ["LOCAL_RANK"]) if kind == "cuda" else None)
    if kind == "cuda":
        torch.cuda.set_device(device)
    words = [int(word) for word in sys.argv[2:5]]
    seen = {name: train(name, kind, device, words) for name in sys.argv[1].split(",")}
    if kind == "cpu":
        with open(f"{sys.argv[5]}.{dist.get_rank()}", "w", encoding="utf-8") as file:
            json.dump(seen, file)
    dist.destroy_process_group()


main()
