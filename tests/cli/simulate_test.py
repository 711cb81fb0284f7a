"""Reports and logs of simulated runs."""

import json

import pytest

from conftest import EXAMPLES, STRAGGLER, data_file, orrery

CONTRACT_KEYS = """mode version seed ranks scenario_hash steps_completed micro_batches_lost
micro_batches_repeated micro_batches_recomputed elapsed_s step_time_s tokens_per_s mfu
gpu_utilization goodput failures events decisions energy_j cost_usd decision_log_sha256
decision_trace_sha256 parameters_sha256 final_loss host""".split()


def test_the_summary_has_thirteen_lines():
    result = orrery("simulate", STRAGGLER)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 13
    assert result.stderr == ""


def test_json_has_the_stable_keys():
    report = json.loads(orrery("simulate", STRAGGLER, "--json").stdout)
    assert [key for key in report if key in CONTRACT_KEYS] == CONTRACT_KEYS
    policies = ["policy_time_max_s", "policy_time_s"]  # these may differ between equal runs
    assert sorted(report["host"]) == ["cpu_s", "peak_rss_bytes", *policies, "wall_s"]
    assert (report["mode"], report["ranks"], report["steps_completed"]) == ("sim", 4, 40)
    assert report["micro_batches_lost"] == report["micro_batches_repeated"] == 0
    sizes = (report["host"]["peak_rss_bytes"], report["memory_per_gpu_bytes"])
    assert all(isinstance(size, int) for size in sizes)
    assert report["parameters_sha256"] is None and report["final_loss"] is None


def test_equal_seeds_give_equal_bytes(tmp_path):
    def run(name, seed):
        log = tmp_path / name
        result = orrery("simulate", STRAGGLER, "--json", "--seed", seed, "--record", log)
        report = json.loads(result.stdout)
        del report["host"]
        return report, log.read_bytes()

    assert run("a", 5) == run("b", 5)
    assert run("a", 5)[1] != run("c", 6)[1]


ALL_REDUCE = EXAMPLES / "allreduce-ring-1024.yaml"
GPT64 = EXAMPLES / "chakra-gpt64.yaml"


def test_a_lone_collective_has_the_stable_keys_and_null_where_nothing_is_meant():
    report = json.loads(orrery("simulate", ALL_REDUCE, "--json").stdout)
    assert [key for key in report if key in CONTRACT_KEYS] == CONTRACT_KEYS
    assert (report["mode"], report["ranks"], report["steps_completed"]) == ("sim", 1024, 1)
    assert report["mfu"] is None and report["micro_batches_lost"] is None
    assert report["failures"] == [] and report["decisions"] == 0


def test_a_trace_that_is_not_there_is_named(tmp_path):
    result = orrery("simulate", GPT64, "--set", f"trace.chakra={tmp_path}/workload")
    assert result.returncode == 3
    assert f"{tmp_path}/workload.0.et" in result.stderr


def test_a_trace_runs_folded_as_it_runs_in_full():
    archive = data_file("chakra", "gpt64.tar.xz")

    def run(*options):
        result = orrery(
            "simulate", GPT64, "--json", "--set", f"trace.chakra={archive}", *options
        )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    folded, full = run(), run("--detail", "full")
    assert (folded["ranks"], folded["rank_classes"], full["rank_classes"]) == (64, 4, 64)
    assert folded["step_time_s"] == pytest.approx(full["step_time_s"], rel=1e-9)
    assert folded["events"] * 8 < full["events"]


def test_an_exported_step_runs_folded_as_it_runs_in_full(tmp_path):
    prefix = tmp_path / "step"
    exported = orrery(
        "export", "chakra", EXAMPLES / "llama3-70b-512-h100.yaml", "-o", prefix,
        "--set", "cluster.nodes=2", "--set", "job.layout={tensor: 4, pipeline: 2, data: 2}",
        "--set", "job.global_batch=8", "--set", "job.model={preset: llama3-8b}",
    )  # fmt: skip
    assert exported.returncode == 0, exported.stderr

    def run(*options):
        where = ("--set", f"trace.chakra={prefix}", "--set", "cluster.nodes=2")
        result = orrery("simulate", GPT64, "--json", *where, *options)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    folded, full = run(), run("--detail", "full")
    assert (folded["ranks"], full["rank_classes"]) == (16, 16)
    assert folded["rank_classes"] < 16
    assert folded["step_time_s"] == pytest.approx(full["step_time_s"], rel=1e-9)


def test_what_is_passed_over_in_a_trace_is_told():
    trace = data_file("chakra", "chakra-tests", "tests", "data", "chakra.0.et")
    prefix = str(trace)[: -len(".0.et")]
    options = ("--set", f"trace.chakra={prefix}", "--set", "trace.ranks=8")
    result = orrery("simulate", GPT64, "--json", *options)
    assert result.returncode == 0, result.stderr
    assert "warning: 10216 dependencies on nodes that are not in the trace" in result.stderr
    report = json.loads(result.stdout)
    assert report["ranks"] == 8
    assert len(report["warnings"]) == 2


@pytest.mark.parametrize(
    ("work", "problem"),
    [
        ("", "missing key 'job': what runs is a job, a trace or a collective"),
        (
            "trace: {chakra: x}\ncollective: {kind: all-reduce, size: 1 GiB}",
            "'collective' beside another kind of work",
        ),
        ("collective: {kind: all-reduce, size: 1 GiB, ranks: 9}", "9 ranks, but the cluster has 8"),
        (
            "collective: {kind: all-reduce, size: 1 GiB}\npolicies: [{name: static}]",
            "a collective leaves a policy nothing to decide",
        ),
    ],
)
def test_a_scenario_has_exactly_one_kind_of_work(tmp_path, work, problem):
    scenario = tmp_path / "s.yaml"
    cluster = "cluster: {preset: dgx-h100, nodes: 1}"
    scenario.write_text(f"name: s\n{cluster}\nrun: {{steps: 1}}\n{work}\n")
    result = orrery("simulate", scenario)
    assert result.returncode == 3
    assert problem in result.stderr


def test_memory_is_a_limit_that_a_run_may_overrule():
    full = ("simulate", EXAMPLES / "llama3-70b-512-h100.yaml", "--set", "job.layout.pipeline=1",
            "--set", "run.steps=3", "--json")  # fmt: skip
    refused = orrery(*full)
    assert refused.returncode == 3
    assert "out of memory" in refused.stderr and "run.memory: warn" in refused.stderr
    warned = orrery(*full, "--set", "run.memory=warn")
    assert warned.returncode == 0, warned.stderr
    report = json.loads(warned.stdout)
    assert report["steps_completed"] == 3
    assert any("out of memory: stage 0 needs" in each for each in report["warnings"])


def test_links_at_their_line_rate_are_the_textbooks():
    def all_reduce(*settings):
        asked = [part for each in settings for part in ("--set", each)]
        result = orrery("simulate", ALL_REDUCE, "--json", "--set", "collective.ranks=64", *asked)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)["step_time_s"]

    rounds, rate = 2 * 63, 50e9
    textbook = rounds / 64 * 2**30 / 8 / rate  # each of eight rings over a NIC of its own
    latency = rounds * (56 * 0.5e-6 + 8 * 2e-6) / 64
    line_rate = all_reduce("cluster.fabric.line_rate=true")
    assert line_rate == pytest.approx(textbook + latency, rel=1e-6)
    assert all_reduce() > 1.02 * line_rate
