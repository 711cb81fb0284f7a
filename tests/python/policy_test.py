"""Policies written in Python, asked in this process while the run is another one."""

import math
import os

import numpy as np
import pytest
from conftest import STRAGGLER

import orrery


class Rebalance(orrery.Policy):
    def observe(self, seen, decisions):
        ranks = seen.ranks[np.isfinite(seen.ranks["micro_batch_time"])]
        if len(ranks) < 4:
            return
        job = seen.jobs[0]
        slow = ranks["micro_batch_time"] > 2 * np.median(ranks["micro_batch_time"])
        wanted = [4 if late else 12 for late in slow] if slow.any() else [10] * 4
        if wanted != job.per_replica:
            decisions.shift_microbatches(job.id, wanted, job.step + 1, "one rank is late")


def test_ten_lines_steer_a_run():
    report = orrery.simulate(STRAGGLER, policy=Rebalance())
    assert report.decisions >= 1
    assert report.step_time_s <= 1.15 * report.ideal_step_time_s


class Witness(orrery.Policy):
    def __init__(self):
        self.cluster, self.seen, self.process = None, [], None

    def needs(self):
        return orrery.Needs(signals=["jobs", "steps", "ranks", "devices", "links"], actions=[])

    def start(self, cluster):
        self.cluster, self.process = cluster, os.getpid()

    def observe(self, seen, decisions):
        self.seen.append(seen)


def test_what_a_policy_sees():
    policy = Witness()
    report = orrery.simulate(STRAGGLER, policy=policy)
    assert policy.process == os.getpid()
    assert (policy.cluster.gpus, policy.cluster.nodes) == (4, 1)
    assert policy.cluster.gpu_name == "H100" and policy.cluster.node_of(3) == 0
    times = [seen.now for seen in policy.seen]
    assert times == sorted(times) and times[-1] <= report.elapsed_s + 1
    assert [seen.sequence for seen in policy.seen] == list(range(len(times)))
    happened = [event for seen in policy.seen for event in seen.events]
    done = [event for event in happened if isinstance(event, orrery.events.StepDone)]
    assert [event.step for event in done] == list(range(40))
    assert sum(isinstance(event, orrery.events.Tick) for event in happened) > 40
    assert math.isclose(done[0].duration, report.step_times[0], rel_tol=0.05)
    rows = np.concatenate([seen.ranks for seen in policy.seen])
    assert set(rows["rank"]) == {0, 1, 2, 3}
    assert (rows["age"] > 0).any()
    job = policy.seen[-1].jobs[0]
    assert (job.data, job.micro_batches, job.per_replica) == (4, 40, [10, 10, 10, 10])
    assert job.max_micro_batches == 40 and job.replica_of(2) == 2
    assert job.nominal_micro_batch_time == 0.04


class Unlucky(orrery.Policy):
    def observe(self, seen, decisions):
        if seen.now > 1:
            raise ZeroDivisionError("a slip of mine")


def test_what_a_policy_raises_comes_out():
    with pytest.raises(ZeroDivisionError, match="a slip of mine") as caught:
        orrery.simulate(STRAGGLER, policy=Unlucky())
    frames = [entry.name for entry in caught.traceback]
    assert "observe" in frames and "test_what_a_policy_raises_comes_out" in frames
    assert orrery.simulate(STRAGGLER, run__steps=3).steps_completed == 3


class Silent(orrery.Policy):
    pass


def test_a_policy_without_observe_is_told_so():
    with pytest.raises(NotImplementedError, match="Silent has no observe"):
        orrery.simulate(STRAGGLER, policy=Silent())


class Greedy(orrery.Policy):
    def __init__(self):
        self.outcomes, self.tried = [], False

    def observe(self, seen, decisions):
        self.outcomes += [e for e in seen.events if isinstance(e, orrery.events.DecisionOutcome)]
        if not self.tried:
            decisions.shift_microbatches(0, [1, 1, 1, 1], why="the sum is wrong")
            self.tried = True


def test_a_wrong_decision_is_rejected_not_obeyed():
    policy = Greedy()
    report = orrery.simulate(STRAGGLER, policy=policy)
    assert [(e.decision, e.status) for e in policy.outcomes] == [(0, "rejected")]
    assert policy.outcomes[0].reason
    assert report.micro_batches_lost == 0


class Hoarder(orrery.Policy):
    def observe(self, seen, decisions):
        self.kept = decisions


def test_decisions_end_with_the_call():
    policy = Hoarder()
    orrery.simulate(STRAGGLER, policy=policy, run__steps=3)
    with pytest.raises(RuntimeError, match="inside observe"):
        policy.kept.rest()


def test_needs_are_checked():
    with pytest.raises(ValueError, match="unknown signal 'smell'"):
        orrery.Needs(signals=["smell"])
    with pytest.raises(ValueError, match="unknown action"):
        orrery.Needs(actions=["fly"])
    with pytest.raises(ValueError, match="period"):
        orrery.Needs(tick=-1)


def test_equal_runs_of_a_python_policy_are_equal(tmp_path):
    logs = []
    for name in "ab":
        orrery.simulate(STRAGGLER, policy=Rebalance(), record=tmp_path / name)
        logs.append((tmp_path / name).read_bytes())
    assert logs[0] == logs[1]
