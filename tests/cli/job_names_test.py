"""Names and time limits of jobs of a cluster: forecasts and choices learn durations from them. The
Slurm is written down."""

import json

import pytest
from conftest import orrery
from written_slurm import WrittenSlurm

KINDS = [("short|~1|", 1.5), ("long", 8.0)]


def test_a_twin_learns_durations_from_the_names_of_jobs(tmp_path):
    slurm = WrittenSlurm(tmp_path / "slurm")
    for number in range(16):  # eight of one GPU at once, each with another limit
        name, runs_s = KINDS[number % 2]
        at_s = 1.5 if number < 8 else 12.5
        slurm.add(name, runs_s, 1, at_s, at_s + 0.2, limit=f"{60 + number}:00")
    result = orrery("twin", "slurm", "--policy", "fifo", "--partition", "orrery", "--every", "1",
                    "--read-every", "0.2", "--samples", "4", "--for", "23", "--json",
                    env=slurm.environment)  # fmt: skip
    assert result.returncode == 0, result.stderr
    later = json.loads(result.stdout)["durations"]["second_half"]
    assert later["jobs"] == 8, result.stdout
    assert later["log_error_mean"] < 0.5 * later["by_size_log_error_mean"], later


@pytest.mark.parametrize("told_by", ["limits", "names"])
def test_a_choice_on_a_cluster_reads_names_and_limits_and_its_log_replays(tmp_path, told_by):
    """Only the limits, or only the names, tell that sjf starts short jobs first: users and sizes
    are equal, and with names each job has another limit."""
    slurm, log = WrittenSlurm(tmp_path / "slurm"), tmp_path / "choice.log"

    def add(number, is_long, *times):
        name, limit = "job", (1, 30)[is_long]
        if told_by == "names":
            name, limit = KINDS[is_long][0], (1, 200)[is_long] + number
        slurm.add(name, *times, limit=f"{limit}:00")

    for number in range(16):  # two times eight
        at_s = 1.5 if number < 8 else 6
        add(number, number % 2, (1, 4)[number % 2], 1, at_s, at_s + 0.2)
    slurm.add("other", 60, 8, 10.5, 10.6, limit="2:00")
    for number in range(60):  # long ones first
        add(16 + number, number < 30, 1, 8, 11.5)
    result = orrery("cluster", "slurm", "--policy", "fifo", "--choose", "sjf", "--by", "wait",
                    "--choose-every", "0.25", "--partition", "orrery", "--every", "0.25", "--mode",
                    "drive", "--for", "30", "--record", log, env=slurm.environment)  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "sjf instead of fifo" in result.stderr, result.stdout + result.stderr
    replayed = orrery("replay", log)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
