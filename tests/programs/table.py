"""Table of ten programs, unmodified: ranks, operators, seconds and memory, or the reason why not.

table.py [NAME...]  rehearses the programs (all, or those whose names begin with a word) and prints
a Markdown row for each. ORRERY_PROGRAMS names a folder with checkouts; packages of
requirements.txt lie in its packages/site-packages. `table.py --checkouts` prints how to get them.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import typing

import inputs

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", HERE.parents[1] / "build"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
TORCH = pathlib.Path(os.environ.get("ORRERY_TORCH_PYTHON", CACHE / "orrery/torch/bin/python"))
CHECKOUTS = pathlib.Path(os.environ.get("ORRERY_PROGRAMS", "/nonexistent"))
#: Longest rehearsal, seconds.
LIMIT = 1800
GIB = 1 << 30

#: Commits for which the tables on docs/rehearse.md and docs/run.md hold.
COMMITS = {
    "torchtitan": ("pytorch/torchtitan", "73a0e6979dd10b6b1904098eb3c8f62c18ab87ce"),
    "nanotron": ("huggingface/nanotron", "2411b022a75fb7f7561a1bb4166706da5e1b76de"),
    "Megatron-LM": ("NVIDIA/Megatron-LM", "core_v0.16.1"),
    "llm-foundry": ("mosaicml/llm-foundry", "8c8dd48f72168c5d51e2f7b151595892a8fba43d"),
    "nanoGPT": ("karpathy/nanoGPT", "3adf61e154c3fe3fca428ad6bc3818b27a3b8291"),
    "training-operator": (
        "kubeflow/training-operator", "6f74c7f6b2ed6c27aabd82d0a316b23f0646059c",
    ),
    "pytorch-lightning": (
        "Lightning-AI/pytorch-lightning", "7f0c3436cd3f6ad3753125672024fc415cbcb414",
    ),
}  # fmt: skip


class Program(typing.NamedTuple):
    """Program of the table; `{inputs}` in its command is the folder of inputs.py."""

    name: str
    ranks: int
    command: str
    checkout: str = ""
    allowed: "tuple[str, ...]" = ()
    environment: "dict[str, str]" = {}
    why_not: str = ""


def titan(config, extra=""):
    """Returns the command of torchtitan for one of its own configurations."""
    return (
        f"python -m torchtitan.train --job.config_file torchtitan/models/{config}.toml"
        " --job.dump_folder {inputs}/out --model.hf_assets_path {inputs}/tokenizer"
        " --training.dataset c4_test --training.dataset_path {inputs}/c4_test"
        " --training.steps 3 --metrics.log_freq 1 --metrics.no-enable-tensorboard"
        f" --profiling.no-enable-profiling {extra}"
    )


LLAMA = "llama3/train_configs/llama3_"
FLOAT8 = (
    "--model.converters quantize.linear.float8 --parallelism.no-enable-async-tensor-parallel"
)
PIPELINE = (
    "--parallelism.pipeline_parallel_degree 2 --parallelism.context_parallel_degree 2 "
    "--training.local_batch_size 2"
)
MEGATRON = (
    "python pretrain_gpt.py --transformer-impl local --no-persist-layer-norm "
    "--no-gradient-accumulation-fusion --no-masked-softmax-fusion --attention-backend unfused "
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 --micro-batch-size 4 --global-batch-size 256 "
    "--tensor-model-parallel-size 2 --train-iters 3 --lr 1e-4 --bf16 --mock-data "
    "--tokenizer-type NullTokenizer --vocab-size 50256 --log-interval 1 --eval-iters 0 "
    "--eval-interval 1000 --rerun-mode disabled --no-check-for-nan-in-loss-and-grad"
)
NANOGPT = (
    "python train.py config/train_gpt2.py --wandb_log=False --max_iters=3 --eval_iters=2 "
    "--log_interval=1 --out_dir={inputs}/out --dataset={inputs}/tokens"
)
STREAMING = (
    "the model is built; then its data loaders wait without end, probably in mosaicml-streaming's "
    "shared memory for the other ranks of the node"
)
ONE_CONNECTION = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}

PROGRAMS = (
    Program("1a torchtitan Llama 3 8B", 1024, titan(LLAMA + "8b"), "torchtitan"),
    Program("1b torchtitan Llama 3 70B", 1024, titan(LLAMA + "70b"), "torchtitan"),
    Program("1c torchtitan Llama 3 405B", 1024, titan(LLAMA + "405b", FLOAT8), "torchtitan"),
    Program("2 torchtitan pipeline, context", 16, titan(LLAMA + "8b", PIPELINE), "torchtitan"),
    Program(
        "3 torchtitan DeepSeek-V3 16B",
        64,
        titan(
            "deepseek_v3/train_configs/deepseek_v3_16b", "--activation_checkpoint.mode full"
        ),
        "torchtitan",
        ("histc",),
    ),
    Program("4a Trainer, Llama", 64, "python {here}/trainer.py llama", allowed=("isnan",)),
    Program("4b Trainer, GPT-2", 64, "python {here}/trainer.py gpt2", allowed=("isnan",)),
    Program("4c Trainer, Qwen 3", 64, "python {here}/trainer.py qwen3", allowed=("isnan",)),
    Program("5 accelerate", 64, "python {here}/accelerated.py"),
    Program("6a Lightning, ddp", 64, "python {here}/lit.py ddp"),
    Program("6b Lightning, fsdp", 64, "python {here}/lit.py fsdp"),
    Program(
        "7 nanotron Qwen",
        64,
        "python run_train.py --config-file {inputs}/nanotron.yaml",
        "nanotron",
        ("pow_", "all_reduce"),
        {**ONE_CONNECTION, "PYTHONPATH": "src"},
    ),
    Program("8 Megatron-LM GPT", 64, MEGATRON, "Megatron-LM", ("add",), ONE_CONNECTION),
    Program("9 LLM Foundry MPT 1B", 8, "", "llm-foundry", why_not=STREAMING),
    Program("10 nanoGPT", 8, NANOGPT, "nanoGPT", ("lt",)),
)  # fmt: skip


def environment_of(program):
    """Returns the environment of a program: its packages before others, and no network."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    own = dict(program.environment)
    paths = [str(CHECKOUTS / program.checkout / p) for p in own.pop("PYTHONPATH", "").split()]
    paths.append(str(CHECKOUTS / "packages/site-packages"))
    offline = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"), "1")
    return {
        **plain, **offline, **own, "OMP_NUM_THREADS": "1", "PYTHONPATH": ":".join(paths),
        "PATH": f"{TORCH.parent}:/usr/bin:{plain['PATH']}",
    }  # fmt: skip


