"""Fits the collectives' coefficients: protocols, starts and pipelines of protocols.cpp
in sim/estimates/collectives, and the intervals of single collectives.

A part of fit_components.py, which calls fit_collectives() and writes what it returns. A row of
collectives.csv or of collectives-2026.csv.gz becomes the time of the fastest algorithm and protocol
on a machine as its source describes it; the formulas are those of sim/estimates/collectives on
links that carry nothing else. One fit over all machines: coefficients of a GPU family by family,
those of the network in common, and one start a source, because sources time a call with its launch
or without. The start that ships lies between those of a family's sources.
"""

import collections

import numpy as np
from scipy.optimize import least_squares

MIB = 2.0**20
NVLINK_LATENCY, NIC_LATENCY = 1e-6, 2e-6  # defaults of topologies/topology.proto
SMALLEST = 1024.0  # bytes; below, a time says the same as at this size
FEWEST_SMALL = 5  # rows below 1 MiB that a source needs for a start of its own

# `nvlink` is one direction of all links of a GPU, `nics` those of a node.
Machine = collections.namedtuple("Machine", "family nvlink nics nic nvls")
A100, P4 = Machine("A100", 300e9, 8, 25e9, False), Machine("A100", 300e9, 4, 12.5e9, False)
H100 = Machine("H100", 450e9, 8, 50e9, True)
B200, B300 = Machine("B200", 900e9, 8, 50e9, True), Machine("B200", 900e9, 8, 100e9, True)
GB200, GB300 = Machine("B200", 900e9, 4, 50e9, True), Machine("B200", 900e9, 4, 100e9, True)
MI300X = Machine("MI300X", 448e9, 8, 50e9, False)
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
    ("aic_nccl", "A100"): A100, ("aic_nccl", "H100"): H100, ("aic_nccl", "H200"): H100,
    ("aic_nccl", "B200"): B200, ("aic_nccl", "B300"): B300, ("aic_nccl", "GB20"): GB200,
    ("aic_nccl", "GB30"): GB300, ("coreweave_nccl", "H100"): H100,
    ("coreweave_nccl", "GB20"): GB200, ("rccl_mi300x_1n", "MI30"): MI300X,
    ("dranet_b200_2n", "B200"): Machine("B200", 900e9, 1, 50e9, True),
}
# GPUs of one NVLink domain where a domain is more than a node.
DOMAIN = {("coreweave_nccl", "GB20"): 72}
# Rows that are predicted but never fitted: the reporter calls the machine slow, or the software is
# an older release of another row's, or (20 racks) no statement says how they are linked.
NOT_FITTED = ("aws_p4d_issue527 A100", "aws_p5_2n_eks H100", "coreweave_nccl GB200, 20 racks")
SHARE_ALIKE = "mleng_"
FAMILIES = ("A100", "H100", "B200", "MI300X")
# Amazon's fabric by generation: the latency from NIC to NIC is fitted.
EFA = {"aws_p4": "efa_p4", "aws_p5": "efa_p5", "mleng_b200_4n": "efa_p5"}

# name -> (lowest, highest, start of the search and mean of its prior), for every family. Shares
# (ring, direct, nvls) are of the data sheet's NVLink.
OF_FAMILY = {
    "round": (0.3, 3, 1), "nvls_fill": (1e-8, 1e-4, 1e-6), "loss": (1e-3, 0.9, 0.2),
    "half_loss": (1e-3, 0.9, 0.4), "fill": (1e-8, 1e-4, 1e-6), "ll": (0.2, 0.6, 0.34),
    "ll128": (0.25, 1, 0.45), "hop": (0.01, 5, 0.4), "ring": (0.55, 0.9, 0.77),
    "nvls": (0.48, 1, 0.6), "direct": (0.3, 1, 0.72),
}  # fmt: skip
IN_COMMON = {
    "net_loss": (1e-3, 0.6, 0.2), "network_hop": (0.05, 10, 0.3), "network_fill": (1e-3, 10, 0.5),
    "send": (0.3, 1, 0.85), "send_start": (1e-7, 1e-4, 6e-6), "efa_p4": (1e-6, 3e-4, 5e-5),
    "efa_p5": (1e-6, 2e-4, 2e-5),
}  # fmt: skip
START = (1e-7, 6e-5, 1.5e-5)
PRIOR = 0.02  # weight of a coefficient's logarithm against its prior's mean
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
    # A source that prints both places: the one out of place, like the others.
    return None if row["place"] == "in" and row["source_key"] == "coreweave_nccl" else machine


