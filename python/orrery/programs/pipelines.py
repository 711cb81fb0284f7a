"""Passes and messages of the stages of torch.distributed.pipelining, for the recording of a step.

Imported after torch. Other pipelines exchange messages too, but their passes are unknown, so that
their step becomes no job.
"""

import functools
import sys
from typing import Any, Callable

import torch.distributed as dist

from .record import Pass, Transfer
from .session import Session

_STAGES = "torch.distributed.pipelining.stage"
_SCHEDULES = "torch.distributed.pipelining.schedules"
#: Methods of a stage that run a pass, with the kind of the pass.
_PASSES = {
    "forward_one_chunk": "forward",
    "backward_one_chunk": "backward",
    "backward_weight_one_chunk": "weights",
}
#: Methods of a stage that return its messages: kind, phase, and the distance of the other stage.
_TRANSFERS = {
    "get_fwd_recv_ops": ("receive", "forward", -1),
    "get_fwd_send_ops": ("send", "forward", 1),
    "get_bwd_recv_ops": ("receive", "backward", 1),
    "get_bwd_send_ops": ("send", "backward", -1),
}


def follow_stages(session: Session) -> None:
    """Records the passes of the program's stages from now on, if the program has such stages."""
    stages, schedules = sys.modules.get(_STAGES), sys.modules.get(_SCHEDULES)
    if stages is None or schedules is None or session.pipeline is not None:
        return
    session.pipeline = ()
    stage = stages._PipelineStageBase
    for name, kind in _PASSES.items():
        setattr(stage, name, _following_pass(getattr(stage, name), kind, session))
    for name, told in _TRANSFERS.items():
        setattr(stage, name, _following_transfer(getattr(stage, name), told, session))
    for kind in (schedules.PipelineScheduleSingle, schedules.PipelineScheduleMulti):
        kind.step = _following_step(kind.step, session)


def _chunk_of(stage: Any, number: int) -> int:
    """Return the place of a stage of the pipeline among those of its rank."""
    ranks = stage.stage_index_to_group_rank
    return sum(ranks[each] == ranks[number] for each in range(number))


def _following_step(function: Callable[..., Any], session: Session) -> Any:
    @functools.wraps(function)
    def follow(schedule: Any, *args: Any, **kwargs: Any) -> Any:
        session.schedule = type(schedule).__name__.removeprefix("Schedule")
        return function(schedule, *args, **kwargs)

    return follow


def _following_pass(function: Callable[..., Any], kind: str, session: Session) -> Any:
    @functools.wraps(function)
    def follow(stage: Any, micro_batch: int, *args: Any, **kwargs: Any) -> Any:
        session.pipeline = tuple(map(int, dist.get_process_group_ranks(stage.group)))
        chunk = _chunk_of(stage, stage.stage_index)
        session.record.add(Pass(kind, chunk, int(micro_batch)))
        return function(stage, micro_batch, *args, **kwargs)

    return follow


def _following_transfer(
    function: Callable[..., Any], told: "tuple[str, str, int]", session: Session
) -> Any:
    kind, phase, distance = told

    @functools.wraps(function)
    def follow(stage: Any, micro_batch: int) -> Any:
        found = function(stage, micro_batch)
        if found:
            own, other = stage.stage_index, stage.stage_index + distance
            size = sum(each.tensor.numel() * each.tensor.element_size() for each in found)
            peer = stage.stage_index_to_group_rank[other]
            if peer != stage.stage_index_to_group_rank[own]:
                receiver = _chunk_of(stage, other if kind == "send" else own)
                place = (_chunk_of(stage, own), int(micro_batch))
                session.record.add(
                    Transfer(kind, phase, *place, receiver, peer, size, len(found))
                )
        return found

    return follow
