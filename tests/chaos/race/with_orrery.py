"""Contender `orrery`: a plain loop with the two lines of orrery.torch, run by `orrery run`."""

import job
import orrery.torch
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
loader = DataLoader(data, job.BATCH, sampler=DistributedSampler(data, shuffle=False))
snapshots = orrery.torch.state(model=model, optimizer=optimizer, every=1_000_000)
for ids, batch in snapshots.steps(loader):
    loss = job.loss_of(model, batch, rank)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    job.record(rank, snapshots.step, ids)
