"""Last line of every program: the bits of the parameters."""

import hashlib


def print_end(rank, steps, model, parameters=None):
    """Prints one line with the steps and the hash of the parameters."""
    hashed = hashlib.sha256()
    for each in parameters or model.parameters():
        hashed.update(each.detach().contiguous().numpy().tobytes())
    print(f"rank {rank} ended after {steps} steps with {hashed.hexdigest()[:16]}", flush=True)
