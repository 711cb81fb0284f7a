"""Packages of the extras, and plotting backend of pandas where matplotlib is not installed."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from typing import Any, Callable

import pandas as pd

EXTRAS = {"ipywidgets": "notebook", "matplotlib": "plot", "torch": "torch"}


def require(package: str, user: str) -> Any:
    """Import a package of an extra.

    Parameters
    ----------
    package : str
        The package, for example ``"matplotlib"``.
    user : str
        The function that needs it, for the message.

    Returns
    -------
    module
        The package.

    Raises
    ------
    ModuleNotFoundError
        If the package is not installed; the message names the extra, or the package where no extra
        has it.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as missing:
        if missing.name != package:
            raise
        wanted = f"'orrery[{EXTRAS[package]}]'" if package in EXTRAS else package
        raise ModuleNotFoundError(
            f"{user}: expected {package} in this Python, found none; install it with "
            f"pip install {wanted}", name=package
        ) from None  # fmt: skip


def name_the_extra_of_plots() -> None:
    """Let plots of tables name ``orrery[plot]`` where matplotlib, their library, is missing.

    The backend of pandas becomes this module, unless the program has chosen another backend.
    """
    if importlib.util.find_spec("matplotlib") is None:
        if pd.get_option("plotting.backend") == "matplotlib":
            pd.set_option("plotting.backend", __name__)


def plot(data: Any, kind: str, **settings: Any) -> Any:
    """Draw a table with matplotlib, if it has been installed since; pandas calls this function.

    Parameters
    ----------
    data : pandas.DataFrame or pandas.Series
        The table.
    kind : str
        Kind of plot, as in ``DataFrame.plot``.
    **settings : object
        As in ``DataFrame.plot``.

    Returns
    -------
    object
        Axes of matplotlib.

    Raises
    ------
    ModuleNotFoundError
        If matplotlib is not installed.
    """
    _restore_matplotlib()
    return data.plot(kind=kind, **settings)


def __getattr__(name: str) -> Callable[..., Any]:
    """Return a function of pandas' matplotlib backend, which requires matplotlib when called."""
    if name.startswith("__"):
        raise AttributeError(name)

    def draw(*args: Any, **settings: Any) -> Any:
        _restore_matplotlib()
        return getattr(import_module("pandas.plotting._matplotlib"), name)(*args, **settings)

    return draw


def _restore_matplotlib() -> None:
    """Make matplotlib the backend again; raise if it is still not installed."""
    require("matplotlib", "plot")
    pd.set_option("plotting.backend", "matplotlib")
