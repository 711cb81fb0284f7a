"""Two ranks with Gloo that PyTorch's own tools record: traced.py KIND FOLDER STEPS.

KIND: ddp (buckets of 10 KB), blocking (all-reduces behind the backward passes), sharded (FSDP2).
Every step has two micro-batches. The folder receives et.RANK.json and kineto.RANK.json. Prints the
seconds of the traced steps on rank 0.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule


def build(kind):
    """Returns the model of a kind."""
    model = nn.Sequential(
        nn.Embedding(64, 32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64)
    )  # fmt: skip
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.01)
    if kind == "sharded":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (2,))
        for part in (model[1], model[3], model):
            fully_shard(part, mesh=mesh)
    return model


def train(rank, kind, folder, steps):
    """Trains, and records the steps behind three others."""
    os.environ.update(MASTER_ADDR="127.0.0.1")
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = build(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    tokens = torch.randint(0, 64, (4, 16))
    observer = ExecutionTraceObserver().register_callback(f"{folder}/et.{rank}.json")
    seconds = []
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, execution_trace_observer=observer,
        schedule=schedule(wait=1, warmup=1, active=steps, repeat=1),
        on_trace_ready=lambda it: it.export_chrome_trace(f"{folder}/kineto.{rank}.json"),
    ) as profiler:  # fmt: skip
        for _ in range(2 + steps):
            begin_s = time.perf_counter()
            for _ in range(2):
                scores = model(tokens).flatten(0, 1)
                nn.functional.cross_entropy(scores, tokens.flatten()).backward()
            if kind == "blocking":
                for each in model.parameters():
                    dist.all_reduce(each.grad)
                dist.barrier()
            optimizer.step()
            optimizer.zero_grad()
            seconds.append(time.perf_counter() - begin_s)
            profiler.step()
    if rank == 0:
        print(*seconds[2:])
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, (*sys.argv[1:3], int(sys.argv[3])), nprocs=2)
