"""Counts the examples that a contender has trained, and the time that a fault cost.

An update is one rank's part of an optimizer step: {"at_s", "rank", "step", "ids"}. An example is
*trained* once an update contains it, *trained twice* if another update contains it too, whether or
not a restart has discarded the first one, and *never trained* if its rank's shard (id mod ranks) is
trained beyond it and no update contains it.
"""

import json
import pathlib
import statistics


class Tally:
    """Counts of the examples of all updates that it was given."""

    def __init__(self, ranks):
        self._ranks = ranks
        self._twice = set()
        self._frontier = {}  # newest trained id, by shard
        self.trained = set()
        self.instants = {rank: [] for rank in range(ranks)}  # instants of updates, by rank
        self.progress = []  # instants of updates with new examples

    def add(self, update):
        """Counts an update."""
        ids = set(update["ids"])
        self.instants[update["rank"]].append(update["at_s"])
        if ids - self.trained:
            self.progress.append(update["at_s"])
        self._twice |= ids & self.trained
        self.trained |= ids
        for each in ids:
            shard = each % self._ranks
            self._frontier[shard] = max(self._frontier.get(shard, -1), each)

    @property
    def twice(self):
        """The number of examples that were trained more than once."""
        return len(self._twice)

    @property
    def never(self):
        """The number of examples that were passed over."""
        passed = sum((newest - shard) // self._ranks + 1
                     for shard, newest in self._frontier.items())  # fmt: skip
        return passed - len(self.trained)

    def median_step_s(self):
        """The median time between two updates of a rank, in seconds; 0 before there are any."""
        gaps = [later - earlier for instants in self.instants.values()
                for earlier, later in zip(instants, instants[1:])]  # fmt: skip
        return statistics.median(gaps) if gaps else 0.0

    def lost_s(self, fault_s, next_s):
        """The longest pause of the progress that a fault at `fault_s` explains, beyond the median
        step, in seconds; None if nothing was trained after the fault.

        A pause that begins in the last two steps before the next fault, at `next_s`, is that one's.
        """
        step_s = self.median_step_s()
        pauses = [later - earlier for earlier, later in zip(self.progress, self.progress[1:])
                  if later >= fault_s and earlier <= max(fault_s, next_s - 2 * step_s)]  # fmt: skip
        return max(0.0, max(pauses) - step_s) if pauses else None

    def return_s(self, rank, lost_s):
        """The seconds from the instant `lost_s` to the next update of a rank; None before it."""
        return next((at_s - lost_s for at_s in self.instants[rank] if at_s > lost_s), None)


class Updates:
    """Reader of the file of updates, which grows; reads complete lines only."""

    def __init__(self, folder, tally):
        self._path = pathlib.Path(folder) / "updates"
        self._tally = tally
        self._offset = 0

    def read(self):
        """Gives the new lines to the tally."""
        if not self._path.exists():
            return
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            lines = file.read().split(b"\n")
        for line in lines[:-1]:
            self._tally.add(json.loads(line))
            self._offset += len(line) + 1


def percentile(values, share):
    """The value below which a share of the values lies, by the nearest rank."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
