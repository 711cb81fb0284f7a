"""Draws docs/plan.svg, two answers about the plan of docs/plan.md, and docs/jobs.svg, the course of
a replay of the drawn log of docs/jobs.md.

    build/venv/bin/python python/plots/answers.py [-o docs]
"""

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

import orrery  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def save(figure, out):
    """Writes a picture without date and random ids: equal answers give equal bytes."""
    figure.savefig(out, metadata={"Date": None})
    print(f"wrote {out}")


def draw_plan(out):
    """Draws the progress of the plan of the page, and the inputs that move its date."""
    page = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
    call = re.search(r"^plan = (orrery\.plan\(.*\))$", page, re.MULTILINE)[1]
    plan = eval(call, {"orrery": orrery})  # noqa: S307  # the page's own line
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for answer, each in zip((plan.fan(), plan.sensitivity()), axes):
        answer.plot(each)
        print(answer.text)
    save(figure, out)


def draw_jobs(out):
    """Draws the utilization of the log that the page draws, under easy."""
    page = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
    words = shlex.split(re.search(r"`orrery (new jobs --like [^`]*) -o jobs\.csv`", page)[1])
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "jobs.csv"
        subprocess.run([sys.executable, "-m", "orrery", *words, "-o", log], check=True)
        report = orrery.jobs(log, nodes=64, gpus_per_node=8, policy="easy")
        arrivals = orrery.job_log(log).submit_s.max()
    series = report.series.assign(days=report.series.begin_s / 86400)
    figure, axes = plt.subplots(figsize=(7.2, 3), layout="constrained")
    series.plot(x="days", y="utilization", ax=axes, lw=1, ylim=(0, None))
    axes.axvline(arrivals / 86400, color="#666666", linestyle=":", label="last submission")
    axes.set(xlabel="day", ylabel="share of the GPUs")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    during = series[series.begin_s <= arrivals]
    length = during.end_s - during.begin_s
    busy = (during.utilization * length).sum() / length.sum()
    print(f"utilization {busy:.0%} while jobs arrive, {report.utilization:.1%} until the last job "
          "has ended")  # fmt: skip
    save(figure, out)


def main():
    """Parses the command line, draws both pictures."""
    parser = argparse.ArgumentParser(description="Draws docs/plan.svg and docs/jobs.svg.")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "docs", help="folder")
    options = parser.parse_args()
    plt.rcParams["svg.hashsalt"] = "orrery"
    draw_plan(options.out / "plan.svg")
    draw_jobs(options.out / "jobs.svg")


if __name__ == "__main__":
    main()
