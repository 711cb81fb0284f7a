"""Fits the collectives' coefficients: protocols, starts and pipelines of protocols.cpp
in sim/estimates/collectives.

A part of fit_components.py, which calls fit_collectives() and writes what it returns. A row of
collectives.csv becomes the time of the fastest algorithm and protocol on a machine as its source
describes it; the formulas are those of sim/estimates/collectives on links that carry nothing else.
One fit over all machines: what concerns a GPU family (start, fill, NVLink's loss with few GPUs) by
family, the rest in common.
"""

import collections

import numpy as np
from scipy.optimize import least_squares

MIB = 2.0**20
NVLINK_LATENCY, NIC_LATENCY = 1e-6, 2e-6  # defaults of topologies/topology.proto
SMALLEST = 1024.0  # bytes; below, a time says the same as at this size

Machine = collections.namedtuple("Machine", "family nvlink nics nic nvls")
A100, P4 = Machine("A100", 300e9, 8, 25e9, False), Machine("A100", 300e9, 4, 12.5e9, False)
H100 = Machine("H100", 450e9, 8, 50e9, True)
B200 = Machine("B200", 900e9, 8, 50e9, True)
PAIR_H100 = Machine("H100", 300e9, 1, 50e9, False)
# Machines by source and the first letters of the GPU: the source's statements, or the GPU's data
# sheet where the source is silent.
MACHINES = {
    ("vtrain_lut", "A100"): A100, ("vidur_net_a100_dgx", "A100"): A100,
    ("vidur_net_a100_pairwise_nvlink", "A100"): A100, ("azure_guide", "A100"): A100,
    ("aws_p4de_2n", "A100"): P4, ("aws_p4d_issue527", "A100"): P4,
    ("vidur_net_h100_dgx", "H100"): H100, ("vidur_net_h100_pairwise_nvlink", "H100"): PAIR_H100,
    ("azure_guide", "H100"): H100, ("azure_guide", "H200"): H100, ("aws_p5_2n", "H100"): H100,
    ("aws_p5_2n_eks", "H100"): H100,
    ("h100_2n_1gpu_issue232", "H100"): Machine("H100", 450e9, 1, 50e9, False),
    ("h200_248n_issue283", "H200"): H100, ("mleng_8xa100", "A100"): A100,
    ("mleng_8xh200", "H200"): H100, ("mleng_collectives", "H200"): H100,
    ("mleng_sharp_ramp", "H200"): H100, ("mleng_sharp_ramp", "B200"): B200,
    ("mleng_b200_1n", "B200"): B200, ("mleng_b200_4n", "B200"): B200,
}
# Rows that are predicted but never fitted: the reporter calls the machine slow, or the software is
# an older release of another row's.
NOT_FITTED = ("aws_p4d_issue527", "aws_p5_2n_eks")
SHARE_ALIKE = "mleng_"

# name -> (lowest, highest, start of the search)
BOUNDS = {
    "start_A100": (1e-7, 1e-4, 2e-5), "start_H100": (1e-7, 1e-4, 2e-5),
    "loss_A100": (1e-3, 0.9, 0.25), "loss_H100": (1e-3, 0.9, 0.25),
    "fill_A100": (1e-8, 1e-3, 1e-6), "fill_H100": (1e-8, 1e-3, 1e-6),
    "nvls": (0.3, 1, 0.66), "ll": (0.05, 0.6, 0.35), "ll128": (0.3, 1, 0.75),
    "hop": (0.01, 20, 0.4), "network_hop": (0.1, 10, 1), "network_fill": (1e-3, 10, 0.2),
    "send": (0.3, 1, 0.9), "send_start": (1e-7, 1e-4, 5e-6), "efa": (1e-6, 2e-4, 3e-5),
}
# Seconds that a round takes longer than one of LL (near, far): NCCL's constants, as in
# sim/estimates/collectives/protocols.cpp.
RING = {"ll": (0, 0), "ll128": (1.3e-6, 1.3e-6), "simple": (2.8e-6, 11.3e-6)}
TREE = {"ll": (0, 0), "ll128": (0.65e-6, 3.5e-6), "simple": (3.4e-6, 9e-6)}


def usable(row):
    """The machine of a row; None: size, nodes or NICs unstated, or GPUs partly on PCIe."""
    if not row["ranks"].isdigit() or not row["nodes"].isdigit():
        return None
    machine = MACHINES.get((row["source_key"], row["gpu"][:4]))
    if machine is None or not row["size_bytes"].isdigit() or float(row["size_bytes"]) < SMALLEST:
        return None
    if row["source_key"].startswith("vidur") and row["nodes"] != "1":
        return None
    if "pairwise" in row["source_key"] and row["ranks"] != "2":
        return None
    # Two machines with the same rows digit by digit, faster than the links of one of them.
    if "pairwise" in row["source_key"] and row["collective"] == "send_recv":
        return None
    return machine


