"""The installed command ``orrery``: starts the package's program without importing the package.

The package imports pandas, which takes longer than most commands.
"""

import importlib.util
import runpy
import sys
from pathlib import Path


def main() -> None:
    """Run ``python -m orrery`` without the package's own imports."""
    package = importlib.util.find_spec("orrery")
    if package is None or package.origin is None:
        sys.exit("error: expected the package orrery beside its command, found none; install it")
    runpy.run_path(str(Path(package.origin).parent / "__main__.py"), run_name="__main__")
