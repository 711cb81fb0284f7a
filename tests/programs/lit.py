"""A decoder trained with Lightning.

lit.py ddp|fsdp
"""

import sys

import lightning
import torch
import transformers


class Model(lightning.LightningModule):
    """Decoder of four layers."""

    def __init__(self):
        super().__init__()
        self.net = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=32000, hidden_size=2048, num_hidden_layers=4, num_attention_heads=16,
                intermediate_size=5632,
            )
        )  # fmt: skip

    def training_step(self, batch, _number):
        loss = self.net(input_ids=batch[0], labels=batch[0]).loss
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


rows = torch.utils.data.TensorDataset(torch.randint(32000, (4096, 1024)))
trainer = lightning.Trainer(
    accelerator="cuda", devices=-1, num_nodes=8, strategy=sys.argv[1], precision="bf16-true",
    max_steps=4, accumulate_grad_batches=2, logger=False, enable_checkpointing=False,
    enable_progress_bar=False,
)  # fmt: skip
trainer.fit(Model(), torch.utils.data.DataLoader(rows, batch_size=2))
