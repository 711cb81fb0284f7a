"""Contender `torchrun`: a plain loop that resumes from its own snapshot, written every EVERY steps.

torchrun's agent ends all ranks when one is lost, and starts all again.
"""

import itertools
import os

import job
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

dist.init_process_group("gloo")
rank = dist.get_rank()
job.announce(rank)
model = DistributedDataParallel(job.make_model(), bucket_cap_mb=job.BUCKET_MB)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
data = job.Examples()
path, every, step = job.FOLDER / "snapshot.pt", int(os.environ["EVERY"]), 0
if path.exists():
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
dist.barrier()  # no rank may write before all have read
loader = DataLoader(data, job.BATCH, sampler=DistributedSampler(data, shuffle=False))
for ids, batch in itertools.islice(loader, step, None):
    loss = job.loss_of(model, batch, rank)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    job.record(rank, step, ids)
    if rank == 0 and step % every == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, path.with_suffix(".part"))
        path.with_suffix(".part").rename(path)
