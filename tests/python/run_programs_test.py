"""orrery run with PyTorch: unchanged programs with and without it, and through the loss of ranks.

The instants of the kills are random: ORRERY_SEED chooses others.
"""

import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time

import pytest
from conftest import BUILD, ROOT

PROGRAMS = ROOT / "tests" / "python" / "run_programs"
PROGRAM = BUILD / "bin" / "orrery"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
TORCH = pathlib.Path(os.environ.get("ORRERY_TORCH_PYTHON", CACHE / "orrery/torch/bin/python"))
SEED = int(os.environ.get("ORRERY_SEED", "1"))
#: Seconds for one run: imports of PyTorch take most of them on a busy machine.
PATIENCE = 240

pytestmark = pytest.mark.skipif(
    not TORCH.exists(), reason=f"no PyTorch at {TORCH}: ./dev torch installs it"
)


def environment(steps):
    plain = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    path = f"{TORCH.parent}:{plain['PATH']}"
    return {**plain, "PATH": path, "OMP_NUM_THREADS": "1", "STEPS": str(steps)}


def ends_in(text):
    """The last lines of the ranks: {rank: (steps, hash of the parameters)}."""
    found = re.findall(r"rank (\d+) ended after (\d+) steps with (\w{16})", text)
    return {int(rank): (int(steps), bits) for rank, steps, bits in found}


