"""Orrery: rehearse a GPU-cluster policy in simulation, then run the very same policy live.

>>> import orrery
>>> report = orrery.simulate("examples/straggler-4-ranks.yaml", policy="predictive-rebalance")
>>> print(report.summary())

Every run is a process of its own: a crash or Ctrl-C of a run never takes this one with it.
Times are seconds, sizes bytes.
"""

from orrery import events
from orrery._core import Cluster, Decisions, Job
from orrery._errors import (
    Error,
    GoalMissed,
    InputError,
    InternalError,
    MachineError,
    UsageError,
    WorkerDied,
)
from orrery._policy import Needs, Observation, Policy
from orrery._report import Report
from orrery._run import live, simulate
from orrery._scenario import Scenario, check, load
from orrery._sweep import sweep
from orrery._tools import JobsReport, Replay, jobs, policy_names, replay, version

__version__ = version()

__all__ = [
    "Cluster",
    "Decisions",
    "Error",
    "GoalMissed",
    "InputError",
    "InternalError",
    "Job",
    "JobsReport",
    "MachineError",
    "Needs",
    "Observation",
    "Policy",
    "Replay",
    "Report",
    "Scenario",
    "UsageError",
    "WorkerDied",
    "check",
    "events",
    "jobs",
    "live",
    "load",
    "policy_names",
    "replay",
    "simulate",
    "sweep",
    "version",
]
