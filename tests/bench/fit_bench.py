"""Coverage of `orrery fit failures`: synthetic logs of a year, each learnt on its first half and
judged on its second by the failures as they were drawn. Run by `./dev bench fit [LOGS [SEED]]`;
asserts nothing."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from operator_logs import FORMATS, YEAR_S, drawn_log, write_log

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
HALF_S = YEAR_S / 2


def fitted(log, form, folder):
    path = write_log(log, form, folder)
    result = subprocess.run(
        [BUILD / "bin" / "orrery", "fit", "failures", path, "--nodes", str(log.nodes), "--time",
         "365 d", "--json"], capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


def is_within(interval, value, low, high):
    return interval[low] <= value <= interval[high]


def scores_of(seed, folder):
    form = FORMATS[seed % len(FORMATS)]
    log = drawn_log(seed)
    told = fitted(log, form, folder)
    goodput = log.goodput(HALF_S, YEAR_S)
    count = sum(each.at >= HALF_S for each in log.failures)
    named = len(told["lemons"]["nodes"])
    return {
        "form": form, "failures": len(log.failures), "lemons": len(log.lemons), "named": named,
        "of 80": is_within(told["goodput"], goodput, "p10", "p90"),
        "of 95": is_within(told["goodput"], goodput, "p2_5", "p97_5"),
        "below": goodput < told["goodput"]["p10"],
        "counts": is_within(told["interruptions"], count, "p10", "p90"),
        "width": told["goodput"]["p90"] - told["goodput"]["p10"],
        "reading": abs(told["goodput_second_half"] - goodput),
        "on named": told["lemons"]["failures_second_half"], "of": told["lemons"]["of"],
        "expected": told["lemons"]["expected"],
    }


def share(rows, key):
    return f"{100 * sum(row[key] for row in rows) / len(rows):.1f}%"


def main():
    logs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rows = [scores_of(seed, pathlib.Path(folder)) for seed in range(first, first + logs)]
    groups = {"all": rows}
    groups |= {form: [row for row in rows if row["form"] == form] for form in FORMATS}
    groups |= {f"{low} to {high} failures": [row for row in rows if low <= row["failures"] < high]
               for low, high in ((0, 150), (150, 500), (500, 5000))}
    print(f"seeds {first} to {first + logs - 1}, {time.monotonic() - begin:.0f} s\n")
    print("| logs | number | goodput within 80% | within 95% | below 80% | width of 80%, points "
          "| interruptions within 80% |\n|---|---:|---:|---:|---:|---:|---:|")
    for name, group in groups.items():
        if not group:
            continue
        width = sorted(row["width"] for row in group)[len(group) // 2]
        print(f"| {name} | {len(group)} | {share(group, 'of 80')} | {share(group, 'of 95')} "
              f"| {share(group, 'below')} | {100 * width:.2f} | {share(group, 'counts')} |")
    sour = [row for row in rows if row["lemons"]]
    plain = [row for row in rows if not row["lemons"]]
    print(f"\nunreliable nodes: named in {sum(row['named'] > 0 for row in sour)} of {len(sour)} "
          f"logs that have them, and in {sum(row['named'] > 0 for row in plain)} of {len(plain)} "
          "others")
    named = [row for row in rows if row["named"]]
    if named:
        print(f"the named nodes had {sum(row['on named'] for row in named)} of "
              f"{sum(row['of'] for row in named)} failures of nodes in the second halves; expected "
              f"were {sum(row['expected'] for row in named):.0f}")
    print(f"goodput as read from the log: at most {max(row['reading'] for row in rows):.1e} off")


if __name__ == "__main__":
    main()
