"""Submission and settings of a job.

Written by python/generate_records.py from traces/trace.proto.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, List

from orrery.settings import (
    Batch,
    CheckpointPlan,
    CodecRules,
    CollectiveTable,
    Delay,
    OnLoss,
    PowerCap,
    Prefetch,
    Setting,
    Settings,
    Shares,
)
from orrery.values import Layout


@dataclass(frozen=True)
class JobSpec:
    """Everything a policy may know of a job when it is submitted.

    Attributes
    ----------
    id : int
    name : str
        Name in the trace or scenario; need not be UTF-8.
    user : str
        Submitting user.
    pool : str
        Virtual cluster, queue or tenant.
    submit : float
        Time of the submission. Seconds.
    estimate : float
        Expected duration; 0 if unknown. Seconds.
    priority : int
        Higher goes first, where a policy looks at it.
    gpus : int
        Number of requested GPUs.
    least_gpus : int
        Elastic where least and most differ; 0: as `gpus`.
    most_gpus : int
        0: as `gpus`.
    layout : Layout
        Layout as submitted.
    micro_batches : int
        Micro-batches of one step, all replicas together.
    max_micro_batches : int
        Micro-batches that fit one replica's memory in a step.
    steps : int
        Optimizer steps that it takes; 0 if unknown.
    nominal_micro_batch_time : float
        Declared or predicted; 0 if unknown. Seconds.
    state_bytes : float
        Size of a checkpoint; 0 if unknown.
    can : List[str]
        Names of the settings that its program lets be set while it runs.
    settings : List[Setting]
        Settings from the start on.
    can_change_layout : bool
        An assignment may change the tensor, context and pipeline sizes; never in a live run.
    max_workers : int
        Reading processes that a rank may have; 0: no limit.
    max_prefetch : int
        Micro-batches read ahead that fit a host's memory; 0: no limit.
    qos : str
        Quality of service of a scheduler such as Slurm; empty: none.
    gpu_kinds : List[str]
        Kinds of GPUs that it may use, preferred ones first; empty: any.
    title : str
        Name that its user gave, which other jobs may have too; empty: none.
    """

    _record: ClassVar[str] = "JobRecord"

    id: int
    name: str
    user: str
    pool: str
    submit: float
    estimate: float
    priority: int
    gpus: int
    least_gpus: int
    most_gpus: int
    layout: Layout
    micro_batches: int
    max_micro_batches: int
    steps: int
    nominal_micro_batch_time: float
    state_bytes: float
    can: List[str]
    settings: List[Setting]
    can_change_layout: bool
    max_workers: int
    max_prefetch: int
    qos: str
    gpu_kinds: List[str]
    title: str


class JobAttributes:
    """Attributes of a job: the data of its submission, and its settings."""

    @property
    def spec(self) -> JobSpec:
        """Data known at submission."""
        raise NotImplementedError

    @property
    def now(self) -> Settings:
        """Settings of the current step."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Name in the trace or scenario; need not be UTF-8."""
        return self.spec.name

    @property
    def user(self) -> str:
        """Submitting user."""
        return self.spec.user

    @property
    def pool(self) -> str:
        """Virtual cluster, queue or tenant."""
        return self.spec.pool

    @property
    def submit(self) -> float:
        """Time of the submission. Seconds."""
        return self.spec.submit

    @property
    def estimate(self) -> float:
        """Expected duration; 0 if unknown. Seconds."""
        return self.spec.estimate

    @property
    def priority(self) -> int:
        """Higher goes first, where a policy looks at it."""
        return self.spec.priority

    @property
    def least_gpus(self) -> int:
        """Elastic where least and most differ; 0: as `gpus`."""
        return self.spec.least_gpus

    @property
    def most_gpus(self) -> int:
        """0: as `gpus`."""
        return self.spec.most_gpus

    @property
    def micro_batches(self) -> int:
        """Micro-batches of one step, all replicas together."""
        return self.spec.micro_batches

    @property
    def max_micro_batches(self) -> int:
        """Micro-batches that fit one replica's memory in a step."""
        return self.spec.max_micro_batches

    @property
    def steps(self) -> int:
        """Optimizer steps that it takes; 0 if unknown."""
        return self.spec.steps

    @property
    def nominal_micro_batch_time(self) -> float:
        """Declared or predicted; 0 if unknown. Seconds."""
        return self.spec.nominal_micro_batch_time

    @property
    def state_bytes(self) -> float:
        """Size of a checkpoint; 0 if unknown."""
        return self.spec.state_bytes

    @property
    def can(self) -> List[str]:
        """Names of the settings that its program lets be set while it runs."""
        return self.spec.can

    @property
    def can_change_layout(self) -> bool:
        """An assignment may change the tensor, context and pipeline sizes; never in a live
        run."""
        return self.spec.can_change_layout

    @property
    def max_workers(self) -> int:
        """Reading processes that a rank may have; 0: no limit."""
        return self.spec.max_workers

    @property
    def max_prefetch(self) -> int:
        """Micro-batches read ahead that fit a host's memory; 0: no limit."""
        return self.spec.max_prefetch

    @property
    def qos(self) -> str:
        """Quality of service of a scheduler such as Slurm; empty: none."""
        return self.spec.qos

    @property
    def gpu_kinds(self) -> List[str]:
        """Kinds of GPUs that it may use, preferred ones first; empty: any."""
        return self.spec.gpu_kinds

    @property
    def title(self) -> str:
        """Name that its user gave, which other jobs may have too; empty: none."""
        return self.spec.title

    @property
    def shares(self) -> Shares:
        """Micro-batches of one step by data-parallel replica; the sum is that of the job's
        Batch."""
        return self.now.shares

    @property
    def collective_table(self) -> CollectiveTable:
        """The job's whole table of collectives; all ranks change at the same step."""
        return self.now.collective_table

    @property
    def codec_rules(self) -> CodecRules:
        """Codes of the gradients by class of bucket; without any they travel as they are."""
        return self.now.codec_rules

    @property
    def checkpoint_plan(self) -> CheckpointPlan:
        """Steps between two checkpoints; 0: no periodic checkpoints."""
        return self.now.checkpoint_plan

    @property
    def on_loss(self) -> OnLoss:
        """Automatic response of ranks to a loss, until a policy decides."""
        return self.now.on_loss

    @property
    def batch(self) -> Batch:
        """Global batch of a job: micro-batches of one step, all replicas together, and the
        factor on the declared learning rate."""
        return self.now.batch

    @property
    def delay(self) -> Delay:
        """Seconds by which the job's next step starts later, once."""
        return self.now.delay

    @property
    def power_cap(self) -> PowerCap:
        """Limit of the power of each GPU of a job, in watts; 0: the GPU's own limit."""
        return self.now.power_cap

    @property
    def prefetch(self) -> Prefetch:
        """Processes that read the data of each rank, and the micro-batches that they read
        ahead, all together."""
        return self.now.prefetch
