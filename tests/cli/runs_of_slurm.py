"""The run `slurm` as `orrery status` shows it."""

import json

from conftest import orrery


def status():
    """Status of the run; empty without one."""
    result = orrery("status", "slurm", "--json")
    return json.loads(result.stdout) if result.returncode == 0 else {}


def lines():
    """Newest events of the run."""
    return [event["what"] for event in status().get("events", [])]
