"""What a policy written in Python is shown, and how long that lasts."""

import math
import os

import numpy as np
import pytest
from conftest import STRAGGLER

import orrery


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
    job = next(seen for seen in reversed(policy.seen) if seen.jobs[0].phase == "running").jobs[0]
    assert policy.seen[-1].jobs[0].phase == "done"
    assert (job.data, job.micro_batches, job.per_replica) == (4, 40, [10, 10, 10, 10])
    assert job.max_micro_batches == 40 and job.replica_of(2) == 2
    assert job.nominal_micro_batch_time == 0.04


class Hoarder(orrery.Policy):
    def observe(self, seen, decisions):
        self.kept = decisions


def test_decisions_end_with_the_call():
    policy = Hoarder()
    orrery.simulate(STRAGGLER, policy=policy, run__steps=3)
    with pytest.raises(RuntimeError, match="inside observe"):
        policy.kept.rest()
