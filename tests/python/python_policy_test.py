"""Policies written in Python, asked in this process while the run is another one."""

import time

import numpy as np
import pytest
from conftest import ROOT, STRAGGLER

import orrery
from orrery import actions, events, settings

KILL = ROOT / "examples" / "kill-one-rank.yaml"


class Rebalance(orrery.Policy):
    def needs(self):
        return orrery.Needs(settings=["Shares"])

    def observe(self, seen, decisions):
        if not any(isinstance(event, events.StepsDone) for event in seen.events):
            return  # decides once a step: a decision is valid from the next step on
        job = seen.jobs[0]
        ranks = seen.samples.ranks(job)
        ranks = ranks[np.isfinite(ranks["micro_batch_time"])]
        if len(ranks) < 4 or job.phase != "running":
            return
        slow = ranks["micro_batch_time"] > 2 * np.median(ranks["micro_batch_time"])
        wanted = [4 if late else 12 for late in slow] if slow.any() else [10] * 4
        if wanted != job.shares.per_replica:
            shares = settings.Shares(wanted)
            decisions.configure(job, shares, at_step=job.step + 1, why="one rank is late")


def test_ten_lines_steer_a_run():
    report = orrery.simulate(STRAGGLER, policy=Rebalance())
    assert report.decisions >= 1
    assert report.step_time_s <= 1.15 * report.ideal_step_time_s


class Columns(orrery.Policy):
    """Reads one column at nearly every call, another at two of three."""

    def __init__(self):
        self.rows = []

    def needs(self):
        return orrery.Needs(settings=["Shares"], tick=0.05)

    def observe(self, seen, decisions):
        if seen.sequence % 7 == 6:
            return
        for job in seen.jobs:
            ranks = seen.samples.ranks(job)
            columns = ["micro_batch_time", "rank", "step"]
            columns += ["wait_time"] if seen.sequence % 3 else []
            self.rows.append((seen.now, {name: ranks[name].tolist() for name in columns}))


def test_what_a_policy_reads_at_each_call_is_new_and_recorded(tmp_path):
    log = tmp_path / "columns.log"
    policy, again = Columns(), Columns()
    orrery.simulate(STRAGGLER, policy=policy, record=log, run__steps=6)
    assert len({columns["step"][0] for _, columns in policy.rows if columns["step"]}) >= 5
    orrery.replay(log, policy=again)
    assert str(again.rows) == str(policy.rows)


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
        self.outcomes, self.tried = [], None

    def needs(self):
        return orrery.Needs(settings=["Shares"])

    def observe(self, seen, decisions):
        self.outcomes += [e for e in seen.events if isinstance(e, events.Decided)]
        if self.tried is None and seen.jobs[0].phase == "running":
            self.tried = decisions.configure(0, settings.Shares([1, 1, 1, 1]), why="a wrong sum")


def test_a_wrong_decision_is_rejected_not_obeyed():
    policy = Greedy()
    report = orrery.simulate(STRAGGLER, policy=policy)
    assert [(e.decision, e.status) for e in policy.outcomes] == [(policy.tried, "rejected")]
    assert policy.outcomes[0].reason
    assert report.micro_batches_lost == 0


def test_needs_are_checked():
    with pytest.raises(ValueError, match="no action 'fly'.*Known: Assign, Configure, Save"):
        orrery.Needs(actions=["fly"])
    with pytest.raises(ValueError, match="no setting 'shares'; did you mean 'Shares'"):
        orrery.Needs(settings=["shares"])
    with pytest.raises(ValueError, match="did you mean 'CheckpointPlan'"):
        orrery.Needs(settings=["checkpoint_plan"])
    with pytest.raises(TypeError, match="a list of names"):
        orrery.Needs(actions="Save")
    with pytest.raises(ValueError, match="period"):
        orrery.Needs(tick=-1)
    needs = orrery.Needs(settings=[settings.Shares])
    assert (needs.actions, needs.settings, needs.tick) == (("Configure",), ("Shares",), 0)


def test_what_needs_leaves_out_cannot_be_decided():
    class Sly(Greedy):
        def needs(self):
            return orrery.Needs(actions=["Save"])

    with pytest.raises(ValueError, match=r'Sly.needs\(\) does not name Shares.*\["Shares"\]'):
        orrery.simulate(STRAGGLER, policy=Sly())


def test_needs_that_a_run_does_not_offer_end_it_before_it_begins(tmp_path):
    class Tuner(orrery.Policy):
        def needs(self):
            return orrery.Needs(settings=["CollectiveTable"])

    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\n1,0,2,100\n")
    with pytest.raises(orrery.InputError, match="does not offer.*CollectiveTable"):
        orrery.jobs(trace, nodes=1, gpus_per_node=2, policy=Tuner())


