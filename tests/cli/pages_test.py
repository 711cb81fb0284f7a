"""Commands of the pages that no other test runs, with files of this test; and the rule that each
command of a page runs in a test or in a soak, or has a reason (page_commands.py)."""

import ast
import os
import re
import shlex
import subprocess
import sys
import textwrap

import page_commands
import pytest
from conftest import BUILD, EXAMPLES, ROOT, STRAGGLER
from tutorials_test import TORCH

#: In this order, in one folder; a later command may read what an earlier one has written.
RUNS = (
    "orrery new jobs --like seren --jobs 100 --gpus 64 -o jobs.csv",
    "orrery new jobs --like seren --jobs 300 --gpus 64 --load 1.1 -o drawn.csv",
    "orrery twin jobs drawn.csv --nodes 8 --gpus-per-node 8 --policy easy --choose srtf"
    " --every 1200 --samples 12 --out twin",
    "orrery jobs sacct.txt --nodes 64 --gpus-per-node 8 --policy fifo,easy"
    " --estimates requested --backtest",
    "orrery jobs plain.txt --columns JobID,User,Submit,Start,End,AllocTRES --nodes 64"
    " --gpus-per-node 8 --policy easy",
    "orrery jobs sacct.txt --nodes 64 --gpus-per-node 8 --policy fifo --usd-per-gpu-hour 2.50",
    "orrery jobs sacct.txt --gpu-kind a100 --nodes 64 --gpus-per-node 8 --policy easy",
    "orrery jobs sacct.txt --cluster cluster.yaml --policy easy"
    " --set 'power.limits=[{share: 80%, from: 8 h, until: 20 h, every: 24 h}]'"
    " --set power.spend=pause --what-if power.spend=follow --what-if power.spend=flat",
    "orrery jobs jobs.csv --nodes 8 --gpus-per-node 8 --policy easy --estimates requested"
    " --out tables",
    "orrery jobs kinds.csv --node-kinds A100:4,V100:8 --gpus-per-node 8"
    " --policy fifo,fifo-skip,srtf",
    "orrery jobs parts.csv --nodes 2 --gpus-per-node 2 --policy fifo,easy,srtf",
    "orrery jobs parts.csv --nodes 2 --gpus-per-node 2 --policy fifo --what-if gpu_slices=1",
    "orrery jobs elastic.csv --nodes 8 --gpus-per-node 8 --policy fifo,elastic"
    " --set conditions.restart_cost=60s",
    "orrery twin jobs jobs.csv --nodes 8 --gpus-per-node 8 --policy easy,srtf --every 36000"
    " --samples 2",
    "orrery jobs jobs.csv --nodes 8 --gpus-per-node 8 --policy fifo --record queue.log",
    "orrery replay queue.log --under fifo,srtf --differences starts.csv",
    "orrery live --jobs jobs.csv --nodes 8 --gpus-per-node 8 --policy las"
    " --placement consolidated --begin 0 --for 600 --speed 1000",
    "orrery plan --model llama3-70b --cluster dgx-h100 --gpus 512 --tokens 2T"
    " --deadline 60d --budget 2.5M --html plan.html",
    "orrery simulate straggler-4-ranks --record live.log",
    "orrery simulate --from live.log@2s --futures 3 --for 1s"
    " --policies static,predictive-rebalance",
    "orrery new policy mine",
    "orrery simulate kill-one-rank --policy mine.py --futures 2 --at 2s --policies mine.py,recover",
    "orrery live straggler-4-ranks --restart 1 --set run.steps=3",
    "orrery compare-policies straggler-4-ranks --world both --set run.steps=4",
)
WITH_TORCH = (
    "orrery rehearse --ranks 8 --cluster dgx-h100 --trace step -- python train.py --tp 1"
    " --micro-batch 8",
    "orrery rehearse --ranks 8 --cluster dgx-h100 --vary 'tp=1 mbs=8,16' --"
    " python train.py --tp {tp} --micro-batch {mbs}",
    "orrery run -n 2 --policy recover --record run.log --"
    " python train.py --micro-batch 8",
)
PROGRAM = """
import argparse, torch
from torch.nn.parallel import DistributedDataParallel
read = argparse.ArgumentParser()
read.add_argument("--tp", type=int, default=1)
read.add_argument("--micro-batch", type=int, default=8)
options = read.parse_args()
torch.distributed.init_process_group()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = DistributedDataParallel(torch.nn.Linear(64, 64).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(4):
    model(torch.randn(options.micro_batch, 64, device=device)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.distributed.destroy_process_group()
"""
#: Programs of the blocks of Python of a page, `#0` for the first: with the parts that the page
#: leaves to the reader, such as a policy or a file.
PYTHON = {
    "futures.md": """
import orrery
class Mine(orrery.Policy):
    def __init__(self, patience=3):
        self.patience = patience
    def observe(self, seen, decisions):
        decisions.rest()
orrery.simulate("train.yaml", record="live.log")
#0
#1
#2
""",
    "jobs.md": """
import orrery
#0
""",
    "python-policies.md": """
import numpy as np
#0
assert report.decisions == 1
class Reader(orrery.Policy):
    def needs(self):
        return orrery.Needs(tick=0.5)
    def observe(self, seen, decisions):
        job = 0
        if seen.jobs and len(seen.samples.ranks(job)):
            #1
            decisions.note("slow rank", 2)
scenario = orrery.example("kill-one-rank")
orrery.simulate(scenario, policies=["recover", Reader()], record="run.log")
#2
assert Mine().convert_state(b"7", 0) == b"7,0"
#3
assert len(log.samples["ranks"]) and len(log.notes)
#4
assert sim.report.decisions == 1
#5
""",
}  # fmt: skip
#: Pages whose Python another test runs.
PYTHON_ELSEWHERE = {
    "first-steps.md": "tests/python/wheel_test.py", "plan.md": "tests/cli/recommendation_test.py",
    "run.md": "tests/python/run_programs_test.py", "newcomers.md": "tests/cli/tutorials_test.py",
    "pytorch.md": "tests/cli/tutorials_test.py",
    "pytorch-users.md": "tests/python/run_programs_test.py",
    "models.md": "tests/python/torchtitan_test.py",
    "twin.md": "tests/python/twin_test.py",
}  # fmt: skip
PATIENCE_S = 300