def processes_of(folder):
    """The process ids of the ranks in their newest attempt, as programs write them: {rank: id}."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*.*[0-9]")):
        attempt, rank = map(int, path.name.split("."))
        found[rank] = max(found.get(rank, (0, 0)), (attempt, int(path.read_text())))
    return {rank: process for rank, (_, process) in found.items()}


class Run:
    """A run of `orrery run --json`, whose output is read as it comes.

    A run that ends, is not attached, or makes no progress fails the test that waits for it, and is
    killed. Ranks are forked from one process that has imported PyTorch, because imports take most
    of the processor time of these tests; `cold`: each rank imports it by itself.
    """

    def __init__(
        self, script, ranks, steps=40, options=(), arguments=(), folder=None, cold=False, **more
    ):  # fmt: skip
        self.ranks = ranks
        if ranks > 1 and not cold and "--warm" not in options:
            options = [*options, "--warm", "all"]
        self._folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [PROGRAM, "run", "-n", str(ranks), "--json", *options, "--", "python",
             PROGRAMS / script, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
            env={**environment(steps), "RANKS": self._folder.name, **more},
        )  # fmt: skip
        self.lines = []
        self._problem = ""
        self._awaited = "at step 10 "
        self._trains = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if "not attached: " in line:
                self._problem = "the program is not attached"
            if self._awaited in line or self._problem:
                self._trains.set()
        self._problem = self._problem or "the run has ended"
        self._trains.set()

    def wait_for(self, text):
        """Waits for a line with `text`, which must not have come yet."""
        self._awaited = text
        self._trains.clear()
        if self._problem:
            self._trains.set()
        self.wait_for_training()

    def wait_for_training(self):
        if not self._trains.wait(PATIENCE):
            self._problem = f"no line with '{self._awaited}' within {PATIENCE} s"
        if self._problem and not any(self._awaited in line for line in self.lines):
            self.process.terminate()  # SIGKILL would leave its ranks
            pytest.fail(f"{self._problem}:\n{self.text}")
        self.processes = processes_of(self._folder.name)

    def kill(self, rank, number=signal.SIGKILL):
        os.kill(self.processes[rank], number)

    @property
    def text(self):
        return "".join(self.lines)

    def join(self):
        """Waits until no process of the run can write any more."""
        self._reader.join()

    def end(self):
        """The report, the last lines of the ranks and the exit code."""
        limit = threading.Timer(2 * PATIENCE, self.process.terminate)
        limit.start()
        out = self.process.stdout.read()
        code = self.process.wait(PATIENCE)
        limit.cancel()
        self.join()
        assert out, self.text
        return json.loads(out), ends_in(self.text), code


def with_torchrun(script, ranks, steps):
    """The last lines of a run that Orrery takes no part in.

    PyTorch 2.13 aborts now and then at the end of the process, after all work, so the exit code is
    not looked at.
    """
    result = subprocess.run(
        [TORCH.parent / "torchrun", "--standalone", "--nproc-per-node", str(ranks),
         PROGRAMS / script],
        capture_output=True, text=True, env=environment(steps), timeout=PATIENCE,
    )  # fmt: skip
    return ends_in(result.stdout)


@pytest.mark.parametrize("script", ["ddp.py", "fsdp.py", "hugging_face.py", "light.py"])
def test_without_a_loss_every_bit_is_that_of_torchrun(script):
    is_cold = script in ("ddp.py", "light.py")
    report, ends, code = Run(script, ranks=2, steps=12, cold=is_cold).end()
    assert code == 0
    assert report["attached"] is True
    assert report["tier"] == "T0"
    assert report["steps"] == 12
    assert report["losses"] == []
    assert report["groups"][0]["ranks"] == 2
    uncarried = {kind["uncarried_operation"] for kind in report["groups"]}
    assert uncarried == ({"reduce_scatter"} if script == "fsdp.py" else {None})
    assert len(ends) == 2
    assert len(set(ends.values())) == 1
    assert ends == with_torchrun(script, ranks=2, steps=12)


def test_a_launcher_that_hides_the_folder_leaves_the_entry_point_of_pytorch(tmp_path):
    (tmp_path / "orrery_command").symlink_to(ROOT / "python" / "orrery_command")
    facts = tmp_path / "orrery-0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: orrery\nVersion: 0\n")
    (facts / "entry_points.txt").write_text(
        "[torch.backends]\norrery = orrery_command.torch_backend:attach\n"
    )
    for path, is_attached in ((tmp_path, True), ("", False)):
        result = subprocess.run(
            [PROGRAM, "run", "-n", "2", "--json", "--", "env", f"PYTHONPATH={path}", TORCH,
             PROGRAMS / "ddp.py"],
            capture_output=True, text=True, env=environment(12), timeout=PATIENCE,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["attached"] is is_attached
        assert len(ends_in(result.stderr)) == 2


def test_sums_in_shared_memory_have_the_bits_of_gloo():
    words = [TORCH.parent / "torchrun", "--standalone", "--nproc-per-node", "3"]
    sums = []
    for start in ([PROGRAM, "run", "-n", "3", "--", "python"], words):
        result = subprocess.run(
            [*start, PROGRAMS / "sums.py"],
            capture_output=True, text=True, env=environment(1), timeout=PATIENCE,
        )  # fmt: skip
        found = re.findall(r"shared memory (\w+), sums (\w+) of rank", result.stdout)
        assert len(found) == 3, result.stderr
        assert {shared for shared, _ in found} == {str(start is not words)}
        sums.append({bits for _, bits in found})
    assert sums[0] == sums[1] and len(sums[0]) == 1


def test_groups_of_nccl_give_the_bits_of_gloo():
    expected = Run("ddp.py", ranks=2, steps=12).end()[1]
    for in_flight in (1, 2):
        options = ["--sums", "sockets", *([] if in_flight == 2 else ["--in-flight", "1"])]
        run = Run("nccl_on_cpu.py", 2, 12, options, cold=True)
        report, ends, code = run.end()
        assert code == 0
        assert report["attached"] is True
        assert ends == expected
        early = list(map(int, re.findall(r"in flight beside others: (\d+)", run.text)))
        assert len(early) == 2 and (min(early) > 0) == (max(early) > 0) == (in_flight > 1)


@pytest.mark.parametrize("kind", ["rank 0", "two, one during recovery"])
def test_a_loss_with_two_operations_in_flight_costs_no_step(kind):
    run = Run("ddp.py", 4, 200, ["--sums", "sockets", "--in-flight", "2"])
    run.wait_for_training()
    lost = disturb(run, kind, random.Random(f"{SEED} {kind}"))
    report, ends, code = run.end()
    assert code == 6, run.text
    assert sorted(ends) == sorted(set(range(4)) - set(lost))
    assert len(set(ends.values())) == 1  # survivors' parameters, bit for bit
    assert next(iter(ends.values()))[0] == 200


def disturb(run, kind, chance):
    """Kills or stops ranks at a random instant. Returns the ranks."""
    time.sleep(chance.random())
    lost = {
        "rank 0": [0],
        "two at once": chance.sample(range(run.ranks), 2),
        "two, one during recovery": chance.sample(range(run.ranks), 2),
        "stopped": [chance.randrange(run.ranks)],
    }[kind]
    for at, rank in enumerate(lost):
        if at > 0 and "recovery" in kind:
            time.sleep(chance.random() * 0.1)
        run.kill(rank, signal.SIGSTOP if kind == "stopped" else signal.SIGKILL)
    return lost


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("ddp.py", "rank 0"),
        ("ddp.py", "two at once"),
        ("ddp.py", "two, one during recovery"),
        ("ddp.py", "stopped"),
        ("nccl_on_cpu.py", "rank 0"),
        ("nccl_on_cpu.py", "two, one during recovery"),
        ("hugging_face.py", "rank 0"),
        ("light.py", "rank 0"),
    ],
)
def test_a_loss_costs_no_step(script, kind):
    # nccl_on_cpu.py looks for an object that a warm process keeps from the garbage collector.
    is_nccl = script == "nccl_on_cpu.py"
    run = Run(script, 4, 200, ["--sums", "sockets"] if is_nccl else [], cold=is_nccl)
    run.wait_for_training()
    lost = disturb(run, kind, random.Random(f"{SEED} {script} {kind}"))
    report, ends, code = run.end()
    assert code == 6, run.text
    assert sorted(report["ranks_missing"]) == sorted(lost)
    assert sorted(ends) == sorted(set(range(4)) - set(lost))
    assert len(set(ends.values())) == 1  # survivors' parameters, bit for bit
    assert next(iter(ends.values()))[0] == 200
    assert report["ended_by"] == "program"
    assert all(loss["lost_s"] is not None for loss in report["losses"])


def ends_of_killed_run(run, disturb_ranks=lambda: None):
    """Kills `orrery run` and returns the last lines of the ranks, none of which is left then."""
    run.process.kill()
    run.process.wait()
    disturb_ranks()
    run.join()
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{rank}") for rank in run.processes.values()):
        assert time.monotonic() < deadline, run.text
        time.sleep(0.05)
    return ends_in(run.text)


@pytest.mark.parametrize("is_cold", [True, False])
def test_the_death_of_orrery_run_costs_the_program_nothing(is_cold):
    undisturbed = Run("ddp.py", 3, 200).end()[1]
    run = Run("ddp.py", 3, 200, cold=is_cold)
    run.wait_for_training()
    assert ends_of_killed_run(run) == undisturbed  # all ranks, all steps, bit for bit
    assert run.text.count("`orrery run` was killed: the program goes on without it") == 1
    for rank in run.processes.values():
        assert re.search(rf"its processes:.* {rank}\b", run.text)


def test_without_orrery_run_a_loss_ends_the_program_with_the_operations_name():
    run = Run("ddp.py", 3, 100000)
    run.wait_for_training()
    killed_s = time.monotonic()
    assert ends_of_killed_run(run, lambda: run.kill(1)) == {}
    assert time.monotonic() - killed_s < 60  # about 2 s where the machine is free
    for rank in (0, 2):
        assert re.search(rf"rank {rank} ends: `orrery run` was killed, and \w+ cannot be carried "
                         r"through a loss without it", run.text), run.text  # fmt: skip


def test_the_death_of_orrery_run_before_the_first_group_ends_the_ranks(tmp_path):
    begun = tmp_path / "begun"
    program = tmp_path / "late.py"
    program.write_text(
        "import os, pathlib, time, torch.distributed as dist\n"
        f"pathlib.Path({str(begun)!r} + os.environ['RANK']).write_text(str(os.getpid()))\n"
        "time.sleep(2)\n"
        "dist.init_process_group('gloo')\n"
        "print('never', flush=True)\n"
    )
    run = Run(program, 2)
    begun_by = [pathlib.Path(f"{begun}{rank}") for rank in range(2)]
    deadline = time.monotonic() + PATIENCE
    while not all(each.exists() and each.read_text() for each in begun_by):
        assert time.monotonic() < deadline, run.text
        time.sleep(0.05)
    run.processes = {rank: int(each.read_text()) for rank, each in enumerate(begun_by)}
    ends_of_killed_run(run)
    assert "never" not in run.text
    for rank in range(2):
        assert f"rank {rank} ends: `orrery run` was killed, before the program had" in run.text


def test_the_last_rank_that_stops_is_named():
    run = Run("ddp.py", 1, 100000)
    run.wait_for_training()
    run.kill(0, signal.SIGSTOP)
    run.wait_for("rank 0 ended (no heartbeat: stopped or hung, then killed), no other rank works")
    assert run.end()[2] == 128 + signal.SIGKILL


def test_a_sharded_program_ends_with_the_operations_name():
    run = Run("fsdp.py", ranks=3, steps=2000)
    run.wait_for_training()
    run.kill(1)
    killed = time.monotonic()
    report, ends, code = run.end()
    assert code == 4
    assert report["refused_operation"] == "reduce_scatter"
    assert report["tier"] is None  # no tier carries the loss
    assert report["ended_by"] == "orrery"
    assert ends == {}
    assert "error: a rank was lost: reduce_scatter cannot be carried through a loss" in run.text
    assert time.monotonic() - killed < 60  # about 1.2 s where the machine is free
    assert not any(os.path.exists(f"/proc/{rank}") for rank in run.processes.values())


@pytest.mark.parametrize(
    ("operation", "refused"),
    [
        ("scatter", "scatter"),
        ("send", "recv|send"),
        ("all_to_all", "all_to_all"),
        ("all_to_all of lists", "all_to_all"),
        ("sparse", "all_reduce of sparse or device tensors"),
        ("scatter of another", None),
        ("reduce", None),
        ("reduce to the lost", None),
    ],
)
def test_no_operation_raises_into_the_program_at_a_loss(operation, refused):
    run = Run("operations.py", 3, arguments=[operation])
    report, _, code = run.end()
    assert "exception in rank" not in run.text, run.text
    assert 1 in report["ranks_missing"]
    if refused is None:
        assert (code, report["refused_operation"]) == (6, None), run.text
        assert {f"end of rank {rank}\n" for rank in (0, 2)} <= set(run.lines)
    else:
        assert code == 4, run.text
        assert re.fullmatch(refused, report["refused_operation"])
        assert report["ended_by"] == "orrery"


def test_a_sharded_program_starts_again_from_its_own_checkpoint(tmp_path):
    ends = {}
    for kills in (False, True):
        folder = tmp_path / str(kills)
        folder.mkdir()
        run = Run("fsdp.py", 2, 60, ["--restart", "2"], CHECKPOINTS=str(folder))
        if kills:
            run.wait_for("at step 30 ")
            run.kill(1)
        report, ends[kills], code = run.end()
        assert code == 0, run.text
        assert report["tier"] == ("T1" if kills else "T0")
        assert len(report["restarts"]) == int(kills)
        assert len(ends[kills]) == 2
        begins = sorted({int(n) for n in re.findall(r"begins at step (\d+) ", run.text)})
        assert begins[0] == 0
        assert not kills or begins[-1] in (20, 40)  # resumes the newest checkpoint
    assert ends[False] == ends[True]  # bit for bit


def test_two_lines_under_torchrun_state_the_tier_and_resume(tmp_path):
    light = ROOT / "python" / "orrery" / "programs" / "light"  # it imports no package
    begins = []
    for folder in ("", str(tmp_path / "kept"), str(tmp_path / "kept")):
        kept = {"FOLDER": folder} if folder else {}
        result = subprocess.run(
            [TORCH.parent / "torchrun", "--standalone", "--nproc-per-node", "2",
             PROGRAMS / "snapshot.py"],
            capture_output=True, text=True, timeout=PATIENCE,
            env={**environment(10), "PYTHONPATH": str(light), **kept},
        )  # fmt: skip
        assert len(ends_in(result.stdout)) == 2, result.stderr
        expected = "tier T1 only, because torchrun ends all workers" if folder else "no tier: "
        assert result.stderr.count(f"orrery: {expected}") == 1
        begins.append(re.search(r"begins at step (\d+) ", result.stdout).group(1))
    assert begins == ["0", "0", "10"]


def test_a_sharded_loop_with_two_lines_repeats_the_steps_since_its_snapshot():
    ends = {}
    for kills in (False, True):
        run = Run("snapshot.py", 2, 40, ["--restart", "2"], WRAP="fsdp", EVERY="8")
        if kills:
            run.wait_for("at step 30 ")  # pass 2 of 2
            run.kill(1)
        report, ends[kills], code = run.end()
        assert code == 0, run.text
        assert report["tier"] == ("T1" if kills else "T0")
        assert len(ends[kills]) == 2
    assert report["resumed_step"] in (24, 32)
    assert report["steps"] == 40 - report["resumed_step"]
    assert report["newest_snapshot"] == 40
    assert ends[False] == ends[True]  # bit for bit


def test_a_ddp_loop_with_fixed_buckets_resumes_bit_for_bit():
    ends = {}
    for kills in (False, True):
        run = Run("snapshot.py", 4, 80, ["--restart", "2"], WRAP="fixed", EVERY="8", SLEEP_S="0.02")
        if kills:
            run.wait_for("at step 30 ")
            for rank in range(4):
                run.kill(rank)
        report, ends[kills], code = run.end()
        assert code == 0, run.text
        assert report["tier"] == ("T1" if kills else "T0")
        assert len(ends[kills]) == 4
    assert ends[False] == ends[True]  # bit for bit


def test_lost_ranks_are_replaced_between_two_steps(tmp_path):
    end = tmp_path / "end"
    options = ["--replace", "2"]
    run = Run("snapshot.py", 3, 100000, options, cold=True, EVERY="100000", END=str(end))
    for lost in (0, 2):
        run.wait_for_training()
        run.kill(lost)
        run.wait_for(f"rank {lost} replaced after step ")
    run.wait_for("at step ")
    end.touch()
    report, ends, code = run.end()
    assert code == 0, run.text
    assert report["tier"] == "T2"
    assert (report["ranks_at_end"], report["ranks_missing"]) == (3, [])
    assert [loss["rank"] for loss in report["losses"]] == [0, 2]
    assert all(loss["replaced_s"] > 0 for loss in report["losses"])
    assert sorted(ends) == [0, 1, 2]
    assert len(set(ends.values())) == 1  # parameters and steps of all, bit for bit
    starts = {warm: [start["start_s"] for start in report["starts"] if start["warm"] is warm]
              for warm in (False, True)}  # fmt: skip
    assert len(starts[False]) + len(starts[True]) == 5
    assert starts[True], run.text  # the second new process is forked from the warm one
    assert max(starts[True]) < 0.5 * statistics.median(starts[False][:3])
    time = report["gpu_time"]
    parts = ("training", "input", "recovery", "starting", "idle")
    assert sum(time[part] for part in parts) == pytest.approx(time["total"])
    assert min(time[part] for part in parts) >= 0 < time["training"]


def test_a_run_that_is_not_attached_fails_a_test_at_once(tmp_path):
    hides = {"PATH": str(TORCH.parent), "XDG_CACHE_HOME": str(tmp_path)}
    run = Run("snapshot.py", 2, 100000, cold=True, **hides)
    with pytest.raises(pytest.fail.Exception, match="the program is not attached"):
        run.wait_for("a line that never comes")
    assert run.process.wait(PATIENCE) != 0


def test_the_time_in_data_loaders_is_input(tmp_path):
    script = tmp_path / "late.py"
    script.write_text(
        "import time, torch, torch.distributed as dist\n"
        "from torch.utils.data import DataLoader, Dataset\n"
        "class Late(Dataset):\n"
        "    def __len__(self): return 12\n"
        "    def __getitem__(self, at): time.sleep(0.2); return torch.ones(1)\n"
        "dist.init_process_group()\n"
        "weight = torch.nn.Parameter(torch.ones(1))\n"
        "optimizer = torch.optim.SGD([weight], 0.1)\n"
        "for batch in DataLoader(Late()):\n"
        "    (weight * batch).sum().backward()\n"
        "    dist.all_reduce(weight.grad)\n"
        "    optimizer.step()\n"
    )
    result = subprocess.run(
        [PROGRAM, "run", "-n", "2", "--json", "--", TORCH, script],
        capture_output=True, text=True, timeout=PATIENCE, env=environment(1),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    time = report["gpu_time"]
    assert time["input"] > 2 * 11 * 0.19  # two ranks; the first step belongs to the start
    assert report["input_share"] == pytest.approx(
        time["input"] / (time["input"] + time["training"] + time["recovery"])
    )


@pytest.mark.parametrize("lost", [0, 3])
def test_a_loss_in_a_replica_of_hsdp_costs_that_replica(lost):
    run = Run("hsdp.py", 4, 400)
    run.wait_for_training()
    run.kill(lost)
    report, ends, code = run.end()
    replica = [0, 1] if lost < 2 else [2, 3]
    assert code == 6, run.text
    assert report["tier"] == "T0" and report["refused_operation"] is None
    assert report["ranks_missing"] == replica
    assert "ended with its replica: no reduce_scatter without the lost rank" in run.text
    kinds = {kind["name"]: kind for kind in report["groups"]}
    assert {kinds[name]["ranks"] for name in ("mesh_replicate", "mesh_shard")} == {2}
    assert {kinds[name]["groups"] for name in ("mesh_replicate", "mesh_shard")} == {2}
    assert kinds["mesh_shard"]["uncarried_operation"] == "reduce_scatter"
    assert kinds["mesh_replicate"]["uncarried_operation"] is None
    assert run.text.count("carries all-reduce, broadcast, all-gather, gather and barrier") == 1
    assert run.text.count("used for") == 1
    assert "group mesh_shard (2 ranks): used for reduce_scatter, so the loss of" in run.text
    assert sorted(ends) == [rank for rank in range(4) if rank not in replica]
    assert len(set(ends.values())) == 1  # parameters and steps of both, bit for bit
    assert next(iter(ends.values()))[0] == 400


def test_without_a_state_a_lost_rank_stays_lost():
    run = Run("ddp.py", 2, 200, ["--replace", "1"])
    run.wait_for_training()
    run.kill(1)
    report, ends, code = run.end()
    assert code == 6
    assert report["ranks_missing"] == [1]
    assert "otherwise a lost rank stays lost" in run.text


def test_examples_of_a_lost_rank_are_dealt_in_equal_batches(tmp_path):
    script = tmp_path / "dealt.py"
    script.write_text(
        "import os, signal, torch, torch.distributed as dist\n"
        "from torch.utils.data import DataLoader, DistributedSampler\n"
        "dist.init_process_group()\n"
        "rank, data = dist.get_rank(), list(range(96))\n"
        "loader = DataLoader(data, 4, sampler=DistributedSampler(data))\n"
        "seen = []\n"
        "for at, batch in enumerate(loader):\n"
        "    sizes = [torch.zeros(1) for _ in range(4)]\n"
        "    if at == 2 and rank == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    dist.all_gather(sizes, torch.tensor([float(len(batch))]))\n"
        "    assert len(set(map(float, sizes))) == 1, sizes\n"
        "    seen += batch.tolist()\n"
        "print(f'seen {rank} {seen}', flush=True)\n"
    )
    result = subprocess.run(
        [PROGRAM, "run", "-n", "4", "--json", "--deal-data", "--", TORCH, script],
        capture_output=True, text=True, timeout=PATIENCE, env=environment(3),
    )  # fmt: skip
    assert result.returncode == 6, result.stderr
    lists = [json.loads(each) for each in re.findall(r"seen \d (\[.*?\])", result.stderr)]
    seen = [example for each in lists for example in each]
    assert len(seen) == len(set(seen))  # none twice
    assert len(seen) == 3 * 24 + 3 * 4  # the lost rank's batches 3, 4 and 5, not that of the loss
    assert json.loads(result.stdout)["examples_dealt"] == 3 * 4


def test_no_example_is_dealt_twice_or_was_trained_before():
    code = """
