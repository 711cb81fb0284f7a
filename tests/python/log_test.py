"""Logs as tables: events, decisions with their outcomes, annotations, telemetry."""

import numpy as np
import pytest
from conftest import ROOT, STRAGGLER

import orrery
from orrery import actions, events, settings

LOGS = ROOT / "tests" / "policies" / "record" / "logs"
KILL = ROOT / "examples" / "kill-one-rank.yaml"


class Noting(orrery.Policy):
    """Decides three times: applied, rejected, and too late to have an outcome."""

    def needs(self):
        return orrery.Needs(actions=["Assign"], settings=["Shares"])

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.RanksLost):
                where = seen.jobs[event.job].without_lost()
                decisions.add(
                    actions.Assign(event.job, where.gpus, where.layout, state="peer"), why="left"
                )
            if isinstance(event, events.StepsDone) and event.last == 1:
                ranks = seen.samples.ranks(0)
                assert (ranks["micro_batch_time"] > 0).all()
                slowest = seen.samples.summary(0, latest=2).latest["rank"]
                decisions.note("slowest", int(slowest[0]))
                decisions.note("ranks", f"{len(ranks)} are there")
                decisions.configure(0, settings.Shares([1]), why="a wrong sum")
        decisions.rest()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "kill.log"
    report = orrery.simulate(KILL, policy=Noting(), record=log, detail="full")
    return report, orrery.read_log(log)


def test_decisions_have_their_outcomes(recorded):
    report, log = recorded
    found = log.decisions
    assert list(found["id"]) == [0, 1] and report.decisions == 2
    wrong, assigned = found.iloc[0], found.iloc[1]
    assert (wrong.action, wrong.setting, wrong.outcome) == ("Configure", "Shares", "rejected")
    assert wrong.parameters == {"per_replica": [1]}
    assert wrong.reason and wrong.why == "a wrong sum"
    assert (assigned.action, assigned.setting, assigned.outcome) == ("Assign", None, "applied")
    assert assigned.parameters["layout"]["data"] == len(assigned.parameters["gpus"])
    assert (assigned.job, assigned.at_step, assigned.group) == (0, 0, 0)
    assert assigned.decided_s >= assigned.at_s > wrong.at_s
    assert np.isnan(assigned.expires_s)


def test_events_have_the_fields_of_their_class(recorded):
    report, log = recorded
    assert len(log.events) == report.events
    lost = log.events[log.events.event == "RanksLost"].dropna(axis=1)
    assert {"call", "at_s", "event", "job", "ranks", "epoch"} == set(lost.columns)
    done = log.events[log.events.event == "StepsDone"]
    assert done["count"].sum() == report.steps_completed
    assert str(done["last"].dtype) == "Int64" and done.at_s.is_monotonic_increasing
    submitted = log.events[log.events.event == "JobSubmitted"].iloc[0]
    assert submitted.job == 0 and submitted.spec.steps == report.steps_completed


def test_notes_are_recorded_counted_and_not_compared(recorded):
    report, log = recorded
    assert [tuple(row) for row in log.notes[["key", "value"]].itertuples(index=False)] == [
        ("slowest", log.notes.value[0]),
        ("ranks", "4 are there"),
    ]
    assert isinstance(log.notes.value[0], float)
    assert report.notes == 2

    class Silent(Noting):  # the name seeds its random numbers
        def observe(self, seen, decisions):
            decisions.note = lambda key, value: None
            super().observe(seen, decisions)

    Silent.__name__ = Noting.__name__
    assert orrery.replay(log.path, policy=Silent()).identical


def test_samples_are_those_that_were_read(recorded):
    _, log = recorded
    ranks = log.samples["ranks"]
    assert list(ranks["rank"]) == [0, 1, 2, 3]
    assert list(ranks.columns[:3]) == ["call", "at_s", "job"]
    assert (ranks.micro_batch_time > 0).all() and ranks.at_s.nunique() == 1
    assert "wait_time" not in ranks, "no policy has read it"
    assert log.samples["devices"].empty
    summary = log.samples["summary"].iloc[0]
    assert summary["ranks"] == 4 and len(summary.slowest) == 2