def measured_time(row):
    if row["time_us"]:
        return float(row["time_us"]) * 1e-6
    n = float(row["ranks"])
    over = {"all_reduce": 2 * (n - 1) / n, "send_recv": 1}.get(row["collective"], (n - 1) / n)
    return float(row["size_bytes"]) * over / (float(row["busbw_GBs"]) * 1e9)


def group_of(row):
    """A source on one GPU model, as the pages name it."""
    name = f"{row['source_key']} {row['gpu'].split('-')[0].split(' ')[0]}"
    return name + (", 20 racks" if name.startswith("coreweave") and row["ranks"] == "1440" else "")


def domains_of(row):
    """NVLink domains of a row's GPUs, and nodes in each of them."""
    nodes, ranks = float(row["nodes"]), float(row["ranks"])
    size = DOMAIN.get((row["source_key"], row["gpu"][:4]))
    domains = max(1.0, ranks / size) if size else nodes
    return domains, nodes / domains


def collective_table(all_rows):
    """Columns by name, one entry a usable row."""
    table = collections.defaultdict(list)
    for row in all_rows:
        machine = usable(row)
        if machine is None:
            continue
        domains, nodes_each = domains_of(row)
        for name, value in machine._replace(nics=machine.nics * nodes_each)._asdict().items():
            table[name].append(value)
        table["nvls"][-1] &= row["algo_note"] not in ("Ring", "Ring (NVLS off)")
        table["group"].append(group_of(row))
        table["kind"].append(row["collective"])
        table["ranks"].append(float(row["ranks"]))
        table["nodes"].append(domains)
        table["bytes"].append(float(row["size_bytes"]))
        table["time"].append(measured_time(row))
        table["efa"].append(next((name for of, name in EFA.items()
                                  if row["source_key"].startswith(of)), ""))
    small = collections.Counter(g for g, b in zip(table["group"], table["bytes"]) if b < MIB)
    table["start"] = [g if small[g] >= FEWEST_SMALL else "others on " + f
                      for g, f in zip(table["group"], table["family"])]
    return {name: np.array(column) for name, column in table.items()}


def pick(table, mask):
    return {name: column[mask] for name, column in table.items()}


# A way to execute a collective: rows that it serves, rounds and loads inside and between domains,
# the share of NVLink, the rounds of its protocols, the fill of its pipeline, and these protocols.
Way = collections.namedtuple("Way", "serves rounds loads share table fill protocols")


