"""Contender `torchft`: the loop of torchft's example, each rank a replica group of one process.

GLOO_S is the time limit of its group in seconds, LIGHTHOUSE the address of the lighthouse. FIX=1
repairs the communication hook, which as shipped ends the survivors of a loss. The position in the
data is written at every step, as torchft's documentation advises, so that a replica that returns
does not train its examples again.
"""

import itertools
import os
from datetime import timedelta

import job
import torch
import torch.distributed as dist
import torchft.ddp
from torch.utils.data import DataLoader
from torchft import DistributedDataParallel, DistributedSampler, Manager, Optimizer
from torchft import ProcessGroupGloo


def repaired_hook(manager, bucket):
    """Returns the result of the all-reduce; after an error, which the commit finds, the input."""
    work = manager.allreduce(bucket.buffer())
    work.wait()
    inner = getattr(work.get_future(), "_fut", None)
    if inner is not None:
        return inner
    unchanged = torch.futures.Future()
    unchanged.set_result(bucket.buffer())
    return unchanged


if os.environ["FIX"] == "1":
    torchft.ddp.DistributedDataParallel._comm_hook = staticmethod(repaired_hook)

rank = int(os.environ["REPLICA"])
store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
model = job.make_model()


def load_state(state):
    """Loads the state of another replica."""
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


def state_of():
    """Returns the state for a replica that joins."""
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


manager = Manager(
    pg=ProcessGroupGloo(timeout=timedelta(seconds=float(os.environ["GLOO_S"]))),
    min_replica_size=1, load_state_dict=load_state, state_dict=state_of,
    replica_id=f"race_{rank}", timeout=timedelta(seconds=30), rank=0, world_size=1,
    store_addr="localhost", store_port=store.port, lighthouse_addr=os.environ["LIGHTHOUSE"],
)  # fmt: skip
model = DistributedDataParallel(manager, model, bucket_cap_mb=job.BUCKET_MB)
optimizer = Optimizer(manager, torch.optim.AdamW(model.parameters(), 1e-3))
data = job.Examples()
sampler = DistributedSampler(data, replica_rank=rank, num_replica_groups=job.RANKS, group_rank=0,
                             num_replicas=1, shuffle=False)  # fmt: skip
path, unfinished = job.FOLDER / f"position.{rank}", job.FOLDER / f"position.{rank}.part"
position = int(path.read_text()) if path.exists() else 0
job.announce(rank)
for ids, batch in itertools.islice(DataLoader(data, job.BATCH, sampler=sampler), position, None):
    optimizer.zero_grad()
    loss = job.loss_of(model, batch, rank)
    loss.backward()
    before = manager.current_step()
    optimizer.step()
    if manager.current_step() > before:
        job.record(rank, manager.current_step(), ids)
    position += 1
    unfinished.write_text(str(position))
    unfinished.rename(path)
