"""The table of columns that the import ignores, in docs/jobs.md, beside the import itself: a change
of an ignored column has no effect on the jobs, a change of any other column has one."""

import re

import pytest
from conftest import ROOT, orrery

THROUGHPUTS = ROOT / "tests" / "traces" / "samples" / "gavel_throughputs.json"
DATE = "2024-03-01 08:{:02}:00"
SLURM = "2024-03-01T08:{:02}:00"
GAVEL = {
    "job_type": "LM (batch size 5)", "command": "python main.py", "working_directory": "lm",
    "num_steps_arg": "--steps", "needs_data_dir": "1", "total_steps": "4000", "scale_factor": "4",
    "priority_weight": "1.0", "slo": "-1.0", "arrival_time": "5.5",
}  # fmt: skip
GAVEL_OF_7 = ("job_type", "command", "num_steps_arg", "needs_data_dir", "total_steps",
              "arrival_time", "scale_factor")  # fmt: skip

#: Name in the table, separator, header, and one job with all columns that its tool writes. Columns
#: of sacct that are read in place of others are left out.
FORMATS = {
    "sacct": ("sacct", "|", True, {
        "JobID": "1", "JobName": "train", "User": "ann", "Partition": "a100", "Account": "vision",
        "QOS": "high", "Priority": "7", "Submit": SLURM.format(0), "Eligible": SLURM.format(1),
        "Start": SLURM.format(2), "End": SLURM.format(9), "AllocTRES": "cpu=8,gres/gpu=2",
        "TimelimitRaw": "60", "State": "COMPLETED", "ExitCode": "0:0", "DerivedExitCode": "0:0",
        "Reason": "None", "Reservation": "r", "Elapsed": "00:07:00", "ElapsedRaw": "420",
        "Suspended": "00:00:00", "Planned": "00:02:00", "ReqMem": "8G", "ReqCPUS": "8",
        "AllocCPUS": "8", "NCPUS": "8", "MaxRSS": "1K", "AveRSS": "1K", "CPUTime": "00:56:00",
        "CPUTimeRAW": "3360", "TotalCPU": "00:50:00", "ConsumedEnergy": "5",
        "ConsumedEnergyRaw": "5", "NodeList": "gpu[1-2]", "FailedNode": "None", "Cluster": "c",
        "Group": "g", "UID": "1000", "WCKey": "w", "Constraints": "x", "Flags": "SchedMain",
        "Comment": "c", "AdminComment": "a", "WorkDir": "/home", "SubmitLine": "sbatch a.sh",
    }),
    "philly": ("Philly", ",", True, {
        "timestamp": DATE.format(0), "duration": "66.0", "num_gpus": "2", "gpu_time": "132.0",
        "cluster": "11cb48",
    }),
    "helios": ("Helios", ",", True, {
        "job_id": "1", "user": "u", "vc": "v", "gpu_num": "8", "cpu_num": "32", "node_num": "1",
        "state": "COMPLETED", "submit_time": DATE.format(0), "start_time": DATE.format(1),
        "end_time": DATE.format(2), "duration": "60", "queue": "60",
    }),
    "acme": ("Acme", ",", True, {
        "job_id": "k1", "user": "u", "node_num": "8", "gpu_num": "64", "cpu_num": "880",
        "mem_per_pod_GB": "800.0", "shared_mem_per_pod": "100.0", "type": "Other",
        "state": "FAILED", "submit_time": DATE.format(0), "start_time": DATE.format(1),
        "end_time": DATE.format(2), "fail_time": DATE.format(2), "stop_time": DATE.format(2),
        "duration": "60.0", "queue": "60.0", "gpu_time": "3840.0",
    }),
    "openb": ("openb", ",", True, {
        "name": "pod", "cpu_milli": "12000", "memory_mib": "16384", "num_gpu": "1",
        "gpu_milli": "460", "gpu_spec": "V100M16", "qos": "LS", "pod_phase": "Succeeded",
        "creation_time": "100", "deletion_time": "200", "scheduled_time": "110",
    }),
    "gfs": ("GFS", ",", True, {
        "job_name": "j", "organization": "o", "gpu_model": "A100", "cpu_request": "32",
        "gpu_request": "8", "worker_num": "4", "submit_time": "120", "duration": "3600",
        "job_type": "HP",
    }),
    "dlrm": ("DLRM", ",", True, {
        "instance_sn": "i", "role": "HN", "app_name": "a", "cpu_request": "12", "cpu_limit": "12",
        "gpu_request": "1", "gpu_limit": "1", "rdma_request": "25", "rdma_limit": "25",
        "memory_request": "100.0", "memory_limit": "100.0", "disk_request": "600.0",
        "disk_limit": "800.0", "max_instance_per_node": "8", "creation_time": "3600.0",
        "scheduled_time": "3605.0", "deletion_time": "7205.0",
    }),
    "tiresias": ("Tiresias", ",", True, {
        "job_id": "0", "num_gpu": "1", "submit_time": "0", "iterations": "606",
        "model_name": "vgg19", "duration": "164", "interval": "30", "start_time": "5",
        "model_size": "20", "aggr_interval": "3", "model_scale": "1",
    }),
    "muri": ("Muri", ",", True, {
        "job_id": "0", "num_gpu": "16", "submit_time": "0", "iterations": "4378",
        "model_name": "vgg16", "batch_size": "16", "duration": "1453510000", "interval": "3840000",
        "iteration_time": "332", "resource_time_0": "83", "resource_time_1": "68",
        "resource_time_2": "110", "priority": "0",
    }),
    "elasticflow": ("ElasticFlow", ",", True, {
        "job_id": "0", "submit_time": "3715485", "iteration": "2011", "model_name": "cifar10",
        "ddl": "3719996", "batch_size": "4096", "num_gpu": "1", "duration": "5644",
        "real_iteration": "2011", "real_duration": "5644", "best_effort": "0",
    }),
    "sia": ("Sia, Pollux", ",", True, {
        "name": "bert-0", "time": "487.66", "application": "bert", "num_replicas": "12",
        "batch_size": "384", "duration": "900", "min_gpus": "1", "max_gpus": "16",
        "scaling": "0.9",
    }),
    "gavel, 7 columns": ("Gavel", "\t", False, {name: GAVEL[name] for name in GAVEL_OF_7}),
    "gavel, 10 columns": ("Gavel", "\t", False, GAVEL),
    "shockwave": ("Shockwave", "\t", False, {
        "job_type": "LM", "command": "python main.py", "working_directory": "lm",
        "num_steps_arg": "--steps", "needs_data_dir": "1", "total_steps": "134583",
        "scale_factor": "1", "mode": "gns", "priority_weight": "1", "slo": "-1.0",
        "duration": "1418", "arrival_time": "0",
    }),
    "swf": ("SWF", " ", False, {
        "job": "7", "submit": "0", "wait": "5", "run_time": "9", "processors": "4",
        "cpu_time": "8", "memory": "3", "requested_processors": "4", "requested_time": "60",
        "requested_memory": "3", "status": "1", "user": "12", "group": "2", "executable": "3",
        "queue": "1", "partition": "1", "preceding_job": "2", "think_time": "6",
    }),
}  # fmt: skip


