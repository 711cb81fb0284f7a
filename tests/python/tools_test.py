"""Replays of logs and of job traces."""

import pathlib

import pytest
from conftest import STRAGGLER

import orrery


def test_replay(tmp_path):
    log = tmp_path / "log"
    report = orrery.simulate(STRAGGLER, record=log)
    same = orrery.replay(log)
    assert same.identical and same.decisions == report.decisions > 0
    assert same.decision_trace_sha256 == report.decision_trace_sha256
    changed = orrery.replay(log, {"predictive-rebalance.gain_threshold": 9})
    assert not changed.identical and changed.first_difference
    assert "identical" in same._repr_html_() and "identical" not in changed._repr_html_()


def test_jobs(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_s,num_gpus,duration_s,vc\n1,0,2,100,a\n2,0,2,10,a\n")
    fifo = orrery.jobs(trace, nodes=1, gpus_per_node=2)
    sjf = orrery.jobs(trace, nodes=1, gpus_per_node=2, policy="sjf")
    assert (fifo.jobs_in, fifo.jobs_out, fifo.makespan_s) == (2, 2, 110)
    assert (fifo.jct_mean_s, sjf.jct_mean_s) == (105, 60)
    page = sjf._repr_html_()
    for said in ("1 nodes of 2 GPUs", "2 of 2", "1.83 min", "100.0%"):
        assert said in page
    assert "2 jobs" in repr(sjf) and sjf.to_dict()["utilization"] == 1
    with pytest.raises(orrery.Error, match="sjf"):
        orrery.jobs(trace, nodes=1, gpus_per_node=2, policy="sjff")


class FirstSlices(orrery.Policy):
    """Gives each waiting job the first free slices of the first GPU that has as many."""

    def __init__(self, knows_parts):
        self.knows_parts = knows_parts

    def needs(self):
        return orrery.Needs(actions=["Assign"], gpu_parts=self.knows_parts)

    def observe(self, seen, decisions):
        free, slices = set(seen.state.free_gpus.tolist()), self.cluster.slices_per_gpu
        for job in [each for each in seen.jobs.values() if each.phase == "waiting"]:
            for first in range(0, self.cluster.gpus, slices):
                gpu = [n for n in range(first, first + slices) if n in free][: job.spec.gpus]
                if len(gpu) == job.spec.gpus:
                    decisions.add(orrery.actions.Assign(job.id, gpu), why="fits")
                    free -= set(gpu)
                    break


class AnyGpus(orrery.Policy):
    """Gives each waiting job the first free GPUs."""

    def needs(self):
        return orrery.Needs(actions=["Assign"])

    def observe(self, seen, decisions):
        free = seen.state.free_gpus.tolist()
        for job in [each for each in seen.jobs.values() if each.phase == "waiting"]:
            if job.spec.gpus <= len(free):
                decisions.add(orrery.actions.Assign(job.id, free[: job.spec.gpus]), why="fits")
                del free[: job.spec.gpus]


def test_a_power_budget_of_a_queue(tmp_path):
    trace, cluster = tmp_path / "trace.csv", tmp_path / "cluster.yaml"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\n1,0,5,150\n2,1,3,150\n")
    cluster.write_text("preset: dgx-h100\nnodes: 1\n")
    by_day = {"share": "80%", "from": "100 s", "until": "200 s", "every": "200 s"}
    power = {"limits": [by_day], "spend": "wait"}
    report = orrery.jobs(trace, cluster=cluster, power=power)
    assert report.jobs.start_s.tolist() == [0, 150]
    assert report.power["spend"] == "wait" and report.power["over_s"] == 0
    paused = orrery.jobs(trace, cluster=cluster, power={**power, "spend": "pause"})
    assert paused.jobs.end_s.tolist() == [150, 201] and paused.power["pauses"] == 1
    own = orrery.jobs(trace, cluster=cluster, power={**power, "spend": "pause"},
                      policy=AnyGpus())
    assert own.power["pauses"] == 1 and own.power["over_s"] == 0
    assert own.jobs.end_s.tolist() == [150, 201]
    free = orrery.jobs(trace, cluster=cluster)
    assert "spend" not in free.power or not free.power["spend"]
    with pytest.raises(orrery.InputError, match="--cluster"):
        orrery.jobs(trace, nodes=1, gpus_per_node=8, power=power)


def test_jobs_that_share_a_gpu(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\n1,0,0.5,100\n2,0,0.46,10\n3,1,1,5\n")
    size = {"nodes": 1, "gpus_per_node": 1}
    assert orrery.jobs(trace, **size).jobs.start_s.tolist() == [0, 0, 100]
    assert orrery.jobs(trace, **size, gpu_slices=1).jobs.start_s.tolist() == [0, 100, 110]
    own = orrery.jobs(trace, **size, policy=FirstSlices(True))
    assert own.jobs.start_s.tolist() == [0, 0, 100]
    with pytest.raises(orrery.InputError, match="an own one that declares gpu_parts"):
        orrery.jobs(trace, **size, policy=FirstSlices(False))
    with pytest.raises(ValueError, match="gpu_slices"):
        orrery.jobs(trace, **size, gpu_slices=1001)


def test_the_logs_own_outcome_of_jobs(tmp_path):
    trace = tmp_path / "starts.csv"
    head = "job_id,submit_s,num_gpus,duration_s,recorded_start_s,vc,user\n"
    trace.write_text(head + "a,0,2,36000,0,vision,ann\nb,0,2,3600,36000,speech,bob\n")
    report = orrery.jobs(trace, nodes=1, gpus_per_node=2, policy="sjf")
    assert report.recorded["queue_mean_s"] == 18000
    assert (report.savings["queue_hours"], report.savings["jobs"]) == (9, 2)
    groups = report.groups.set_index("key")
    assert groups.recorded_queue_mean_s["speech"] == 36000
    waits = report.waits.set_index(["by", "key"])
    assert waits.saved_queue_hours["user", "bob"] == 10
    trace.write_text("job_id,submit_s,num_gpus,duration_s\na,0,2,9\n")
    without = orrery.jobs(trace, nodes=1, gpus_per_node=2)
    assert (without.recorded, without.savings, len(without.waits)) == (None, None, 0)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"nodes": 1}, "the replay has this value"),
        ({"seed": 4}, "nothing is drawn"),
        ({"strict": True}, "the log is read once"),
        ({"estimates": "learned"}, "fifo reads no estimates"),
        ({"estimate_error": 1}, "fifo reads no estimates"),
        ({"conditions": {"repair": "2 h"}}, "no node fails"),
        ({"conditions": {"restart_cost": "60 s"}}, "fifo preempts no job"),
    ],
)
def test_a_change_without_effect_is_refused(tmp_path, change, said):
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\na,0,2,9\nb,0,2,5\n")
    where = {"nodes": 1, "gpus_per_node": 2, "policy": "fifo"}
    with pytest.raises(orrery.UsageError, match=said):
        orrery.jobs(trace, **where, what_if=change)
    with pytest.raises(ValueError, match="not 'record'"):
        orrery.jobs(trace, **where, what_if={"record": "x.log"})
    base = orrery.jobs(trace, **where)
    same = orrery.jobs(trace, **where, what_if={"placement": "consolidated"})
    other = orrery.jobs(trace, **where, what_if={"nodes": 2})
    assert base.schedule_digest == same.schedule_digest != other.schedule_digest


