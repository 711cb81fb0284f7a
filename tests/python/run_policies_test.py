"""orrery run --policy: PyTorch programs under policies, and programs that a policy refuses."""

import json
import os
import re
import subprocess
import tempfile
import time

import pytest
from run_programs_test import PATIENCE, PROGRAM, PROGRAMS, TORCH, Run, ends_in, environment

pytestmark = pytest.mark.skipif(
    not TORCH.exists(), reason=f"no PyTorch at {TORCH}: ./dev torch installs it"
)


def policy_run(script, ranks, *options):
    """Runs a program under policies to its end: exit code, report, standard error."""
    result = subprocess.run(
        [PROGRAM, "run", "-n", str(ranks), "--json", *options, "--", TORCH, script],
        capture_output=True, text=True, timeout=PATIENCE, env=environment(12),
    )  # fmt: skip
    report = json.loads(result.stdout) if result.stdout else None
    return result.returncode, report, result.stderr


def replayed(log):
    """The report of a replay of the log."""
    result = subprocess.run(
        [PROGRAM, "replay", log, "--json"], capture_output=True, text=True, check=False
    )
    return json.loads(result.stdout)


WAITS = """
import pathlib
import time

import orrery


class Waits(orrery.Policy):
    def observe(self, seen, decisions):
        end = pathlib.Path("END")
        if end.exists():
            return
        while not end.exists():
            time.sleep(0.05)
        print("the policy has answered", flush=True)
"""


def test_a_shadow_of_two_policies_owes_an_answer_while_the_program_trains(tmp_path):
    runs = tempfile.mkdtemp(dir="/tmp")  # a short path
    scenario, file, end = tmp_path / "policies.yaml", tmp_path / "waits.py", tmp_path / "end"
    scenario.write_text("policies: [{name: recover, parameters: {how: shrink}}]\n")
    file.write_text(WAITS.replace("END", str(end)))
    options = ["--scenario", scenario, "--policy", "static", "--policy", file, "--mode", "shadow"]
    run = Run("snapshot.py", 1, 100000, options, EVERY="100000", END=str(end), ORRERY_RUNS=runs)
    run.wait_for_training()  # the policy is in its first call

    def status(*options):
        return subprocess.run(
            [PROGRAM, "status", "snapshot.py", *options], capture_output=True, text=True,
            check=True, env={**os.environ, "ORRERY_RUNS": runs},
        ).stdout  # fmt: skip

    text, until = "", time.monotonic() + 30
    while "have owed" not in text and time.monotonic() < until:
        time.sleep(0.1)
        text = status()
    said = f"the policies 'static', '{file}' have owed an answer for "
    assert said in text and "; the run does not wait for it" in text, text
    seen = json.loads(status("--json"))
    assert seen["policy_asked"] == f"the policies 'static', '{file}'"
    assert seen["policy_waiting_s"] >= 1 and seen["step"] > 0
    assert "the policy has answered" not in run.text
    end.touch()
    report, _, code = run.end()
    assert code == 0, run.text
    assert report["policies"] == ["static", str(file)], "recover is replaced"
    assert "the policy has answered" in run.text


def test_a_lost_rank_is_replaced_by_decision_and_snapshots_follow_the_plan(tmp_path):
    scenario = tmp_path / "policies.yaml"
    scenario.write_text(
        "policies:\n"
        "  - {name: recover, parameters: {how: replace}}\n"
        "  - {name: checkpoint-interval, parameters: {method: fixed, interval: 10 ms}}\n"
    )
    log, end = tmp_path / "run.log", tmp_path / "end"
    options = ["--scenario", scenario, "--record", log]
    run = Run("snapshot.py", 2, 100000, options, EVERY="100000", END=str(end))
    run.wait_for_training()
    run.kill(1)
    run.wait_for("rank 1 replaced after step ")
    end.touch()
    report, ends, code = run.end()
    assert code == 0, run.text
    assert report["tier"] == "T2"
    assert report["policies"] == ["recover", "checkpoint-interval"]
    assert report["mode"] == "drive"
    assert 2 <= report["decisions_applied"] <= report["decisions"]
    assert report["newest_snapshot"] > 0  # the program itself would write none
    assert len(set(ends.values())) == 1  # parameters of both ranks, bit for bit
    assert replayed(log)["identical"] is True


