"""QOS and reservations of the policy multifactor: Slurm's own output, and random logs beside an
independent program."""

import collections
import csv
import json
import random

import pytest
from conftest import orrery
from slurm_oracle import Queue

SACCT = """\
JobID|User|Account|QOS|Submit|Start|End|AllocTRES
1|ann|vision|normal|2024-01-10T08:00:00|2024-01-10T08:00:00|2024-01-10T10:00:00|gres/gpu=8
2|bob|speech|normal|2024-01-10T08:10:00|2024-01-10T09:00:00|2024-01-10T10:00:00|gres/gpu=8
3|bob|speech|high|2024-01-10T08:20:00|2024-01-10T09:00:00|2024-01-10T09:30:00|gres/gpu=8
"""
QOS = """\
Name|Priority|GraceTime|Preempt|GrpTRES|MaxTRESPU
normal|10|00:00:00|||cpu=64,gres/gpu=8
high|100|00:00:00|normal||
"""
RESERVATIONS = """\
ReservationName=talk StartTime=2024-01-10T08:30:00 EndTime=2024-01-10T11:00:00 Duration=02:30:00
   Nodes=gpu2 NodeCnt=1 CoreCnt=64 Features=(null) PartitionName=(null) Flags=SPEC_NODES
   TRES=cpu=64
   Users=(null) Groups=(null) Accounts=vision Licenses=(null) State=INACTIVE
ReservationName=disk StartTime=2024-01-10T08:30:00 EndTime=2024-01-10T11:00:00 Duration=02:30:00
   Nodes=login1 NodeCnt=1 Users=root
"""
CONF = """\
NodeName=login1 CPUs=8
NodeName=gpu[1-2] Gres=gpu:a100:8
"""


def written(folder, **texts):
    """Paths of files with these contents; the name of a file has '_' in place of its dot."""
    paths = []
    for name, text in texts.items():
        paths.append(folder / name.replace("_", "."))
        paths[-1].write_text(text)
    return paths


def starts(folder, log, *options, policy="multifactor"):
    """First starts by job id, of a replay that succeeds."""
    out = folder / "tables"
    result = orrery("jobs", log, "--policy", policy, "--out", out, *options)
    assert result.returncode == 0, result.stderr
    with open(out / "jobs.csv") as table:
        return {row["job_id"]: float(row["start_s"]) for row in csv.DictReader(table)}


def test_qos_of_sacctmgr(tmp_path):
    log, qos = written(tmp_path, log_txt=SACCT, qos_txt=QOS)
    size = ("--nodes", 1, "--gpus-per-node", 8)
    assert starts(tmp_path, log, *size) == {"1": 0, "2": 7200, "3": 10800}
    # The third job takes the GPUs of the first one at its submission, and returns them at 3000 s.
    assert starts(tmp_path, log, *size, "--qos", qos) == {"1": 0, "2": 9000, "3": 1200}


def test_reservations_of_scontrol(tmp_path):
    log, text, conf = written(tmp_path, log_txt=SACCT, windows_txt=RESERVATIONS, slurm_conf=CONF)
    # The account vision may start on its node; speech has the other one, in turn. Job 2 cannot end
    # on gpu2 before 8:30; node names come from slurm.conf, where login1 has no GPUs.
    named = starts(tmp_path, log, "--cluster", conf, "--reservations", text)
    assert named == {"1": 0, "2": 7200, "3": 7200 + 3600}
    # Without names, the last node of the cluster, and one for login1.
    counted = starts(tmp_path, log, "--nodes", 3, "--gpus-per-node", 8, "--reservations", text)
    assert counted == named


def test_the_same_in_yaml(tmp_path):
    log, rules = written(
        tmp_path,
        log_txt=SACCT,
        rules_yaml="reservations:\n  - {name: talk, begin: 30 min, end: 3 h, nodes: [1], "
        "vcs: [vision]}\n",
    )
    size = ("--nodes", 2, "--gpus-per-node", 8)
    assert starts(tmp_path, log, *size, "--reservations", rules) == {
        "1": 0, "2": 7200, "3": 10800,
    }  # fmt: skip
    # A later --set holds.
    assert starts(
        tmp_path, log, *size, "--reservations", rules, "--set", "multifactor.reservations=[]"
    ) == {"1": 0, "2": 600, "3": 4200}


@pytest.mark.parametrize(
    "options, code, said",
    [
        (("--policy", "easy", "--qos", "qos.txt"), 2, "--qos: expected the policy multifactor"),
        (("--policy", "multifactor", "--qos", "log.txt"), 3, "found no Name"),
        (("--policy", "multifactor", "--reservations", "qos.txt"), 3, "scontrol show reservation"),
    ],
)
def test_a_refusal_says_what_helps(tmp_path, options, code, said):
    written(tmp_path, log_txt=SACCT, qos_txt=QOS)
    result = orrery("jobs", "log.txt", "--nodes", 1, "--gpus-per-node", 8, *options, cwd=tmp_path)
    assert result.returncode == code, result.stderr
    assert said in result.stderr


def test_a_log_without_qos_or_dates_is_refused(tmp_path):
    log, qos, text = written(
        tmp_path,
        log_csv="job_id,submit_s,num_gpus,duration_s\n1,0,8,10\n",
        qos_txt=QOS,
        windows_txt=RESERVATIONS,
    )
    where = ("jobs", log, "--nodes", 1, "--gpus-per-node", 8, "--policy", "multifactor")
    refused = orrery(*where, "--qos", qos)
    assert refused.returncode == 3 and "found none in 1 jobs" in refused.stderr
    refused = orrery(*where, "--reservations", text)
    assert refused.returncode == 3 and "expected a log with dates" in refused.stderr


