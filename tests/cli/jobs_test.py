"""Job-level replay from the command line."""

import json
import pathlib
import re

import pandas as pd
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
    result = orrery("jobs", trace, "--nodes", 1, "--gpus-per-node", 1, "--policy", "srtq")
    assert result.returncode == 2
    assert "did you mean 'srtf'? Known of job queues: conservative, " in result.stderr
    known = result.stderr.partition("job queues: ")[2].partition(";")[0]
    said = " ".join(orrery("jobs", "--help").stdout.split())
    named = said.partition("order of the queue: ")[2].partition(", FILE.py")[0]
    assert sorted(named.split(", ")) == known.split(", ")


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


def test_a_job_larger_than_the_cluster_is_a_rejected_row_with_its_line(tmp_path):
    trace = tmp_path / "two.csv"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\na,0,1,5\nb,0,9,5\n")
    where = ("jobs", trace, "--nodes", 1, "--gpus-per-node", 8, "--policy", "fifo")
    result = orrery(*where)
    assert result.returncode == 0, result.stderr
    assert "2 in, 2 out (1 of them rejected)" in result.stdout
    assert "line 3, job b: needs 9 GPUs, there are 8" in result.stdout
    report = json.loads(orrery(*where, "--json").stdout)
    assert report["jobs_in"] == report["jobs_out"] == 2
    assert (report["jobs_completed"], report["jobs_rejected"]) == (1, 1)
    assert report["rejected"] == [
        {"line": 3, "job_id": "b", "reason": "needs 9 GPUs, there are 8"}
    ]