RECOVER = "policies: [{name: recover, parameters: {how: replace}}]\n"


@pytest.mark.parametrize(
    ("text", "options", "applied"),
    [
        ("policies: [{name: cheapest-goodput}]\n", [], True),
        (RECOVER, ["--mode", "approve", "--hook", "/bin/true"], True),
        (RECOVER, ["--mode", "approve", "--hook", "/bin/false"], False),
    ],
    ids=["cheapest-goodput", "approved", "not approved"],
)
def test_a_lost_rank_returns_if_the_decision_is_applied(tmp_path, text, options, applied):
    scenario = tmp_path / "policies.yaml"
    scenario.write_text(text)
    log, end = tmp_path / "run.log", tmp_path / "end"
    words = ["--scenario", scenario, "--record", log, *options]
    run = Run("snapshot.py", 2, 100000, words, EVERY="100000", END=str(end))
    run.wait_for_training()
    run.kill(1)
    if applied:
        run.wait_for("rank 1 replaced after step ")
    else:
        run.wait_for("rank 1 lost ")
        for _ in range(20):  # a replacement would have come
            run.wait_for("at step ")
    end.touch()
    report, ends, code = run.end()
    assert code == (0 if applied else 6), run.text
    assert report["tier"] == ("T2" if applied else "T0")
    assert (report["decisions_applied"] > 0) is applied
    assert report["decisions"] > 0
    assert len(set(ends.values())) == 1
    assert replayed(log)["identical"] is True


@pytest.mark.parametrize(
    ("script", "files"), [("hugging_face.py", "checkpoint-*"), ("light.py", "epoch*.ckpt")]
)
def test_checkpoints_of_a_trainer_follow_the_plan(tmp_path, script, files):
    scenario, folder = tmp_path / "policies.yaml", tmp_path / "kept"
    scenario.write_text(
        "policies: [{name: checkpoint-interval, parameters: {method: fixed, interval: 10 ms}}]\n"
    )
    options = ["--scenario", scenario, "--record", tmp_path / "run.log"]
    run = Run(script, 2, 60, options, CHECKPOINTS=str(folder), EVERY="100000")
    report, ends, code = run.end()
    assert code == 0, run.text
    assert report["decisions_applied"] >= 1
    assert report["newest_snapshot"] > 0
    steps = [int(re.search(r"(\d+)\D*$", path.name).group(1)) for path in folder.glob(files)]
    assert steps  # Lightning itself would write none, and transformers none before its end
    assert min(steps) < 60 or script == "light.py"  # Lightning keeps the newest one
    assert len(set(ends.values())) == 1
    assert replayed(tmp_path / "run.log")["identical"] is True


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("hugging_face.py", "expected a Trainer with save_strategy='steps', found 'no'"),
        ("light.py", "expected a Trainer with ModelCheckpoint(every_n_train_steps=N), found none"),
    ],
)
def test_a_trainer_that_saves_by_no_steps_is_refused_with_the_remedy(script, expected):
    code, _, text = policy_run(PROGRAMS / script, 1, "--policy", "checkpoint-interval")
    assert code == 4
    assert f"snapshots: {expected}" in text
    assert "or call orrery.torch.state()" in text


