"""JSON Schemas for editors."""

import json

import pytest
from conftest import orrery


@pytest.mark.parametrize("kind", ["scenario", "topology", "jobs"])
def test_a_schema_is_one_json_object(kind):
    result = orrery("schema", kind)
    assert result.returncode == 0, result.stderr
    schema = json.loads(result.stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "nodes" in result.stdout


def test_an_unknown_kind():
    assert orrery("schema", "weather").returncode == 2
