"""Job logs from public repositories, and the samples and logs of ORRERY_DATA, as `orrery import
jobs` reads them: one line for each, with the rows, or with the refusal. Fetches the logs once, at
fixed revisions, into a folder. Run by `python3 tests/bench/public_logs.py FOLDER`; asserts
nothing."""

import json
import os
import pathlib
import subprocess
import sys
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("ORRERY_DATA", ROOT.parent / "shared" / "data")) / "jobs"
ORRERY = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build")) / "bin" / "orrery"

TIRESIAS = ("SymbioticLab/Tiresias", "959f9b08f44fa1b4f2b3aed79b01e4d439264a94")
ELASTICFLOW = ("pkusys/ElasticFlow", "04a0109a6acdd7d89f4cb31b6a6a7a128bee6bb0")
SHOCKWAVE = ("uw-mad-dash/shockwave", "8a44f4a27a45760520386809b695d51b665b3679")
MURI = ("Rivendile/Muri", "4e69a78ce75f629a5a00abd48150a1860b341ce6")
SIA = ("siasosp23/artifacts", "aaf7a0de7b6cb5eab06ea020467ede5d2fd18e70")
BATSIM = ("oar-team/batsim", "ba7ea85fa20e81415e2f52290b56120192504553")
ALIBABA = ("alibaba/clusterdata", "7a6c496e4f4b6ce6150be8f881cb051bf2abff42")
DYNAMIC = "0.2_5_100_40_25_0,0.5,0.5_0.6,0.3,0.09,0.01_multigpu_dynamic"

#: Repository and path.
LOGS = [
    (TIRESIAS, "simulator/60_job.csv"),
    (TIRESIAS, "simulator/tf_job.csv"),
    (TIRESIAS, "simulator/yarn-gput1000.csv"),
    (ELASTICFLOW, "ElasticFlow/traces_for_ElasticFlow/elasticVpollux_e.csv"),
    (ELASTICFLOW, "ElasticFlow/traces_for_ElasticFlow/philly_103959.csv"),
    (ELASTICFLOW, "ElasticFlow/traces_for_ElasticFlow/resnet_cifar_trace.csv"),
    (SHOCKWAVE, f"scheduler/traces/reproduce/120_{DYNAMIC}.trace"),
    (MURI, "cluster_exp/trace-data/cluster_trace.csv"),
    (MURI, "simulator/trace-data/trace1.csv"),
    (SIA, "sia-simulator/workloads/philly/workload-1.csv"),
    (SIA, "sia-simulator/traces/philly.csv"),
    (BATSIM, "workloads/test_delays.json"),
    (BATSIM, "workloads/test_walltime.json"),
    (BATSIM, "workloads/example_workload_hpc_seed1_jobs250.json"),
    (ALIBABA, "cluster-trace-gpu-v2023/csv/openb_pod_list_default.csv"),
    (ALIBABA, "cluster-trace-gpu-v2025/disaggregated_DLRM_trace.csv"),
]


def fetched(folder, repository, path):
    """Returns the log in the folder; fetches it if it is not there."""
    name, revision = repository
    kept = folder / name.replace("/", "+") / path
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        address = f"https://raw.githubusercontent.com/{name}/{revision}/{urllib.parse.quote(path)}"
        with urllib.request.urlopen(address, timeout=60) as answer:
            kept.write_bytes(answer.read())
    return kept


def result(log, out):
    """Returns the format and the rows of a log, or the message of its refusal. Gavel's traces have
    steps, so that they need the table of their throughputs."""
    command = [ORRERY, "import", "jobs", log, "-o", out, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    throughputs = DATA / "gavel_simulation_throughputs.json.gz"
    options = ""
    if "--throughputs" in done.stderr and throughputs.exists():
        options = ", with `--throughputs`"
        done = subprocess.run(
            [*command, "--throughputs", throughputs], capture_output=True, text=True
        )
    if done.returncode != 0:
        said = done.stderr.splitlines()[0].partition(" error: ")[2]
        return "refused", said.replace("|", "\\|")
    report = json.loads(done.stdout)
    rows = {each: report[each] for each in ("rows", "jobs", "passed_over", "rejected")}
    counts = ", ".join(f"{count:,} {each}" for each, count in rows.items())
    return report["format"], counts.replace("_", " ") + options


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    print("| repository | log | format | |")
    print("|---|---|---|---|")
    for repository, path in LOGS:
        form, what = result(fetched(folder, repository, path), folder / "jobs.csv")
        print(f"| {repository[0]} | `{pathlib.Path(path).name}` | {form} | {what} |")
    for log in sorted((DATA / "samples").glob("*")):
        form, what = result(log, folder / "jobs.csv")
        print(f"| `ORRERY_DATA`, `samples` | `{log.name}` | {form} | {what} |")


if __name__ == "__main__":
    main()