def test_all_ranks_start_again_by_decision_of_a_policy_that_an_operator_has_changed(tmp_path):
    runs = tempfile.mkdtemp(dir="/tmp")  # a short path

    def other_terminal(*words):
        return subprocess.run(
            [PROGRAM, *words], capture_output=True, text=True, check=True,
            env={**os.environ, "ORRERY_RUNS": runs},
        ).stdout  # fmt: skip

    scenario = tmp_path / "policies.yaml"
    scenario.write_text("policies: [{name: recover, parameters: {how: shrink}}]\n")
    log = tmp_path / "run.log"
    options = ["--scenario", scenario, "--record", log]
    run = Run("snapshot.py", 2, 400, options, EVERY="8", ORRERY_RUNS=runs)
    run.wait_for_training()
    other_terminal("set", "snapshot.py", "recover.how=restart")
    while "recover.how = restart" not in other_terminal("status", "snapshot.py", "--json"):
        time.sleep(0.1)
    run.wait_for("at step ")  # a policy sees the change with the next step
    run.wait_for("at step ")
    run.kill(0)
    report, ends, code = run.end()
    assert code == 0, run.text
    assert report["tier"] == "T1"
    assert report["resumed_step"] > 0
    assert report["decisions_applied"] == 1
    assert len(set(ends.values())) == 1
    assert replayed(log)["identical"] is True


def test_in_shadow_mode_a_decision_has_no_effect(tmp_path):
    log = tmp_path / "run.log"
    run = Run("ddp.py", 2, 200, ["--policy", "recover", "--mode", "shadow", "--record", log])
    run.wait_for_training()
    run.kill(1)
    report, _, code = run.end()
    assert code == 6
    assert report["mode"] == "shadow"
    assert report["decisions"] >= 1
    assert report["decisions_applied"] == 0
    assert replayed(log)["identical"] is True


def test_a_policy_that_needs_more_is_refused_by_name_before_the_first_step(tmp_path):
    scenario = tmp_path / "policies.yaml"
    scenario.write_text("policies: [{name: recover}]\n")
    options = ["--scenario", scenario, "--policy", "checkpoint-interval"]
    code, report, text = policy_run(PROGRAMS / "ddp.py", 1, *options)
    assert code == 4
    assert report is None
    assert "the policy 'checkpoint-interval' needs a part that this program lacks" in text
    assert "orrery.torch.state()" in text
    assert "at step 0 " not in text


def test_a_key_without_an_effect_is_refused_by_name(tmp_path):
    scenario = tmp_path / "policies.yaml"
    scenario.write_text("policies: [{name: recover}]\nfaults: [{at_step: 3, rank: 0, slow: 2}]\n")
    code, _, text = policy_run("train.py", 2, "--scenario", scenario)
    assert code == 3
    assert f"{scenario}:2:" in text
    assert "'faults', which has no effect on a program" in text


UNEVEN = """
import orrery
from orrery import events, settings


class Uneven(orrery.Policy):
    def needs(self):
        return orrery.Needs(settings=["Shares"])

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.StepsDone) and event.last % 20 == 1:
                job = seen.jobs[event.job]
                decisions.configure(job, settings.Shares([13, 3]), at_step=job.step + 15)
"""


def steps_of(text):
    """The steps that the ranks have printed: {(step, rank): (rows, error, seconds)}."""
    found = re.findall(r"step (\d+) of rank (\d+): (\[.*?\]) rows, error (\S+), (\S+) s", text)
    return {
        (int(step), int(rank)): (json.loads(rows), float(error), float(took_s))
        for step, rank, rows, error, took_s in found
    }


def test_unequal_shares_give_the_gradients_of_equal_ones(tmp_path):
    policy, log = tmp_path / "uneven.py", tmp_path / "run.log"
    policy.write_text(UNEVEN)
    run = Run("shares.py", 2, 60, ["--policy", policy, "--record", log])
    report, _, code = run.end()
    assert code == 0, run.text
    assert report["decisions_applied"] >= 1
    steps = steps_of(run.text)
    assert steps[0, 0][0] == steps[0, 1][0] == [8, 8]
    assert (steps[59, 0][0], steps[59, 1][0]) == ([13, 13], [3, 3])
    assert max(error for _, error, _ in steps.values()) < 1e-12


def test_a_slow_rank_gets_fewer_examples(tmp_path):
    log = tmp_path / "run.log"
    options = ["--policy", "predictive-rebalance", "--record", log]
    run = Run("shares.py", 2, 60, options, SLOW="4")
    report, _, code = run.end()
    assert code == 0, run.text
    steps = steps_of(run.text)
    assert steps[59, 1][0][0] < 6 < 10 < steps[59, 0][0][0]
    first = min(steps[step, 0][2] for step in range(1, 4))
    last = min(steps[step, 0][2] for step in range(50, 60))
    assert last < 0.75 * first
    assert max(error for _, error, _ in steps.values()) < 1e-12
    assert replayed(log)["identical"] is True


