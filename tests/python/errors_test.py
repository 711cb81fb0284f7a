"""Each kind of error is a class of its own and carries its place."""

import os
import signal

import pytest
from conftest import ENDLESS, STRAGGLER, in_background, worker_of

import orrery


def test_input_errors_have_their_place():
    text = STRAGGLER.read_text().replace("global_batch", "globel_batch")
    with pytest.raises(orrery.InputError, match="did you mean 'global_batch'") as caught:
        orrery.simulate(text)
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "globel" in row)
    assert (caught.value.file, caught.value.line, caught.value.column) == ("<text>", line, 3)
    assert isinstance(caught.value, orrery.Error) and caught.value.exit_code == 3
    missing = line - 3  # "job:", which now lacks global_batch
    assert sorted(problem.line for problem in orrery.check(text)) == [missing, line]
    assert orrery.check(STRAGGLER) == []


def test_a_missing_file_is_an_input_error(tmp_path):
    with pytest.raises(orrery.InputError, match="none.yaml") as caught:
        orrery.simulate(tmp_path / "none.yaml")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_a_killed_worker_leaves_python_alive():
    killer = in_background(lambda: os.kill(worker_of(os.getpid()), signal.SIGKILL))
    with pytest.raises(orrery.WorkerDied, match="signal 9"):
        orrery.simulate(STRAGGLER, **ENDLESS)
    killer.join()
    assert orrery.simulate(STRAGGLER, run__steps=3).steps_completed == 3
