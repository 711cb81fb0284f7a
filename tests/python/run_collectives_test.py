"""orrery run --policy: NCCL's table of collectives, and samples of collectives.

bare_nccl.py plays NCCL in a program without PyTorch; in programs with PyTorch Gloo's groups stand
in the place of NCCL's.
"""

import json
import os
import re
import subprocess
import sys

import pytest
from run_policies_test import policy_run, replayed
from run_programs_test import PATIENCE, PROGRAM, PROGRAMS, TORCH

TABLE = """policies:
  - name: collective-table
    parameters:
      rules:
        - {kind: all-reduce, algorithm: tree}
        - {kind: all-reduce, from_bytes: 1 MB, algorithm: ring}
"""
SEES = """
import orrery


class Sees(orrery.Policy):
    def needs(self):
        return orrery.Needs(tick=0.05)

    def observe(self, seen, decisions):
        for job in seen.jobs:
            for each in seen.samples.collectives(job):
                print("sample", *(each[name] for name in ("kind", "bytes", "exposed")), flush=True)
"""


def bare_run(*options, steps=20, **more):
    """Runs bare_nccl.py as two ranks: exit code, report, standard error."""
    result = subprocess.run(
        [PROGRAM, "run", "-n", "2", "--json", *options, "--", sys.executable,
         PROGRAMS / "bare_nccl.py"],
        capture_output=True, text=True, timeout=PATIENCE,
        env={**os.environ, "STEPS": str(steps), **more},
    )  # fmt: skip
    report = json.loads(result.stdout) if result.stdout else None
    return result.returncode, report, result.stderr


def test_a_program_without_pytorch_takes_the_table_before_its_first_call(tmp_path):
    (tmp_path / "table.yaml").write_text(TABLE)
    log = tmp_path / "run.log"
    code, report, text = bare_run("--scenario", tmp_path / "table.yaml", "--record", log)
    assert code == 0, text
    for rank in range(2):
        assert f"rank {rank} used TREE-RING, in all calls: True" in text
    assert "the ranks load NCCL without PyTorch" in text
    assert report["decisions_applied"] == 1
    assert replayed(log)["identical"] is True


def test_policies_see_each_size_of_collective_of_a_program_without_pytorch(tmp_path):
    (tmp_path / "sees.py").write_text(SEES)
    code, _, text = bare_run("--policy", tmp_path / "sees.py", steps=60)
    assert code == 0, text
    assert "rank 0 used TREE-TREE, in all calls: True" in text  # NCCL's own choice
    assert "the policies failed" not in text, text
    samples = set(re.findall(r"sample (\S+) (\S+) (\S+)", text))
    sizes = {float(bytes_): float(exposed) for _, bytes_, exposed in samples}
    # The time of a call is that of rank 1: rank 0 waits in it.
    assert sizes == {1000.0: pytest.approx(1e-5), 1e6: pytest.approx(1e-2)}


def test_a_tuner_plugin_of_the_program_is_left_alone_and_refuses_the_table(tmp_path):
    (tmp_path / "table.yaml").write_text(TABLE)
    own = next((PROGRAM.parent.parent / "lib").glob("liborrery_nccl_tuner.so"))
    (tmp_path / "own.so").symlink_to(own)
    code, _, text = bare_run(
        "--scenario", tmp_path / "table.yaml", NCCL_TUNER_PLUGIN=str(tmp_path / "own.so")
    )
    assert code == 4
    assert "the policy 'collective-table' needs a part that this program lacks" in text
    assert "expected NCCL_TUNER_PLUGIN unset, found '" in text


@pytest.mark.skipif(not TORCH.exists(), reason=f"no PyTorch at {TORCH}: ./dev torch installs it")
def test_groups_of_gloo_take_no_table(tmp_path):
    (tmp_path / "table.yaml").write_text(TABLE)
    code, _, text = policy_run(PROGRAMS / "ddp.py", 2, "--scenario", tmp_path / "table.yaml")
    assert code == 4
    assert "table of collectives: expected groups of nccl, found groups of gloo only" in text


@pytest.mark.skipif(not TORCH.exists(), reason=f"no PyTorch at {TORCH}: ./dev torch installs it")
@pytest.mark.parametrize("warm", ["none", "all"])
def test_ranks_with_groups_of_nccl_replace_their_tables_at_one_step(tmp_path, warm):
    (tmp_path / "table.yaml").write_text(TABLE)
    program = tmp_path / "tables.py"
    program.write_text(
        "import os, runpy, sys\n"
        f"sys.path.insert(0, {str(PROGRAMS)!r})\n"
        "from torch.optim.optimizer import register_optimizer_step_pre_hook\n"
        "steps, was = [0], []\n"
        "def look(*_):\n"
        "    steps[0] += 1\n"
        "    path = os.environ['ORRERY_NCCL_TABLE']\n"
        "    assert 'ORRERY_NCCL_WAIT_S' not in os.environ\n"
        "    if os.path.exists(path) and not was:\n"
        "        was.append(steps[0])\n"
        "        rules = open(path).read().split('\\n', 2)[2].strip().replace('\\n', '; ')\n"
        "        print(f'table from step {steps[0]}: {rules}', flush=True)\n"
        "register_optimizer_step_pre_hook(look)\n"
        f"runpy.run_path({str(PROGRAMS / 'nccl_on_cpu.py')!r}, run_name='__main__')\n"
    )
    options = ["--scenario", tmp_path / "table.yaml", "--warm", warm]
    code, report, text = policy_run(program, 2, *options)
    assert code == 0, text
    seen = re.findall(r"table from step (\d+): (.*)", text)
    assert len(seen) == 2 and len(set(seen)) == 1, text
    assert seen[0][1] == "all_reduce 0 0 tree; all_reduce 1000000 0 ring"
    assert report["decisions_applied"] == 1
