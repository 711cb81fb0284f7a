"""Writes the part of docs/accuracy.md about single collectives: `orrery simulate` on a scenario
with a `collective:` against measured collectives, by source and size.

    python3 python/calibration/collectives_asked.py            # print, and write the part
    python3 python/calibration/collectives_asked.py --rows     # print every row too
    python3 python/calibration/collectives_asked.py --source aws_    # print these sources only
    python3 python/calibration/collectives_asked.py --check          # compare with the page only

Every row of collectives.csv and of collectives-2026.csv.gz whose machine its source describes
(collective_fit.MACHINES). A program is started per row: a minute or two.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import os
import subprocess
import sys
import tempfile

import collective_fit
import fit_components
import numpy as np
import page
import runs

PART = "single collectives"
# GPU models by the first letters of a table's GPU.
GPUS = {"A100": "A100-80GB", "GB20": "GB200", "GB30": "GB300", "MI30": "MI300X",
        "V100": "V100-32GB"}  # fmt: skip
SCENARIO = """\
name: collective
cluster:
  nodes: {nodes}
  node:
    {{gpu: {gpu}, gpus_per_node: {each}, nics_per_node: {nics}, nic_bandwidth: {nic} Gbps{domain}}}
  fabric: {{kind: flat{latency}}}
collective: {{kind: {kind}, size: {size}, algorithm: {algorithm}}}
run: {{steps: 1}}
"""

# Latency from NIC to NIC of Amazon's EFA, p4d and p5, as collective_fit.py finds it.
EFA = {"efa_p4": ", nic_latency: 93 us", "efa_p5": ", nic_latency: 44 us", "": ""}
SIZES = (*collective_fit.SIZES, ("1 MiB and more", collective_fit.MIB, 1e15))
APART = 1.2  # sources differ
# Goals of the median error: from 1 MiB on, and below after one start latency of the source.
GOAL, GOAL_SMALL = 0.1, 0.2
# Causes of misses, by source and GPU.
CAUSES = {
    "aws_p4d_issue527 A100": "never fitted: its reporter calls the machine slow",
    "aws_p5_2n_eks H100": "never fitted: an older release on the machine of `aws_p5_2n`",
    "coreweave_nccl GB200, 20 racks": "never fitted: links between the racks are not stated",
    "h100_2n_1gpu_issue232 H100": "one GPU and NIC a node, faster than the rate between nodes "
                                  "that machines of eight GPUs were fitted to",
    "h200_248n_issue283 H200": "one row, of 1,984 GPUs; the other fitted rows have at most 144",
    "mleng_b200_4n B200": "never fitted: the first rows are warm-up (6.3 ms for 32 KiB), and no "
                          "fitted source has its generation of EFA",
    "vidur_net_a100_dgx A100": "from 8 MiB on 9 to 27% above `vtrain_lut` and `aic_nccl` on the "
                               "same machine, and out of order below (4 GPUs: 64 us for 1 MiB, "
                               "53 us for 2 MiB)",
    "vidur_net_h100_pairwise_nvlink H100": "GPUs linked in pairs, asked as NVSwitch",
}  # fmt: skip

# `point`: GPU family, NVLink, kind, ranks, nodes, algorithm and size, which sources may share.
Call = collections.namedtuple("Call", "source scenario bytes measured fitted point")
Answer = collections.namedtuple("Answer", "time p10 p90 low95 high95")


def scenario(row, machine):
    """Returns the text of the scenario of one row; GPUs of a node that take no part are absent."""
    nodes = int(row["nodes"])
    each = int(row["ranks"]) // nodes
    domains, nodes_each = collective_fit.domains_of(row)
    efa = next((name for of, name in collective_fit.EFA.items()
                if row["source_key"].startswith(of)), "")
    ring = row["algo_note"] in ("Ring", "Ring (NVLS off)")
    return SCENARIO.format(nodes=nodes, gpu=GPUS.get(row["gpu"][:4], row["gpu"][:4]), each=each,
                           nics=math.gcd(machine.nics, each), nic=int(machine.nic * 8e-9),
                           domain=f", nvlink_domain: {nodes_each:.0f}" if nodes_each > 1 else "",
                           kind=row["collective"].replace("_", "-"), size=row["size_bytes"] + " B",
                           algorithm="ring" if ring else "automatic", latency=EFA[efa])


def all_calls():
    for row in fit_components.all_collectives():
        machine = collective_fit.usable(row)
        if machine is None or row["collective"] == "send_recv":
            continue
        group = collective_fit.group_of(row)
        fitted = not (row["source_key"].startswith(collective_fit.SHARE_ALIKE) or
                      group in collective_fit.NOT_FITTED)
        point = (machine.family, machine.nvlink, row["collective"], row["ranks"], row["nodes"],
                 row["algo_note"] if "Ring" in row["algo_note"] else "", float(row["size_bytes"]))
        yield Call(group, scenario(row, machine), float(row["size_bytes"]),
                   collective_fit.measured_time(row), fitted, point)


def simulated_time(call):
    """Returns the seconds of the collective by `orrery simulate`, with its intervals."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(call.scenario)
        file.flush()
        command = [runs.PROGRAM, "simulate", file.name, "--json"]
        found = subprocess.run(command, check=False, capture_output=True, text=True)
    if found.returncode != 0:
        raise SystemExit(f"{found.stderr}\n{call.scenario}")
    said = json.loads(found.stdout)
    interval = said["step_interval"]
    return Answer(said["step_time_s"], *(interval[name] for name in (
        "p10_s", "p90_s", "p2_5_s", "p97_5_s")))