class Woken(orrery.Policy):
    """Called at instants that it chose."""

    def __init__(self):
        self.calls = []

    def observe(self, seen, decisions):
        if any(isinstance(event, events.Tick) for event in seen.events):
            self.calls.append(seen.now)
        if seen.sequence == 0 or self.calls and self.calls[-1] == seen.now and seen.now < 2:
            decisions.wake(seen.now + 0.7)
        decisions.rest()


def test_wake_ups_come_when_they_were_asked_for():
    policy = Woken()
    orrery.simulate(STRAGGLER, policy=policy)
    assert policy.calls == pytest.approx([0.7, 1.4, 2.1])


class Counted(orrery.Policy):
    """Counts its calls, and reads the times of all ranks in each."""

    def __init__(self):
        self.calls, self.ranks, self.lost = 0, 0, []

    def observe(self, seen, decisions):
        self.calls += 1
        self.lost += [len(event.ranks) for event in seen.events
                      if isinstance(event, events.RanksLost)]  # fmt: skip
        for job in seen.jobs:
            times = seen.samples.ranks(job)["micro_batch_time"]
            self.ranks = max(self.ranks, len(times))


def test_a_change_is_one_call_however_many_ranks_it_concerns():
    def run(ranks, *killed):
        policy = Counted()
        orrery.simulate(
            KILL, policy=policy, run__steps=6, cluster__nodes=ranks // 4, job__layout__data=ranks,
            job__global_batch=4 * ranks,
            faults=[{"at_step": 2, "rank": rank, "kill": True} for rank in killed],
        )  # fmt: skip
        return policy

    few, many = run(4), run(16)
    assert (few.ranks, many.ranks) == (4, 16)
    assert few.calls == many.calls >= 6
    assert run(16, 0, 1, 2, 3).lost == [4]


class Dice(orrery.Policy):
    def __init__(self):
        self.drawn = []

    def observe(self, seen, decisions):
        if len(self.drawn) < 5:
            self.drawn.append(int(self.rng.integers(1 << 40)))


def test_random_numbers_follow_the_seed_of_the_run():
    def drawn(seed, *others):
        dice = Dice()
        orrery.simulate(STRAGGLER, policies=[*others, dice], seed=seed, run__steps=6)
        return dice.drawn

    assert drawn(1) == drawn(1) != drawn(2)
    assert drawn(1) == drawn(1, "static")  # another member changes nothing
    twins = Dice(), Dice()
    orrery.simulate(STRAGGLER, policies=list(twins), run__steps=6)
    assert twins[0].drawn != twins[1].drawn
    with pytest.raises(RuntimeError, match=r"from start\(\) on"):
        Dice().rng


def test_a_saved_policy_goes_on_where_it_was():
    class Counter(Dice):
        def save(self):
            return bytes([len(self.drawn)])

        def load(self, state):
            self.drawn = [None] * state[0]

    first = Counter()
    orrery.simulate(STRAGGLER, policy=first, run__steps=6)
    second = Counter()
    second._seed = 1
    second._load(first._save())
    assert len(second.drawn) == len(first.drawn) == 5
    assert second.rng.integers(1 << 40) == first.rng.integers(1 << 40)


def test_python_and_built_in_policies_in_one_stack():
    class Lookout(orrery.Policy):
        def __init__(self):
            self.decided = []

        def observe(self, seen, decisions):
            self.decided += [e for e in seen.events if isinstance(e, events.Decided)]
            decisions.rest()

    looks = Lookout()
    blind = {"name": "predictive-rebalance", "parameters": {"gain_threshold": 9}}
    report = orrery.simulate(STRAGGLER, policies=[looks, "predictive-rebalance"])
    alone = orrery.simulate(STRAGGLER, policy="predictive-rebalance")
    assert report.decision_trace_sha256 == alone.decision_trace_sha256
    assert len(looks.decided) == report.decisions > 0
    assert orrery.simulate(STRAGGLER, policies=[Lookout(), blind]).decisions == 0
    with pytest.raises(orrery.InputError, match="'Rebalance' and 'Rebalance 2' both decide Shares"):
        orrery.simulate(STRAGGLER, policies=[Rebalance(), Rebalance()])


