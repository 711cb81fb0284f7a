"""Public claims about training specifications, each as two scenarios (examples/claims): the gain of
our policies, and the regions between small and large, quiet and failing, slow and fast links in
which the claim holds. The scenarios were written before they were run, and hold no number of a
claim (tidy test). Run by `./dev bench claims`; asserts nothing."""

import functools
import json
import pathlib
import sys

import orrery

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "claims"
FEW = {"h100": 500, "a100": 500, "interval": 30_000}  # steps of a point of a region

#: Change for a region, one at a time; a replica of the H100 pair is four nodes.
BY_SIZE = {f"{32 * data} GPUs": {"job.layout.data": data, "job.global_batch": 16 * data,
                                 "cluster.nodes": 4 * data + 1} for data in (1, 4, 32)}
BY_FAILURES = {f"failures x {scale}": {"failures.scale": scale} for scale in (0.1, 10)}
BY_LINK = {f"NICs of {rate} Gb/s": {"cluster.node.nic_bandwidth": f"{rate} Gbps",
                                    "cluster.fabric.spine_link_bandwidth": f"{rate} Gbps"}
           for rate in (100, 800)}
A100_SIZES = {f"{8 * nodes} GPUs": {"job.layout.data": 8 * nodes, "job.global_batch": 64 * nodes,
                                    "cluster.nodes": nodes} for nodes in (2, 16)}
A100_LINKS = {f"NICs of {rate} Gb/s": {"cluster.node.nic_bandwidth": f"{rate} Gbps"}
              for rate in (50, 400)}
REGIONS = {
    "h100": {**BY_SIZE, **BY_FAILURES, **BY_LINK},
    "a100": {**A100_SIZES, **A100_LINKS, **BY_FAILURES},
    "interval": BY_FAILURES,
    "recovery": BY_LINK,
    "power": {f"cap of {watt} W": {"cluster.node.power_cap": f"{watt} W"}
              for watt in (300, 600)},
}


@functools.cache
def run(pair, when, changes=(), steps=None):
    overrides = dict(changes)
    if when == "before" and pair == "power":
        overrides = {}
    if steps:
        overrides["run.steps"] = steps
    return orrery.simulate(FOLDER / f"{pair}-{when}.yaml", overrides=overrides)


def recovered_s(report):
    """Returns the time from the loss until the first step after it, and the repeated steps."""
    loss = report.failures[0]
    return loss["resumed_s"] - loss["time_s"] + loss["lost_steps"] * report.step_time_s


def waiting(before, _after):
    time = before.gpu_time
    return 100 * (1 - time["computing"] / time["total"])


MEASURES = {
    "waiting": waiting,
    "utilisation": lambda b, a: a.gpu_utilization / b.gpu_utilization,
    "time": lambda b, a: a.elapsed_s / b.elapsed_s,
    "gain": lambda b, a: 100 * (b.elapsed_s / a.elapsed_s - 1),
    "recovery before": lambda b, a: recovered_s(b),
    "recovery after": lambda b, a: recovered_s(a),
    "goodput": lambda b, a: 100 * (a.goodput - b.goodput),
    "energy": lambda b, a: (a.energy_j / a.steps_completed) / (b.energy_j / b.steps_completed),
    "cost": lambda b, a: a.cost_usd / b.cost_usd,
}

#: Keyed by row and place among its claims: true if the measurement reaches the claim.
REACHED = {
    "waiting": lambda value, figures: value >= figures[0],
    "utilisation": lambda value, figures: value >= figures[1] / figures[0],
    "time": lambda value, figures: value <= figures[1] / figures[0],
    "cost": lambda value, figures: value <= figures[1] / figures[0],
    "gain": lambda value, figures: value >= figures[0],
    "recovery before": lambda value, figures: value > 60 * figures[0],
    "recovery after": lambda value, figures: value < figures[0],
    "energy": lambda value, figures: value <= 1 - figures[0] / 100,
}


def verdict(claim, value):
    if not claim["figures"]:
        return "not defined"
    return "reached" if REACHED[claim["measure"]](value, claim["figures"]) else "not reached"


def claimed(claim):
    """The figure in the unit of the measure."""
    figures = claim["figures"]
    if not figures:
        return "no figure"
    if claim["measure"] in ("time", "cost", "utilisation"):
        return f"{figures[1] / figures[0]:.3g}"
    if claim["measure"] == "energy":
        return f"{1 - figures[0] / 100:.2f}"
    if claim["measure"] == "recovery before":
        return f"more than {60 * figures[0]}"
    return " to ".join(str(figure) for figure in figures)


