"""Five policies as somebody outside would write them (examples/policies), each where it matters."""

import importlib.util
import json
import math

import pytest
from conftest import ROOT, STRAGGLER

import orrery
from orrery import actions, events, settings

KILL = ROOT / "examples" / "kill-one-rank.yaml"


def example(name, cls):
    path = ROOT / "examples" / "policies" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, cls)


AdaptiveCheckpoints = example("adaptive_checkpoints", "AdaptiveCheckpoints")
CheapestRecovery = example("cheapest_recovery", "CheapestRecovery")
Elastic = example("elastic", "Elastic")
GangScheduler = example("gang_scheduler", "GangScheduler")
CollectiveTuner = example("collective_tuner", "CollectiveTuner")
PowerQueue = example("power_queue", "PowerQueue")


class Lookout(orrery.Policy):
    """Policy that records events and decisions."""

    def __init__(self):
        self.events, self.job = [], None

    def observe(self, seen, decisions):
        self.events += seen.events
        self.job = seen.jobs.get(0, self.job)
        decisions.rest()

    def of(self, *kinds):
        return [event for event in self.events if isinstance(event, kinds)]


def watched(scenario, policy, log, **changes):
    """Returns (report, observations); the run replays to the same decisions."""
    look = Lookout()
    report = orrery.simulate(scenario, policies=[policy, look], record=log, **changes)
    return report, look


def test_checkpoints_follow_their_cost(tmp_path):
    def plans(stall, mtbf_s):
        checkpoints = {"folder": str(tmp_path / "saved"), "every": 1000, "stall": stall}
        changes = {f"checkpoints.{key}": value for key, value in checkpoints.items()}
        log = tmp_path / f"{stall}-{mtbf_s}".replace(" ", "")
        policy = AdaptiveCheckpoints(mtbf_s)
        overrides = {**changes, "run.steps": 120, "faults": "[]"}
        report, look = watched(STRAGGLER, policy, log, overrides=overrides)
        assert report.decisions >= 2
        assert orrery.replay(
            log, policies=[AdaptiveCheckpoints(mtbf_s), Lookout()]
        ).identical
        return policy, look

    policy, look = plans("1 s", 400)
    assert policy.stall_s == pytest.approx(1, rel=0.01)
    wanted = math.sqrt(2 * 1 * 400) / policy.step_s
    assert len(look.of(events.SaveDone)) >= 2
    every = look.job.checkpoint_plan.every_steps if look.job.phase == "running" else None
    assert every is None or every == pytest.approx(wanted, rel=0.5)
    rare, often = plans("1 s", 4000)[1], plans("1 s", 40)[1]
    assert len(rare.of(events.SaveDone)) < len(often.of(events.SaveDone))


@pytest.mark.parametrize("replacement_s, ranks", [(1, 4), (1000, 3)])
def test_recovery_takes_the_cheapest_way(tmp_path, replacement_s, ranks):
    report, look = watched(KILL, CheapestRecovery(replacement_s), tmp_path / "log")
    assert report.steps_completed == 30 and report.micro_batches_lost == 0
    assert [len(event.where.gpus) for event in look.of(events.JobStarted)][-1] == ranks
    assert orrery.replay(
        tmp_path / "log", policies=[CheapestRecovery(replacement_s), Lookout()]
    ).identical


def test_recovery_by_a_spare_when_there_is_one(tmp_path):
    spare = {"cluster.nodes": 2, "cluster.fabric.nodes_per_unit": 2}
    report, look = watched(
        KILL, CheapestRecovery(0.01), tmp_path / "log", overrides=spare
    )
    where = look.of(events.JobStarted)[-1].where
    assert report.steps_completed == 30
    assert where.gpus in ([0, 1, 4, 3], [0, 1, 2, 3]) and len(where.gpus) == 4


def test_an_elastic_job_shrinks_and_grows(tmp_path):
    report, look = watched(KILL, Elastic(2), tmp_path / "log")
    assert [event.where.layout.data for event in look.of(events.JobStarted)] == [4, 3, 4]
    assert [event.status for event in look.of(events.Decided)] == ["applied", "applied"]
    assert report.steps_completed == 30
    assert orrery.replay(tmp_path / "log", policies=[Elastic(2), Lookout()]).identical


def trace_of(path, rows):
    lines = ["job_id,submit_s,num_gpus,duration_s,vc"]
    path.write_text("\n".join(lines + [",".join(map(str, row)) for row in rows]) + "\n")
    return path


def test_gangs_start_at_once_and_close_together(tmp_path):
    rows = [(i, i % 5, 1 + i % 8, 20 + i % 7, "a") for i in range(40)]
    trace = trace_of(tmp_path / "trace.csv", rows)
    size = {"nodes": 4, "gpus_per_node": 4}
    report = orrery.jobs(trace, policy=GangScheduler(), record=tmp_path / "log", **size)
    assert (report.jobs_in, report.jobs_out) == (40, 40)
    fifo = orrery.jobs(trace, policy="fifo", **size)
    assert report.makespan_s == fifo.makespan_s
    assert orrery.replay(tmp_path / "log", policy=GangScheduler()).identical


def test_a_queue_keeps_within_its_power_budget(tmp_path):
    """16 GPUs, 6 of them between 1,000 s and 2,000 s of every 3,000 s."""
    rows = [(i, 37 * i, 1 + i % 6, 100 + 91 * (i % 9), "a") for i in range(60)]
    trace = trace_of(tmp_path / "trace.csv", rows)
    size = {"nodes": 2, "gpus_per_node": 8}
    budget = [(1000, 2000, 6)]
    ends = {}
    for pauses in (True, False):
        policy = PowerQueue(budget, pauses=pauses, every=3000)
        log = tmp_path / f"log-{pauses}"
        report = orrery.jobs(trace, policy=policy, record=log, **size)
        assert (report.jobs_in, report.jobs_out) == (60, 60)
        assert (report.preemptions > 0) == pauses
        working, at, most = 0, 0.0, 0
        for event in orrery.read_log(log).events.itertuples():
            if event.at_s > at and 1000 <= at % 3000 < 2000:
                most = max(most, working)
            at = event.at_s
            if event.event == "JobStarted":
                working += rows[int(event.job)][2]
            elif event.event in ("JobDone", "JobStopped"):
                working -= rows[int(event.job)][2]
        assert 0 < most <= 6
        assert orrery.replay(
            log, policy=PowerQueue(budget, pauses=pauses, every=3000)
        ).identical
        ends[pauses] = report.makespan_s
    flat = orrery.jobs(trace, policy=PowerQueue([(0, 3000, 6)], every=3000), **size)
    assert max(ends.values()) < flat.makespan_s  # the budget of the night is spent


def test_urgent_jobs_go_first(tmp_path):
    rows = [(0, 0, 4, 100, "batch"), (1, 1, 4, 50, "batch"), (2, 2, 4, 10, "urgent")]
    trace = trace_of(tmp_path / "trace.csv", rows)
    size = {"nodes": 1, "gpus_per_node": 4}
    order = GangScheduler({"urgent": 1}, preempts=False)
    assert orrery.jobs(trace, policy=order, **size).jct_mean_s == (100 + 159 + 108) / 3


def test_the_tuner_settles_on_what_it_measured(tmp_path):
    log = tmp_path / "log"
    report, look = watched(STRAGGLER, CollectiveTuner(), log, overrides={"faults": "[]"})
    statuses = [event.status for event in look.of(events.Decided)]
    assert statuses == ["applied"] * 4  # three to try, and the best of them
    assert orrery.replay(log, policies=[CollectiveTuner(), Lookout()]).identical
    assert report.decisions == 4
