"""Grades of scenarios, clusters and recorded runs under the training spec."""

import json
import re

from conftest import EXAMPLES, ROOT, STRAGGLER, orrery

MONTH = EXAMPLES / "month-10k-h100.yaml"
ASKED = ("--model", "llama3-8b", "--cluster", "dgx-h100", "--gpus", 64, "--tokens", "100B",
         "--tokens-per-batch", 2**21, "--seeds", 20)  # fmt: skip


def graded(file, *more, code=1):
    result = orrery("check", "--spec", file, "--json", *more)
    assert result.returncode == code, result.stderr
    report = json.loads(result.stdout)
    return report, {each["rule"]: each for each in report["rules"]}


def test_a_scenario_is_graded_with_fixes_and_gains(tmp_path):
    row = tmp_path / "row.yaml"
    assert orrery("plan", *ASKED, "--scenario", row).returncode == 0
    report, rules = graded(row)
    assert report["subject"] == "scenario" and report["spec_version"] == "1.0"
    assert report["passed"] + report["failed"] + report["unknown"] == len(rules)
    for rule in ("configure.layout", "checkpoint.interval", "recover.planned", "recover.policy",
                 "monitor.detection"):  # fmt: skip
        assert rules[rule]["grade"] == "pass", rules[rule]
    report, rules = graded(row, "--set", "checkpoints.every=50000")
    rare = rules["checkpoint.interval"]
    assert rare["grade"] == "fail" and rare["gain"] > 0.05
    _, fixed = graded(row, *(word for each in rare["set"] for word in ("--set", each)))
    assert fixed["checkpoint.interval"]["grade"] == "pass"
    for each in rules.values():
        assert (each["fix"] is not None) == (each["grade"] == "fail"), each
        assert (each["gain"] is None) == bool(each["no_gain"]), each


def test_a_run_without_planned_failures_is_told_so():
    _, rules = graded(EXAMPLES / "llama3-70b-512-h100.yaml")
    assert rules["recover.planned"]["grade"] == "fail"
    assert rules["checkpoint.written"]["grade"] == "fail"
    assert rules["checkpoint.written"]["gain"] > 0.1


def test_a_cluster_is_graded_alone(tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text("preset: dgx-h100\nnodes: 64\nprice: {gpu_hour: 2 USD/h, carbon: 350}\n")
    report, rules = graded(file, code=0)
    assert report["subject"] == "cluster" and set(rules) == {
        "cluster.network", "cluster.rails", "cluster.fabric", "cluster.price"}  # fmt: skip
    file.write_text("preset: dgx-h100\nnodes: 64\nnode: {nics_per_node: 2}\n")
    _, rules = graded(file)
    assert rules["cluster.rails"]["grade"] == "fail"
    assert "no training job" in rules["cluster.rails"]["no_gain"]


def test_a_recorded_run_is_graded_by_its_facts(tmp_path):
    row, log = tmp_path / "row.yaml", tmp_path / "run.log"
    assert orrery("plan", *ASKED, "--set", "failures.scale=20", "--scenario", row).returncode == 0
    report = json.loads(orrery("simulate", row, "--json", "--record", log).stdout)
    graded_run, rules = graded(log)
    assert graded_run["subject"] == "recorded run"
    assert report["failures"] and rules["run.recovery"]["grade"] in ("pass", "fail")
    shown = float(re.search(r"[\d.]+", rules["run.goodput"]["found"]).group())
    assert abs(shown / 100 - report["goodput"]) < 0.03
    assert rules["run.checkpoints"]["grade"] != "unknown"
    assert "checkpoint.interval" in rules  # those of its scenario, too


def test_the_table_names_each_rule_and_its_fix():
    result = orrery("check", "--spec", STRAGGLER)
    assert result.returncode == 1
    assert "under the training spec 1.0" in result.stdout
    assert re.search(r"fail\s+checkpoint\.written .*\n\s+fix: .*; predicted gain \+", result.stdout)
    assert "--set '" in result.stdout


def test_other_work_is_refused(tmp_path):
    result = orrery("check", "--spec", EXAMPLES / "allreduce-ring-1024.yaml")
    assert result.returncode == 3 and "expected a scenario with a training job" in result.stderr
    missing = orrery("check", "--spec", tmp_path / "missing.yaml")
    assert missing.returncode == 3 and "missing.yaml" in missing.stderr


def test_the_page_has_each_rule(tmp_path):
    row, log = tmp_path / "row.yaml", tmp_path / "run.log"
    assert orrery("simulate", MONTH, "--set", "run.steps=50", "--record", log).returncode == 0
    _, rules = graded(log)
    page = (ROOT / "docs" / "spec.md").read_text()
    on_page = re.findall(r"^\| `([a-z.-]+)` \|", page, re.MULTILINE)
    assert sorted(on_page) == sorted(rules)
    assert "Version 1.0" in page
