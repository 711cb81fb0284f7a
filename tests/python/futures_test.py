"""Futures: a row each, the first as the run goes on anyway, choices side by side."""

import pandas as pd
import pytest
from conftest import STRAGGLER

import orrery

NOISE = {"noise.compute_cv": 0.03}


def test_the_first_is_what_simulate_says(tmp_path):
    log, alone_log = tmp_path / "log", tmp_path / "alone"
    table = orrery.futures(STRAGGLER, at=6.0, count=4, overrides=NOISE, record=log)
    alone = orrery.simulate(STRAGGLER, overrides=NOISE, record=alone_log)
    assert list(table["future"]) == [0, 1, 2, 3]
    assert table.loc[0, "decision_log_sha256"] == alone.decision_log_sha256
    assert table.loc[0, "elapsed_s"] == alone.elapsed_s == table.loc[0, "end_s"]
    assert table["elapsed_s"].nunique() == 4
    assert log.read_bytes() == alone_log.read_bytes()
    begun = table.attrs["begun"]
    assert 0 < begun["steps_completed"] < 40
    assert (table["steps_ahead"] == 40 - begun["steps_completed"]).all()


def test_the_number_of_workers_changes_nothing():
    def run(workers):
        return orrery.futures(STRAGGLER, at=6.0, count=5, workers=workers, overrides=NOISE)

    pd.testing.assert_frame_equal(run(1), run(5))


def test_choices_meet_the_same_in_the_same_future():
    choices = {
        "as it is": None,
        "steered": {"name": "predictive-rebalance", "parameters": {"gain_threshold": 0.05}},
        "by hand": orrery.actions.Configure(0, orrery.settings.Shares([12, 12, 4, 12])),
        "twice": [orrery.actions.Configure(0, orrery.settings.Shares([12, 12, 4, 12])), "static"],
    }
    table = orrery.futures(
        STRAGGLER, at=8.0, count=3, horizon=12.0, choices=choices,
        overrides={**NOISE, "policies": "[{name: static}]"},
    )  # fmt: skip
    assert list(table["choice"]) == list(choices) * 3
    goodput = table.pivot(index="future", columns="choice", values="goodput_ahead")
    assert (goodput["steered"] > 1.2 * goodput["as it is"]).all()
    assert (goodput["by hand"] > 1.2 * goodput["as it is"]).all()
    assert (goodput["by hand"] == goodput["twice"]).all()
    assert (table["elapsed_s"] <= 20.0).all()


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"at": -1.0}, "instant"),
        ({"at": 1.0, "count": 0}, "count"),
        ({"at": 1.0, "horizon": 0.0}, "horizon"),
        ({"at": 1.0, "workers": 0}, "workers"),
    ],
)
def test_what_cannot_be_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        orrery.futures(STRAGGLER, **arguments)


class Learner(orrery.Policy):
    """Moves micro-batches away from a slow rank that it has seen at least `patience` times."""

    def __init__(self, patience=3):
        self.patience = patience
        self.seen = 0

    def needs(self):
        return orrery.Needs(settings=["Shares"])

    def observe(self, seen, decisions):
        for event in seen.events:
            if not isinstance(event, orrery.events.StepsDone):
                continue
            slow = event.duration / event.count > 0.8
            self.seen += slow
            if slow and self.seen == self.patience:
                decisions.configure(event.job, orrery.settings.Shares([12, 12, 4, 12]))

    def save(self):
        return str(self.seen).encode()

    def load(self, state):
        self.seen = int(state)


class OtherLearner(Learner):
    pass


def test_futures_of_an_object_are_what_simulate_says():
    table = orrery.futures(STRAGGLER, at=6.0, count=2, policy=Learner(), overrides=NOISE)
    alone = orrery.simulate(STRAGGLER, policy=Learner(), overrides=NOISE)
    assert alone.decisions == 1
    assert table.loc[0, "decision_log_sha256"] == alone.decision_log_sha256
    assert table.loc[0, "elapsed_s"] == alone.elapsed_s
    assert table.loc[1, "elapsed_s"] != alone.elapsed_s


def test_an_object_takes_over_with_the_state_of_the_one_of_its_name():
    # The straggler begins in step 10, at about 4 s; two slow steps have been seen at 7.5 s.
    table = orrery.futures(
        STRAGGLER, at=7.5, count=1, policy=Learner(patience=1000),
        choices={"as it is": None, "same": Learner(), "other": OtherLearner(), "ready": "static"},
    )  # fmt: skip
    ends = table.set_index("choice")["end_s"]
    assert ends["same"] < ends["other"] < ends["as it is"] == ends["ready"]


