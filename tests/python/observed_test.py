"""Observations of a policy written in Python, and their lifetime."""

import math
import os

import numpy as np
import pytest
from conftest import ROOT, STRAGGLER

import orrery
from orrery import events


class Witness(orrery.Policy):
    def __init__(self):
        self.seen, self.events, self.rows, self.jobs, self.process = [], [], [], [], None

    def needs(self):
        return orrery.Needs(tick=0.05)

    def start(self):
        self.process = os.getpid()

    def observe(self, seen, decisions):
        self.seen.append(seen)
        self.events += seen.events
        self.jobs.append(seen.jobs[0])
        self.rows.append(seen.samples.ranks(0).rows())


def test_what_a_policy_sees():
    policy = Witness()
    report = orrery.simulate(STRAGGLER, policy=policy)
    assert policy.process == os.getpid()
    assert (policy.cluster.gpus, policy.cluster.nodes) == (4, 1)
    times = [seen.now for seen in policy.seen]
    assert times == sorted(times) and times[-1] <= report.elapsed_s + 1
    assert [seen.sequence for seen in policy.seen] == list(range(len(times)))
    done = [event for event in policy.events if isinstance(event, events.StepsDone)]
    assert [event.last for event in done] == list(range(40))
    assert sum(isinstance(event, events.Tick) for event in policy.events) > 40
    assert math.isclose(done[0].duration, report.step_times[0], rel_tol=0.05)
    rows = np.concatenate(policy.rows)
    assert set(rows["rank"]) == {0, 1, 2, 3}
    known = rows[np.isfinite(rows["micro_batch_time"])]
    assert len(known) > 100 and (known["micro_batch_time_age"] > 0).any()
    job = next(job for job in reversed(policy.jobs) if job.phase == "running")
    assert policy.jobs[-1].phase == "done"
    assert (job.layout.data, job.layout.ranks, job.layout.replica_of(2)) == (4, 4, 2)
    assert (job.micro_batches, job.shares.per_replica) == (40, [10, 10, 10, 10])
    assert job.max_micro_batches == 40 and job.nominal_micro_batch_time == 0.04
    assert "Shares" in job.can and "Shares" in policy.capabilities.settings


def test_a_policy_without_a_tick_is_called_by_events_only():
    class Lookout(orrery.Policy):
        def __init__(self):
            self.steps = self.calls = self.ticks = 0

        def observe(self, seen, decisions):
            self.calls += 1
            for event in seen.events:
                self.steps += event.count if isinstance(event, events.StepsDone) else 0
                self.ticks += isinstance(event, events.Tick)
            decisions.rest()

    policy = Lookout()
    orrery.simulate(ROOT / "examples" / "llama3-70b-512-h100.yaml", policy=policy, run__steps=500)
    assert (policy.steps, policy.ticks) == (500, 0)
    assert policy.calls < 50


class Losses(orrery.Policy):
    """Policy that reads the owners of GPUs when a rank is lost."""

    def observe(self, seen, decisions):
        if not any(isinstance(event, events.RanksLost) for event in seen.events):
            return
        job = seen.jobs[0]
        self.lost, self.fewer, self.next = job.lost, job.without_lost(), job.next
        self.owner, self.free = seen.state.owner, seen.state.free
        self.parts, self.epoch, self.shares = seen.state.parts, job.epoch, job.shares


def test_state_and_membership_can_be_read():
    policy = Losses()
    orrery.simulate(ROOT / "examples" / "kill-one-rank.yaml", policy=policy)
    assert policy.lost == [2] and policy.fewer.gpus == [0, 1, 3]
    assert policy.fewer.layout.data == 3
    assert sorted(policy.shares.per_replica) == [0, 5, 5, 6]
    assert list(policy.owner) == [0, 0, 0, 0] and policy.free == 0
    assert policy.next is not None and policy.next.gpus == [0, 1, 2, 3]  # nobody else decides
    assert policy.epoch > 1


class Announcements(orrery.Policy):
    """Policy that keeps the changes of parts, and the state of all parts then."""

    def __init__(self):
        self.seen = []

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.PartChanged):
                self.seen.append((event, dict(seen.state.parts)))


def test_a_planned_removal_is_announced():
    policy = Announcements()
    fault = "[{at_step: 8, gpu: 3, down: true, notice_steps: 5, until_step: 12}]"
    orrery.simulate(STRAGGLER, policy=policy, faults=fault, run__steps=20)
    (announced, parts), (removed, _), (back, at_the_end) = policy.seen
    assert announced.health == "ok" and announced.removed_at is None
    assert announced.removed_at_step == 8 and announced.back_at_step == 12
    assert parts[("gpu", 3)].removed_at_step == 8 and parts[("gpu", 3)].removed_at is None
    assert removed.health == "lost" and removed.removed_at_step == 8
    assert back.health == "ok" and back.removed_at_step is None and not at_the_end


