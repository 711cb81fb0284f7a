"""An operator's day with one live run: prints the transcript that docs/operating.md shows.

build/venv/bin/python tests/cli/operating.py
"""

import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
BINARY = BUILD / "bin" / "orrery"
SCENARIO = ROOT / "examples" / "straggler-4-ranks.yaml"


def settings(folder, name, steps):
    """A calm run of four ranks with steps of about 80 ms, which compute little."""
    checkpoints = f"{{folder: {folder}/checkpoints, every: 100000, keep: 2}}"
    pairs = {
        "name": name,
        "faults": "[]",
        "job.global_batch": 8,
        "job.sequence_length": 8,
        "run.steps": steps,
        "checkpoints": checkpoints,
    }
    return [word for key, value in pairs.items() for word in ("--set", f"{key}={value}")]


def begin(folder, name, steps, *more):
    """Starts the run and does not wait for its end."""
    return subprocess.Popen(
        [BINARY, "live", SCENARIO, *settings(folder, name, steps), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(true, seconds=60):
    """Returns the final result of `true`; fails if that takes longer."""
    end = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < end, "it has not come about"
        time.sleep(0.1)
    return value


def say(*words):
    """Runs a command and shows it as a terminal would."""
    print(f"$ orrery {shlex.join(map(str, words))}")
    result = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=120)
    print(result.stdout + result.stderr, end="")
    return result.stdout


def has_worked(name):
    """Whether the run of that name has done a few steps."""
    text = subprocess.run([BINARY, "runs"], capture_output=True, text=True, timeout=60).stdout
    found = re.search(rf"^\w+  {name} +training +step (\d+) ", text, re.MULTILINE)
    return found is not None and int(found[1]) > 5


def follow(name, process, until):
    """Returns the input and output of an attached operator, until a line of it contains `until`."""
    print(f"$ orrery attach {name}")
    for line in process.stdout:
        print(line, end="")
        if " asks: " in line:
            print("approve")
            process.stdin.write("approve\n")
            process.stdin.flush()
        if until in line:
            return


def day(folder):
    """Start, look, approve, set, stop with a checkpoint, go on."""
    options = ["--mode", "approve", "--attended"]
    faults = ["--set", "faults=[{at_step: 10, rank: 2, slow: 3}]"]
    run = begin(folder, "nightly", 90, *faults, *options)
    print("$ orrery live nightly.yaml --mode approve --attended &")
    wait_until(lambda: has_worked("nightly"))
    say("runs")
    say("status", "nightly")
    with subprocess.Popen(
        [BINARY, "attach", "nightly"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as attached:
        follow("nightly", attached, " applied")
        attached.terminate()
    print("^C")
    say("set", "nightly", "predictive-rebalance.gain_threshold=0.1")
    say("stop", "nightly", "--checkpoint")
    _, said = run.communicate(timeout=60)
    print(said.replace(folder, "/data").replace(str(SCENARIO), "nightly.yaml"), end="")
    words = re.search(r"^  to continue from its newest .* checkpoint: orrery (.*)$", said, re.M)
    print("$ orrery live nightly.yaml --from /data/checkpoints")
    rest = subprocess.run(
        [BINARY, *shlex.split(words[1])], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    steps = re.search(r"^steps .*$", rest.stdout, re.M)
    print(steps[0] if steps else rest.stdout + rest.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        day(folder)


if __name__ == "__main__":
    main()
