"""Policies side by side, and the goal that can be missed."""

import json

from conftest import STRAGGLER, orrery


def test_versus_prints_both_policies():
    result = orrery("versus", STRAGGLER, "--json", "--within", "1.15")
    assert result.returncode == 0, result.stderr
    static, moved = json.loads(result.stdout)
    assert (static["policy"], moved["policy"]) == ("static", "predictive-rebalance")
    assert static["ratio"] > 2 and moved["ratio"] <= 1.15
    table = orrery("versus", STRAGGLER).stdout.splitlines()
    assert len(table) == 3 and "static" in table[1] and "predictive-rebalance" in table[2]


def test_versus_says_when_the_goal_is_missed():
    result = orrery("versus", STRAGGLER, "--policies", "static", "--within", "1.15")
    assert result.returncode == 1
    assert "goal missed: static under sim" in result.stderr
