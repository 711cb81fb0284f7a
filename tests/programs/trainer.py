"""Trainer of transformers with FSDP2, for one of three families of models.

trainer.py llama|gpt2|qwen3
"""

import sys

import torch
import transformers

VOCABULARY, ROWS = 32000, 2048


def model_of(family):
    """Returns a model with four layers of common width."""
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 2048, "num_hidden_layers": 4}
    heads = {"num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 5632}
    if family == "llama":
        config = transformers.LlamaConfig(**sizes, **heads)
    elif family == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=VOCABULARY, n_embd=2048, n_layer=4, n_head=16, n_positions=ROWS
        )
    else:
        config = transformers.Qwen3Config(**sizes, **heads, head_dim=128)
    return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)


class Tokens(torch.utils.data.Dataset):
    """Random sequences."""

    def __len__(self):
        return 1 << 16

    def __getitem__(self, place):
        row = torch.randint(VOCABULARY, (ROWS,), generator=torch.Generator().manual_seed(place))
        return {"input_ids": row, "labels": row}


def main():
    layers = {"llama": "LlamaDecoderLayer", "gpt2": "GPT2Block", "qwen3": "Qwen3DecoderLayer"}
    arguments = transformers.TrainingArguments(
        output_dir="/tmp/trainer", max_steps=3, per_device_train_batch_size=1, bf16=True,
        logging_steps=1, save_strategy="no", report_to=[], fsdp="full_shard auto_wrap",
        fsdp_config={
            "fsdp_version": 2, "transformer_layer_cls_to_wrap": [layers[sys.argv[1]]],
        },
    )  # fmt: skip
    transformers.Trainer(model_of(sys.argv[1]), arguments, train_dataset=Tokens()).train()


main()