class Model:
    """Times of a table's rows; `links` holds the share of the network by family."""

    def __init__(self, table, links):
        self.t = table
        self.family = np.array([FAMILIES.index(name) for name in table["family"]])
        share = np.array([links[name]["network"] for name in FAMILIES])[self.family]
        self.network = table["nics"] * table["nic"] * share
        self.over = table["nodes"] > 1
        self.each = table["ranks"] / table["nodes"]

    def of_family(self, c, name):
        return np.array([c[f"{name}_{family}"] for family in FAMILIES])[self.family]

    def few(self, loss):
        """The share of the rate that fewer than 8 GPUs of a domain reach."""
        return (1 - loss / np.minimum(self.each, 8)) / (1 - loss / 8)

    def ways(self, c):
        n, m, k, kind = self.t["ranks"], self.t["nodes"], self.each, self.t["kind"]
        reduces, sends, swaps = (kind == name for name in ("all_reduce", "send_recv", "all_to_all"))
        of = lambda name: self.of_family(c, name)  # noqa: E731
        few = self.few(np.where(reduces, of("loss"), of("half_loss")))
        passes = np.where(reduces, 2, 1)
        height = np.where(self.over, np.ceil(np.log2(m)), 0)
        halves = np.where(m == 2, 1, np.where(m == 3, 1.5, 2))
        far = np.where(self.over, passes * (n - 1) * m / n, 0)
        zero, one = 0 * k, 1 + 0 * k
        within = passes * (n - 1) / n
        ring_loads = (within * np.where(self.over, (k - 1) / k, 1), within)
        return (
            Way(~sends & ~swaps, (passes * (n - 1) - far, far), ring_loads, few * of("ring"), RING,
                of("fill"), RING),
            Way(reduces & self.over, (2 * (k - 1), 2 * height), (2 * (k - 1) / k, halves),
                few * of("ring"), TREE, of("fill"), RING),
            Way(reduces & self.t["nvls"] & (k > 1), (2 * one, 2 * height), (1 + 1 / k, halves),
                few * of("nvls"), TREE, of("nvls_fill"), ("simple",)),
            Way(swaps & ~self.over, (one, zero), ((n - 1) / n, zero), few * of("direct"), RING,
                of("fill"), RING),
            # Two GPUs of a domain exchange data at one rate: no pipeline has to be filled.
            Way(sends, (1 - 1.0 * self.over, 1.0 * self.over), (one, one), c["send"] * one, RING,
                zero, ("simple",)),
        )

    def seconds_of(self, c, way, protocol):
        """Seconds of one way by one protocol, without the start."""
        near, far = way.table[protocol]
        nic = NIC_LATENCY + sum(np.where(self.t["efa"] == name, c[name] - NIC_LATENCY, 0)
                                for name in sorted(set(EFA.values())))
        latency = (way.rounds[0] * (NVLINK_LATENCY * self.of_family(c, "round") +
                                    self.of_family(c, "hop") * near) +
                   way.rounds[1] * (nic + c["network_hop"] * far))
        network = self.network * self.few(c["net_loss"])
        outside = np.where(self.over, way.loads[1] / network, 0)
        transfer = self.t["bytes"] * np.maximum(way.loads[0] / (self.t["nvlink"] * way.share),
                                                outside)
        if protocol != "simple":
            return latency + transfer / self.of_family(c, protocol)
        far_time = way.rounds[1] * (nic + c["network_hop"] * way.table["simple"][1])
        fill = np.where(way.rounds[1] > 0, c["network_fill"] * far_time, way.fill)
        return latency + transfer + 2 * np.sqrt(transfer * fill)

    def without_start(self, c):
        best = np.full(len(self.each), np.inf)
        for way in self.ways(c):
            for protocol in way.protocols:
                time = self.seconds_of(c, way, protocol)
                best = np.where(way.serves, np.minimum(best, time), best)
        return best

    def start(self, c, own):
        """The start of each row: its source's own, or the one that ships."""
        if own:
            start = np.array([c["start " + name] for name in self.t["start"]])
        else:
            start = self.of_family(c, "start")
        return np.where(self.t["kind"] == "send_recv", c["send_start"], start)

    def time(self, c, own=False):
        return self.without_start(c) + self.start(c, own)


def bounds_of(table):
    """name -> (lowest, highest, mean of the prior) of all coefficients of a fit to a table."""
    bounds = {f"{name}_{family}": b for family in FAMILIES for name, b in OF_FAMILY.items()}
    bounds.update(IN_COMMON)
    bounds.update({"start " + name: START for name in sorted(set(table["start"]))})
    return bounds


def weights(table):
    """Every source on a family weighs the same in each class of sizes, however many rows it has."""
    size = np.digitize(table["bytes"], [MIB, 32 * MIB])
    keys = [(g.split()[0], f, s) for g, f, s in zip(table["group"], table["family"], size)]
    count = collections.Counter(keys)
    return np.array([count[key] ** -0.5 for key in keys])


def fit_table(table, links, begin=None, most=80):
    """Robust least squares over log time. `begin`: coefficients to start from."""
    model, bounds, weight = Model(table, links), bounds_of(table), weights(table)
    names = list(bounds)
    low, high, mean = np.log([bounds[name] for name in names]).T
    prior = np.array([0 if name.startswith("start") else PRIOR for name in names])
    first = mean if begin is None else np.clip(
        np.log([begin.get(name, bounds[name][2]) for name in names]), low + 1e-6, high - 1e-6)

    def residuals(logs):
        c = dict(zip(names, np.exp(logs)))
        return np.concatenate([weight * np.log(model.time(c, own=True) / table["time"]),
                               prior * (logs - mean)])

    found = least_squares(residuals, first, bounds=(low, high), loss="soft_l1", f_scale=0.05,
                          max_nfev=most)
    return with_starts(dict(zip(names, (float(v) for v in np.exp(found.x)))), model)