import importlib.util, random, sys
spec = importlib.util.spec_from_file_location("dealing", sys.argv[1])
dealing = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dealing)
dice, cases = random.Random(int(sys.argv[2])), 0
for _ in range(3000):
    living, share, batches = dice.randint(1, 7), dice.randint(1, 40), dice.randint(1, 9)
    pool = range(share * batches - dice.randint(0, share - 1))
    first = [dice.randint(0, batches - 1)] * living
    agree = dice.random() < 0.5
    if not agree: first = [each + dice.randint(0, 1) for each in first]
    seen = []
    for number in range(batches):
        bounds = [min(number * share, len(pool)), min((number + 1) * share, len(pool))]
        parts = [dealing.dealt_part(pool, share * first[place], *bounds, place, living)
                 for place in range(living) if number >= first[place]]
        if agree: assert len({len(each) for each in parts}) <= 1
        seen += [example for part in parts for example in part]
        cases += len(parts)
    assert len(seen) == len(set(seen)), (living, share, first)
    assert all(each >= share * min(first) for each in seen)
    if agree: assert len(seen) > len(pool) - share * first[0] - 2 * living
print(cases)
"""
    dealing = ROOT / "python" / "orrery" / "programs" / "dealing.py"
    result = subprocess.run(
        [TORCH, "-c", code, dealing, str(SEED)],
        capture_output=True, text=True, timeout=PATIENCE, env=environment(1),
    )  # fmt: skip
    assert result.returncode == 0 and int(result.stdout) > 3000, result.stderr


def test_no_example_of_a_shared_batch_is_dealt_again():
    code = """
