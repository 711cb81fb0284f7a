"""Pairs of runs whose order is certain: a run with more hardware is not slower than the same run
with less, and a run with more work is not faster. Draws pairs from the measured runs, predicts
both, and prints a table of the changes; standard error lists the worst pairs out of order.

    python3 python/calibration/monotone.py                  10,000 random pairs
    python3 python/calibration/monotone.py --count 500 --seed 2
    python3 python/calibration/monotone.py --count 0        all pairs, about 52,000
    python3 python/calibration/monotone.py --count 0 --seq-len 16384    all of long sequences

Exit code 1: a pair is out of order by more than its change allows."""

import argparse
import re
import sys

import numpy as np
import runs

#: Share of a step by which a pair may be out of order. Gradients are exchanged in whole buckets:
#: with one bucket fewer, less of the exchange may be hidden.
BUCKETS = 1e-3
#: Each further chunk sends its activations once more, which can cost more than the shorter bubble.
CHUNKS = 1e-2

#: Pairs of GPUs as tables name them; the second is at least as good as the first in every figure
#: of topologies/catalog/gpus.yaml.
BETTER_GPU = (
    ("A800-SXM4-80GB", "A100-SXM4-80GB"),
    ("A100-SXM4-40GB", "A100-SXM4-80GB"),
    ("H800-SXM5-80GB", "H100-SXM5-80GB"),
    ("H100-SXM5-80GB", "H200-SXM-141GB"),
    ("H200-SXM-141GB", "B200-SXM-180GB"),
    ("H100-SXM5-80GB", "B200-SXM-180GB"),
    ("H200-SXM-141GB", "B300-SXM"),
    ("H100-SXM5-80GB", "GB200"),
    ("H200-SXM-141GB", "GB300"),
    ("B200-SXM-180GB", "B300-SXM"),
    ("B200-SXM-180GB", "GB200"),
    ("GB200", "GB300"),
)


def changed(row, **cells):
    return {**row, **{name: str(value) for name, value in cells.items()}}


def doubled(row, *names):
    """The row with its counts doubled; None if it has none of one of them."""
    if not all(row.get(name) for name in names):
        return None
    return changed(row, **{name: 2 * int(float(row[name])) for name in names})


def complete(row):
    """The row with the hardware stated that a table may leave open, so that a change of one value
    changes no other."""
    per_node = row["gpus_per_node"] or ("4" if row["gpu"].startswith("GB") else "8")
    stated = row["nic_gbps"] and row["nics_per_node"]
    nics = {} if stated else {"nics_per_node": per_node, "nic_gbps": "400"}
    return changed(row, gpus_per_node=per_node, grad_accum="", **nics)


def stated(rows):
    """The rows with what a prediction assumed from the free memory stated: recomputation, and the
    ranks that share one copy. Otherwise a change of one value would change two."""
    return [settled(row, p["reason"].split("assumed: ")[-1]) for row, p in zip(rows, priced(rows))]


def settled(row, assumed):
    recompute = re.search(r"recompute (none|selective|full)", assumed)
    group = re.search(r"shard group (\d+)", assumed)
    cells = {"recompute": recompute[1]} if recompute else {}
    return changed(row, **cells, **({"dp_shard": f"FSDP shard {group[0][6:]}"} if group else {}))


def more_nic(row):
    return [(row, changed(row, nic_gbps=2 * int(row["nic_gbps"])))]


def more_nvlink(row):
    both = re.search(r"(\d+)GB/s", row["nvlink"])
    if not both or not row["nvlink"].startswith("NVLink"):
        return []
    more = row["nvlink"].replace(both[0], f"{3 * int(both[1]) // 2}GB/s")
    return [(row, changed(row, nvlink=more))]


def more_memory(row):
    if not row["gpu_mem_gb"]:
        return []
    return [(row, changed(row, gpu_mem_gb=2 * int(float(row["gpu_mem_gb"]))))]


