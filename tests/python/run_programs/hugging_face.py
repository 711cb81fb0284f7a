"""Trainer of transformers on a small model, with the text of Debian's licences.

CHECKPOINTS=FOLDER keeps checkpoints there, every EVERY=STEPS, and resumes from the newest one.
WORKERS=N processes of the loader. TRAININGS=N calls of train().
"""

import os
import tempfile

import torch
from end import print_end
from pace import declare_pace
from texts import LINES, mark_of, pieces
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

LENGTH = 32


class Text(torch.utils.data.Dataset):
    """Pieces of the licences."""

    def __init__(self):
        self.data = pieces(LENGTH)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, at):
        return {"input_ids": self.data[at], "labels": self.data[at].clone()}


class Marks(TrainerCallback):
    """Prints steps, so that a test knows when training has begun."""

    def on_train_begin(self, args, state, control, **more):
        print(f"begins at step {state.global_step} of rank {os.environ['RANK']}", flush=True)

    def on_step_end(self, args, state, control, **more):
        if state.global_step % LINES == 0:
            rows = newest["rows"]
            print(f"at step {state.global_step} of rank {os.environ['RANK']}: "
                  f"{len(rows)} examples, {mark_of(rows)}", flush=True)  # fmt: skip


torch.manual_seed(0)
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=256, n_positions=LENGTH, n_embd=32, n_layer=1, n_head=2,
               bos_token_id=0, eos_token_id=0)
)  # fmt: skip
declare_pace(model)
newest = {}  # rows of the newest batch
model.register_forward_pre_hook(
    lambda _, positional, named: newest.update(rows=named["input_ids"]), with_kwargs=True
)
kept = os.environ.get("CHECKPOINTS")
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=kept or folder, max_steps=int(os.environ.get("STEPS", "40")),
        per_device_train_batch_size=4, use_cpu=True, report_to=[],
        save_strategy="steps" if kept else "no", save_steps=int(os.environ.get("EVERY", "20")),
        logging_steps=10, ddp_backend="gloo", disable_tqdm=True, seed=0,
        dataloader_drop_last=True, dataloader_num_workers=int(os.environ.get("WORKERS", "0")),
    )  # fmt: skip
    trainer = Trainer(model=model, args=arguments, train_dataset=Text(), callbacks=[Marks()])
    last = get_last_checkpoint(kept) if kept and os.path.isdir(kept) else None
    for _ in range(int(os.environ.get("TRAININGS", "1"))):
        ended = trainer.train(resume_from_checkpoint=last)
print_end(os.environ["RANK"], ended.global_step, model)
