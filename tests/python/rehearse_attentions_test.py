"""Rehearsed attention: rate of the kernels that the program calls, and causal masks."""

import json
import subprocess

import pytest
from rehearse_test import PROGRAMS, TORCH, pytestmark, rehearse  # noqa: F401


@pytest.mark.parametrize("cluster, share", [("dgx-h100", 0.6), ("dgx-a100", 1.0)])
def test_flash_attn_has_the_rate_of_its_kernels(cluster, share):
    # `attention_flash_2` of topologies/catalog/kernels.yaml; PyTorch calls cuDNN's on an H100.
    result = rehearse("python", PROGRAMS / "attentions.py", "kernels", ranks=1, cluster=cluster)
    own, other = json.loads(result.stdout.splitlines()[-1])
    assert own / other == pytest.approx(share, rel=0.02)


def test_model_of_transformers_has_causal_attention_instead_of_a_mask():
    found = subprocess.run([TORCH, "-c", "import transformers"], capture_output=True)
    if found.returncode:
        pytest.skip("no transformers: ./dev torch installs it")
    result = rehearse("python", PROGRAMS / "attentions.py", "mask", ranks=1)
    assert result.returncode == 0, result.stderr
    assert "attention with a mask" not in result.stderr
