"""New policy: the output of `orrery new policy` runs, and its test passes."""

import os
import subprocess
import sys

import pytest
from conftest import BUILD, orrery


def test_a_python_policy_and_its_test_run(tmp_path):
    written = orrery("new", "policy", "lost-ranks", "-o", tmp_path)
    assert written.returncode == 0, written.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lost_ranks.py",
                                                                "lost_ranks_test.py"]  # fmt: skip
    assert str(tmp_path / "lost_ranks.py") in written.stdout
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "lost_ranks_test.py"]
    test = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert test.returncode == 0, test.stdout + test.stderr
    assert "1 passed" in test.stdout


def test_nothing_is_written_over(tmp_path):
    for taken in ("lost_ranks.hpp", "lost_ranks_test.cpp"):
        (tmp_path / taken).write_text("mine")
        refused = orrery("new", "policy", "lost-ranks", "--built-in", "-o", tmp_path)
        assert refused.returncode == 2
        assert f"{tmp_path / taken} exists already" in refused.stderr
        assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
        (tmp_path / taken).unlink()


@pytest.mark.parametrize("name", ["Lost", "lost-", "-lost", "lost--ranks", "9lives", "lost ranks",
                                  "../lost", ""])  # fmt: skip
def test_a_name_that_is_none_is_refused(tmp_path, name):
    refused = orrery("new", "policy", "-o", tmp_path, "--", name)
    assert refused.returncode == 2
    assert "NAME: expected small letters" in refused.stderr
    assert list(tmp_path.iterdir()) == []
