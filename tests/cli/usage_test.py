"""What is said to command lines that make no sense."""

import pytest
from conftest import STRAGGLER, orrery


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((), "a command is missing"),
        (("simulat", STRAGGLER), "unknown command 'simulat'; did you mean 'simulate'?"),
        (("simulate", STRAGGLER, "--jsno"), "unknown option '--jsno'; did you mean '--json'?"),
        (("simulate",), "FILE is required"),
        (("simulate", STRAGGLER, "--seed", "many"), "--seed"),
        (("simulate", STRAGGLER, "--detail", "most"), "--detail"),
        (("live", STRAGGLER, "--fabric", "gloo"), "--fabric"),
        (("live", STRAGGLER, "--hook", "true"), "--mode approve"),
        (("versus", STRAGGLER, "--policies", "statik"), "did you mean 'static'?"),
        (("versus", STRAGGLER, "--within", "-1"), "a positive factor up to 1000000, not -1"),
        (("rehearse",), "the commands are simulate, live, versus"),
        (("--jsno",), "unknown option '--jsno'"),
    ],
)
def test_usage(arguments, said):
    result = orrery(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