def test_a_slow_rank_of_lightning_gets_fewer_examples(tmp_path):
    log = tmp_path / "run.log"
    options = ["--policy", "predictive-rebalance", "--record", log]
    run = Run("light.py", 2, 60, options, EXAMPLE_S="0.004", SLOW="4")
    report, ends, code = run.end()
    assert code == 0, run.text
    assert report["decisions_applied"] >= 1
    dealt = re.findall(r"at step (\d+) of rank (\d): (\d+) examples", run.text)
    examples = {(int(step), int(rank)): int(count) for step, rank, count in dealt}
    assert examples[0, 0] == examples[0, 1] == 8
    assert examples[50, 1] < 6 < 10 < examples[50, 0]
    assert examples[50, 0] + examples[50, 1] == 16
    assert len(set(ends.values())) == 1  # parameters of both ranks, bit for bit
    assert replayed(log)["identical"] is True


LATE = """
import time
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Late(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, at):
        time.sleep(0.05)
        return torch.full((1,), float(at))


dist.init_process_group()
weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], 0.1)
loader = DataLoader(Late(), 1, num_workers=1, persistent_workers=PERSISTENT)
for epoch in range(5):
    seen = []
    for batch in loader:
        (weight * batch).sum().backward()
        dist.all_reduce(weight.grad)
        optimizer.step()
        seen.append(int(batch))
    print(f"epoch {epoch}: {loader.num_workers} x {loader.prefetch_factor}, {seen}", flush=True)
"""


@pytest.mark.parametrize("persistent", [False, True])
def test_readers_that_are_late_become_more_from_the_next_pass_on(tmp_path, persistent):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two reading processes need two processors")
    script, scenario, log = tmp_path / "late.py", tmp_path / "p.yaml", tmp_path / "run.log"
    script.write_text(LATE.replace("PERSISTENT", str(persistent)))
    scenario.write_text(
        "policies: [{name: prefetch, parameters: {steps: 4, most_workers: 2, late: 20%}}]\n"
    )
    code, report, text = policy_run(script, 1, "--scenario", scenario, "--record", log)
    assert code == 0, text
    epochs = re.findall(r"epoch \d: (\d) x (\d), (\[.*?\])", text)
    assert epochs[0][:2] == ("1", "2"), text
    assert epochs[-1][:2] == ("2", "2"), text
    assert all(json.loads(seen) == list(range(16)) for _, _, seen in epochs)
    assert report["decisions_applied"] == 1  # the second raise is above most_workers
    assert replayed(log)["identical"] is True


def test_a_loader_without_processes_has_no_readers_to_raise():
    code, report, text = policy_run(PROGRAMS / "shares.py", 1, "--policy", "prefetch")
    assert code == 4
    assert report is None
    assert "the policy 'prefetch' needs a part that this program lacks" in text
    assert "readers of data: expected a DataLoader with num_workers above 0" in text


def test_shares_of_an_unsynchronised_batch_norm_are_refused_by_name():
    run = Run("shares.py", 1, 10, ["--policy", "predictive-rebalance"], NORM="1")
    assert run.process.wait(PATIENCE) == 4
    run.process.stdout.close()
    run._reader.join()
    assert "the policy 'predictive-rebalance' needs a part that this program lacks" in run.text
    assert "BatchNorm1d '1' has statistics of each rank's own batch" in run.text


def refused_proof(**more):
    """The standard error of a run of shares.py whose proof fails."""
    run = Run("shares.py", 2, 40, ["--policy", "predictive-rebalance", "--prove", "2"], **more)
    assert run.process.wait(PATIENCE) == 4
    run.process.stdout.close()
    run._reader.join()
    return run.text


