"""Draws the plot of the Python lines of docs/first-steps.md, by running them.

    build/venv/bin/python python/plots/first_steps.py [-o docs/sweep.svg]
"""

import argparse
import re
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def main():
    """Parses the command line, runs the lines of the page, writes the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "docs" / "sweep.svg")
    options = parser.parse_args()
    page = (ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    plt.rcParams.update({"figure.figsize": (5, 3), "figure.constrained_layout.use": True})
    # Neither date nor random ids: the same lines give the same picture, byte for byte.
    plt.rcParams["svg.hashsalt"] = "orrery"
    names = {}
    exec(lines, names)  # noqa: S102  # the page's own lines
    plt.gcf().savefig(options.out, metadata={"Date": None})
    print(names["table"][["ranks", "tokens_per_s"]].to_string(index=False))
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
