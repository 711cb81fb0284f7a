"""Rehearsed attention of transformers: causal masks."""

import subprocess

import pytest
from rehearse_test import PROGRAMS, TORCH, pytestmark, rehearse  # noqa: F401


def test_model_of_transformers_has_causal_attention_instead_of_a_mask():
    found = subprocess.run([TORCH, "-c", "import transformers"], capture_output=True)
    if found.returncode:
        pytest.skip("no transformers: ./dev torch installs it")
    result = rehearse("python", PROGRAMS / "attentions.py", "mask", ranks=1)
    assert result.returncode == 0, result.stderr
    assert "attention with a mask" not in result.stderr
