"""Reports and logs of simulated runs."""

import json

from conftest import STRAGGLER, orrery

CONTRACT_KEYS = """mode version seed ranks scenario_hash steps_completed micro_batches_lost
micro_batches_repeated micro_batches_recomputed elapsed_s step_time_s tokens_per_s mfu
gpu_utilization goodput failures events decisions energy_j cost_usd decision_log_sha256
decision_trace_sha256 parameters_sha256 final_loss host""".split()


def test_the_summary_has_twelve_lines():
    result = orrery("simulate", STRAGGLER)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 12
    assert result.stderr == ""


def test_json_has_the_stable_keys():
    report = json.loads(orrery("simulate", STRAGGLER, "--json").stdout)
    assert [key for key in report if key in CONTRACT_KEYS] == CONTRACT_KEYS
    assert sorted(report["host"]) == ["cpu_s", "peak_rss_bytes", "wall_s"]
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
