"""orrery pack: shared GPUs of several kinds."""

import json

import pandas as pd
from conftest import data_file, orrery

PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn,64000,65536,4,T4\n"


def files(folder, pods):
    (folder / "pods.csv").write_text(PODS + pods)
    (folder / "nodes.csv").write_text(NODES)
    return folder / "pods.csv", "--nodes", folder / "nodes.csv"


def test_the_table_and_the_curve(tmp_path):
    given = files(tmp_path, "a,1000,1024,1,300,\nb,2000,1024,1,1000,T4\nc,1000,1024,2,1000,\n")
    curve = tmp_path / "curve.csv"
    result = orrery("pack", *given, "--seeds", 3, "--demand", 1.2, "--out", curve)
    assert result.returncode == 0, result.stderr
    rows = [line.split()[0] for line in result.stdout.splitlines() if line]
    assert rows[2:] == ["random", "dot-product", "best-fit", "fgd"]
    table = pd.read_csv(curve)
    assert len(table) == 4 * 3 * 121
    assert table.allocated_percent.max() <= 100
    monotone = table.groupby(["policy", "seed"]).allocated_percent.is_monotonic_increasing
    assert monotone.all()


def test_json_of_the_published_experiment():
    pods = data_file("jobs/openb2023", "openb_pod_list_default.csv.gz")
    nodes = data_file("jobs/openb2023", "openb_node_list_gpu_node.csv.gz")
    result = orrery("pack", pods, "--nodes", nodes, "--seeds", 2, "--json")
    rows = {row["policy"]: row["allocated"] for row in json.loads(result.stdout)}
    assert 0.86 < rows["random"] < rows["dot-product"] < rows["best-fit"] < rows["fgd"] < 0.96


def test_bad_input(tmp_path):
    result = orrery("pack", *files(tmp_path, "a,1000,1024,1,3000,\n"))
    assert result.returncode == 3
    assert "pods.csv:2:15" in result.stderr
    assert orrery("pack", *files(tmp_path, "a,1,1,0,0,\n"), "--policy", "fdg").returncode == 2
    result = orrery("pack", *files(tmp_path, "a,1,1,0,0,\n"))
    assert result.returncode == 3
    assert "no pod that needs GPUs" in result.stderr
