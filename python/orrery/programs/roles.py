"""Ranks of a rehearsal that run side by side, one for each role, such as the stages of a pipeline.

Every rank that does not run is alike one that runs. Ranks that run exchange messages and the values
of collectives through the command line (cli/shared/role_exchange.hpp), each with its own clock.
Needs no torch.
"""

import base64
import collections
from typing import Any, NamedTuple, NoReturn, Optional, Sequence

from .places import program_place
from .prices import LostRank, StuckRanks
from .session import Session

#: Ranks of a group without a name of its own that a message may add at once.
_MOST_ADDED = 32


class Meeting(NamedTuple):
    """Start of a message or a collective, and the contents by running rank."""

    start: float
    contents: "dict[int, bytes]"


class Roles:
    """Running ranks, the ranks that are alike them, and their meetings.

    Parameters
    ----------
    session : Session
        The rehearsal.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.own = session.settings.rank
        self.running = session.settings.roles
        self._numbers: "collections.Counter[str]" = collections.Counter()

    def like(self, rank: int) -> int:
        """Return the running rank that a rank is alike: the nearest one that is not larger.

        For example, with 0, 4, and 8 of 12, rank 7 is alike rank 4.
        """
        return max((each for each in self.running if each <= rank), default=self.running[0])

    def among(self, members: Sequence[int]) -> "tuple[int, ...]":
        """Return the running ranks among the members of a group."""
        if len(self.running) == 1:
            return ()
        known = set(members)
        return tuple(each for each in self.running if each in known)

    def require(self, peer: int, members: Sequence[int]) -> None:
        """Ends the process, to be started again beside others, unless the partner `peer` runs.

        All members of the message's group are needed; in the group of all ranks, those at the
        distance of the partner.
        """
        if peer in self.running:
            return
        needed = set(members)
        if len(members) == self._session.settings.ranks:
            distance = abs(peer - self.own)
            first = min(peer, self.own) % distance
            needed = set(range(first, len(members), distance))
            if len(needed) > _MOST_ADDED:
                needed = {peer}
        self._session.restart_with(sorted({*needed, peer, *self.running}))

    def post(
        self, line: str, members: Sequence[int], moment: float, seconds: float, content: bytes
    ) -> int:
        """Posts this rank's arrival at the next meeting of a line, and returns its number."""
        self._numbers[line] += 1
        number = self._numbers[line]
        text = base64.b64encode(content).decode()
        self._session.client.post(line, number, members, moment, seconds, text)
        return number

    def wait(self, line: str, number: int) -> Meeting:
        """Blocks until all members have posted a meeting, and returns the meeting."""
        try:
            start, contents = self._session.client.wait(line, number)
        except LostRank as error:
            self._session.stop(str(error))
        except StuckRanks as error:
            self._refuse_stuck(str(error))
        decoded = {int(rank): base64.b64decode(text) for rank, text in contents.items()}
        return Meeting(start, decoded)

    def meet(
        self, line: str, members: Sequence[int], moment: float, seconds: float, content: bytes
    ) -> Optional[Meeting]:
        """Posts and waits, if more than one member runs; None otherwise."""
        running = self.among(members)
        if len(running) < 2:
            return None
        return self.wait(line, self.post(line, running, moment, seconds, content))

    def _refuse_stuck(self, text: str) -> NoReturn:
        self._session.refuse(
            f"{program_place()}: expected messages and collectives that meet, found ranks that "
            f"wait for each other: {text}; --roles names the ranks that differ"
        )


def pipeline_ranks(session: Session, rows: Sequence[Any]) -> int:
    """Return the ranks that share a replica's layers: all running ones if messages connect them."""
    connected = any(getattr(row, "kind", "") in ("send", "receive") for row in rows)
    return len(session.settings.roles) if connected else 1
