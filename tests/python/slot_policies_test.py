"""Policies in the manner of Gandiva, Varuna and Oobleck decide alike in both worlds."""

import dataclasses

import pytest
from conftest import STRAGGLER
from outside_policies import HotSpares

import orrery
from orrery import actions, events


class TimeSlices(orrery.Policy):
    """Gandiva: the job leaves its GPUs after a slice of steps and comes back from a checkpoint."""

    def __init__(self, steps, away_s):
        self.steps, self.away_s = steps, away_s
        self.newest, self.back, self.gpus, self.layout = 0, None, [], None

    def needs(self):
        return orrery.Needs(actions=[actions.Assign, actions.Save])

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.JobStarted):
                self.gpus, self.layout = list(event.where.gpus), event.where.layout
            elif isinstance(event, events.StepsDone):
                over = (event.last + 1) % self.steps == 0 and event.last > self.newest
                if over and event.last + 2 < seen.jobs[0].spec.steps:
                    self.newest = event.last
                    decisions.add(actions.Save(0, tier="local-disk"), why="its slice is over")
            elif isinstance(event, events.SaveDone) and event.durable:
                decisions.add(actions.Assign(0), why="room for another job")
            elif isinstance(event, events.JobStopped):
                self.back = round(seen.now + self.away_s, 9)  # whole nanoseconds
                decisions.wake(self.back)
        if self.back is not None and seen.now >= self.back:
            self.back = None
            again = actions.Assign(0, self.gpus, self.layout, state="checkpoint")
            decisions.add(again, why="its turn")


class Morphing(orrery.Policy):
    """Varuna: another pipeline depth after a loss, with as many replicas as before; where the job
    keeps its depth, fewer replicas. The layout of the submission once the GPUs are back."""

    def __init__(self, depth=None):
        self.depth = depth  # instead of the depth that uses the most GPUs
        self.refused = False

    def needs(self):
        return orrery.Needs(actions=[actions.Assign])

    def observe(self, seen, decisions):
        job = seen.jobs.get(0)
        if job is None or job.phase == "done" or job.next is not None:
            return
        home = list(range(job.spec.gpus))
        for event in seen.events:
            if isinstance(event, events.RanksLost):
                self.morph(job, decisions)
            elif isinstance(event, events.Decided) and "pipeline depth" in event.reason:
                self.refused = True
                self.morph(job, decisions)
            elif isinstance(event, events.PartChanged) and event.health != "lost":
                if len(job.gpus) < len(home):
                    whole = actions.Assign(job, home, job.spec.layout, state="peer")
                    decisions.add(whole, why="all GPUs are back")

    def morph(self, job, decisions):
        works = [gpu for rank, gpu in enumerate(job.gpus) if rank not in job.lost]
        depth = self.depth or len(works) // job.layout.data
        if self.refused or depth == 0:
            left = job.without_lost()
            small = actions.Assign(job, left.gpus, left.layout, state="peer")
            decisions.add(small, why=f"{left.layout.data} replicas are left")
            return
        data = min(job.layout.data, len(works) // depth)
        layout = dataclasses.replace(job.spec.layout, pipeline=depth, data=data)
        other = actions.Assign(job, works[: layout.ranks], layout, state="peer")
        decisions.add(other, why=f"{data} replicas of {depth} stages")


class Recorded(orrery.Policy):
    """Placements and outcomes, as any policy sees them."""

    def __init__(self):
        self.sizes, self.gpus, self.outcomes, self.stopped = [], [], [], []
        self.depths = []

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.JobStarted):
                self.sizes.append(len(event.where.gpus))
                self.gpus.append(list(event.where.gpus))
                self.depths.append(event.where.layout.pipeline)
            elif isinstance(event, events.JobStopped):
                self.stopped.append(event.kept)
            elif isinstance(event, events.Decided):
                self.outcomes.append((event.status, event.reason))


SHORT = {
    "job.global_batch": 8,
    "job.pace.micro_batch": "40 ms",
    "job.sequence_length": 8,  # computes little: slow machines keep the pace
    "cluster.nodes": 2,
    "faults": [],
    "survival.replacement": "300 ms",
    "survival.restart": "300 ms",
}


