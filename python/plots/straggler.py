"""Draws step time against step for a straggler scenario: left alone, rebalanced, and ideal.

    build/venv/bin/python python/plots/straggler.py [-o docs/straggler.svg] [--live]

Prints the medians that the picture shows.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

import orrery  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
POLICIES = (("static", "#b0452a"), ("predictive-rebalance", "#2a6fb0"))


def draw(run, scenario, out):
    """Runs the scenario under each policy, draws, and returns the reports by policy."""
    figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
    reports = {}
    for policy, color in POLICIES:
        report = reports[policy] = run(scenario, policy=policy)
        steps = np.arange(len(report.step_times))
        axes.step(steps, report.step_times, where="mid", color=color, label=policy)
    ideal = reports[POLICIES[-1][0]].ideal_step_time_s
    axes.axhline(ideal, color="#666666", linestyle=":", label="ideal once one rank is slow")
    axes.set(xlabel="step", ylabel="step time (s)", ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    # Neither date nor random ids: the same runs give the same picture, byte for byte.
    plt.rcParams["svg.hashsalt"] = "orrery"
    figure.savefig(out, metadata={"Date": None})
    return reports


def main():
    """Parses the command line, draws, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "docs" / "straggler.svg")
    parser.add_argument(
        "--scenario", type=Path, default=ROOT / "examples" / "straggler-4-ranks.yaml"
    )
    parser.add_argument("--live", action="store_true", help="run real processes")
    options = parser.parse_args()
    reports = draw(orrery.live if options.live else orrery.simulate, options.scenario, options.out)
    for policy, report in reports.items():
        ratio = report.step_time_s / report.ideal_step_time_s
        print(f"{policy}: median step {report.step_time_s:.4f} s, {ratio:.3f} x the ideal")
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
