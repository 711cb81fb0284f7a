"""A decoder trained with accelerate: DDP, bf16, two micro-batches."""

import accelerate
import torch
import transformers

accelerator = accelerate.Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
model = transformers.LlamaForCausalLM(
    transformers.LlamaConfig(
        vocab_size=32000, hidden_size=2048, num_hidden_layers=4, num_attention_heads=16,
        intermediate_size=5632,
    )
)  # fmt: skip
rows = torch.utils.data.TensorDataset(torch.randint(32000, (4096, 1024)))
loader = torch.utils.data.DataLoader(rows, batch_size=2, shuffle=True, drop_last=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for number, (tokens,) in enumerate(loader):
    with accelerator.accumulate(model):
        loss = model(input_ids=tokens, labels=tokens).loss
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.print(f"batch {number}: loss {loss.item():.2f}")
    if number == 5:
        break
accelerator.end_training()
