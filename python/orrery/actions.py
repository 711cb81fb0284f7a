"""Actions of a policy: ``decisions.add(actions.X(...), why="...")``.

Written by python/generate_records.py from traces/trace.proto.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, List, Optional, Sequence, Type, Union

from orrery.settings import Setting
from orrery.values import Layout, StateFrom, Tier


class Action:
    """Base of all actions."""


@dataclass(frozen=True)
class Assign(Action):
    """Placement of a job from now on: start, growth, shrinking, move, spares for lost ranks,
    restart; without GPUs the job leaves.

    Attributes
    ----------
    job : int
    gpus : Sequence[Union[int, range]]
        GPUs of rank 0, 1 and so on.
    layout : Optional[Layout]
    state : StateFrom
        With ``checkpoint`` all ranks of a job that has GPUs restart, also on the same GPUs.
    """

    _record: ClassVar[str] = "AssignRecord"

    job: int
    gpus: Sequence[Union[int, range]] = ()
    layout: Optional[Layout] = None
    state: StateFrom = "none"


@dataclass(frozen=True)
class Configure(Action):
    """Sets one thing of one job.

    Attributes
    ----------
    job : int
    what : Setting
    """

    _record: ClassVar[str] = "ConfigureRecord"

    job: int
    what: Setting


@dataclass(frozen=True)
class Save(Action):
    """A checkpoint after the next step that begins.

    Attributes
    ----------
    job : int
    tier : Tier
    """

    _record: ClassVar[str] = "SaveRecord"

    job: int
    tier: Tier = "storage"


#: All kinds, in the order of the schema.
KINDS: List[Type[Action]] = [
    Assign,
    Configure,
    Save,
]
