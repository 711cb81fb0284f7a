"""Cost of imported traces and lone collectives: simulated time, events, CPU and memory of whole
runs, the start of both processes included. Run by `./dev bench traces`; asserts nothing."""

import json
import os
import pathlib
import resource
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
DATA = pathlib.Path(os.environ.get("ORRERY_DATA", ROOT.parent / "shared" / "data"))
REPEATS = 5


def run(example, *settings):
    """One run: its report, and the CPU time of all its processes."""
    options = [part for setting in settings for part in ("--set", setting)]
    command = [BUILD / "bin" / "orrery", "simulate", ROOT / "examples" / example, "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(result.stdout), cpu_s


def measure(name, example, *settings):
    runs = [run(example, *settings) for _ in range(REPEATS)]
    report = runs[0][0]
    cpu_s = sorted(cpu for _, cpu in runs)[REPEATS // 2]
    memory = max(each["host"]["peak_rss_bytes"] for each, _ in runs)
    print(
        f"| {name} | {report['ranks']} | {report['rank_classes']} | {report['events']} "
        f"| {1e3 * report['step_time_s']:.3f} | {cpu_s:.3f} | {memory / 1e6:.0f} |"
    )


def main():
    print("| what | ranks | classes | events | simulated ms | CPU s (median) | peak RSS MB |")
    print("|---|---|---|---|---|---|---|")
    for ranks in (1024, 4096, 16384):
        measure(
            "1 GiB ring all-reduce", "allreduce-ring-1024.yaml", f"collective.ranks={ranks}"
        )
    for ranks in (131072, 1048576):
        for algorithm in ("automatic", "ring"):
            measure(
                f"1 GiB all-reduce, {algorithm}", "allreduce-ring-1024.yaml",
                f"cluster.nodes={ranks // 8}", f"collective.ranks={ranks}",
                f"collective.algorithm={algorithm}",
            )  # fmt: skip
    archive = DATA / "chakra" / "gpt64.tar.xz"
    if not archive.exists():
        print(f"gpt64 skipped: no test data at {archive}; set ORRERY_DATA")
        return
    trace = f"trace.chakra={archive}"
    measure("gpt64, read from .tar.xz", "chakra-gpt64.yaml", trace)


if __name__ == "__main__":
    main()
