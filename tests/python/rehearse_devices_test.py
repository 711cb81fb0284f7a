"""Parts of PyTorch and of kernel packages that large programs need, rehearsed in one process."""

import json

import pytest
from rehearse_test import PROGRAMS, TORCH, rehearse

pytestmark = pytest.mark.skipif(not TORCH.exists(), reason="no PyTorch: ./dev torch installs it")


@pytest.fixture(scope="module")
def result():
    return rehearse("python", PROGRAMS / "devices.py", ranks=4,
                    options=("--allow-stand-in", "histc"))  # fmt: skip


@pytest.fixture(scope="module")
def seen(result):
    assert result.stdout, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_kernel_packages_have_stand_ins_with_shapes(seen):
    assert seen["attention"] == [[2, 1024, 8, 64], [2048, 8, 64], [2, 1024, 8, 64]]
    assert seen["groups_of_rows"] == [4096, 256]


def test_call_without_a_stand_in_is_refused(result):
    assert result.returncode == 4
    assert "expected a kernel that has a stand-in, found" in result.stderr
    assert "flash_attn_with_kvcache" in result.stderr and "--prices" in result.stderr


def test_masks_of_known_values_have_known_shapes(seen):
    assert seen["known_masks"] == [
        [3, 1 << 15], [5, 6, 7], [3, 1 << 15], [0, 2, 3], 2, [2, 3, 1 << 15],
    ]  # fmt: skip


def test_allowed_counts_are_even_and_complete(seen):
    # 32,768 choices in 5 bins.
    counts = [6554, 6554, 6554, 6553, 6553]
    assert seen["even_counts"] == [[float(each) for each in counts], counts]


def test_values_reach_views_and_other_ranks(seen):
    assert seen["gathered_into_a_view"] == [5] * 4
    # Every rank sends 0, 1, 2, 3; this one is rank 0 and receives the first of each.
    assert seen["exchanged"] == [0] * 4


def test_storages_generators_parameters_and_children(seen):
    assert seen["slices"] == [[1 << 15], True, True]
    assert seen["generators"] == [16, 7, [4], 4]
    assert seen["parameters"] == ["embedding", True, "meta"]
    assert seen["quotient"] == [3]
    assert seen["time_of_a_child"] == "moves"
