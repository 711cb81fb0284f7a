"""Snapshots of a PyTorch training loop, and its resumption: two lines in a plain loop.

>>> import orrery.torch
>>> snapshots = orrery.torch.state(model=model, optimizer=optimizer, every=100)
>>> for batch in snapshots.steps(loader):
...     train(batch)

`orrery run --restart N` starts lost ranks again, and the loop continues after the newest complete
snapshot; `orrery run --replace N` replaces single ranks while the others continue.
"""

import importlib
import os
import sys
from typing import Any, Optional


def state(
    *,
    every: int = 100,
    folder: "Optional[str | os.PathLike[str]]" = None,
    keep: int = 2,
    **parts: Any,
) -> Any:
    """Returns the state of a training loop; loads the newest complete snapshot, if there is one.

    Call it once on every rank, after the process group, the model and the optimizer are built and
    before the loop. Then run the loop over `steps(...)` of the returned object. A snapshot has the
    `state_dict()` of every part, the position in the loop, and the random states of PyTorch,
    Python and NumPy, of each rank.

    Parameters
    ----------
    every : int
        Steps from one snapshot to the next, at least 1.
    folder : path, optional
        Folder of the snapshots, which all ranks share. Without one, snapshots belong to one
        `orrery run` and are deleted at its end; outside `orrery run` none are written then.
    keep : int
        Complete snapshots that are kept, at least 1.
    **parts : object
        Objects with state_dict() and load_state_dict(): model, optimizer, scheduler, loader.

    Returns
    -------
    TrainingState
        Object with `steps(items)`, which yields the items that are not trained yet, and `step`, the
        number of steps that are trained.

    Raises
    ------
    TypeError
        If a part has no state_dict() or load_state_dict(), or there is no part.
    ValueError
        If a number is below 1, or the newest snapshot is one of another number of ranks or parts.
    RuntimeError
        If several ranks run without an initialised process group.
    """
    attached = "orrery_programs" in sys.modules
    package = "orrery_programs" if attached else "orrery.programs"
    try:
        training = importlib.import_module(f"{package}.training")
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise ModuleNotFoundError(
            "orrery.torch: expected PyTorch in this Python, found none; install it with "
            "pip install 'orrery[torch]'", name="torch"
        ) from None  # fmt: skip
    return training.begin_training(parts, every, folder, keep)