def documented():
    """Names in the second column of the table, by the first column."""
    page = (ROOT / "docs" / "jobs.md").read_text()
    section = page.split("### Columns that are not read")[1].split("\n### ")[0]
    named, log = {}, None
    for line in section.splitlines():
        if not line.startswith("| ") or line.startswith("| log "):
            continue
        first, second = line.split("|")[1:3]
        log = first.strip().strip("`") or log
        named.setdefault(log, set()).update(re.findall(r"`([^`]+)`", second))
    # The virtual cluster is one of both columns.
    return {log: names - {"Partition"} for log, names in named.items()}


def imported(folder, mark, header, job):
    """Exit status, counts of the rows and canonical form of a log with one job."""
    text = mark.join(job.values()) + "\n"
    if header:
        text = mark.join(job) + "\n" + text
    (folder / "log").write_text(text)
    out = folder / "jobs.csv"
    out.write_text("")
    result = orrery(
        "import", "jobs", folder / "log", "-o", out, "--json", "--throughputs", THROUGHPUTS
    )
    return result.returncode, result.stdout, out.read_text()


@pytest.mark.parametrize("name", FORMATS)
def test_a_column_has_no_effect_exactly_if_the_page_names_it(tmp_path, name):
    log, mark, header, job = FORMATS[name]
    before = imported(tmp_path, mark, header, job)
    assert before[0] == 0 and '"jobs": 1' in before[1], before
    ignored = {
        column
        for column in job
        if imported(tmp_path, mark, header, {**job, column: "zzz"}) == before
    }
    assert ignored == documented()[log] & set(job), name
    assert ignored, "each format has columns that are not read"


def test_every_format_that_is_read_stands_in_the_table():
    logs = documented()
    assert {entry[0] for entry in FORMATS.values()} <= set(logs)
    named = {name for names in logs.values() for name in names}
    columns = {column for entry in FORMATS.values() for column in entry[3]}
    # Keys of JSON, a column that not every version of sacct has, and a column of other formats.
    assert named - columns == {"Dependency", "nb_res", "status"} - columns
