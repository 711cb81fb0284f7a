"""Writes the config.json of published models and their parameter counts with the `transformers`
library, for the tests of the reader of model files and for the table of docs/models.md.

    ./dev torch
    ~/.cache/orrery/torch/bin/python python/calibration/model_configs.py        # files and counts
    python3 python/calibration/model_configs.py --table build/bin/orrery        # table of the page

The sizes are those that the authors published with the weights. The configuration classes of
`transformers` write the files; the counts are those of the model that the library builds on the
meta device, so that neither weights nor their memory are needed.
"""

import argparse
import csv
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / 'tests' / 'traces' / 'models'
PAGE = ROOT / 'docs' / 'models.md'
BEGIN, END = '<!-- python/calibration/model_configs.py -->\n', '<!-- end -->\n'


def sizes(hidden, inner, layers, heads, kv_heads, vocabulary, **more):
    """Keyword arguments of most configuration classes."""
    return {
        'hidden_size': hidden, 'intermediate_size': inner, 'num_hidden_layers': layers,
        'num_attention_heads': heads, 'num_key_value_heads': kv_heads, 'vocab_size': vocabulary,
        **more,
    }  # fmt: skip


# Name of the model: (model_type, arguments of the configuration class). Empty arguments: the
# defaults of the class are the published model. `text`: the model is the text part of another one.
MODELS = {
    'apertus-8b': ('apertus', sizes(4096, 21504, 32, 32, 8, 131072)),
    'arcee-4.5b': ('arcee', sizes(2560, 18432, 36, 20, 4, 128004, head_dim=128)),
    'bloom-176b': ('bloom', {'hidden_size': 14336, 'n_layer': 70, 'n_head': 112}),
    'codegen-16b': ('codegen', {'n_embd': 6144, 'n_layer': 34, 'n_head': 24, 'vocab_size': 51200}),
    'command-r-35b': ('cohere', {}),
    'command-r-plus-104b': ('cohere', sizes(12288, 33792, 64, 96, 8, 256000, use_qk_norm=True)),
    'command-r7b': ('cohere2', sizes(4096, 14336, 32, 32, 8, 256000)),
    'deepseek-v2-236b': (
        'deepseek_v2',
        sizes(5120, 12288, 60, 128, 128, 102400, moe_intermediate_size=1536, n_routed_experts=160,
              n_shared_experts=2, first_k_dense_replace=1, num_experts_per_tok=6,
              q_lora_rank=1536),
    ),
    'deepseek-v2-lite-16b': (
        'deepseek_v2',
        sizes(2048, 10944, 27, 16, 16, 102400, moe_intermediate_size=1408, n_routed_experts=64,
              n_shared_experts=2, first_k_dense_replace=1, num_experts_per_tok=6,
              q_lora_rank=None),
    ),
    'deepseek-v3-671b': ('deepseek_v3', {}),
    'ernie-4.5-0.3b': ('ernie4_5', {}),
    'ernie-4.5-21b-a3b': ('ernie4_5_moe', {}),
    'exaone-4-32b': ('exaone4', sizes(5120, 27392, 64, 40, 8, 102400)),
    'falcon-7b': ('falcon', {}),
    'falcon-40b': (
        'falcon',
        {'hidden_size': 8192, 'num_hidden_layers': 60, 'num_attention_heads': 128,
         'num_kv_heads': 8, 'new_decoder_architecture': True, 'ffn_hidden_size': 32768},
    ),
    'falcon-180b': (
        'falcon',
        {'hidden_size': 14848, 'num_hidden_layers': 80, 'num_attention_heads': 232,
         'num_kv_heads': 8, 'new_decoder_architecture': True, 'ffn_hidden_size': 59392},
    ),
    'gemma-7b': ('gemma', {}),
    'gemma-2-27b': ('gemma2', sizes(4608, 36864, 46, 32, 16, 256000, head_dim=128)),
    'gemma-3-4b': ('gemma3', {'text': sizes(2560, 10240, 34, 8, 4, 262208, head_dim=256)}),
    'gemma-3-27b': ('gemma3', {'text': sizes(5376, 21504, 62, 32, 16, 262208, head_dim=128)}),
    'glm-4-9b': ('glm', {}),
    'glm-4-32b': ('glm4', sizes(6144, 23040, 61, 48, 2, 151552, attention_bias=False)),
    'glm-4.5-355b-a32b': (
        'glm4_moe',
        sizes(5120, 12288, 92, 96, 8, 151552, head_dim=128, moe_intermediate_size=1536,
              n_routed_experts=160, first_k_dense_replace=3, use_qk_norm=True,
              attention_bias=True),
    ),
    'gpt2-xl': ('gpt2', {'n_embd': 1600, 'n_layer': 48, 'n_head': 25}),
    'gpt-j-6b': ('gptj', {}),
    'gpt-neo-2.7b': (
        'gpt_neo',
        {'hidden_size': 2560, 'num_layers': 32, 'num_heads': 20,
         'attention_types': [[['global', 'local'], 16]]},
    ),
    'gpt-neox-20b': ('gpt_neox', {}),
    'gpt-oss-20b': ('gpt_oss', {'num_hidden_layers': 24, 'num_local_experts': 32}),
    'gpt-oss-120b': ('gpt_oss', {}),
    'granite-3.1-8b': ('granite', sizes(4096, 12800, 40, 32, 8, 49155, tie_word_embeddings=True)),
    'granite-3.1-3b-a800m': (
        'granitemoe',
        sizes(1536, 512, 32, 24, 8, 49155, tie_word_embeddings=True, num_local_experts=40,
              num_experts_per_tok=8),
    ),
    'helium-1-2b': ('helium', {}),
    'llama-2-7b': ('llama', {}),
    'llama-3.1-8b': ('llama', sizes(4096, 14336, 32, 32, 8, 128256)),
    'llama-3.1-70b': ('llama', sizes(8192, 28672, 80, 64, 8, 128256)),
    'llama-3.1-405b': ('llama', sizes(16384, 53248, 126, 128, 8, 128256)),
    'llama-3.2-1b': ('llama', sizes(2048, 8192, 16, 32, 8, 128256, tie_word_embeddings=True)),
    'llama-4-scout-109b-a17b': ('llama4', {'text': {}}),
    'llama-4-maverick-400b-a17b': (
        'llama4',
        {'text': {'num_local_experts': 128, 'interleave_moe_layer_step': 2}},
    ),
    'minimax-m2-230b-a10b': ('minimax_m2', {}),
    'mistral-7b-v0.3': ('mistral', sizes(4096, 14336, 32, 32, 8, 32768, sliding_window=None)),
    'mistral-nemo-12b': (
        'mistral',
        sizes(5120, 14336, 40, 32, 8, 131072, head_dim=128, sliding_window=None),
    ),
    'mixtral-8x7b': ('mixtral', {}),
    'mixtral-8x22b': ('mixtral', sizes(6144, 16384, 56, 48, 8, 32768)),
    'mpt-30b': ('mpt', {'d_model': 7168, 'n_heads': 64, 'n_layers': 48, 'vocab_size': 50432}),
    'nemotron-4-340b': ('nemotron', sizes(18432, 73728, 96, 96, 8, 256000, head_dim=192)),
    'olmo-7b': ('olmo', {}),
    'olmo-2-32b': ('olmo2', sizes(5120, 27648, 64, 40, 8, 100352)),
    'olmo-3-7b': ('olmo3', sizes(4096, 11008, 32, 32, 32, 100278)),
    'olmoe-1b-7b': ('olmoe', {'intermediate_size': 1024}),
    'opt-30b': (
        'opt',
        {'hidden_size': 7168, 'ffn_dim': 28672, 'num_hidden_layers': 48,
         'num_attention_heads': 56, 'word_embed_proj_dim': 7168},
    ),
    'opt-350m': (
        'opt',
        {'hidden_size': 1024, 'ffn_dim': 4096, 'num_hidden_layers': 24, 'num_attention_heads': 16,
         'word_embed_proj_dim': 512, 'do_layer_norm_before': False},
    ),
    'persimmon-8b': ('persimmon', {}),
    'phi-2': ('phi', sizes(2560, 10240, 32, 32, 32, 51200)),
    'phi-3-medium-14b': ('phi3', sizes(5120, 17920, 40, 40, 10, 32064)),
    'phi-3.5-moe-42b': ('phimoe', {'attention_bias': True, 'lm_head_bias': True}),
    'qwen1.5-moe-a2.7b': ('qwen2_moe', {}),
    'qwen2-57b-a14b': (
        'qwen2_moe',
        sizes(3584, 18944, 28, 28, 4, 151936, moe_intermediate_size=2560, num_experts=64,
              num_experts_per_tok=8, shared_expert_intermediate_size=20480),
    ),
    'qwen2.5-0.5b': ('qwen2', sizes(896, 4864, 24, 14, 2, 151936, tie_word_embeddings=True)),
    'qwen2.5-72b': ('qwen2', sizes(8192, 29568, 80, 64, 8, 152064)),
    'qwen3-32b': ('qwen3', sizes(5120, 25600, 64, 64, 8, 151936, head_dim=128)),
    'qwen3-30b-a3b': ('qwen3_moe', sizes(2048, 6144, 48, 32, 4, 151936, head_dim=128)),
    'qwen3-235b-a22b': (
        'qwen3_moe',
        sizes(4096, 12288, 94, 64, 4, 151936, head_dim=128, moe_intermediate_size=1536),
    ),
    'seed-oss-36b': ('seed_oss', sizes(5120, 27648, 64, 80, 8, 155136, head_dim=128)),
    'smollm3-3b': ('smollm3', {}),
    'stablelm-2-12b': (
        'stablelm',
        sizes(5120, 13824, 40, 32, 8, 100352, qk_layernorm=True, use_parallel_residual=True),
    ),
    'starcoder-15b': (
        'gpt_bigcode',
        {'n_embd': 6144, 'n_layer': 40, 'n_head': 48, 'n_positions': 8192, 'n_inner': 24576,
         'vocab_size': 49152},
    ),
    'starcoder2-7b': ('starcoder2', sizes(4608, 18432, 32, 36, 4, 49152)),
}  # fmt: skip


