"""Inputs of the programs in table.py: a tokenizer, texts, tokens, and configurations.

inputs.py FOLDER writes all of them; equal files every time.
"""

import json
import pathlib
import random
import struct
import sys

WORDS = [f"w{number}" for number in range(2000)]
#: Images that the programs of kills.py train on, and pieces of text.
IMAGES = 2560
TRAINED_PIECES = 160


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


def write_images(folder):
    """Writes FashionMNIST's four files with made-up images: the class is the place of a bar."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    for name, count in (("train", IMAGES), ("t10k", IMAGES // 4)):
        classes = bytes(at % 10 for at in range(count))
        noise = draw.randbytes(28 * 28)
        images = b"".join(
            bytes(255 if row // 3 == each else noise[row * 28 + (at + column) % 28] // 2
                  for row in range(28) for column in range(28))
            for at, each in enumerate(classes)
        )  # fmt: skip
        begin = struct.pack(">IIII", 0x803, count, 28, 28)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(begin + images)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 0x801, count) + classes
        )


def write_pieces(file):
    """Writes words as Lightning's WikiText2 reads them, in pieces of 35.

    The programs of Lightning keep 4,000 pieces for their tests.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    draw = random.Random(2)
    count = (4000 + TRAINED_PIECES + 1) * 35
    sentences = [" ".join(draw.choices(WORDS, k=6)) for _ in range(50)]
    # A line of six words has seven tokens.
    file.write_text("\n".join(draw.choices(sentences, k=count // 7)) + "\n")


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
    write_images(folder / "data/FashionMNIST/raw")
    write_pieces(folder / "language_model/data/wikitext-2.txt")
    (folder / "mnist").mkdir(exist_ok=True)
    example = checkouts / "nanotron/examples/config_qwen.yaml"
    if example.exists():
        write_nanotron(example, folder / "tokenizer", folder / "nanotron.yaml", data=32)


if __name__ == "__main__":
    write_all(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
