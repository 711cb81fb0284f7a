"""Plain FSDP2 loop over text: its reduce-scatter cannot be carried through a loss.

With CHECKPOINTS=FOLDER the loop writes checkpoints of its own and resumes from the newest.
"""

import os
import pathlib

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from end import print_end
from pace import declare_pace
from texts import examples, layers
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

torch.manual_seed(0)
dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
model = layers(128)
declare_pace(model)
for layer in (model[0], model[2], model[4]):
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
steps = int(os.environ.get("STEPS", "40"))
begin = 0
contexts, following = examples()
folder = os.environ.get("CHECKPOINTS")
if folder:
    complete = [each.parent for each in pathlib.Path(folder).glob("*/.metadata")]
    begin = max((int(each.name) for each in complete), default=0)
if begin > 0:
    weights, moments = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=f"{folder}/{begin}")
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
print(f"begins at step {begin} of rank {rank}", flush=True)
for step in range(begin, steps):
    torch.manual_seed(1000 * step + rank)
    drawn = torch.randint(len(contexts), (16,))
    loss = nn.functional.cross_entropy(model(contexts[drawn]), following[drawn])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"at step {step} of rank {rank}", flush=True)
    if folder and (step + 1) % 20 == 0:
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments}
        dcp.save(state, checkpoint_id=f"{folder}/{step + 1}")
print_end(rank, steps, model, [each.full_tensor() for each in model.parameters()])
dist.destroy_process_group()
