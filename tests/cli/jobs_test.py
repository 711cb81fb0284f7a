"""Job-level replay from the command line."""

import json
import pathlib

import pytest
from conftest import STRAGGLER, data_file, orrery

KEYS = [
    "jobs_in", "jobs_out", "jct_mean_s", "jct_p50_s", "jct_p99_s", "queue_mean_s", "makespan_s",
    "utilization", "preemptions", "host",
]  # fmt: skip


SAMPLE = pathlib.Path(__file__).parent / "samples" / "jobs.csv"


def replay(trace, policy):
    result = orrery(
        "jobs", trace, "--nodes", 3, "--gpus-per-node", 8, "--policy", policy,
        "--placement", "consolidated", "--json",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert [key for key in report if key in KEYS] == KEYS
    assert report["jobs_in"] == report["jobs_out"]
    return report["jobs_in"], *(round(report[key], 1) for key in (
        "jct_mean_s", "queue_mean_s", "makespan_s"))  # fmt: skip


@pytest.mark.parametrize(
    "policy, jct, queue, makespan",
    [("fifo", 8200.3, 6492.3, 25205), ("sjf", 3607.4, 1899.4, 23030)],
)
def test_a_sample_of_our_own_by_an_independent_program(policy, jct, queue, makespan):
    # Numbers of thirty lines of Python with a heap, not of this program.
    assert replay(SAMPLE, policy) == (40, jct, queue, makespan)


@pytest.mark.parametrize(
    "file, policy, jct, queue, makespan",
    [
        ("philly_small.csv", "sjf", 64430.2, 39892.9, 5783813),
        ("philly_small_helios_order.csv", "fifo", 343050.4, 318513.1, 5694118),
    ],
)
def test_reference_rows(file, policy, jct, queue, makespan):
    assert replay(data_file("jobs", file), policy) == (1450, jct, queue, makespan)


def small_trace(folder):
    file = folder / "trace.csv"
    file.write_text("job_id,submit_s,num_gpus,duration_s,vc\n1,0,2,100,a\n2,0,2,10,a\n3,5,2,20,a\n")
    return file


def test_the_order_of_the_queue(tmp_path):
    trace = small_trace(tmp_path)
    size = ("--nodes", 1, "--gpus-per-node", 2)
    fifo = json.loads(orrery("jobs", trace, *size, "--policy", "fifo", "--json").stdout)
    sjf = json.loads(orrery("jobs", trace, *size, "--policy", "sjf", "--json").stdout)
    assert fifo["jct_mean_s"] == pytest.approx((100 + 110 + 125) / 3)
    assert sjf["jct_mean_s"] == pytest.approx((10 + 25 + 130) / 3)
    assert fifo["makespan_s"] == sjf["makespan_s"] == 130


def test_a_scenario_file_says_the_same(tmp_path):
    small_trace(tmp_path)
    file = tmp_path / "jobs.yaml"
    file.write_text("trace: trace.csv\nnodes: 1\ngpus_per_node: 2\npolicy: sjf\n")
    result = orrery("jobs", file, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["makespan_s"] == 130


def test_a_bad_line_has_its_place(tmp_path):
    trace = small_trace(tmp_path)
    trace.write_text(trace.read_text().replace("2,0,2,10,a", "2,0,two,10,a"))
    result = orrery("jobs", trace, "--nodes", 1, "--gpus-per-node", 2, "--policy", "fifo")
    assert result.returncode == 3
    assert f"{trace}:3:5: error: " in result.stderr


def test_a_trace_needs_a_cluster(tmp_path):
    result = orrery("jobs", small_trace(tmp_path), "--policy", "fifo")
    assert result.returncode == 2
    assert "--nodes" in result.stderr


def test_an_unknown_policy_names_the_known_ones(tmp_path):
    trace = tmp_path / "one.csv"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\na,0,1,5\n")
    result = orrery("jobs", trace, "--nodes", 1, "--gpus-per-node", 1, "--policy", "srtf")
    assert result.returncode == 2
    assert "did you mean 'sjf'? Known: collective-table, fifo, " in result.stderr


def test_jobs_that_never_ran_are_a_missed_goal(tmp_path):
    trace = tmp_path / "one.csv"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\na,0,1,5\n")
    where = ("jobs", trace, "--nodes", 1, "--gpus-per-node", 1, "--policy", "static")
    result = orrery(*where)
    assert result.returncode == 1
    assert "1 of 1 jobs never ran under static" in result.stderr
    assert "not known" in result.stdout
    report = json.loads(orrery(*where, "--json").stdout)
    assert (report["jobs_in"], report["jobs_out"], report["jct_mean_s"]) == (1, 0, None)


def test_a_job_larger_than_the_cluster_has_its_line(tmp_path):
    trace = tmp_path / "two.csv"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\na,0,1,5\nb,0,9,5\n")
    result = orrery("jobs", trace, "--nodes", 1, "--gpus-per-node", 8, "--policy", "fifo")
    assert result.returncode == 3
    assert result.stderr == f"{trace}:3:1: error: job b needs 9 GPUs, there are 8\n"


@pytest.mark.parametrize(
    "text, said",
    [
        ('[{"jobid": 1}]', "expected a job trace as CSV"),
        ("JobID|User|Elapsed\n1|a|2\n", "it seems to be '|'"),
        ("job_id,submit_s\na,0\n", "got none named num_gpus, duration_s; other columns may"),
    ],
)
def test_other_tools_files_are_told_what_is_expected(tmp_path, text, said):
    trace = tmp_path / "trace.txt"
    trace.write_text(text)
    result = orrery("jobs", trace, "--nodes", 1, "--gpus-per-node", 1, "--policy", "fifo")
    assert result.returncode == 3
    assert result.stderr.startswith(f"{trace}:1:1: error: expected ")
    assert said in result.stderr


def test_a_scenario_is_no_job_trace():
    result = orrery("jobs", STRAGGLER)
    assert result.returncode == 3
    assert "got a scenario: those run under orrery simulate" in result.stderr
