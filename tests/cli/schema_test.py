"""JSON Schemas for editors."""

import json

import pytest
from conftest import orrery


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
