"""New processes in the loops of trainers: transformers and Lightning (tier T2). Imported after
torch.

The ranks meet between two steps of their trainer. One of them writes the checkpoint with which the
trainer would resume, and the trainer of the new process resumes from it, with the data behind the
trained ones.
"""

import functools
import inspect
import os
import pathlib
import shutil
import sys
from types import ModuleType
from typing import Any, Callable, Optional

import torch
from torch.nn.parallel import DistributedDataParallel

from .importing import on_import_of
from .joining import join_others, keep_own_objects, meet_others, wait_for_state
from .snapshots import read_file, write_file

#: Modules whose import defines the trainers.
TRANSFORMERS = "transformers.trainer"
LIGHTNING = ("lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer")


class TrainerSteps:
    """Steps of the trainers of this process, between which a new process can join.

    Parameters
    ----------
    attachment : Attachment
        Attachment of this process.
    """

    def __init__(self, attachment: Any) -> None:
        self._attachment = attachment
        self._trainings = 0  # trainings that the program has begun
        self._marked = 0  # steps of all trainings
        self._step: Optional[int] = None  # steps of this training; None before its first one
        self._operations: "Optional[list[str]]" = None

    def begin_training(self) -> Optional[pathlib.Path]:
        """Begins a training; returns the checkpoint to resume from if this process is to join.

        Blocks in such a process until the others wait between two steps.

        Raises
        ------
        RuntimeError
            If the others are in a later training of the program.
        """
        self._trainings += 1
        self._step = None
        module = self._attachment.module() if self._attachment.replaces else None
        if module is None:
            return None
        path, self._operations = wait_for_state(module)
        given = read_file(path)
        if given["training"] != self._trainings:
            raise RuntimeError(
                f"expected the other ranks in training {self._trainings} of the program, found "
                f"training {given['training']}: a lost rank returns in the first one only"
            )
        self._marked, self._attachment.steps = given["marked"], given["steps"]
        return _checkpoint_of(path)

    @property
    def is_joining(self) -> bool:
        """True from the checkpoint on until this process has joined the others."""
        return self._operations is not None

    @property
    def admits_joins(self) -> bool:
        """True if a new process can join this training."""
        return self._step is not None

    def begin_step(
        self, step: int, model: Any, write_checkpoint: "Callable[[pathlib.Path], Any]"
    ) -> None:
        """Begins the step behind `step` steps of this training: joins, or meets a new process.

        Parameters
        ----------
        step : int
            Steps that are trained.
        model : object
            Model as the trainer has wrapped it. Only a DistributedDataParallel is whole on every
            rank.
        write_checkpoint : callable
            Writes the checkpoint of the trainer to a path. Called on one rank.
        """
        module = self._attachment.module()
        if module is None or not isinstance(model, DistributedDataParallel):
            return  # without the steps, admits_joins stays False
        before, self._step = self._step, step
        if self._operations is not None:
            join_others(self._attachment, module, self._operations)
            self._operations = None
        elif before is None:
            self._attachment.send_fields("state", "whole", "")
        elif step != before:
            self._marked += 1
            if module.mark_step(self._marked):
                meet_others(module, lambda path: self._write(path, write_checkpoint), _save_nothing)

    def _write(
        self, path: pathlib.Path, write_checkpoint: "Callable[[pathlib.Path], Any]"
    ) -> None:
        write_checkpoint(_checkpoint_of(path))
        facts = {"training": self._trainings, "marked": self._marked}
        write_file(path, {**facts, "steps": self._attachment.steps})


def _checkpoint_of(path: pathlib.Path) -> pathlib.Path:
    """Return the path of the trainer's checkpoint beside the file of the state."""
    return path.with_name(f"{path.name}-of-trainer")


def _save_nothing() -> None:
    """Snapshots of an operator are for orrery.torch.state() only."""


def install(attachment: Any) -> None:
    """Follows the trainers of transformers and Lightning, once the program imports them."""
    steps = attachment.trainer_steps = TrainerSteps(attachment)
    keep_own_objects(attachment)
    on_import_of(TRANSFORMERS, lambda module: follow_transformers(module, steps))
    for name in LIGHTNING:
        on_import_of(name, lambda module: follow_lightning(module, steps))


