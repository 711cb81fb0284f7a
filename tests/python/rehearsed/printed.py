"""A program that prints, logs and sums up unknown values, and decides nothing by them."""

import collections
import copy
import csv
import io
import json
import logging
import math
import pickle
import sys

import numpy
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.set_default_device("cuda")
assert torch.full((2,), 1.0).device.type == torch.tensor(1).device.type == "cuda"
torch.set_default_device(None)
logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.INFO)
weight = torch.nn.Parameter(torch.randn(1 << 15, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.1)
losses, window, total, meter = [], collections.deque(maxlen=2), 0.0, torch.zeros(2)
for step in range(3):
    loss = weight.square().mean()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_([weight], 1.0)
    optimizer.step()
    optimizer.zero_grad()
    total += float(loss)
    losses.append(loss.item())
    window.append(float(loss.detach().cpu()))
    meter += torch.tensor([loss.item(), 1])
    mean = torch.tensor(losses[-1], device="cuda")
    dist.all_reduce(mean)
    gathered = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, {"loss": losses[-1]})
perplexity = math.exp(min(20, 1)) * math.exp(losses[-1])
logging.info("%s %.3f %d", losses[-1], total, step)
logging.info("%(loss).2f", {"loss": norm.item()})
print(f"{losses[-1]:.3f} {total / 3:>8.2f} {perplexity:.2f}", "{:.1e}".format(mean.item()), norm)
print(json.dumps({"loss": losses[-1], "text": f"{total:.2f}", "losses": losses}))
print(numpy.mean(losses), numpy.round(numpy.mean(window), 3), numpy.exp(losses[0]))
print(sum(losses) / len(losses), round(total, 2), "loss " + str(losses[0]), repr(losses))
print(pickle.loads(pickle.dumps(losses)), copy.deepcopy(losses), isinstance(total, float))
print(meter, meter[0].item(), torch.tensor(losses).mean().item())
print((3 * torch.ones(1) * total).tolist())
file = io.BytesIO()
torch.save({"loss": losses, "total": float(total), "text": f"{total:.2f}"}, file)
file.seek(0)
print(torch.load(file))
rows = io.StringIO()
csv.writer(rows).writerow([losses[0], f"{total:.2f}"])
print(rows.getvalue().strip(), float("2.5"), float("1_0"), float(True), float(numpy.float32(2)))
value, whole = losses[0], weight.sum().long().item()
print(math.sqrt(math.fsum(each**2 for each in losses)), math.floor(value), math.hypot(value, 1))
print(numpy.median(window), numpy.float64(2) * value, value * numpy.float32(2), numpy.std(losses))
print(float(f"{value:.3f}") + float(value) + float(norm), whole & 1, (whole << 2) | 1, ~whole ^ 7)
host = torch.zeros(4)
host[1], host[2] = value, loss.detach()
host.view(2, 2)[1].add_(value)
print(host, host.sum().item(), torch.full((2,), value).fill_(2 * value))
print(host.clamp(max=value).tolist(), torch.ones(1) < value, (value / torch.ones(1)).item())
print(2 - torch.ones(1) * value, whole * host, torch.empty(1).copy_(loss).item())
print(host.cuda().mean().item(), host.copy_(torch.ones(4)).tolist())
dist.all_reduce(host, group=dist.new_group(backend="gloo"))
assert host[0] == 4
meter.zero_()
meter[1] += 3
assert meter[1] == 3
optimizer.param_groups[0]["lr"] = 0.1 * losses[-1]
optimizer.step()
torch.nn.Linear(4, 4).to("cuda")(torch.ones(4, device="cuda") * losses[-1]).sum().backward()