def test_a_slower_part_is_told_at_both_ends_of_its_fault(tmp_path):
    policy, log = Announcements(), tmp_path / "run.log"
    faults = (
        "[{at_step: 5, gpu: 3, rate: 0.55, until_step: 12},"
        " {at_step: 8, node: 0, rate: 0.8, until_step: 10}]"
    )
    orrery.simulate(STRAGGLER, policy=policy, faults=faults, run__steps=20, record=log)
    told = [("gpu", 3, 0.55), ("node", 0, 0.8), ("node", 0, 1), ("gpu", 3, 1)]
    assert [(event.kind, event.index, event.rate) for event, _ in policy.seen] == told
    assert all(event.health == "ok" for event, _ in policy.seen)
    (_, first), (_, second), (_, third), (_, last) = policy.seen
    assert first[("gpu", 3)].rate == 0.55 and first[("gpu", 3)].health == "ok"
    assert sorted(second) == [("gpu", 3), ("node", 0)] and sorted(third) == [("gpu", 3)]
    assert not last
    logged = orrery.read_log(log).events
    assert list(logged[logged.event == "PartChanged"].rate) == [0.55, 0.8, 1, 1]


class Reader(orrery.Policy):
    def __init__(self, *read):
        self.read, self.last = read, {}

    def observe(self, seen, decisions):
        for what in self.read:
            found = getattr(seen.samples, what)(0)
            rows = np.asarray(found) if isinstance(found, orrery.SampleTable) else found
            if not isinstance(rows, np.ndarray) or len(rows) > 0:
                self.last[what] = rows


def test_samples_of_every_kind():
    policy = Reader("ranks", "devices", "links", "collectives", "summary")
    orrery.simulate(STRAGGLER, policy=policy, run__steps=20)
    collective = policy.last["collectives"][0]
    assert collective["kind"] == "all-reduce" and collective["ranks"] == 4
    assert collective["algorithm"] in ("ring", "tree", "halving-doubling", "hierarchical")
    assert collective["step"] <= 19 and collective["bytes"] > 0
    summary = policy.last["summary"]
    assert summary.ranks == 4 and summary.latest["rank"][0] == 2  # the slow one
    assert summary.micro_batch_time == pytest.approx(0.04, rel=0.2)
    assert {"gpu", "power_age"} <= set(policy.last["devices"].dtype.names)
    assert policy.last["links"]["bandwidth"].max() > 0


class Hoarder(orrery.Policy):
    def observe(self, seen, decisions):
        self.decisions, self.observed, self.job = decisions, seen, seen.jobs[0]
        self.rows = seen.samples.ranks(0)
        self.times = self.rows["micro_batch_time"]


def test_what_was_read_may_be_kept_and_the_rest_ends_with_the_call():
    policy = Hoarder()
    orrery.simulate(STRAGGLER, policy=policy, run__steps=3)
    assert policy.job.spec.name and policy.job.layout.data == 4
    assert policy.observed.samples.ranks(0) is policy.rows
    assert policy.rows["micro_batch_time"] is policy.times
    with pytest.raises(RuntimeError, match="keep what was read"):
        policy.rows["wait_time"]
    with pytest.raises(RuntimeError, match="inside observe"):
        policy.decisions.rest()
    with pytest.raises(RuntimeError, match="keep what was read"):
        policy.observed.events
    with pytest.raises(RuntimeError, match="keep what was read"):
        policy.observed.samples.devices(0)


class Columns(orrery.Policy):
    def observe(self, seen, decisions):
        table = seen.samples.ranks(seen.jobs[0])
        times = table["micro_batch_time"]
        if not np.isfinite(times).all() or not len(times):
            return
        assert not times.flags.owndata and not times.flags.writeable
        assert table.shape == (4,) and table.size == len(table) == 4
        rows = table[times > 0]
        assert rows.dtype == table.dtype and list(rows["rank"]) == [0, 1, 2, 3]
        assert [row["micro_batch_time"] for row in table] == list(times)
        frame = table.to_frame()
        assert list(frame.columns) == list(table.dtype.names)
        assert (frame["micro_batch_time"] == times).all() and (frame["job"] == 0).all()
        assert table["micro_batch_time_age"] == pytest.approx([0.01] * 4)
        with pytest.raises(ValueError, match="no field of name micro_batch_tim; known: job, rank"):
            table["micro_batch_tim"]
        assert table["micro_batch_time"] is times, "read once"
        self.done = True


def test_samples_are_columns_that_share_memory():
    policy = Columns()
    orrery.simulate(STRAGGLER, policy=policy, run__steps=3)
    assert policy.done


def test_a_job_that_is_not_there_is_said():
    class Lost(orrery.Policy):
        def observe(self, seen, decisions):
            assert 7 not in seen.jobs and seen.jobs.get(7) is None
            seen.jobs[7]

    with pytest.raises(KeyError, match="no job 7: it is over, or never was"):
        orrery.simulate(STRAGGLER, policy=Lost())
