"""Policies in the manner of DGC, Falcon and a gang scheduler decide alike in both worlds."""

import json
import random
import subprocess

import pytest
from conftest import BUILD, EXAMPLES, STRAGGLER
from outside_policies import DeepCompression, Guard, QuotaGangs

import orrery
from orrery import events

COMPRESSED = EXAMPLES / "compressed-4-ranks.yaml"
POLICIES = STRAGGLER.parents[1] / "tests" / "python" / "outside_policies.py"


class Recorded(orrery.Policy):
    """Placements, settings and outcomes, as any policy sees them."""

    def __init__(self):
        self.gpus, self.outcomes = [], []

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.JobStarted):
                self.gpus.append(list(event.where.gpus))
            elif isinstance(event, events.Decided):
                self.outcomes.append((event.status, event.reason))


def in_both(make, scenario, tmp_path, overrides):
    """Runs a policy in both worlds, and replays both logs.

    Returns the decisions (action, parameters, reason) and the placements after their comparison.
    """
    worlds = []
    for run in (orrery.simulate, orrery.live):
        look, log = Recorded(), tmp_path / f"{run.__name__}.log"
        report = run(scenario, policies=[make(), look], record=log, overrides=overrides)
        assert report.steps_completed == overrides["run.steps"]
        assert orrery.replay(log, policies=[make(), Recorded()]).identical
        assert {status for status, _ in look.outcomes} == {"applied"}, look.outcomes
        decided = orrery.read_log(log).decisions
        rows = decided[["job", "action", "setting", "parameters", "why"]].values.tolist()
        worlds.append((rows, look.outcomes, look.gpus))
    assert worlds[0] == worlds[1]
    return worlds[0][0], worlds[0][2]


def test_a_codec_is_chosen_by_measured_times(tmp_path):
    slow = {"run.steps": 24, "job.pace.micro_batch": "40 ms", "live.link_rate": "2 MB/s"}
    decided, _ = in_both(DeepCompression, COMPRESSED, tmp_path, slow)
    assert decided and {row[2] for row in decided} == {"CodecRules"}
    assert {row[4] for row in decided} == {"the exchange takes more than 50% of the computation"}


def test_a_fast_exchange_needs_no_codec():
    fast = {"run.steps": 10, "job.pace.micro_batch": "100 ms", "live.link_rate": "90 MB/s"}
    report = orrery.simulate(COMPRESSED, policy=DeepCompression(), overrides=fast)
    assert report.decisions == 0


@pytest.mark.parametrize("nodes, where", [(2, [0, 1, 3, 4]), (1, None)])
def test_a_slow_gpu_is_left_or_relieved(tmp_path, nodes, where):
    slow = {"at_step": 6, "gpu": 2, "rate": 0.33}
    changes = {
        "run.steps": 24,
        "job.global_batch": 16,
        "job.pace.micro_batch": "20 ms",
        "job.sequence_length": 8,
        "cluster.nodes": nodes,
        "faults": [slow],
        "survival.replacement": "300 ms",
    }
    decided, gpus = in_both(Guard, STRAGGLER, tmp_path, changes)
    assert len(decided) == 1
    if where:
        assert gpus[-1] == where and decided[0][4] == "GPU 2 is slow, GPU 4 is free"
    else:
        assert decided[0][2] == "Shares" and decided[0][4] == "GPU 2 is slow, no GPU is free"


def trace_of(path, jobs, users=3, seed=5):
    draw = random.Random(seed)
    rows = ["job_id,submit_s,num_gpus,duration_s,vc,user"]
    now = 0
    for number in range(jobs):
        now += draw.choice([0, 0, 20, 60])
        gpus, seconds = draw.choice([1, 2, 4, 8]), 60 * draw.randint(1, 9)
        rows.append(f"j{number},{now},{gpus},{seconds},vc,u{number % users}")
    path.write_text("\n".join(rows) + "\n")
    return path


def test_gangs_within_quotas_start_whole_and_in_one_rack(tmp_path):
    trace = trace_of(tmp_path / "trace.csv", 80)
    size = {"nodes": 4, "gpus_per_node": 4}
    report = orrery.jobs(trace, policy=QuotaGangs(), record=tmp_path / "log", **size)
    assert (report.jobs_in, report.jobs_out) == (80, 80)
    assert orrery.replay(tmp_path / "log", policy=QuotaGangs()).identical
    log = orrery.read_log(tmp_path / "log")
    started = log.decisions[log.decisions.action == "Assign"]
    assert len(started) == 80 and set(started.outcome) == {"applied"}
    assert set(started.why.str.extract(r"rack (\d)")[0]) == {"0", "1"}
    used, most = {}, 0
    rows = trace.read_text().splitlines()[1:]
    facts = {n: (row.split(",")[5], int(row.split(",")[2])) for n, row in enumerate(rows)}
    for event in log.events.itertuples():
        if event.event not in ("JobStarted", "JobDone"):
            continue
        user, gpus = facts[int(event.job)]
        used[user] = used.get(user, 0) + (gpus if event.event == "JobStarted" else -gpus)
        most = max(most, used[user])
    assert most == 8  # half of the cluster, and reached


def test_the_gang_scheduler_runs_jobs_as_processes(tmp_path):
    trace, log = trace_of(tmp_path / "trace.csv", 60), tmp_path / "live.log"
    policy = f"{POLICIES}:QuotaGangs"
    given = ["live", "--jobs", trace, "--nodes", 4, "--gpus-per-node", 4, "--policy", policy,
             "--speed", 2000, "--for", 20000, "--record", log, "--json"]  # fmt: skip
    result = command(*given)
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(result.stdout)
    assert report["equal"] and report["starts"] == report["ends"] == 60
    replayed = command("replay", log, "--policy", policy)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    size = {"nodes": 4, "gpus_per_node": 4}
    orrery.jobs(trace, policy=QuotaGangs(), record=tmp_path / "log", **size)
    assert decided_in(log) == decided_in(tmp_path / "log")


def decided_in(log):
    """Decisions with their outcomes and reasons, by job: jobs of one instant have no order."""
    rows = orrery.read_log(log).decisions
    columns = ["job", "action", "parameters", "why", "outcome", "reason"]
    return sorted(rows[columns].astype(str).values.tolist())


def command(*words):
    program = [BUILD / "bin" / "orrery", *words]
    return subprocess.run([str(word) for word in program], capture_output=True, text=True)


class Tables(QuotaGangs):
    """Compares the table of the jobs with the jobs, one by one."""

    def observe(self, seen, decisions):
        table = seen.jobs.table()
        assert table["id"].tolist() == list(seen.jobs)
        for row, job in enumerate(seen.jobs.values()):
            facts = {name: column[row].item() for name, column in table.items()}
            for name in ("phase", "user", "pool", "priority", "epoch", "step", "saved",
                         "gpu_seconds", "submit", "estimate", "saved_at", "started",
                         "standing_since"):  # fmt: skip
                assert facts[name] == getattr(job, name), name
            assert facts["gpus"] == job.spec.gpus and facts["placed_gpus"] == len(job.gpus)
            assert facts["pending"] == (job.next is not None) and facts["lost"] == len(job.lost)
            assert facts["least_gpus"] == (job.least_gpus or job.spec.gpus)
            assert facts["most_gpus"] == (job.most_gpus or job.spec.gpus)
        super().observe(seen, decisions)


def test_the_table_of_jobs_has_what_the_jobs_say(tmp_path):
    trace = trace_of(tmp_path / "trace.csv", 40)
    report = orrery.jobs(trace, policy=Tables(), nodes=4, gpus_per_node=4)
    assert report.jobs_out == 40
