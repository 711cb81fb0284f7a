"""``python -m orrery`` and the installed ``orrery`` are the command line of the package."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Become the command line program that stands in the package's bin folder."""
    program = Path(__file__).parent / "bin" / "orrery"
    os.environ.setdefault("ORRERY_PYTHON", sys.executable)  # serves policies of files
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
