"""Names on the command line."""

import pytest
from conftest import orrery


@pytest.mark.parametrize(
    "kind, name",
    [
        ("models", "llama3-70b"),
        ("clusters", "dgx-h100"),
        ("gpus", "H100"),
        ("stacks", "nemo"),
        ("policies", "predictive-rebalance"),
        ("prices", "nebius-h100"),
        ("examples", "compare/plain"),
    ],
)
def test_each_kind_has_a_line_for_each_name(kind, name):
    result = orrery("list", kind)
    assert result.returncode == 0, result.stderr
    words = [line.split("  ", 1) for line in result.stdout.splitlines()]
    assert name in [each[0].strip() for each in words]
    assert all(len(each) == 2 and each[1].strip() for each in words)


def test_a_kind_that_does_not_exist_names_the_nearest():
    result = orrery("list", "model")
    assert result.returncode == 2
    assert "did you mean 'models'?" in result.stderr


def test_kinds_are_completed():
    assert "models clusters gpus stacks policies" in orrery("completion", "bash").stdout