def rehearse(program, folder):
    """Returns the report of a program, or the reason why there is none.

    Parameters
    ----------
    program : Program
        One of PROGRAMS.
    folder : pathlib.Path
        Folder of inputs.py.
    """
    if program.why_not:
        return program.why_not
    words = program.command.format(inputs=folder, here=HERE).split()
    allowed = [word for name in program.allowed for word in ("--allow-stand-in", name)]
    try:
        result = subprocess.run(
            [BUILD / "bin/orrery", "rehearse", "--json", "--ranks", str(program.ranks),
             "--cluster", "dgx-h100", *allowed, "--", *words],
            capture_output=True, text=True, env=environment_of(program), timeout=LIMIT,
            cwd=CHECKOUTS / program.checkout if program.checkout else folder,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"expected an end within {LIMIT} s, found none"
    lines = result.stdout.strip().splitlines()
    report = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else None
    if result.returncode or report is None or report["step_time_s"] is None:
        said = result.stderr.strip().splitlines() or ["no message"]
        named = [line for line in said if line.startswith("error: ")] or said
        return f"exit code {result.returncode}: {named[-1]}"
    return report


def row_of(program, outcome):
    """Returns the Markdown row of a program."""
    version = COMMITS[program.checkout][1][:12] if program.checkout else "here"
    head = f"| {program.name} | {version} | {program.ranks:,} |"
    if isinstance(outcome, str):
        return f"{head} | | | | | {outcome} |"
    allowed = ", ".join(f"`--allow-stand-in {name}`" for name in program.allowed)
    host = outcome["host"]
    first, each = host["first_step_cpu_s"], host["step_cpu_s"]
    told = "" if first is None else f"{first:.1f} s, "
    each_us = 1e6 * each / outcome["operators"]
    return (
        f"{head} {outcome['operators']:,} / {outcome['kernels']:,} / {outcome['collectives']:,} "
        f"| {outcome['step_time_s']:.4f} s | {outcome['memory_bytes'] / GIB:.1f} GiB "
        f"| {told}{each:.2f} s, {each_us:.0f} us "
        f"| {host['peak_rss_bytes'] / GIB:.2f} GiB | {allowed} |"
    )


def is_at_hand(program):
    """Returns whether the checkout of a program lies under ORRERY_PROGRAMS."""
    return not program.checkout or (CHECKOUTS / program.checkout / ".git").exists()


def main():
    words = sys.argv[1:]
    if words == ["--checkouts"]:
        for name, (repository, commit) in COMMITS.items():
            print(f"git clone https://github.com/{repository} {name}")
            print(f"git -C {name} checkout {commit}")
        return
    chosen = [p for p in PROGRAMS if not words or any(p.name.startswith(w) for w in words)]
    print(
        "| program | commit | ranks | operators / kernels / collectives | step | memory "
        "| CPU: first step, repeated, an operator | process | |\n" + 9 * "|---" + "|"
    )
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        subprocess.run([TORCH, inputs.__file__, folder, CHECKOUTS], check=True)
        for program in chosen:
            outcome = (
                rehearse(program, folder)
                if is_at_hand(program)
                else f"no checkout {program.checkout} under ORRERY_PROGRAMS"
            )
            print(row_of(program, outcome), flush=True)


if __name__ == "__main__":
    main()
