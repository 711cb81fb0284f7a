"""Parts of GPUs in a replay: columns, formats, policies, random logs beside an independent
program."""

import collections
import csv
import json
import random

import pytest
from conftest import column, orrery, rows
from parts_oracle import PREEMPTIVE, Queue

HEAD = "job_id,submit_s,num_gpus,duration_s,priority,vc\n"
# a and b share a GPU, c does not fit beside them, d needs a whole GPU, e fits beside c only.
LOG = HEAD + "a,0,0.5,100,,\nb,1,0.46,100,,\nc,2,.6,50,,\nd,3,1,10,,\ne,4,0.4,10,,\n"
TWO = ("--nodes", 1, "--gpus-per-node", 2)
QUEUES = [
    "conservative", "drf", "easy", "fifo", "fifo-skip", "finish-time-fairness", "gittins", "las",
    "max-min", "multifactor", "priority", "sjf", "srsf", "srtf",
]  # fmt: skip


def write(folder, text, name="log.csv"):
    (folder / name).write_text(text)
    return folder / name


def report(*arguments):
    result = orrery("jobs", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_several_jobs_share_a_gpu(tmp_path):
    log = write(tmp_path, LOG)
    table = rows(tmp_path, log, *TWO, "--policy", "fifo-skip")
    assert column(table, "start_s") == [0, 1, 2, 52, 4]
    assert column(table, "num_gpus") == [0.5, 0.46, 0.6, 1, 0.4]
    assert column(table, "used_gpu_s") == [50, 46, 30, 10, 4]
    with open(tmp_path / "out" / "series.csv") as series:
        busy = [float(row["busy_gpus"]) for row in csv.DictReader(series)]
    assert 0 < max(busy) <= 2
    with open(tmp_path / "out" / "groups.csv") as groups:
        sizes = [(row["key"], row["jobs"]) for row in csv.DictReader(groups) if row["by"] == "size"]
    assert sizes == [("part", "4"), ("1", "1")]
    whole = report(log, *TWO, "--policy", "fifo-skip")
    assert whole["utilization"] == pytest.approx(140 / (2 * 101))


def test_a_part_may_count_as_a_whole_gpu(tmp_path):
    log = write(tmp_path, LOG)
    table = rows(tmp_path, log, *TWO, "--policy", "fifo-skip", "--set", "gpu_slices=1")
    assert column(table, "start_s") == [0, 1, 100, 101, 111]
    assert column(table, "used_gpu_s") == [100, 100, 50, 10, 10]
    # 7 slices, as of a MIG: 0.5 and 0.46 of a GPU are 4 slices each, and do not fit together.
    seven = rows(tmp_path, log, *TWO, "--policy", "fifo-skip", "--set", "gpu_slices=7")
    assert column(seven, "start_s") == [0, 1, 100, 101, 4]
    assert column(seven, "used_gpu_s")[0] == round(100 * 4 / 7, 3)
    both = orrery("jobs", log, *TWO, "--policy", "fifo-skip", "--what-if", "gpu_slices=1")
    assert both.returncode == 0 and "gpu_slices=1" in both.stdout, both.stderr


def test_waits_are_compared_in_the_gpus_that_jobs_ask_for(tmp_path):
    """The run with whole GPUs waits exactly as the log does, and saves nothing."""
    log = write(
        tmp_path,
        "job_id,submit_s,num_gpus,duration_s,recorded_start_s\na,0,0.5,3600,0\nb,0,0.5,3600,3600\n",
    )
    one = ("--nodes", 1, "--gpus-per-node", 1, "--policy", "fifo", "--set", "gpu_slices=1")
    whole, shared = report(log, *one, "--what-if", "gpu_slices=2")
    assert whole["queue_gpu_hours"] == 0.5 and not whole["savings"].get("queue_gpu_hours")
    assert shared["queue_gpu_hours"] == 0 and shared["savings"]["queue_gpu_hours"] == 0.5


def test_slices_without_parts_are_refused(tmp_path):
    log = write(tmp_path, HEAD + "a,0,2,100,,\n")
    result = orrery("jobs", log, *TWO, "--policy", "fifo", "--what-if", "gpu_slices=4")
    assert result.returncode == 3
    assert "expected a log with parts of GPUs (num_gpus below 1)" in result.stderr
    result = orrery("jobs", log, *TWO, "--policy", "fifo", "--gpu-slices", 4)
    assert result.returncode == 2 and "write --set gpu_slices=7" in result.stderr


def test_too_many_slices_are_refused(tmp_path):
    log = write(tmp_path, HEAD + "a,0,0.001,100,,\n")
    size = ("--nodes", 10000, "--gpus-per-node", 8, "--policy", "fifo")
    result = orrery("jobs", log, *size)
    assert result.returncode == 3 and "set gpu_slices=838, which rounds parts up" in result.stderr
    assert rows(tmp_path, log, *size, "--set", "gpu_slices=8")[0]["state"] == "completed"


@pytest.mark.parametrize("policy", ["elastic"])
def test_policies_that_place_by_themselves_are_refused(tmp_path, policy):
    log = write(tmp_path, LOG)
    result = orrery("jobs", log, *TWO, "--policy", policy)
    assert result.returncode == 3
    assert f"policy '{policy}': expected a policy that places parts of GPUs" in result.stderr
    for name in QUEUES:
        assert f"{name}," in result.stderr
    assert orrery("jobs", log, *TWO, "--policy", policy, "--set", "gpu_slices=1").returncode == 0


OWN = """
import orrery


class Own(orrery.Policy):
    def needs(self):
        return orrery.Needs(actions=["Assign"]{declared})

    def observe(self, seen, decisions):
        free, slices = set(seen.state.free_gpus.tolist()), self.cluster.slices_per_gpu
        for job in seen.jobs.values():
            for first in range(0, self.cluster.gpus if job.phase == "waiting" else 0, slices):
                gpu = [n for n in range(first, first + slices) if n in free][: job.spec.gpus]
                if len(gpu) == job.spec.gpus:
                    decisions.add(orrery.actions.Assign(job.id, gpu), why="fits")
                    free -= set(gpu)
                    break
"""


def test_an_own_policy_declares_parts(tmp_path):
    log, own = write(tmp_path, LOG), tmp_path / "own.py"
    own.write_text(OWN.replace("{declared}", ""))
    refused = orrery("jobs", log, *TWO, "--policy", own)
    assert refused.returncode == 3 and "an own one that declares gpu_parts" in refused.stderr
    own.write_text(OWN.replace("{declared}", ", gpu_parts=True"))
    table = rows(tmp_path, log, *TWO, "--policy", own)
    # It gives slices of the first GPU with room.
    assert column(table, "start_s") == [0, 1, 2, 52, 4]


def test_the_canonical_form_keeps_parts(tmp_path):
    out, again = tmp_path / "out.csv", tmp_path / "again.csv"
    assert orrery("import", "jobs", write(tmp_path, LOG), "-o", out).returncode == 0
    parts = [line.split(",")[2] for line in out.read_text().splitlines()[1:]]
    assert parts == ["0.5", "0.46", "0.6", "1", "0.4"]
    assert orrery("import", "jobs", out, "-o", again).returncode == 0
    assert again.read_text() == out.read_text()


@pytest.mark.parametrize("part", ["0", "0.0", "0.0005", "0.5x", "1.5", "-0.5", ".", "0,5"])
def test_impossible_parts_are_refused(tmp_path, part):
    log = write(tmp_path, f"job_id,submit_s,num_gpus,duration_s\na,0,{part},100\n")
    result = orrery("jobs", log, *TWO, "--policy", "fifo")
    assert result.returncode == 3 and "log.csv:2" in result.stderr, result.stderr


def test_whole_gpus_may_be_decimals(tmp_path):
    """The CSV of a DataFrame with parts has decimals in all rows."""
    head = "job_id,submit_s,num_gpus,duration_s\n"
    log = write(tmp_path, head + "a,0,0.50,100\nb,0,2.0,100\nc,0,1.000,100\n")
    assert column(rows(tmp_path, log, *TWO, "--policy", "fifo"), "num_gpus") == [0.5, 2, 1]
    refused = orrery("jobs", write(tmp_path, head + "a,0,1.5,100\n"), *TWO, "--policy", "fifo")
    assert "or a part of a GPU in thousandths" in refused.stderr
    refused = orrery("jobs", write(tmp_path, head + "a,0,-1.0,100\n"), *TWO, "--policy", "fifo")
    assert "num_gpus is -1, not between 1 and" in refused.stderr


def test_a_part_has_one_size(tmp_path):
    log = write(
        tmp_path,
        "job_id,submit_s,num_gpus,duration_s,min_gpus,max_gpus\na,0,0.5,100,1,2\n",
    )
    result = orrery("jobs", log, *TWO, "--policy", "fifo")
    assert result.returncode == 3
    assert "num_gpus must be a whole number for a job of several sizes" in result.stderr


def test_openb_and_gfs_have_parts(tmp_path):
    openb = write(
        tmp_path,
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
        "deletion_time,scheduled_time\n"
        "p1,1000,1,1,460,,LS,Running,0,100,0\np2,1000,1,1,1000,,LS,Running,1,100,1\n"
        "p3,1000,1,2,1000,,LS,Running,2,100,2\n",
    )
    gfs = write(
        tmp_path,
        "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,"
        "job_type\nj1,o,A,1,0.25,1,0,100,Spot\nj2,o,A,1,0.25,3,1,100,Spot\n",
        "gfs.csv",
    )
    for log, parts in ((openb, ["0.46", "1", "2"]), (gfs, ["0.25", "3"])):
        out = tmp_path / "out.csv"
        result = orrery("import", "jobs", log, "-o", out)
        assert result.returncode == 0, result.stderr
        assert [line.split(",")[2] for line in out.read_text().splitlines()[1:]] == parts


def test_parts_and_kinds_together(tmp_path):
    log = write(
        tmp_path,
        "job_id,submit_s,num_gpus,duration_s,gpu_kind\n"
        "a,0,0.5,100,T4\nb,1,0.5,100,T4\nc,2,0.5,100,T4\nd,3,0.5,100,T4|A10\ne,4,1,10,A10\n",
    )
    size = ("--node-kinds", "T4:1,A10:1", "--gpus-per-node", 1)
    for policy in ("fifo-skip", "srtf", "priority"):
        table = rows(tmp_path, log, *size, "--policy", policy)
        assert [row["gpu_kind"] for row in table] == ["T4", "T4", "T4", "A10", "A10"], policy
    # The whole GPU goes first under srtf; d, which leaves it, may go on when it ends.
    skip = rows(tmp_path, log, *size, "--policy", "fifo-skip")
    assert column(skip, "start_s")[2:] == [100, 3, 103]


def test_reasons_of_a_part(tmp_path):
    why = orrery("explain", write(tmp_path, LOG), "--job", "d", *TWO, "--policy", "fifo-skip")
    assert why.returncode == 0, why.stderr
    assert "job d: 1 GPU, submitted at 3 s" in why.stdout
    assert "at its submission 0.44 GPUs were free" in why.stdout
    part = orrery("explain", write(tmp_path, LOG), "--job", "c", *TWO, "--policy", "fifo-skip")
    assert "job c: 0.6 GPUs" in part.stdout
    seven = ("--policy", "fifo-skip", "--set", "gpu_slices=7")
    why = orrery("explain", tmp_path / "log.csv", "--job", "d", *TWO, *seven)
    assert "at its submission 0.857 GPUs were free" in why.stdout, why.stderr


@pytest.mark.parametrize("policy", ["fifo-skip", "las", "multifactor"])
def test_a_recorded_run_replays_to_the_same_decisions(tmp_path, policy):
    record = tmp_path / "queue.log"
    rows(tmp_path, write(tmp_path, LOG), *TWO, "--policy", policy, "--record", record)
    again = orrery("replay", record)
    assert again.returncode == 0 and again.stdout.startswith("identical"), again.stderr


# ---- random logs ---------------------------------------------------------------------------


def random_log(rng, gpus):
    jobs, submit = [], 0
    for number in range(rng.randrange(15, 60)):
        part = rng.random() < 0.7
        milli = rng.choice([100, 250, 300, 460, 500, 700, 810, 999]) if part else None
        jobs.append(
            {
                "number": number,
                "submit": submit,
                "milli": milli or 1000 * rng.choice([1, 1, 1, 2, rng.randrange(1, gpus + 2)]),
                "duration": rng.choice([1, 60, 100, rng.randrange(1, 500)]),
                "priority": rng.randrange(0, 3),
            }
        )
        submit += rng.randrange(1, 40)
    return jobs


def line(job):
    milli = job["milli"]
    gpus = f"0.{milli:03d}" if milli < 1000 else milli // 1000
    fields = (job["number"], job["submit"], gpus, job["duration"], job["priority"], "")
    return ",".join(map(str, fields)) + "\n"


@pytest.mark.parametrize("placement", ["count", "consolidated"])
@pytest.mark.parametrize("policy", ["fifo", "fifo-skip", "sjf", "easy", *PREEMPTIVE])
def test_random_logs_beside_an_independent_program(tmp_path, policy, placement):
    seen = collections.Counter()
    for seed in range(30):
        rng = random.Random(seed)
        nodes, size = rng.randrange(1, 4), rng.choice([1, 2, 4])
        jobs = random_log(rng, nodes * size)
        log = write(tmp_path, HEAD + "".join(map(line, jobs)))
        cluster = ("--nodes", nodes, "--gpus-per-node", size, "--placement", placement)
        table = rows(tmp_path, log, *cluster, "--policy", policy)
        queue = Queue(policy, placement, nodes, size)
        queue.run(jobs)
        for job, row in zip(jobs, table):
            where = f"{policy}, {placement}, seed {seed}, job {job['number']}"
            if "start" not in job:
                assert row["state"] == "rejected", where
                continue
            ours = [round(float(row[name])) for name in ("start_s", "end_s")]
            assert ours == [job["start"], job["end"]], where
            assert int(row["preemptions"]) == job["preemptions"], where
        for what, count in queue.seen.items():
            seen[what] += count > 0
    expected = {"beside others", "scattered"}
    expected |= {"preempted"} if policy in PREEMPTIVE else set()
    expected |= {"backfilled"} if policy == "easy" else set()
    assert set(seen) == expected and min(seen.values()) >= 10, seen


@pytest.mark.parametrize("policy", QUEUES)
def test_slices_change_nothing_for_whole_gpus(tmp_path, policy):
    """A part that is submitted after the end of all other jobs divides all GPUs into slices."""
    rng = random.Random(policy)
    jobs = [job for job in random_log(rng, 8) if job["milli"] >= 1000 or rng.random() < 0.8]
    for job in jobs:
        job["milli"] = min(8000, max(1000, job["milli"] // 1000 * 1000))
        job["duration"] *= 50  # beyond the threshold of las
    whole = [line(job)[:-1] + rng.choice(["one", "two"]) + "\n" for job in jobs]
    late = "late,99999999,0.37,10,,one\n"
    cluster = ("--nodes", 2, "--gpus-per-node", 4, "--placement", "consolidated")
    rules = {
        "max-min": ["max-min.quotas=[{vc: one, gpus: 3}, {vc: two, gpus: 5}]"],
        "multifactor": ["multifactor.reservations=[{name: r, begin: 1 h, end: 2 h, gpus: 4}]"],
    }
    options = [text for rule in rules.get(policy, []) for text in ("--set", rule)]
    plain = rows(
        tmp_path, write(tmp_path, HEAD + "".join(whole)), *cluster, "--policy", policy, *options
    )
    sliced = rows(
        tmp_path, write(tmp_path, HEAD + "".join(whole) + late), *cluster, "--policy", policy,
        *options,
    )  # fmt: skip
    assert float(sliced[-1]["used_gpu_s"]) == pytest.approx(3.7)
    for name in ("start_s", "end_s", "preemptions", "used_gpu_s"):
        assert column(sliced[:-1], name) == column(plain, name)


@pytest.mark.parametrize("policy", QUEUES)
@pytest.mark.parametrize("placement", ["count", "consolidated", "topology", "per-node"])
def test_all_jobs_with_parts_end_under_every_policy(tmp_path, policy, placement):
    rng = random.Random(f"{policy} {placement}")
    jobs = random_log(rng, 4)
    for job in jobs:
        job["milli"] = min(4000, job["milli"])
    log = write(tmp_path, HEAD + "".join(map(line, jobs)))
    options = ("--nodes", 3, "--gpus-per-node", 4, "--placement", placement, "--policy", policy)
    table = rows(tmp_path, log, *options)
    assert all(row["state"] == "completed" for row in table)
    # A part takes what it asks for, in whatever order jobs run.
    used = [job["milli"] / 1000 * job["duration"] for job in jobs]
    assert column(table, "used_gpu_s") == [pytest.approx(each) for each in used]
