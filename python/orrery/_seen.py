"""Observation of a policy, and the list of its decisions."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Dict, Iterator, List, Mapping, Optional, Set, Tuple, Union

import numpy as np
import numpy.typing as npt

from orrery import _core
from orrery._cluster import Cluster
from orrery._samples import SampleTable
from orrery._spec import JobAttributes, JobSpec
from orrery.actions import Action, Configure
from orrery.events import Event
from orrery.settings import Setting, Settings
from orrery.values import Layout, Standing


class Job(JobAttributes):
    """Job at the time of an observation. A copy: it may be kept.

    The data of its submission are attributes (``job.user``, ``job.estimate``, all of
    `orrery.JobSpec` except those below), and each setting as it is now (``job.shares``,
    ``job.checkpoint_plan``, all of `orrery.settings`). Where a number of a job is wanted the job
    itself does: ``Assign(job, ...)``.
    """

    def __init__(self, core: _core.JobInfo) -> None:
        self._core = core

    @property
    def id(self) -> int:
        """Its number, in order of submission."""
        return self._core.id

    def __index__(self) -> int:
        return self._core.id

    @property
    def phase(self) -> str:
        """``"waiting"``, ``"starting"``, ``"running"``, ``"held"`` or ``"done"``."""
        return self._core.phase

    @property
    def epoch(self) -> int:
        """Epoch of its membership; grows with every loss and every start."""
        return self._core.epoch

    @property
    def step(self) -> int:
        """The step being worked on."""
        return self._core.step

    @property
    def saved(self) -> int:
        """The step that its newest durable checkpoint goes on from."""
        return self._core.saved

    @property
    def saved_at(self) -> float:
        """Time at which that checkpoint became durable, in seconds; 0: never."""
        return self._core.saved_at

    @property
    def started(self) -> float:
        """Time of the last start, in seconds."""
        return self._core.started

    @property
    def gpu_seconds(self) -> float:
        """GPU time that it has had up to `standing_since`."""
        return self._core.gpu_seconds

    @property
    def standing_since(self) -> float:
        """Begin of the present placement, in seconds."""
        return self._core.standing_since

    @property
    def lost(self) -> List[int]:
        """Ranks that are lost, ascending."""
        return self._core.lost

    @property
    def suspected(self) -> List[int]:
        """Ranks that have not been heard of for a while, ascending."""
        return self._core.suspected

    @cached_property
    def _spec(self) -> JobSpec:
        spec: JobSpec = self._core.spec()
        return spec

    @property
    def spec(self) -> JobSpec:
        """Data known at submission."""
        return self._spec

    @cached_property
    def _now(self) -> Settings:
        return Settings(*self._core.settings())

    @property
    def now(self) -> Settings:
        """Settings of the current step."""
        return self._now

    @cached_property
    def _standing(self) -> Standing:
        standing: Standing = self._core.standing()
        return standing

    @property
    def gpus(self) -> List[int]:
        """GPUs of rank 0, 1 and so on; empty while it waits."""
        return self._standing.gpus

    @property
    def layout(self) -> Layout:
        """Division of those ranks; as submitted while the job waits."""
        return self._standing.layout

    @property
    def next(self) -> Optional[Standing]:
        """Assigned and not come true yet; without GPUs: it leaves."""
        standing: Optional[Standing] = self._core.next()
        return standing

    def without_lost(self) -> Standing:
        """Return the placement without the lost replicas.

        Returns
        -------
        Standing
            GPUs and layout for an `orrery.actions.Assign`.
        """
        standing: Standing = self._core.without_lost()
        return standing

    def __repr__(self) -> str:
        return f"<orrery.Job {self.id}: {self.phase}, {len(self.gpus)} GPUs, step {self.step}>"


class Jobs(Mapping[int, Job]):
    """Jobs that wait or run, by number, in order of submission.

    One that is over is there once more, as ``"done"``, in the observation that shows its end.
    """

    def __init__(self, observed: _core.Observed) -> None:
        self._observed = observed
        self._read: Dict[int, Job] = {}

    @cached_property
    def _ids(self) -> List[int]:
        return self._observed.job_ids()

    def __getitem__(self, job: int) -> Job:
        number = operator.index(job)
        if number not in self._read:
            found = self._observed.job(number) if number >= 0 else None
            if found is None:
                raise KeyError(f"there is no job {number}: it is over, or never was")
            self._read[number] = Job(found)
        return self._read[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    @cached_property
    def _columns(self) -> Dict[str, npt.NDArray[Any]]:
        columns, rows, *names = self._observed.job_table()
        read = np.frombuffer(rows, dtype=np.dtype(columns))
        table: Dict[str, npt.NDArray[Any]] = {name: read[name] for name in read.dtype.names or ()}
        for column, texts in zip(("phase", "user", "pool"), names):
            table[column] = np.array(texts, dtype=np.str_)[table[column]]
        table["pending"] = table["pending"] != 0
        return table

    def table(self) -> Dict[str, npt.NDArray[Any]]:
        """Return all jobs at once, as one NumPy array for each column.

        Reading one job after another costs a conversion for each; a scheduler of thousands of jobs
        reads the table.

        Returns
        -------
        dict of str to numpy.ndarray
            Rows in the order of submission. Columns: ``id``, ``phase``, ``user``, ``pool``,
            ``priority``, ``gpus`` (requested), ``least_gpus``, ``most_gpus``, ``placed_gpus``
            (number that the job has), ``lost`` (number of lost ranks), ``pending`` (an assignment
            has not come true yet), ``epoch``, ``step``, ``saved``, ``gpu_seconds``; in seconds
            ``submit``, ``estimate``, ``saved_at``, ``started``, ``standing_since``.
        """
        return dict(self._columns)


@dataclass(frozen=True)
class PartState:
    """State of a part of the cluster.

    Attributes
    ----------
    health : {"ok", "suspected", "lost"}
    rate : float
        Share of the data sheet's (compute, bandwidth) that is left.
    since : float
        Seconds of the policy clock.
    removed_at, removed_at_step : float or int, optional
        Announced removal: seconds of the policy clock, or the step before which it happens.
    back_at, back_at_step : float or int, optional
        Return of the part, if it is stated.
    """

    health: str
    rate: float
    since: float
    removed_at: Optional[float] = None
    removed_at_step: Optional[int] = None
    back_at: Optional[float] = None
    back_at_step: Optional[int] = None


class State:
    """Owners of GPUs, and parts of the cluster that deviate from their data sheet."""

    def __init__(self, observed: _core.Observed) -> None:
        self._observed = observed

    @cached_property
    def free(self) -> int:
        """Number of healthy GPUs without an owner."""
        return self._observed.free

    @cached_property
    def free_gpus(self) -> npt.NDArray[np.uint32]:
        """Numbers of the GPUs that are well and nobody's, ascending."""
        return np.frombuffer(self._observed.free_gpus(), dtype=np.uint32)

    @cached_property
    def free_per_node(self) -> npt.NDArray[np.uint32]:
        """Number of healthy GPUs without an owner, indexed by node."""
        return np.frombuffer(self._observed.free_per_node, dtype=np.uint32)

    @cached_property
    def owner(self) -> npt.NDArray[np.int64]:
        """Job that has the GPU or is about to get it, indexed by GPU; -1 for none."""
        return np.frombuffer(self._observed.owner(), dtype=np.int64)

    @cached_property
    def parts(self) -> Dict[Tuple[str, int], PartState]:
        """State by kind and number, such as ``("gpu", 3)``, of the parts that are not as new."""
        return {
            (state[0], state[1]): PartState(*state[2:]) for state in self._observed.parts()
        }


