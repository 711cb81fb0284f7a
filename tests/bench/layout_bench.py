"""Cost of predictions, CPU of one core, start of the process included: rows of a table at growing
sizes, the rows of published runs, and all layouts of a model ranked. Printed by ./dev bench
layouts; the exit code is 1 if the mean row of a table takes longer than MOST_ROW_MS."""

import csv
import gzip
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORRERY = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build")) / "bin" / "orrery"
RUNS = pathlib.Path(os.environ.get("ORRERY_DATA", ROOT.parent / "shared" / "data"), "training-runs")
PUBLISHED = ("runs-open.csv", "measured.csv", "layouts-open.csv.gz")
ROWS = 200
MOST_ROW_MS = 0.3
PASSES = 3  # runs of each table, of which the fastest counts
QUESTIONS = [
    ("llama3-70b", 512, 4_194_304),
    ("llama3-70b", 16_384, 33_554_432),
    ("llama3-405b", 16_384, 134_217_728),
    ("deepseek-v3", 16_384, 67_108_864),
]


def run(*arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(
        [ORRERY, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return out, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table(gpus):
    """Llama 3 70B, tensor 8 x pipeline 8, 16 micro-batches a replica."""
    replicas = gpus // 64
    names = (
        "id,model,layers,hidden,heads,kv_heads,ffn,gated_mlp,vocab,seq_len,gpu,n_gpus,tp,pp,dp,"
        "precision,mbs,gbs,framework,fabric,recompute,dp_shard,vpp"
    )
    row = (
        f"llama3-70b,80,8192,64,8,28672,1,128256,8192,H100,{gpus},8,8,{replicas},"
        f"bf16,1,{16 * replicas},nemo,InfiniBand,none,zero-1,1"
    )
    return names + "\n" + "".join(f"{i},{row}\n" for i in range(ROWS))


def published(name):
    """The text of a table of published runs and its number of rows; "" and 0 where it is absent."""
    path = RUNS / name
    if not path.exists():
        return "", 0
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", newline="") as file:
        text = file.read()
    return text, len(list(csv.DictReader(text.splitlines(keepends=True))))


def row_cost(folder, text, rows):
    """Milliseconds of a row of the table, of the fastest of PASSES, and the predictions."""
    cases, out = pathlib.Path(folder, "cases.csv"), pathlib.Path(folder, "out.csv")
    cases.write_text(text)
    cpu_s = min(run("predict", cases, "-o", out)[1] for _ in range(PASSES))
    return 1000 * cpu_s / rows, out.read_text()


def predict_costs():
    """Prints the cost of a row of each table; returns the names of those above the goal."""
    print(f"| `predict`, a row | rows | CPU (goal: at most {MOST_ROW_MS} ms) |\n|---|---:|---:|")
    missed = []

    def judge(name, rows, cost):
        print(f"| {name} | {rows:,} | {cost:.2f} ms |")
        if cost > MOST_ROW_MS:
            missed.append(f"{name} ({cost:.2f} ms)")

    with tempfile.TemporaryDirectory() as folder:
        for gpus in (64, 1024, 16_384, 131_072):
            cost, found = row_cost(folder, table(gpus), ROWS)
            assert found.count(",ok,") == ROWS
            judge(f"{gpus:,} GPUs", ROWS, cost)
        for name in PUBLISHED:
            text, rows = published(name)
            if not rows:
                print(f"| {name}: expected in {RUNS}; set ORRERY_DATA | | |")
                continue
            judge(name, rows, row_cost(folder, text, rows)[0])
    return missed


def layout_costs():
    print("\n| `layouts` | GPUs | layouts | fit | CPU | each |\n|---|---:|---:|---:|---:|---:|")
    for model, gpus, tokens in QUESTIONS:
        asked = ("--model", model, "--cluster", "dgx-h100", "--gpus", gpus)
        text, cpu_s = run("layouts", *asked, "--tokens-per-batch", tokens, "--top", 1, "--json")
        found = json.loads(text)
        count = found["layouts_in_all"]
        print(
            f"| {model} | {gpus:,} | {count:,} | {found['layouts_that_fit']:,} | {cpu_s:.1f} s "
            f"| {1000 * cpu_s / count:.2f} ms |"
        )


def main():
    missed = predict_costs()
    layout_costs()
    if missed:
        sys.exit(f"expected at most {MOST_ROW_MS} ms a row, found more: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
