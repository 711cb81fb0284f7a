"""Dated prices of instances, servers and grids, with their sources."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, List, Optional, Tuple, Union

import pandas as pd

from orrery._errors import InputError, UsageError

_COLUMNS = ["kind", "name", "gpu", "gpus", "value", "unit", "date", "source"]
_UNITS = {"instance": "USD/h", "purchase": "USD", "grid": "g/kWh"}

PriceFile = Union[None, str, "os.PathLike[str]"]


def prices(file: PriceFile = None) -> pd.DataFrame:
    """Return the dated table of prices and grid carbon, with sources.

    Parameters
    ----------
    file : path, optional
        Table of one's own (CSV, the same columns), whose rows replace shipped ones of the same
        kind and name, or add to them.

    Returns
    -------
    pandas.DataFrame
        ``kind``: ``"instance"`` (USD/h for all its GPUs), ``"purchase"`` (USD for a server) or
        ``"grid"`` (grams of carbon dioxide for a kilowatt-hour); ``name``, ``gpu``, ``gpus``,
        ``value``, ``unit``, ``date`` on which the value held, and ``source``.

    Raises
    ------
    InputError
        If a column is missing, or a row has another kind or unit, or no number above 0.
    """
    table = _read(Path(__file__).with_name("_prices.csv"))
    if file is None:
        return table
    own = _read(Path(file))
    keys = set(zip(own["kind"], own["name"]))
    kept = [key not in keys for key in zip(table["kind"], table["name"])]
    return pd.concat([own, table[kept]], ignore_index=True)


def _read(path: Path) -> pd.DataFrame:
    try:
        table = pd.read_csv(path)
    except OSError as error:
        text = f"{path}: {error.strerror}"
        raise InputError(text, error.strerror, str(path), 1, 1) from error
    missing = [name for name in _COLUMNS if name not in table]
    if missing:
        _refuse(path, 1, f"expected the columns {', '.join(_COLUMNS)}, found none named "
                         f"{', '.join(missing)}")  # fmt: skip
    for line, row in enumerate(table.to_dict("records"), start=2):
        unit = _UNITS.get(str(row["kind"]))
        if unit is None or row["unit"] != unit:
            _refuse(path, line, f"expected a kind of {_UNITS} with its unit, found "
                                f"{row['kind']!r} in {row['unit']!r}")  # fmt: skip
        value = pd.to_numeric(row["value"], errors="coerce")
        if not value > 0:
            _refuse(path, line, f"expected a value above 0, found {row['value']!r}")
    return table[_COLUMNS]


def _refuse(path: Path, line: int, message: str) -> None:
    raise InputError(f"{path}:{line}:1: error: {message}", message, str(path), line, 1)


def priced(
    instance: Optional[str], grid: Optional[str], file: PriceFile
) -> Tuple[Dict[str, str], List[str]]:
    """Changes of a scenario for an instance and a grid.

    Parameters
    ----------
    instance, grid : str, optional
        Names of the table.
    file : path, optional
        As for `prices`.

    Returns
    -------
    overrides : dict
        ``cluster.price.gpu_hour`` and ``cluster.price.carbon``.
    assumed : list of str
        Each value with its date and source.

    Raises
    ------
    UsageError
        If the table has no such name.
    """
    table = prices(file)
    overrides: Dict[str, str] = {}
    assumed: List[str] = []
    for kind, name in (("instance", instance), ("grid", grid)):
        if name is None:
            continue
        found = table[(table["kind"] == kind) & (table["name"] == name)]
        if found.empty:
            known = ", ".join(table.loc[table["kind"] == kind, "name"])
            raise UsageError(f"{kind}: expected one of {known}, found {name!r}")
        row = found.iloc[0]
        if kind == "instance":
            overrides["cluster.price.gpu_hour"] = f"{row['value'] / row['gpus']} USD/h"
        else:
            overrides["cluster.price.carbon"] = f"{row['value']}"
        assumed.append(f"{kind} {name}: {row['value']:g} {row['unit']} on {row['date']} "
                       f"({row['source']})")  # fmt: skip
    return overrides, assumed
