"""Every problem of a scenario, with its place."""

import re

import pytest
from conftest import EXAMPLES, STRAGGLER, data_file, orrery

PLACE = re.compile(r"^[^\n:]+:\d+:\d+: error: ", re.MULTILINE)


def test_check_prints_every_problem(tmp_path):
    file = tmp_path / "two.yaml"
    text = STRAGGLER.read_text()
    file.write_text(text.replace("steps: 40", "steps: 0").replace("40 ms", "40 GB"))
    result = orrery("check", file)
    assert result.returncode == 3
    assert len(PLACE.findall(result.stderr)) == 2
    assert result.stderr.rstrip().endswith("2 problems")


@pytest.mark.parametrize("name", sorted(file.name for file in EXAMPLES.glob("*.yaml")))
def test_check_passes_every_example(name):
    data = []
    if name == "chakra-gpt64.yaml":  # its trace does not ship
        data = ["--set", f"trace.chakra={data_file('chakra', 'gpt64.tar.xz')}"]
    result = orrery("check", EXAMPLES / name, *data)
    assert result.returncode == 0, result.stderr
    assert "ok" in result.stdout


def test_check_finds_what_a_run_would_refuse(tmp_path):
    big, unfit, gone = tmp_path / "big.yaml", tmp_path / "unfit.yaml", tmp_path / "gone.yaml"
    main = (EXAMPLES / "llama3-70b-512-h100.yaml").read_text()
    big.write_text(main.replace("tensor: 8 ", "tensor: 1 ").replace("pipeline: 4 ", "pipeline: 1 "))
    collective = (EXAMPLES / "allreduce-ring-1024.yaml").read_text()
    unfit.write_text(collective + "policies: [{name: fifo}]\n")  # it is no job to be placed
    gone.write_text("name: gone\ncluster: {preset: dgx-h100, nodes: 1}\n"
                    "trace: {chakra: nowhere}\nrun: {steps: 1}\n")
    cases = ((big, "out of memory"), (unfit, "leaves a policy nothing"), (gone, "nowhere"))
    for file, why in cases:
        checked, run = orrery("check", file), orrery("simulate", file)
        assert checked.returncode == run.returncode == 3
        assert why in checked.stderr
        assert checked.stderr == run.stderr + f"{file}: 1 problem\n"


def test_check_does_not_wait_for_a_long_run():
    # A hundred million steps one by one would take hours: the test's own time limit ends it.
    result = orrery("check", STRAGGLER, "--set", "run.steps=100000000", "--set",
                    "policies[0].parameters.tick=1 ms", timeout=60)  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_a_topology_is_checked_as_one(tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text("preset: dgx-h100\nnodes: 4\n")
    result = orrery("check", file)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{file}: ok: topology of 4 nodes, 32 GPUs\n"
    file.write_text("preset: dgx-h100\nnodes: 4\nnode: {gpus_per_nod: 4}\n")
    result = orrery("check", file)
    assert result.returncode == 3
    assert "did you mean 'gpus_per_node'?" in result.stderr and "1 problem\n" in result.stderr
    file.write_text("preset: dgx-h10\nnodes: 4\n")
    assert "did you mean 'dgx-h100'?" in orrery("check", file).stderr


def test_a_replay_is_checked_as_one(tmp_path):
    text = (EXAMPLES / "replay-one-spine.yaml").read_text()
    file, log = tmp_path / "replay.yaml", tmp_path / "one-spine-jobs.csv"
    file.write_text(text)
    result = orrery("check", file)
    assert result.returncode == 3
    assert f"{log}:1:1: error: cannot be read: No such file" in result.stderr
    log.write_text((EXAMPLES / log.name).read_text())
    result = orrery("check", file)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{file}: ok: replay of 2 jobs in '{log}'\n"
    file.write_text(text.replace("placement:", "placment:"))
    result = orrery("check", file)
    assert result.returncode == 3
    assert "did you mean 'placement'?" in result.stderr and "1 problem\n" in result.stderr
    file.write_text(text.replace("placement:", "placment:").replace("policy:", "polcy:"))
    assert "did you mean 'policy'?" in orrery("check", file).stderr
    file.write_text(text.replace("policy: fifo", "policy: fifoo"))
    assert "did you mean 'fifo'?" in orrery("check", file).stderr
    file.write_text(text)
    result = orrery("check", file, "--set", "policy=easy", "--set", "placement=cuont")
    assert result.returncode == 3 and "did you mean 'count'?" in result.stderr


def test_a_replay_is_no_scenario():
    for command in ("simulate", "live"):
        result = orrery(command, EXAMPLES / "replay-one-spine.yaml")
        assert result.returncode == 3
        assert "got the replay of a job trace: those run under orrery jobs" in result.stderr


def test_what_cannot_be_read_is_one_plain_problem(tmp_path):
    unreadable = {
        tmp_path: "directory",
        tmp_path / "none": "No such file",
        "/dev/zero": "larger than 16 MiB",
    }
    for path, why in unreadable.items():
        result = orrery("check", path)
        assert result.returncode == 3, path
        assert why in result.stderr
        assert result.stderr.endswith("1 problem\n")