def test_tables_of_jobs(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text(
        "job_id,submit_s,num_gpus,duration_s,vc,user\n007,0,2,100,a,u\n2,0,2,10,a,v\n3,1,9,1,b,v\n"
    )
    report = orrery.jobs(trace, nodes=1, gpus_per_node=2, policy="srtf")
    assert (report.jobs_in, report.jobs_out, report.jobs_rejected) == (3, 3, 1)
    jobs = report.jobs
    assert list(jobs.job_id) == ["007", "2", "3"] and list(jobs.user) == ["u", "v", "v"]
    assert list(jobs.state) == ["completed", "completed", "rejected"]
    assert list(jobs.start_s[:2]) == [10, 0] and jobs.start_s.isna()[2]
    assert jobs.reason[2] == "needs 9 GPUs, there are 2"
    series = report.series
    assert (series.busy_gpus * (series.end_s - series.begin_s)).sum() == pytest.approx(220)
    assert list(report.groups.jobs) == [2, 2]
    told = orrery.jobs(trace, nodes=1, gpus_per_node=2, policy="sjf", estimates="disturbed", seed=7)
    assert told.estimates == "disturbed" and told.estimate_factor_p50 > 1
    with pytest.raises(orrery.Error, match="learned"):
        orrery.jobs(trace, nodes=1, gpus_per_node=2, estimates="lerned")


def test_job_logs_of_other_tools():
    samples = pathlib.Path(__file__).parents[1] / "traces" / "samples"
    log = orrery.job_log(samples / "sacct.txt")
    assert list(log.job_id) == ["1001", "1003_1", "1007"]
    quality = log.attrs["quality"]
    assert quality["rows"] == quality["jobs"] + quality["passed_over"] + quality["rejected"] == 9
    assert orrery.job_log(samples / "sacct.txt", anonymous=True).user[0] == "user-1"
    gavel = orrery.job_log(
        samples / "gavel.trace", throughputs=samples / "gavel_throughputs.json", gpu="v100"
    )
    assert list(gavel.duration_s) == [250, 100]
    with pytest.raises(orrery.Error, match="sacct.txt:9"):
        orrery.job_log(samples / "sacct.txt", strict=True)


def test_nodes_of_several_kinds(tmp_path):
    trace = tmp_path / "kinds.csv"
    trace.write_text(
        "job_id,submit_s,num_gpus,duration_s,gpu_kind,speeds\n"
        "a,0,8,1000,A100,\nb,10,8,300,A100,\nc,20,8,1000,V100|A100,A100:1 V100:0.45\n"
    )
    for policy in ("fifo-skip", "easy"):
        report = orrery.jobs(
            trace, node_kinds={"A100": 1, "V100": 1}, gpus_per_node=8, policy=policy
        )
        assert list(report.jobs.gpu_kind) == ["A100", "A100", "V100"]
        assert list(report.jobs.start_s) == [0, 1000, 20]
    with pytest.raises(orrery.Error, match="tells kinds of GPUs apart"):
        orrery.jobs(trace, node_kinds={"A100": 1, "V100": 1}, gpus_per_node=8, policy="gittins")
    for kinds, said in (({}, "not {}"), ({"A100": 0}, "from 1 to"), ({"A100": 1}, "in place of")):
        nodes = 2 if said == "in place of" else None
        with pytest.raises(ValueError, match=said):
            orrery.jobs(trace, nodes=nodes, node_kinds=kinds, gpus_per_node=8)


def test_a_log_without_a_header(tmp_path):
    log = tmp_path / "sacct.txt"
    log.write_text(
        "1;2024-03-01T08:00:00;2024-03-01T08:05:00;2024-03-01T10:05:00;gres/gpu=2\n"
    )
    table = orrery.job_log(log, columns="JobID,Submit,Start,End,AllocTRES")
    assert list(table.num_gpus) == [2] and list(table.duration_s) == [7200]
    with pytest.raises(orrery.Error, match="--columns JobID"):
        orrery.job_log(log)


def test_a_cluster_that_cannot_be_is_refused(tmp_path):
    for nodes, per_node in ((-3, 8), (0, 8), (3, 129), ("3", 8), (3, 1.5)):
        with pytest.raises(ValueError, match="is a whole number from 1 to"):
            orrery.jobs(tmp_path / "trace.csv", nodes=nodes, gpus_per_node=per_node)


def test_jobs_that_never_ran_are_not_known(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\n1,0,2,100\n")
    report = orrery.jobs(trace, nodes=1, gpus_per_node=2, policy="static")
    assert report.jct_mean_s is None
    assert "0 of 1 jobs" in repr(report)
    assert "0 of 1" in report._repr_html_() and "None" not in report._repr_html_()


def test_jobs_under_conditions(tmp_path):
    trace = tmp_path / "trace.csv"
    rows = "1,0,2,100,0\n2,10,2,20,1\n"
    trace.write_text("job_id,submit_s,num_gpus,duration_s,priority\n" + rows)
    where = {"nodes": 1, "gpus_per_node": 2, "policy": "priority"}
    free = orrery.jobs(trace, **where)
    costly = orrery.jobs(trace, **where, conditions={"restart_cost": "30 s"})
    assert (free.makespan_s, costly.makespan_s) == (120, 150)
    assert list(costly.jobs.lost_s) == [30, 0]
    with pytest.raises(orrery.InputError, match="restart_cost"):
        orrery.jobs(trace, **where, conditions={"restart_costs": "30 s"})
    with pytest.raises(ValueError, match="nodes is a whole number"):
        orrery.jobs(trace)


def test_jobs_of_simulated_speed(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_s,num_gpus,duration_s\n1,0,64,1000\n2,0,64,1000\n")
    cluster = tmp_path / "cluster.yaml"
    spine = "fabric: {nodes_per_unit: 6, spines: 1, spine_link_bandwidth: 50 Gbps}"
    cluster.write_text(f"preset: dgx-h100\nnodes: 24\n{spine}\n")
    job = {
        "model": {"preset": "llama3-8b"}, "sequence_length": 2048, "global_batch": 64,
        "layout": {"tensor": 8, "data": 8}, "overlap": False,
    }  # fmt: skip
    conditions = {"speed": "simulated", "kinds": [{"job": job}]}
    where = {"cluster": cluster, "conditions": conditions}
    count = orrery.jobs(trace, **where)
    apart = orrery.jobs(trace, placement="topology", **where)
    assert (count.nodes, count.gpus_per_node) == (24, 8)
    assert count.slowdown_mean > 1.2
    assert apart.slowdown_max == 1 and apart.jct_mean_s == 1000

    class First(orrery.Policy):
        def needs(self):
            return orrery.Needs(actions={"Assign"})

        def observe(self, seen, decisions):
            for job in seen.jobs.values():
                if job.phase == "waiting":
                    first = 64 * job.id
                    decisions.add(orrery.actions.Assign(job, gpus=[range(first, first + 64)]))

    assert orrery.jobs(trace, policy=First(), **where).jct_mean_s == count.jct_mean_s