def test_the_head_of_a_log(recorded):
    _, log = recorded
    assert (log.mode, log.seed, log.policies, log.problem) == ("sim", 1, ["Noting"], None)
    assert orrery.load(log.scenario).ranks == 4
    assert "2 decisions" in repr(log) and "Noting" in log._repr_html_()


def test_a_note_is_a_number_or_a_text():
    class Wrong(orrery.Policy):
        def observe(self, seen, decisions):
            decisions.note("key", [1])

    with pytest.raises(TypeError, match="a number or a text, got .1."):
        orrery.simulate(STRAGGLER, policy=Wrong())


def test_a_run_without_notes_does_not_count_them():
    assert orrery.simulate(STRAGGLER, run__steps=2).notes is None


def test_logs_of_jobs_have_tables_too(tmp_path):
    trace, log = tmp_path / "jobs.csv", tmp_path / "jobs.log"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\na,0,2,60\nb,1,2,60\n")
    orrery.jobs(trace, nodes=1, gpus_per_node=2, policy="fifo", record=log)
    read = orrery.read_log(log)
    assert (read.mode, read.policies, read.scenario) == ("jobs", ["fifo"], None)
    assert list(read.decisions.action) == ["Assign", "Assign"]
    assert list(read.decisions.outcome) == ["applied", "applied"]
    assert list(read.events[read.events.event == "JobDone"].job) == [0, 1]


def test_logs_of_live_runs_have_tables_too(tmp_path):
    log = tmp_path / "live.log"
    short = {"run.steps": 3, "job.global_batch": 8, "job.pace.micro_batch": "40 ms"}
    orrery.live(STRAGGLER, policy="static", record=log, overrides=short)
    read = orrery.read_log(log)
    assert read.mode == "live" and read.policies == ["static"]
    assert read.decisions.empty and "StepsDone" in set(read.events.event)


@pytest.mark.parametrize("number", [2, 3, 4])
def test_logs_of_earlier_formats_have_the_same_tables(number):
    log = orrery.read_log(LOGS / f"format-{number}.log")
    assert (log.mode, log.policies, log.problem) == ("sim", ["predictive-rebalance"], None)
    (decision,) = log.decisions.itertuples()
    assert (decision.setting, decision.at_step, decision.outcome) == ("Shares", 3, "applied")
    assert decision.parameters == {"per_replica": [12, 12, 4, 12]}
    done = log.events[log.events.event == "StepsDone"]
    assert done["count"].sum() == 8 and done["last"].max() == 7
    ranks, links = log.samples["ranks"], log.samples["links"]
    assert len(ranks) == 72 and list(ranks["rank"][:4]) == [0, 1, 2, 3]
    slowest = ranks.groupby("rank").micro_batch_time.max().idxmax()
    assert slowest == 2 and ranks.micro_batch_time.notna().all()
    assert (links.latency > 0).all() and log.samples["collectives"].empty


def test_a_log_without_an_end_is_read_with_a_warning(recorded, tmp_path):
    _, log = recorded
    torn = tmp_path / "torn.log"
    whole = open(log.path, "rb").read()
    torn.write_bytes(whole[: len(whole) // 2])
    with pytest.warns(RuntimeWarning, match="torn.log.*(cut short|no end)"):
        part = orrery.read_log(torn)
    assert 0 < len(part.events) < len(log.events) and part.problem
    torn.write_bytes(b"no log at all")
    with pytest.raises(orrery.InputError, match="torn.log"):
        orrery.read_log(torn)


def test_samples_of_the_second_job_carry_its_number(tmp_path):
    class Both(orrery.Policy):
        def observe(self, seen, decisions):
            for event in seen.events:
                if isinstance(event, events.StepsDone):
                    len(seen.samples.ranks(event.job))
            decisions.rest()

    log = tmp_path / "two.log"
    example = ROOT / "examples" / "two-jobs-one-spine.yaml"
    orrery.simulate(example, policy=Both(), record=log, run__steps=5)
    ranks = orrery.read_log(log).samples["ranks"]
    assert set(ranks[ranks["rank"] == 200].job) == {0, 1}
