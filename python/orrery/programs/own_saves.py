"""Checkpoints that the program's own trainer writes, at steps that a policy chooses.

A Trainer of transformers or Lightning that saves every N steps gets its steps from the policy: it
saves at the end of a step if the plan says so, and not otherwise. Imported after torch.
"""

import sys
import time
from typing import Any, Callable, Optional

#: Reason of a program without a trainer that is known, and without orrery.torch.state().
NONE_FOUND = (
    "expected a program that calls orrery.torch.state(), or a Trainer of transformers or Lightning "
    "that saves every N steps, found none"
)


class OwnSaves:
    """Checkpoints of one trainer.

    Attributes
    ----------
    every : int
        Steps between two checkpoints, as the program says.

    Parameters
    ----------
    every : int
        The same.
    set_due : callable
        Called with True or False before the trainer decides whether to save behind a step; not
        called while the program's own steps apply.
    """

    def __init__(self, every: int, set_due: "Callable[[bool], None]") -> None:
        self.every = every
        self._set_due = set_due
        self._is_planned = False

    def plan_step(self, step: int, every: Optional[int], is_ordered: bool) -> None:
        """Lets the trainer save behind step `step` if a policy says so.

        Parameters
        ----------
        step : int
            Step that ends.
        every : int, optional
            Steps between two checkpoints, where a policy has set them.
        is_ordered : bool
            Whether a policy has ordered a checkpoint now.
        """
        self._is_planned = self._is_planned or every is not None
        planned = every if every is not None else self.every
        if self._is_planned or is_ordered:
            self._set_due(is_ordered or step % planned == 0)


def find_trainer() -> "tuple[Any, str]":
    """Return the trainer that calls this function, and the package that it is of.

    Returns
    -------
    tuple of object and str
        None and an empty text if no trainer is among the callers.
    """
    frame: Any = sys._getframe()
    while frame is not None:
        found = frame.f_locals.get("self")
        for kind in type(found).__mro__ if found is not None else ():
            package = kind.__module__.split(".")[0]
            if kind.__name__ == "Trainer" and package in _FOLLOWED:
                return found, package
        frame = frame.f_back
    return None, ""


def follow_trainer(report_save: "Callable[[bool, float], None]") -> "tuple[Any, str]":
    """Return the checkpoints of the calling trainer, and an empty text; or None and the reason.

    Parameters
    ----------
    report_save : callable
        Called by the rank that has written a checkpoint, with True and its seconds.
    """
    trainer, package = find_trainer()
    if trainer is None:
        return None, NONE_FOUND
    return _FOLLOWED[package](trainer, report_save)


def _timed(
    save: "Callable[..., Any]", writes: bool, report_save: "Callable[[bool, float], None]"
) -> "Callable[..., Any]":
    def saves(*arguments: Any, **named: Any) -> Any:
        begin_s = time.monotonic()
        result = save(*arguments, **named)
        if writes:
            report_save(True, time.monotonic() - begin_s)
        return result

    return saves


def _follow_transformers(trainer: Any, report_save: Any) -> "tuple[Any, str]":
    strategy = getattr(trainer.args.save_strategy, "value", trainer.args.save_strategy)
    if strategy != "steps":
        return None, (
            f"expected a Trainer with save_strategy='steps', found '{strategy}': set it, or call "
            f"orrery.torch.state()"
        )
    planned: "dict[str, bool]" = {}
    base: Any = sys.modules["transformers"].TrainerCallback

    class Plan(base):  # type: ignore[misc]
        """Saves at the steps of the policy, in place of those of the program."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Sets whether the trainer saves; behind the last step it saves as it would."""
            if "is_due" in planned and state.global_step < state.max_steps:
                control.should_save = planned.pop("is_due")

    trainer.add_callback(Plan())
    trainer._save_checkpoint = _timed(
        trainer._save_checkpoint, bool(trainer.args.should_save), report_save
    )
    return OwnSaves(
        max(1, int(trainer.state.save_steps)), lambda is_due: planned.update(is_due=is_due)
    ), ""


def _follow_lightning(trainer: Any, report_save: Any) -> "tuple[Any, str]":
    found = [
        each
        for each in trainer.checkpoint_callbacks
        if getattr(each, "_every_n_train_steps", 0) >= 1
    ]
    if not found:
        return None, (
            "expected a Trainer with ModelCheckpoint(every_n_train_steps=N), found none: add it, "
            "or call orrery.torch.state()"
        )
    callback = found[0]
    trainer.save_checkpoint = _timed(
        trainer.save_checkpoint, bool(trainer.is_global_zero), report_save
    )
    own: int = callback._every_n_train_steps

    def set_due(is_due: bool) -> None:
        callback._every_n_train_steps = 1 if is_due else 0

    return OwnSaves(own, set_due), ""


_FOLLOWED: "dict[str, Callable[[Any, Any], tuple[Any, str]]]" = {
    "transformers": _follow_transformers,
    "lightning": _follow_lightning,
    "pytorch_lightning": _follow_lightning,
}
