"""orrery calibrate -- PROGRAM: recorded PyTorch programs, their forecasts and their real runs.

No assertion on how close a forecast is: a busy machine is not a defect. `./dev bench programs`
prints the errors.
"""

import json
import re
import statistics
import subprocess

import pytest
from run_programs_test import PATIENCE, PROGRAM, PROGRAMS, TORCH, environment

#: Declared compute of a step, in seconds.
SLEEP_S = 0.03

pytestmark = pytest.mark.skipif(
    not TORCH.exists(), reason=f"no PyTorch at {TORCH}: ./dev torch installs it"
)


def orrery(*words, steps=100000):
    """Runs the command line with PyTorch's Python in PATH."""
    return subprocess.run(
        [PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE,
        env={**environment(steps), "SLEEP_S": str(SLEEP_S)},
    )  # fmt: skip


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    scenario = tmp_path_factory.mktemp("calibrated") / "ddp.yaml"
    result = orrery("calibrate", "-o", scenario, "-n", 2, "--steps", 12, "--", "python",
                    PROGRAMS / "ddp.py")  # fmt: skip
    assert result.returncode == 0, result.stderr
    return scenario, result.stdout


def test_a_step_has_the_declared_compute_and_the_gradients_of_the_program(calibrated):
    scenario, text = calibrated
    step_ms = float(re.search(r"step +([\d.]+) ms", text).group(1))
    compute_ms = float(re.search(r"compute +([\d.]+) ms, 1 backward pass\n", text).group(1))
    assert SLEEP_S * 1e3 <= compute_ms <= step_ms
    ranks = re.findall(r"^(\d) +([\d.]+) ms +([\d.]+) ms +([\d.]+) ms$", text, re.MULTILINE)
    assert [rank for rank, *_ in ranks] == ["0", "1"]
    assert all(SLEEP_S * 1e3 <= float(own_ms) <= step_ms for _, own_ms, _, _ in ranks)
    checked = orrery("check", scenario)
    assert checked.returncode == 0, checked.stderr
    keys = [line for line in scenario.read_text().splitlines() if not line.startswith("#")]
    assert keys[0] == 'format: "1.1"'
    recording = (scenario.parent / "ddp.0.et").read_bytes().decode("latin-1")
    step = json.loads(recording[recording.index("{") :])
    sizes = [op["bytes"] for op in step["ops"] if op.get("collective") == "all_reduce"]
    values = 256 * 8 + (64 + 1) * 128 + 2 * 128 + (128 + 1) * 256  # table, layers, BatchNorm
    assert sum(sizes) == 4 * values + 8  # 8 bytes: number of tokens
    assert step["ranks"] == 2
    assert step["parameter_bytes"] == 4 * values
    assert step["optimizer_bytes"] >= 8 * values  # two moments


def test_the_memory_of_a_rank_is_that_of_its_process(calibrated):
    recording = (calibrated[0].parent / "ddp.0.et").read_bytes().decode("latin-1")
    peak = json.loads(recording[recording.index("{") :])["peak_bytes"]
    forecast = json.loads(orrery("simulate", calibrated[0], "--json").stdout)
    assert forecast["memory_per_gpu_bytes"] == pytest.approx(peak)  # no context of a GPU beside it


#: Policy that sends the gradients of ddp.py, 4 bytes a value, as one byte a value.
CODED = "policies=[{name: fixed-codec, parameters: {rules: [{codec: int8}]}}]"


def test_a_policy_decides_in_both_worlds_and_its_gain_is_printed(calibrated):
    options = ["--set", "run.steps=60", "--set", CODED, "--tolerance", 9]
    result = orrery("compare", calibrated[0], *options, "--json")
    assert result.returncode == 0, result.stderr
    (seen,) = json.loads(result.stdout)["runs"]
    assert seen["policies"] == ["fixed-codec"]
    assert set(seen["gain"]) == {"predicted", "measured"}
    plain = seen["without_policies"]
    assert plain["scenario"] == "ddp without policies"
    for world in ("predicted", "measured"):
        assert seen[world]["decisions"] >= 1
        assert plain[world].get("decisions", 0) == 0
        assert seen[world]["bytes_on_wire"] < 0.7 * plain[world]["bytes_on_wire"]
    text = orrery("compare", calibrated[0], *options).stdout
    assert text.index("ddp without policies: 2 ranks") < text.index("\nddp: 2 ranks")
    assert re.search(r"gain of fixed-codec: predicted [+-][\d.]+%, measured [+-][\d.]+%", text)


def test_the_bytes_of_gradients_are_as_forecast(calibrated, tmp_path):
    steps, policies = 60, tmp_path / "policies.yaml"
    policies.write_text(CODED.replace("=", ": ") + "\n")
    forecast, real = {}, {}
    for coded in (False, True):
        words = ["--set", CODED] if coded else []
        result = orrery("simulate", calibrated[0], "--set", f"run.steps={steps}", *words, "--json")
        forecast[coded] = json.loads(result.stdout)["bytes_on_wire"]
        words = ["--scenario", policies] if coded else []
        result = orrery("run", "-n", 2, "--json", *words, "--", "python", PROGRAMS / "ddp.py",
                        steps=steps)  # fmt: skip
        assert result.returncode == 0, result.stderr
        real[coded] = json.loads(result.stdout)["bytes_on_wire"]
    assert real[False] == pytest.approx(forecast[False])
    # The program decides in its first step, whose gradients are on their way by then.
    uncoded = (forecast[False] - forecast[True]) / steps
    # The ranks round their parts of a bucket to whole blocks of values, the forecast all buckets.
    assert real[True] == pytest.approx(forecast[True] + uncoded, rel=1e-3)


def test_a_policy_that_needs_more_than_the_program_has_ends_the_comparison(calibrated):
    result = orrery("compare", calibrated[0], "--set", "run.steps=12",
                    "--set", "policies=[{name: checkpoint-interval}]")  # fmt: skip
    assert (result.returncode, result.stdout) == (4, "")
    assert "'checkpoint-interval' needs a part that this program lacks" in result.stderr


def test_pytorchs_own_tools_record_steps_on_request(tmp_path):
    traces = tmp_path / "traces"
    result = orrery("calibrate", "-o", tmp_path / "ddp.yaml", "-n", 2, "--steps", 12,
                    "--traces", traces, "--", "python", PROGRAMS / "ddp.py")  # fmt: skip
    assert (result.returncode, result.stderr.count("warning")) == (0, 0), result.stderr
    assert f"traced steps, which take longer: {traces / 'ddp.yaml'}\n" in result.stdout
    assert "mean of 2 of 2 steps\n" in result.stdout
    for rank in range(2):
        assert json.loads((traces / f"et.{rank}.json").read_text())["nodes"]
        assert json.loads((traces / f"kineto.{rank}.json").read_text())["traceEvents"]
    bytes_of = {}
    for folder in (tmp_path, traces):
        recording = (folder / "ddp.0.et").read_bytes().decode("latin-1")
        ops = json.loads(recording[recording.index("{") :])["ops"]
        bytes_of[folder] = [op["bytes"] for op in ops if op.get("collective")]
    # A recorded step begins with a forward pass, behind the counts of tokens.
    assert sorted(bytes_of[traces]) == sorted(bytes_of[tmp_path])
    report = json.loads(orrery("simulate", traces / "ddp.yaml", "--json").stdout)
    assert report["step_time_s"] >= SLEEP_S


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_calibrated_scenario_runs_in_both_worlds(calibrated, ranks):
    result = orrery("compare", calibrated[0], "--ranks", ranks, "--set", "run.steps=12", "--json",
                    "--tolerance", 9)  # fmt: skip
    assert result.returncode == 0, result.stderr
    (seen,) = json.loads(result.stdout)["runs"]
    assert seen["ranks"] == ranks
    assert seen["predicted"]["step_time_s"] >= SLEEP_S
    assert seen["measured"]["step_time_s"] >= SLEEP_S


@pytest.mark.parametrize("sums", ["memory", "sockets"])
def test_a_comparison_adds_tensors_as_the_calibration_did(tmp_path, sums):
    def paths(text):
        return re.findall(r"shared memory (\w+)", text)

    is_shared, scenario = [str(sums == "memory")] * 2, tmp_path / "sums.yaml"
    option = [] if sums == "memory" else ["--sums", sums]
    result = orrery("calibrate", "-o", scenario, "-n", 2, "--steps", 12, *option, "--", "python",
                    PROGRAMS / "sum_path.py")  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert paths(result.stderr) == is_shared
    assert f"\nsums         {sums}, on the CPU\n" in result.stdout
    assert f"], sums: {sums}}}\n" in scenario.read_text()
    options = ["--set", "run.steps=12", "--tolerance", 9]
    result = orrery("compare", scenario, *options)
    assert result.returncode == 0, result.stderr
    assert paths(result.stderr) == is_shared
    if sums == "sockets":
        other = orrery("compare", scenario, *options, "--set", "job.program.sums=memory")
        assert paths(other.stderr) == ["True", "True"]


def test_shares_of_a_calibrated_program_are_forecast_by_examples(tmp_path):
    scenario = tmp_path / "shares.yaml"
    result = subprocess.run(
        [PROGRAM, "calibrate", "-o", scenario, "-n", "2", "--steps", "8", "--per-example", "--",
         "python", PROGRAMS / "shares.py"],
        capture_output=True, text=True, timeout=PATIENCE,
        env={**environment(100000), "EXAMPLE_S": "0.005", "BATCH": "8"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "micro-batch  one example of each batch of 8" in result.stdout
    step_s = float(re.search(r"step +([\d.]+) ms", result.stdout).group(1)) / 1e3

    def forecast_s(*options):
        text = orrery("simulate", scenario, "--json", "--set", "run.steps=30", *options).stdout
        return statistics.median(json.loads(text)["step_times_s"][-10:])

    slow = ("--set", "faults=[{at_step: 1, rank: 1, slow: 4}]")
    assert forecast_s() == pytest.approx(step_s, rel=0.1)  # the exchange is fitted
    assert forecast_s(*slow) == pytest.approx(4 * step_s, rel=0.1)
    # 13 and 3 examples in place of 8 and 8: the first rank is the slower one then.
    rebalanced_s = forecast_s(*slow, "--policy", "predictive-rebalance")
    assert rebalanced_s == pytest.approx(13 / 8 * step_s, rel=0.1)


def test_sharded_programs_have_no_forecast_by_examples(tmp_path):
    result = orrery("calibrate", "-o", tmp_path / "fsdp.yaml", "-n", 2, "--steps", 8,
                    "--per-example", "--", "python", PROGRAMS / "fsdp.py")  # fmt: skip
    assert result.returncode == 4
    assert "--per-example: expected " in result.stderr
    assert not (tmp_path / "fsdp.yaml").exists()


def test_a_kill_of_the_scenario_happens_in_both_worlds(calibrated):
    result = orrery("compare", calibrated[0], "--set", "run.steps=16", "--json", "--tolerance", 9,
                    "--set", "faults=[{at_step: 8, rank: 1, kill: true}]")  # fmt: skip
    assert result.returncode == 0, result.stderr
    (seen,) = json.loads(result.stdout)["runs"]
    assert seen["measured"]["ranks_at_end"] == 1
    assert len(seen["predicted"]["lost_s"]) == len(seen["measured"]["lost_s"]) == 1
    assert "rank 1 lost" in result.stderr


def test_a_kill_that_ends_a_sharded_program_ends_the_comparison_with_the_operation(tmp_path):
    scenario = tmp_path / "fsdp.yaml"
    result = orrery("calibrate", "-o", scenario, "-n", 2, "--steps", 12, "--", "python",
                    PROGRAMS / "fsdp.py")  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "lost ranks   end the program: reduce_scatter is not carried" in result.stdout
    kill = ["--set", "run.steps=16", "--set", "faults=[{at_step: 8, rank: 1, kill: true}]"]
    forecast = json.loads(orrery("simulate", scenario, *kill, "--json").stdout)
    assert forecast["steps_completed"] == 8
    compared = orrery("compare", scenario, *kill, "--tolerance", 9)
    assert (compared.returncode, compared.stdout) == (4, ""), compared.stderr
    assert re.search(r"a rank was lost: \w*reduce_scatter\w* cannot be carried through a loss",
                     compared.stderr)  # fmt: skip


def test_the_others_keep_their_batch_after_a_simulated_kill(calibrated):
    def elapsed_s(*more):
        result = orrery("simulate", calibrated[0], "--json", "--set", "run.steps=100", *more)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)["elapsed_s"]

    kill = ("--set", "faults=[{at_step: 20, rank: 1, kill: true}]")
    assert elapsed_s(*kill) <= 1.05 * elapsed_s()
    assert elapsed_s(*kill, "--set", "survival.lost_work=dealt") >= 1.5 * elapsed_s()


def test_other_faults_are_refused_with_their_place(calibrated):
    result = orrery("compare", calibrated[0], "--set", "faults=[{at_step: 8, rank: 1, slow: 2}]")
    assert result.returncode == 3
    assert "expected {at_step: STEP, rank: 0 to 1, kill: true}" in result.stderr


def test_a_program_that_ends_early_is_refused_with_the_reason(tmp_path):
    result = orrery("calibrate", "-o", tmp_path / "short.yaml", "--steps", 20, "--", "python",
                    PROGRAMS / "ddp.py", steps=10)  # fmt: skip
    assert result.returncode == 4
    assert "expected 24 optimizer steps of PyTorch" in result.stderr
    assert list(tmp_path.iterdir()) == []
