"""Kinds of GPUs in a replay: columns, nodes, policies, random logs beside an independent
program."""

import collections
import random
import re

import pytest
from conftest import column, orrery, rows
from kinds_oracle import SECOND, Queue

HEAD = "job_id,submit_s,num_gpus,duration_s,priority,gpu_kind,speeds\n"
# On an A100, job c takes 450 s; job b may have one kind only, job d any.
LOG = (
    HEAD
    + "a,0,8,1000,,A100,\nb,10,8,300,,A100,\n"
    + "c,20,8,1000,,V100|A100,A100:1 V100:0.45\nd,30,4,60,,,\n"
)
BACKFILL = ("easy", "conservative", "multifactor")
TWO = ("--node-kinds", "A100:1,V100:1", "--gpus-per-node", 8)


def kinds(table):
    return [row["gpu_kind"] for row in table]


def write(folder, text, name="log.csv"):
    (folder / name).write_text(text)
    return folder / name


def test_a_job_runs_on_its_fastest_kind_with_free_gpus(tmp_path):
    log = write(tmp_path, LOG)
    skip = rows(tmp_path, log, *TWO, "--policy", "fifo-skip")
    assert kinds(skip) == ["A100", "A100", "V100", "V100"]
    assert column(skip, "start_s") == [0, 1000, 20, 1020]
    assert column(skip, "end_s") == [1000, 1300, 1020, 1080]
    fifo = rows(tmp_path, log, *TWO, "--policy", "fifo")
    assert kinds(fifo) == ["A100", "A100", "V100", "A100"]
    assert column(fifo, "start_s") == [0, 1000, 1000, 1300]
    fast = rows(tmp_path, write(tmp_path, HEAD + LOG.splitlines()[3]), *TWO, "--policy", "fifo")
    assert kinds(fast) == ["A100"] and column(fast, "ran_s") == [450]
    assert column(fast, "used_gpu_s") == [3600]


def test_scattered_gpus_of_a_faster_kind_are_passed_over(tmp_path):
    log = write(
        tmp_path,
        HEAD + "a,0,5,100,,A100,\nb,0,5,100,,A100,\nc,1,4,100,,,A100:2 V100:1\nd,1,4,100,,A100,\n",
    )
    size = ("--node-kinds", "A100:2,V100:1", "--gpus-per-node", 8, "--policy", "fifo-skip")
    table = rows(tmp_path, log, *size, "--placement", "consolidated")
    # 3 and 3 A100 are free: no node has 4.
    assert kinds(table) == ["A100", "A100", "V100", "A100"]
    assert column(table, "start_s") == [0, 0, 1, 100] and column(table, "ran_s")[2] == 200
    assert kinds(rows(tmp_path, log, *size, "--placement", "count"))[2] == "A100"
    why = orrery("explain", log, "--job", "d", *size, "--placement", "consolidated").stdout
    assert re.search(r" 99 s +100\.0% +enough GPUs were free", why), why
    few = orrery("explain", write(tmp_path, LOG), "--job", "b", *TWO, "--policy", "fifo-skip")
    assert re.search(r" 990 s +100\.0% +fewer GPUs were free", few.stdout), few.stdout


def test_a_reservation_is_on_the_kind_that_is_free_first(tmp_path):
    log = write(
        tmp_path,
        HEAD
        + "a,0,6,1000,,A100,\nb,0,6,300,,V100,\n"
        + "c,10,8,100,,,A100:2 V100:1\n"  # expects the V100 at 300 s
        + "d,20,2,5000,,A100,\n"  # delays no job: the reservation is on the other kind
        + "e,30,2,400,,V100,\n"  # would delay c
        + "f,40,2,200,,V100,\n",  # ends before c begins
    )
    for policy in BACKFILL:
        table = rows(tmp_path, log, *TWO, "--policy", policy)
        assert column(table, "start_s") == [0, 0, 300, 20, 500, 40], policy
        assert kinds(table)[2] == "V100", policy


def test_without_kinds_of_nodes_the_gpus_are_equal(tmp_path):
    log = write(tmp_path, LOG)
    first = [line.rsplit(",", 3)[0] + "\n" for line in LOG.splitlines()]
    plain = write(tmp_path, "".join(first), "plain.csv")
    size = ("--nodes", 2, "--gpus-per-node", 8, "--policy", "easy")
    assert rows(tmp_path, log, *size) == rows(tmp_path, plain, *size)
    # Kinds of nodes without effect on a log that names none.
    named = rows(tmp_path, plain, *TWO, "--policy", "easy")
    assert named == rows(tmp_path, plain, *size)


