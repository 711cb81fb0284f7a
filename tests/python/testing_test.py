"""Unit tests of policies without a run, and of the helpers themselves."""

import numpy as np
import pytest
from conftest import EXAMPLES, STRAGGLER
from python_policy_test import Rebalance

import orrery
from orrery import actions, events, settings, testing
from orrery.values import Layout, Standing


class Evacuate(orrery.Policy):
    def __init__(self):
        self.outcomes = []

    def needs(self):
        return orrery.Needs(actions=["Assign"])

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.Decided):
                self.outcomes.append(event.status)
            if isinstance(event, events.RanksLost):
                where = seen.jobs[event.job].without_lost()
                decisions.add(actions.Assign(event.job, where.gpus, where.layout, state="peer"))
        decisions.wake(seen.now + 5)
        decisions.note("lost", len(seen.jobs[0].lost))
        decisions.rest()


def test_a_policy_decides_without_a_run():
    world, policy = testing.world(jobs=[{"gpus": 4}]), Evacuate()
    decisions = world.observe(policy, [events.RanksLost(0, [2], 2)], now=3.0)
    assert len(decisions) == 1
    item = decisions.items[0]
    assert item.action == actions.Assign(0, [0, 1, 3], Layout(data=3), state="peer")
    assert (item.id, item.at_step, item.if_epoch, item.expires) == (0, 0, None, None)
    assert decisions.wakes == [8.0] and decisions.resting and decisions.notes == {"lost": 1}


def test_the_world_follows_outcomes_and_later_events():
    world, policy = testing.world(jobs=[{"gpus": 4}]), Evacuate()
    world.observe(policy, [events.RanksLost(0, [2], 2)])
    where = Standing([0, 1, 3], Layout(data=3))
    answers = [events.Decided(0, "applied", ""), events.JobStarted(0, 3, 0, where, [])]
    world.observe(policy, answers, now=4)
    assert policy.outcomes == ["applied"]
    seen = world.observation()
    assert (seen.jobs[0].gpus, seen.jobs[0].epoch, seen.jobs[0].lost) == ([0, 1, 3], 3, [])
    assert seen.now == 4 and seen.sequence == 2


def test_samples_are_rows_and_summaries_follow():
    world, policy = testing.world(jobs=[{"gpus": 4}]), Rebalance()
    rows = [{"rank": rank, "micro_batch_time": 0.3 if rank == 2 else 0.1} for rank in range(4)]
    done = [events.StepsDone(0, 0, 1, 0.4)]
    decisions = world.observe(policy, done, samples={"ranks": rows})
    assert decisions.items[0].action.what == settings.Shares([12, 12, 4, 12])
    assert decisions.items[0].at_step == 2
    seen = world.observation(samples={"ranks": {0: rows}})
    summary = seen.samples.summary(0, latest=1)
    assert summary.ranks == 4 and summary.micro_batch_time == pytest.approx(0.1)
    assert list(summary.latest["rank"]) == [2]
    assert np.isnan(seen.samples.ranks(0)["wait_time"]).all()
    assert len(seen.samples.devices(0)) == 0


def test_a_job_that_does_not_fit_waits():
    world = testing.world(jobs=[testing.job(8), testing.job(8, id=1)], cluster=(1, 8))
    jobs = world.observation().jobs
    assert [jobs[0].phase, jobs[1].phase] == ["running", "waiting"]
    assert testing.world(jobs=[{"gpus": 4}], running=False).observation().jobs[0].phase == "waiting"


def test_the_cluster_may_be_that_of_a_scenario():
    world = testing.world(cluster=STRAGGLER)
    assert world.cluster.gpus == 4 and world.observation().state.free == 4


def test_mistakes_are_named():
    world = testing.world(jobs=[{"gpus": 4}])
    with pytest.raises(orrery.InputError, match="job 0 has no rank 7"):
        world.observation([events.RanksLost(0, [7], 2)])
    with pytest.raises(ValueError, match="no 'micro_batch_tim'; did you mean 'micro_batch_time'"):
        world.observation(samples={"ranks": [{"micro_batch_tim": 1.0}]})
    with pytest.raises(ValueError, match="not of 'rank'"):
        world.observation(samples={"rank": []})
    with pytest.raises(TypeError, match="a job has no .'colour'."):
        testing.job(colour="red")
    with pytest.raises(TypeError, match="events of orrery.events"):
        world.observation(["lost"])
    with pytest.raises(ValueError, match=r"Evacuate.needs\(\) does not name Save"):
        testing.DecisionList(Evacuate()).add(actions.Save(0))


def test_an_observation_ends_with_the_next_one():
    world = testing.world(jobs=[{"gpus": 4}])
    first = world.observation()
    world.observation()
    with pytest.raises(RuntimeError, match="read inside observe"):
        first.jobs[0]


def test_a_list_alone_takes_all_decisions():
    decisions = testing.DecisionList()
    assert decisions.configure(0, settings.CheckpointPlan(50), expires=9.0, why="often") == 0
    assert decisions.items[0].expires == 9.0 and decisions.items[0].why == "often"


def test_random_numbers_and_capabilities_are_there():
    world, policy = testing.world(), Evacuate()
    world.start(policy, seed=3)
    assert policy.cluster.gpus == 8 and "Assign" in policy.capabilities.actions
    first = policy.rng.random()
    again = Evacuate()
    world.start(again, seed=3)
    assert again.rng.random() == first


class CountsCalls(orrery.Policy):
    """Decides in its tenth call, and breaks its promise to decide nothing without an event."""

    def __init__(self, rests=True):
        self.calls, self.rests = 0, rests

    def needs(self):
        return orrery.Needs(settings=[settings.OnLoss])

    def observe(self, seen, decisions):
        self.calls += 1
        if self.calls == 10:
            decisions.configure(0, settings.OnLoss("hold"), why="the tenth call")
        if self.rests:
            decisions.rest()


def test_a_resting_policy_that_counts_is_named():
    with pytest.raises(AssertionError, match="policy CountsCalls: .* decision 0: folded no "):
        testing.check_rest(CountsCalls, STRAGGLER)
    testing.check_rest(lambda: CountsCalls(rests=False), STRAGGLER)
    testing.check_rest(Evacuate, EXAMPLES / "kill-one-rank.yaml", seed=2)