def follow_transformers(module: ModuleType, steps: TrainerSteps) -> None:
    """Lets new processes join the trainer of transformers.

    Parameters
    ----------
    module : module
        transformers.trainer.
    steps : TrainerSteps
        Steps of this process.
    """
    kind: Any = module.Trainer
    fetch: Any = kind.get_batch_samples
    train: Any = kind.train

    @functools.wraps(fetch)
    def get_batch_samples(self: Any, iterator: Any, count: int, *more: Any, **named: Any) -> Any:
        # The data come first: a pass over them begins with a broadcast of all ranks.
        batches = [batch for _, batch in zip(range(count), iterator)]
        steps.begin_step(
            self.state.global_step,
            self.model_wrapped,
            lambda path: _write_of_transformers(self, path),
        )
        return fetch(self, iter(batches), count, *more, **named)

    @functools.wraps(train)
    def train_or_join(self: Any, *positional: Any, **named: Any) -> Any:
        checkpoint = steps.begin_training()
        if checkpoint is None:
            return train(self, *positional, **named)
        self.args.ignore_data_skip = False
        named.pop("resume_from_checkpoint", None)
        return train(self, str(checkpoint), *positional[1:], **named)

    kind.get_batch_samples = get_batch_samples
    kind.train = train_or_join


def _write_of_transformers(trainer: Any, folder: pathlib.Path) -> None:
    """Writes the files from which trainer.train(resume_from_checkpoint=folder) resumes.

    The trainer itself writes them on rank 0 only, which may be the lost rank.
    """
    names = sys.modules[TRANSFORMERS]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    states = {
        "WEIGHTS_NAME": trainer.model,
        "OPTIMIZER_NAME": trainer.optimizer,
        "SCHEDULER_NAME": trainer.lr_scheduler,
        "SCALER_NAME": getattr(trainer.accelerator, "scaler", None),
    }
    for name, part in states.items():
        if part is not None:
            torch.save(part.state_dict(), folder / getattr(names, name))
    state = trainer.state
    exportable: Any = sys.modules["transformers.trainer_callback"].ExportableState
    kept = dict(state.stateful_callbacks)
    for callback in [*trainer.callback_handler.callbacks, trainer.control]:
        if isinstance(callback, exportable):
            state.stateful_callbacks[type(callback).__name__] = callback.state()
    state.save_to_json(os.fspath(folder / names.TRAINER_STATE_NAME))
    state.stateful_callbacks = kept


def follow_lightning(module: ModuleType, steps: TrainerSteps) -> None:
    """Lets new processes join the trainer of Lightning.

    Parameters
    ----------
    module : module
        The module trainer.trainer of Lightning.
    steps : TrainerSteps
        Steps of this process.
    """
    package = module.__name__.removesuffix(".trainer.trainer")
    kind: Any = module.Trainer
    loop: Any = sys.modules[f"{package}.loops.training_epoch_loop"]._TrainingEpochLoop
    strategy: Any = sys.modules[f"{package}.strategies.ddp"].DDPStrategy
    fit: Any = kind.fit
    advance: Any = loop.advance
    broadcast: Any = strategy.broadcast
    signature = inspect.signature(fit)

    @functools.wraps(fit)
    def fit_or_join(*positional: Any, **named: Any) -> Any:
        checkpoint = steps.begin_training()
        if checkpoint is None:
            return fit(*positional, **named)
        bound = signature.bind(*positional, **named)
        bound.arguments["ckpt_path"] = os.fspath(checkpoint)
        if "weights_only" in signature.parameters:
            bound.arguments["weights_only"] = False
        return fit(*bound.args, **bound.kwargs)

    @functools.wraps(advance)
    def advance_between_joins(self: Any, fetcher: Any) -> Any:
        if steps.is_joining:
            _skip_batches(self, fetcher)
        trainer = self.trainer
        steps.begin_step(
            self.global_step,
            None if _reads_itself(fetcher) else trainer.strategy.model,
            lambda path: write_file(path, trainer._checkpoint_connector.dump_checkpoint(False)),
        )
        return advance(self, fetcher)

    @functools.wraps(broadcast)
    def broadcast_or_keep(self: Any, obj: Any, *more: Any, **named: Any) -> Any:
        return obj if steps.is_joining else broadcast(self, obj, *more, **named)

    kind.fit = fit_or_join
    loop.advance = advance_between_joins
    strategy.broadcast = broadcast_or_keep


def _reads_itself(fetcher: Any) -> bool:
    """Return True if the step of the program reads the batches: nobody else can drop some."""
    return type(fetcher).__name__ == "_DataLoaderIterDataFetcher"


def _skip_batches(loop: Any, fetcher: Any) -> None:
    """Drops the batches of this pass that the others have trained.

    Lightning itself begins a resumed pass with its first batch, unless the loader has a state.
    """
    loaders = loop.trainer.fit_loop._combined_loader.flattened
    if all(hasattr(loader, "load_state_dict") for loader in loaders):
        return
    iter(fetcher)  # anew, with the number of this pass
    for _ in range(loop.batch_progress.current.ready):
        next(fetcher)