class Renewed(Learner):
    state_version = 3


Renewed.__name__ = "Learner"


class Converting(Renewed):
    def convert_state(self, state, version):
        assert version == 0
        return state


Converting.__name__ = "Learner"


def test_a_state_of_another_version_is_converted_or_refused():
    run = {"at": 7.5, "count": 1, "policy": Learner(patience=1000)}
    with pytest.raises(orrery.Error, match="'Learner': .* state of version 3, found version 0"):
        orrery.futures(STRAGGLER, choices={"new": Renewed()}, **run)
    table = orrery.futures(STRAGGLER, choices={"same": Learner(), "new": Converting()}, **run)
    ends = table.set_index("choice")["end_s"]
    assert ends["same"] == ends["new"]


def test_one_object_cannot_have_two_roles():
    policy = Learner()
    with pytest.raises(ValueError, match="make another object"):
        orrery.futures(STRAGGLER, at=1.0, count=1, policy=policy, choices={"mine": policy})


def test_an_object_continues_from_a_log(tmp_path):
    log = tmp_path / "log"
    own = orrery.simulate(STRAGGLER, policy=Learner(), record=log)
    # The log's policy sees the log again and continues with its state, and a log of it replays.
    snapshot, rest = orrery.Snapshot(log, at=7.5), tmp_path / "rest"
    again = orrery.simulate(snapshot, policy=Learner(), record=rest)
    assert again.elapsed_s == pytest.approx(own.elapsed_s, abs=1e-6)
    assert again.decision_trace_sha256 == own.decision_trace_sha256
    assert orrery.replay(rest, policy=Learner()).identical
    # Another one takes over at the instant.
    whole = orrery.simulate(STRAGGLER, policy="static", record=log)
    late = orrery.simulate(orrery.Snapshot(log, at=15.0), policy=Learner())
    assert own.elapsed_s < late.elapsed_s < whole.elapsed_s


def test_decisions_of_unknown_policies_of_a_log_are_facts(tmp_path):
    log = tmp_path / "log"
    orrery.simulate(STRAGGLER, policy=Learner(), record=log)
    other = orrery.simulate(orrery.Snapshot(log, at=12.0), policy=OtherLearner(patience=1))
    builtin = orrery.simulate(orrery.Snapshot(log, at=12.0), policy="static")
    assert other.steps_completed == builtin.steps_completed == 40


def test_a_run_that_is_over_has_none():
    with pytest.raises(orrery.InputError, match="no futures begin"):
        orrery.futures(STRAGGLER, at=1e6)


def test_a_snapshot_is_gone_on_with(tmp_path):
    log = tmp_path / "log"
    whole = orrery.simulate(STRAGGLER, policy="static", record=log)
    snapshot = orrery.Snapshot(log, at=15.0)
    assert snapshot.at == 15.0 and snapshot.steps == 40
    assert orrery.simulate(snapshot).elapsed_s == pytest.approx(whole.elapsed_s, abs=1e-6)
    steered = orrery.simulate(snapshot, policy="predictive-rebalance")
    assert steered.steps_completed == 40 and steered.elapsed_s < 0.8 * whole.elapsed_s
    assert orrery.simulate(snapshot, run__steps=20).steps_completed == 20
    table = orrery.futures(
        snapshot, count=2, choices={"as it is": None, "steered": "predictive-rebalance"}
    )
    goodput = table.pivot(index="future", columns="choice", values="goodput_ahead")
    assert (goodput["steered"] > 1.2 * goodput["as it is"]).all()
    assert table.attrs["begun"]["steps_completed"] >= 10
    assert orrery.Snapshot(log, at=1e6).at == pytest.approx(whole.elapsed_s, abs=1e-6)


def test_what_is_no_log_is_no_snapshot(tmp_path):
    with pytest.raises(orrery.InputError, match="record 0, byte 0"):
        orrery.Snapshot(STRAGGLER)
    with pytest.raises(orrery.InputError, match="cannot be read"):
        orrery.Snapshot(tmp_path / "nothing")
    with pytest.raises(ValueError, match="instant"):
        orrery.Snapshot(STRAGGLER, at=-1.0)