def in_both(make, tmp_path, refused=(), **changes):
    """Runs a policy in both worlds; returns what each saw, after the comparison of both. Decisions
    may be refused with a reason that contains one of `refused`."""
    seen, rows = [], []
    overrides = {**SHORT, **changes}
    for number, run in enumerate((orrery.simulate, orrery.live)):
        record = tmp_path / f"{number}.log"
        if "checkpoints" in overrides:
            folder = {"folder": str(tmp_path / f"saved-{number}"), "every": 1_000_000}
            overrides["checkpoints"] = folder
        look = Recorded()
        report = run(STRAGGLER, policies=[make(), look], record=record, overrides=overrides)
        assert report.steps_completed == overrides["run.steps"]
        assert report.micro_batches_lost == report.micro_batches_repeated == 0
        assert orrery.replay(record, policies=[make(), Recorded()]).identical
        assert look.outcomes
        for status, reason in look.outcomes:
            assert status == "applied" or any(each in reason for each in refused), look.outcomes
        seen.append((look, report))
        decided = orrery.read_log(record).decisions
        rows.append(decided[["job", "action", "setting", "parameters", "why"]].values.tolist())
    assert rows[0] == rows[1]
    (simulated, _), (live, report) = seen
    assert live.sizes == simulated.sizes and live.gpus == simulated.gpus
    assert live.outcomes == simulated.outcomes and live.stopped == simulated.stopped
    calm = {**SHORT, "run.steps": overrides["run.steps"]}
    undisturbed = orrery.live(STRAGGLER, policy="static", overrides=calm)
    assert report.parameters_sha256 == undisturbed.parameters_sha256
    return live


def test_a_job_leaves_for_others_and_comes_back(tmp_path):
    changes = {"run.steps": 24, "checkpoints": {}}
    look = in_both(lambda: TimeSlices(8, 0.2), tmp_path, **changes)
    assert look.stopped == [9, 17] and look.sizes == [4, 4, 4]


def test_a_job_has_fewer_replicas_until_its_gpus_are_back(tmp_path):
    down = {"at_step": 5, "gpu": 2, "down": True, "until_step": 14}
    look = in_both(Morphing, tmp_path, **{"run.steps": 40, "faults": [down]})
    assert look.sizes == [4, 3, 4]


def test_live_runs_keep_their_pipeline_depth(tmp_path):
    down = {"at_step": 5, "gpu": 2, "down": True, "until_step": 14}
    reason = "live runs keep their pipeline depth"
    changes = {"run.steps": 40, "faults": [down]}
    look = in_both(lambda: Morphing(depth=2), tmp_path, refused=[reason], **changes)
    assert look.sizes == [4, 3, 4]
    assert [reason in each for _, each in look.outcomes] == [True, False, False]


#: Two replicas of four stages of a model that is described by its sizes.
DESCRIBED = {
    "name": "varuna",
    "cluster": {
        "nodes": 1,
        "node": {
            "gpu": "H100",
            "gpus_per_node": 8,
            "nics_per_node": 8,
            "nic_bandwidth": "400 Gbps",
        },
        "fabric": {"kind": "flat"},
    },
    "job": {
        "model": {
            "layers": 8,
            "hidden": 2048,
            "heads": 16,
            "feed_forward": 8192,
            "vocabulary": 32000,
        },
        "sequence_length": 2048,
        "global_batch": 16,
        "layout": {"tensor": 1, "pipeline": 4, "data": 2},
    },
    "run": {"steps": 40},
    "faults": [{"at_step": 5, "gpu": 6, "down": True, "until_step": 14}],
}


@pytest.mark.parametrize("detail", ["folded", "full"])
def test_a_simulated_job_gets_a_shallower_pipeline(detail, tmp_path):
    record, look = tmp_path / "run.log", Recorded()
    report = orrery.simulate(DESCRIBED, policies=[Morphing(), look], record=record, detail=detail)
    assert look.depths == [4, 3, 4] and look.sizes == [8, 6, 8]
    assert {status for status, _ in look.outcomes} == {"applied"}
    assert report.steps_completed == 40
    assert report.micro_batches_lost == report.micro_batches_repeated == 0
    assert orrery.replay(record, policies=[Morphing(), Recorded()]).identical


@pytest.mark.parametrize("warm", [0, 2])
def test_a_spare_replaces_a_lost_gpu(tmp_path, warm):
    down = {"at_step": 16, "gpu": 1, "down": True}
    changes = {"run.steps": 40, "faults": [down], "survival.warm": warm}
    look = in_both(HotSpares, tmp_path, **changes)
    assert look.gpus == [[0, 1, 2, 3], [0, 2, 3, 4]]