def sizes(claim):
    """The file itself at sizes from one replica to more than is claimed."""
    ran = []
    for data in (1, 16, 320):
        changes = {"job.layout.data": data, "job.global_batch": 16 * data,
                   "cluster.nodes": 4 * data + 1}
        report = run("h100", "after", tuple(changes.items()), 300)
        ran.append(f"{report.ranks} GPUs: {report.tokens_per_s / 1e6:.3g} M tokens/s")
    print(f"| {claim['row']} | {claim['says']} | {claim['figures'][0]} | {'; '.join(ran)} | "
          f"from 32 GPUs on | {claim['hangs_on']} |")


#: Steps from the H100 pair's before to its after, each on top of those above.
STEPS = {
    "communication is hidden": {"job.overlap": "true", "job.overlaps.tensor": 0.7,
                                "job.overlaps.parameters": "true",
                                "job.overlaps.pipeline": "true"},
    "no layer is computed again": {"job.recompute": "none"},
    "losses are noticed, and got over, as published": {
        "survival.detection": "5600 ms", "survival.regroup": "5 s", "survival.restart": "4 min",
        "survival.replacement": "60 s"},
    "checkpoints are written beside the training": {"checkpoints.stall": "500 ms",
                                                    "checkpoints.write": "50 s"},
}
POLICIES = json.loads("""[
  {"name": "predictive-rebalance"},
  {"name": "cheapest-goodput", "parameters":
    {"replacement": "60 s", "restart": "4 min", "regroup": "5 s", "repair": "6 h"}},
  {"name": "checkpoint-interval", "parameters": {"method": "adaptive", "mtbf": "1 d"}}]""")


def who_brings_what(_claims):
    """Prints, for rows 3, 4 and 19, the gain of each step and of each policy."""
    print("\n| H100, step by step | days | utilisation | goodput |\n|---|---:|---:|---:|")
    changes = {}
    for name, more in {"before": {}, **STEPS}.items():
        changes |= more
        tell(name, orrery.simulate(FOLDER / "h100-before.yaml", overrides=changes))
    restart = {"name": "recover", "parameters": {"how": "restart"}}
    cheapest, interval = POLICIES[1:]
    for name, policies in {"checkpoint-interval": [restart, interval],
                           "cheapest-goodput": [cheapest, interval],
                           "predictive-rebalance": POLICIES}.items():
        tell(f"`{name}`", orrery.simulate(FOLDER / "h100-before.yaml", overrides=changes,
                                          policies=policies))


def tell(name, report):
    print(f"| {name} | {report.elapsed_s / 86_400:.2f} | {report.gpu_utilization:.3f} | "
          f"{report.goodput:.3f} |", flush=True)


def points(claim):
    """Prints the regions in which a claim was tried, and the results."""
    pair = claim["pair"]
    steps = FEW.get(pair)
    for name, changes in REGIONS[pair].items():
        changed = tuple(changes.items())
        value = MEASURES[claim["measure"]](run(pair, "before", changed, steps),
                                           run(pair, "after", changed, steps))
        yield name, value, verdict(claim, value)


def verdicts(claims):
    print("| row | claim | claimed | ours | verdict | hangs on |\n|---|---|---:|---:|---|---|")
    for claim in claims:
        if claim["measure"] == "sizes":
            sizes(claim)
            continue
        value = MEASURES[claim["measure"]](run(claim["pair"], "before"),
                                           run(claim["pair"], "after"))
        print(f"| {claim['row']} | {claim['says']} | {claimed(claim)} | "
              f"{value:.3g} {claim['unit']} | {verdict(claim, value)} | {claim['hangs_on']} |",
              flush=True)


def regions(claims):
    print("\n| row | claimed | measured where | reached |\n|---|---:|---|---|")
    for claim in claims:
        if claim["measure"] == "sizes":
            continue
        tried = list(points(claim))
        all_of_them = "; ".join(f"{name}: {value:.3g}" for name, value, _ in tried)
        where = "; ".join(name for name, _, found in tried if found == "reached")
        print(f"| {claim['row']} | {claimed(claim)} {claim['unit']} | {all_of_them} | "
              f"{where or 'nowhere'} |", flush=True)


def main():
    """All of it, or the parts that are named."""
    claims = json.loads((FOLDER / "claims.json").read_text(encoding="utf-8"))
    parts = {"verdicts": verdicts, "steps": who_brings_what, "regions": regions}
    for name, part in parts.items():
        if not sys.argv[1:] or name in sys.argv[1:]:
            part(claims)


if __name__ == "__main__":
    main()
