"""Tables of samples: one NumPy array for each column, read when it is asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt
import pandas as pd

from orrery import _core

_ROWS = {
    "ranks": (("job", "u4"), ("rank", "u4"), ("step", "u8")),
    "devices": (("gpu", "u4"),),
    "links": (("from_gpu", "u4"), ("to_gpu", "u4")),
}
_VALUES = {
    "ranks": (
        "micro_batches_done",
        "micro_batch_time",
        "wait_time",
        "gradient_variance",
        "noise_scale",
        "input_wait",
    ),
    "devices": ("utilization", "memory_bandwidth", "memory_used", "power"),
    "links": ("latency", "bandwidth"),
}
_AGE = "_age"


def key_arrays(kind: str, keys: _core.SampleRows) -> Dict[str, npt.NDArray[Any]]:
    """Return the columns that say which rank, GPU or path a row is about."""
    ids: npt.NDArray[Any] = np.frombuffer(keys.ids(), dtype=np.uint32)
    if kind == "ranks":
        return {"rank": ids, "step": np.frombuffer(keys.steps(), dtype=np.uint64)}
    if kind == "devices":
        return {"gpu": ids}
    return {"from_gpu": ids, "to_gpu": np.frombuffer(keys.to(), dtype=np.uint32)}


def values_of(column: _core.SampleColumn, ages: bool = False) -> npt.NDArray[Any]:
    """Return the values of a column without a copy, or the ages of its samples in seconds."""
    source: Any = column.ages() if ages else column
    return np.frombuffer(source, dtype=np.float64)


class SampleTable:
    """Samples of the ranks, GPUs or paths of a job: an array of shape (n,) for each column.

    ``table["micro_batch_time"]`` is a NumPy array that shares the memory of the telemetry and
    cannot be written. A column is read on the first access, and only then recorded in the log; a
    column that was read may be kept after ``observe()``, others can no longer be read then, nor the
    length of a table without such a column. Any other index, an iteration and
    ``numpy.asarray(table)`` read all columns and give rows of a structured array.
    """

    def __init__(self, observed: _core.Observed, kind: str, job: int) -> None:
        self._observed = observed
        self._kind = kind
        self._job = job
        self._call = observed.sequence  # raises RuntimeError after the call
        self._read: Dict[str, npt.NDArray[Any]] = {}
        self._columns: Dict[str, _core.SampleColumn] = {}
        self._rows: Optional[npt.NDArray[np.void]] = None

    @cached_property
    def _keys(self) -> _core.SampleRows:
        return self._observed.sample_rows(self._kind, self._job)

    @cached_property
    def _length(self) -> int:
        return len(self._keys)

    @property
    def dtype(self) -> "np.dtype[Any]":
        """Names and types of the columns, as of a structured array."""
        columns: List[Tuple[str, str]] = list(_ROWS[self._kind])
        for name in _VALUES[self._kind]:
            columns += [(name, "f8"), (name + _AGE, "f8")]
        return np.dtype(columns)

    @property
    def shape(self) -> Tuple[int]:
        """Number of rows, as a tuple."""
        return (self._length,)

    @property
    def size(self) -> int:
        """Number of rows."""
        return self._length

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one column.

        Parameters
        ----------
        name : str
            Name of the column; with ``_age`` behind it the age of each of its samples in seconds.

        Returns
        -------
        numpy.ndarray
            Values of all rows; NaN where a sample is missing.

        Raises
        ------
        ValueError
            If the table has no such column.
        RuntimeError
            If the column was not read inside ``observe()``.
        """
        if name not in self._read:
            self._read[name] = self._fetch(name)
        return self._read[name]

    def _fetch(self, name: str) -> npt.NDArray[Any]:
        if name == "job" and self._kind == "ranks":
            return np.full(self._length, self._job, dtype=np.uint32)
        if name in dict(_ROWS[self._kind]):
            return key_arrays(self._kind, self._keys)[name]
        is_age = name.endswith(_AGE)
        field = name[: -len(_AGE)] if is_age else name
        if field not in _VALUES[self._kind]:
            raise ValueError(f"no field of name {name}; known: {', '.join(self.dtype.names or ())}")
        if field not in self._columns:
            self._columns[field] = self._observed.sample_column(field, self._job)
            # The rows came with the first column: one message to the process of the run, not two.
            self._keys
        return values_of(self._columns[field], is_age)

    def rows(self) -> npt.NDArray[np.void]:
        """Return all columns together.

        Returns
        -------
        numpy.ndarray
            Structured array, a copy; one element a row.
        """
        if self._rows is None:
            rows = np.empty(self._length, dtype=self.dtype)
            for name in self.dtype.names or ():
                rows[name] = self.column(name)
            self._rows = rows
        return self._rows

    def to_frame(self) -> pd.DataFrame:
        """Return all columns as a DataFrame.

        Returns
        -------
        pandas.DataFrame
            One row a rank, GPU or path.
        """
        return pd.DataFrame({name: self.column(name) for name in self.dtype.names or ()})

    def __getitem__(self, index: Any) -> Any:
        return self.column(index) if isinstance(index, str) else self.rows()[index]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[np.void]:
        return iter(self.rows())

    def __array__(
        self, dtype: Optional[Union[str, "np.dtype[Any]"]] = None, copy: Optional[bool] = None
    ) -> npt.NDArray[Any]:
        rows = self.rows()
        return rows if dtype is None else rows.astype(dtype)

    def __repr__(self) -> str:
        return f"<orrery.SampleTable: {self._kind} of job {self._job}, {self._length} rows>"
