"""orrery run with the trainers of transformers and Lightning: resumption, returned ranks, examples
of lost ranks."""

import os
import re
import signal
import subprocess

import pytest
from conftest import ROOT
from run_programs_test import PATIENCE, PROGRAMS, TORCH, Run, ends_in, environment, processes_of

pytestmark = pytest.mark.skipif(
    not TORCH.exists(), reason=f"no PyTorch at {TORCH}: ./dev torch installs it"
)


@pytest.mark.parametrize("script", ["hugging_face.py", "light.py"])
def test_a_trainer_resumes_by_itself_from_its_own_checkpoint(script, tmp_path):
    ends = {}
    for kills in (False, True):
        folder = tmp_path / str(kills)
        run = Run(script, 2, 100, ["--restart", "1"], CHECKPOINTS=str(folder), RESUMES="1")
        if kills:
            run.wait_for("at step 50 ")
            run.kill(0)
            run.kill(1)
        report, ends[kills], code = run.end()
        assert code == 0, run.text
        assert report["tier"] == ("T1" if kills else "T0")
        begins = sorted({int(n) for n in re.findall(r"begins at step (\d+) ", run.text)})
        assert begins[0] == 0
        assert not kills or begins[-1] in (40, 60, 80)  # resumes the newest checkpoint
    assert set(ends[True]) == {0, 1} and len(set(ends[True].values())) == 1
    assert ends[False] == ends[True]  # bit for bit


def plain_lightning(folder, until=None, **more):
    """The last lines of 75 steps of light.py under torchrun, and its output.

    Its processes, whose ids are in the folder, are killed at a line `until`.
    """
    process = subprocess.Popen(
        [TORCH.parent / "torchrun", "--standalone", "--nproc-per-node", "2", PROGRAMS / "light.py"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**environment(75), "RANKS": str(folder), **more},
    )  # fmt: skip
    lines = []
    for line in process.stdout:
        lines.append(line)
        if until is not None and until in line:
            for each in (process.pid, *processes_of(folder).values()):
                os.kill(each, signal.SIGKILL)
            until = None
    process.wait(PATIENCE)
    return ends_in("".join(lines)), "".join(lines)


def test_lightning_that_resumes_within_a_pass_has_the_bits_that_it_has_without_orrery(tmp_path):
    kept = {each: {"CHECKPOINTS": str(tmp_path / each), "EVERY": "40"} for each in "ab"}
    run = Run("light.py", 2, 75, ["--restart", "1"], SLEEP_S="0.02", **kept["a"])
    run.wait_for("at step 50 ")
    run.kill(0)
    run.kill(1)
    report, ends, code = run.end()
    assert code == 0 and report["tier"] == "T1", run.text
    assert "begins at step 40 of rank 0" in run.text
    killed, text = plain_lightning(tmp_path, "at step 50 ", SLEEP_S="0.02", **kept["b"])
    assert killed == {}, text
    resumed, text = plain_lightning(tmp_path, **kept["b"])
    assert "begins at step 40 of rank 0" in text
    assert resumed == ends and len(ends) == 2  # bit for bit


def marks_of(text):
    """The batches that the ranks have trained: {(step, rank): mark}."""
    found = re.findall(r"^at step (\d+) of rank (\d+): \d+ examples, (\w+)$", text, re.MULTILINE)
    return {(int(step), int(rank)): mark for step, rank, mark in found}


#: Settings of a pass of 15 (Lightning) and 30 (transformers) steps of three ranks.
SHORT_PASSES = {"PIECES": "360", "LINES": "1", "SLEEP_S": "0.05"}


@pytest.mark.parametrize(("script", "lost"), [("hugging_face.py", 0), ("light.py", 1)])
def test_a_lost_rank_of_a_trainer_returns_and_trains_its_own_examples(script, lost):
    words = ["--replace", "1"]
    undisturbed = Run(script, 3, 100, words, **SHORT_PASSES)
    assert undisturbed.end()[2] == 0, undisturbed.text
    run = Run(script, 3, 100, words, **SHORT_PASSES)
    run.wait_for("at step 20 ")  # Lightning is in its second pass
    run.kill(lost)
    report, ends, code = run.end()
    assert code == 0, run.text
    assert report["tier"] == "T2"
    assert (report["ranks_at_end"], report["ranks_missing"]) == (3, [])
    assert [loss["rank"] for loss in report["losses"]] == [lost]
    assert report["losses"][0]["replaced_s"] > 0
    assert report["losses"][0]["lost_s"] < report["elapsed_s"]
    assert sorted(ends) == [0, 1, 2]
    assert len(set(ends.values())) == 1  # parameters and steps of all, bit for bit
    expected, seen = marks_of(undisturbed.text), marks_of(run.text)
    assert len(expected) == 300
    assert seen.items() <= expected.items()  # every rank has its own examples in every step
    missing = sorted(set(expected) - set(seen))
    assert {rank for _, rank in missing} == {lost}
    returned = int(re.search(rf"rank {lost} replaced after step (\d+)", run.text).group(1))
    last = returned - 1 if script == "light.py" else returned  # it counts from 0
    assert [step for step, _ in missing] == list(range(missing[0][0], last + 1))


