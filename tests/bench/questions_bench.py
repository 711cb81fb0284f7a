"""Time of an answer about a plan: a slider's position, and each question, for Llama 70B on 512 and
1,024 H100. Run by `./dev bench questions [GPUS...]`. Exit code 1: the median answer of a slider
takes more than 100 ms of CPU."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "build" / "python"))

import orrery  # noqa: E402
from orrery._played import SEEDS  # noqa: E402

MOST_MS = 100
QUESTIONS = ("sensitivity", "spares", "pareto", "layout_map", "memory", "roofline",
             "goodput_over_time", "fan")  # fmt: skip


def cpu_ms(action, times):
    """The median CPU milliseconds of an action: other programs do not count."""
    spent = []
    for i in range(times):
        began = time.process_time()
        action(i)
        spent.append(1000 * (time.process_time() - began))
    return sorted(spent)[times // 2]


def main():
    slow = []
    print("| GPUs | position of a slider | median CPU of an answer, ms |\n|---:|---|---:|")
    for gpus in [int(each) for each in sys.argv[1:]] or [512, 1024]:
        plan = orrery.plan("llama3-70b", "dgx-h100", gpus=gpus, tokens="2T", deadline="60 d")
        spares = plan.best["policies"]["spare_nodes"]
        positions = {
            "step time": lambda i: {"step_factor": 1 + i / 100},
            "checkpoint interval": lambda i: {"checkpoint_every": 20 + i},
            "spare nodes": lambda i: {"spares": spares + i % 4},
            "failure rates": lambda i: {"failures__scale": 1 + i / 10},
            "repair": lambda i: {"failures__repair": f"{2 + i} h"},
            "restart": lambda i: {"survival__restart": f"{1 + i} min"},
        }
        for name, at in positions.items():
            spent = cpu_ms(lambda i, at=at: plan.play(1, seeds=SEEDS, **at(i)), 9)
            print(f"| {gpus:,} | {name} | {spent:.0f} |", flush=True)
            if spent > MOST_MS:
                slow.append(f"{name} on {gpus:,} GPUs")
        spent = cpu_ms(lambda i: plan.play(1, step_factor=1 + i / 100), 3)
        print(f"| {gpus:,} | step time, all {plan.seeds:,} seeds | {spent:.0f} |", flush=True)
        for name in QUESTIONS:
            action = getattr(plan, name)
            spent = cpu_ms(lambda _, action=action: action(), 1)
            print(f"| {gpus:,} | question {name} | {spent:.0f} |", flush=True)
    if slow:
        sys.exit(f"expected answers within {MOST_MS} ms, found more: {', '.join(slow)}")


if __name__ == "__main__":
    main()
