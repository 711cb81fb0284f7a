"""The example policies in C++ and in Python take the same decisions on the same scenario."""

import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
sys.path.insert(0, str(BUILD / "python"))

import orrery  # noqa: E402

KILL = ROOT / "examples" / "kill-one-rank.yaml"
STRAGGLER = ROOT / "examples" / "straggler-4-ranks.yaml"


def in_python(name):
    path = ROOT / "examples" / "policies" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, "".join(word.title() for word in name.split("_")))


def in_cpp(name, number, file, *more):
    """Decisions and trace of the policy in C++."""
    command = [BUILD / "tests" / "example_decisions", name, number, file, *more]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


SPARE = {"cluster.nodes": 2, "cluster.fabric.nodes_per_unit": 2}
TWICE = "[{at_step: 5, rank: 2, kill: true}, {at_step: 14, rank: 0, kill: true}]"
SLOW_AND_LOST = "[{at_step: 2, gpu: 2, rate: 0.9}, {at_step: 5, rank: 2, kill: true}]"
CASES = [
    ("adaptive_checkpoints", 400, STRAGGLER, {"checkpoints.stall": "1 s"}),
    ("adaptive_checkpoints", 40, STRAGGLER, {"checkpoints.stall": "1 s"}),
    ("adaptive_checkpoints", 40, KILL, {"faults": TWICE, "run.steps": 60}),
    ("cheapest_recovery", 1, KILL, {}),
    ("cheapest_recovery", 1000, KILL, {}),
    ("cheapest_recovery", 1, KILL, {"faults": TWICE}),
    ("cheapest_recovery", 0.01, KILL, {**SPARE, "faults": "[{at_step: 5, gpu: 2, down: true}]"}),
    ("cheapest_recovery", 0.01, KILL, {"faults": SLOW_AND_LOST}),
    ("elastic", 1, KILL, {"faults": SLOW_AND_LOST}),
    ("elastic", 2, KILL, {}),
    ("elastic", 1, KILL, {"faults": TWICE, "run.steps": 60}),
    ("collective_tuner", 4, STRAGGLER, {"faults": "[]"}),
    ("collective_tuner", 3, STRAGGLER, {}),
]


def a_name(case):
    return case if isinstance(case, (str, int, float)) else ""


@pytest.mark.parametrize("name, number, scenario, changes", CASES, ids=a_name)
def test_both_languages_decide_alike(tmp_path, name, number, scenario, changes):
    if name == "adaptive_checkpoints":
        changes = {
            **changes, "checkpoints.folder": tmp_path, "checkpoints.every": 1000,
        }  # fmt: skip
    overrides = [f"{key}={value}" for key, value in changes.items()]
    cpp = in_cpp(name, number, scenario, *overrides)
    more = {"steps": number} if name == "collective_tuner" else {}
    policy = in_python(name)(**more) if more else in_python(name)(number)
    report = orrery.simulate(scenario, policy=policy, overrides=changes)
    assert report.decisions == cpp["decisions"] >= 1
    assert report.decision_trace_sha256 == cpp["decision_trace_sha256"]


@pytest.mark.parametrize("preempts", [False, True])
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_both_languages_schedule_alike(tmp_path, preempts, seed):
    rng = random.Random(seed)
    rows = ["job_id,submit_s,num_gpus,duration_s,vc"]
    for job in range(60):
        pool = rng.choice(["urgent", "batch", "batch"])
        rows.append(f"{job},{2 * job},{rng.randint(1, 9)},{rng.randint(5, 60)},{pool}")
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(rows) + "\n")
    cpp = in_cpp("gang_scheduler", int(preempts), trace, 4, 4, tmp_path / "cpp")
    policy = in_python("gang_scheduler")({"urgent": 1}, preempts=preempts)
    size = {"nodes": 4, "gpus_per_node": 4}
    report = orrery.jobs(trace, policy=policy, record=tmp_path / "python", **size)
    assert (report.preemptions > 0) == preempts
    assert report.jobs_out == 60
    assert report.decisions == cpp["decisions"] >= 60
    assert report.decision_trace_sha256 == cpp["decision_trace_sha256"]


def test_another_parameter_would_show():
    assert in_cpp("cheapest_recovery", 1, KILL) != in_cpp("cheapest_recovery", 1000, KILL)


def test_a_slower_gpu_is_not_a_lost_one():
    slow = in_cpp("elastic", 1, KILL, f"faults={SLOW_AND_LOST}")
    assert slow["decisions"] == 2  # the job shrinks, and grows again on the slower GPU
