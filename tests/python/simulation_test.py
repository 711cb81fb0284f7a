"""Simulations that the caller steps through."""

import gc
import os
import subprocess
import sys

import pytest
from conftest import ENDLESS, ROOT, STRAGGLER, children_of

import orrery
from orrery import actions, events, settings

KILL = ROOT / "examples" / "kill-one-rank.yaml"


def test_steps_give_observations_and_send_decisions():
    sim = orrery.Simulation(STRAGGLER)
    outcomes, calls, decided = [], 0, False
    while (seen := sim.step()) is not None:
        assert seen.sequence == calls
        calls += 1
        outcomes += [event.status for event in seen.events if isinstance(event, events.Decided)]
        if not decided and any(isinstance(e, events.StepsDone) for e in seen.events):
            decided = True
            assert len(seen.samples.ranks(0)) == 4
            sim.decisions.configure(0, settings.Shares([12, 12, 4, 12]))
        sim.decisions.rest()
    assert outcomes == ["applied"] and sim.report.decisions == 1
    assert sim.report.step_time_s <= 1.15 * sim.report.ideal_step_time_s
    assert sim.step() is None
    sim.close()


def test_a_step_is_a_call_of_a_policy(tmp_path):
    log = tmp_path / "log"
    with orrery.Simulation(STRAGGLER, needs=orrery.Needs(), record=log) as sim:
        while sim.step() is not None:
            sim.decisions.rest()
    report = orrery.simulate(STRAGGLER, policy="static")
    assert sim.report.elapsed_s == report.elapsed_s
    assert orrery.read_log(log).events.event.tolist().count("StepsDone") > 0


def test_a_policy_decides_beside_the_caller():
    with orrery.Simulation(KILL, policy="recover", needs=orrery.Needs()) as sim:
        while sim.step() is not None:
            sim.decisions.rest()
        assert sim.report.decisions >= 1
        assert sim.report.steps_completed == 30


def test_the_caller_decides_what_the_run_offers():
    with orrery.Simulation(KILL) as sim:
        while (seen := sim.step()) is not None:
            assert "Assign" in sim.capabilities.actions and sim.cluster.gpus == 4
            for event in seen.events:
                if isinstance(event, events.RanksLost):
                    where = seen.jobs[0].without_lost()
                    assign = actions.Assign(0, where.gpus, where.layout, state="peer")
                    sim.decisions.add(assign)
        assert sim.report.steps_completed == 30


@pytest.mark.parametrize("end", ["close", "with", "forget", "exception"])
def test_ending_early_leaves_no_process(end):
    before = set(children_of(os.getpid()))
    sim = orrery.Simulation(STRAGGLER, **ENDLESS)
    assert sim.step() is not None and set(children_of(os.getpid())) > before
    if end == "close":
        sim.close()
        with pytest.raises(RuntimeError, match="closed"):
            sim.step()
        with pytest.raises(RuntimeError, match="has not ended"):
            sim.report
    elif end == "with":
        with sim:
            sim.step()
    elif end == "exception":
        with pytest.raises(ZeroDivisionError), sim:
            sim.decisions.rest()
            1 / 0
    del sim
    gc.collect()
    assert set(children_of(os.getpid())) == before


def test_a_program_ends_in_the_middle_of_a_simulation():
    code = f"import orrery; s = orrery.Simulation({str(STRAGGLER)!r}); s.step(); print('end')"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, timeout=60,
                            capture_output=True, text=True)  # fmt: skip
    assert (result.returncode, result.stdout, result.stderr) == (0, "end\n", "")


def test_mistakes_come_out_of_the_step():
    collective = ROOT / "examples" / "allreduce-ring-1024.yaml"
    sim = orrery.Simulation(collective, needs=orrery.Needs(settings=["Shares"]))
    with pytest.raises(orrery.InputError, match="does not offer.*Shares"):
        sim.step()
    with orrery.Simulation(STRAGGLER, needs=orrery.Needs()) as sim:
        with pytest.raises(RuntimeError, match="call step"):
            sim.decisions
        sim.step()
        with pytest.raises(ValueError, match="does not name Shares"):
            sim.decisions.configure(0, settings.Shares([10, 10, 10, 10]))
    with pytest.raises(ValueError, match="folded"):
        orrery.Simulation(STRAGGLER, detail="some")