def test_several_built_in_policies_run_in_the_worker():
    both = orrery.simulate(KILL, policies=["recover", "predictive-rebalance"])
    assert both.steps_completed == 30
    with pytest.raises(orrery.UsageError, match="did you mean 'recover'"):
        orrery.simulate(KILL, policies=["static", "recovver"])


@pytest.mark.parametrize(
    "given, error, said",
    [
        ({"policy": [Silent()]}, TypeError, r"several are policies=\[...\]"),
        ({"policy": "static", "policies": ["static"]}, ValueError, "not both"),
        ({"policies": "static"}, TypeError, "a list of policies"),
        ({"policies": [3]}, TypeError, "a name, a dict, an orrery.Policy or its class, not 3"),
        ({"policies": [{"parameters": {}}]}, ValueError, "a name and parameters"),
    ],
)
def test_what_is_no_policy_is_said(given, error, said):
    with pytest.raises(error, match=said):
        orrery.simulate(STRAGGLER, **given)


def test_groups_hold_together_or_not_at_all():
    class Grouped(Greedy):
        def observe(self, seen, decisions):
            self.outcomes += [e for e in seen.events if isinstance(e, events.Decided)]
            if self.tried is None and seen.jobs[0].phase == "running":
                group = decisions.new_group()
                self.tried = decisions.configure(0, settings.OnLoss("hold"), group=group)
                decisions.configure(0, settings.Shares([1, 1, 1, 1]), group=group)

        def needs(self):
            return orrery.Needs(settings=["Shares", "OnLoss"])

    policy = Grouped()
    orrery.simulate(STRAGGLER, policy=policy)
    assert [event.status for event in policy.outcomes] == ["rejected", "rejected"]


def test_equal_runs_of_a_python_policy_are_equal(tmp_path):
    logs = []
    for name in "ab":
        orrery.simulate(STRAGGLER, policy=Rebalance(), record=tmp_path / name)
        logs.append((tmp_path / name).read_bytes())
    assert logs[0] == logs[1]


def test_runs_of_python_policies_can_be_replayed(tmp_path):
    log = tmp_path / "log"
    report = orrery.simulate(STRAGGLER, policies=[Rebalance(), Dice(), "recover"], record=log)
    same = orrery.replay(log, policies=[Rebalance(), Dice(), "recover"])
    assert same.identical and same.decisions == report.decisions > 0

    class Other(Rebalance):
        def observe(self, seen, decisions):
            if seen.now < 8:
                super().observe(seen, decisions)

    assert not orrery.replay(log, policies=[Other(), Dice(), "recover"]).identical
    with pytest.raises(orrery.InputError, match=r"orrery.replay\(log, policy=...\)"):
        orrery.replay(log)
    with pytest.raises(ValueError, match="policies"):
        orrery.replay(log, {"recover.how": "shrink"}, policies=[Rebalance()])


class ByName(orrery.Policy):
    """First come, first served, from the last GPU on."""

    def needs(self):
        return orrery.Needs(actions=["Assign"])

    def observe(self, seen, decisions):
        free = list(seen.state.free_gpus[::-1])
        for job in seen.jobs.values():
            if job.phase != "waiting":
                continue
            if len(free) < job.spec.gpus:
                break
            gpus, free = free[: job.spec.gpus], free[job.spec.gpus :]
            decisions.add(actions.Assign(job, gpus))
        decisions.rest()


def test_a_python_policy_places_recorded_jobs(tmp_path):
    trace = tmp_path / "trace.csv"
    rows = "".join(f"{i},{i * 7 % 40},{1 + i % 3},{10 + i * 13 % 50}\n" for i in range(60))
    trace.write_text("job_id,submit_s,num_gpus,duration_s\n" + rows)
    size = {"nodes": 2, "gpus_per_node": 2}
    own = orrery.jobs(trace, policy=ByName(), record=tmp_path / "log", **size)
    fifo = orrery.jobs(trace, policy="fifo", **size).to_dict()
    for key in ("jobs_out", "jct_mean_s", "queue_mean_s", "makespan_s", "utilization"):
        assert own.to_dict()[key] == fifo[key], key
    assert orrery.replay(tmp_path / "log", policy=ByName()).identical
    with pytest.raises(ZeroDivisionError):
        orrery.jobs(trace, policy=Falls(), **size)


class Falls(orrery.Policy):
    def observe(self, seen, decisions):
        raise ZeroDivisionError("not today")


