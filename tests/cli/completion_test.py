"""Completion in shells: bash runs it here, the others are checked as text."""

import subprocess

import pytest
from conftest import orrery
from main_test import COMMANDS


def completed(*words):
    """Returns the completions that bash offers for the last of `words`."""
    script = orrery("completion", "bash")
    assert script.returncode == 0, script.stderr
    quoted = " ".join(f"'{word}'" for word in ("orrery", *words))
    ask = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _orrery; echo ${{COMPREPLY[@]}}"
    result = subprocess.run(
        ["bash", "-u", "-c", script.stdout + ask], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


@pytest.mark.parametrize(
    "words, offered",
    [
        (("",), list(COMMANDS)),
        (("simu",), ["simulate"]),
        (("comp",), ["compare-policies", "compare", "completion"]),
        (("live", "--fab"), ["--fabric"]),
        (("live", "--fabric", ""), ["grpc", "nccl"]),
        (("live", "a.yaml", "--mode", "sh"), ["shadow"]),
        (("jobs", "t.csv", "--policy", "sj"), ["sjf"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("cluster", ""), ["slurm", "kubernetes"]),
        (("import", ""), ["chakra", "jobs", "cluster-file", "cluster", "model", "pytorch"]),
        (("import", "chakra", "--gr"), ["--groups"]),
        (("export", "cluster", "--fo"), ["--format"]),
        (("simulate", "--set", "x"), []),
    ],
)
def test_bash(words, offered):
    assert completed(*words) == offered


def test_zsh_runs_the_functions_of_bash():
    zsh, bash = orrery("completion", "zsh").stdout, orrery("completion", "bash").stdout
    assert "bashcompinit" in zsh
    assert zsh.endswith(bash.split("\n", 1)[1])


def test_fish_has_every_command_with_its_sentence():
    lines = orrery("completion", "fish").stdout.splitlines()
    for command in COMMANDS:
        assert any(f" -a {command} -d '" in line for line in lines), command
    of_live = [line for line in lines if "__fish_seen_subcommand_from live'" in line]
    assert any("-l fabric -x -a 'grpc nccl' -d " in line for line in of_live)