def start_spans(c, model):
    """The lowest and the highest start that a family's small messages in a node imply: of each
    source the middle 60% of its rows, of a family the lowest and the highest of its sources."""
    table = model.t
    implied = table["time"] - model.without_start(c)
    small = (table["nodes"] == 1) & (table["bytes"] < MIB) & (table["kind"] != "send_recv")
    spans = {}
    for family in FAMILIES:
        mine = small & (table["family"] == family)
        starts = [implied[mine & (table["start"] == name)] for name in set(table["start"][mine])
                  if not name.startswith("others")]
        if starts:
            spans[family] = (max(1e-7, min(np.quantile(s, 0.2) for s in starts)),
                             max(np.quantile(s, 0.8) for s in starts))
    return spans


def with_starts(c, model):
    """Adds the starts that ship, and the lowest and the highest of a source in a node. The one of
    several sources is their geometric mean. A family of one source does not show how far sources
    differ: it takes the differences of the families that do, a third of them below. `widen_low`
    and `widen_high`: how far a source lay outside the span of the others."""
    table = model.t
    inside = table["nodes"] == 1
    spans = start_spans(c, model)
    found = {}
    for family in FAMILIES:
        names = sorted(set(table["start"][inside & (table["family"] == family)]))
        # GPUs of one source are one sample of how a source times a call.
        by_source = collections.defaultdict(list)
        for name in names:
            if not name.startswith("others"):
                by_source[name.split()[0]].append(c["start " + name])
        found[family] = [float(np.mean(values)) for values in by_source.values()]
    several = [starts for starts in found.values() if len(starts) > 1]
    below = float(np.mean([np.sqrt(min(s) * max(s)) - min(s) for s in several])) / 3
    above = float(np.mean([max(s) - np.sqrt(min(s) * max(s)) for s in several]))
    c["widen_low"] = max(sorted(s)[1] / min(s) for s in several)
    c["widen_high"] = max(max(s) / sorted(s)[-2] for s in several)
    for family, starts in found.items():
        lone = len(starts) < 2
        low, high = spans.get(family, (START[2], START[2]))
        first = min(starts) if starts else START[2]
        start = first + below if lone else np.sqrt(first * max(starts))
        low, high = min(low, start), max(high, start + above if lone else start)
        c.update({f"start_{family}": float(start), f"start_low_{family}": float(low),
                  f"start_high_{family}": float(high)})
    return c


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


def distances(model, c):
    """Logarithms of measured time over the interval that the starts of sources span, as they are
    (80%) and widened (95%): 0 inside."""
    bare, t = model.without_start(c), model.t
    sends = t["kind"] == "send_recv"
    found = []
    for below, above in ((1, 1), (c["widen_low"], c["widen_high"])):
        low = bare + np.where(sends, c["send_start"], model.of_family(c, "start_low") / below)
        high = bare + np.where(sends, c["send_start"], model.of_family(c, "start_high") * above)
        found.append(np.where(t["time"] < low, np.log(t["time"] / low),
                              np.where(t["time"] > high, np.log(t["time"] / high), 0)))
    return np.array(found)


def weighted_quantile(values, weight, share):
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order]) / weight.sum()
    return float(values[order][min(np.searchsorted(reached, share), len(values) - 1)])


def spreads(table, left_out):
    """Both sides of the 80% and the 95% interval beyond the span of starts, within a domain and
    between domains: quantiles of held-out distances from 1 MiB on, where rates decide; every
    source has the same weight."""
    found = {}
    for name, over in (("near", False), ("far", True)):
        mask = ((table["nodes"] > 1) == over) & (table["bytes"] >= MIB)
        count = collections.Counter(table["group"][mask])
        weight = np.array([1 / count[group] for group in table["group"][mask]])
        sides = [weighted_quantile(sign * values[mask], weight, share)
                 for values, share in zip(left_out, (0.9, 0.975)) for sign in (-1, 1)]
        found[name] = [max(0.02, side) for side in sides]
    return found


Result = collections.namedtuple("Result",
                                "found table fitted held_out shipped yardstick spreads covered")


