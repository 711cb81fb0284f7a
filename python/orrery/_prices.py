"""Dated prices of instances, servers and grids, with their sources."""

from __future__ import annotations

import os
from typing import Union

import pandas as pd

from orrery import _core

_COLUMNS = ["kind", "name", "gpu", "gpus", "value", "unit", "date", "source"]

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
    rows = _core.prices("" if file is None else os.fspath(file))
    return pd.DataFrame(rows, columns=_COLUMNS)