def start_of(calls, times, of):
    """The start latency of one source's calls in seconds, the one that is best below 1 MiB: sources
    time a call with its launch or without. 0 for a source without such calls."""
    small = [i for i in of if calls[i].bytes < collective_fit.MIB]
    if not small:
        return 0.0
    near, far = np.array([calls[i].measured for i in small]), times[small]
    return min(near - far, key=lambda start: np.median(np.abs((far + start) / near - 1)))


def by_source(calls):
    """Indices of the calls by source."""
    found = collections.defaultdict(list)
    for i, call in enumerate(calls):
        found[call.source].append(i)
    return {source: np.array(found[source]) for source in sorted(found)}


def percent(values):
    return f"{100 * np.median(values):.1f}%"


def table(calls, answers):
    """Markdown: median absolute and signed errors by source and size, and coverage."""
    times, low80, high80, low95, high95 = np.array(answers).T
    measured = np.array([call.measured for call in calls])
    errors = times / measured - 1
    inside80 = (low80 <= measured) & (measured <= high80)
    inside95 = (low95 <= measured) & (measured <= high95)
    lines = ["| source and GPU | fitted | size | rows | median error | bias | own start | in 80% "
             "| in 95% |", "|---" * 9 + "|"]
    for source, whole in by_source(calls).items():
        own = (times[whole] + start_of(calls, times, whole)) / measured[whole] - 1
        for text, low, high in SIZES:
            chosen = [k for k, i in enumerate(whole) if low <= calls[i].bytes < high]
            if chosen:
                of = whole[chosen]
                fitted = "yes" if calls[of[0]].fitted else "no"
                lines.append(f"| {source} | {fitted} | {text} | {len(of)} | "
                             f"{percent(np.abs(errors[of]))} | {100 * np.median(errors[of]):+.1f}% "
                             f"| {percent(np.abs(own[chosen]))} | {inside80[of].mean():.0%} | "
                             f"{inside95[of].mean():.0%} |")
    return "\n".join(lines) + "\n"


def within(cell, goal):
    return f"**{cell}**" if float(cell.rstrip("%")) > 100 * goal else cell


def goals(calls, answers):
    """Markdown: the two figures of each source beside their goals, and the cause of each miss.
    Raises SystemExit for a miss without a cause."""
    times = np.array([answer.time for answer in answers])
    lines = [f"| source and GPU | from 1 MiB (goal {GOAL:.0%}) | below, after one start "
             f"(goal {GOAL_SMALL:.0%}) | start | cause of a miss |", "|---" * 5 + "|"]
    for source, of in by_source(calls).items():
        start, measured = start_of(calls, times, of), np.array([calls[i].measured for i in of])
        small = np.array([calls[i].bytes < collective_fit.MIB for i in of])
        large = np.abs(times[of] / measured - 1)[~small]
        after = np.abs((times[of] + start) / measured - 1)[small]
        cells = [within(percent(large), GOAL) if large.size else "",
                 within(percent(after), GOAL_SMALL) if after.size else ""]
        missed = "**" in "".join(cells)
        if missed and source not in CAUSES:
            raise SystemExit(f"{source}: expected errors within their goals or a cause in CAUSES "
                             f"of collectives_asked.py, found {' and '.join(filter(None, cells))}")
        latency = f"{1e6 * start:+.1f} us" if after.size else ""
        lines.append(f"| {source} | {cells[0]} | {cells[1]} | {latency} | "
                     f"{CAUSES[source] if missed else ''} |")
    return "\n".join(lines) + "\n"


# A point that sources measured apart: its calls, the answer, whether the price lies between the
# measured times, and whether the 80% interval covers all of them.
Apart = collections.namedtuple("Apart", "calls answer between covers")


