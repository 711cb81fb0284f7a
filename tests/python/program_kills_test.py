"""DDP, FSDP, HSDP and snapshots under orrery run: ten kills of each kind, ranks forked from warm
processes.

ORRERY_KILLS: another number of kills, of each kind of all programs, the trainers' too, which
./dev soak --programs has otherwise: their imports take minutes of CPU.
"""

import os
import random
import sys

import pytest
from conftest import ROOT
from run_programs_test import SEED, TORCH

sys.path.insert(0, str(ROOT / "tests" / "chaos"))

import program_kills  # noqa: E402

KILLS = int(os.environ.get("ORRERY_KILLS", "10"))
TRAINERS = ("hugging_face.py", "light.py")
CASES = [case for case in program_kills.CASES
         if "ORRERY_KILLS" in os.environ or case[0] not in TRAINERS]  # fmt: skip

pytestmark = pytest.mark.skipif(
    not TORCH.exists(), reason=f"no PyTorch at {TORCH}: ./dev torch installs it"
)


@pytest.mark.parametrize(("script", "kind", "tier"), CASES)
def test_kills_at_random_instants(script, kind, tier):
    dice = random.Random(f"{SEED} {script} {kind}")
    cases = list(program_kills.RUNNERS[tier](script, kind, KILLS, dice))
    assert cases
    assert [case["problem"] for case in cases if case["problem"]] == []


def test_the_table_has_every_kind_and_keeps_the_rest_of_the_page(tmp_path):
    page = tmp_path / "soak.md"
    page.write_text(f"before\n{program_kills.BEGIN}\nold\n{program_kills.END}\nafter\n")
    cases = [
        {"script": "ddp.py", "kind": "rank 0", "seed": 1, "lost_s": lost_s, "problem": problem}
        for lost_s, problem in ((0.1, ""), (0.3, ""), (0.2, "other ends"))
    ]
    program_kills.write_section(page, cases)
    lines = page.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert "| `ddp.py` | rank 0 | T0 | 3 | 2 | 0.20 s | 0.30 s |" in lines
    assert "old" not in lines
    assert len(lines) == 4 + 2 + len(program_kills.CASES)
