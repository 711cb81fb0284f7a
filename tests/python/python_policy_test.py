"""Policies written in Python, asked in this process while the run is another one."""

import numpy as np
import pytest
from conftest import STRAGGLER

import orrery


class Rebalance(orrery.Policy):
    def observe(self, seen, decisions):
        ranks = seen.ranks[np.isfinite(seen.ranks["micro_batch_time"])]
        job = seen.jobs[0]
        if len(ranks) < 4 or job.phase != "running":
            return
        slow = ranks["micro_batch_time"] > 2 * np.median(ranks["micro_batch_time"])
        wanted = [4 if late else 12 for late in slow] if slow.any() else [10] * 4
        if wanted != job.per_replica:
            decisions.shift_microbatches(job.id, wanted, job.step + 1, "one rank is late")


def test_ten_lines_steer_a_run():
    report = orrery.simulate(STRAGGLER, policy=Rebalance())
    assert report.decisions >= 1
    assert report.step_time_s <= 1.15 * report.ideal_step_time_s


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