@pytest.mark.parametrize(
    "text, said",
    [
        ('{"jobid": 1}', "expected a Philly job log"),
        ("JobID|User|Elapsed\n1|a|2\n", "found no 'Submit'; write the log with: sacct -aPX"),
        ("job_id,submit_s\na,0\n", "got none named num_gpus, duration_s; additional columns"),
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


def test_policies_side_by_side(tmp_path):
    where = ("jobs", SAMPLE, "--nodes", 3, "--gpus-per-node", 8, "--placement", "consolidated")
    result = orrery(*where, "--policy", "fifo,sjf,easy,srtf")
    assert result.returncode == 0, result.stderr
    rows = {key: row.split() for key, row in rows_of(result).items()}
    assert rows["fifo"][1] == "8200.3"
    assert rows["sjf"][1] == "3607.4"
    reports = json.loads(orrery(*where, "--policy", "fifo,sjf", "--json").stdout)
    assert [report["policy"] for report in reports] == ["fifo", "sjf"]


def log_with_starts(folder, *rows):
    trace = folder / "starts.csv"
    head = "job_id,submit_s,num_gpus,duration_s,recorded_start_s,vc,user\n"
    trace.write_text(head + "".join(row + "\n" for row in rows))
    return trace


def test_the_logs_own_outcome_stands_below_those_of_the_policies(tmp_path):
    trace = log_with_starts(tmp_path, "a,0,2,100,50,,", "b,0,2,100,500,,", "c,10,1,100,,,")
    where = ("jobs", trace, "--nodes", 1, "--gpus-per-node", 2, "--policy", "fifo,sjf")
    result = orrery(*where)
    found = rows_of(result)["as recorded"].split()[2:]
    assert found == ["375.0", "600.0", "600.0", "275.0", "600", "33.33", "-"]
    assert "different jobs: fifo 3, sjf 3, as recorded 2. Savings are those of the jobs that" \
        " both rows have: fifo 2, sjf 2." in result.stdout  # fmt: skip
    without = orrery("jobs", SAMPLE, *where[2:4], "--gpus-per-node", 32, "--policy", "fifo,sjf")
    assert "as recorded     not known: the log has no starts of jobs" in without.stdout


def test_the_logs_own_outcome_stands_in_every_table_of_one_policy(tmp_path):
    trace = log_with_starts(
        tmp_path, "a,0,2,100,50,x,ann", "b,0,2,100,500,y,bob", "c,10,1,100,,y,bob"
    )
    where = ("jobs", trace, "--nodes", 1, "--gpus-per-node", 2, "--policy", "fifo")
    lines = orrery(*where, "--out", tmp_path / "out").stdout.splitlines()
    rows = [line.split()[2:] for line in lines if line.startswith("as recorded")]
    assert rows[0][:4] == ["375.0", "600.0", "600.0", "275.0"]
    assert rows[1] == ["0.2", "0.3"]  # hours and GPU-hours in the queue
    # By size: two jobs of 2 GPUs; by virtual cluster: one of y, which has more work, and one of x.
    assert [row[0] for row in rows[2:]] == ["2", "1", "1"]
    assert [row[5] for row in rows[2:]] == ["275.0", "500.0", "50.0"]
    groups = pd.read_csv(tmp_path / "out" / "groups.csv").set_index(["by", "key"])
    assert groups.recorded_queue_mean_s["vc", "y"] == 500
    assert groups.recorded_jobs["vc", "y"] == 1 and groups.jobs["vc", "y"] == 2
    report = json.loads(orrery(*where, "--json").stdout)
    assert report["recorded"]["queue_mean_s"] == 275
    assert [group["jobs"] for group in report["recorded"]["by_vc"]] == [1, 1]
    assert report["savings"]["jobs"] == 2
    without = orrery("jobs", SAMPLE, "--nodes", 3, "--gpus-per-node", 8, "--policy", "fifo")
    assert without.stdout.count("as recorded") == 1
    assert "not known: the log has no starts" in without.stdout
    assert json.loads(orrery(*where[:1], SAMPLE, *where[2:], "--json").stdout)["recorded"] is None


def test_equal_numbers_of_different_jobs_are_different_jobs(tmp_path):
    # `big` is rejected on 8 GPUs and has a start; `late` runs and has none; only `c` has both.
    trace = log_with_starts(
        tmp_path, "big,0,16,36000,0,,", "late,0,8,3600,,,", "c,0,8,3600,36000,,"
    )
    where = ("jobs", trace, "--nodes", 1, "--gpus-per-node", 8, "--policy", "fifo,sjf")
    result = orrery(*where, "--usd-per-gpu-hour", 2)
    assert "different jobs: fifo 2, sjf 2, as recorded 2. Savings" in result.stdout
    fifo, _ = json.loads(orrery(*where, "--json", "--usd-per-gpu-hour", 2).stdout)
    assert fifo["jobs_completed"] == fifo["recorded"]["jobs_completed"] == 2
    assert fifo["completed_digest"] != fifo["recorded"]["completed_digest"]
    saved = fifo["savings"]
    # c waits 1 h instead of 10 h and ends 9 h earlier, on a cluster of 8 GPUs.
    assert (saved["jobs"], saved["queue_hours"], saved["queue_gpu_hours"]) == (1, 9, 72)
    assert (saved["cluster_gpu_hours"], saved["usd"], saved["queue_usd"]) == (72, 144, 144)


def test_savings_are_told_in_hours_and_money(tmp_path):
    trace = log_with_starts(tmp_path, "a,0,2,36000,0,vision,ann", "b,0,2,3600,36000,speech,bob")
    where = ("jobs", trace, "--nodes", 1, "--gpus-per-node", 2, "--policy", "fifo,sjf")
    result = orrery(*where, "--usd-per-gpu-hour", 3, "--out", tmp_path / "out")
    lines = result.stdout.splitlines()
    table = lines[next(i for i, line in enumerate(lines) if "waited GPU-h" in line) :]
    assert table[0].endswith("saved USD   waiting USD   (saved: against as recorded)")
    assert table[1].split() == ["fifo", "10.0", "20.0", "0.0", "0.0", "0.0", "0.00", "0.00"]
    assert table[2].split() == ["sjf", "1.0", "2.0", "9.0", "18.0", "0.0", "0.00", "54.00"]
    assert table[3].split() == ["as", "recorded", "10.0", "20.0"]
    assert table[4].split(maxsplit=1)[0] == "fifo"
    assert "virtual clusters: none waits less or longer" in table[4]
    assert "users: none waits less or longer" in table[5]
    assert "virtual clusters: 1 of 2 wait less, most speech (10.00 h a job)" in table[6]
    assert "1 of 2 wait longer, most vision (1.00 h a job)" in table[6]
    assert "users: 1 of 2 wait less, most bob (10.00 h a job)" in table[7]
    report = json.loads(orrery(*where, "--json").stdout)[1]
    assert report["savings"]["queue_hours"] == pytest.approx(9)
    assert report["savings"]["against"] == "as recorded"
    assert report["savings"].get("usd") is None
    waits = pd.read_csv(tmp_path / "out" / "sjf" / "waits.csv").set_index(["by", "key"])
    assert waits.saved_queue_hours["user", "bob"] == waits.saved_queue_hours["vc", "speech"] == 10
    assert waits.saved_queue_hours["size", "2"] == 9
    assert waits.before_queue_mean_s["user", "ann"] == 0


def test_a_long_label_has_a_blank_behind_it(tmp_path):
    trace = log_with_starts(tmp_path, "a,0,2,36000,0,vision,ann", "b,0,2,3600,36000,speech,bob")
    where = ("jobs", trace, "--nodes", 1, "--gpus-per-node", 2, "--policy", "fifo")
    label = "fifo, conditions.failures=8"
    result = orrery(*where, "--what-if", "conditions.failures=8")
    assert f"\n{label} virtual clusters: " in result.stdout


def test_savings_are_against_the_first_policy_of_a_log_without_starts():
    where = ("jobs", SAMPLE, "--nodes", 3, "--gpus-per-node", 8, "--policy", "fifo,sjf")
    first, second = json.loads(orrery(*where, "--json").stdout)
    assert first.get("savings") is None and second["savings"]["against"] == "fifo"
    saved = (first["queue_mean_s"] - second["queue_mean_s"]) * first["jobs_completed"] / 3600
    assert second["savings"]["queue_hours"] == pytest.approx(saved)


def test_requested_times_must_be_in_the_log(tmp_path):
    where = ("jobs", SAMPLE, "--nodes", 3, "--gpus-per-node", 8, "--policy", "easy")
    result = orrery(*where, "--estimates", "requested")
    assert result.returncode == 3
    assert "expected a log with requested times, found none" in result.stderr
    changed = orrery(*where, "--what-if", "estimates=requested")
    assert changed.returncode == 3 and "choose --estimates learned" in changed.stderr


def test_ids_that_stand_for_several_jobs_are_counted(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\n7,0,1,9\n8,0,1,9\n7,1,1,9\n")
    result = orrery("jobs", trace, "--nodes", 1, "--gpus-per-node", 2, "--policy", "fifo")
    assert "1 jobs have the id of an earlier job, first '7'" in result.stdout


def test_a_log_of_nodes_without_gpus(tmp_path):
    log = tmp_path / "sacct.txt"
    log.write_text(
        "JobID|Submit|Start|End|AllocTRES|NNodes\n"
        "1|2024-03-01T08:00:00|2024-03-01T08:05:00|2024-03-01T10:05:00|cpu=64,node=2|2\n"
    )
    where = ("--nodes", 4, "--gpus-per-node", 8, "--policy", "fifo", "--json")
    report = json.loads(orrery("jobs", log, *where).stdout)
    assert [group["key"] for group in report["by_size"]] == ["9-16"]
    unknown = orrery("import", "jobs", log, "--output", tmp_path / "out.csv")
    assert unknown.returncode == 3 and "give --gpus-per-node" in unknown.stderr
    table = tmp_path / "jobs.csv"
    known = orrery("import", "jobs", log, "--gpus-per-node", 8, "--output", table)
    assert known.returncode == 0, known.stderr
    assert "a job has all 8 GPUs of its nodes" in known.stdout + known.stderr
    header, row = table.read_text().splitlines()
    assert dict(zip(header.split(","), row.split(",")))["num_gpus"] == "16"


def test_tables(tmp_path):
    out = tmp_path / "tables"
    where = ("jobs", SAMPLE, "--nodes", 2, "--gpus-per-node", 8, "--policy", "srtf", "--json")
    report = json.loads(orrery(*where, "--out", out).stdout)
    jobs = pd.read_csv(out / "jobs.csv")
    assert len(jobs) == report["jobs_in"] == 40
    done = jobs[jobs.state == "completed"]
    assert len(done) == report["jobs_completed"]
    assert done.jct_s.mean() == pytest.approx(report["jct_mean_s"])
    assert done.queue_s.mean() == pytest.approx(report["queue_mean_s"])
    assert done.preemptions.sum() == report["preemptions"]
    assert (done.end_s - done.submit_s == done.jct_s).all()
    assert (done.queue_s + done.duration_s == done.jct_s).all()
    series = pd.read_csv(out / "series.csv")
    width = series.end_s - series.begin_s
    busy = (series.busy_gpus * width).sum()
    assert busy == pytest.approx((done.num_gpus * done.duration_s).sum(), rel=1e-4)
    assert (series.waiting_jobs * width).sum() == pytest.approx(done.queue_s.sum(), rel=1e-4)
    groups = pd.read_csv(out / "groups.csv")
    assert groups[groups.by == "size"].jobs.sum() == groups[groups.by == "vc"].jobs.sum()
    assert groups[groups.by == "size"].jobs.sum() == report["jobs_completed"]


def test_estimates_are_not_the_truth_and_the_report_says_which(tmp_path):
    where = ("jobs", SAMPLE, "--nodes", 3, "--gpus-per-node", 8, "--policy", "sjf", "--json")
    truth = json.loads(orrery(*where).stdout)
    assert (truth["estimates"], truth["estimate_factor_p50"]) == ("recorded", 1)
    noisy = ("--estimates", "disturbed", "--estimate-error", 1, "--seed", 3)
    told = json.loads(orrery(*where, *noisy).stdout)
    assert told["estimates"] == "disturbed"
    assert told["estimate_factor_p50"] > 1.2
    assert told["jct_mean_s"] > truth["jct_mean_s"]
    learned = json.loads(orrery(*where, "--estimates", "learned").stdout)
    assert learned["estimates"] == "learned"
    assert learned["jct_mean_s"] != truth["jct_mean_s"]


LOGS = pathlib.Path(__file__).parents[1] / "traces" / "samples"


def test_other_tools_logs_are_replayed_as_they_are(tmp_path):
    where = ("--nodes", 4, "--gpus-per-node", 8, "--policy", "easy")
    result = orrery("jobs", LOGS / "sacct.txt", *where, "--estimates", "requested")
    assert result.returncode == 0, result.stderr
    assert "slurm-sacct, 9 rows: 3 jobs, 5 passed over, 1 rejected" in result.stdout
    refused = orrery("jobs", LOGS / "sacct.txt", *where, "--strict")
    assert refused.returncode == 3
    assert f"{LOGS / 'sacct.txt'}:9:" in refused.stderr
    assert "error: End is before its start" in refused.stderr


def test_importing_a_log(tmp_path):
    out = tmp_path / "jobs.csv"
    result = orrery("import", "jobs", LOGS / "sacct.txt", "-o", out, "--anonymize")
    assert result.returncode == 0, result.stderr
    assert "slurm-sacct: 9 rows = 3 jobs + 5 passed over + 1 rejected" in result.stderr
    assert "rejected: line 9, 1006: End is before its start" in result.stderr
    jobs = pd.read_csv(out)
    assert list(jobs.user) == ["user-1", "user-1", "user-2"]
    assert "ann" not in out.read_text()
    assert orrery("import", "jobs", LOGS / "sacct.txt", "-o", out, "--strict").returncode == 3
    quality = json.loads(
        orrery("import", "jobs", LOGS / "log.swf", "-o", out, "--json").stdout)  # fmt: skip
    assert (quality["format"], quality["rows"], quality["jobs"]) == ("swf", 3, 2)


def test_why_a_job_waited(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\na,0,2,100\nb,10,2,5\nc,20,9,5\n")
    where = (trace, "--nodes", 1, "--gpus-per-node", 2, "--policy", "fifo")
    result = orrery("explain", *where, "--job", "b")
    assert result.returncode == 0, result.stderr
    assert "it waited 90 s:" in result.stdout
    assert "100.0%  fewer GPUs were free than the job needs" in result.stdout
    assert "rejected: line 4, needs 9" in orrery("explain", *where, "--job", "c").stdout
    assert orrery("explain", *where, "--job", "d").returncode == 2


def test_a_synthetic_log(tmp_path):
    out = tmp_path / "jobs.csv"
    draw = ("--jobs", 300, "--gpus", 32, "--load", 0.7)
    result = orrery("new", "jobs", "--like", "philly", *draw, "-o", out)
    assert result.returncode == 0, result.stderr
    first = out.read_text()
    assert orrery("new", "jobs", "--like", "philly", *draw, "-o", out).returncode == 0
    assert out.read_text() == first
    where = ("--nodes", 4, "--gpus-per-node", 8, "--policy", "easy", "--estimates", "requested")
    report = json.loads(orrery("jobs", out, *where, "--json").stdout)
    assert report["jobs_completed"] == 300


def test_waits_beside_those_of_the_log(tmp_path):
    trace = tmp_path / "trace.csv"
    rows = "a,0,2,100,0\nb,0,2,100,500\nc,10,1,100,\n"
    trace.write_text("job_id,submit_s,num_gpus,duration_s,recorded_start_s\n" + rows)
    where = ("jobs", trace, "--nodes", 1, "--gpus-per-node", 2, "--policy", "fifo,sjf")
    result = orrery(*where, "--backtest", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert re.search(r"all +2 +250.0 +50.0 +200.0 +50.0% +50.0%", result.stdout)
    table = pd.read_csv(tmp_path / "out" / "fifo" / "backtest.csv")
    assert list(table.by) == ["all", "hour", "size"]
    assert table.difference_s[0] == 200
    refused = orrery("jobs", SAMPLE, *where[2:], "--backtest")
    assert refused.returncode == 3 and not refused.stdout
    assert "expected a log with starts of jobs (recorded_start_s)" in refused.stderr


def test_the_cluster_as_its_operator_has_it(tmp_path):
    conf = tmp_path / "slurm.conf"
    conf.write_text("NodeName=gpu[1-3] Gres=gpu:h100:8\nNodeName=login CPUs=8\n")
    given = ["--cluster", conf, "--policy", "fifo", "--placement", "consolidated"]
    result = orrery("jobs", SAMPLE, *given, "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["nodes"], report["gpus_per_node"]) == (3, 8)
    assert round(report["jct_mean_s"], 1) == 8200.3
    conf.write_text("NodeName=gpu[1-3] Gres=gpu:8\nNodeName=old[1-2] Gres=gpu:4\n")
    result = orrery("jobs", SAMPLE, *given)
    assert result.returncode == 3
    assert "2 nodes of 4 GPUs, 3 nodes of 8 GPUs" in result.stderr
    conf.write_text("NodeName=gpu[1- Gres=gpu:8\n")
    result = orrery("jobs", SAMPLE, *given)
    assert result.returncode == 3 and "slurm.conf:1:1" in result.stderr


def test_one_kind_of_gpu_on_its_own_nodes(tmp_path):
    conf = tmp_path / "slurm.conf"
    conf.write_text("NodeName=a[1-3] Gres=gpu:a100:8\nNodeName=h[1-2] Gres=gpu:h100:4\n")
    log = tmp_path / "sacct.txt"
    times = "2024-03-01T08:00:00|2024-03-01T08:05:00|2024-03-01T10:05:00"
    log.write_text("JobID|Submit|Start|End|AllocTRES\n"
                   f"1|{times}|gres/gpu:a100=8\n2|{times}|gres/gpu:h100=8\n")  # fmt: skip
    asked = ["jobs", log, "--cluster", conf, "--policy", "fifo", "--json", "--gpu-kind"]
    for kind, nodes, gpus in (("a100", 3, 8), ("h100", 2, 4)):
        report = json.loads(orrery(*asked, kind).stdout)
        assert (report["jobs_in"], report["nodes"], report["gpus_per_node"]) == (1, nodes, gpus)
    result = orrery(*asked, "v100")
    assert result.returncode == 3
    assert "expected nodes with this kind of GPU, found (a100, h100)" in result.stderr
    written = tmp_path / "jobs.csv"
    result = orrery("import", "jobs", log, "--gpu-kind", "h100", "-o", written)
    assert "2 rows = 1 jobs + 1 passed over" in result.stdout + result.stderr
    example = EXAMPLES / "replay-one-spine.yaml"
    result = orrery("jobs", example, "--gpu-kind", "a100")
    assert result.returncode == 2 and "orrery import jobs LOG --gpu-kind" in result.stderr


def test_a_job_waits_for_those_that_it_names(tmp_path):
    log = tmp_path / "jobs.csv"
    head = "job_id,submit_s,num_gpus,duration_s,after\n"
    log.write_text(head + "a,0,8,100,\nb,10,1,5,a\nc,20,1,5,\n")
    result = orrery("jobs", log, "--nodes", 2, "--gpus-per-node", 8, "--policy", "fifo",
                    "--json", "--out", tmp_path / "out")  # fmt: skip
    report = json.loads(result.stdout)
    assert report["jobs_completed"] == 3 and report["queue_mean_s"] == 0
    assert report["jct_mean_s"] == pytest.approx((100 + 5 + 5) / 3)
    rows = pd.read_csv(tmp_path / "out" / "jobs.csv").set_index("job_id")
    assert rows.start_s["b"] == 100 and rows.start_s["c"] == 20
    log.write_text(head + "a,0,8,100,b\nb,10,1,5,a\n")
    result = orrery("jobs", log, "--nodes", 2, "--gpus-per-node", 8, "--policy", "fifo")
    assert result.returncode == 3 and "jobs.csv:2:1: error: after: expected" in result.stderr


def rows_of(result):
    """Lines of a comparison by their label; of the first table with it."""
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stdout.splitlines() if "  " in line]
    return {line[: line.index("  ")]: line for line in reversed(lines)}


def test_what_if_there_were_more_gpus_or_other_quotas(tmp_path):
    trace = tmp_path / "trace.csv"
    rows = "1,0,2,100,a\n2,0,2,10,b\n3,0,2,50,a\n"
    trace.write_text("job_id,submit_s,num_gpus,duration_s,vc\n" + rows)
    where = ("jobs", trace, "--nodes", 1, "--gpus-per-node", 2, "--policy", "max-min")
    quotas = "max-min.quotas=[{vc: b, gpus: 2}]"
    rows = rows_of(orrery(*where, "--what-if", "nodes=2", "--what-if", quotas))
    # Equal quotas are too small for all of them: the job that is earlier in the file borrows first.
    assert rows["max-min"].split()[1] == f"{(100 + 110 + 160) / 3:.1f}"
    assert rows["max-min, nodes=2"].split()[2] == f"{(100 + 10 + 60) / 3:.1f}"
    # b has all quotas: it goes first, and makes whoever borrows wait.
    assert rows[f"max-min, {quotas}"].split()[5] == f"{(10 + 110 + 160) / 3:.1f}"
    given = json.loads(orrery(*where, "--set", quotas, "--json").stdout)
    assert given["jct_mean_s"] == pytest.approx((10 + 110 + 160) / 3)
    both = json.loads(orrery(*where, "--what-if", "nodes=2", "--json").stdout)
    assert [each["what_if"] for each in both] == [None, "nodes=2"]


@pytest.mark.parametrize(
    "change, said",
    [
        ("nods=2", "did you mean 'nodes'"),
        ("fifo.placement=count", "expected a parameter of a replayed policy"),
        ("max-min.quota=[]", "did you mean 'quotas'"),
        ("nodes", "is not KEY=VALUE"),
        ("policy=fifo", "give --policy max-min,fifo"),
        ("policy=nonsense", "--policy names the policies"),
        ("cluster.storage.bandwidth=1 GB/s", "no bytes of a file system"),
        ("cluster.nodes=5", "expected the key nodes"),
    ],
)
def test_a_change_that_cannot_be_is_refused(change, said):
    where = ("jobs", SAMPLE, "--nodes", 3, "--gpus-per-node", 8, "--policy", "max-min")
    result = orrery(*where, "--what-if", change)
    assert result.returncode in (2, 3)
    assert said in result.stderr


WITHOUT_EFFECT = {
    "seed=4": "nothing is drawn",
    "trace=other.csv": "the log is read once",
    "strict=true": "the log is read once",
    "nodes=3": "the replay has this value",
    "placement=count": "the replay has this value",
    "set=[fifo.placement=count]": "fifo has the same parameters",
    "estimates=learned": "fifo reads no estimates",
    "estimate_error=1": "fifo reads no estimates",
    "node_kinds=[{kind: A100, nodes: 3}]": "no job of the log names a kind",
    "conditions.repair=2h": "no node fails",
    "conditions.checkpoint_every=1h": "no node fails",
    "conditions.restart_cost=60s": "fifo preempts no job",
    "conditions.enforce_limits=true": "no job of the log has a requested time",
    "conditions.speed=recorded": "the replay has this value",
    "conditions.kinds=[]": "the replay has this value",
}


@pytest.mark.parametrize("change", WITHOUT_EFFECT)
def test_a_change_without_effect_is_refused(change):
    where = ("jobs", SAMPLE, "--nodes", 3, "--gpus-per-node", 8, "--policy", "fifo")
    result = orrery(*where, "--what-if", change)
    assert result.returncode == 2 and not result.stdout
    assert f"--what-if '{change}': expected a key that changes the replay" in result.stderr
    assert WITHOUT_EFFECT[change] in result.stderr


def test_a_seed_beside_conditions_draws_nothing_by_itself():
    where = ("jobs", SAMPLE, "--nodes", 3, "--gpus-per-node", 8, "--policy", "srtf", "--what-if",
             "seed=4")  # fmt: skip
    refused = orrery(*where, "--set", "conditions.restart_cost=60s")
    assert refused.returncode == 2 and "nothing is drawn" in refused.stderr
    drawn = orrery(*where, "--set", "conditions.failures=500")
    assert drawn.returncode == 0 and "srtf, seed=4" in drawn.stdout


@pytest.mark.parametrize(
    "key", ["price.gpu_hour=9 USD/h", "fabric.spines=4", "fabric.nvlink_latency=3 us"]
)
def test_a_replay_at_recorded_speed_reads_little_of_a_cluster(tmp_path, key):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("preset: dgx-h100\nnodes: 3\n")
    where = ("jobs", SAMPLE, "--cluster", cluster, "--policy", "fifo", "--what-if")
    result = orrery(*where, f"cluster.{key}")
    assert result.returncode == 2, result.stdout + result.stderr
    assert "reads the scalable units of the cluster" in result.stderr


def test_a_parameter_counts_for_its_policy_only():
    where = ("jobs", SAMPLE, "--nodes", 3, "--gpus-per-node", 8, "--policy", "fifo,las")
    result = orrery(*where, "--what-if", "las.threshold_gpu_s=10")
    assert result.returncode == 0, result.stderr
    assert "las, las.threshold_gpu_s=10" in result.stdout and "fifo, las" not in result.stdout
    result = orrery(*where[:-1], "fifo,sjf", "--what-if", "estimates=learned")
    assert "\nsjf, estimates=learned " in result.stdout
    assert "no row fifo, estimates=learned: fifo reads no estimates" in result.stdout


def test_a_change_that_moves_no_job_says_so(tmp_path):
    trace = small_trace(tmp_path)
    where = ("jobs", trace, "--nodes", 1, "--gpus-per-node", 2, "--policy", "sjf")
    result = orrery(*where, "--what-if", "placement=consolidated", "--what-if", "nodes=2")
    assert "sjf, placement=consolidated: no job starts or ends otherwise" in result.stdout
    assert "nodes=2: no job" not in result.stdout
    _, same, other = json.loads(
        orrery(*where, "--what-if", "placement=consolidated", "--what-if", "nodes=2",
               "--json").stdout)  # fmt: skip
    assert (same["same_schedule"], other["same_schedule"]) == (True, False)


def test_a_file_system_of_a_replay_is_refused(tmp_path):
    text = (EXAMPLES / "replay-one-spine.yaml").read_text()
    (tmp_path / "one-spine-jobs.csv").write_bytes((EXAMPLES / "one-spine-jobs.csv").read_bytes())
    file = tmp_path / "replay.yaml"
    file.write_text(text.replace("cluster:\n", "cluster:\n  storage: {bandwidth: 10 GB/s}\n", 1))
    result = orrery("jobs", file)
    assert result.returncode == 3
    assert "expected a cluster without a file system" in result.stderr
    line = next(at for at, each in enumerate(file.read_text().splitlines(), 1) if "storage" in each)
    assert f"replay.yaml:{line}:" in result.stderr
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("preset: dgx-h100\nnodes: 3\nstorage: {bandwidth: 10 GB/s}\n")
    result = orrery("jobs", SAMPLE, "--cluster", cluster, "--policy", "fifo")
    assert result.returncode == 3
    assert "cluster.yaml:3:" in result.stderr and "without a file system" in result.stderr


def test_restarts_and_nodes_that_fail(tmp_path):
    trace = tmp_path / "trace.csv"
    rows = "a,0,2,100,0\nb,40,2,10,1\n"
    trace.write_text("job_id,submit_s,num_gpus,duration_s,priority\n" + rows)
    conditions = tmp_path / "conditions.yaml"
    conditions.write_text("restart_cost: 7 s\noutages: down.csv\ncheckpoint_every: 15 s\n")
    (tmp_path / "down.csv").write_text("node,begin_s,end_s,cause\n0,60,70,disk\n")
    where = ("jobs", trace, "--nodes", 1, "--gpus-per-node", 2, "--policy", "priority")
    result = orrery(*where, "--conditions", conditions, "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert "outages 1, losses of GPUs by jobs 1" in result.stdout
    # a runs 40 s, makes room for b, goes on at 50 after 7 s, has done 43 s when its node fails, and
    # has 30 s of them; it goes on at 70, again after 7 s.
    jobs = pd.read_csv(tmp_path / "out" / "jobs.csv")
    assert list(jobs.end_s) == [70 + 7 + 70, 50]
    assert list(jobs.lost_s) == [7 + 13 + 7, 0]
    assert jobs.ran_s[0] == 40 + 10 + 77
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("restart_cost: 7\n")
    refused = orrery(*where, "--conditions", wrong)
    assert refused.returncode == 3 and "wrong.yaml:1:15" in refused.stderr


EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def test_jobs_that_share_a_spine(tmp_path):
    example = EXAMPLES / "replay-one-spine.yaml"
    out = ("--out", tmp_path / "out")
    count = json.loads(orrery("jobs", example, "--json", *out).stdout)
    assert count["speed"] == "simulated"
    assert 1.3 < count["slowdown_mean"] < 1.4
    jobs = pd.read_csv(tmp_path / "out" / "jobs.csv")
    assert jobs.ran_s.mean() == pytest.approx(36000 * count["slowdown_mean"])
    log = tmp_path / "jobs.log"
    topology = orrery("jobs", example, "--placement", "topology", "--record", log, "--json")
    assert json.loads(topology.stdout)["jct_mean_s"] == 36000
    assert orrery("replay", log).returncode == 0
    recorded = json.loads(orrery("jobs", example, "--speed", "recorded", "--json").stdout)
    assert recorded["jct_mean_s"] == 36000
    refused = orrery("jobs", SAMPLE, "--nodes", 3, "--gpus-per-node", 8, "--policy", "fifo",
                     "--speed", "simulated")  # fmt: skip
    assert refused.returncode == 3 and "'kinds'" in refused.stderr
    assert orrery("jobs", example, "--backtest").returncode == 2


def test_how_often_nodes_failed_in_the_log(tmp_path):
    log = tmp_path / "sacct.txt"
    header = "JobID|State|Submit|Start|End|AllocTRES|NodeList|NNodes|Priority\n"
    rows = [f"{i}|{'NODE_FAIL' if i in (3, 9) else 'COMPLETED'}|{i * 86400}|{i * 86400}|"
            f"{i * 86400 + 86400}|gres/gpu=16|gpu[1-2]|2|{i}\n" for i in range(10)]  # fmt: skip
    log.write_text(header + "".join(rows))
    where = ("--nodes", 2, "--gpus-per-node", 8, "--policy", "priority")
    result = orrery("jobs", log, *where, "--backtest")
    assert result.returncode == 0, result.stderr
    # Two failures in twenty days of nodes.
    assert "2 in 20 node-days with jobs: conditions.failures=100.00" in result.stdout
    assert "one node of 2 every 120.0 h" in result.stdout
    out = tmp_path / "jobs.csv"
    assert orrery("import", "jobs", log, "-o", out).returncode == 0
    assert list(pd.read_csv(out).priority.fillna(0)) == list(range(10))
