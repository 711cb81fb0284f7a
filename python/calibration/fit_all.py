"""Runs all fits in their order, and then the scripts that judge them and write the pages. Prints
the seconds of each step, and ends at the first step that fails.

    python3 python/calibration/fit_all.py            # fit, build the program, write all products
    python3 python/calibration/fit_all.py --check    # compare each product with its file only
    python3 python/calibration/fit_all.py --twice    # fit again, and compare the bytes of both

A step names the tables and products that it reads and the products that it writes; a step that
changes another product fails. The program embeds the products of the fits, so it is built after
each of them. With --check nothing is built, and no file of the checkout changes: every step that
passes has the products that the next one reads.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import typing

import runs

KERNELS, STACKS = "topologies/catalog/kernels.yaml", "traces/catalog/stacks.yaml"
ACCURACY, OPEN_RUNS = "docs/accuracy.md", "docs/open-runs.md"
PROGRAM = "the program"
PRODUCTS = (KERNELS, STACKS, ACCURACY, OPEN_RUNS)
FIT, BUILD, JUDGEMENT = "fit", "build", "judgement"
MOST_FIT_S = 600  # goal for the fits and the builds between them
CHECK = ("--check",)
SHOWN = 15  # lines of the output of a failed step
# One thread: the order of the sums of a matrix product, and so the last bits of a fit, would depend
# on the number of cores.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

RUNS = ("training-runs/measured.csv", "training-runs/runs-open.csv",
        "training-runs/layouts-open.csv.gz")  # fmt: skip
MEMORY = "training-runs/memory-open.csv.gz"
COLLECTIVES = ("training-runs/collectives.csv", "kernels/collectives-2026.csv.gz")
COMPONENTS = ("training-runs/gemms.csv", "training-runs/memops.csv",
              "kernels/gemm-lowprec.csv.gz", "kernels/attention-bwd.csv.gz",
              "kernels/norms-fwd-bwd.csv.gz", *COLLECTIVES)  # fmt: skip
NODE = "kernels/simumax.csv.gz"
TABLES = (*COMPONENTS, *RUNS, MEMORY, NODE)


class Step(typing.NamedTuple):
    """One command. `reads`: tables and products. `check`: its further options under --check; None
    leaves it out there."""

    name: str
    kind: str
    command: tuple
    reads: tuple
    writes: tuple
    check: tuple | None = CHECK


def script(name, kind, reads, *writes, check=CHECK):
    path = pathlib.Path(__file__).resolve().parent / name
    return Step(name, kind, (sys.executable, str(path)), reads, writes, check)


def build_step():
    folder = str(runs.PROGRAM.parents[1])
    return Step("build", BUILD, ("cmake", "--build", folder, "--target", "orrery"),
                (KERNELS, STACKS), (PROGRAM,), check=None)  # fmt: skip


STEPS = (
    script("fit_components.py", FIT, COMPONENTS, KERNELS, ACCURACY),
    build_step(),
    # fit_stacks.py also fits the sweeps, the newer GPUs and the intervals.
    script("fit_stacks.py", FIT, (*RUNS, PROGRAM), STACKS),
    build_step(),
    script("fit_hardware.py", JUDGEMENT, (*RUNS, PROGRAM), ACCURACY),
    script("accuracy.py", JUDGEMENT, (*RUNS, PROGRAM), ACCURACY),
    script("sweeps.py", JUDGEMENT, (*RUNS[1:], MEMORY, PROGRAM), ACCURACY),
    script("node_kernels.py", JUDGEMENT, (RUNS[1], NODE, PROGRAM), ACCURACY),
    script("collectives_asked.py", JUDGEMENT, (*COLLECTIVES, PROGRAM), ACCURACY),
    script("open_rows.py", JUDGEMENT, (*RUNS, PROGRAM), OPEN_RUNS),
    script("monotone.py", JUDGEMENT, (*RUNS, PROGRAM), check=()),
)


def bytes_of(root, products=PRODUCTS):
    """Contents of the products by name, None for one that does not exist."""
    paths = {name: root / name for name in products}
    return {name: path.read_bytes() if path.exists() else None for name, path in paths.items()}


def differences(before, after):
    """Names of products whose bytes differ."""
    return [name for name in before if before[name] != after[name]]


def last_lines(file):
    file.seek(0)
    return "".join(file.read().splitlines(keepends=True)[-SHOWN:])


def run_step(step, root, check):
    """Runs one step and prints its seconds; returns them. Ends the program if the step fails or
    changes a product that it does not write."""
    before, begin = bytes_of(root), time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        command = [*step.command, *(step.check if check else ())]
        code = subprocess.run(command, cwd=root, env={**os.environ, **ENVIRONMENT}, stdout=output,
                              stderr=subprocess.STDOUT, check=False).returncode  # fmt: skip
        seconds = time.monotonic() - begin
        if code:
            sys.stderr.write(last_lines(output))
            raise SystemExit(failure(step, code, check))
    allowed = () if check else step.writes
    stray = [name for name in differences(before, bytes_of(root)) if name not in allowed]
    if stray:
        raise SystemExit(f"{step.name}: expected changes of {', '.join(allowed) or 'no file'}, "
                         f"found changes of {', '.join(stray)}; add them to its step in "
                         "python/calibration/fit_all.py")  # fmt: skip
    print(f"| {step.name} | {step.kind} | {seconds:.0f} s |", flush=True)
    return seconds


def failure(step, code, check):
    if check and step.writes:
        return (f"{step.name} --check: expected {' and '.join(step.writes)} as the step writes "
                f"them, found exit code {code}; run the step without --check")  # fmt: skip
    return f"{step.name}: expected exit code 0, found {code}; later steps did not run"


def run_all(steps, root, check=False):
    """Runs the steps in order, and prints the seconds of the fits and of all steps."""
    print("| step | kind | time |\n|---|---|---:|", flush=True)
    times = [(step, run_step(step, root, check)) for step in steps
             if not check or step.check is not None]
    fits = sum(seconds for step, seconds in times if step.kind != JUDGEMENT)
    print(f"| fits and builds (goal: at most {MOST_FIT_S} s) | | {fits:.0f} s |\n"
          f"| all steps | | {sum(each for _, each in times):.0f} s |", flush=True)  # fmt: skip


def run_twice(steps, root):
    """Runs the steps twice, the second time from the products of the first. Returns 1 if a product
    has other bytes then."""
    run_all(steps, root)
    first = bytes_of(root)
    run_all(steps, root)
    different = differences(first, bytes_of(root))
    if different:
        print(f"expected equal bytes of both passes, found others in {', '.join(different)}; "
              "git diff shows the second pass beside the commit", file=sys.stderr)  # fmt: skip
        return 1
    print(f"equal bytes in both passes: {', '.join(first)}")
    return 0


def missing_inputs(check):
    """Returns a message that names the absent inputs of the steps, "" if none is absent."""
    absent = [name for name in TABLES if not (runs.DATA / name).exists()]
    if absent:
        return (f"expected {', '.join(absent)} in {runs.DATA}, found none; set ORRERY_DATA to the "
                "folder of the measured tables (python/calibration/README.md)")  # fmt: skip
    if check:
        return "" if runs.PROGRAM.exists() else f"expected {runs.PROGRAM}; run ./dev build first"
    cache = runs.PROGRAM.parents[1] / "CMakeCache.txt"
    home = f"CMAKE_HOME_DIRECTORY:INTERNAL={runs.ROOT}\n"
    if not cache.exists() or home not in cache.read_text():
        return (f"expected a build of {runs.ROOT} in {cache.parent}, found none; run ./dev build, "
                "or set ORRERY_BUILD to the folder of such a build")  # fmt: skip
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--check", action="store_true", help="compare with the files only")
    ways.add_argument("--twice", action="store_true", help="fit twice and compare the bytes")
    given = parser.parse_args()
    absent = missing_inputs(given.check)
    if absent:
        raise SystemExit(absent)
    if given.twice:
        return run_twice(STEPS, runs.ROOT)
    run_all(STEPS, runs.ROOT, given.check)
    return 0


if __name__ == "__main__":
    sys.exit(main())
