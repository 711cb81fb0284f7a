"""Policies in the manner of Gandiva, Varuna and Oobleck decide alike in both worlds."""

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
    """Varuna: fewer replicas after a loss, as many as before once the GPUs are back."""

    def needs(self):
        return orrery.Needs(actions=[actions.Assign])

    def observe(self, seen, decisions):
        job = seen.jobs.get(0)
        if job is None or job.phase == "done" or job.next is not None:
            return
        home = list(range(job.spec.gpus))
        for event in seen.events:
            if isinstance(event, events.RanksLost):
                left = job.without_lost()
                small = actions.Assign(job, left.gpus, left.layout, state="peer")
                decisions.add(small, why=f"{left.layout.data} replicas are left")
            elif isinstance(event, events.PartChanged) and event.health != "lost":
                if len(job.gpus) < len(home):
                    whole = actions.Assign(job, home, job.spec.layout, state="peer")
                    decisions.add(whole, why="all GPUs are back")


class Recorded(orrery.Policy):
    """Placements and outcomes, as any policy sees them."""

    def __init__(self):
        self.sizes, self.gpus, self.outcomes, self.stopped = [], [], [], []

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.JobStarted):
                self.sizes.append(len(event.where.gpus))
                self.gpus.append(list(event.where.gpus))
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


def in_both(make, tmp_path, **changes):
    """Runs a policy in both worlds; returns what each saw, after the comparison of both."""
    seen = []
    overrides = {**SHORT, **changes}
    for number, run in enumerate((orrery.simulate, orrery.live)):
        record = tmp_path / f"{number}.log"
        if "live.checkpoints" in overrides:
            folder = {"folder": str(tmp_path / f"saved-{number}"), "every": 1_000_000}
            overrides["live.checkpoints"] = folder
        look = Recorded()
        report = run(STRAGGLER, policies=[make(), look], record=record, overrides=overrides)
        assert report.steps_completed == overrides["run.steps"]
        assert report.micro_batches_lost == report.micro_batches_repeated == 0
        assert orrery.replay(record, policies=[make(), Recorded()]).identical
        assert {status for status, _ in look.outcomes} == {"applied"}, look.outcomes
        seen.append((look, report))
    (simulated, _), (live, report) = seen
    assert live.sizes == simulated.sizes and live.gpus == simulated.gpus
    assert live.outcomes == simulated.outcomes and live.stopped == simulated.stopped
    calm = {**SHORT, "run.steps": overrides["run.steps"]}
    undisturbed = orrery.live(STRAGGLER, policy="static", overrides=calm)
    assert report.parameters_sha256 == undisturbed.parameters_sha256
    return live


def test_a_job_leaves_for_others_and_comes_back(tmp_path):
    changes = {"run.steps": 24, "live.checkpoints": {}}
    look = in_both(lambda: TimeSlices(8, 0.2), tmp_path, **changes)
    assert look.stopped == [9, 17] and look.sizes == [4, 4, 4]


def test_a_job_has_fewer_replicas_until_its_gpus_are_back(tmp_path):
    down = {"at_step": 5, "gpu": 2, "down": True, "until_step": 14}
    look = in_both(Morphing, tmp_path, **{"run.steps": 40, "faults": [down]})
    assert look.sizes == [4, 3, 4]


@pytest.mark.parametrize("warm", [0, 2])
def test_a_spare_replaces_a_lost_gpu(tmp_path, warm):
    down = {"at_step": 16, "gpu": 1, "down": True}
    changes = {"run.steps": 40, "faults": [down], "survival.warm": warm}
    look = in_both(HotSpares, tmp_path, **changes)
    assert look.gpus == [[0, 1, 2, 3], [0, 2, 3, 4]]
