"""Cost of predictions, CPU of one core, start of the process included: rows of a table at growing
sizes, and all layouts of a model ranked. Printed by ./dev bench layouts."""

import json
import os
import pathlib
import resource
import subprocess
import tempfile

ORRERY = pathlib.Path(__file__).resolve().parents[2] / "build" / "bin" / "orrery"
ROWS = 200
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


def main():
    print("| `predict`, a row | CPU |\n|---|---:|")
    with tempfile.TemporaryDirectory() as folder:
        cases, out = os.path.join(folder, "cases.csv"), os.path.join(folder, "out.csv")
        for gpus in (64, 1024, 16_384, 131_072):
            pathlib.Path(cases).write_text(table(gpus))
            _, cpu_s = run("predict", cases, "-o", out)
            assert pathlib.Path(out).read_text().count(",ok,") == ROWS
            print(f"| {gpus:,} GPUs | {1000 * cpu_s / ROWS:.2f} ms |")
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


if __name__ == "__main__":
    main()
