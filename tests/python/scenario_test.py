"""Scenarios from files, text and dicts, changed and checked."""

import copy
import json
import subprocess

import jsonschema
import numpy as np
import pytest
import yaml_text
from conftest import BUILD, EXAMPLES, STRAGGLER

import orrery

SCENARIOS = sorted(
    file for file in EXAMPLES.glob("**/*.yaml") if not file.name.startswith("replay-")
)
SCHEMA = json.loads(subprocess.check_output([BUILD / "bin" / "orrery", "schema", "scenario"]))


def test_every_form_of_a_scenario_is_the_same():
    text = STRAGGLER.read_text()
    hashes = {
        orrery.load(form).hash
        for form in (STRAGGLER, str(STRAGGLER), text, yaml_text.parse(text))
    }
    assert len(hashes) == 1


def test_overrides_hold_values_at_any_depth():
    faults = [{"at_step": 4, "rank": 2, "kill": True}]
    loaded = orrery.load(STRAGGLER, {"faults": faults, "job.layout": {"data": np.int64(4)}})
    assert loaded.to_dict()["faults"][0]["kill"] is True
    assert orrery.load(STRAGGLER, {"faults": np.array([])}).to_dict().get("faults") in (None, [])
    inside = orrery.load({**loaded.to_dict(), "faults": faults})
    assert inside.hash == loaded.hash
    with pytest.raises(TypeError, match="cannot hold a object"):
        orrery.load(STRAGGLER, {"faults": [object()]})


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


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_a_scenario_as_a_dict_is_the_scenario(file):
    loaded = orrery.load(file)
    again = orrery.load(loaded.to_dict())
    assert again.hash == loaded.hash
    assert again.to_dict() == loaded.to_dict()
    assert orrery.load(loaded.to_dict(), run__steps=3).steps == 3


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_the_schema_for_editors_takes_what_the_loader_takes(file):
    values = orrery.load(file).to_dict()
    jsonschema.validate(values, SCHEMA)
    for path, wrong in ((("run", "steps"), 0), (("name",), ""), (("cluster", "nodez"), 1)):
        spoiled = copy.deepcopy(values)
        inner = spoiled
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = wrong
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(spoiled, SCHEMA)


def test_the_schema_for_editors_knows_a_policys_parameters():
    values = orrery.load(STRAGGLER).to_dict()
    values["policies"] = [{"name": "predictive-rebalance", "parameters": {"gain": 1}}]
    with pytest.raises(jsonschema.ValidationError, match="'gain' was unexpected"):
        jsonschema.validate(values, SCHEMA)
    values["policies"] = [{"name": "fifo", "parameters": {"placement": "count"}}]
    jsonschema.validate(values, SCHEMA)


def test_a_dict_of_numbers_has_si_units():
    values = orrery.load(STRAGGLER).to_dict(units=False)
    assert values["cluster"]["node"]["nic_bandwidth"] == 50e9
    assert values["job"]["pace"]["micro_batch"] == 40_000_000
    assert orrery.load(STRAGGLER).to_dict()["job"]["pace"]["micro_batch"] == "40000000 ns"


def test_check_finds_what_a_run_would_refuse():
    assert orrery.check(STRAGGLER) == [] == orrery.check(orrery.load(STRAGGLER))
    main = orrery.load(EXAMPLES / "llama3-70b-512-h100.yaml").to_dict()
    large = {**main, "job": {**main["job"], "layout": {"data": 1, "tensor": 2}}}
    collective = orrery.load(EXAMPLES / "allreduce-ring-1024.yaml").to_dict()
    unfit = {**collective, "policies": [{"name": "fifo"}]}  # it is no job to be placed
    for changed, said in ((large, "out of memory"), (unfit, "leaves a policy nothing")):
        (problem,) = orrery.check(changed)
        assert said in problem.message
        with pytest.raises(orrery.InputError, match=said):
            orrery.simulate(changed)


def test_a_scenario_in_a_notebook():
    page = orrery.load(EXAMPLES / "llama3-70b-512-h100.yaml")._repr_html_()
    for said in ("64 nodes of 8 H100", "llama3-70b", "tensor 8 x pipeline 4 x data 16", "nemo"):
        assert said in page
    assert "a collective" in orrery.load(EXAMPLES / "allreduce-ring-1024.yaml")._repr_html_()
    odd = yaml_text.parse(STRAGGLER.read_text())
    odd["name"] = "<script>"
    assert "<script>" not in orrery.load(odd)._repr_html_()
