"""ddp.py with groups of NCCL on a machine without GPUs: Gloo's groups stand in the place of NCCL's.

The group then asks for the end of its work and exchanges its counts in a second group, as on GPUs.
"""

import datetime
import os
import runpy
import sys

import torch.distributed.distributed_c10d as c10d

running = sys.modules["orrery_programs.running"]


class FakeNCCL:
    """Stands in the place of torch.distributed.ProcessGroupNCCL, which the CPU's PyTorch lacks."""

    class Options:
        _timeout = datetime.timedelta(minutes=1)


def build_fake(store, prefix, rank, size, timeout):
    return running._build_gloo(store, prefix, rank, size, timeout, "127.0.0.1")


c10d.ProcessGroupNCCL = FakeNCCL
c10d.is_nccl_available = lambda: True
running.DEVICES["nccl"] = "cpu"
running._build_nccl = build_fake
attachment = running.attachment
running._replace_groups(attachment, c10d)
os.environ["BACKEND"] = "cpu:nccl,cuda:nccl"
runpy.run_path(os.path.join(os.path.dirname(__file__), "ddp.py"), run_name="__main__")
print(f"operations in flight beside others: {attachment.started_module.early_starts()}", flush=True)
