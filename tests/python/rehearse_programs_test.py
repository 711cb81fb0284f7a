"""Rehearsed programs of tests/programs/table.py: those of the repository, and all checkouts under
ORRERY_PROGRAMS."""

import subprocess
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests/programs"))
import inputs
import table

pytestmark = pytest.mark.skipif(
    not table.TORCH.exists(), reason=f"no PyTorch at {table.TORCH}: ./dev torch installs it"
)
#: Programs without a checkout that the test leaves to the table, because others are alike them.
ALIKE = ("4b", "4c", "6a")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("inputs")
    # The interpreter of PyTorch has the packages that configurations need.
    subprocess.run([table.TORCH, inputs.__file__, made, table.CHECKOUTS], check=True)
    return made


@pytest.mark.parametrize("program", table.PROGRAMS, ids=lambda each: each.name)
def test_program_runs_unmodified(program, folder):
    if program.why_not or program.name[:2] in ALIKE:
        pytest.skip(program.why_not or "alike another program")
    if not table.is_at_hand(program):
        pytest.skip(f"no {program.checkout} under ORRERY_PROGRAMS")
    report = table.rehearse(program, folder)
    assert not isinstance(report, str), report
    assert report["steps"] >= 2 and report["ranks"] == program.ranks
    assert report["kernels"] > 100 and report["collectives"] > 0
    # No step is shorter than its kernels would be on two streams.
    assert report["step_time_s"] > 0.5 * report["kernel_time_s"] > 0


def test_rows_have_figures_or_the_reason():
    program = table.PROGRAMS[0]
    assert table.row_of(program, "no fake kernel").endswith("| no fake kernel |")
    report = {
        "operators": 13149, "kernels": 4582, "collectives": 106, "step_time_s": 0.997,
        "memory_bytes": 28 << 30,
        "host": {"first_step_cpu_s": 8.04, "step_cpu_s": 2.31, "peak_rss_bytes": 1 << 29},
    }  # fmt: skip
    row = table.row_of(program, report)
    assert "| 13,149 / 4,582 / 106 | 0.9970 s | 28.0 GiB | 8.0 s, 2.31 s, 176 us |" in row
    assert "176 us | 0.50 GiB |" in row
    assert row.count("|") == 10
