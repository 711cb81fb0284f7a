"""Readers of training data that a policy sets, in place of the program's own. Imported after torch.

The processes of a DataLoader, and the batches that they read ahead, are fixed for one pass over the
data: PyTorch starts the processes at the begin of a pass. Readers that a policy sets therefore
begin with the next pass over the loader of the training data. The batches and their order stay as
they are. Example: 4 readers and 8 batches ahead are num_workers=4 and prefetch_factor=2.
"""

import os
import weakref
from typing import Any, Iterator, Optional

import torch
from torch.utils.data import DataLoader, IterableDataset

#: Share of the free memory, and of the free shared memory, that batches read ahead may take.
MEMORY_SHARE = 0.5
#: Folder through which the processes of a DataLoader pass their batches.
SHARED_MEMORY = "/dev/shm"


def bytes_of(batch: Any) -> int:
    """Return the bytes of the tensors in a batch: a tensor, or lists and dicts of tensors."""
    if isinstance(batch, torch.Tensor):
        return batch.numel() * batch.element_size()
    if isinstance(batch, dict):
        return sum(map(bytes_of, batch.values()))
    return sum(map(bytes_of, batch)) if isinstance(batch, (list, tuple)) else 0


def free_memory() -> int:
    """Return the bytes of memory that batches could take on this machine."""
    shared = os.statvfs(SHARED_MEMORY)
    with open("/proc/meminfo", encoding="ascii") as lines:
        words = [line.split() for line in lines]
    available = next(int(line[1]) * 1024 for line in words if line[0] == "MemAvailable:")
    return min(available, shared.f_bavail * shared.f_frsize)


def readers_of(loader: Any) -> "tuple[int, int]":
    """Return the processes of a loader, and the batches that they read ahead, all together."""
    return loader.num_workers, loader.num_workers * (loader.prefetch_factor or 0)


class Prefetching:
    """Readers of this rank.

    Attributes
    ----------
    target : tuple of int, optional
        Processes, and batches that they read ahead, that a policy has set.
    in_force : tuple of int
        Those of the newest batch of the training data; zeros if they cannot be set, and for the
        first batch of a pass, which waits until the processes have started.
    """

    def __init__(self) -> None:
        self.target: "Optional[tuple[int, int]]" = None
        self.in_force = (0, 0)
        self._loader: Any = lambda: None
        self._batch_bytes = 0
        self._is_chosen = False
        self._can_be_set = False

    def begin_pass(self, loader: Any) -> Optional[int]:
        """Gives a loader the readers that a policy has set, before a pass over its data.

        Returns
        -------
        int, optional
            Seed of persistent processes that others are to replace; None otherwise.
        """
        target = self.target
        if target is None or not self._is_chosen or self._loader() is not loader:
            return None
        if loader.__dict__.get("_orrery_readers") == target:
            return None
        workers, depth = target
        loader.num_workers = workers
        loader.prefetch_factor = max(1, depth // workers)
        loader.__dict__["_orrery_readers"] = target
        persistent, loader._iterator = loader._iterator, None
        return None if persistent is None else int(persistent._base_seed)

    def note_pass(self, loader: Any, iterator: Any) -> None:
        """Records the readers of a pass that begins."""
        readers = loader.__dict__.get("_orrery_readers") or readers_of(loader)
        iterator.__dict__["_orrery_pass"] = (weakref.ref(loader), readers)

    def note_batch(self, iterator: Any, batch: Any) -> None:
        """Records that the program has fetched a batch.

        The loader of the newest batch before the first step is that of the training data.
        """
        if self._is_chosen and not self._can_be_set:
            return
        loader, readers = iterator.__dict__.get("_orrery_pass") or (lambda: None, (0, 0))
        if not self._is_chosen:
            self._loader, self.in_force = loader, readers
            self._batch_bytes = bytes_of(batch)
        elif loader() is self._loader():
            self.in_force = readers if iterator._num_yielded > 1 else (0, 0)

    def facts(self) -> "tuple[int, int, int, int, str]":
        """Return the readers, the largest numbers for this machine, and an empty text.

        If readers cannot be set: zeros, and the reason. Call before the first step.
        """
        self._is_chosen = True
        loader = self._loader()
        problem = problem_of_loader(loader)
        if problem:
            self.in_force = (0, 0)
            return 0, 0, 0, 0, problem
        self._can_be_set = True
        workers, depth = self.in_force
        ranks = int(os.environ["WORLD_SIZE"])
        processors = len(os.sched_getaffinity(0)) // ranks
        batches = int(free_memory() * MEMORY_SHARE / ranks / max(1, self._batch_bytes))
        return workers, depth, max(workers, processors), max(depth, min(batches, 10000)), ""


def problem_of_loader(loader: Any) -> str:
    """Return why the readers of a loader cannot be set; empty if they can."""
    if loader is None:
        return "expected a DataLoader, found none"
    if isinstance(loader.dataset, IterableDataset):
        return (
            "expected a dataset with an index, found an IterableDataset, which divides its data "
            "among the processes of the loader"
        )
    if loader.num_workers == 0:
        return (
            "expected a DataLoader with num_workers above 0, found one that reads in the "
            "program's own process"
        )
    return ""


def install(attachment: Any) -> None:
    """Sets the readers of passes that begin, and measures the batches."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    prefetching = attachment.steering.prefetching
    begin, fetch = DataLoader.__iter__, _BaseDataLoaderIter.__next__

    def begin_with_readers(self: Any) -> Iterator[Any]:
        seed = prefetching.begin_pass(self)
        own = self.generator
        if seed is not None:  # a seed for new processes would change the program's random numbers
            self.generator = torch.Generator().manual_seed(seed)
        iterator: Iterator[Any] = begin(self)
        self.generator = own
        prefetching.note_pass(self, iterator)
        return iterator

    def fetch_noted(self: Any) -> Any:
        batch = fetch(self)
        prefetching.note_batch(self, batch)
        return batch

    DataLoader.__iter__ = begin_with_readers
    _BaseDataLoaderIter.__next__ = fetch_noted