import sys, types
sys.path.insert(0, sys.argv[1])
import dealing
from torch.utils.data import DistributedSampler
seen = types.SimpleNamespace(lost_ranks=lambda: (3,), count_dealt=lambda count: None)
samplers = [DistributedSampler(range(400), 4, rank, shuffle=False) for rank in range(3)]
dealers = [dealing.Dealer(each, 10) for each in samplers]
shared = dealers[0].step_pool(3)
dealt = []
for number in (0, 1, 2, 4, 5):  # policies share batch 3
    for each in dealers: dealt += each.with_lost(number, [], seen)
assert len(dealt) == len(set(dealt)) > 40, dealt
assert not set(dealt) & set(shared), set(dealt) & set(shared)
"""
    result = subprocess.run(
        [TORCH, "-c", code, ROOT / "python" / "orrery" / "programs"],
        capture_output=True, text=True, timeout=PATIENCE, env=environment(1),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_a_program_runs_without_a_compiler(tmp_path):
    result = subprocess.run(
        [PROGRAM, "run", "-n", "2", "--json", "--", TORCH, PROGRAMS / "ddp.py"],
        capture_output=True, text=True, timeout=PATIENCE,
        env={**environment(3), "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["attached"] is False
    assert "expected a C++ compiler, found none in PATH" in report["not_attached_because"]
    assert result.stderr.count("not attached") == 1
    assert len(set(ends_in(result.stderr).values())) == 1


def test_without_the_group_a_lost_rank_ends_the_run(tmp_path):
    script = tmp_path / "alone.py"
    script.write_text(
        "import os, signal, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "if dist.get_rank() == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "dist.barrier(); dist.barrier()\n"
    )
    result = subprocess.run(
        [PROGRAM, "run", "-n", "3", "--json", "--", TORCH, script],
        capture_output=True, text=True, timeout=PATIENCE,
        env={**environment(3), "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
    )  # fmt: skip
    assert result.returncode == 137, result.stderr
    assert json.loads(result.stdout)["ranks_missing"] == [1]
    assert "rank 1 lost (killed by signal 9 (Killed)), 2 of 3 ranks are ended" in result.stderr


def test_groups_of_a_program_survive_too_and_an_exception_is_a_loss(tmp_path):
    script = tmp_path / "groups.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "from torch.utils.data import DataLoader\n"
        "dist.init_process_group()\n"
        "rank = dist.get_rank()\n"
        "halves = [dist.new_group([1, 0]), dist.new_group([2, 3])]\n"
        "half = halves[rank // 2]\n"
        "for step, batch in enumerate(DataLoader(torch.ones(60), num_workers=2)):\n"
        "    if step == 30 and rank == 3: raise ValueError('of rank 3')\n"
        "    dist.all_reduce(batch, group=half)\n"
        "    assert batch.item() == 2, batch\n"
        "    everything = [None] * 4\n"
        "    dist.all_gather_object(everything, (step, rank))\n"
        "    assert [s for s, _ in everything] == [step] * 4\n"
        "    told = [f'of {rank}']\n"
        "    dist.broadcast_object_list(told, src=1)\n"
        "    assert told == ['of 1']\n"
        "print(f'whole {rank}', flush=True)\n"
    )
    result = subprocess.run(
        [PROGRAM, "run", "-n", "4", "--json", "--", TORCH, script],
        capture_output=True, text=True, timeout=PATIENCE, env=environment(3),
    )  # fmt: skip
    assert result.returncode == 6, result.stderr
    report = json.loads(result.stdout)
    assert [(loss["rank"], loss["cause"]) for loss in report["losses"]] == [(3, "exit code 1")]
    assert "ValueError: of rank 3" in result.stderr
    assert sorted(re.findall(r"whole (\d)", result.stderr)) == ["0", "1", "2"]


def test_a_program_that_fails_reports_its_last_step(tmp_path):
    script = tmp_path / "fails.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group()\n"
        "weight = torch.ones(1, requires_grad=True)\n"
        "weight.sum().backward()\n"
        "torch.optim.SGD([weight]).step()\n"
        "raise ValueError('after a step')\n"
    )
    result = subprocess.run(
        [PROGRAM, "run", "-n", "1", "--json", "--", TORCH, script],
        capture_output=True, text=True, timeout=PATIENCE, env=environment(1),
    )  # fmt: skip
    assert "ValueError: after a step" in result.stderr
    assert json.loads(result.stdout)["steps"] == 1, result.stderr


def test_outside_a_run_the_attaching_folder_does_nothing():
    folder = BUILD / "python" / "orrery" / "programs" / "attach"
    code = "import sys, torch; print('orrery_programs' in sys.modules)"
    result = subprocess.run(
        [TORCH, "-c", code], capture_output=True, text=True, timeout=PATIENCE,
        env={**environment(1), "PYTHONPATH": str(folder)},
    )  # fmt: skip
    assert result.stdout == "False\n", result.stderr