@dataclass(frozen=True)
class RankSummary:
    """A job's ranks in a few numbers, at any size.

    Attributes
    ----------
    ranks : int
        That are there.
    micro_batch_time : float
        Median of the ranks in seconds; 0 if unknown.
    deviation : float
        Of one rank from it, as a share: 1.4826 x the median deviation.
    age : float
        Seconds.
    latest : numpy.ndarray
        Structured array with the columns of `Samples.ranks`: the slowest, slowest first.
    """

    ranks: int
    micro_batch_time: float
    deviation: float
    age: float
    latest: npt.NDArray[np.void]


class Samples:
    """Telemetry, read on access: data that no policy reads are not recorded.

    Nor are they computed, except columns that the policy has read at both of the last calls.

    Ranks, devices and links are tables of columns (`SampleTable`), one row a rank, GPU or path;
    collectives are a structured array, one row each. A sample is two columns: its value, and with
    ``_age`` behind its name how many seconds ago it was true; both are NaN where it is missing.
    Unknown data have no row.
    """

    def __init__(self, observed: _core.Observed) -> None:
        self._observed = observed
        self._known: Dict[Tuple[str, int], SampleTable] = {}
        self._collectives: Dict[int, npt.NDArray[np.void]] = {}

    def _table(self, kind: str, job: Union[int, Job]) -> SampleTable:
        key = kind, operator.index(job)
        if key not in self._known:
            self._known[key] = SampleTable(self._observed, *key)
        return self._known[key]

    def ranks(self, job: Union[int, Job]) -> SampleTable:
        """Ranks of a job.

        Parameters
        ----------
        job : int or Job
            Which.

        Returns
        -------
        SampleTable
            Columns: ``job``, ``rank``, ``step`` (being worked on), ``micro_batches_done`` (of this
            step, with the fraction of the current one), ``micro_batch_time`` (s of compute, most
            recent), ``wait_time`` (s waited for others in the last step), ``gradient_variance``,
            ``noise_scale`` (sequences), ``input_wait`` (s waited for training data in the last
            step).
        """
        return self._table("ranks", job)

    def devices(self, job: Union[int, Job]) -> SampleTable:
        """GPUs of a job.

        Parameters
        ----------
        job : int or Job
            Which.

        Returns
        -------
        SampleTable
            Columns: ``gpu``, ``utilization`` (0 to 1), ``memory_bandwidth`` (0 to 1 of the peak),
            ``memory_used`` (bytes), ``power`` (W).
        """
        return self._table("devices", job)

    def links(self, job: Union[int, Job]) -> SampleTable:
        """Paths between GPUs of a job that talk to each other.

        Parameters
        ----------
        job : int or Job
            Which.

        Returns
        -------
        SampleTable
            Columns: ``from_gpu``, ``to_gpu``, ``latency`` (s), ``bandwidth`` (bytes/s).
        """
        return self._table("links", job)

    def collectives(self, job: Union[int, Job]) -> npt.NDArray[np.void]:
        """Return the gradient sums of a job in its newest committed step.

        Parameters
        ----------
        job : int or Job
            Which.

        Returns
        -------
        numpy.ndarray
            Fields: ``job``, ``kind`` and ``algorithm`` (names, as in `orrery.values`), ``bytes``
            (of the gradients in fp32), ``ranks``, ``exposed`` (s that computation did not hide),
            ``step``.
        """
        number = operator.index(job)
        if number not in self._collectives:
            found = self._observed.samples("collectives", number, 0)
            self._collectives[number] = _array(*found)
        return self._collectives[number]

    def summary(self, job: Union[int, Job], latest: int = 8) -> RankSummary:
        """Ranks of a job in a few numbers: cheap at any size.

        Parameters
        ----------
        job : int or Job
            Which.
        latest : int
            How many of the slowest to name.

        Returns
        -------
        RankSummary
            Times in seconds.
        """
        number = operator.index(job)
        found = self._observed.samples("summary", number, operator.index(latest))
        ranks, micro_batch_time, deviation, age, rows = found
        return RankSummary(ranks, micro_batch_time, deviation, age, _array(*rows))


