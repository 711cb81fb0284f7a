"""Settings of a running job: ``decisions.configure(job, settings.X(...))``.

Written by python/generate_records.py from traces/trace.proto.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, List, Type

from orrery.values import CodecName, CollectiveAlgorithm, CollectiveKind, LossResponse, Tier


class Setting:
    """Base of all settings."""


@dataclass(frozen=True)
class CollectiveRule:
    """Algorithm for calls of a kind, from a number of bytes, ranks and nodes (NVLink domains) on.

    Among the matching rules the one with the most nodes applies, then ranks, then bytes.

    Attributes
    ----------
    kind : CollectiveKind
    from_bytes : float
    from_ranks : int
    algorithm : CollectiveAlgorithm
    from_nodes : int
    """

    _record: ClassVar[str] = "CollectiveRuleRecord"

    kind: CollectiveKind
    from_bytes: float = 0.0
    from_ranks: int = 0
    algorithm: CollectiveAlgorithm = "automatic"
    from_nodes: int = 0


@dataclass(frozen=True)
class CodecRule:
    """Codec of the gradients of one class of bucket.

    Attributes
    ----------
    bucket_class : int
        0 matrices, 1 vectors, 2 embeddings.
    codec : CodecName
    parameter : float
        0: the codec's default.
    error_feedback : bool
    """

    _record: ClassVar[str] = "CodecRuleRecord"

    bucket_class: int
    codec: CodecName = "none"
    parameter: float = 0.0
    error_feedback: bool = False


@dataclass(frozen=True)
class Shares(Setting):
    """Micro-batches of one step by data-parallel replica; the sum is that of the job's Batch.

    Attributes
    ----------
    per_replica : List[int]
    """

    _record: ClassVar[str] = "SharesRecord"

    per_replica: List[int]


@dataclass(frozen=True)
class CollectiveTable(Setting):
    """The job's whole table of collectives; all ranks change at the same step.

    Attributes
    ----------
    rules : List[CollectiveRule]
    """

    _record: ClassVar[str] = "CollectiveTableRecord"

    rules: List[CollectiveRule]


@dataclass(frozen=True)
class CodecRules(Setting):
    """Codes of the gradients by class of bucket; without any they travel as they are.

    Attributes
    ----------
    rules : List[CodecRule]
    """

    _record: ClassVar[str] = "CodecRulesRecord"

    rules: List[CodecRule]


@dataclass(frozen=True)
class CheckpointPlan(Setting):
    """Steps between two checkpoints; 0: no periodic checkpoints.

    Attributes
    ----------
    every_steps : int
    tier : Tier
    """

    _record: ClassVar[str] = "CheckpointPlanRecord"

    every_steps: int
    tier: Tier = "storage"


@dataclass(frozen=True)
class OnLoss(Setting):
    """Automatic response of ranks to a loss, until a policy decides.

    Attributes
    ----------
    response : LossResponse
    """

    _record: ClassVar[str] = "OnLossRecord"

    response: LossResponse


@dataclass(frozen=True)
class Batch(Setting):
    """Global batch of a job: micro-batches of one step, all replicas together, and the factor on
    the declared learning rate.

    Attributes
    ----------
    micro_batches : int
    learning_rate_factor : float
    """

    _record: ClassVar[str] = "BatchRecord"

    micro_batches: int
    learning_rate_factor: float = 1


@dataclass(frozen=True)
class Delay(Setting):
    """Seconds by which the job's next step starts later, once.

    Attributes
    ----------
    seconds : float
    """

    _record: ClassVar[str] = "DelayRecord"

    seconds: float


@dataclass(frozen=True)
class PowerCap(Setting):
    """Limit of the power of each GPU of a job, in watts; 0: the GPU's own limit.

    Attributes
    ----------
    watts : float
    """

    _record: ClassVar[str] = "PowerCapRecord"

    watts: float


@dataclass(frozen=True)
class Prefetch(Setting):
    """Processes that read the data of each rank, and the micro-batches that they read ahead, all
    together.

    Attributes
    ----------
    workers : int
    depth : int
    """

    _record: ClassVar[str] = "PrefetchRecord"

    workers: int
    depth: int = 0


@dataclass(frozen=True)
class Settings:
    """One value of every setting: how a job is set."""

    shares: Shares
    collective_table: CollectiveTable
    codec_rules: CodecRules
    checkpoint_plan: CheckpointPlan
    on_loss: OnLoss
    batch: Batch
    delay: Delay
    power_cap: PowerCap
    prefetch: Prefetch


#: All kinds, in the order of the schema.
KINDS: List[Type[Setting]] = [
    Shares,
    CollectiveTable,
    CodecRules,
    CheckpointPlan,
    OnLoss,
    Batch,
    Delay,
    PowerCap,
    Prefetch,
]