def test_a_proof_refuses_losses_across_the_batch_and_batch_norms_by_name():
    text = refused_proof(LOSS="contrast")
    assert "error: shares of the examples cannot be set: expected a loss that is the mean" in text
    assert "a loss across the batch (contrastive)" in text
    assert "step 3 of rank 0" not in text  # two steps of each trial, and no run
    assert "BatchNorm1d '1' has statistics of each rank's own batch" in refused_proof(NORM="1")


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        ("mean", "with weighted shares the gradients differ by"),
        ("global", "the program divides by the examples of all ranks"),
    ],
)
def test_a_proof_tells_means_of_a_batch_from_sums_over_all_ranks(tmp_path, loss, found):
    policy = tmp_path / "uneven.py"
    policy.write_text(UNEVEN)
    run = Run("shares.py", 2, 60, ["--policy", policy, "--prove", "2"], LOSS=loss)
    report, _, code = run.end()
    assert code == 0, run.text
    assert f"proof of 2 steps: {found}" in run.text
    assert report["decisions_applied"] >= 1
    steps = steps_of(run.text)
    assert (steps[59, 0][0], steps[59, 1][0]) == ([13, 13], [3, 3])
    assert max(error for _, error, _ in steps.values()) < 1e-12  # gradients of equal shares


def test_a_proof_needs_a_policy_that_sets_shares():
    code, report, text = policy_run(PROGRAMS / "shares.py", 2, "--prove", "2")
    assert code == 2
    assert report is None
    assert "--prove: expected a policy that sets shares" in text


def losses_of(text):
    """The losses that the ranks have printed: {(seed, rank): loss}."""
    found = re.findall(r"loss ([\d.]+) of seed (\d+) rank (\d+)", text)
    return {(int(seed), int(rank)): float(loss) for loss, seed, rank in found}


def test_gradients_in_codes_train_as_well_with_fewer_bytes(tmp_path):
    scenario = tmp_path / "codes.yaml"
    scenario.write_text(
        "policies: [{name: fixed-codec, parameters: {rules: [{codec: int8}]}}]\n"
    )
    reports, losses = {}, {}
    for coded in (False, True):
        options = ["--scenario", scenario, "--record", tmp_path / "run.log"] if coded else []
        run = Run("codes.py", 2, 60, options)
        reports[coded], ends, code = run.end()
        assert code == 0, run.text
        assert len(set(ends.values())) == 1  # parameters of both ranks, bit for bit
        losses[coded] = losses_of(run.text)
    assert reports[True]["decisions_applied"] == 1
    plain = [loss for (_, rank), loss in losses[False].items() if rank == 0]
    spread = max(plain) - min(plain)
    for key, loss in losses[False].items():
        assert abs(losses[True][key] - loss) < spread, (losses, spread)
    values = 64 * 128 + 128 + 128 * 32 + 32
    assert reports[False]["bytes_on_wire"] == 4 * 60 * 2 * 4 * values  # ring of two ranks
    assert reports[True]["bytes_on_wire"] < 0.3 * reports[False]["bytes_on_wire"]
    assert replayed(tmp_path / "run.log")["identical"] is True


def test_unequal_shares_train_as_well(tmp_path):
    losses = {}
    for shared in (False, True):
        options = ["--policy", "predictive-rebalance"] if shared else []
        more = {"EXAMPLE_S": "0.002", "SLOW": "4"} if shared else {"EXAMPLE_S": "0"}
        run = Run("codes.py", 2, 40, options, **more)
        report, ends, code = run.end()
        assert code == 0, run.text
        assert len(set(ends.values())) == 1  # parameters of both ranks, bit for bit
        losses[shared] = losses_of(run.text)
        dealt = re.findall(r"seed (\d) ended with (\d+) examples of rank (\d)", run.text)
        last = {int(rank): int(count) for seed, count, rank in dealt if seed == "3"}
        assert last[0] + last[1] == 32
        assert (last[1] < 12) is shared
    own = [loss for (_, rank), loss in losses[False].items() if rank == 0]
    spread = max(own) - min(own)
    for key, loss in losses[False].items():
        assert abs(losses[True][key] - loss) < spread, (losses, spread)


