"""Main figures of a table of runs, in units to read."""

from __future__ import annotations

import pandas as pd

# Column of a report, its name in the summary, and the number of its units in one unit of that.
_FIGURES = (
    ("ranks", "ranks", 1),
    ("elapsed_s", "days", 86_400),
    ("step_time_s", "step (s)", 1),
    ("tokens_per_s", "tokens/s", 1),
    ("mfu", "MFU", 1),
    ("goodput", "goodput", 1),
    ("memory_per_gpu_bytes", "GiB a GPU", 2**30),
    ("energy_j", "MWh", 3.6e9),
    ("cost_usd", "USD", 1),
)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """The main figures of a table of `orrery.sweep` or `orrery.futures`, in units to read.

    Parameters
    ----------
    table : pandas.DataFrame
        All of such a table, or some of its rows.

    Returns
    -------
    pandas.DataFrame
        One row for each row of `table`, with its index. Columns: those of the table before the
        report's (the keys of the grid, or choice and future), then of ``ranks``, ``days``,
        ``step (s)``, ``tokens/s``, ``MFU``, ``goodput``, ``GiB a GPU``, ``MWh`` and ``USD`` those
        that at least one run has; ``MFU`` and ``goodput`` are fractions. ``status``, if a point
        could not be simulated.

    Raises
    ------
    ValueError
        If the table has no columns of a report.
    """
    names = list(table.columns)
    if "mode" not in names:  # the first key of every report
        raise ValueError(
            "expected a table of orrery.sweep or orrery.futures, found no column 'mode'"
        )
    out = table[names[: names.index("mode")]].copy()
    for column, name, size in _FIGURES:
        if column in out.columns or column not in names or table[column].isna().all():
            continue
        out[name] = pd.to_numeric(table[column]) / size
    if "status" in names and (table["status"] != "ok").any():
        out["status"] = table["status"]
    return out
