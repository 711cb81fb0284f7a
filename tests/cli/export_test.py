"""Scenarios in other tools' formats."""

import json

import pytest
from conftest import EXAMPLES, orrery

MAIN = EXAMPLES / "llama3-70b-512-h100.yaml"
SMALL = tuple(
    part
    for setting in (
        "cluster.nodes=4",
        "job.model.layers=16",
        "job.global_batch=16",
        "job.layout.data=2",
        "job.layout.pipeline=2",
        "run.steps=1",
    )
    for part in ("--set", setting)
)


def step_time(*arguments):
    result = orrery("simulate", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["step_time_s"]


def test_a_step_that_goes_out_comes_back_with_its_time(tmp_path):
    result = orrery("export", "chakra", MAIN, "-o", tmp_path / "step", *SMALL)
    assert result.returncode == 0, result.stderr
    assert "one step of 32 ranks" in result.stdout
    back = tmp_path / "back.yaml"
    assert orrery("import", "chakra", tmp_path / "step", "-o", back).returncode == 0
    options = ("--set", "trace.algorithm=ring")
    assert step_time(back, *options) == pytest.approx(step_time(MAIN, *SMALL), rel=0.005)


def test_only_jobs_have_steps_to_export(tmp_path):
    result = orrery(
        "export", "chakra", EXAMPLES / "allreduce-ring-1024.yaml", "-o", tmp_path / "x"
    )
    assert result.returncode == 3
    assert "only the steps of a job" in result.stderr


def test_a_job_log_goes_out_as_a_workload_of_batsim_and_comes_back(tmp_path):
    log, workload, back = tmp_path / "log.csv", tmp_path / "w.json", tmp_path / "back.csv"
    log.write_text(
        "job_id,submit_s,num_gpus,duration_s,vc,user,name,requested_s,recorded_start_s,priority,"
        "after,qos,gpu_kind,speeds,min_gpus,max_gpus,scaling\n"
        "j1,0,2,50,a,ann,train,100,,,,high,,,,,\n"
        "j2,30,8,7,,,,,,-3,,,,,,,\n"
    )
    result = orrery("export", "batsim", log, "--gpus", 16, "-o", workload)
    assert result.returncode == 0 and result.stderr == ""
    assert result.stdout == f"{workload}: 2 jobs for 16 resources\n"
    assert json.loads(workload.read_text())["nb_res"] == 16
    result = orrery("import", "jobs", workload, "-o", back)
    assert result.returncode == 0 and "batsim: 2 rows = 2 jobs" in result.stderr
    assert back.read_text() == log.read_text()
    result = orrery("export", "batsim", log, "--gpus", 4, "-o", workload)
    assert result.returncode == 2 and "largest job" in result.stderr
