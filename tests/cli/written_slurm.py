"""A stand-in for Slurm whose jobs are written down: squeue and scontrol of one folder print them at
the present instant. Nothing can be changed."""

import os
import pathlib
import time

SQUEUE = r"""#!/bin/sh
case "$*" in *Comment:*|*orrery-keeper*) exit ;; esac
exec awk -F '\t' -v now="$(date +%s.%N)" '$2 <= now {
  state = now < $3 ? "PENDING" : now < $4 ? "RUNNING" : "COMPLETED"
  node = state == "PENDING" ? "" : "n1"
  name = $7
  gsub(/~/, "\n", name)
  printf "%s|%d|%s|alice|ours|orrery|%d|%s|1|%s|gres:gpu:%s|N/A|N/A|1||%d|%s|0|(null)|%s|\n", \
    $1, $2, state, $2 + 20, $5, node, $6, 1000 - $1, node == "" ? "BeginTime" : "None", name
}' "$(dirname "$0")/jobs"
"""
SCONTROL = """#!/bin/sh
case "$*" in
*config*) printf 'Configuration data as of %s\\nBOOT_TIME = 1000\\n' "$(date +%s)" ;;
*node*) echo 'NodeName=n1 Gres=gpu:8 State=IDLE Partitions=orrery OS=Linux' ;;
esac
"""


class WrittenSlurm:
    """One node n1 of eight GPUs."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        for tool, text in (("squeue", SQUEUE), ("scontrol", SCONTROL)):
            (self.folder / tool).write_text(text)
            (self.folder / tool).chmod(0o755)
        self.begin_s, self.jobs = time.time(), []
        self.environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}

    def add(self, name, runs_s, gpus, submit_s, starts_s=1e9, limit="30:00"):
        """Adds a job before the first reading; instants are seconds from the begin. A `~` in the
        name is a line break."""
        fields = [len(self.jobs) + 1, *(f"{self.begin_s + at:.2f}" for at in
                                        (submit_s, starts_s, starts_s + runs_s)),
                  limit, gpus, f"{name[:64]:64}"]  # fmt: skip
        self.jobs.append("\t".join(map(str, fields)) + "\n")
        (self.folder / "jobs").write_text("".join(self.jobs))