# ---- random logs ---------------------------------------------------------------------------

QOS_NAMES = ("high", "normal", "spot", "")


def random_qos(rng, largest):
    """QOS whose limits let each job run at some time."""
    all_qos = []
    for name, priority in (("high", 100), ("normal", rng.choice([0, 10, 50])), ("spot", 0)):
        each = {"name": name, "priority": priority}
        if rng.random() < 0.4:
            each["gpus"] = largest + rng.randrange(0, largest + 1)
        if rng.random() < 0.4:
            each["gpus_per_user"] = largest + rng.randrange(0, largest + 1)
        all_qos.append(each)
    if rng.random() < 0.6:
        all_qos[0]["preempts"] = rng.choice([["spot"], ["normal", "spot"]])
    if rng.random() < 0.3:
        all_qos[1]["preempts"] = ["spot"]
    return all_qos


def random_windows(rng, nodes, size, length):
    """Reservations as Orrery's YAML has them, and with their nodes."""
    asked, known = [], []
    for number in range(rng.randrange(0, 5)):
        begin = rng.randrange(0, length)
        window = {
            "begin": begin,
            "end": begin + rng.randrange(1, length // 2),
            "users": rng.sample(["ann", "bob", "cy"], rng.randrange(0, 2)),
            "vcs": rng.sample(["v", "w"], rng.randrange(0, 2)),
            "name": f"r{number}",
        }
        if rng.random() < 0.7:
            window["nodes"] = sorted(rng.sample(range(nodes), rng.randrange(1, nodes + 1)))
        else:
            window["gpus"] = rng.randrange(1, nodes * size + 1)
        asked.append(window)
    known = [dict(window) for window in asked]
    for window in known:
        if "nodes" in window:
            continue
        taken = {
            node
            for other in known
            if other is not window and other["begin"] < window["end"]
            if window["begin"] < other["end"]
            for node in other.get("nodes", [])
        }
        free = [node for node in reversed(range(nodes)) if node not in taken]
        wanted = -(-window.pop("gpus") // size)
        if len(free) < wanted:
            return random_windows(rng, nodes, size, length)
        window["nodes"] = free[:wanted]
    return asked, known


def random_log(rng, largest):
    jobs, submit = [], 0
    for number in range(rng.randrange(15, 50)):
        submit += rng.choice([0, 0, rng.randrange(1, 60)])
        jobs.append(
            {
                "id": str(number),
                "submit": submit if number else 0,
                "gpus": rng.randrange(1, largest + 1),
                "duration": rng.choice([1, 10, 30, 60, 120, rng.randrange(1, 300)]),
                "vc": rng.choice("vw"),
                "user": rng.choice(["ann", "bob", "cy"]),
                "qos": rng.choice(QOS_NAMES),
            }
        )
    return jobs


def replayed(folder, jobs, nodes, size, placement, qos, windows, weights):
    """Start, end and preemptions of each job, by Orrery."""
    log = folder / "log.csv"
    names = ("id", "submit", "gpus", "duration", "vc", "user", "qos")
    log.write_text(
        "job_id,submit_s,num_gpus,duration_s,vc,user,qos\n"
        + "".join(",".join(str(job[name]) for name in names) + "\n" for job in jobs)
    )
    rules = [{**w, "begin": f"{w['begin']} s", "end": f"{w['end']} s"} for w in windows]
    changes = {"qos": qos, "reservations": rules, "max_age": "10min", "fair_share_weight": 0}
    changes.update(zip(("qos_weight", "age_weight", "size_weight"), weights))
    command = ["jobs", log, "--nodes", nodes, "--gpus-per-node", size, "--placement", placement]
    for key, value in changes.items():
        text = value if isinstance(value, str) else json.dumps(value)
        command += ["--set", f"multifactor.{key}={text}"]
    result = orrery(*command, "--policy", "multifactor", "--out", folder / "out")
    assert result.returncode == 0, result.stderr
    with open(folder / "out" / "jobs.csv") as table:
        return [
            (float(row["start_s"]), float(row["end_s"]), int(row["preemptions"]))
            for row in csv.DictReader(table)
        ]


def test_two_hundred_random_logs_beside_an_independent_program(tmp_path):
    seen = collections.Counter()
    for seed in range(200):
        rng = random.Random(seed)
        nodes, size = rng.randrange(1, 6), rng.choice([1, 2, 4, 8])
        largest = rng.randrange(1, nodes * size + 1)
        placement = rng.choice(["count", "consolidated"])
        qos = random_qos(rng, largest)
        jobs = random_log(rng, largest)
        windows, known = random_windows(rng, nodes, size, jobs[-1]["submit"] + 100)
        weights = (rng.choice([0, 1000, 100000]), rng.choice([0, 1000]), rng.choice([0, 500]))
        queue = Queue(nodes, size, qos, known, placement, weights, 600)
        queue.run(jobs)
        ours = replayed(tmp_path, jobs, nodes, size, placement, qos, windows, weights)
        expected = [(job["start"], job["end"], job["preemptions"]) for job in jobs]
        assert ours == expected, f"seed {seed}"
        for what in ("preemptions", "limited", "shut", "inside"):
            seen[what] += getattr(queue, what) > 0
    # Each rule decides in many of the logs.
    assert min(seen.values()) >= 20 and len(seen) == 4, seen
