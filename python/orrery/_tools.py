"""Replays of logs and of job traces, and names."""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import pandas as pd

from orrery import _core
from orrery._html import Row, count, duration, percent, table
from orrery._policy import PolicyLike, listed
from orrery._scenario import _scalar

PathLike = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Replay:
    """Result of the replay of a recorded log.

    Attributes
    ----------
    calls, decisions : int
        Number of calls of the policies, and of their decisions.
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

    def _repr_html_(self) -> str:
        rows: List[Row] = [
            ("verdict", "identical" if self.identical else "they decide otherwise"),
            ("first difference", self.first_difference),
            ("calls", count(self.calls)),
            ("decisions", count(self.decisions)),
        ]
        return table("Replay of a recorded log", rows)


class JobsReport:
    """The result of a job-level replay.

    Attributes are the keys of ``orrery jobs --json``: ``jobs_in``, ``jobs_out``, ``jct_mean_s``,
    ``jct_p50_s``, ``jct_p99_s`` (job completion times), ``queue_mean_s``, ``makespan_s`` (all
    seconds), ``utilization`` (0 to 1) and ``preemptions``, among others. ``recorded`` is the log's
    own outcome with the same keys, and ``savings`` is what the replay saves against it; both are
    ``None`` for a log without starts. Reports with equal ``completed_digest`` are about the same
    jobs; with equal ``schedule_digest``, all jobs of one log start and end at the same times.
    """

    def __init__(self, values: Mapping[str, Any], tables: Sequence[str] = ("",) * 5) -> None:
        self._values = dict(values)
        self._tables = tuple(tables)

    def _table(self, index: int) -> pd.DataFrame:
        names = dict.fromkeys(("job_id", "user", "vc", "name", "state", "reason", "key"), str)
        text = self._tables[index]
        if not text:
            return pd.DataFrame()
        return pd.read_csv(io.StringIO(text), dtype=names, keep_default_na=False, na_values=[""])

    @property
    def jobs(self) -> pd.DataFrame:
        """One row a job, in the order of the log: ``job_id, user, vc, name, num_gpus, submit_s,
        start_s, end_s, queue_s, jct_s, duration_s, estimate_s, preemptions, nodes, state, reason,
        line``. Times of missing events are NaN."""
        return self._table(0)

    @property
    def series(self) -> pd.DataFrame:
        """Use of the cluster over time, means over at most 2,048 intervals: ``begin_s, end_s,
        busy_gpus, utilization, waiting_jobs, waiting_gpus, fragmentation`` (share of the free GPUs
        that stand in nodes partly taken)."""
        return self._table(1)

    @property
    def groups(self) -> pd.DataFrame:
        """Completed jobs by size and by virtual cluster: ``by, key, jobs, gpu_hours, jct_mean_s,
        jct_p50_s, jct_p99_s, queue_mean_s, queue_p99_s``, and the same in the log's own outcome as
        ``recorded_jobs``, ``recorded_queue_mean_s``, ..., NaN for a log without starts."""
        return self._table(2)

    @property
    def backtest(self) -> pd.DataFrame:
        """Comparison of the replay with the recorded schedule: waits before the first
        start, over all jobs, by size and by hour of the day (counted from the first job): ``by,
        key, jobs, recorded_wait_s, replayed_wait_s, difference_s, within_minute, longer_in_log,
        full_s, quota_s, room_s``. The last three describe the log's cluster while a job
        waited there and no longer in the replay: fewer GPUs were free than it needs; its virtual
        cluster would have had more than ever; neither. Empty for a log without starts."""
        return self._table(3)

    @property
    def waits(self) -> pd.DataFrame:
        """Groups that wait less than in the log's own outcome, by virtual cluster, size and user,
        of the jobs that completed in both: ``by, key, jobs, queue_mean_s, before_queue_mean_s,
        saved_queue_mean_s, saved_queue_hours, saved_queue_gpu_hours``. Positive: less. An unknown
        user has the key NaN. Without rows for a log without starts."""
        return self._table(4)

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

    def _repr_html_(self) -> str:
        values = self._values
        nodes, each = values.get("nodes"), values.get("gpus_per_node")
        rows: List[Row] = [
            ("cluster", f"{nodes:,} nodes of {each} GPUs" if nodes and each else None),
            ("policy", values.get("policy")),
            ("placement", values.get("placement")),
            ("jobs ended", f"{self.jobs_out:,} of {self.jobs_in:,}"),
            ("completion, mean", duration(self.jct_mean_s)),
            ("completion, median", duration(self.jct_p50_s)),
            ("completion, 99th percentile", duration(self.jct_p99_s)),
            ("in the queue, mean", duration(self.queue_mean_s)),
            ("in the queue, as recorded", duration((values.get("recorded") or {}).get(
                "queue_mean_s"))),
            ("makespan", duration(self.makespan_s)),
            ("GPU utilization", percent(self.utilization)),
            ("decisions", count(values.get("decisions"))),
        ]
        return table("Job trace", rows)

    def __repr__(self) -> str:
        if self.jct_mean_s is None:
            return f"<orrery.JobsReport: 0 of {self.jobs_in} jobs ended>"
        return (
            f"<orrery.JobsReport: {self.jobs_out} jobs, mean completion {self.jct_mean_s:.1f} s, "
            f"mean queue {self.queue_mean_s:.1f} s, utilization {self.utilization:.4f}>"
        )


def _check_count(name: str, number: Any, most: int) -> None:
    whole = isinstance(number, Integral) and not isinstance(number, bool)
    if not whole or not 1 <= number <= most:
        raise ValueError(f"{name} is a whole number from 1 to {most}, not {number!r}")


def _check_replay(given: Mapping[str, Any]) -> None:
    policy = given["policy"]
    if isinstance(policy, str) and "," in policy:
        names = [name.strip() for name in policy.split(",")]
        raise ValueError(
            f"policy is one queue policy, not {policy!r}: call orrery.jobs once for each, "
            f"{{name: orrery.jobs(..., policy=name) for name in {names}}}"
        )
    kinds = given["node_kinds"]
    if kinds is not None:
        if given["nodes"] is not None or given["cluster"] is not None:
            raise ValueError("node_kinds is in place of nodes and of cluster: leave them out")
        if not kinds:
            raise ValueError("node_kinds has kinds of GPUs and their numbers of nodes, not {}")
        for kind, nodes in kinds.items():
            _check_count(f"node_kinds[{kind!r}]", nodes, 131072)
        _check_count("the sum of node_kinds", sum(kinds.values()), 131072)
    for name, most in (("nodes", 131072), ("gpus_per_node", 128)):
        if name == "nodes" and kinds is not None:
            continue
        if given[name] is not None or given["cluster"] is None:
            _check_count(name, given[name], most)
    if given["gpu_slices"] is not None:
        _check_count("gpu_slices", given["gpu_slices"], 1000)


def _order_of(given: Mapping[str, Any]) -> Dict[str, Any]:
    conditions, power = given["conditions"], given["power"]
    kinds = dict(given["node_kinds"] or {})
    return {
        "trace": os.fspath(given["trace"]),
        "nodes": int(given["nodes"] or sum(kinds.values())),
        "gpus_per_node": int(given["gpus_per_node"] or 0),
        "cluster": os.fspath(given["cluster"] or ""),
        "conditions": json.dumps(conditions) if conditions else "",
        "power": json.dumps(power) if power else "",
        "placement": str(given["placement"]),
        "estimates": str(given["estimates"]),
        "estimate_error": float(given["estimate_error"]),
        "seed": int(given["seed"]),
        "strict": bool(given["strict"]),
        "gpu_slices": int(given["gpu_slices"] or 0),
        "node_kinds": [(str(kind), int(nodes)) for kind, nodes in kinds.items()],
    }


def _changed_replay(asked: Mapping[str, Any]) -> JobsReport:
    # The replay of jobs() with changed arguments.
    changes = dict(asked["what_if"])
    others = {key: value for key, value in asked.items() if key != "what_if"}
    for key in changes:
        if key not in others or key in ("trace", "record"):
            known = ", ".join(key for key in others if key not in ("trace", "record"))
            raise ValueError(f"what_if changes an argument of orrery.jobs, not {key!r}: {known}")
    # Another policy is a change, and so is a cluster where none was given.
    has_base = others["policy"] == changes.get("policy", others["policy"])
    sizes = (others["nodes"], others["gpus_per_node"])
    has_base = has_base and (others["cluster"] is not None or None not in sizes)
    report = _replayed({**others, **changes}, others if has_base else None)
    report._values["what_if"] = ", ".join(f"{key}={value}" for key, value in changes.items())
    return report


def _replayed(given: Mapping[str, Any], base: Optional[Mapping[str, Any]] = None) -> JobsReport:
    # The replay of jobs() with these arguments; `base`: those without a change.
    _check_replay(given)
    if base is not None:
        _check_replay(base)
    policy = given["policy"]
    named = policy if isinstance(policy, str) else listed(policy, None) or []
    report, *tables = _core.jobs(
        _order_of(given),
        os.fspath(given["record"] or ""),
        named,
        None if base is None else _order_of(base),
    )
    return JobsReport(json.loads(report), tables)


def jobs(
    trace: PathLike,
    nodes: Optional[int] = None,
    gpus_per_node: Optional[int] = None,
    policy: PolicyLike = "fifo",
    placement: str = "count",
    record: Optional[PathLike] = None,
    estimates: str = "recorded",
    estimate_error: float = 0.5,
    seed: int = 1,
    strict: bool = False,
    cluster: Optional[PathLike] = None,
    conditions: Optional[Mapping[str, Any]] = None,
    what_if: Optional[Mapping[str, Any]] = None,
    gpu_slices: Optional[int] = None,
    node_kinds: Optional[Mapping[str, int]] = None,
    power: Optional[Mapping[str, Any]] = None,
) -> JobsReport:
    """Replay a production job trace on a cluster, job by job.

    Parameters
    ----------
    trace : path
        A job log, gzip too: our own CSV, or another tool's as `orrery.job_log` reads it.
    nodes, gpus_per_node, cluster : int, int, path, optional
        Size of the cluster, or its description (YAML), which says how nodes are joined.
    policy : str, mapping or Policy
        Order of the queue by its name, as ``orrery jobs --policy`` has it (``"fifo"``, ``"easy"``,
        ``"srtf"``, ``"priority"``, ...), or an `orrery.Policy` that assigns GPUs to jobs.
    placement : {"count", "consolidated", "topology"}
        Any free GPUs; those of as few nodes as possible; gangs also within few scalable units.
    record : path, optional
        Where to write the observation and decision log, for `orrery.replay`.
    estimates, estimate_error : {"recorded", "requested", "learned", "disturbed"}, float
        Estimates for policies: the truth, the requests of users, the durations of similar
        them took before, or the truth by a factor of which `estimate_error` disturbs the logarithm.
    seed : int
        Seed of the random draws.
    strict : bool
        Refuse broken rows of other tools' logs instead of counting them.
    conditions : mapping, optional
        How jobs run, with the keys of ``orrery jobs --conditions``: ``{"restart_cost": "60 s"}``,
        or ``{"speed": "simulated", "kinds": [...]}``, which needs `cluster`.
    what_if : mapping, optional
        Arguments of this function with other values: ``{"nodes": 72}``. The report names them as
        ``report.what_if``. A change that the replay does not read is refused; other changes may
        still move no job: compare ``report.schedule_digest``.
    gpu_slices : int, optional
        Slices of each GPU, up to 1,000, to which parts of GPUs are rounded up.
    node_kinds : mapping, optional
        Nodes by kind of GPU, in order, in place of `nodes`: ``{"A100": 4, "V100": 8}``.
    power : mapping, optional
        Power budget of the `cluster`, as in a replay's file: ``{"limits": [{"share": "80%"}]}``.

    Returns
    -------
    JobsReport
        Times in seconds; its tables are DataFrames.

    Raises
    ------
    InputError
        For a bad trace, with its line, and for an unknown policy or placement.
    UsageError
        For `what_if` without effect.
    ValueError
        For a cluster without nodes or GPUs, or one that is too large.
    """
    given = dict(locals())
    return _changed_replay(given) if what_if else _replayed(given)


def job_log(
    path: PathLike,
    strict: bool = False,
    throughputs: Optional[PathLike] = None,
    gpu: str = "v100",
    anonymous: bool = False,
    gpu_kind: str = "",
    columns: str = "",
) -> pd.DataFrame:
    """Read another tool's job log.

    That is one in our own form or in any format that ``orrery import jobs --help`` names, for
    example of Slurm (``sacct -P``) or Kubernetes and Kueue (``kubectl get -o json``).

    Parameters
    ----------
    path : path
        The log, gzip too; its begin determines the format.
    strict : bool
        Refuse broken rows instead of counting them.
    throughputs : path, optional
        Gavel's traces say steps: its table of steps per second (JSON).
    gpu : str
        Which GPU's throughputs.
    anonymous : bool
        Numbers in place of the names of users, virtual clusters, jobs, QOS and ids.
    gpu_kind : str
        Only jobs that may have this kind of GPU, as the log names it; empty: all jobs.
    columns : str
        Names of all columns of a log of ``sacct`` without a header (``sacct -n``), between
        commas: the list after its ``-o``.

    Returns
    -------
    pandas.DataFrame
        One row a job: ``job_id, submit_s, num_gpus, duration_s, vc, user, name, requested_s,
        recorded_start_s, priority, after, qos, gpu_kind, speeds, min_gpus, max_gpus,
        scaling``; unknown values are
        NaN. Its ``attrs["quality"]`` has the results of the rows.

    Raises
    ------
    InputError
        For a file that is not a job log, with the place.
    """
    table, quality = _core.job_log(
        os.fspath(path),
        bool(strict),
        os.fspath(throughputs or ""),
        str(gpu),
        str(gpu_kind),
        bool(anonymous),
        str(columns),
    )
    texts = ("job_id", "vc", "user", "name", "after", "qos", "gpu_kind", "speeds")
    names = dict.fromkeys(texts, str)
    log = pd.read_csv(io.StringIO(table), dtype=names, keep_default_na=False, na_values=[""])
    log.attrs["quality"] = json.loads(quality)
    return log


def replay(
    log: PathLike,
    parameters: Optional[Mapping[str, Any]] = None,
    policy: PolicyLike = None,
    policies: Optional[Sequence[PolicyLike]] = None,
) -> Replay:
    """Feed a recorded log to the same policies again.

    Parameters
    ----------
    log : path
        The file that `orrery.simulate` or `orrery.live` wrote as `record`.
    parameters : mapping, optional
        Policy parameters to change: ``{"predictive-rebalance.gain_threshold": 0.1}``.
    policy, policies : optional
        Instead of those of the log, as for `orrery.simulate`; a run under an `orrery.Policy` is
        replayed with an object of the same class.

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
    chosen = listed(policy, policies)
    if changes and chosen is not None:
        raise ValueError("parameters change the log's policies; those of your own have theirs")
    raw = _core.replay(os.fspath(log), changes, chosen)
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
