"""Launchers: a rehearsal runs one rank in place of the processes that they would start.

Imported after torch.
"""

import os
import sys
from typing import Any, Callable, Sequence

import torch.distributed.launcher.api as launcher
import torch.multiprocessing as multiprocessing


def install() -> None:
    """Replaces torchrun's start of workers, and torch.multiprocessing.spawn."""

    class Launch:
        """torch.distributed.launcher.api.elastic_launch for one rank in this process."""

        def __init__(self, config: Any, entrypoint: "Callable[..., Any] | str | None") -> None:
            self._entry = entrypoint

        def __call__(self, *args: Any) -> "dict[int, Any]":
            if callable(self._entry):
                return {0: self._entry(*args)}
            command = [str(self._entry), *map(str, args)]
            sys.stdout.flush()
            sys.stderr.flush()
            os.execvpe(command[0], command, os.environ)

    def spawn(
        function: Callable[..., Any], args: Sequence[Any] = (), *_args: Any, **_kwargs: Any
    ) -> None:
        function(0, *args)

    launcher.elastic_launch = Launch
    multiprocessing.spawn = spawn
