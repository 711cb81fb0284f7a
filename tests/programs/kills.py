"""Programs of other people, unmodified, through the loss of rank 0: a Markdown row for each.

kills.py [NAME...]  runs the programs (all, or those whose names begin with a word) as four ranks
under `orrery run`, once undisturbed and once with rank 0 killed at a random instant (ORRERY_SEED
chooses others). Checkouts and packages are those of table.py, under ORRERY_PROGRAMS. watched.py
starts a program and prints its losses and the hash of its parameters.
"""

import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import typing

import inputs
import table

sys.path.insert(0, str(table.HERE.parent / "python"))
import run_programs_test as runs  # noqa: E402

RANKS = 4


class Program(typing.NamedTuple):
    """Program of the table; `folder` is where it is started, in the folder of inputs.py."""

    name: str
    checkout: str
    script: str
    folder: str
    arguments: "tuple[str, ...]" = ()
    environment: "dict[str, str]" = {}
    modules: "tuple[str, ...]" = ()
    steps: int = 0

    def command(self):
        """Returns the command that a user types, and the program's arguments, as Markdown."""
        words = [f"{name}={value}" for name, value in self.environment.items()]
        words += ["orrery run -n", str(RANKS), "-- python", pathlib.Path(self.script).name]
        arguments = f" `{' '.join(self.arguments)}`" if self.arguments else ""
        return f"`{' '.join(words)}`{arguments}"

    def path(self):
        """Returns the path of the script in its checkout."""
        return table.CHECKOUTS / self.checkout / self.script


PROGRAMS = (
    Program(
        "Kubeflow, FashionMNIST", "training-operator", "examples/pytorch/mnist/mnist.py", "mnist",
        ("--backend", "gloo", "--batch-size", "16", "--epochs", "2"),
        modules=("torchvision.datasets", "tensorboardX"), steps=2 * inputs.IMAGES // (16 * RANKS),
    ),
    Program(
        "Lightning Fabric, language model", "pytorch-lightning",
        "examples/fabric/language_model/train.py", "language_model",
        environment={"LT_CLI_USED": "1", "LT_ACCELERATOR": "cpu", "LT_DEVICES": str(RANKS)},
        modules=("lightning", "requests"), steps=20 * inputs.TRAINED_PIECES // (20 * RANKS),
    ),
)  # fmt: skip


class Outcome(typing.NamedTuple):
    """One run: its report, the last lines of the ranks, and losses as {(step, rank): loss}."""

    report: "dict[str, typing.Any]"
    ends: "dict[int, tuple[int, str]]"
    code: int
    losses: "dict[tuple[int, int], float]"
    #: Step of the newest losses before the kill; 0 without a kill.
    killed_at: int


def packages():
    """Returns the variable that adds the packages of requirements.txt to a process."""
    return {"PYTHONPATH": str(table.CHECKOUTS / "packages/site-packages")}


def losses_in(text):
    """Returns the losses that the ranks have printed: {(step, rank): loss}."""
    found = re.findall(r"at step (\d+) of rank (\d+), loss ([\d.]+)", text)
    return {(int(step), int(rank)): float(loss) for step, rank, loss in found}


def run_once(program, folder, kills):
    """Runs a program to its end.

    Parameters
    ----------
    program : Program
        One of PROGRAMS.
    folder : pathlib.Path
        Folder of inputs.py.
    kills : bool
        True if rank 0 is killed within a second behind the tenth step.
    """
    run = runs.Run(
        table.HERE / "watched.py", RANKS, arguments=[program.path(), *program.arguments],
        folder=folder / program.folder, **packages(), **program.environment,
    )  # fmt: skip
    run.wait_for_training()
    killed_at = 0
    if kills:
        runs.disturb(run, "rank 0", random.Random(f"{runs.SEED} {program.name}"))
        killed_at = max((step for step, _ in losses_in(run.text)), default=0)
    report, ends, code = run.end()
    return Outcome(report, ends, code, losses_in(run.text), killed_at)


def loss_at(outcome, step):
    """Returns the mean of the losses that the ranks have printed at a step."""
    return statistics.mean(loss for (at, _), loss in outcome.losses.items() if at == step)


def problems_of(program, whole, killed):
    """Returns what is wrong with the two runs of a program, as a list of texts."""
    found = []
    if whole.code != 0 or sorted(whole.ends) != list(range(RANKS)):
        found.append(f"the undisturbed run ended with exit code {whole.code}")
    if killed.code != 6 or killed.report["ranks_missing"] != [0]:
        found.append(f"the run with the loss ended with exit code {killed.code}")
    if sorted(killed.ends) != list(range(1, RANKS)) or len(set(killed.ends.values())) != 1:
        found.append("the survivors' parameters differ")
    steps = {count for each in (whole, killed) for count, _ in each.ends.values()}
    if steps != {program.steps}:
        found.append(f"expected {program.steps} steps of every rank, found {sorted(steps)}")
    return found


def row_of(program, whole, killed):
    """Returns the Markdown row of a program."""
    last = max(step for step, _ in whole.losses)
    (lost,) = killed.report["losses"]
    problems = problems_of(program, whole, killed)
    return (
        f"| {program.name} | {program.checkout} {table.COMMITS[program.checkout][1][:12]} "
        f"| {program.command()} | {program.steps} | {killed.killed_at} "
        f"| {loss_at(killed, killed.killed_at):.4f} / {loss_at(killed, last):.4f} "
        f"/ {loss_at(whole, last):.4f} | {killed.code} | {lost['lost_s']:.2f} s of "
        f"{killed.report['step_time_s']:.2f} s | {'; '.join(problems) or 'equal, bit for bit'} |"
    )


def why_not(program):
    """Returns why a program cannot run here; an empty text if it can."""
    if not program.path().exists():
        return f"no {program.checkout} under ORRERY_PROGRAMS"
    result = subprocess.run(
        [table.TORCH, "-c", f"import {', '.join(program.modules)}"], capture_output=True,
        text=True, env={**runs.environment(0), **packages()},
    )  # fmt: skip
    said = result.stderr.strip().splitlines() or ["no message"]
    return f"its packages: {said[-1]}" if result.returncode else ""


def main():
    words = sys.argv[1:]
    chosen = [p for p in PROGRAMS if not words or any(p.name.startswith(w) for w in words)]
    print("| program | commit | command | steps | last losses before the kill at step | loss there "
          "/ at the end / at the end of the undisturbed run | exit code | lost time, median step "
          "| survivors' parameters |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    failed = 0
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        subprocess.run([table.TORCH, inputs.__file__, folder, table.CHECKOUTS], check=True)
        for program in chosen:
            if why_not(program):
                print(f"| {program.name} | {why_not(program)} |", flush=True)
                continue
            whole, killed = (run_once(program, folder, kills) for kills in (False, True))
            print(row_of(program, whole, killed), flush=True)
            failed += bool(problems_of(program, whole, killed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
