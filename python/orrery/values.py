"""Names and values that events, actions and settings share.

Written by python/generate_records.py from traces/trace.proto.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, List, Literal

from orrery._layout import LayoutMath

CollectiveKind = Literal[
    "all-reduce",
    "reduce-scatter",
    "all-gather",
    "all-to-all",
    "broadcast",
    "send-receive",
]
CollectiveAlgorithm = Literal[
    "automatic",
    "ring",
    "tree",
    "hierarchical",
    "direct",
    "nvls",
    "halving-doubling",
]
CodecName = Literal["none", "bf16", "fp16", "int8", "int4", "top-k", "power-sgd"]
StateFrom = Literal["none", "peer", "checkpoint"]
Tier = Literal["memory", "peer", "local-disk", "storage"]
LossResponse = Literal["go-on", "hold", "replace"]
PartKind = Literal[
    "gpu",
    "node",
    "nic",
    "link",
    "leaf",
    "spine",
    "plane",
    "storage",
    "port",
    "cable",
]
Health = Literal["ok", "suspected", "lost"]
Ending = Literal["completed", "failed", "cancelled"]
OutcomeStatus = Literal["applied", "rejected", "expired"]


@dataclass(frozen=True)
class Layout(LayoutMath):
    """Division of a job's ranks.

    Attributes
    ----------
    tensor : int
    context : int
    pipeline : int
    data : int
    pipeline_last : bool
        Ranks: replicas of a stage are neighbours, not stages of a replica.
    """

    _record: ClassVar[str] = "LayoutRecord"

    tensor: int = 1
    context: int = 1
    pipeline: int = 1
    data: int = 1
    pipeline_last: bool = False


@dataclass(frozen=True)
class Standing:
    """Placement of a job: its GPUs, and the division of its ranks.

    Attributes
    ----------
    gpus : List[int]
        GPUs of rank 0, 1 and so on.
    layout : Layout
    """

    _record: ClassVar[str] = "StandingRecord"

    gpus: List[int]
    layout: Layout
