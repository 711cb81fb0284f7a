"""Draws docs/twin.svg: the score of a twin beside a drawn job log, by the commands of docs/twin.md.

    build/venv/bin/python python/plots/twin.py [-o docs/twin.svg]
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

import orrery  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def main():
    """Parses the command line, runs the commands of the page, writes the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "docs" / "twin.svg")
    options = parser.parse_args()
    page = (ROOT / "docs" / "twin.md").read_text(encoding="utf-8")
    section = page[page.index("## Plots of the score") :]
    commands = re.search(r"```\n(orrery new jobs .*?)```", section, re.DOTALL)[1]
    with tempfile.TemporaryDirectory() as folder:
        for line in commands.splitlines():
            words = line.split()[1:]
            subprocess.run([sys.executable, "-m", "orrery", *words], check=True, cwd=folder,
                           stdout=subprocess.DEVNULL)  # fmt: skip
        score = orrery.twin_score(Path(folder) / "twin")
    # Neither date nor random ids: equal scores give equal bytes.
    plt.rcParams["svg.hashsalt"] = "orrery"
    score.plot()
    plt.gcf().savefig(options.out, metadata={"Date": None})
    for answer in (score.errors(), score.coverage(), score.regret()):
        print(answer.text)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