def points_apart(calls, answers):
    """Points whose fitted sources differ by more than a fifth, in the order of the calls."""
    points = collections.defaultdict(list)
    for call, answer in zip(calls, answers):
        if call.fitted:
            points[call.point].append((call, answer))
    for of in points.values():
        measured = [call.measured for call, _ in of]
        sources = {call.source.split()[0] for call, _ in of}
        if len(sources) > 1 and max(measured) >= APART * min(measured):
            answer = of[0][1]
            yield Apart([call for call, _ in of], answer,
                        min(measured) <= answer.time <= max(measured),
                        answer.p10 <= min(measured) and max(measured) <= answer.p90)


def apart_table(calls, answers):
    """Markdown: each point from 1 MiB on that sources measured apart, its price and interval."""
    lines = ["| GPUs | collective | measured | price | 80% interval | between | covers |",
             "|---" * 7 + "|"]
    for point in points_apart(calls, answers):
        first = point.calls[0]
        if first.bytes < collective_fit.MIB:
            continue
        family, _, kind, ranks, nodes, _, size = first.point
        where = f"{ranks} {family}" + (f" on {nodes} nodes" if nodes != "1" else "")
        what = f"{kind.replace('_', '-')} of {size / collective_fit.MIB:.0f} MiB"
        measured = sorted((call.measured, call.source) for call in point.calls)
        text = ", ".join(f"{1e6 * time:.0f} ({source})" for time, source in measured)
        answer = point.answer
        lines.append(f"| {where} | {what} | {text} us | {1e6 * answer.time:.0f} us | "
                     f"{1e6 * answer.p10:.0f} to {1e6 * answer.p90:.0f} us | "
                     f"{'yes' if point.between else '**no**'} | "
                     f"{'yes' if point.covers else '**no**'} |")
    return "\n".join(lines) + "\n"


def disagreement(calls, answers):
    """Markdown: prices and intervals of points whose fitted sources differ by more than a fifth."""
    found = {}
    for point in points_apart(calls, answers):
        first = point.calls[0]
        size = "below 1 MiB" if first.bytes < collective_fit.MIB else "1 MiB and more"
        found.setdefault((first.point[0], size), []).append((point.between, point.covers))
    lines = ["| GPU family | size | points | price between | 80% interval covers all sources |",
             "|---" * 5 + "|"]
    for (family, size), of in sorted(found.items()):
        between, covers = np.array(of).T
        lines.append(f"| {family} | {size} | {len(of)} | {between.mean():.0%} | "
                     f"{covers.mean():.0%} |")
    return "\n".join(lines) + "\n"


TEXT = """
## Single collectives, as a user asks

`orrery simulate` on a scenario with a `collective:` against measured collectives
(`python3 python/calibration/collectives_asked.py`). Sources marked `no` were not used to fit the
protocols. Sources whose fabric is Amazon's EFA are asked with its latency as it was fitted
(`fabric: {{nic_latency: 93 us}}` on p4d, 44 us on p5). `own start`: the errors after one start
latency per source and GPU, the best below 1 MiB: sources time a call with its launch or without.
`in 80%`, `in 95%`: the share of the measured times inside the intervals that `simulate` states
(`step_interval` of `--json`), which have seen the fitted sources; intervals that have not seen a
source are in the part above.

{goals}
The same by size, without a start latency of the source (but in the column `own start`):

{table}
Points that two or more fitted sources measured (the same GPU family, kind, ranks, nodes and size)
and in which their times differ by more than a fifth:

{points}
Each of them from 1 MiB on. One price serves all sources of a family; where it lies outside of the
measured times, times at the neighbouring sizes and of the other sources pull it there:

{apart}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--source", default="", help="only sources that begin so; writes nothing")
    parser.add_argument("--check", action="store_true", help="compare with the page only")
    options = parser.parse_args()
    if options.check and options.source:
        parser.error("--check compares all sources: leave --source out")
    calls = [call for call in all_calls() if call.source.startswith(options.source)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(simulated_time, calls))
    if options.rows:
        for call, answer in zip(calls, answers):
            print(f"{call.source:28} {call.bytes:14.0f} B measured {1e6 * call.measured:10.1f} us "
                  f"simulated {1e6 * answer.time:10.1f} us "
                  f"{100 * (answer.time / call.measured - 1):+6.1f}% "
                  f"80% {1e6 * answer.p10:.1f} to {1e6 * answer.p90:.1f} us")
    text = TEXT.format(goals=goals(calls, answers), table=table(calls, answers),
                       points=disagreement(calls, answers), apart=apart_table(calls, answers))
    print(text)
    if options.check:
        return 0 if page.read_part(PART) == text else 1
    if not options.source:
        page.write_part(PART, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