def measured_time(row):
    if row["time_us"]:
        return float(row["time_us"]) * 1e-6
    n = float(row["ranks"])
    over = {"all_reduce": 2 * (n - 1) / n, "send_recv": 1}.get(row["collective"], (n - 1) / n)
    return float(row["size_bytes"]) * over / (float(row["busbw_GBs"]) * 1e9)


def collective_table(all_rows):
    """Columns by name, one entry a usable row."""
    table = collections.defaultdict(list)
    for row in all_rows:
        machine = usable(row)
        if machine is None:
            continue
        for name, value in machine._asdict().items():
            table[name].append(value)
        table["nvls"][-1] &= row["algo_note"] not in ("Ring", "Ring (NVLS off)")
        table["group"].append(row["source_key"] + (" " + row["gpu"][:4] if
                                                   row["source_key"] == "azure_guide" else ""))
        table["kind"].append(row["collective"])
        table["ranks"].append(float(row["ranks"]))
        table["nodes"].append(float(row["nodes"]))
        table["bytes"].append(float(row["size_bytes"]))
        table["time"].append(measured_time(row))
        table["efa"].append("EFA" in row["nic"])
    return {name: np.array(column) for name, column in table.items()}


def pick(table, mask):
    return {name: column[mask] for name, column in table.items()}


class Model:
    """Times of a table's rows; `links` holds the shares of NVLink and network by family."""

    def __init__(self, table, links):
        self.t = table
        family = np.where(table["family"] == "A100", "A100", "H100")
        self.is_a100 = family == "A100"
        self.nvlink = table["nvlink"] * np.array([links[name]["nvlink"] for name in family])
        share = np.array([links[name]["network"] for name in family])
        self.network = table["nics"] * table["nic"] * share
        self.over = table["nodes"] > 1
        self.each = table["ranks"] / table["nodes"]

    def of_family(self, c, name):
        return np.where(self.is_a100, c[name + "_A100"], c[name + "_H100"])

    def way(self, c, protocol, rounds, loads, inside, table, start):
        """Seconds by one algorithm and protocol; `rounds` and `loads` inside and between."""
        near, far = table[protocol]
        nic = NIC_LATENCY + np.where(self.t["efa"], c["efa"] - NIC_LATENCY, 0)
        latency = (rounds[0] * (NVLINK_LATENCY + c["hop"] * near) +
                   rounds[1] * (nic + c["network_hop"] * far))
        outside = np.where(self.over, loads[1] / self.network, 0)
        transfer = self.t["bytes"] * np.maximum(loads[0] / (self.nvlink * inside), outside)
        if protocol != "simple":
            return start + latency + transfer / c[protocol]
        far_time = rounds[1] * (nic + c["network_hop"] * table["simple"][1])
        # Two GPUs of a domain exchange data at one rate: no ring has to be filled.
        near_fill = np.where(self.t["kind"] == "send_recv", 0, self.of_family(c, "fill"))
        fill = np.where(rounds[1] > 0, c["network_fill"] * far_time, near_fill)
        return start + latency + transfer + 2 * np.sqrt(transfer * fill)

    def time(self, c):
        n, m, k = self.t["ranks"], self.t["nodes"], self.each
        reduces, sends = self.t["kind"] == "all_reduce", self.t["kind"] == "send_recv"
        loss, start = self.of_family(c, "loss"), self.of_family(c, "start")
        few = (1 - loss / np.minimum(k, 8)) / (1 - loss / 8)
        passes = np.where(reduces, 2, 1)
        height = np.ceil(np.log2(m))
        halves = np.where(m == 2, 1, np.where(m == 3, 1.5, 2))
        far = np.where(self.over, passes * (n - 1) * m / n, 0)
        ring = ((passes * (n - 1) - far, far),
                (passes * (n - 1) / n * np.where(self.over, (k - 1) / k, 1), passes * (n - 1) / n))
        tree = ((2 * (k - 1), 2 * height), (2 * (k - 1) / k, halves))
        nvls = ((2 + 0 * k, 2 * height), (1 + 1 / k, halves))
        send = ((1 - 1.0 * self.over, 1.0 * self.over), (1 + 0 * k, 1 + 0 * k))
        best = np.full(len(n), np.inf)
        for protocol in RING:
            for serves, (rounds, loads), inside, table, begin in (
                    (~sends, ring, few, RING, start),
                    (reduces & self.over, tree, few, TREE, start),
                    (reduces & self.t["nvls"] & (k > 1), nvls,
                     few * c["nvls"] * self.t["nvlink"] / self.nvlink, TREE, start),
                    (sends, send, c["send"] * self.t["nvlink"] / self.nvlink, RING,
                     c["send_start"])):
                if protocol != "simple" and (rounds is nvls[0] or rounds is send[0]):
                    continue
                time = self.way(c, protocol, rounds, loads, inside, table, begin)
                best = np.where(serves, np.minimum(best, time), best)
        return best


