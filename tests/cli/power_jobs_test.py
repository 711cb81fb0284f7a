"""Limits of power in a queue: the options, the tables and the refusals. The schedules are compared
with an independent program in tests/sim/replay/site_power_test.cpp."""

import json

import pytest
from conftest import column, orrery, rows

LOG = "job_id,submit_s,num_gpus,duration_s\na,0,5,150\nb,1,3,150\n"
CLUSTER = "preset: dgx-h100\nnodes: 1\n"
# Five of eight GPUs may work from 100 to 200 s of every 200 s.
LIMITS = "power.limits=[{share: 80%, from: 100 s, until: 200 s, every: 200 s}]"


@pytest.fixture
def replay(tmp_path):
    """Arguments of a replay with the limits."""
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    return [tmp_path / "log.csv", "--cluster", tmp_path / "cluster.yaml", "--set", LIMITS]


def test_ways_to_spend(tmp_path, replay):
    for spend, ends in (("pause", [150, 201]), ("wait", [150, 300])):
        spent = [*replay, "--policy", "fifo", "--set", f"power.spend={spend}"]
        assert column(rows(tmp_path, *spent), "end_s") == ends
    clock = ((0.8 * 8.4 - 2.8 - 8 * 0.075) / 5) ** (1 / 3)
    follow = column(rows(tmp_path, *replay, "--policy", "fifo"), "end_s")
    assert follow == pytest.approx([100 + 50 / clock, 101 + 50 / clock], abs=1e-3)


def test_a_file_has_the_key_of_a_scenario(tmp_path, replay):
    file = tmp_path / "replay.yaml"
    file.write_text(
        "trace: log.csv\npolicy: fifo\ncluster: {preset: dgx-h100, nodes: 1}\n"
        "power:\n  limits: [{share: 80%, from: 100 s, until: 200 s, every: 200 s}]\n"
        "  spend: pause\n"
    )
    assert column(rows(tmp_path, file), "end_s") == [150, 201]
    assert orrery("check", file).returncode == 0
    file.write_text(file.read_text().replace("pause", "wait").replace("fifo", "srtf"))
    refused = orrery("check", file)
    assert refused.returncode == 3 and "conservative, easy, fifo" in refused.stderr


def test_the_tables_have_energy_and_pauses(replay):
    result = orrery("jobs", *replay, "--policy", "fifo", "--what-if", "power.spend=pause",
                    "--what-if", "power.spend=wait")
    assert result.returncode == 0, result.stderr
    table = result.stdout[result.stdout.index("energy MWh"):].splitlines()
    assert [line.split()[0] for line in table[1:4]] == ["fifo", "fifo,", "fifo,"]
    pauses = [int(line.split()[-2]) for line in table[1:4]]
    assert pauses == [0, 1, 0]
    single = orrery("jobs", *replay, "--policy", "fifo").stdout
    assert "energy " in single and "spend: follow; pauses 0, 0 s above a limit" in single


def test_json_has_the_power(replay):
    size = json.loads(orrery("jobs", *replay[:3], "--policy", "fifo", "--json").stdout)["power"]
    assert size["spend"] is None or size["spend"] == ""
    spent = [*replay, "--policy", "fifo", "--set", "power.spend=pause", "--json"]
    power = json.loads(orrery("jobs", *spent).stdout)["power"]
    assert power["over_s"] == 0 and power["pauses"] == 1
    assert power["gpu_hours"] == pytest.approx((5 * 150 + 3 * 150) / 3600)
    pue = 1.25
    assert power["lowest_limit_w"] == pytest.approx(0.8 * 8400 * pue)
    hours = 201 / 3600
    joules = pue * 3600 * (3400 * hours + 625 * power["gpu_hours"])
    assert power["energy_j"] == pytest.approx(joules)


def test_restart_costs_count_where_limits_pause_jobs(replay):
    changed = [*replay, "--policy", "fifo", "--what-if", "conditions.restart_cost=10s"]
    flat = orrery("jobs", *changed, "--set", "power.spend=flat")
    assert flat.returncode == 2 and "fifo preempts no job" in flat.stderr
    assert orrery("jobs", *changed, "--set", "power.spend=pause").returncode == 0


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["--set", "power.spend=wait", "--policy", "las"], 3, "found 'las'"),
        (["--set", "conditions.power.spend=wait"], 2, "power.spend=wait"),
        (["--choose", "easy", "--by", "jct"], 2, "forecasts do not have"),
        (["--scheduler", "true"], 2, "no message of Batsim"),
        (["--what-if", "power.spend=sometimes"], 3, "follow, flat, pause, wait"),
    ],
)
def test_refusals(replay, arguments, code, message):
    if "--policy" not in arguments and "--scheduler" not in arguments:
        arguments = [*arguments, "--policy", "fifo"]
    result = orrery("jobs", *replay, *arguments)
    assert result.returncode == code, result.stderr
    assert message in result.stderr


def test_a_twin_has_no_limits(replay):
    result = orrery("twin", "jobs", *replay, "--policy", "fifo")
    assert result.returncode == 2 and "forecasts do not have" in result.stderr


def test_a_size_alone_has_no_watts(replay):
    result = orrery("jobs", replay[0], "--nodes", 1, "--gpus-per-node", 8, "--policy", "fifo",
                    "--set", LIMITS)
    assert result.returncode == 3 and "give --cluster C.yaml" in result.stderr
