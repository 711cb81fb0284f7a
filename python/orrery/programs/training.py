"""State of a user's training loop (orrery.torch.state): position, snapshots, resumption."""

import os
import pathlib
import sys
import time
from typing import Any, Iterable, Iterator, Optional

from .joining import join_others, meet_others, wait_for_state
from .parts import has_shards, load_parts, random_states, set_random_states, stored_parts
from .snapshots import SnapshotFolder, rank_and_size, read_file, write_file


class TrainingState:
    """Position of a training loop, with the parts that a snapshot contains.

    Attributes
    ----------
    step : int
        Number of steps that are trained, over all starts of the program.
    """

    def __init__(
        self,
        parts: "dict[str, Any]",
        every: int,
        folder: Optional[SnapshotFolder],
        attachment: Any = None,
    ) -> None:
        self.step = 0
        self._attachment = attachment
        self._steering: Any = None if attachment is None else attachment.steering
        self._module: Any = None if attachment is None else attachment.module()
        self._joins = attachment is not None and attachment.replaces
        self._operations: "list[str]" = []
        self._parts = parts
        self._every = every
        self._folder = folder
        self._pass = 0
        self._position = 0
        self._pass_states: "dict[str, Any]" = {}
        self._resumed: "Optional[dict[str, Any]]" = None

    def steps(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yields the items that are not trained yet; one item is one step.

        The step ends when the loop asks for the next item: a snapshot follows if it is due. Call it
        once for each pass over the data. After a resumption the passes that are trained are empty,
        and trained items of the next pass are read and dropped. Give a loader itself, not
        `enumerate(loader)`, so that its order is that of the first start.

        Parameters
        ----------
        items : iterable
            Batches, or a range of steps.
        """
        self._pass += 1
        if self._joins and self._resumed is None:
            self._wait_for_state()
        resumed = self._resumed
        if resumed is not None and self._pass < resumed["pass"]:
            return
        if resumed is not None and resumed["pass_states"]:
            set_random_states(resumed["pass_states"])
        self._pass_states = random_states()
        self._position = 0
        remaining = iter(items)
        if resumed is not None:
            self._skip_items(remaining, resumed)
        for item in remaining:
            yield item
            self._end_step()

    def load_newest_snapshot(self) -> None:
        """Loads the newest complete snapshot; without one the loop begins at its first step."""
        if self._folder is None:
            return
        state, is_own = self._folder.load_newest()
        if state is None:
            return
        if not is_own:  # the random states of another rank would repeat its data
            state = {**state, "states": None, "pass_states": None}
        self._resume(state)
        if self._attachment is not None and rank_and_size()[0] == 0:
            self._attachment.send_fields("resumed", str(self.step))

    @property
    def kind(self) -> str:
        """"whole" if every rank has all of the state, else "sharded"."""
        return "sharded" if has_shards(self._parts) else "whole"

    @property
    def every(self) -> int:
        """Steps between two snapshots: those of a policy, else those that the program says."""
        planned: Optional[int] = None if self._steering is None else self._steering.every
        return self._every if planned is None else planned

    def report_state(self, own_folder: "Optional[str | os.PathLike[str]]" = None) -> None:
        """Tells the command line, which may then replace a lost rank, that this object exists.

        Parameters
        ----------
        own_folder : path, optional
            Folder of snapshots that the program has named, and that outlives the run.
        """
        if self._attachment is not None:
            folder = "" if own_folder is None else os.path.abspath(own_folder)
            self._attachment.send_fields("state", self.kind, folder)
        if self._steering is not None:
            self._steering.use_steps_of(self)

    def _resume(self, state: "dict[str, Any]") -> None:
        self._resumed = state
        self.step = state["step"]
        load_parts(self._parts, state["parts"])

    def _skip_items(self, items: Iterator[Any], resumed: "dict[str, Any]") -> None:
        """Drops the items that are trained, and restores what code before the pass has changed."""
        for _ in range(resumed["position"]):
            next(items, None)
        self._position = resumed["position"]
        load_parts(self._parts, resumed["parts"])
        if resumed["states"]:
            set_random_states(resumed["states"])
        self._resumed = None
        if self._joins:
            self._join_others()

    def _wait_for_state(self) -> None:
        """Waits until the other ranks are between two steps, and loads the state of one of them."""
        path, self._operations = wait_for_state(self._module)
        self._resume(read_file(path))

    def _join_others(self) -> None:
        """Becomes a member: all groups continue with the numbers of the others' operations."""
        join_others(self._attachment, self._module, self._operations)
        self._joins = False

    def _meet_others(self) -> None:
        """Waits between two steps until a new process has joined, and gives it the state."""

        def write_state(path: pathlib.Path) -> None:
            write_file(path, {**self._stored(), "states": None, "pass_states": None})

        meet_others(self._module, write_state, self._save)

    def _end_step(self) -> None:
        self.step += 1
        self._position += 1
        if self._steering is not None:
            self._steering.end_step()
        self._save_if_due()
        if self._module is not None and self._module.mark_step(self.step):
            self._meet_others()
        if self._steering is not None:
            self._steering.begin_step()

    def _save_if_due(self) -> None:
        is_ordered = self._steering is not None and self._steering.drain_save()
        is_due = self.every > 0 and self.step % self.every == 0
        if self._folder is not None and (is_due or is_ordered):
            self._save()

    def _save(self) -> None:
        begin_s = time.monotonic()
        is_complete = self._folder is not None and self._folder.save(self.step, self._stored())
        if self._steering is not None:
            self._steering.report_save(is_complete, time.monotonic() - begin_s)
        elif self._attachment is not None:
            self._attachment.send_fields("snapshot" if is_complete else "unsaved", str(self.step))

    def _stored(self) -> "dict[str, Any]":
        return {
            "step": self.step,
            "pass": self._pass,
            "position": self._position,
            "parts": stored_parts(self._parts),
            "states": random_states(),
            "pass_states": self._pass_states,
        }


def check_arguments(parts: "dict[str, Any]", every: int, keep: int) -> None:
    """Raises TypeError or ValueError for arguments of orrery.torch.state that are none."""
    if not parts:
        raise TypeError("expected the parts of a training, as model=model, found none")
    for name, part in parts.items():
        for method in ("state_dict", "load_state_dict"):
            if not hasattr(part, method):
                raise TypeError(
                    f"{name}: expected an object with {method}(), found {type(part).__name__}"
                )
    for name, value in (("every", every), ("keep", keep)):
        if value < 1:
            raise ValueError(f"{name}: expected at least 1, found {value}")
    if rank_and_size()[1] == 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RuntimeError(
            "expected an initialised process group, found none: call "
            "torch.distributed.init_process_group() before orrery.torch.state()"
        )


def state_tier(has_folder: bool) -> None:
    """Writes the tier of a program of several ranks that `orrery run` has not attached: one line.

    Parameters
    ----------
    has_folder : bool
        Whether snapshots are written.
    """
    rank, size = rank_and_size()
    if rank != 0 or size == 1:
        return
    if not has_folder:
        sys.stderr.write("orrery: no tier: outside `orrery run`, snapshots need folder=PATH\n")
    elif "TORCHELASTIC_RUN_ID" in os.environ:
        sys.stderr.write(
            "orrery: tier T1 only, because torchrun ends all workers when one is lost: with "
            "--max-restarts they start again from the newest snapshot\n"
        )
    else:
        sys.stderr.write(
            "orrery: tier T1 only, because the program runs outside `orrery run`: start all ranks "
            "again to resume from the newest snapshot\n"
        )


def begin_training(
    parts: "dict[str, Any]",
    every: int,
    folder: "Optional[str | os.PathLike[str]]",
    keep: int,
) -> TrainingState:
    """Return the state of a training loop, resumed from its newest snapshot."""
    check_arguments(parts, every, keep)
    running = sys.modules.get("orrery_programs.running")
    attachment = None if running is None else running.attachment
    named = folder
    if folder is None and attachment is not None:
        folder = attachment.snapshot_folder
    snapshots = None if folder is None else SnapshotFolder(folder, keep)
    if attachment is None:
        state_tier(snapshots is not None)
    made = TrainingState(parts, every, snapshots, attachment)
    if attachment is None or not attachment.replaces:
        made.load_newest_snapshot()
    made.report_state(named)
    return made


__all__ = ["TrainingState", "begin_training"]
