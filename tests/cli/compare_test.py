"""Both worlds side by side. No assertion on how close they are: a busy machine is not a defect."""

import itertools
import json
import re

import pytest

from conftest import EXAMPLES, STRAGGLER, orrery

PLAIN = EXAMPLES / "compare" / "plain.yaml"
SHORT = ["--set", "run.steps=6", "--tolerance", "9"]


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    path = tmp_path_factory.mktemp("machine") / "profile.yaml"
    measured = orrery("calibrate", "-o", path, "--ranks", "2", "--quick", "--tolerance", "9")
    assert measured.returncode == 0, measured.stderr
    return path


def test_phases_of_both_worlds_and_the_spread_of_the_live_one(profile):
    result = orrery("compare", PLAIN, "--machine", profile, *SHORT)
    assert result.returncode == 0, result.stderr
    for word in ("compute", "exchange", "update", "rest", "step", "p10", "p90", "within 900%"):
        assert word in result.stdout


def test_a_missed_tolerance_is_exit_code_1(profile):
    result = orrery("compare", PLAIN, "--machine", profile, "--set", "run.steps=3",
                    "--tolerance", "0")  # fmt: skip
    assert result.returncode == 1
    assert "beyond 0%" in result.stdout


def test_of_several_the_order_is_compared(profile):
    slow = EXAMPLES / "compare" / "straggler.yaml"
    result = orrery("compare", slow, PLAIN, "--machine", profile, "--json", *SHORT)
    seen = json.loads(result.stdout)
    assert seen["order"]["predicted"] == ["plain", "straggler"]
    assert [run["scenario"] for run in seen["runs"]] == ["straggler", "plain"]
    for run in seen["runs"]:
        assert run["predicted"]["compute_s"] == pytest.approx(run["measured"]["compute_s"], rel=0.5)
        assert run["measured"]["p10_s"] <= run["measured"]["step_time_s"]
    told = seen["order"]["as_predicted"] and seen["order"]["too_close"] == 0
    assert result.returncode == (0 if told else 1)


def test_gradients_travel_in_the_same_codes_in_both_worlds(profile):
    for codec in ("int4", "power-sgd"):
        coded = f"policies[0].parameters={{warm_up_steps: 2, rules: [{{codec: {codec}}}]}}"
        result = orrery("compare", EXAMPLES / "compare" / "slow-link-int4.yaml", "--json", *SHORT,
                        "--machine", profile, "--set", coded)  # fmt: skip
        assert result.returncode == 0, result.stderr
        (seen,) = json.loads(result.stdout)["runs"]
        assert codec.replace("-", "_") in [use["codec"] for use in seen["measured"]["codecs"]]
        assert seen["predicted"]["codecs"] == seen["measured"]["codecs"]


def test_the_shipped_settings_are_told_apart_by_more_than_a_tenth(profile, tmp_path):
    """Returns the profile of a quiet machine's links, so that the order is that of the settings."""
    quiet, text = tmp_path / "quiet.yaml", profile.read_text()
    for key, value in (("latency", "300 us"), ("bandwidth", "150 MB/s"), ("control", "1 ms")):
        text = re.sub(rf"\b({key}): .*", rf"\1: {value}", text)
    quiet.write_text(text)
    times = {}
    for file in sorted((EXAMPLES / "compare").glob("*.yaml")):
        result = orrery("simulate", file, "--json", "--machine", quiet)
        assert result.returncode == 0, result.stderr
        times[file.stem] = json.loads(result.stdout)["step_time_s"]
    order = sorted(times, key=times.get)
    assert order == ["plain", "slow-link-int4", "straggler-rebalanced", "slow-link-bf16",
                     "straggler", "slow-link"]  # fmt: skip
    for faster, slower in itertools.pairwise(order):
        assert times[slower] > 1.1 * times[faster]


def test_what_live_mode_cannot_run_is_refused_before_anything_is_measured():
    result = orrery("compare", EXAMPLES / "llama3-70b-512-h100.yaml")
    assert result.returncode == 3
    assert "built-in" in result.stderr


def test_ranks_of_a_rigid_scenario_are_bad_input():
    assert orrery("compare", STRAGGLER, "--ranks", "2").returncode == 3
