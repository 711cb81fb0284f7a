"""Replays of logs and of job traces, and names."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Union

from orrery import _core
from orrery._scenario import _scalar

PathLike = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Replay:
    """What a replay of a recorded log found.

    Attributes
    ----------
    calls, decisions : int
        How often the policies were asked, and what they decided.
    decision_trace_sha256 : str
        Digest of the ordered decisions, without times and reasons.
    first_difference : str or None
        Where the policies decided otherwise than the log says; ``None`` if nowhere.
    """

    calls: int
    decisions: int
    decision_trace_sha256: str
    first_difference: Optional[str]

    @property
    def identical(self) -> bool:
        """Whether the policies decided as the log says."""
        return self.first_difference is None


class JobsReport:
    """The result of a job-level replay.

    Attributes are the keys of ``orrery jobs --json``: ``jobs_in``, ``jobs_out``, ``jct_mean_s``,
    ``jct_p50_s``, ``jct_p99_s`` (job completion times), ``queue_mean_s``, ``makespan_s`` (all
    seconds), ``utilization`` (0 to 1) and ``preemptions``.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"a jobs report has no {name!r}; it has: {', '.join(values)}")
        return values[name]

    def __dir__(self) -> List[str]:
        return sorted({*super().__dir__(), *self._values})

    def to_dict(self) -> Dict[str, Any]:
        """All keys and values.

        Returns
        -------
        dict
            A copy.
        """
        return dict(self._values)

    def __repr__(self) -> str:
        if self.jct_mean_s is None:
            return f"<orrery.JobsReport: 0 of {self.jobs_in} jobs ended>"
        return (
            f"<orrery.JobsReport: {self.jobs_out} jobs, mean completion {self.jct_mean_s:.1f} s, "
            f"mean queue {self.queue_mean_s:.1f} s, utilization {self.utilization:.4f}>"
        )


def jobs(
    trace: PathLike,
    nodes: int,
    gpus_per_node: int,
    policy: str = "fifo",
    placement: str = "count",
) -> JobsReport:
    """Replay a production job trace on a cluster, job by job.

    Parameters
    ----------
    trace : path
        CSV, gzip too, with the columns ``job_id,submit_s,num_gpus,duration_s,vc``.
    nodes, gpus_per_node : int
        Size of the cluster.
    policy : str
        Order of the queue: ``"fifo"`` or ``"sjf"``, among others of `orrery.policy_names`.
    placement : {"count", "consolidated"}
        ``"count"`` takes any free GPUs; ``"consolidated"`` as few nodes as possible.

    Returns
    -------
    JobsReport
        Times in seconds.

    Raises
    ------
    InputError
        For a bad trace, with its line, and for an unknown policy or placement.
    ValueError
        For a cluster without nodes or GPUs, or one that is too large.
    """
    for name, count, most in (("nodes", nodes, 131072), ("gpus_per_node", gpus_per_node, 128)):
        if not 1 <= count <= most:
            raise ValueError(f"{name} is from 1 to {most}, not {count!r}")
    return JobsReport(
        json.loads(_core.jobs(os.fspath(trace), nodes, gpus_per_node, policy, placement))
    )


def replay(log: PathLike, parameters: Optional[Mapping[str, Any]] = None) -> Replay:
    """Feed a recorded log to the same policies again.

    Parameters
    ----------
    log : path
        What `orrery.simulate` or `orrery.live` wrote as `record`.
    parameters : mapping, optional
        Policy parameters to change: ``{"predictive-rebalance.gain_threshold": 0.1}``.

    Returns
    -------
    Replay
        Whether they decided the same, and the first difference if not.

    Raises
    ------
    InputError
        If the file is not such a log, or only a part of one.
    """
    changes = [f"{path}={_scalar(value)}" for path, value in (parameters or {}).items()]
    raw = _core.replay(os.fspath(log), changes)
    return Replay(
        raw.calls, raw.decisions, raw.decision_trace_sha256, raw.first_difference or None
    )


def policy_names() -> List[str]:
    """Names of the built-in policies.

    Returns
    -------
    list of str
        Sorted.
    """
    return sorted(_core.policy_names())


def version() -> str:
    """Version of this build.

    Returns
    -------
    str
        Such as ``"0.1.0"``.
    """
    return _core.version()
