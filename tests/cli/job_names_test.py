"""Names of jobs of a cluster: forecasts learn durations from them. The Slurm is written down."""

import json

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