def run_all(commands, folder, path):
    environment = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    environment.update(PATH=f"{BUILD / 'bin'}:{path}:{environment['PATH']}", OMP_NUM_THREADS="1")
    for command in commands:
        done = subprocess.run(shlex.split(command), cwd=folder, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=PATIENCE_S)  # fmt: skip
        assert done.returncode == 0, f"$ {command}\n{done.stdout}"


def test_commands_of_the_pages_run(tmp_path):
    sample = ROOT / "tests" / "traces" / "samples" / "sacct.txt"
    (tmp_path / "sacct.txt").write_text(sample.read_text())
    (tmp_path / "plain.txt").write_text(
        "1;ann;2024-03-01T08:00:00;2024-03-01T08:05:00;2024-03-01T10:05:00;gres/gpu=2\n"
    )
    (tmp_path / "cluster.yaml").write_text("{preset: dgx-h100, nodes: 64}")
    page = (ROOT / "docs" / "jobs.md").read_text()
    logs = re.findall(r"^job_id,submit_s.*?(?=```)", page, re.MULTILINE | re.DOTALL)
    for name, log in zip(("kinds.csv", "parts.csv", "elastic.csv"), logs, strict=True):
        (tmp_path / name).write_text(log)
    run_all(RUNS, tmp_path, BUILD / "venv" / "bin")
    assert STRAGGLER.exists() and (tmp_path / "tables").is_dir()


def test_commands_of_the_pages_about_programs_run(tmp_path):
    if not TORCH.exists():
        pytest.skip(f"no PyTorch at {TORCH}: ./dev torch installs it")
    (tmp_path / "train.py").write_text(PROGRAM)
    run_all(WITH_TORCH, tmp_path, TORCH.parent)
    assert (tmp_path / "run.log").exists()