def covered(table, left_out, sides):
    """Whether the 80% and the 95% interval made without a row's source contain its time."""
    near = table["nodes"] == 1
    b80, a80, b95, a95 = (np.where(near, n, f) for n, f in zip(sides["near"], sides["far"]))
    return ((-b80 <= left_out[0]) & (left_out[0] <= a80),
            (-b95 <= left_out[1]) & (left_out[1] <= a95))


def fit_collectives(all_rows, links):
    """Coefficients of the fit to all fitted rows, and errors of all rows with their source out."""
    table = collective_table(all_rows)
    share_alike = np.char.startswith(table["group"], SHARE_ALIKE)
    fitted = ~share_alike & ~np.isin(table["group"], NOT_FITTED)
    found = fit_table(pick(table, fitted), links)
    model = Model(table, links)
    shipped = model.time(found) / table["time"] - 1
    held_out = shipped.copy()  # rows that are never fitted are held out as they are
    left_out = distances(model, found)
    source = np.array([group.split()[0] for group in table["group"]])
    for name in sorted(set(source[fitted])):
        out = source == name
        other = fit_table(pick(table, fitted & ~out), links, found, most=12)
        part = Model(pick(table, out), links)
        held_out[out] = part.time(other) / table["time"][out] - 1
        left_out[:, out] = distances(part, other)
    sides = spreads(pick(table, fitted), left_out[:, fitted])
    return Result(found, table, fitted, held_out, shipped, yardstick(table, fitted), sides,
                  covered(table, left_out, sides))


def profile_values(found, family):
    """The coefficients under their names in KernelProfile (topologies/topology.proto)."""
    values = {
        "collective_start": "start", "collective_start_low": "start_low",
        "collective_start_high": "start_high", "collective_ll": "ll", "collective_ll128": "ll128",
        "collective_hop": "hop", "collective_round": "round", "collective_fill": "fill",
        "collective_nvls_fill": "nvls_fill", "collective_ring": "ring",
        "collective_direct": "direct", "collective_pair_loss": "loss",
        "collective_half_loss": "half_loss", "nvls": "nvls",
    }  # fmt: skip
    common = {"network_hop": "network_hop", "network_fill": "network_fill",
              "network_pair_loss": "net_loss", "send": "send", "send_start": "send_start"}
    return {**{name: found[f"{of}_{family}"] for name, of in values.items()},
            **{name: found[of] for name, of in common.items()}}


SIZES = (("below 1 MiB", 0, MIB), ("1 to 32 MiB", MIB, 32 * MIB),
         ("32 MiB and more", 32 * MIB, 1e15))


def report(result):
    """Markdown: medians of the absolute error by machine and by size, the yardstick beside, and the
    coverage of intervals made without the source."""
    def cells(mask):
        if not mask.any():
            return ["0"] + [""] * 6
        return ([str(mask.sum())] + [f"{100 * np.median(np.abs(error[mask])):.1f}%" for error in (
            result.held_out, result.yardstick, result.shipped)] +
                [f"{100 * np.median(result.held_out[mask]):+.1f}%"] +
                [f"{inside[mask].mean():.0%}" for inside in result.covered])
    table, lines = result.table, []
    size = {text: (table["bytes"] >= low) & (table["bytes"] < high) for text, low, high in SIZES}
    head = "size | count | held out | yardstick | shipped | bias | 80% | 95% |\n"
    lines.append("| rows | " + head + "|---" * 9 + "|")
    over, sends = table["nodes"] > 1, table["kind"] == "send_recv"
    reduces = table["kind"] == "all_reduce"
    for text, mask in (("all-reduce in a domain", ~over & reduces), ("send and receive", sends),
                       ("others in a domain", ~over & ~sends & ~reduces),
                       ("all-reduce between domains", over & reduces)):
        for name, of_size in size.items():
            row = cells(mask & of_size & result.fitted)
            lines.append(f"| {text} | {name} | " + " | ".join(row) + " |")
    lines.append("\n| machine | fitted | " + head + "|---" * 10 + "|")
    for group in sorted(set(table["group"])):
        mask = table["group"] == group
        for name, of_size in size.items():
            if (mask & of_size).any():
                said = "yes" if result.fitted[mask].all() else "no"
                lines.append(f"| {group} | {said} | {name} | " +
                             " | ".join(cells(mask & of_size)) + " |")
    return "\n".join(lines)