def test_the_kinds_of_a_list_of_nodes(tmp_path):
    conf = write(
        tmp_path, "NodeName=a1 Gres=gpu:A100:8\nNodeName=v1 Gres=gpu:V100:8\n", "slurm.conf"
    )
    log = write(tmp_path, LOG)
    listed = rows(tmp_path, log, "--cluster", conf, "--policy", "las")
    assert listed == rows(tmp_path, log, *TWO, "--policy", "las")
    # One kind: job c is 1 / 0.45 times as fast as on the kind of its duration, and easy can reckon.
    one = rows(tmp_path, log, "--cluster", conf, "--gpu-kind", "A100", "--policy", "easy")
    assert kinds(one) == ["A100"] * 4 and column(one, "ran_s") == [1000, 300, 450, 60]


def test_nodes_of_several_sizes_are_refused_with_a_remedy_that_works(tmp_path):
    conf = write(
        tmp_path, "NodeName=a[1-2] Gres=gpu:A100:8\nNodeName=v1 Gres=gpu:V100:4\n", "slurm.conf"
    )
    log = write(tmp_path, LOG)
    refused = orrery("jobs", log, "--cluster", conf, "--policy", "easy")
    assert refused.returncode == 3
    assert (
        "expected equal nodes, got 1 nodes of 4 GPUs, 2 nodes of 8 GPUs: replay the nodes of one "
        "size, for example with --nodes 2 --gpus-per-node 8 in place of --cluster, or those of one "
        "kind and their jobs with --gpu-kind A100" in refused.stderr
    )
    rows(tmp_path, log, "--nodes", 2, "--gpus-per-node", 8, "--policy", "easy")
    one = rows(tmp_path, log, "--cluster", conf, "--gpu-kind", "A100", "--policy", "easy")
    assert kinds(one) == ["A100"] * 4


def test_sacct_names_kinds(tmp_path):
    log = write(
        tmp_path,
        "JobID|Submit|Start|End|AllocTRES\n"
        "1|2024-01-01T00:00:00|2024-01-01T00:00:00|2024-01-01T01:00:00|gres/gpu:a100=4\n"
        "2|2024-01-01T00:00:01|2024-01-01T00:00:01|2024-01-01T01:00:00|gres/gpu:h100=8\n"
        "3|2024-01-01T00:00:02|2024-01-01T00:00:02|2024-01-01T01:00:00|gres/gpu:l4=1\n",
    )
    size = ("--node-kinds", "h100:1,a100:1", "--gpus-per-node", 8)
    table = rows(tmp_path, log, *size, "--policy", "fifo")
    assert kinds(table) == ["a100", "h100", ""]
    assert table[2]["state"] == "rejected"
    assert table[2]["reason"] == "may use GPUs of l4 only, the nodes have a100, h100"
    result = orrery("import", "jobs", log, "-o", tmp_path / "jobs.csv")
    assert result.returncode == 0, result.stderr
    assert ",a100,," in (tmp_path / "jobs.csv").read_text().splitlines()[1]


def test_the_canonical_form_keeps_its_kinds(tmp_path):
    out, again = tmp_path / "out.csv", tmp_path / "again.csv"
    assert orrery("import", "jobs", write(tmp_path, LOG), "-o", out).returncode == 0
    assert ",V100|A100,A100:1 V100:0.45," in out.read_text()
    assert orrery("import", "jobs", out, "-o", again).returncode == 0
    assert again.read_text() == out.read_text()
    one = orrery("import", "jobs", out, "-o", again, "--gpu-kind", "V100")
    assert "4 rows = 2 jobs + 2 passed over + 0 rejected" in one.stderr
    none = orrery("import", "jobs", out, "-o", again, "--gpu-kind", "H100")
    assert none.returncode == 3 and "expected a kind of GPU of the log (A100, V100)" in none.stderr


@pytest.mark.parametrize("policy", ["finish-time-fairness", "gittins", "drf", "max-min", "elastic"])
def test_other_policies_are_refused(tmp_path, policy):
    result = orrery("jobs", write(tmp_path, LOG), *TWO, "--policy", policy)
    assert result.returncode == 3
    assert f"policy '{policy}': expected a policy that tells kinds of GPUs apart" in result.stderr
    assert "--gpu-kind" in result.stderr


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("--node-kinds", "A100"), "a kind of GPU and a number of nodes, such as A100:4"),
        (("--node-kinds", "A100:0"), "a kind of GPU and a number of nodes, such as A100:4"),
        (("--node-kinds", "A100:1", "--what-if", "nodes=2"), "kinds of 2 nodes, found those of 1"),
    ],
)
def test_impossible_nodes_are_refused(tmp_path, arguments, said):
    result = orrery(
        "jobs", write(tmp_path, LOG), *arguments, "--gpus-per-node", 8, "--policy", "fifo"
    )
    assert result.returncode != 0 and said in result.stderr