def better_gpu(row):
    """The row on each pair of GPUs, in nodes alike: with the row's NVLink and with that of the
    data sheet, and no domain beyond the node."""
    link = row["nvlink"] if row["nvlink"].endswith("bidir") else ""
    alike = changed(row, gpu_mem_gb="", fabric="")
    return [(changed(alike, gpu=one, nvlink=words), changed(alike, gpu=better, nvlink=words))
            for one, better in BETTER_GPU for words in {link, ""}
            if not (better.startswith("GB") and not one.startswith("GB"))]  # fmt: skip


def more_work(*names):
    def pairs(row):
        more = doubled(row, *names)
        return [(more, row)] if more else []

    return pairs


def more_replicas(row):
    """Keeps all state on every rank: a sharded update is less work on more replicas."""
    return more_work("n_gpus", "dp", "gbs")(changed(row, dp_shard="none"))


def fewer_chunks(row):
    """Needs chunks of equally many layers: unequal chunks wait for the largest."""
    chunks, stages = int(row["vpp"] or 1), int(row["pp"] or 1)
    if int(row["layers"] or 1) % (chunks * stages) != 0:
        return []
    return [(changed(row, vpp=few), row) for few in range(1, chunks) if chunks % few == 0]


#: Changes: the name, and a function from a row to its pairs (slower or equal, faster or equal).
CHANGES = {
    "NICs twice as fast": more_nic,
    "NVLink half as fast again": more_nvlink,
    "twice the memory": more_memory,
    "a better GPU": better_gpu,
    "twice the layers": more_work("layers"),
    "twice the sequence": more_work("seq_len"),
    "twice the batch": more_work("gbs"),
    "twice the experts": more_work("moe_experts"),
    "twice the experts of a token": more_work("moe_topk"),
    "twice the replicas and batch": more_replicas,
    "fewer pipeline chunks": fewer_chunks,
}


def all_pairs(shortest=0):
    """The pairs of all rows with sequences of at least `shortest` tokens."""
    tables = runs.open_rows() + runs.measured_rows() + runs.sweep_rows()
    long = [row for row in tables if float(row["seq_len"] or 0) >= shortest]
    for row in stated([complete(row) for row in long]):
        for change, pairs in CHANGES.items():
            for slow, fast in pairs(row):
                yield change, slow, fast


def priced(rows):
    names = dict.fromkeys(name for row in rows for name in row)
    return runs.predict([{name: row.get(name, "") for name in names} for row in rows])


def drawn(count, seed, shortest):
    pairs = list(all_pairs(shortest))
    if not 0 < count < len(pairs):
        return pairs
    chosen = np.random.default_rng(seed).choice(len(pairs), count, replace=False)
    return [pairs[i] for i in chosen]


def gains(pairs):
    """The change, the share by which the run that should be slower is faster, and the pair, of each
    pair whose two runs are both predicted."""
    slow = runs.times(priced([pair[1] for pair in pairs]))
    fast = runs.times(priced([pair[2] for pair in pairs]))
    return [(pair[0], f / s - 1, pair) for pair, s, f in zip(pairs, slow, fast) if f / s == f / s]


def words(pair):
    _, slow, fast = pair
    return ", ".join(f"{k} {slow[k] or '-'} against {fast[k] or '-'}"
                     for k in slow if slow[k] != fast.get(k))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=10_000, help="random pairs; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seq-len", type=int, default=0, help="shortest sequences of a row")
    parser.add_argument("--show", type=int, default=5, help="worst pairs shown for each change")
    given = parser.parse_args()
    found = gains(drawn(given.count, given.seed, given.seq_len))
    print("| change | pairs | allowed | out of order | by at most |\n|---|---|---|---|---|")
    wrong = 0
    for change in CHANGES:
        allowed = CHUNKS if change == "fewer pipeline chunks" else BUCKETS
        of = [each for each in found if each[0] == change]
        bad = sorted((each for each in of if each[1] > allowed), key=lambda each: -each[1])
        wrong += len(bad)
        most = max([0, *(gain for _, gain, _ in of)])
        print(f"| {change} | {len(of)} | {100 * allowed:.1f}% | {len(bad)} | {100 * most:.2f}% |")
        for _, gain, pair in bad[: given.show]:
            print(f"{change}: {100 * gain:.2f}% {pair[1]['id']}: {words(pair)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
