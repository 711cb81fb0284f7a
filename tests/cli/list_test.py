"""Names on the command line."""

import csv
import io

import pytest
from conftest import orrery


@pytest.mark.parametrize(
    "kind, name",
    [
        ("models", "llama3-70b"),
        ("clusters", "dgx-h100"),
        ("gpus", "H100"),
        ("stacks", "nemo"),
        ("policies", "predictive-rebalance"),
        ("prices", "nebius-h100"),
        ("examples", "compare/plain"),
    ],
)
def test_each_kind_has_a_line_for_each_name(kind, name):
    result = orrery("list", kind)
    assert result.returncode == 0, result.stderr
    words = [line.split("  ", 1) for line in result.stdout.splitlines()]
    assert name in [each[0].strip() for each in words]
    assert all(len(each) == 2 and each[1].strip() for each in words)


FRAMEWORKS = {
    "megatron-lm-2022": "Megatron-LM 2022", "nemo": "NeMo", "composer-fsdp": "Composer",
    "maxtext": "MaxText", "megatron-bridge": "Megatron-Bridge", "torchtitan": "torchtitan",
    "internevo": "InternEvo", "generic": "a framework of my own",
}  # fmt: skip


def groups_of(about):
    """State and classes of a stack by GPU, as `orrery list stacks` has them: "measured on A100
    (dense 16); between on B200" gives {"A100": ("measured", "dense 16"), ...}."""
    groups = {}
    for part in about.split("; ")[1:]:
        state, _, rest = part.partition(" on ")
        gpus, _, classes = rest.rstrip(")").partition(" (")
        groups |= {gpu: (state, classes.split(", ")) for gpu in gpus.split(", ")}
    return groups


def test_the_stacks_state_is_that_of_predictions(tmp_path):
    """Every GPU of every line: the state of a dense run in 16 bits under the stack on the GPU."""
    lines = [line.split("  ", 1) for line in orrery("list", "stacks").stdout.splitlines()]
    stacks = {name.strip(): groups_of(about.strip()) for name, about in lines}
    gpus = [line.split()[0] for line in orrery("list", "gpus").stdout.splitlines()]
    cases = [(stack, gpu) for stack in FRAMEWORKS for gpu in gpus]
    table = tmp_path / "cases.csv"
    table.write_text(
        "id,model,n_gpus,gpu,framework,precision\n"
        + "".join(f"{i},llama3-8b,64,{gpu},{FRAMEWORKS[stack]},bf16\n"
                  for i, (stack, gpu) in enumerate(cases))
    )  # fmt: skip
    result = orrery("predict", table)
    assert result.returncode == 0, result.stderr
    checked = set()
    for (stack, gpu), row in zip(cases, csv.DictReader(io.StringIO(result.stdout)), strict=True):
        state, classes = stacks[stack][gpu]
        if row["state"]:
            other_class = state == "measured" and "dense 16" not in classes
            assert row["state"] == ("between" if other_class else state), (stack, gpu)
            checked.add(row["state"])
    assert checked == {"measured", "between", "transferred"}
    assert all(set(groups) == set(gpus) for groups in stacks.values())


def test_a_kind_that_does_not_exist_names_the_nearest():
    result = orrery("list", "model")
    assert result.returncode == 2
    assert "did you mean 'models'?" in result.stderr


def test_kinds_are_completed():
    assert "models clusters gpus stacks policies" in orrery("completion", "bash").stdout
