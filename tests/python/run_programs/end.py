"""Last line of every program: the bits of the parameters.

With RANKS=FOLDER the process of each rank writes its id to FOLDER/ATTEMPT.RANK. With AGAIN=N each
of the first N attempts ends with exit code 9 after the last line, so that `orrery run --restart N`
starts all ranks again.
"""

import hashlib
import os
import pathlib
import sys

ATTEMPT = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
if "RANKS" in os.environ:
    path = pathlib.Path(os.environ["RANKS"]) / f"{ATTEMPT}.{os.environ['RANK']}"
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.write_text(str(os.getpid()))
    unfinished.rename(path)


def print_end(rank, steps, model, parameters=None):
    """Prints one line with the steps and the hash of the parameters."""
    hashed = hashlib.sha256()
    for each in parameters or model.parameters():
        hashed.update(each.detach().contiguous().numpy().tobytes())
    print(f"rank {rank} ended after {steps} steps with {hashed.hexdigest()[:16]}", flush=True)
    if ATTEMPT < int(os.environ.get("AGAIN", "0")):
        sys.exit(9)