def fit_table(table, links):
    """Robust least squares over log time; machines with many rows weigh less a row."""
    model = Model(table, links)
    names = list(BOUNDS)
    low, high, begin = np.log([BOUNDS[name] for name in names]).T
    count = collections.Counter(table["group"])
    weight = np.array([count[group]**-0.25 for group in table["group"]])

    def residuals(logs):
        return weight * np.log(model.time(dict(zip(names, np.exp(logs)))) / table["time"])

    found = least_squares(residuals, begin, bounds=(low, high), loss="soft_l1", f_scale=0.05)
    return dict(zip(names, np.exp(found.x)))


def yardstick(table, fitted):
    """One bus bandwidth for all: the median of the other machines'."""
    n = table["ranks"]
    work = table["bytes"] * np.where(table["kind"] == "all_reduce", 2 * (n - 1) / n,
                                     np.where(table["kind"] == "send_recv", 1, (n - 1) / n))
    error = np.zeros(len(n))
    for group in sorted(set(table["group"])):
        out = table["group"] == group
        rest = ~out & fitted
        rate = np.median(work[rest] / table["time"][rest])
        error[out] = work[out] / rate / table["time"][out] - 1
    return error


Result = collections.namedtuple("Result", "found table fitted held_out shipped yardstick")


def fit_collectives(all_rows, links):
    """Coefficients of the fit to all fitted rows, and errors of all rows with their machine out."""
    table = collective_table(all_rows)
    share_alike = np.char.startswith(table["group"], SHARE_ALIKE)
    fitted = ~share_alike & ~np.isin(table["group"], NOT_FITTED)
    found = fit_table(pick(table, fitted), links)
    shipped = Model(table, links).time(found) / table["time"] - 1
    held_out = shipped.copy()  # rows that are never fitted are held out as they are
    for group in sorted(set(table["group"][fitted])):
        out = table["group"] == group
        other = fit_table(pick(table, fitted & ~out), links)
        held_out[out] = Model(pick(table, out), links).time(other) / table["time"][out] - 1
    return Result(found, table, fitted, held_out, shipped, yardstick(table, fitted))


def profile_values(found, family):
    """The coefficients under their names in KernelProfile (topologies/topology.proto)."""
    return {
        "collective_start": found["start_" + family], "collective_ll": found["ll"],
        "collective_ll128": found["ll128"], "collective_hop": found["hop"],
        "collective_fill": found["fill_" + family], "collective_pair_loss": found["loss_" + family],
        "nvls": found["nvls"], "network_hop": found["network_hop"],
        "network_fill": found["network_fill"], "send": found["send"],
        "send_start": found["send_start"],
    }


SIZES = (("below 1 MiB", 0, MIB), ("1 to 32 MiB", MIB, 32 * MIB),
         ("32 MiB and more", 32 * MIB, 1e15))


def report(result):
    """Markdown: medians of the absolute error by machine and by size, the yardstick beside."""
    def cells(mask):
        if not mask.any():
            return ["0", "", "", "", ""]
        return [str(mask.sum())] + [f"{100 * np.median(np.abs(error[mask])):.1f}%" for error in (
            result.held_out, result.yardstick, result.shipped)] + [
                f"{100 * np.median(result.held_out[mask]):+.1f}%"]
    table, lines = result.table, []
    size = {text: (table["bytes"] >= low) & (table["bytes"] < high) for text, low, high in SIZES}
    lines.append("| rows | size | count | held out | yardstick | shipped | bias |\n" +
                 "|---" * 7 + "|")
    over, sends = table["nodes"] > 1, table["kind"] == "send_recv"
    for text, mask in (("all-reduce in a node", ~over & ~sends), ("send and receive", sends),
                       ("all-reduce between nodes", over)):
        for name, of_size in size.items():
            row = cells(mask & of_size & result.fitted)
            lines.append(f"| {text} | {name} | " + " | ".join(row) + " |")
    lines.append("\n| machine | fitted | size | count | held out | yardstick | shipped | bias |\n" +
                 "|---" * 8 + "|")
    for group in sorted(set(table["group"])):
        mask = table["group"] == group
        for name, of_size in size.items():
            if (mask & of_size).any():
                said = "yes" if result.fitted[mask].all() else "no"
                lines.append(f"| {group} | {said} | {name} | " +
                             " | ".join(cells(mask & of_size)) + " |")
    return "\n".join(lines)
