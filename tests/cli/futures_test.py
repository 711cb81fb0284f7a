"""Futures of a simulated run: quantiles, JSON, and refusals."""

import json
import os
import signal
import subprocess

import pytest

from conftest import EXAMPLES, PROGRAM, ROOT, STRAGGLER, alive, children_of, orrery, wait_until

NOISE = ("--set", "noise.compute_cv=0.03")


def futures(*options):
    return orrery("simulate", STRAGGLER, *NOISE, *options)


def without_host(report):
    return {key: value for key, value in report.items() if key != "host"}


def test_the_first_future_is_the_run_without_futures(tmp_path):
    forked, alone = tmp_path / "forked", tmp_path / "alone"
    result = futures("--futures", 3, "--at", "6 s", "--record", forked, "--json")
    assert result.returncode == 0, result.stderr
    out = json.loads(result.stdout)
    report = json.loads(futures("--record", alone, "--json").stdout)
    report.pop("step_times_s")
    first = without_host(out["futures"][0]["report"])
    first.pop("step_times_s")
    assert first == without_host(report)
    assert forked.read_bytes() == alone.read_bytes()
    assert [each["future"] for each in out["futures"]] == [0, 1, 2]
    assert len({each["report"]["elapsed_s"] for each in out["futures"]}) == 3
    assert out["at_s"] == 6 and out["until_s"] is None


def test_policies_are_shown_side_by_side():
    result = orrery(
        "simulate", STRAGGLER, *NOISE, "--set", "policies[0].name=static", "--futures", 8,
        "--at", "8 s", "--for", "10s", "--policies", "static,predictive-rebalance",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "more goodput than static in 8 of 8 futures" in result.stdout
    assert result.stdout.count("steps ahead") == 2


def test_equal_calls_give_equal_futures():
    def run():
        out = json.loads(futures("--futures", 4, "--at", "6 s", "--json").stdout)
        out.pop("host")
        for each in out["futures"]:
            each["report"].pop("host")
        return out

    assert run() == run()


@pytest.mark.parametrize(
    "options, code, said",
    [
        (("--futures", 3), 2, "--at"),
        (("--at", "3 s"), 2, "--futures"),
        (("--futures", 3, "--at", "3"), 2, "--at takes a time such as '1 h'"),
        (("--futures", 3, "--at", "3 s", "--for", "0 s"), 2, "--for"),
        (("--futures", 0, "--at", "3 s"), 2, "--futures"),
        (("--futures", 3, "--at", "3 s", "--policies", "statik"), 2, "static"),
        (("--futures", 3, "--at", "1 h"), 3, "no futures begin at 3600 s"),
        (("--futures", 3, "--at", "3 s", "--timeline", "x.pftrace"), 2, "timeline"),
    ],
)
def test_what_cannot_be_is_refused(options, code, said, tmp_path):
    result = futures(*options)
    assert result.returncode == code, result.stderr
    assert said in result.stderr


def test_a_lone_collective_has_no_futures():
    example = EXAMPLES / "allreduce-ring-1024.yaml"
    result = orrery("simulate", example, "--futures", 2, "--at", "0 s")
    assert result.returncode == 3
    assert "a job" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_future_outlives_the_command(number):
    command = [PROGRAM, "simulate", STRAGGLER, "--detail", "full", "--set", "run.steps=100000000"]
    process = subprocess.Popen([*command, "--futures", "2", "--at", "3 s"])
    worker = wait_until(lambda: children_of(process.pid))[0]
    running = wait_until(lambda: len(children_of(worker)) == 2 and children_of(worker))
    os.kill(process.pid, number)
    process.wait()
    wait_until(lambda: not any(alive(pid) for pid in (worker, *running)))


def test_a_run_goes_on_from_its_log(tmp_path):
    log = tmp_path / "log@2"
    static = ("--set", "policies[0].name=static")
    whole = json.loads(
        orrery("simulate", STRAGGLER, *static, "--record", log, "--json").stdout
    )
    rest = orrery("simulate", "--from", f"{log}@15s", "--json")
    assert rest.returncode == 0, rest.stderr
    assert json.loads(rest.stdout)["elapsed_s"] == pytest.approx(whole["elapsed_s"], abs=1e-6)
    other = orrery("simulate", STRAGGLER, "--from", f"{log}@15 s", "--json")
    assert json.loads(other.stdout)["elapsed_s"] < 0.8 * whole["elapsed_s"]
    result = orrery("simulate", "--from", f"{log}@15s", "--futures", 3, "--for", "5 s", "--json")
    assert result.returncode == 0, result.stderr
    futures = json.loads(result.stdout)
    assert futures["at_s"] == 15 and futures["until_s"] == 20
    assert all(each["steps_ahead"] in (4, 5) for each in futures["futures"])


@pytest.mark.parametrize("number", [2, 3, 4])
def test_a_run_goes_on_from_a_log_of_an_earlier_format(number):
    log = ROOT / "tests" / "policies" / "record" / "logs" / f"format-{number}.log"
    rest = orrery("simulate", "--from", f"{log}@3s", "--json")
    assert rest.returncode == 0, rest.stderr
    report = json.loads(rest.stdout)
    assert report["steps_completed"] == 8
    # Each step takes 0.5 s with the shares of the log, decided at 1.2 s, and 1.2 s without.
    assert 4.3 < report["elapsed_s"] < 4.6


def test_what_cannot_be_gone_on_with_is_refused(tmp_path):
    assert orrery("simulate").returncode == 2
    missing = orrery("simulate", "--from", tmp_path / "nothing")
    assert missing.returncode == 3 and "cannot be read" in missing.stderr
    no_log = orrery("simulate", "--from", f"{STRAGGLER}@3 s")
    assert no_log.returncode == 3 and "(record 0, byte 0)" in no_log.stderr
