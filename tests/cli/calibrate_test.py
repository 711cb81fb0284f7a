"""A profile of this machine, measured, written, and used in place of a cluster."""

import json

import pytest

from conftest import STRAGGLER, orrery


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
