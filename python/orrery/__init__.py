"""Orrery: rehearse a GPU-cluster policy in simulation, then run the very same policy live.

>>> import orrery
>>> straggler = orrery.example("straggler-4-ranks")
>>> report = orrery.simulate(straggler, policy="predictive-rebalance")
>>> print(report.summary())

Every run is a process of its own: a crash or Ctrl-C of a run never takes this one with it.
Times are seconds, sizes bytes.
"""

from orrery import actions, events, settings, testing, values
from orrery._answer import Answer
from orrery._cluster import Cluster
from orrery._compare import compare_policies
from orrery._errors import (
    Error,
    GoalMissed,
    InputError,
    InternalError,
    MachineError,
    UsageError,
    WorkerDied,
)
from orrery._examples import example
from orrery._extras import name_the_extra_of_plots
from orrery._futures import futures
from orrery._log import Log, read_log
from orrery._plan import Plan, plan
from orrery._planning import layouts, names, predict
from orrery._played import PlayedRow
from orrery._prices import prices
from orrery._policy import Capabilities, Needs, Policy
from orrery._report import Report
from orrery._run import live, simulate
from orrery._scenario import Scenario, check, load
from orrery._samples import SampleTable
from orrery._seen import (
    Decisions,
    Job,
    Jobs,
    Observation,
    PartState,
    RankSummary,
    Samples,
    State,
)
from orrery._simulation import Simulation
from orrery._snapshot import Snapshot
from orrery._spec import JobSpec
from orrery._summary import summary
from orrery._sweep import sweep
from orrery._tools import JobsReport, Replay, job_log, jobs, policy_names, replay, version
from orrery._torchtitan import TorchtitanConfig, torchtitan
from orrery._twin import TwinScore, twin_score
from orrery.values import Layout, Standing

__version__ = version()
name_the_extra_of_plots()

__all__ = [
    "Answer",
    "Capabilities",
    "Cluster",
    "Decisions",
    "Error",
    "GoalMissed",
    "InputError",
    "InternalError",
    "Job",
    "JobSpec",
    "Jobs",
    "JobsReport",
    "Layout",
    "Log",
    "MachineError",
    "Needs",
    "Observation",
    "PartState",
    "Plan",
    "PlayedRow",
    "Policy",
    "RankSummary",
    "Replay",
    "Report",
    "SampleTable",
    "Samples",
    "Scenario",
    "Simulation",
    "Snapshot",
    "Standing",
    "State",
    "TorchtitanConfig",
    "TwinScore",
    "UsageError",
    "WorkerDied",
    "actions",
    "check",
    "compare_policies",
    "events",
    "example",
    "futures",
    "job_log",
    "jobs",
    "layouts",
    "live",
    "load",
    "names",
    "plan",
    "policy_names",
    "predict",
    "prices",
    "read_log",
    "replay",
    "settings",
    "simulate",
    "summary",
    "sweep",
    "testing",
    "torchtitan",
    "twin_score",
    "values",
    "version",
]
