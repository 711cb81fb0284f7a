"""A recommendation that a planner can sign, from a clone: the two commands and the five lines of
Python of docs/plan.md. The first command is the build of this tree."""

import json
import re
import shlex
import subprocess
import sys

from conftest import BUILD, ROOT, orrery


def blocks_of_page():
    page = (ROOT / "docs" / "plan.md").read_text()
    return re.findall(r"```(?:python)?\n(.*?)```", page, re.DOTALL)


def test_two_commands_and_five_lines_of_python_give_a_report(tmp_path):
    command, python = blocks_of_page()[:2]
    words = shlex.split(command)
    assert words[:2] == ["orrery", "plan"]
    page, scenario = tmp_path / "plan.html", tmp_path / "plan.yaml"
    found = orrery(*words[1:], "--json", "--html", page, "--scenario", scenario)
    assert found.returncode == 0, found.stderr
    best = json.loads(found.stdout)["candidates"][0]
    assert best["deadline_met"] >= 0.8 and best["within_budget"] >= 0.8
    assert "chance to meet the deadline" in page.read_text()
    lines = [line for line in python.strip().splitlines() if line and not line.startswith("import")]
    assert len(lines) <= 5, "the page promises five lines"
    environment = {"PYTHONPATH": str(BUILD / "python"), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run([sys.executable, "-c", python], cwd=tmp_path, env=environment,
                         capture_output=True, text=True)  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "earlier in the median case" in ran.stdout
    assert (tmp_path / "plan.html").read_text().startswith("<!DOCTYPE html>")
    # The recommendation is a scenario, too, and it follows the rules about failures.
    graded = json.loads(orrery("check", "--spec", scenario, "--json").stdout)
    failed = {rule["rule"] for rule in graded["rules"] if rule["grade"] == "fail"}
    assert failed <= {"monitor.metrics", "monitor.slow-ranks", "cluster.price"}, failed
