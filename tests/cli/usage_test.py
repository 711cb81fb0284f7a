"""Messages about invalid command lines."""

import pytest
from conftest import STRAGGLER, orrery


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("simulat", STRAGGLER), "unknown command 'simulat'; did you mean 'simulate'?"),
        (("simulate", STRAGGLER, "--jsno"), "unknown option '--jsno'; did you mean '--json'?"),
        (("simulate",), "FILE is required"),
        (("simulate", STRAGGLER, "--seed", "many"), "--seed"),
        (("simulate", STRAGGLER, "--detail", "most"), "--detail"),
        (("live", STRAGGLER, "--fabric", "gloo"), "--fabric"),
        (("live", STRAGGLER, "--hook", "true"), "--mode approve"),
        (("simulate", STRAGGLER, "--seed", "1.5"), "expected a whole number from 0 to 10000"),
        (("simulate", STRAGGLER, "--detail", "fulll"), "got 'fulll'; did you mean 'full'?"),
        (("simulate", STRAGGLER, "--cluster", "here.yaml"), "--machine takes a profile"),
        (("simulate", STRAGGLER, "--timeline", "out.json"), "name it OUT.pftrace"),
        (("live", STRAGGLER, "--timeline", "out"), "live mode writes no timeline"),
        (("live", STRAGGLER, "--kill-switch", "/no/such/halt"), "there is no folder '/no/such'"),
        (("live", STRAGGLER, "--kill-switch", "/proc/self/fd"), "got the folder"),
        (("live", STRAGGLER, "--mode", "approve", "--hook", "./no-such"), "there is no './no-suc"),
        (("live", STRAGGLER, "--mode", "approve", "--hook", "if"), "/bin/sh cannot read it"),
        (("compare-policies", STRAGGLER, "--policies", "statik"), "did you mean 'static'?"),
        (("compare-policies", STRAGGLER, "--within", "-1"), "from 1e-06 to 1000000, got '-1'"),
        (("compare-policies", STRAGGLER, "--within", "nan"), "got 'nan'"),
        (("train",), "the commands are plan, layouts, predict"),
        (("help", "liv"), "unknown command 'liv'; did you mean 'live'?"),
        (("completion", "csh"), "expected bash or zsh or fish, got 'csh'"),
        (("--jsno",), "unknown option '--jsno'"),
    ],
)
def test_usage(arguments, said):
    result = orrery(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


LONG = "a" * 300  # longer than a file system's names


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", LONG),
        ("simulate", LONG),
        ("live", LONG),
        ("jobs", LONG),
        ("replay", LONG),
        ("import", "jobs", LONG, "--output", "out.csv"),
        ("import", "chakra", LONG, "--output", "out.yaml"),
        ("simulate", STRAGGLER, "--policy", f"./{LONG}"),
        ("simulate", STRAGGLER, "--policy", f"{LONG}.py"),
        ("run", "-n", "2", "--", LONG),
        ("rehearse", "--ranks", "8", "--cluster", LONG, "--", "python3", "program.py"),
    ],
)
def test_names_that_are_too_long_are_refused(arguments):
    result = orrery(*arguments)
    assert result.returncode in (2, 3, 127), result.stderr  # 127: as a shell, no such program
    assert "internal" not in result.stderr