def python_of(page):
    """Returns the blocks of Python of a page."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def test_the_python_of_each_page_runs_in_a_test():
    pages = {page.name for page in page_commands.PAGES if python_of(page)}
    assert pages == set(PYTHON) | set(PYTHON_ELSEWHERE)
    for test in PYTHON_ELSEWHERE.values():
        assert (ROOT / test).is_file(), test
    for page, text in PYTHON.items():
        count = len(python_of(ROOT / "docs" / page))
        assert re.findall(r"^ *#(\d)$", text, re.MULTILINE) == list(map(str, range(count))), page


@pytest.mark.parametrize("page", PYTHON)
def test_the_python_of_a_page_runs(page, tmp_path):
    blocks = python_of(ROOT / "docs" / page)
    text = re.sub(r"^( *)#(\d)$", lambda at: textwrap.indent(blocks[int(at[2])], at[1]),
                  PYTHON[page], flags=re.MULTILINE)  # fmt: skip
    (tmp_path / "program.py").write_text(text.replace("count=20", "count=2"))
    (tmp_path / "train.yaml").write_text((EXAMPLES / "llama3-70b-512-h100.yaml").read_text())
    sample = ROOT / "tests" / "traces" / "samples" / "sacct.txt"
    (tmp_path / "sacct.txt").write_text(sample.read_text())
    path = f"{BUILD / 'python'}:{EXAMPLES / 'policies'}"
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, text=True, timeout=PATIENCE_S,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "MPLBACKEND": "agg", "HOME": "/tmp"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_each_command_of_a_page_runs_in_a_test_or_in_a_soak_or_has_a_reason():
    assert set(page_commands.REASONS) == {"gpu", "cluster", "root"}
    found, problems = page_commands.not_run()
    assert problems == []
    run = [command.line for command in page_commands.of_soak()]
    assert len(run) > 60 and len(set(run)) == len(run)
    assert set(run) == {line for line, how in found if how not in page_commands.REASONS}


def test_a_command_of_the_soak_must_be_able_to_run(monkeypatch):
    text = ("`./dev bench SEEDS`, `./dev\nlint`, `pip install ...`, "
            "`tests/chaos/chaos.py --only x`, `chaos.py --only y`\n"
            "```sh\n./dev bench jobs [year | recorded]  # minutes\n"
            "./dev fuzz 5 && true\n```\n")  # fmt: skip
    monkeypatch.setattr(page_commands, "PAGES", [_Page(ROOT / "docs" / "lost.md", text)])
    found, problems = page_commands.not_run()
    assert [problem.split("`")[1] for problem in problems] == [
        "chaos.py --only y", "./dev bench SEEDS", "./dev bench jobs [year | recorded]",
        "pip install ...", "tests/chaos/chaos.py --only x",
    ]  # fmt: skip
    assert set(found) == {("./dev lint", "minutes"), ("./dev fuzz 5", "minutes")}
    needs = {command.line: (command.runs, command.needed) for command in page_commands.of_soak()}
    assert needs["./dev fuzz 5"] == ("./dev fuzz 5", ())
    assert needs["./dev lint"] == ("echo >>core/units.cpp && ./dev lint", ())


def test_each_mention_of_dev_in_a_page_is_a_command():
    for page in page_commands.PAGES:
        if page.name not in page_commands.GENERATED:
            text = page.read_text()
            words = {line.split()[1] for line in page_commands.dev_lines(text)}
            assert words == set(re.findall(r"\./dev\s+([a-z]+)", text)), page


def test_the_page_of_commands_that_are_not_run_is_up_to_date():
    written = (ROOT / "docs" / "not-run.md").read_text()
    assert written == page_commands.page(), "run ./dev reference"


def test_a_command_without_a_test_is_found(tmp_path, monkeypatch):
    lost = ROOT / "docs" / "lost.md"
    option = "--no-such" + "-option"  # The scan reads this file, too.
    text = (f"`orrery jobs {option} x`\n`orrery simulate FILE --json`\n"
            "`./dev nothing` `./dev fresh`\n```\nsrun -n 2 hostname\n```\n")  # fmt: skip
    monkeypatch.setattr(page_commands, "PAGES", [_Page(lost, text)])
    found, problems = page_commands.not_run()
    assert [problem.split("`")[1] for problem in problems] == [
        f"orrery jobs {option} x", "./dev nothing",
    ]  # fmt: skip
    assert set(found) == {("./dev fresh", "root"), ("srun -n 2 hostname", "cluster")}


def test_a_command_of_an_unknown_tool_in_a_block_is_found(monkeypatch):
    text = ("```sh\ncd a\nX=1 helm install b\norrery list models\n# c\n```\n"
            "```\n$ brew d\nbrew e\n$ Y=2 orrery list models\n```\n"
            "```console\n$ sed -i f\n```\n")  # fmt: skip
    assert list(page_commands.strange_lines(text)) == ["X=1 helm install b", "brew d", "sed -i f"]
    assert list(page_commands.strange_lines(text, True)) == ["X=1 helm install b"]
    monkeypatch.setattr(page_commands, "PAGES", [_Page(ROOT / "docs" / "lost.md", text)])
    _, problems = page_commands.not_run()
    assert ["helm" in each for each in problems] == [True, False, False]


def test_a_name_within_a_sentence_is_no_run_of_a_command():
    def starts(text):
        return page_commands.starts_of(ast.parse(text))

    assert starts("orrery('jobs', LOG)") == starts("['orrery jobs', LOG]") == {"jobs"}
    assert "jobs" not in starts("assert 'no jobs' in text") | starts("say('all jobs')")


class _Page:
    """A page that is not in the tree."""

    def __init__(self, path, text):
        self.name, self.read_text = path.name, lambda: text
        self.relative_to = path.relative_to
