"""JSON Schemas for editors."""

import json
import sys

import pytest
from conftest import BUILD, ROOT, orrery

sys.path.insert(0, str(ROOT / "python" / "reference"))
import scenario_page  # noqa: E402


@pytest.mark.parametrize(
    ("kind", "key"),
    [("scenario", "job"), ("topology", "nodes"), ("machine", "processor"), ("jobs", "trace")],
)
def test_a_schema_is_one_json_object(kind, key):
    result = orrery("schema", kind)
    assert result.returncode == 0, result.stderr
    schema = json.loads(result.stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert key in schema["properties"]


def test_an_unknown_kind():
    assert orrery("schema", "weather").returncode == 2


@pytest.mark.parametrize("kind", ["scenario", "topology", "machine", "jobs"])
def test_every_key_is_described(kind):
    schema = json.loads(orrery("schema", kind).stdout)
    types = {schema["title"]: schema, **schema["$defs"]} if "$defs" in schema else {"": schema}
    silent = [
        f"{name}.{key}"
        for name, inner in types.items()
        for key, value in inner["properties"].items()
        # A quantity's own sentence names its unit only, not its meaning.
        if value.get("description", "a quantity").startswith("a quantity")
    ]
    assert silent == []


def test_names_that_are_known_stand_in_the_schema():
    types = json.loads(orrery("schema", "scenario").stdout)["$defs"]
    assert "dgx-h100" in types["Topology"]["properties"]["preset"]["examples"]
    assert "llama3-70b" in types["Model"]["properties"]["preset"]["examples"]
    assert "B200" in types["NodeSpec"]["properties"]["gpu"]["examples"]
    assert "nemo" in types["Job"]["properties"]["stack"]["examples"]
    assert "predictive-rebalance" in types["PolicySpec"]["properties"]["name"]["enum"]
    assert "gain_threshold" in types["PredictiveRebalanceParameters"]["properties"]


def test_the_page_of_every_key_is_what_the_schema_says():
    written = (ROOT / "docs" / "scenario.md").read_text()
    assert scenario_page.page(BUILD / "bin" / "orrery") == written, "run ./dev reference"
