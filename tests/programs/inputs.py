"""Inputs of the programs in table.py: a tokenizer, texts, tokens, and configurations.

inputs.py FOLDER writes all of them; equal files every time.
"""

import json
import pathlib
import random
import sys

WORDS = [f"w{number}" for number in range(2000)]


def write_tokenizer(folder):
    """Writes a tokenizer with a word for each token, in the format of transformers."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {word: place for place, word in enumerate(["<unk>", "<s>", "</s>", *WORDS])}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
        "decoder": None, "model": model,
    }  # fmt: skip
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
        "unk_token": "<unk>", "pad_token": "</s>", "model_max_length": 1 << 20,
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def write_texts(folder):
    """Writes 2,000 texts of 1,000 words in the format of the C4 corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    rows = (json.dumps({"text": " ".join(draw.choices(WORDS, k=1000))}) for _ in range(2000))
    (folder / "data.json").write_text("\n".join(rows) + "\n")


def write_tokens(folder):
    """Writes files of 16-bit tokens as nanoGPT reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("train", "val"):
        (folder / f"{name}.bin").write_bytes(random.Random(name).randbytes(1 << 21))


def write_nanotron(example, tokenizer, to, data):
    """Writes nanotron's own example for Qwen with made-up data and `data` replicas."""
    import yaml

    config = yaml.safe_load(example.read_text())
    for stage in config["data_stages"]:
        stage["data"]["dataset"] = None
    config["checkpoints"]["checkpoints_path"] = str(to.parent / "checkpoints")
    config["checkpoints"]["save_final_state"] = False
    config["tokens"]["train_steps"] = 3
    config["optimizer"]["learning_rate_scheduler"]["lr_decay_steps"] = None
    config["tokenizer"]["tokenizer_name_or_path"] = str(tokenizer)
    config["profiler"] = None
    config["parallelism"]["dp"] = data
    to.write_text(yaml.safe_dump(config))


def write_all(folder, checkouts):
    """Writes all inputs into a folder; configurations for the checkouts that exist."""
    write_tokenizer(folder / "tokenizer")
    write_texts(folder / "c4_test")
    write_tokens(folder / "tokens")
    example = checkouts / "nanotron/examples/config_qwen.yaml"
    if example.exists():
        write_nanotron(example, folder / "tokenizer", folder / "nanotron.yaml", data=32)


if __name__ == "__main__":
    write_all(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
