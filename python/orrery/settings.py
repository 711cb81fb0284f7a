"""What of a job can be set while it runs: ``decisions.configure(job, settings.X(...))``.

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
    """What calls of a kind are carried out with, from so many bytes, ranks and nodes (NVLink
    domains) on.

    Of the rules that a call reaches the one with the most nodes holds, then ranks, then bytes.

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
    """How the gradients of one class of bucket travel.

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
    """Micro-batches of one step by data-parallel replica; the sum stays what it was.

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
    """A checkpoint after every so many steps; 0: none by itself.

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
    """What ranks do by themselves when some of them are lost, until somebody decides.

    Attributes
    ----------
    response : LossResponse
    """

    _record: ClassVar[str] = "OnLossRecord"

    response: LossResponse


@dataclass(frozen=True)
class Settings:
    """One value of every setting: how a job is set."""

    shares: Shares
    collective_table: CollectiveTable
    codec_rules: CodecRules
    checkpoint_plan: CheckpointPlan
    on_loss: OnLoss


#: All kinds, in the order of the schema.
KINDS: List[Type[Setting]] = [
    Shares,
    CollectiveTable,
    CodecRules,
    CheckpointPlan,
    OnLoss,
]
