"""Arithmetic of `orrery.values.Layout`, which is generated."""

from __future__ import annotations


class LayoutMath:
    """Properties that follow from the division of a job's ranks."""

    tensor: int
    context: int
    pipeline: int
    data: int
    pipeline_last: bool

    @property
    def ranks(self) -> int:
        """World size."""
        return self.ranks_per_replica * self.data

    @property
    def ranks_per_replica(self) -> int:
        """Ranks that hold one copy of the model."""
        return self.tensor * self.context * self.pipeline

    def replica_of(self, rank: int) -> int:
        """The data-parallel replica that a rank belongs to.

        Parameters
        ----------
        rank : int
            From 0.

        Returns
        -------
        int
            From 0 to ``data - 1``.
        """
        stride = self.ranks_per_replica
        if self.pipeline_last:
            stride = self.tensor * self.context
        return rank // stride % self.data