def build(model_type, arguments):
    """Returns the configuration of a model and the part of it that is a decoder."""
    from transformers import CONFIG_MAPPING

    if 'text' not in arguments:
        config = CONFIG_MAPPING[model_type](**arguments)
        return config, config
    config = CONFIG_MAPPING[model_type](text_config=arguments['text'])
    return config, config.get_text_config()


def count(config):
    """Returns the number of parameters of the decoder on the meta device."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device('meta'):
        model = AutoModelForCausalLM.from_config(config)
    return sum(each.numel() for each in model.parameters())


def write_files():
    """Writes one config.json a model, and the table of counts."""
    folder = FOLDER / 'configs'
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, (model_type, arguments) in MODELS.items():
        config, decoder = build(model_type, arguments)
        config.to_json_file(folder / f'{name}.json', use_diff=False)
        rows.append({'model': name, 'parameters': count(decoder)})
    with open(FOLDER / 'counts.csv', 'w', newline='') as out:
        table = csv.DictWriter(out, list(rows[0]), lineterminator='\n')
        table.writeheader()
        table.writerows(rows)


def table(orrery):
    """Returns the lines of the page's table: counts of `orrery describe` and of transformers."""
    lines = ['| model | family | parameters | transformers | for each token | priced as |\n',
             '|---|---|---:|---:|---:|---|\n']  # fmt: skip
    equal = 0
    with open(FOLDER / 'counts.csv') as counts:
        rows = list(csv.DictReader(counts))
    for row in rows:
        file = FOLDER / 'configs' / f'{row["model"]}.json'
        out = subprocess.run([orrery, 'describe', file, '--json'], capture_output=True, text=True,
                             check=True)  # fmt: skip
        found = json.loads(out.stdout)
        same = found['parameters'] == int(row['parameters'])
        equal += same
        lines.append(
            f'| {row["model"]} | {found["family"]} | {found["parameters"]:,} '
            f'| {"equal" if same else row["parameters"]} '
            f'| {found["active_parameters"] / 1e9:.2f}e9 | {"; ".join(found["assumed"])} |\n'
        )
    families = len({json.loads((FOLDER / 'configs' / f'{row["model"]}.json').read_text())[
        'model_type'] for row in rows})  # fmt: skip
    head = (
        f'{equal} of {len(rows)} models of {families} types have the parameters of transformers.'
        '\n\n'
    )
    return [head, *lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--table', metavar='ORRERY', help='write the table of docs/models.md')
    chosen = parser.parse_args()
    if not chosen.table:
        write_files()
        return
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + BEGIN + ''.join(table(chosen.table)) + END + after)


if __name__ == '__main__':
    main()
