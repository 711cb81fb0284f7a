"""A profile of this machine, measured, written, and used in place of a cluster."""

import csv
import io
import json
import pathlib

import pytest

from conftest import STRAGGLER, orrery

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    path = tmp_path_factory.mktemp("machine") / "profile.yaml"
    result = orrery("calibrate", "-o", path, "--ranks", "2", "--quick", "--tolerance", "9")
    assert result.returncode == 0, result.stderr
    assert "GFLOP/s" in result.stdout and "2 ranks" in result.stdout
    return path


def simulated(*arguments):
    result = orrery("simulate", STRAGGLER, "--json", "--set", "faults=[]", *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_profile_prices_what_the_catalogue_cannot(profile):
    measured, catalogue = simulated("--machine", profile), simulated()
    assert measured["phases"]["compute_s"] == catalogue["phases"]["compute_s"]
    assert measured["phases"]["exchange_s"] > 10 * catalogue["phases"]["exchange_s"]
    assert measured["phases"]["rest_s"] > 0
    assert measured["bytes_on_wire"] == catalogue["bytes_on_wire"]


def test_full_detail_agrees_on_a_measured_machine(profile):
    quick = ["--machine", profile, "--set", "run.steps=3", "--set", "noise.compute_cv=0"]
    assert simulated(*quick)["step_time_s"] == pytest.approx(
        simulated(*quick, "--detail", "full")["step_time_s"], rel=1e-6
    )


def test_a_wrong_profile_is_told_with_its_place(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: none\n")
    result = orrery("simulate", STRAGGLER, "--machine", bad)
    assert result.returncode == 3
    assert "bad.yaml:1" in result.stderr
    assert "expected a profile that `orrery calibrate -o` wrote" in result.stderr


def test_a_profile_that_cannot_be_written(tmp_path):
    result = orrery("calibrate", "-o", tmp_path / "no" / "profile.yaml", "--quick")
    assert result.returncode == 4
    assert "cannot write" in result.stderr and "No such file or directory" in result.stderr


def test_a_way_of_sums_needs_a_program_and_a_known_name(tmp_path):
    out = tmp_path / "train.yaml"
    result = orrery("calibrate", "-o", out, "--sums", "sockets")
    assert result.returncode == 2
    assert "--sums requires PROGRAM" in result.stderr
    result = orrery("calibrate", "-o", out, "--sums", "socket", "--", "python", "train.py")
    assert result.returncode == 2
    assert "--sums" in result.stderr and "did you mean 'sockets'?" in result.stderr
    assert not out.exists()


def test_a_machine_too_busy_to_be_measured_gets_no_profile(tmp_path):
    # No fit is exact: a demand for too much precision imitates a busy machine.
    profile = tmp_path / "p.yaml"
    profile.write_text("an older one\n")
    result = orrery("calibrate", "-o", profile, "--quick", "--tolerance", "0")
    assert (result.returncode, result.stdout) == (1, "")
    assert "no profile written" in result.stderr and "try again when it is quiet" in result.stderr
    assert list(tmp_path.iterdir()) == [profile]
    assert profile.read_text() == "an older one\n"


def test_one_rank_has_no_links():
    assert orrery("calibrate", "-o", "x", "--ranks", "1").returncode == 2


KERNELS = """\
gpu,op,peak_tflops,efficiency,shape
B200-SXM,matmul,2250.0,{eff},"b=1, m=4096, k=8192, n=10240, layout=TN, accumulate=False"
B200-SXM,matmul,2250.0,{eff},"b=1, m=4096, k=10240, n=8192, layout=NN, accumulate=False"
B200-SXM,matmul,2250.0,{eff},"b=1, m=10240, k=4096, n=8192, layout=NT, accumulate=True"
B200-SXM,bandwidth:default,,0.666,"gbps=8000.0, latency_us=30"
B200-SXM,network:inter_node:p2p,,,"{{efficient_factor: 1, gbps: 200}}"
"""
ASKED = ["--model", "llama3-8b", "--gpus", "8", "--sequence-length", "4096", "--global-batch", "8"]


def node_file(folder, efficiency):
    table, out = folder / f"{efficiency}.csv", folder / f"{efficiency}.yaml"
    table.write_text(KERNELS.format(eff=efficiency))
    result = orrery("calibrate", "--kernels", table, "--gpu", "B200", "-o", out)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("B200: 3 products, 0 attentions, 1 memory-bound operators")
    return out


def fastest(*arguments):
    result = orrery("layouts", *ASKED, "--cluster", "dgx-b200", "--json", "--top", "1", *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["layouts"][0]["iter_time_s"]


def test_measured_kernels_price_layouts_in_proportion(tmp_path):
    slow, fast = (node_file(tmp_path, efficiency) for efficiency in (0.25, 0.5))
    ratio = fastest("--kernels", slow) / fastest("--kernels", fast)
    assert 1.4 < ratio < 2  # everything but the products stays


def test_measured_kernels_price_a_simulated_step_as_layouts_does(tmp_path):
    node, scenario = node_file(tmp_path, 0.4), tmp_path / "best.yaml"
    seconds = fastest("--kernels", node, "--scenario", scenario)
    result = orrery("simulate", scenario, "--kernels", node, "--json")
    assert result.returncode == 0, result.stderr
    assert abs(json.loads(result.stdout)["step_time_s"] / seconds - 1) < 1e-3
    plain = json.loads(orrery("simulate", scenario, "--json").stdout)
    assert plain["step_time_s"] < 0.9 * seconds
    other = orrery("simulate", scenario, "--kernels", node, "--set", "cluster.node.gpu=H100")
    assert other.returncode == 3 and "expected GPUs of the model B200" in other.stderr
    paced = orrery("simulate", "straggler-4-ranks", "--kernels", node)
    assert paced.returncode == 3 and "other work has no priced kernels" in paced.stderr


def test_measured_kernels_price_a_table_of_runs(tmp_path):
    runs = tmp_path / "runs.csv"
    header, row = (HERE / "samples" / "runs.csv").read_text().splitlines()[:2]
    runs.write_text(f"{header}\n{row.replace('A100-SXM4-80GB', 'B200-SXM')}\n")

    def seconds(efficiency):
        result = orrery("predict", runs, "--kernels", node_file(tmp_path, efficiency))
        assert result.returncode == 0, result.stderr
        return float(next(csv.DictReader(io.StringIO(result.stdout)))["iter_time_s"])

    assert 1.2 < seconds(0.25) / seconds(0.5) < 2


def test_another_gpu_is_refused(tmp_path):
    result = orrery("layouts", *ASKED, "--cluster", "dgx-h100", "--kernels",
                    node_file(tmp_path, 0.5))
    assert result.returncode == 3
    assert "expected GPUs of the model B200" in result.stderr and "found H100" in result.stderr


def test_a_wrong_table_is_told_with_its_place(tmp_path):
    table = tmp_path / "bad.csv"
    table.write_text("gpu,op,peak_tflops,efficiency,shape\n"
                     'B200-SXM,matmull,2250,0.5,"b=1, m=1, k=1, n=1, layout=TN"\n')
    result = orrery("calibrate", "--kernels", table, "-o", tmp_path / "out.yaml")
    assert result.returncode == 3
    assert "bad.csv:2:10: error:" in result.stderr and "did you mean 'matmul'" in result.stderr
    assert not (tmp_path / "out.yaml").exists()
