"""Writes the part of docs/accuracy.md about single collectives: `orrery simulate` on a scenario
with a `collective:` against measured collectives, by source and size.

    python3 python/calibration/collectives_asked.py            # print, and write the part
    python3 python/calibration/collectives_asked.py --rows     # print every row too
    python3 python/calibration/collectives_asked.py --source aws_    # print these sources only

Every row of collectives.csv whose machine its source describes (collective_fit.MACHINES) and the
rows of two sources of collectives-2026.csv.gz. A program is started per row: about a minute.
"""

import argparse
import collections
import concurrent.futures
import csv
import gzip
import json
import os
import subprocess
import tempfile

import collective_fit
import numpy as np
import page
import runs

PART = "single collectives"
# Sources of collectives-2026.csv.gz: (source, first letters of the GPU) -> (model, NICs, Gbps).
NEWER = {
    ("aic_nccl", "A100"): ("A100-80GB", 8, 200), ("aic_nccl", "H100"): ("H100", 8, 400),
    ("aic_nccl", "H200"): ("H200", 8, 400), ("aic_nccl", "B200"): ("B200", 8, 400),
    ("aic_nccl", "B300"): ("B300", 8, 800), ("aic_nccl", "GB20"): ("GB200", 4, 400),
    ("aic_nccl", "GB30"): ("GB300", 4, 800), ("dranet_b200_2n", "B200"): ("B200", 8, 400),
}  # fmt: skip
SCENARIO = """\
name: collective
cluster:
  nodes: {nodes}
  node: {{gpu: {gpu}, gpus_per_node: {each}, nics_per_node: {nics}, nic_bandwidth: {nic} Gbps}}
  fabric: {{kind: flat{latency}}}
collective: {{kind: {kind}, size: {size}, algorithm: {algorithm}}}
run: {{steps: 1}}
"""

# Latency from NIC to NIC of Amazon's EFA, as collective_fit.py finds it.
EFA = ", nic_latency: 49 us"

Call = collections.namedtuple("Call", "source scenario bytes measured fitted")


def scenario(row, gpu, nics, gbps, algorithm="automatic"):
    """Returns the text of the scenario of one row; GPUs of a node that take no part are absent."""
    nodes = int(row["nodes"])
    each = int(row["ranks"]) // nodes
    return SCENARIO.format(nodes=nodes, gpu=gpu, each=each, nics=min(nics, each), nic=gbps,
                           kind=row["collective"].replace("_", "-"), size=row["size_bytes"] + " B",
                           algorithm=algorithm, latency=EFA if "EFA" in row["nic"] else "")


def calls_of_fit():
    for row in runs.read("collectives.csv"):
        machine = collective_fit.usable(row)
        if machine is None or row["collective"] == "send_recv":
            continue
        gpu = {"A100": "A100-80GB"}.get(row["gpu"][:4], row["gpu"][:4])
        fitted = not (row["source_key"].startswith(collective_fit.SHARE_ALIKE) or
                      row["source_key"] in collective_fit.NOT_FITTED)
        ring = row["algo_note"] in ("Ring", "Ring (NVLS off)")
        text = scenario(row, gpu, machine.nics, int(machine.nic * 8e-9),
                        "ring" if ring else "automatic")
        yield Call(f"{row['source_key']} {row['gpu'][:4]}", text, float(row["size_bytes"]),
                   collective_fit.measured_time(row), fitted)


def calls_of_newer():
    path = runs.DATA / "kernels" / "collectives-2026.csv.gz"
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            machine = NEWER.get((row["source_key"], row["gpu"][:4]))
            if machine is None or not row["size_bytes"].isdigit() or not row["nodes"].isdigit():
                continue
            if float(row["size_bytes"]) < collective_fit.SMALLEST:
                continue
            yield Call(f"{row['source_key']} {row['gpu'].split('-')[0]}", scenario(row, *machine),
                       float(row["size_bytes"]), collective_fit.measured_time(row), False)


def simulated_time(call):
    """Returns the seconds of the collective by `orrery simulate`."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(call.scenario)
        file.flush()
        command = [runs.PROGRAM, "simulate", file.name, "--json"]
        found = subprocess.run(command, check=False, capture_output=True, text=True)
    if found.returncode != 0:
        raise SystemExit(f"{found.stderr}\n{call.scenario}")
    return json.loads(found.stdout)["step_time_s"]


def own_start(calls, times, of):
    """The errors of one source's calls after one start latency for all of them, in seconds the one
    that is best below 1 MiB: sources time a call with its launch or without."""
    measured = np.array([call.measured for call in calls])
    small = [i for i in of if calls[i].bytes < collective_fit.MIB]
    found = 0
    if small:
        near, far = measured[small], times[small]
        found = min(near - far, key=lambda start: np.median(np.abs((far + start) / near - 1)))
    return (times[of] + found) / measured[of] - 1


def table(calls, times):
    """Markdown: median absolute and signed errors by source and size."""
    errors = times / np.array([call.measured for call in calls]) - 1
    lines = ["| source and GPU | fitted | size | rows | median error | bias | own start |",
             "|---" * 7 + "|"]  # fmt: skip
    for source in sorted({call.source for call in calls}):
        whole = np.array([i for i, call in enumerate(calls) if call.source == source])
        own = own_start(calls, times, whole)
        for text, low, high in collective_fit.SIZES:
            chosen = [k for k, i in enumerate(whole) if low <= calls[i].bytes < high]
            if chosen:
                of = whole[chosen]
                fitted = "yes" if calls[of[0]].fitted else "no"
                lines.append(f"| {source} | {fitted} | {text} | {len(of)} | "
                             f"{100 * np.median(np.abs(errors[of])):.1f}% | "
                             f"{100 * np.median(errors[of]):+.1f}% | "
                             f"{100 * np.median(np.abs(own[chosen])):.1f}% |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--source", default="", help="only sources that begin so; writes nothing")
    options = parser.parse_args()
    calls = [call for call in list(calls_of_fit()) + list(calls_of_newer())
             if call.source.startswith(options.source)]  # fmt: skip
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        times = np.array(list(pool.map(simulated_time, calls)))
    errors = times / np.array([call.measured for call in calls]) - 1
    if options.rows:
        for call, time, error in zip(calls, times, errors):
            print(f"{call.source:28} {call.bytes:14.0f} B measured {1e6 * call.measured:10.1f} us "
                  f"simulated {1e6 * time:10.1f} us {100 * error:+6.1f}%")
    text = ("\n## Single collectives, as a user asks\n\n"
            "`orrery simulate` on a scenario with a `collective:` against measured collectives\n"
            "(`python3 python/calibration/collectives_asked.py`). Sources marked `no` were not\n"
            "used to fit the protocols. Sources whose fabric is Amazon's EFA are asked with its\n"
            "latency (`fabric: {nic_latency: 49 us}`). `own start`: the errors after one start\n"
            "latency per source and GPU, the best below 1 MiB: sources time a call with its\n"
            "launch or without. The price is not fitted to aic_nccl, and `simulate` states no\n"
            "interval of a single collective.\n\n" + table(calls, times) + "\n")
    print(text)
    if not options.source:
        page.write_part(PART, text)


if __name__ == "__main__":
    main()
