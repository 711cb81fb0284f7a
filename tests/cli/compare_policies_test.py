"""Policies side by side, and the goal that can be missed."""

import json

from conftest import STRAGGLER, orrery


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
