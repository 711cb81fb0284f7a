"""Runs from the command line: reports, logs, interruption, death."""

import json
import os
import signal
import time

from conftest import STRAGGLER, alive, orrery, wait_until

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


def test_set_changes_the_scenario():
    shorter = json.loads(orrery("simulate", STRAGGLER, "--json", "--set", "run.steps=12").stdout)
    assert shorter["steps_completed"] == 12


def test_replay_agrees_until_a_threshold_changes(tmp_path):
    log = tmp_path / "log"
    assert orrery("simulate", STRAGGLER, "--record", log).returncode == 0
    same = orrery("replay", log, "--json")
    assert same.returncode == 0, same.stderr
    assert json.loads(same.stdout)["first_difference"] is None
    changed = orrery("replay", log, "--set", "predictive-rebalance.gain_threshold=9")
    assert changed.returncode == 1
    assert "first difference" in changed.stderr


def test_a_torn_log_is_bad_input(tmp_path):
    log = tmp_path / "log"
    assert orrery("simulate", STRAGGLER, "--record", log).returncode == 0
    log.write_bytes(log.read_bytes()[:-9])
    result = orrery("replay", log)
    assert result.returncode == 3
    assert str(log) in result.stderr


def test_versus_prints_both_policies():
    result = orrery("versus", STRAGGLER, "--json", "--within", "1.15")
    assert result.returncode == 0, result.stderr
    static, moved = json.loads(result.stdout)
    assert (static["policy"], moved["policy"]) == ("static", "predictive-rebalance")
    assert static["ratio"] > 2 and moved["ratio"] <= 1.15
    table = orrery("versus", STRAGGLER).stdout.splitlines()
    assert len(table) == 3 and "static" in table[1] and "predictive-rebalance" in table[2]


def test_versus_says_when_the_goal_is_missed():
    result = orrery("versus", STRAGGLER, "--policies", "static", "--within", "1.15")
    assert result.returncode == 1
    assert "goal missed: static under sim" in result.stderr


def test_an_interrupt_ends_the_run(long_run):
    process, worker = long_run
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    assert process.stderr.read() == "interrupted\n"
    wait_until(lambda: not alive(worker))


def test_a_killed_worker_is_an_internal_error(long_run):
    process, worker = long_run
    os.kill(worker, signal.SIGKILL)
    assert process.wait(timeout=20) == 5
    assert "killed by signal 9" in process.stderr.read()


def test_a_killed_parent_leaves_no_orphan(long_run):
    process, worker = long_run
    time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=20)
    wait_until(lambda: not alive(worker))
