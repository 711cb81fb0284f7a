"""Cost of rehearsals on this machine: processor time of a repeated step, and memory of the process.

rehearse_bench.py [LAYERS]: a smaller number of layers for a first look. --limit SECONDS ends a row
that takes longer (300); its reason stands in the table, as that of a failed one. Exits with 1 if a
row has no figures.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
TORCH = pathlib.Path(os.environ.get("ORRERY_TORCH_PYTHON", CACHE / "orrery/torch/bin/python"))
DECODER = ROOT / "tests/python/rehearsed/decoder.py"
LARGE = "--hidden 8192 --sequence 8192 --vocabulary 128256 --tp 8 --deferred"
#: Name, options of decoder.py, layers, and the most seconds of a step.
SIZES = (
    ("8B, FSDP2", "--hidden 4096 --sequence 8192 --vocabulary 128256", 32, 3),
    ("70B, tensor 8, FSDP2", LARGE, 80, 10),
)


class NoFigures(Exception):
    """Why a row has no figures."""


def rehearse(options, layers, limit_s):
    """Returns the report of the decoder as one of 1,024 ranks."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment = {**plain, "PATH": f"{TORCH.parent}:{plain['PATH']}", "OMP_NUM_THREADS": "1"}
    try:
        result = subprocess.run(
            [BUILD / "bin/orrery", "rehearse", "--json", "--ranks", "1024",
             "--cluster", "dgx-h100",
             "--", "python", DECODER, *options.split(), "--layers", str(layers)],
            capture_output=True, text=True, env=environment, check=False, timeout=limit_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NoFigures(f"not done after {limit_s:.0f} s") from None
    if result.returncode:
        last = (result.stderr.strip() or "no message").splitlines()[-1]
        raise NoFigures(f"exit code {result.returncode}: {last}")
    return json.loads(result.stdout.splitlines()[-1])


def row(name, report, most):
    """Returns a row of the table."""
    host, operators = report["host"], report["operators"]
    return (
        f"| {name} | {operators:,} | {host['step_cpu_s']:.2f} s | {most} s "
        f"| {1e6 * host['step_cpu_s'] / operators:.0f} us "
        f"| {host['peak_rss_bytes'] / (1 << 30):.2f} GiB |"
    )


def main():
    words = argparse.ArgumentParser()
    words.add_argument("layers", type=int, nargs="?")
    words.add_argument("--limit", type=float, default=300, metavar="SECONDS")
    told = words.parse_args()
    rows = []
    is_complete = True
    for number, (name, options, layers, most) in enumerate(SIZES, 1):
        layers = told.layers or layers
        print(f"row {number} of {len(SIZES)}: {name}, {layers} layers, at most {told.limit:.0f} s",
              file=sys.stderr, flush=True)  # fmt: skip
        begin_s = time.monotonic()
        try:
            rows.append(row(name, rehearse(options, layers, told.limit), most))
        except NoFigures as reason:
            is_complete = False
            rows.append(f"| {name} | {reason} | | {most} s | | |")
        print(f"row {number} took {time.monotonic() - begin_s:.0f} s", file=sys.stderr, flush=True)
    print("| decoder, 1,024 ranks | operators | CPU a step | allowed | an operator | process |")
    print("|---|---|---|---|---|---|")
    print("\n".join(rows))
    return 0 if is_complete else 1


sys.exit(main())
