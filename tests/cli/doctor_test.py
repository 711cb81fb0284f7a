"""orrery doctor: missing parts and reasons; exit code 0 if none is missing, else 4."""

import json

from conftest import orrery


def test_every_missing_piece_has_its_reason():
    result = orrery("doctor", "--json")
    report = json.loads(result.stdout)
    assert result.returncode == (0 if report["complete"] else 4)
    assert report["complete"] == all(finding["present"] for finding in report["findings"])
    for finding in report["findings"]:
        assert finding["detail"] and finding["needed_for"]
    there = {finding["name"]: finding["present"] for finding in report["findings"]}
    assert there["orrery-sim"] and there["orrery-live"]


def test_the_text_names_the_machine():
    result = orrery("doctor")
    assert "GPUs: " in result.stdout and "network cards: " in result.stdout