def test_a_rank_that_is_lost_in_a_second_training_stays_lost_with_the_reason():
    words = ["--replace", "1"]
    run = Run("hugging_face.py", 3, 60, words, TRAININGS="2", SLEEP_S="0.03")
    run.wait_for("at step 60 ")
    run.wait_for("at step 20 ")
    run.kill(2)
    report, ends, code = run.end()
    assert code == 6, run.text
    assert report["ranks_missing"] == [2]
    assert "a lost rank returns in the first one only" in run.text
    assert "the new process of rank 2 ended before it joined" in run.text
    assert sorted(ends) == [0, 1] and len(set(ends.values())) == 1


@pytest.mark.parametrize(("script", "size"), [("light.py", 8), ("hugging_face.py", 4)])
def test_trainers_deal_the_examples_of_a_lost_rank(script, size):
    run = Run(script, 4, 60, ["--deal-data"], EXAMPLE_S="0.004", SLEEP_S="0.03")
    run.wait_for_training()
    run.kill(1)
    report, ends, code = run.end()
    assert code == 6, run.text
    assert sorted(ends) == [0, 2, 3] and len(set(ends.values())) == 1
    dealt = report["examples_dealt"]
    assert 30 * size <= dealt <= 50 * size, "of the 50 steps behind the kill, less than those to it"
    if script == "light.py":  # 8 examples of its own, and a third of 8 others
        sizes = set(re.findall(r"at step [45]0 of rank \d: (\d+) examples", run.text))
        assert sizes <= {"10", "11"} and sizes


def test_batches_of_accelerate_get_every_example_of_a_lost_rank_once():
    code = """
import os, sys, types
sys.path.insert(0, sys.argv[1])
import dealing
from accelerate.data_loader import BatchSamplerShard
from torch.utils.data import BatchSampler

class Seen:
    lost, dealt = (), 0
    def lost_ranks(self): return self.lost
    def count_dealt(self, count): self.dealt += count

def passes(examples, lose_at, lost, drop_last=False):
    os.environ["WORLD_SIZE"] = "4"
    plain = BatchSampler(range(examples), 5, drop_last)
    living = [rank for rank in range(4) if rank not in lost]
    every = {rank: [] for rank in living}
    for rank in living:
        os.environ["RANK"] = str(rank)
        seen.lost = ()
        for number, batch in enumerate(BatchSamplerShard(plain, 4, rank)):
            every[rank].append(batch)
            if number + 1 == lose_at: seen.lost = lost
    return every

seen = Seen()
dealing.deal_shards(seen)
dealing.deal_shards(seen)  # once is enough
for lost in ((1,), (0, 3)):
    every = passes(200, 3, lost)
    assert len({tuple(map(len, each)) for each in every.values()}) == 1
    flat = [example for each in every.values() for batch in each for example in batch]
    assert len(flat) == len(set(flat))
    missing = set(range(60, 200)) - set(flat)  # behind the third batches
    assert len(missing) < 2 * 4, missing
    assert len(next(iter(every.values()))[9]) > 5
uneven = passes(203, 3, (1,))  # the last batches are not full
assert len({tuple(map(len, each)) for each in uneven.values()}) == 1
assert passes(200, 99, (1,)) == {
    rank: [list(range(at, at + 5)) for at in range(5 * rank, 200, 20)] for rank in (0, 2, 3)
}
print(seen.dealt)
"""
    result = subprocess.run(
        [TORCH, "-c", code, ROOT / "python" / "orrery" / "programs"],
        capture_output=True, text=True, timeout=PATIENCE, env=environment(1),
    )  # fmt: skip
    assert result.returncode == 0 and int(result.stdout) > 100, result.stderr
