"""Elastic jobs of a log: their columns, the policy elastic, random logs beside an independent
program."""

import collections
import random

import pytest
from conftest import column, orrery, rows
from elastic_oracle import SECOND, Queue

HEAD = "job_id,submit_s,num_gpus,duration_s,min_gpus,max_gpus,scaling\n"
LOG = HEAD + "a,0,8,1000,2,,0.9\nb,100,4,300,,,\nc,3000,2,700,1,8,1:1 2:2 8:7\n"
SIZE = ("--nodes", 1, "--gpus-per-node", 8)


def test_jobs_shrink_and_grow(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text(LOG)
    fifo = rows(tmp_path, log, *SIZE, "--policy", "fifo")
    assert column(fifo, "start_s") == [0, 1000, 3000]
    assert column(fifo, "end_s") == [1000, 1300, 3700]
    assert column(fifo, "used_gpu_s") == [8000, 1200, 1400]
    changes = ("--set", "elastic.settle=60s", "--set", "conditions.restart_cost=30s")
    table = rows(tmp_path, log, *SIZE, "--policy", "elastic", *changes)
    assert column(table, "start_s") == [0, 100, 3000]
    # Job a: 100 s on 8 GPUs; then 4 GPUs, of which 30 s are a restart and 270 s give 150 s of work
    # at 1 / 1.8; again 8 GPUs from 400 s on, 30 s for the restart, 750 s for the rest.
    # Job c: 60 s on 2 GPUs, a restart, and the remaining 640 s on 8 GPUs at 7 / 2.
    assert column(table, "end_s") == [1180, 400, round(3090 + 640 / 3.5, 3)]
    assert column(table, "resizes") == [2, 0, 1]
    assert column(table, "lost_s") == [60, 0, 30]
    assert column(table, "preemptions") == [0, 0, 0]


def test_other_policies_leave_the_sizes_alone(tmp_path):
    sized, plain = tmp_path / "sized.csv", tmp_path / "plain.csv"
    sized.write_text(LOG)
    plain.write_text(
        "".join(",".join(line.split(",")[:4]) + "\n" for line in LOG.splitlines())
    )
    for policy in ("easy", "srtf", "las", "multifactor"):
        with_sizes = rows(tmp_path, sized, *SIZE, "--policy", policy)
        assert with_sizes == rows(tmp_path, plain, *SIZE, "--policy", policy)


def test_a_recorded_run_replays_to_the_same_decisions(tmp_path):
    log, record = tmp_path / "log.csv", tmp_path / "queue.log"
    log.write_text(LOG)
    rows(tmp_path, log, *SIZE, "--policy", "elastic", "--record", record)
    again = orrery("replay", record)
    assert again.returncode == 0 and again.stdout.startswith("identical"), again.stderr
    other = orrery("replay", record, "--set", "elastic.settle=1s")
    assert "first difference" in other.stderr
    refused = orrery("replay", record, "--under", "fifo")
    assert refused.returncode == 3
    assert "expected jobs of one size, found job 'a' of 2 to 8 GPUs" in refused.stderr


@pytest.mark.parametrize(
    "row, said",
    [
        ("a,0,8,10,9,,", ":2:10: error: min_gpus is 9, more than the 8 GPUs of the job"),
        ("a,0,8,10,,4,", ":2:11: error: max_gpus is 4, less than the 8 GPUs of the job"),
        ("a,0,8,10,,,0.3", "scaling must be an efficiency from 0.5 to 1"),
        ("a,0,8,10,2,16,4:1 16:2", "speeds on 4 to 16 GPUs, the job may have 2 to 16"),
    ],
)
def test_impossible_sizes_are_refused(tmp_path, row, said):
    log = tmp_path / "log.csv"
    log.write_text(HEAD + row + "\n")
    result = orrery("jobs", log, *SIZE, "--policy", "elastic")
    assert result.returncode == 3 and said in result.stderr


def test_sia_with_durations_and_sizes(tmp_path):
    log, out = tmp_path / "sia.csv", tmp_path / "jobs.csv"
    log.write_text(
        "name,time,application,num_replicas,batch_size,duration,min_gpus,max_gpus,scaling\n"
        "cifar10-0,9.661784,cifar10,4,320,600,1,16,1:100 4:330 16:700\n"
        "bert-1,332.6,bert,10,384,900,,,\n"
        "bert-2,338.6,bert,10,384,900,12,,\n"
    )
    result = orrery("import", "jobs", log, "-o", out)
    assert result.returncode == 0, result.stderr
    assert "sia: 3 rows = 2 jobs + 0 passed over + 1 rejected" in result.stderr
    assert "min_gpus is 12, more than the 10 GPUs of the job" in result.stderr
    lines = out.read_text().splitlines()
    assert lines[0].endswith(",min_gpus,max_gpus,scaling")
    assert lines[1].endswith(",1,16,1:100 4:330 16:700") and lines[2].endswith(",,,")
    strict = orrery("import", "jobs", log, "-o", out, "--strict")
    assert strict.returncode == 3 and "sia.csv:4" in strict.stderr


# ---- random logs ---------------------------------------------------------------------------


def random_scaling(rng, least, most):
    kind = rng.randrange(3)
    if kind == 0:
        return ""
    if kind == 1:
        return str(rng.choice([0.5, 0.7, 0.85, 0.93, 1]))
    sizes = sorted({least, most, *(rng.randrange(least, most + 1) for _ in range(2))})
    rate, entries = rng.uniform(1, 50), []
    for size in sizes:
        entries.append(f"{size}:{rate:.3f}")
        rate *= rng.uniform(0.95, 2)
    return " ".join(entries)


def random_log(rng, gpus):
    jobs, submit = [], 0
    for number in range(rng.randrange(10, 45)):
        submit += rng.choice([0, 0, rng.randrange(1, 80), rng.randrange(1, 400)])
        asked = rng.randrange(1, gpus + 1)
        least = rng.randrange(1, asked + 1) if rng.random() < 0.7 else asked
        most = rng.randrange(asked, gpus + 3) if rng.random() < 0.7 else asked
        jobs.append(
            {
                "number": number,
                "submit": submit if number else 0,
                "gpus": asked,
                "duration": rng.choice([0, 1, 60, 100, rng.randrange(1, 500)]),
                "least": least,
                "most": most,
                "scaling": random_scaling(rng, least, most),
            }
        )
    return jobs


def test_two_hundred_random_logs_beside_an_independent_program(tmp_path):
    seen = collections.Counter()
    for seed in range(200):
        rng = random.Random(seed)
        nodes, size = rng.randrange(1, 5), rng.choice([1, 2, 4, 8])
        gpus = nodes * size
        jobs = random_log(rng, gpus)
        settle, restart = rng.choice([0, 1, 60, 300]), rng.choice([0, 0, 5, 40])
        log = tmp_path / "log.csv"
        names = ("number", "submit", "gpus", "duration", "least", "most", "scaling")
        log.write_text(
            HEAD + "".join(",".join(str(job[name]) for name in names) + "\n" for job in jobs)
        )
        table = rows(
            tmp_path, log, "--nodes", nodes, "--gpus-per-node", size, "--policy", "elastic",
            "--placement", "count", "--set", f"elastic.settle={settle}s",
            "--set", f"conditions.restart_cost={restart}s",
        )  # fmt: skip
        for job in jobs:
            job["most"] = min(job["most"], gpus)
        queue = Queue(gpus, settle * SECOND, restart * SECOND)
        queue.run(jobs)
        for job, row in zip(jobs, table):
            ours = [round(float(row[name]) * SECOND) for name in ("start_s", "end_s")]
            where = f"seed {seed}, job {job['number']}"
            assert ours == [job["start"], job["end"]], where
            assert int(row["resizes"]) == job["resizes"], where
            assert float(row["used_gpu_s"]) == pytest.approx(job["used"], rel=1e-9), where
        for what, count in queue.seen.items():
            seen[what] += count > 0
    # Each rule decides in many of the logs.
    assert min(seen.values()) >= 20 and len(seen) == 6, seen


def test_all_jobs_end_where_nodes_fail(tmp_path):
    rng = random.Random(1)
    jobs = random_log(rng, 16)
    log = tmp_path / "log.csv"
    names = ("number", "submit", "gpus", "duration", "least", "most", "scaling")
    log.write_text(
        HEAD + "".join(",".join(str(job[name]) for name in names) + "\n" for job in jobs)
    )
    for placement in ("count", "consolidated"):
        table = rows(
            tmp_path, log, "--nodes", 4, "--gpus-per-node", 4, "--policy", "elastic",
            "--placement", placement, "--set", "conditions.failures=100000",
            "--set", "conditions.repair=30s", "--set", "conditions.checkpoint_every=20s",
            "--set", "elastic.settle=30s",
        )  # fmt: skip
        assert {row["state"] for row in table} == {"completed"}
        assert sum(int(row["preemptions"]) for row in table) > 0
        assert sum(int(row["resizes"]) for row in table) > 0
