"""The dashboard in docs/grafana.json: of the form that Grafana imports, over metrics that a run
prints."""

import json
import re

import pytest
from conftest import ROOT, STRAGGLER, orrery

BOARD = json.loads((ROOT / "docs" / "grafana.json").read_text())
#: Requirements of Grafana's dashboard schema (kinds/dashboard, schemaVersion 39) for each part.
PANEL = {"id": int, "type": str, "title": str, "gridPos": dict, "targets": list}
PLACE = {"h": int, "w": int, "x": int, "y": int}


def check(part, form):
    for key, kind in form.items():
        assert isinstance(part.get(key), kind), f"{key} of {part.get('title', part)}"


def test_the_dashboard_has_the_form_that_grafana_imports():
    check(BOARD, {"title": str, "schemaVersion": int, "panels": list, "templating": dict})
    taken = set()
    for panel in BOARD["panels"]:
        check(panel, PANEL)
        check(panel["gridPos"], PLACE)
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on another one"
                taken.add((x, y))
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters) > 0
        assert panel["datasource"]["uid"] == "${datasource}"
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def used():
    text = " ".join(target["expr"] for panel in BOARD["panels"] for target in panel["targets"])
    text += " ".join(str(each.get("query")) for each in BOARD["templating"]["list"])
    return set(re.findall(r"\borrery_\w+", text))


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    file = tmp_path_factory.mktemp("metrics") / "run.prom"
    result = orrery("live", STRAGGLER, "--set", "run.steps=15", "--set", f"live.metrics={file}")
    assert result.returncode == 0, result.stderr
    return set(re.findall(r"^(orrery_\w+)\{", file.read_text(), re.MULTILINE))


def test_every_metric_of_the_dashboard_is_one_that_a_run_prints(printed):
    assert used() <= printed


def test_a_run_prints_hardly_anything_that_the_dashboard_leaves_out(printed):
    assert printed - used() == {"orrery_elapsed_seconds"}
