"""orrery fit: failures learnt from logs in three formats, and the section that a scenario uses."""

import json
import pathlib
import re
import sys

import pytest
from conftest import EXAMPLES, ROOT, orrery

sys.path.insert(0, str(pathlib.Path(ROOT) / "tests" / "bench"))
from operator_logs import DAY_S, FORMATS, YEAR_S, drawn_log, write_log  # noqa: E402


def fitted(log, form, folder, *more):
    path = write_log(log, form, folder)
    result = orrery("fit", "failures", path, "--nodes", log.nodes, "--time", "365 d", *more)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_goodput_of_the_log(tmp_path, form):
    for seed in (3, 5):
        log = drawn_log(seed)
        told = json.loads(fitted(log, form, tmp_path, "--json"))
        assert told["format"] == form
        assert told["incidents"] == len(log.failures)
        assert told["goodput_first_half"] == pytest.approx(log.goodput(0, YEAR_S / 2), abs=1e-5)
        assert told["goodput_second_half"] == pytest.approx(
            log.goodput(YEAR_S / 2, YEAR_S), abs=1e-5)


def test_the_second_half_lies_in_the_interval_of_most_logs(tmp_path):
    told = [json.loads(fitted(drawn_log(seed), FORMATS[seed % 3], tmp_path, "--json"))
            for seed in range(1, 16)]
    assert 8 <= sum(each["within_80"] for each in told) <= 15
    assert sum(each["within_95"] for each in told) >= 12
    for each in told:
        assert each["goodput"]["p10"] < each["goodput"]["p50"] < each["goodput"]["p90"]


def test_unreliable_nodes_are_named(tmp_path):
    named = 0
    for seed in range(1, 13):
        log = drawn_log(seed)
        told = json.loads(fitted(log, "csv", tmp_path, "--json"))
        found = {int(name.removeprefix("node ")) for name in told["lemons"]["nodes"]}
        named += bool(found)
        assert len(found - log.lemons) <= 1, seed
    assert named >= 2


def test_a_scenario_uses_the_section(tmp_path):
    section = tmp_path / "failures.yaml"
    log = drawn_log(3)
    assert "second half, by the first" in fitted(log, "csv", tmp_path, "-o", section)
    again = tmp_path / "again.yaml"
    fitted(log, "csv", tmp_path, "-o", again)
    assert again.read_text() == section.read_text()
    example = (EXAMPLES / "month-10k-h100.yaml").read_text()
    whole = re.sub(r"^failures:\n(  .*\n)+", section.read_text(), example, flags=re.MULTILINE)
    assert whole != example
    scenario = tmp_path / "month.yaml"
    scenario.write_text(whole)
    checked = orrery("check", scenario)
    assert checked.returncode == 0, checked.stderr
    small = ["cluster.nodes=22", "job.layout.data=1", "job.global_batch=26",
             "run.memory=warn", "run.steps=20000"]
    run = orrery("simulate", scenario, "--json", *(f"--set={each}" for each in small))
    assert run.returncode == 0, run.stderr
    counts = json.loads(run.stdout)["fault_counts"]
    assert {each["cause"] for each in counts} <= {each.cause for each in log.failures}
    days = json.loads(run.stdout)["elapsed_s"] / DAY_S
    assert sum(each["injected"] for each in counts) == pytest.approx(
        len(log.failures) / 365 * days, rel=0.9)


def test_mistakes_are_named_and_nothing_is_written(tmp_path):
    out = tmp_path / "out.yaml"
    bad = tmp_path / "bad.csv"
    bad.write_text("time_s,cause,part,index,effect,rate,lasts_s\n5,a,node,0,down,,x\n")
    result = orrery("fit", "failures", bad, "--nodes", 4, "-o", out)
    assert (result.returncode, out.exists()) == (3, False)
    assert f"{bad}:2:18: error: lasts_s" in result.stderr
    bad.write_text("time_s,cause,part,index,effect,rate,lasts_s\n5,a,node,0,down,,9\n")
    result = orrery("fit", "failures", bad, "--nodes", 4, "-o", out)
    assert result.returncode == 3
    assert "at least 5 interruptions" in result.stderr
    result = orrery("fit", "failures", bad)
    assert result.returncode == 2
    assert "--nodes" in result.stderr
    result = orrery("fit", "failures", bad, "--nodes", 4, "--time", "soon")
    assert result.returncode == 2
    assert "such as '365 d'" in result.stderr
