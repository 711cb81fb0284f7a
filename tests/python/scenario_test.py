"""Scenarios from files, text and dicts, changed and checked."""

import numpy as np
import pytest
import yaml_text
from conftest import STRAGGLER

import orrery


def test_every_form_of_a_scenario_is_the_same():
    text = STRAGGLER.read_text()
    hashes = {
        orrery.load(form).hash
        for form in (STRAGGLER, str(STRAGGLER), text, yaml_text.parse(text))
    }
    assert len(hashes) == 1


def test_overrides():
    loaded = orrery.load(STRAGGLER, {"job.global_batch": 80}, run__steps=np.int64(7))
    assert loaded.steps == 7 and loaded.ranks == 4
    assert loaded.to_dict()["job"]["global_batch"] == 80
    assert orrery.simulate(loaded, run__steps=5).steps_completed == 5


@pytest.mark.parametrize("wrong", [float("nan"), None, [1], {"a": 1}])
def test_a_dict_is_checked_like_a_file(wrong):
    scenario = yaml_text.parse(STRAGGLER.read_text())
    scenario["job"]["global_batch"] = wrong
    with pytest.raises(orrery.InputError):
        orrery.load(scenario)
