"""Cost of rehearsals on this machine: processor time of a repeated step, and memory of the process.

rehearse_bench.py [LAYERS]: a smaller number of layers for a first look.
"""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
TORCH = pathlib.Path(os.environ.get("ORRERY_TORCH_PYTHON", CACHE / "orrery/torch/bin/python"))
DECODER = ROOT / "tests/python/rehearsed/decoder.py"
#: Name, options of decoder.py, layers, and the most seconds of a step.
SIZES = (
    ("8B, FSDP2", "--hidden 4096 --sequence 8192 --vocabulary 128256", 32, 3),
    ("70B, tensor 8, FSDP2", "--hidden 8192 --sequence 8192 --vocabulary 128256 --tp 8", 80, 10),
)


def rehearse(options, layers):
    """Returns the report of the decoder as one of 1,024 ranks."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment = {**plain, "PATH": f"{TORCH.parent}:{plain['PATH']}", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [BUILD / "bin/orrery", "rehearse", "--json", "--ranks", "1024", "--cluster", "dgx-h100",
         "--", "python", DECODER, *options.split(), "--layers", str(layers)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    if result.returncode:
        sys.exit(result.stderr)
    return json.loads(result.stdout.splitlines()[-1])


def main():
    print("| decoder, 1,024 ranks | operators | CPU a step | allowed | an operator | process |")
    print("|---|---|---|---|---|---|")
    for name, options, layers, most in SIZES:
        report = rehearse(options, int(sys.argv[1]) if len(sys.argv) > 1 else layers)
        host, operators = report["host"], report["operators"]
        print(
            f"| {name} | {operators:,} | {host['step_cpu_s']:.2f} s | {most} s "
            f"| {1e6 * host['step_cpu_s'] / operators:.0f} us "
            f"| {host['peak_rss_bytes'] / (1 << 30):.2f} GiB |",
            flush=True,
        )


main()
