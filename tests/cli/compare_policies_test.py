"""Policies side by side, and the goal that can be missed."""

import json
import statistics

import pytest
from conftest import STRAGGLER, orrery

SHIFT = """
import orrery
from orrery import events, settings


class Shift(orrery.Policy):
    def needs(self):
        return orrery.Needs(settings=["Shares"])

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.StepsDone) and event.last == 11:
                decisions.configure(0, settings.Shares([12, 12, 4, 12]))
"""


def test_it_prints_both_policies():
    result = orrery("compare-policies", STRAGGLER, "--json", "--within", "1.15")
    assert result.returncode == 0, result.stderr
    static, moved = json.loads(result.stdout)
    assert (static["policy"], moved["policy"]) == ("static", "predictive-rebalance")
    assert static["ratio"] > 2 and moved["ratio"] <= 1.15
    table = orrery("compare-policies", STRAGGLER).stdout.splitlines()
    assert len(table) == 3 and "static" in table[1] and "predictive-rebalance" in table[2]


def test_it_says_when_the_goal_is_missed():
    result = orrery("compare-policies", STRAGGLER, "--policies", "static", "--within", "1.15")
    assert result.returncode == 1
    assert "goal missed: static under sim" in result.stderr


def test_its_old_name_still_works():
    old, new = (
        orrery(name, STRAGGLER, "--policies", "static", "--json")
        for name in ("versus", "compare-policies")
    )
    assert old.returncode == 0 and old.stdout == new.stdout


def test_differences_of_equal_seeds_have_an_interval(tmp_path):
    file = tmp_path / "shift.py"
    file.write_text(SHIFT)
    given = ["compare-policies", STRAGGLER, "--policies", f"static,static,{file}:Shift",
             "--seeds", 5]  # fmt: skip
    result = orrery(*given, "--json")
    assert result.returncode == 0, result.stderr
    first, same, shift = json.loads(result.stdout)
    assert [row["seeds"] for row in (first, same, shift)] == [5, 5, 5]
    for row in (first, same):  # Equal runs of equal seeds: nothing is left of the noise.
        assert row["difference_s"] == row["low_s"] == row["high_s"] == 0
    assert shift["low_s"] < shift["difference_s"] < shift["high_s"] < -0.5
    assert shift["difference_s"] == pytest.approx(shift["step_time_s"] - first["step_time_s"])
    table = orrery(*given).stdout.splitlines()
    assert "95% interval" in table[0] and " to -0." in table[3]


def test_the_interval_is_that_of_the_formula():
    runs = {}
    for policy in ("static", "predictive-rebalance"):
        runs[policy] = [
            json.loads(orrery("simulate", STRAGGLER, "--policy", policy, "--seed", seed,
                              "--json").stdout)["step_time_s"]
            for seed in (1, 2, 3)
        ]  # fmt: skip
    result = orrery("compare-policies", STRAGGLER, "--seeds", 3, "--json")
    row = json.loads(result.stdout)[1]
    by = [b - a for a, b in zip(*runs.values())]
    half = 4.302653 * statistics.stdev(by) / 3**0.5  # Student's t, 2 degrees of freedom
    assert row["difference_s"] == pytest.approx(statistics.mean(by), rel=1e-9)
    assert row["high_s"] - row["difference_s"] == pytest.approx(half, rel=1e-5)


def test_seeds_go_with_one_world_only():
    result = orrery("compare-policies", STRAGGLER, "--seeds", 3, "--world", "both")
    assert result.returncode == 2 and "--seeds: expected neither --world live" in result.stderr