def _array(columns: List[Tuple[str, str]], rows: bytes) -> npt.NDArray[np.void]:
    return np.frombuffer(rows, dtype=np.dtype(columns))


class Observation:
    """Observation of a policy at one instant.

    Each part is read when it is first asked for, and only inside ``observe()``; what was read is
    a copy and may be kept.
    """

    def __init__(self, observed: _core.Observed, cluster: Cluster) -> None:
        self._observed = observed
        self.now = observed.now
        """Policy clock in seconds."""
        self.sequence = observed.sequence
        """How many calls came before this one."""
        self.cluster = cluster
        """The immutable description of the cluster."""

    @cached_property
    def events(self) -> List[Event]:
        """Events since the last call, in order."""
        happened: List[Event] = self._observed.events()
        return happened

    @cached_property
    def jobs(self) -> Jobs:
        """Jobs that wait or run, by number."""
        return Jobs(self._observed)

    @cached_property
    def state(self) -> State:
        """Owners of the GPUs, and lost or slow parts of the cluster."""
        return State(self._observed)

    @cached_property
    def samples(self) -> Samples:
        """Telemetry."""
        return Samples(self._observed)


class Decisions:
    """List of a policy's decisions; only valid inside ``observe()``.

    Every decision gets one `orrery.events.Decided` later, with the id that `add` and `configure`
    return: ``"applied"``, ``"rejected"`` with a reason, or ``"expired"``.
    """

    def __init__(self, sink: _core.DecisionSink, needed: Set[str], policy: str) -> None:
        self._sink = sink
        self._needed = needed
        self._policy = policy

    def add(
        self,
        action: Action,
        *,
        why: str = "",
        at_step: int = 0,
        if_epoch: Optional[int] = None,
        expires: Optional[float] = None,
        group: int = 0,
    ) -> int:
        """Add a decision.

        Parameters
        ----------
        action : orrery.actions.Action
            The action: ``actions.Assign(job, gpus=[range(0, 8), 12])``, ``actions.Save(job)``.
        why : str
            For people: one line.
        at_step : int
            First step that it holds for; 0: at once.
        if_epoch : int, optional
            Void once the job's membership (``job.epoch``) is another.
        expires : float, optional
            Void after this instant, in seconds of the policy clock.
        group : int
            Decisions of one call with the same number of `new_group` hold together or not at all,
            in their order: a job leaves, another takes its GPUs.

        Returns
        -------
        int
            Its id, counted over the whole run.

        Raises
        ------
        TypeError, ValueError
            If it is no action, a field has no such value, or ``needs()`` does not name it.
        """
        if isinstance(action, Configure):
            self._check(action.what, "settings")
        else:
            self._check(action, "actions")
        return self._sink.add(action, why, at_step, if_epoch, expires, group)

    def configure(
        self,
        job: Union[int, Job],
        setting: Setting,
        *,
        why: str = "",
        at_step: int = 0,
        if_epoch: Optional[int] = None,
        expires: Optional[float] = None,
        group: int = 0,
    ) -> int:
        """Set one property of a job: `add` of an `orrery.actions.Configure`.

        Parameters
        ----------
        job : int or Job
            Which.
        setting : orrery.settings.Setting
            The setting: ``settings.Shares([12, 12, 4, 12])``, ``settings.CheckpointPlan(50)``.
        why, at_step, if_epoch, expires, group
            As for `add`. A change of steps holds from the next step on if `at_step` is 0.

        Returns
        -------
        int
            The decision's id.
        """
        return self.add(
            Configure(operator.index(job), setting),
            why=why,
            at_step=at_step,
            if_epoch=if_epoch,
            expires=expires,
            group=group,
        )

    def wake(self, at: float) -> None:
        """Be called at an instant, once, with an `orrery.events.Tick`. Decides nothing.

        Parameters
        ----------
        at : float
            Seconds of the policy clock.
        """
        self._sink.wake(at)

    def rest(self) -> None:
        """Promise to decide nothing while no event happens and samples change by noise only.

        Lets a simulation skip the ticks in between, which is most of its speed; an event or a
        wake-up always ends the rest. A policy that counts ticks or compares samples with earlier
        ones must not rest: ``detail="full"`` calls it at every tick all the same, and the decisions
        decides has to be equal.
        """
        self._sink.rest()

    def note(self, key: str, value: Union[bool, float, str]) -> None:
        """Add an annotation to the run's log, for people and tools.

        `orrery.read_log` shows the annotations and the report counts them. They decide nothing, and
        a replay does not compare them.

        Parameters
        ----------
        key : str
            Name: ``"slow ranks"``.
        value : bool, int, float or str
            A number is recorded as a float.
        """
        self._sink.note(key, value)

    def new_group(self) -> int:
        """A number for a group of decisions that hold together or not at all.

        Returns
        -------
        int
            For the `group` of `add` and `configure`, in this call.
        """
        return self._sink.new_group()

    def __len__(self) -> int:
        return len(self._sink)

    def _check(self, what: Any, kind: str) -> None:
        # A decision that needs() leaves out is refused, because the run was prepared without it.
        name = type(what).__name__
        base = Action if kind == "actions" else Setting
        if isinstance(what, base) and name not in self._needed:
            raise ValueError(
                f"{self._policy}.needs() does not name {name}: "
                f'return orrery.Needs({kind}=["{name}"]) there'
            )