class Counting(orrery.Policy):
    """Decides in its first run only, unless each run begins as the first one did."""

    def __init__(self, seen):
        self.left, self.calls, self.seen = 1, 0, seen

    def needs(self):
        return orrery.Needs(settings=["Shares"])

    def observe(self, seen, decisions):
        self.calls += 1
        self.seen.append(seen.now)
        if self.left and any(isinstance(event, events.StepsDone) for event in seen.events):
            self.left -= 1
            decisions.configure(0, settings.Shares([12, 12, 4, 12]))


def test_an_object_begins_each_run_as_the_first_one():
    policy = Counting([])
    first = orrery.simulate(STRAGGLER, policy=policy)
    calls, seen = policy.calls, policy.seen
    second = orrery.simulate(STRAGGLER, policy=policy)
    assert first.decisions == second.decisions == 1
    assert first.decision_log_sha256 == second.decision_log_sha256
    assert policy.calls == calls == len(seen)  # readable after each run
    assert policy.seen == seen and policy.seen is not seen


def test_reset_may_keep_what_was_learned():
    class Learning(Counting):
        def reset(self):
            self.resets = getattr(self, "resets", 0) + 1

    policy = Learning([])
    reports = [orrery.simulate(STRAGGLER, policy=policy) for _ in range(3)]
    assert [report.decisions for report in reports] == [1, 0, 0] and policy.resets == 2
    assert len(policy.seen) == policy.calls


def test_what_cannot_be_copied_is_named_by_the_second_run():
    policy = Counting([])
    policy.generator = (number for number in range(3))
    assert orrery.simulate(STRAGGLER, policy=policy).decisions == 1
    with pytest.raises(TypeError, match="Counting.generator cannot be copied.*reset"):
        orrery.simulate(STRAGGLER, policy=policy)


def test_a_run_may_go_on_without_a_policy_that_fails(tmp_path):
    log = tmp_path / "log"
    with pytest.warns(RuntimeWarning, match=r"python_policy_test.py:\d+: ZeroDivisionError: a sli"):
        report = orrery.simulate(
            STRAGGLER, policy=Unlucky(), on_policy_error="static", record=log
        )
    assert report.steps_completed == 40 and "a slip" in report.hand_over["policy_failure"]
    assert orrery.replay(log, policy=Unlucky()).identical
    with pytest.raises(ValueError, match="'stop' or 'static', not 'ignore'"):
        orrery.simulate(STRAGGLER, on_policy_error="ignore")


def test_a_live_run_may_go_on_without_a_policy_that_fails():
    short = {"run.steps": 4, "job.global_batch": 8, "job.pace.micro_batch": "40 ms"}
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"):
        report = orrery.live(
            STRAGGLER, policy=Broken(), on_policy_error="static", overrides=short
        )
    assert report.steps_completed == 4


class Dozes(orrery.Policy):
    def observe(self, seen, decisions):
        if any(isinstance(event, events.StepsDone) for event in seen.events):
            time.sleep(0.6)


def test_a_call_may_take_no_longer_than_its_limit(tmp_path):
    log, short = tmp_path / "log", {"run.steps": 4, "job.global_batch": 8}
    with pytest.raises(orrery.InputError, match="expected an answer of the policy .* within 0.3 s"):
        orrery.simulate(STRAGGLER, policy=Dozes(), policy_timeout=0.3, overrides=short)
    with pytest.warns(RuntimeWarning, match="expected an answer of the policy"):
        report = orrery.simulate(
            STRAGGLER, policy=Dozes(), policy_timeout=0.3, on_policy_error="static", record=log,
            overrides=short,
        )  # fmt: skip
    assert report.steps_completed == 4
    assert report.host["policy_time_max_s"] >= 0.3
    assert orrery.replay(log, policy=Dozes()).identical
    with pytest.warns(RuntimeWarning, match="expected an answer of the policy"):
        live = orrery.live(
            STRAGGLER, policy=Dozes(), policy_timeout=0.3, on_policy_error="static",
            overrides={**short, "job.pace.micro_batch": "40 ms"},
        )  # fmt: skip
    assert live.steps_completed == 4 and "within 0.3 s" in live.hand_over["policy_failure"]
    for wrong in (0, -1.0):
        with pytest.raises(ValueError, match="a positive number of seconds"):
            orrery.live(STRAGGLER, policy_timeout=wrong)


class Broken(orrery.Policy):
    def observe(self, seen, decisions):
        1 / 0


def test_a_log_of_an_object_tells_how_to_replay_it(tmp_path):
    log = tmp_path / "log"
    orrery.simulate(STRAGGLER, policies=[Woken(), "recover"], record=log, run__steps=2)
    with pytest.raises(orrery.InputError, match="FILE.py:Woken --policy recover.*orrery.replay"):
        orrery.replay(log)