def test_gradients_of_lightning_travel_in_codes(tmp_path):
    scenario = tmp_path / "codes.yaml"
    scenario.write_text(
        "policies: [{name: fixed-codec, parameters: {rules: [{codec: int8}]}}]\n"
    )
    plain, _, code = Run("light.py", 2, 60).end()
    assert code == 0
    run = Run("light.py", 2, 60, ["--scenario", scenario])
    report, ends, code = run.end()
    assert code == 0, run.text
    assert report["decisions_applied"] == 1
    assert 0 < report["bytes_on_wire"] < 0.4 * plain["bytes_on_wire"]
    assert len(set(ends.values())) == 1  # parameters of both ranks, bit for bit


#: Network of its own whose loopback carries 100 MB/s, for the words of a command that follow.
SLOW_NETWORK = [
    "unshare", "-rn", "sh", "-c",
    'ip link set lo up && tc qdisc add dev lo root tbf rate 800mbit burst 256kb latency 400ms'
    ' && exec "$@"',
    "sh",
]  # fmt: skip


def slow_network():
    """Whether this machine lets a user make such a network."""
    try:
        made = subprocess.run([*SLOW_NETWORK, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return made.returncode == 0


@pytest.mark.parametrize(
    ("reserve", "chosen"), [("0.05", r"int\d with error feedback"), ("1", "int8")]
)
def test_memory_aware_chooses_codes_on_a_slow_network_by_the_memory_that_is_left(
    tmp_path, reserve, chosen
):
    if not slow_network():
        pytest.skip("needs unshare and tc, for a slow network")
    scenario, log = tmp_path / "codes.yaml", tmp_path / "run.log"
    scenario.write_text(
        "policies:\n  - name: memory-aware\n    parameters: {warm_up_steps: 10, cooldown_steps: 5, "
        f"memory_reserve: {reserve}}}\n"
    )
    result = subprocess.run(
        [*SLOW_NETWORK, PROGRAM, "run", "-n", "2", "--json", "--scenario", scenario,
         "--sums", "sockets", "--record", log, "--", TORCH, PROGRAMS / "wide.py"],
        capture_output=True, text=True, timeout=PATIENCE, env={**environment(40), "MIB": "4"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["decisions_applied"] >= 1
    reasons = re.findall(r"as it is, \S+ ms in (.+); memory in use (\S+),", log.read_text("latin1"))
    assert re.fullmatch(chosen, reasons[0][0]), reasons
    assert 0.1 < float(reasons[0][1].rstrip("%")) < 90
    assert "gradient variance unknown" not in log.read_text("latin1")
    plain = 40 * 2 * 4 * (1024 * 1024 + 1024)  # bytes of a ring of two ranks
    assert report["bytes_on_wire"] < 0.9 * plain
    assert len({bits for _, bits in ends_in(result.stdout + result.stderr).values()}) == 1
    assert replayed(log)["identical"] is True


def test_codes_survive_a_loss(tmp_path):
    scenario = tmp_path / "codes.yaml"
    scenario.write_text(
        "policies: [{name: fixed-codec, parameters: {rules: [{codec: int4}]}}]\n"
    )
    options = ["--scenario", scenario, "--heartbeat-timeout", "2"]
    run = Run("ddp.py", 3, 200, options)
    run.wait_for_training()
    run.kill(0)
    report, ends, code = run.end()
    assert code == 6, run.text
    assert report["ranks_missing"] == [0]
    assert sorted(ends) == [1, 2]
    assert len(set(ends.values())) == 1


def test_codes_of_a_program_without_buckets_are_refused_by_name(tmp_path):
    scenario = tmp_path / "codes.yaml"
    scenario.write_text(
        "policies: [{name: fixed-codec, parameters: {rules: [{codec: int8}]}}]\n"
    )
    code, _, text = policy_run(PROGRAMS / "fsdp.py", 2, "--scenario", scenario)
    assert code == 4
    assert "the policy 'fixed-codec' needs a part that this program lacks" in text
    assert "expected a model in DistributedDataParallel, found none" in text
