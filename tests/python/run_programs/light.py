"""Trainer of Lightning over text, with synchronised metrics.

EXAMPLE_S=SECONDS of declared compute for each example, without synchronised metrics, which wait for
the other ranks; SLOW=FACTOR makes the last rank slower. CHECKPOINTS=FOLDER keeps checkpoints there,
every EVERY=STEPS, and resumes from the newest one, with RESUMES=1 behind the batches of the pass
that are trained. WORKERS=N processes of the loader.
"""

import os
import time

import lightning
import torch
from end import print_end
from pace import declare_pace
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy
from texts import LINES, examples, layers, mark_of
from torch import nn

EXAMPLE_S = float(os.environ.get("EXAMPLE_S", "0"))
if int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
    EXAMPLE_S *= float(os.environ.get("SLOW", "1"))


class Model(lightning.LightningModule):
    """Small model that predicts the next byte."""

    def __init__(self):
        super().__init__()
        self.layers = layers(64)

    def training_step(self, batch, at):
        """Return the loss of one batch."""
        contexts, following = batch
        time.sleep(EXAMPLE_S * len(contexts))
        loss = nn.functional.cross_entropy(self.layers(contexts), following)
        self.log("loss", loss, sync_dist="EXAMPLE_S" not in os.environ)
        if self.global_step % LINES == 0:
            print(f"at step {self.global_step} of rank {self.global_rank}: "
                  f"{len(contexts)} examples, {mark_of(contexts)}", flush=True)  # fmt: skip
        return loss

    def on_train_start(self):
        """Prints the step from which the training goes on."""
        print(f"begins at step {self.global_step} of rank {self.global_rank}", flush=True)

    def configure_optimizers(self):
        """Return the optimizer."""
        return torch.optim.AdamW(self.parameters(), 1e-3)


class ResumedLoader(torch.utils.data.DataLoader):
    """Loader whose state is the number of the batches that its pass has given."""

    given = skipped = 0

    def __iter__(self):
        begin, self.skipped = self.skipped, 0
        for self.given, batch in enumerate(super().__iter__(), 1):
            if self.given > begin:
                yield batch

    def state_dict(self):
        """Return the state, which Lightning adds to its checkpoints."""
        return {"given": self.given}

    def load_state_dict(self, state):
        """Lets the next pass begin behind the batches that were given."""
        self.skipped = state["given"]


torch.set_num_threads(1)
lightning.seed_everything(0)
model = Model()
declare_pace(model.layers)
kept = os.environ.get("CHECKPOINTS")
every = int(os.environ.get("EVERY", "20"))
saves = [ModelCheckpoint(dirpath=kept, save_last=True, every_n_train_steps=every)] if kept else []
trainer = lightning.Trainer(
    accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]),
    strategy=DDPStrategy(process_group_backend="gloo"),
    max_steps=int(os.environ.get("STEPS", "40")), logger=False,
    enable_checkpointing=bool(kept), callbacks=saves,
    enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
data = torch.utils.data.TensorDataset(*examples())
kind = ResumedLoader if "RESUMES" in os.environ else torch.utils.data.DataLoader
workers = int(os.environ.get("WORKERS", "0"))
loader = kind(data, batch_size=8, shuffle=True, drop_last=True, num_workers=workers)
trainer.fit(model, loader, ckpt_path="last" if kept else None)
print_end(trainer.global_rank, trainer.global_step, model)
