"""Display of results in a notebook: labelled rows, in the units that people plan in."""

from __future__ import annotations

import html
from typing import Iterable, Optional, Tuple

Row = Tuple[str, Optional[str]]


def table(title: str, rows: Iterable[Row], notes: Iterable[str] = (), below: str = "") -> str:
    """Returns a titled table of two columns; rows with an unknown value are left out.

    Parameters
    ----------
    title : str
        Shown in bold.
    rows : iterable of (label, value)
        Plain text; ``None`` is a value that is not known.
    notes : iterable of str
        Remarks on the numbers, such as warnings.
    below : str
        HTML that follows.

    Returns
    -------
    str
        HTML.
    """
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(label)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for label, value in rows
        if value is not None
    )
    said = "".join(f"<div><em>{html.escape(note)}</em></div>" for note in notes)
    return f"<div><strong>{html.escape(title)}</strong><table>{cells}</table>{said}{below}</div>"


def count(value: Optional[float]) -> Optional[str]:
    """A whole number with commas.

    Parameters
    ----------
    value : float or None
        Any number.

    Returns
    -------
    str or None
        ``"1,000"``.
    """
    return None if value is None else f"{value:,.0f}"


def number(value: float) -> str:
    """A number with four digits; up to a billion without an exponent.

    Parameters
    ----------
    value : float
        Any number.

    Returns
    -------
    str
        ``"42.53"``, ``"559,205"``, ``"1.25e+15"``.
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def spare_nodes(count: int) -> str:
    """A number of spare nodes.

    Parameters
    ----------
    count : int
        At least 0.

    Returns
    -------
    str
        ``"1 spare node"``, ``"2 spare nodes"``.
    """
    return f"{count} spare node{'' if count == 1 else 's'}"


def percent(share: Optional[float]) -> Optional[str]:
    """A share in per cent.

    Parameters
    ----------
    share : float or None
        0 to 1.

    Returns
    -------
    str or None
        ``"40.3%"``.
    """
    return None if share is None else f"{100 * share:.1f}%"


def duration(seconds: Optional[float]) -> Optional[str]:
    """A time in the largest unit that it fills.

    Parameters
    ----------
    seconds : float or None
        At least 0.

    Returns
    -------
    str or None
        ``"4.61 s"``, ``"50.9 d"``.
    """
    if seconds is None:
        return None
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
        if seconds >= size:
            shown = seconds / size
            return f"{shown:.3g} {unit}" if shown < 999.5 else f"{shown:,.0f} {unit}"
    return f"{seconds * 1e6:.3g} us"


def size(bytes_: Optional[float]) -> Optional[str]:
    """A number of bytes.

    Parameters
    ----------
    bytes_ : float or None
        At least 0.

    Returns
    -------
    str or None
        ``"57.0 GiB"``.
    """
    if bytes_ is None:
        return None
    for exponent, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if bytes_ >= 2**exponent:
            return f"{bytes_ / 2**exponent:.1f} {unit}"
    return f"{bytes_:.0f} B"


def energy(joules: Optional[float]) -> Optional[str]:
    """An energy, as electricity is sold.

    Parameters
    ----------
    joules : float or None
        At least 0.

    Returns
    -------
    str or None
        ``"978.1 kWh"``.
    """
    if joules is None:
        return None
    for joule, unit in ((3.6e12, "GWh"), (3.6e9, "MWh"), (3.6e6, "kWh")):
        if joules >= joule:
            return f"{joules / joule:.1f} {unit}"
    return f"{joules / 3600:.3g} Wh"


def money(dollars: Optional[float]) -> Optional[str]:
    """US dollars with commas.

    Parameters
    ----------
    dollars : float or None
        At least 0.

    Returns
    -------
    str or None
        ``"1,970.00 USD"``.
    """
    return None if dollars is None else f"{dollars:,.2f} USD"
