"""Kills the driver of a real Slurm again and again while jobs come, run and end.

slurm_kills.py [--policy easy] [--jobs 30] [--seed 1]: prints the number of kills and of jobs that
were lost, started twice or left in the queue, and ends with 1 if there is one.
"""

import argparse
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from real_slurm import RealSlurm, missing  # noqa: E402

LEASE = 6


class Attack:
    """One run of jobs under a driver that is killed."""

    def __init__(self, options, folder):
        self.options = options
        self.draw = random.Random(options.seed)
        self.slurm = RealSlurm(folder / "slurm", nodes=4, gpus=8, lease=LEASE)
        self.text, self.kills = "", 0
        self.driver = self.start_driver()

    def start_driver(self):
        return subprocess.Popen(
            [ROOT / "build" / "bin" / "orrery", "cluster", "slurm", "--policy",
             self.options.policy, "--partition", "orrery", "--mode", "drive", "--lease",
             str(LEASE), "--every", "0.4"],
            env=self.slurm.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def submit(self, number):
        mark = self.slurm.folder / "jobs" / f"mark-{number}"
        script = f"echo x >> {mark}; sleep {self.draw.randint(1, 4)}"
        self.slurm.submit(self.draw.choice([1, 1, 2, 3]), self.draw.choice([1, 2, 4, 8]), script)

    def kill(self):
        self.kills += 1
        self.driver.kill()
        self.text += self.driver.communicate()[0]
        time.sleep(self.draw.choice([0, 0, 1, LEASE]))
        self.driver = self.start_driver()

    def run(self):
        begin, submitted = time.monotonic(), 0
        while time.monotonic() - begin < 60 + 5 * self.options.jobs:
            while submitted < self.options.jobs and time.monotonic() - begin > 0.6 * submitted:
                self.submit(submitted)
                submitted += 1
            if submitted == self.options.jobs and set(self.slurm.jobs().values()) == {"COMPLETED"}:
                break
            if self.draw.random() < 0.12:
                self.kill()
            time.sleep(0.25)
        self.driver.send_signal(signal.SIGTERM)
        self.text += self.driver.communicate()[0]

    def report(self):
        marks = [len(path.read_text().splitlines())
                 for path in (self.slurm.folder / "jobs").glob("mark-*")]  # fmt: skip
        lost = self.options.jobs - len(marks)
        again = sum(marks) - len(marks) - self.text.count(" requeue job ")
        left = sum(state != "COMPLETED" for state in self.slurm.jobs().values())
        print(f"{self.options.policy}, seed {self.options.seed}: {self.options.jobs} jobs, "
              f"{self.kills} kills of the driver: "
              f"{lost} lost, {again} started again without a requeue, {left} not completed; "
              f"{self.text.count('took over')} orders taken over, "
              f"{self.text.count('found it lost')} repeated")  # fmt: skip
        return lost == 0 and again <= 0 and left == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="easy")
    parser.add_argument("--jobs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if missing():
        sys.exit(f"expected Slurm's programs, found no {', '.join(missing())}: install slurmctld, "
                 "slurmd and slurm-client")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="orrery-slurm-") as folder:
        attack = Attack(options, pathlib.Path(folder))
        try:
            attack.run()
            good = attack.report()
        finally:
            attack.driver.kill()
            attack.slurm.stop()
    sys.exit(0 if good else 1)


main()
