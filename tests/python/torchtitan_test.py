"""Configurations of torchtitan as Python functions, read without running them."""

import re

import pytest
from conftest import ROOT

import orrery

REGISTRY = '''
from torchtitan.config import ParallelismConfig, TrainingConfig
from torchtitan.trainer import Trainer

from . import model_registry

raise RuntimeError("the file has been run")


LENGTH = 8192


def _optimizer(rate):
    if rate > 1:
        return Muon.Config(lr=rate)
    return AdamW.Config(lr=rate)


def _base(model_spec, batch: int = 2, *, seq_len=4096):
    """Values of several configurations."""
    return Trainer.Config(
        model_spec=model_spec,
        training=TrainingConfig(local_batch_size=batch, seq_len=seq_len, steps=10),
        parallelism=ParallelismConfig(),
    )


def llama3_8b() -> Trainer.Config:
    dataset = DATASETS["c4"]
    return Trainer.Config(
        hf_assets_path=f"./assets/{dataset}",
        model_spec=model_registry("8B"),
        training=TrainingConfig(local_batch_size=1, seq_len=8192, global_batch_size=-1),
        dataloader=GrainDataLoader.Config(dataset=dataset.path),
    )


def llama3_8b_long() -> Trainer.Config:
    config = llama3_8b()
    config.training.seq_len = 131072
    config.parallelism.context_parallel_degree = 8
    config.parallelism.data_parallel_shard_degree = -1
    return config


def llama3_70b() -> Trainer.Config:
    model_spec = model_registry("70B", converters=[Float8.Config()])
    return _base(model_spec, seq_len=8192)


def llama3_tokens() -> Trainer.Config:
    from torchtitan.models.llama3_own import model_registry as registry

    return Trainer.Config(
        model_spec=registry("405B"),
        optimizer=_optimizer(0.1),
        training=TrainingConfig(
            num_tokens_per_microbatch_per_dp_rank=2 * LENGTH,
            num_tokens_per_train_step=512 * 8192,
            max_context_length=LENGTH,
        ),
    )


def of_other_file() -> Trainer.Config:
    config = traced(llama3_8b())
    config.model_spec = model_registry("8B")
    return config


def of_part() -> Trainer.Config:
    config = llama3_tokens()
    config.training.num_tokens_per_train_step = 1000
    return config


def of_environment() -> Trainer.Config:
    config = llama3_8b()
    config.training.seq_len = int(os.environ["LENGTH"])
    return config


def of_loop() -> Trainer.Config:
    config = llama3_8b()
    for each in config.model_spec.model.layers:
        each.window = 128
    return config


def of_choice() -> Trainer.Config:
    return Trainer.Config(model_spec=model_registry(FLAVOR))


def of_itself() -> Trainer.Config:
    return of_itself()


def of_changed_model() -> Trainer.Config:
    config = llama3_8b()
    config.model_spec.model.dim = 8192
    return config


def of_settings() -> Trainer.Config:
    return Trainer.Config(model_spec=model_registry("8B"), training=TrainingConfig(**SETTINGS))
'''


@pytest.fixture
def registry(tmp_path):
    folder = tmp_path / "llama3"
    folder.mkdir()
    file = folder / "config_registry.py"
    file.write_text(REGISTRY)
    return file


def line_of(text):
    return next(i + 1 for i, line in enumerate(REGISTRY.splitlines()) if text in line)


def test_a_configuration_is_read_and_not_run(registry):
    found = orrery.torchtitan(registry, "llama3_8b")
    assert (found.model, found.flavor, found.name) == ("llama3", "8B", "llama3_8b")
    assert (found.sequence_length, found.local_batch, found.global_batch) == (8192, 1, None)
    assert found.degrees == {}


def test_assignments_and_calls_are_followed(registry):
    long = orrery.torchtitan(registry, "llama3_8b_long")
    assert (long.sequence_length, long.local_batch) == (131072, 1)
    assert long.degrees == {"context_parallel_degree": 8}
    base = orrery.torchtitan(registry, "llama3_70b")
    assert (base.flavor, base.sequence_length, base.local_batch) == ("70B", 8192, 2)


def test_batches_in_tokens_and_products_are_read(registry):
    found = orrery.torchtitan(registry, "llama3_tokens")
    assert (found.model, found.flavor, found.sequence_length) == ("llama3_own", "405B", 8192)
    assert (found.local_batch, found.global_batch) == (2, 512)


@pytest.mark.parametrize(
    ("name", "place", "said"),
    [
        ("of_environment", "int(os.environ", "whole number for seq_len, found 'int("),
        ("of_loop", "for each in", "a statement (For)"),
        ("of_choice", "FLAVOR", "the flavor as a text, found 'FLAVOR'"),
        ("of_itself", "def of_itself", "calls itself"),
        ("of_changed_model", "dim = 8192", "a change of its model"),
        ("of_settings", "SETTINGS", "training= as a configuration class"),
        ("of_other_file", "traced(", "the result of of_other_file()"),
        ("of_part", "= 1000", "whole sequences of max_context_length, found 1000"),
    ],
)
def test_other_values_are_refused_with_their_place(registry, name, place, said):
    with pytest.raises(orrery.InputError) as refused:
        orrery.torchtitan(registry, name)
    assert said in str(refused.value)
    assert refused.value.line == line_of(place) and refused.value.column >= 1
    assert str(refused.value).startswith(f"{registry}:{line_of(place)}:{refused.value.column}: ")


def test_unknown_names_and_files_are_refused(registry, tmp_path):
    with pytest.raises(orrery.UsageError, match="llama3_8b_long"):
        orrery.torchtitan(registry, "llama3_9b")
    with pytest.raises(orrery.UsageError, match="found no name"):
        orrery.torchtitan(registry)
    with pytest.raises(orrery.InputError, match="missing.py"):
        orrery.torchtitan(tmp_path / "missing.py", "a")
    bad = tmp_path / "bad.py"
    bad.write_text("def one(:\n")
    with pytest.raises(orrery.InputError, match=r"bad.py:1:\d+: error: expected a Python file"):
        orrery.torchtitan(bad, "one")


def test_the_model_is_that_of_the_import(tmp_path):
    file = tmp_path / "mine.py"
    body = 'def one():\n    return Trainer.Config(model_spec=model_registry("671B"))\n'
    file.write_text("from torchtitan.models.deepseek_v3 import model_registry\n" + body)
    assert orrery.torchtitan(file).model == "deepseek_v3"
    file.write_text(body)
    with pytest.raises(orrery.InputError, match="pass model="):
        orrery.torchtitan(file)
    assert orrery.torchtitan(file, model="qwen3").model == "qwen3"


def test_the_python_of_the_page_runs(registry, monkeypatch):
    monkeypatch.chdir(registry.parents[1])
    page = (ROOT / "docs" / "models.md").read_text()
    values = {}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], values)
    named = orrery.layouts(model="llama3-70b", cluster="dgx-h100", gpus=64, sequence_length=8192,
                           top=1)  # fmt: skip
    assert values["table"].iter_time_s[0] == pytest.approx(named.iter_time_s[0])
