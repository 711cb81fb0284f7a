"""Snapshots of all ranks in a folder: written atomically, chosen, and deleted.

A snapshot is the folder ``step-N`` with one file for each rank and the file ``complete.json``,
which is written last, once every rank has written its own. A snapshot without ``complete.json``, or
with a file of another size than stated there, does not count.
"""

import json
import os
import pathlib
import shutil
import sys
from typing import Any, Optional

import torch
import torch.distributed as dist

COMPLETE = "complete.json"


def rank_and_size() -> "tuple[int, int]":
    """Return this process's rank and the number of ranks; 0 and 1 without a process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def gather_values(value: Any) -> "dict[int, Any]":
    """Return the value of every living rank, by rank. A collective call."""
    rank, size = rank_and_size()
    if size == 1:
        return {rank: value}
    entries: "list[Any]" = [None] * size
    dist.all_gather_object(entries, (rank, value))
    return dict(entries)


def write_file(path: pathlib.Path, state: Any) -> int:
    """Writes a state under another name first, and renames the file. Return its bytes."""
    unfinished = path.with_suffix(".unfinished")
    with open(unfinished, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
    return path.stat().st_size


def read_file(path: pathlib.Path) -> Any:
    """Return the state in a file, with its tensors on the CPU."""
    return torch.load(path, map_location="cpu", weights_only=False)


class SnapshotFolder:
    """Folder with the snapshots of one training.

    Parameters
    ----------
    path : path
        Folder, which is created with the first snapshot.
    keep : int
        Complete snapshots that are kept.
    """

    def __init__(self, path: "str | os.PathLike[str]", keep: int) -> None:
        self._path = pathlib.Path(path)
        self._keep = keep
        self._has_warned = False

    def load_newest(self) -> "tuple[Any, bool]":
        """Return this rank's state in the newest complete snapshot; None if there is none.

        A collective call: all ranks load the same snapshot. Incomplete ones are deleted. The second
        value is False if the snapshot lacks this rank and the state is that of its first rank.

        Raises
        ------
        ValueError
            If the snapshot is one of another number of ranks.
        """
        rank, size = rank_and_size()
        complete = self._complete_snapshots()
        chosen = gather_values(max(complete, default=0))
        step: int = chosen[min(chosen)]
        if rank == min(chosen):
            self._delete_except(set(complete))
        if step == 0:
            return None, True
        folder = self._folder_of(step)
        stated = _read_marker(folder)
        if stated is None or stated["size"] != size:
            found = "one that another program deletes" if stated is None else stated["size"]
            raise ValueError(
                f"{folder}: expected a snapshot of {size} ranks, found {found}: start the program "
                f"with as many ranks, or name another folder"
            )
        ranks = sorted(map(int, stated["bytes"]))
        own = rank in ranks
        return read_file(_file_of(folder, rank if own else ranks[0])), own

    def save(self, step: int, state: Any) -> bool:
        """Writes a snapshot and deletes old ones. Return True if the snapshot is complete.

        A collective call. A rank that cannot write its file writes one line to standard error, and
        the snapshot stays incomplete.
        """
        rank, size = rank_and_size()
        folder = self._folder_of(step)
        written: Optional[int] = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            written = write_file(_file_of(folder, rank), state)
        except OSError as error:
            self._warn(f"cannot write a snapshot: {error}: the newest complete one stays")
        sizes = gather_values(written)
        if None in sizes.values():
            return False
        if rank == min(sizes):
            try:
                _write_marker(folder, {"step": step, "size": size, "bytes": sizes})
                newest = sorted(self._complete_snapshots())[-self._keep :]
                self._delete_except({*newest, step})
            except OSError as error:
                self._warn(f"cannot complete a snapshot: {error}: the newest complete one stays")
        return True

    def _folder_of(self, step: int) -> pathlib.Path:
        return self._path / f"step-{step:09d}"

    def _complete_snapshots(self) -> "list[int]":
        steps = []
        for folder in self._path.glob("step-*"):
            stated = _read_marker(folder)
            if stated is not None and all(
                _has_bytes(_file_of(folder, int(rank)), count)
                for rank, count in stated["bytes"].items()
            ):
                steps.append(int(stated["step"]))
        return steps

    def _delete_except(self, kept: "set[int]") -> None:
        names = {self._folder_of(step).name for step in kept}
        for folder in self._path.glob("step-*"):
            if folder.name not in names:
                (folder / COMPLETE).unlink(missing_ok=True)  # never complete without its files
                shutil.rmtree(folder, ignore_errors=True)

    def _warn(self, text: str) -> None:
        if not self._has_warned:
            sys.stderr.write(f"orrery: {text}\n")
        self._has_warned = True


def _file_of(folder: pathlib.Path, rank: int) -> pathlib.Path:
    return folder / f"rank-{rank:05d}.pt"


def _has_bytes(path: pathlib.Path, count: int) -> bool:
    try:
        return path.stat().st_size == count
    except OSError:
        return False


def _read_marker(folder: pathlib.Path) -> Any:
    """Return the content of complete.json; None if the file is missing or damaged."""
    try:
        stated = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_whole = isinstance(stated, dict) and {"step", "size", "bytes"} <= set(stated)
    return stated if is_whole else None


def _write_marker(folder: pathlib.Path, content: "dict[str, Any]") -> None:
    unfinished = folder / f"{COMPLETE}.unfinished"
    with open(unfinished, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, folder / COMPLETE)