@pytest.mark.parametrize(
    "row, said",
    [
        ("a,0,8,10,,A100|A100,", ":2:11: error: gpu_kind must be different kinds without blanks"),
        ("a,0,8,10,,A100,V100:1", "speeds lacks the kind 'A100' of gpu_kind 'A100'"),
        ("a,0,8,10,,,A100:0", "speeds must be different kinds and speeds above 0"),
    ],
)
def test_impossible_kinds_are_refused(tmp_path, row, said):
    result = orrery("jobs", write(tmp_path, HEAD + row + "\n"), *TWO, "--policy", "fifo")
    assert result.returncode == 3 and said in result.stderr


@pytest.mark.parametrize("policy", ["fifo-skip", "srtf", "easy", "conservative", "multifactor"])
def test_a_recorded_run_replays_to_the_same_decisions(tmp_path, policy):
    record = tmp_path / "queue.log"
    rows(tmp_path, write(tmp_path, LOG), *TWO, "--policy", policy, "--record", record)
    again = orrery("replay", record)
    assert again.returncode == 0 and again.stdout.startswith("identical"), again.stderr


# ---- random logs ---------------------------------------------------------------------------


def random_log(rng, names, gpus):
    jobs, submit = [], 0
    for number in range(rng.randrange(10, 45)):
        may = rng.sample([*names, "T4"], rng.randrange(0, len(names) + 1))
        speeds = {kind: rng.choice([1, 2, 0.45, 0.7, 3.3]) for kind in may}
        jobs.append(
            {
                "number": number,
                "submit": submit,
                "gpus": rng.randrange(1, gpus + 1),
                "duration": rng.choice([1, 60, 100, rng.randrange(1, 500)]),
                "priority": rng.randrange(0, 3),
                "kinds": may,
                "speeds": speeds if rng.random() < 0.7 else {},
            }
        )
        submit += rng.randrange(1, 60)
    return jobs


def line(job):
    speeds = " ".join(f"{kind}:{speed}" for kind, speed in job["speeds"].items())
    fields = [job[name] for name in ("number", "submit", "gpus", "duration", "priority")]
    return ",".join(map(str, [*fields, "|".join(job["kinds"]), speeds])) + "\n"


@pytest.mark.parametrize(
    "policy",
    ["fifo", "fifo-skip", "sjf", "srtf", "priority", "easy", "conservative", "multifactor"],
)
def test_random_logs_beside_an_independent_program(tmp_path, policy):
    seen = collections.Counter()
    for seed in range(40):
        rng = random.Random(seed)
        names = rng.sample(["A100", "V100", "H100"], rng.choice([2, 2, 3]))
        runs = [(name, rng.randrange(1, 4)) for name in names]
        runs.append((names[0], 1))  # a kind may appear twice
        size = rng.choice([1, 2, 4])
        sizes = {name: 0 for name in names}
        for name, nodes in runs:
            sizes[name] += nodes * size
        jobs = random_log(rng, names, max(sizes.values()))
        if not any(job["kinds"] for job in jobs):
            continue
        restart = rng.choice([0, 5, 40])
        table = rows(
            tmp_path, write(tmp_path, HEAD + "".join(map(line, jobs))),
            "--node-kinds", ",".join(f"{name}:{nodes}" for name, nodes in runs),
            "--gpus-per-node", size, "--policy", policy, "--placement", "count",
            "--set", f"conditions.restart_cost={restart}s",
        )  # fmt: skip
        queue = Queue(policy, sizes, restart * SECOND)
        queue.run(jobs)
        for job, row in zip(jobs, table):
            where = f"{policy}, seed {seed}, job {job['number']}"
            if "start" not in job:
                assert row["state"] == "rejected", where
                seen["rejected"] += 1
                continue
            ours = [round(float(row[name]) * SECOND) for name in ("start_s", "end_s")]
            assert ours == [job["start"], job["end"]], where
            assert row["gpu_kind"] == job["kind"], where
            assert int(row["preemptions"]) == job["preemptions"], where
        for what, count in queue.seen.items():
            seen[what] += count > 0
    # Each rule decides in many of the logs.
    rules = 4 if policy in BACKFILL else 3
    assert min(seen.values()) >= 10 and len(seen) == rules, seen
