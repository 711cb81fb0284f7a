"""NCCL's table of collectives at a rank under policies (`orrery run --policy`).

NCCL's tuner plugin (live/nccl/tuner.cpp) reads the file that ORRERY_NCCL_TABLE names. All
ranks must choose alike, so a rank with PyTorch has its own file, which it replaces between steps.
"""

import os
from typing import Optional


#: Plugin that reads the table.
PLUGIN = "liborrery_nccl_tuner.so"


class Collectives:
    """Table of this rank.

    Attributes
    ----------
    backends : set of str
        Backends of the process groups that the program has created.
    """

    def __init__(self) -> None:
        self.backends: "set[str]" = set()
        self._plans: Optional[str] = os.environ.get("ORRERY_NCCL_TABLE")

    def begin_rank(self, rank: int, replaces: bool) -> None:
        """Names the table of this rank to the plugin. A new process keeps that of the lost rank.

        Ranks with PyTorch wait for the policies in their first step, which comes later than the
        first communicator, so the plugin must not wait for a table. A fork of the warm process has
        the environment of a rank only now.
        """
        os.environ.pop("ORRERY_NCCL_WAIT_S", None)
        if self._plans is None:
            return
        table = f"{self._plans}-{rank}"
        os.environ["ORRERY_NCCL_TABLE"] = table
        if not replaces and os.path.exists(table):
            os.unlink(table)

    def problem(self) -> str:
        """Return the reason why the table cannot be set; empty if it can."""
        if "nccl" not in self.backends:
            found = f"groups of {' and '.join(sorted(self.backends)) or 'no backend'} only"
            return f"expected groups of nccl, found {found}"
        plugin = os.environ.get("NCCL_TUNER_PLUGIN", "")
        if os.path.basename(plugin) != PLUGIN or self._plans is None:
            return f"expected NCCL_TUNER_PLUGIN unset, found '{plugin}': a plugin of your own"
        return ""

    def set_table(self, number: int) -> None:
        """Replaces the table of this rank by that of plan `number`, between two steps."""
        table = os.environ["ORRERY_NCCL_TABLE"]
        with open(f"{self._plans}.{number}", encoding="utf-8") as plan:
            text = plan.read()
        with open(f"{table}.new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{table}.new", table)
