"""Progress bars: in a notebook only where its widgets are installed, else in text."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("ipywidgets") is None:
    # tqdm.auto would choose the bar of notebooks, and warn that it cannot be shown.
    from tqdm import tqdm
else:
    from tqdm.auto import tqdm

__all__ = ["tqdm"]
