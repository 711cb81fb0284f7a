"""Paired comparisons of policies over seeds."""

import math

import pytest
from conftest import STRAGGLER
from python_policy_test import Rebalance

import orrery
from orrery._compare import _student


@pytest.mark.parametrize("freedom, quantile", [(1, 12.7062), (2, 4.30265), (4, 2.77645),
                                               (19, 2.09302), (99, 1.98422)])  # fmt: skip
def test_quantiles_are_those_of_the_tables(freedom, quantile):
    assert _student(0.975, freedom) == pytest.approx(quantile, rel=1e-5)


def test_differences_are_paired_and_have_an_interval():
    policies = {"static": "static", "mine": Rebalance, "both": ["static", Rebalance]}
    table = orrery.compare_policies(STRAGGLER, policies, seeds=3, metric="step_time_s")
    assert list(table.index) == ["static", "mine", "both"]
    reference = table.loc["static"]
    assert (reference.difference, reference.low, reference.high) == (0, 0, 0)
    mine = table.loc["mine"]
    assert mine.high < 0 and mine.higher == 0 and mine.seeds == 3
    assert mine.difference == pytest.approx(mine["mean"] - reference["mean"])
    runs = table.attrs["runs"]
    assert list(runs.index) == [1, 2, 3]
    spread = (runs["mine"] - runs["static"]).std(ddof=1)
    assert mine.high - mine.difference == pytest.approx(4.30265 * spread / math.sqrt(3), rel=1e-5)
    one = orrery.simulate(STRAGGLER, policy=Rebalance(), seed=2).step_time_s
    assert runs.loc[2, "mine"] == one
    assert table.loc["both"].difference == mine.difference


def test_a_metric_may_be_a_function():
    policies = {"scenario": None, "static": "static"}
    table = orrery.compare_policies(STRAGGLER, policies, [5, 7], lambda report: report.decisions)
    assert table.loc["static", "mean"] == 0 and table.loc["static", "difference"] < 0


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="at least two policies"):
        orrery.compare_policies(STRAGGLER, {"static": "static"})
    two = {"a": "static", "b": None}
    with pytest.raises(ValueError, match="two different"):
        orrery.compare_policies(STRAGGLER, two, seeds=1)
    with pytest.raises(ValueError, match="as 'speed' of a, seed 1, found None"):
        orrery.compare_policies(STRAGGLER, two, seeds=2, metric="speed")
