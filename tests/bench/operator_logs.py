"""Synthetic logs of an operator: one training job for a year, whose failures are drawn from rates,
recovery shapes, unreliable nodes and sizes that are drawn too. Written as sacct, Kubernetes events
or a CSV of incidents. Used by fit_bench.py and by the tests of `orrery fit failures`; knows nothing
of the program."""

import dataclasses
import datetime
import json
import math
import random

DAY_S = 86_400
YEAR_S = 365 * DAY_S
FORMATS = ("csv", "sacct", "kubernetes")
BEGIN = datetime.datetime(2025, 1, 1)
GPUS = 8
#: Causes with the part that fails, the effect on the job, the state in sacct, and the warning.
CAUSES = {
    "power": ("node", "down", "NODE_FAIL", "NodeNotReady"),
    "ecc": ("gpu", "down", "NODE_FAIL", "XidError"),
    "nic": ("node", "down", "NODE_FAIL", "NetworkUnavailable"),
    "crash": ("job", "kill", "FAILED", "Error"),
    "memory": ("job", "kill", "OUT_OF_MEMORY", "OOMKilling"),
    "hang": ("job", "stop", "TIMEOUT", "Unhealthy"),
}


@dataclasses.dataclass
class Failure:
    """One failure; seconds since the begin of the log."""

    at: float
    cause: str
    node: int
    gpu: int
    down: float
    detection: float
    repair: float

    @property
    def part(self):
        return CAUSES[self.cause][0]


@dataclasses.dataclass
class Log:
    """One year of a job."""

    nodes: int
    failures: list
    lemons: set

    def goodput(self, begin, end):
        """Share of the time from begin to end in which the job worked."""
        down = sum(max(0, min(each.at + each.down, end) - max(each.at, begin))
                   for each in self.failures)
        return 1 - down / (end - begin)


def recovery_shape(rng):
    """Returns a function that draws recovery times of one shape, in seconds."""
    shape = rng.choice(["fixed", "log-normal", "weibull", "people"])
    middle = math.exp(rng.uniform(math.log(120), math.log(7200)))
    if shape == "fixed":
        return lambda: middle * rng.uniform(0.98, 1.02)
    if shape == "log-normal":
        sigma = rng.uniform(0.3, 1.4)
        return lambda: middle * math.exp(sigma * rng.gauss(0, 1))
    if shape == "weibull":
        power = rng.uniform(0.6, 2.5)
        return lambda: rng.weibullvariate(middle, power)
    share, night = rng.uniform(0.03, 0.2), rng.uniform(1, 12) * 3600

    def automatic_or_people():
        if rng.random() < share:
            return night * math.exp(0.8 * rng.gauss(0, 1))
        return middle * math.exp(0.4 * rng.gauss(0, 1))

    return automatic_or_people


def drawn_log(seed):
    """Returns the log of a seed: 60 to 1,500 failures in a year on 8 to 512 nodes."""
    rng = random.Random(seed)
    nodes = round(math.exp(rng.uniform(math.log(8), math.log(512))))
    names = rng.sample(sorted(CAUSES), rng.randint(2, 5))
    weights = [rng.random() + 0.1 for _ in names]
    shapes = {name: recovery_shape(rng) for name in names}
    per_year = math.exp(rng.uniform(math.log(60), math.log(1500)))
    lemons, times = set(), 1.0
    if rng.random() < 0.5:
        times = rng.uniform(5, 30)
        lemons = set(rng.sample(range(nodes), max(1, round(nodes * rng.uniform(0.01, 0.05)))))
    by_node = [times if node in lemons else 1 for node in range(nodes)]
    failures, at = [], 0.0
    while True:
        at += rng.expovariate(per_year / YEAR_S)
        name = rng.choices(names, weights)[0]
        down = max(2.0, shapes[name]())
        if at + down >= YEAR_S:
            return Log(nodes, failures, lemons)
        node = rng.choices(range(nodes), by_node)[0]
        failures.append(Failure(at, name, node, rng.randrange(GPUS), down,
                                min(down / 2, rng.uniform(5, 60)), down * rng.uniform(1, 20)))
        at += down


def clock(seconds):
    return (BEGIN + datetime.timedelta(seconds=round(seconds))).isoformat()


def csv_text(log):
    """A CSV as `failures.trace` reads it, with the job's own times."""
    rows = ["time_s,cause,part,index,effect,rate,lasts_s,detection_s,restart_s"]
    for each in log.failures:
        part, effect, *_ = CAUSES[each.cause]
        index = each.node * GPUS + each.gpu if part == "gpu" else each.node
        lasts = f"{each.repair:.1f}" if part != "job" else ""
        rows.append(f"{each.at:.1f},{each.cause},{'rank' if part == 'job' else part},{index},"
                    f"{effect},,{lasts},{each.detection:.1f},{each.down - each.detection:.1f}")
    return "\n".join(rows) + "\n"


def sacct_text(log):
    """Output of sacct -D -X -P: a row for each run of the job, and a small other job."""
    rows = ["JobID|JobName|User|State|Start|End|NNodes|FailedNode",
            f"7|eval|bob|COMPLETED|{clock(60)}|{clock(4000)}|1|None"]
    start = 0.0
    for each in log.failures:
        state = CAUSES[each.cause][2]
        failed = f"gpu{each.node:04d}" if state == "NODE_FAIL" else "None"
        rows.append(f"1000|llm|ann|{state}|{clock(start)}|{clock(each.at)}|{log.nodes}|{failed}")
        start = each.at + each.down
    rows.append(f"1000|llm|ann|CANCELLED by 1000|{clock(start)}|{clock(YEAR_S)}|{log.nodes}|None")
    return "\n".join(rows) + "\n"


def event(seconds, kind, name, reason, level="Normal"):
    about = {"kind": kind, "name": name}
    if kind != "Node":
        about["namespace"] = "train"
    return {"kind": "Event", "type": level, "reason": reason, "involvedObject": about,
            "firstTimestamp": clock(seconds) + "Z"}


def kubernetes_text(log):
    """Output of kubectl get events -A -o json, as a collector keeps it for a year."""
    events = [(0, event(0, "PyTorchJob", "llm", "PyTorchJobRunning"))]
    for each in log.failures:
        part, _, _, warning = CAUSES[each.cause]
        kind, name = ("Pod", "llm-worker-0") if part == "job" else ("Node", f"gpu{each.node:04d}")
        known, back = each.at + each.detection, each.at + each.down
        events += [
            (each.at, event(each.at, kind, name, warning, "Warning")),
            (known, event(known, "PyTorchJob", "llm", "PyTorchJobRestarting", "Warning")),
            (back, event(back, "PyTorchJob", "llm", "PyTorchJobRunning")),
        ]
        if part == "node":
            ready = min(YEAR_S, each.at + each.repair)
            events.append((ready, event(ready, "Node", name, "NodeReady")))
    events.append((YEAR_S, event(YEAR_S, "PyTorchJob", "llm", "PyTorchJobSucceeded")))
    events.sort(key=lambda item: item[0])
    return json.dumps({"apiVersion": "v1", "kind": "List",
                       "items": [item for _, item in events]}, indent=1)


def write_log(log, form, folder):
    """Writes the log in a format of FORMATS and returns its path."""
    writers = {"csv": (csv_text, "incidents.csv"), "sacct": (sacct_text, "sacct.txt"),
               "kubernetes": (kubernetes_text, "events.json")}
    writer, name = writers[form]
    path = folder / name
    path.write_text(writer(log))
    return path
