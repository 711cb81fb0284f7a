"""The table "Policies by program" of docs/run.md: each cell with a run of the program."""

import re

import pytest
from conftest import ROOT
from run_policies_test import replayed
from run_programs_test import TORCH, Run

pytestmark = pytest.mark.skipif(
    not TORCH.exists(), reason=f"no PyTorch at {TORCH}: ./dev torch installs it"
)

PARAMETERS = {
    "fixed-codec": "{rules: [{codec: int8}]}",
    "collective-table": "{rules: [{kind: all-reduce, algorithm: tree}]}",
}
COLUMNS = {
    "plain DDP loop": ("ddp.py", "snapshot.py", "shares.py"),
    "FSDP2 loop": ("fsdp.py",),
    "Trainer of transformers": ("hugging_face.py",),
    "Lightning": ("light.py",),
}
#: Program, variables of the program, and policies that work with it, in one run.
WORKS = [
    ("ddp.py", {}, ["recover", "fixed-codec"]),
    ("ddp.py", {}, ["memory-aware"]),
    ("snapshot.py", {"WORKERS": "1"}, ["checkpoint-interval", "prefetch"]),
    ("shares.py", {}, ["predictive-rebalance"]),
    ("fsdp.py", {}, ["recover"]),
    ("hugging_face.py", {"CHECKPOINTS": "kept", "WORKERS": "1"},
     ["recover", "checkpoint-interval", "fixed-codec", "prefetch"]),
    ("hugging_face.py", {}, ["memory-aware"]),
    ("light.py", {"CHECKPOINTS": "kept"},
     ["recover", "checkpoint-interval", "fixed-codec", "predictive-rebalance"]),
    ("light.py", {"WORKERS": "1"}, ["memory-aware", "prefetch"]),
]  # fmt: skip
#: Program, policy, and the reason why the policy is refused.
REFUSED = [
    ("ddp.py", "collective-table", "expected groups of nccl, found groups of gloo only"),
    ("fsdp.py", "checkpoint-interval", "expected a program that calls orrery.torch.state()"),
    ("fsdp.py", "predictive-rebalance", "expected a DataLoader with a DistributedSampler"),
    ("fsdp.py", "fixed-codec", "expected a model in DistributedDataParallel, found none"),
    ("fsdp.py", "memory-aware", "expected a model in DistributedDataParallel, found none"),
    ("fsdp.py", "prefetch", "expected a DataLoader, found none"),
    ("fsdp.py", "collective-table", "expected groups of nccl, found groups of gloo only"),
    ("hugging_face.py", "predictive-rebalance", "expected a DataLoader with a DistributedSampler"),
    ("hugging_face.py", "collective-table", "expected groups of nccl, found groups of gloo only"),
    ("light.py", "collective-table", "expected groups of nccl, found groups of gloo only"),
]


def cells_of_page():
    """The cells of the table: {(policy, program): text}."""
    text = (ROOT / "docs" / "run.md").read_text(encoding="utf-8")
    lines = text[text.index("### Policies by program") :].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in lines if line.startswith("|")]  # fmt: skip
    rows = rows[: next(at for at, row in enumerate(rows) if at > 1 and "`" not in row[0])]
    names = rows[0][1:]
    return {(row[0].strip("`"), name): cell
            for row in rows[2:] for name, cell in zip(names, row[1:], strict=True)}  # fmt: skip


def column_of(script):
    """The column of a program."""
    return next(name for name, scripts in COLUMNS.items() if script in scripts)


def test_every_cell_of_the_table_says_what_the_runs_show():
    expected = {(policy, column_of(script)): "works"
                for script, _, policies in WORKS for policy in policies}  # fmt: skip
    expected |= {(policy, column_of(script)): "refused: " for script, policy, _ in REFUSED}
    cells = cells_of_page()
    assert set(cells) == set(expected)
    assert [key for key, cell in cells.items() if not cell.startswith(expected[key])] == []


def options_of(policies, folder):
    """Options of a run under policies."""
    scenario = folder / "policies.yaml"
    rows = [f"{{name: {name}, parameters: {PARAMETERS[name]}}}" if name in PARAMETERS
            else f"{{name: {name}}}" for name in policies]  # fmt: skip
    scenario.write_text(f"policies: [{', '.join(rows)}]\n")
    return ["--scenario", scenario, "--record", folder / "run.log"]


@pytest.mark.parametrize(
    ("script", "more", "policies"), WORKS,
    ids=[f"{script} {' '.join(policies)}" for script, _, policies in WORKS],
)  # fmt: skip
def test_policies_that_work(script, more, policies, tmp_path):
    kept = {"CHECKPOINTS": str(tmp_path / "kept")} if "CHECKPOINTS" in more else {}
    run = Run(script, 2, 12, options_of(policies, tmp_path), PIECES="120", **{**more, **kept})
    report, ends, code = run.end()
    assert code == 0, run.text
    assert report["policies"] == policies and report["mode"] == "drive"
    if "fixed-codec" in policies:
        assert report["decisions_applied"] >= 1
    if script != "shares.py":  # it prints no hash
        assert len(ends) == 2 and len(set(ends.values())) == 1
    assert replayed(tmp_path / "run.log")["identical"] is True


@pytest.mark.parametrize(("script", "policy", "reason"), REFUSED)
def test_policies_that_are_refused_by_name(script, policy, reason, tmp_path):
    run = Run(script, 2, 12, options_of([policy], tmp_path))
    assert run.process.wait(240) == 4, run.text
    run.process.stdout.close()
    run.join()
    assert f"the policy '{policy}' needs a part that this program lacks" in run.text
    assert reason in run.text
    assert not re.search(r"ended after \d+ steps", run.text)


@pytest.mark.parametrize("script", ["hugging_face.py", "light.py"])
def test_a_lost_rank_of_a_trainer_returns_by_decision(script, tmp_path):
    scenario = tmp_path / "policies.yaml"
    scenario.write_text("policies: [{name: recover, parameters: {how: replace}}]\n")
    options = ["--scenario", scenario, "--record", tmp_path / "run.log", "--warm", "all"]
    run = Run(script, 2, 100, options, SLEEP_S="0.05")
    run.wait_for_training()
    run.kill(1)
    report, ends, code = run.end()
    assert code == 0, run.text
    assert report["tier"] == "T2"
    assert report["decisions_applied"] >= 1
    assert report["steps"] == 100
    assert sorted(ends) == [0, 1] and len(set(ends.values())) == 1
    assert replayed(tmp_path / "run.log")["identical"] is True


def test_a_sharded_program_starts_again_by_decision(tmp_path):
    options = options_of(["recover"], tmp_path)
    run = Run("fsdp.py", 2, 60, options, CHECKPOINTS=str(tmp_path / "kept"), SLEEP_S="0.02")
    run.wait_for("at step 30 ")
    run.kill(1)
    report, ends, code = run.end()
    assert code == 0, run.text
    assert report["tier"] == "T1" and report["decisions_applied"] >= 1
    assert sorted(ends) == [0, 1] and len(set(ends.values())) == 1
    assert replayed(tmp_path / "run.log")["identical"] is True
