"""Questions about prices to `orrery rehearse`, with their answers kept.

cli/shared/price_server.hpp answers them."""

import json
import os
import socket
import struct
from typing import Any, Sequence

#: Descriptor of the socket to the command line (core/process.hpp).
DESCRIPTOR = 3


class PriceError(RuntimeError):
    """Question that the command line did not answer."""


class LostRank(RuntimeError):
    """Member of a meeting that has ended before."""


class StuckRanks(RuntimeError):
    """Ranks that all wait for each other."""


class PriceClient:
    """Client of the price service. Equal questions are asked once.

    Parameters
    ----------
    connection : socket.socket
        Stream of messages: 4 bytes of length, little endian, then JSON.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._known: "dict[Any, float]" = {}

    def kernel(
        self,
        kind: str,
        precision: str,
        shape: "tuple[float, float, float, float]" = (0, 0, 0, 1),
        flop: float = 0,
        moved: float = 0,
        entry: str = "",
    ) -> float:
        """Return the seconds of a kernel.

        Parameters
        ----------
        kind : {'gemm', 'attention', 'memory'}
            Model of the price.
        precision : {'fp32', 'tf32', 'bf16', 'fp8'}
            Precision of the products.
        shape : tuple of float
            Rows, columns, inner dimension and number of products.
        flop, moved : float
            Floating point operations, and bytes through GPU memory.
        entry : str
            Name of the kernel in the kernel tables; empty: a plain stream.
        """
        key = (kind, precision, shape, flop, moved, entry)
        known = self._known.get(key)
        if known is not None:
            return known
        asked = {"kernel": kind, "precision": precision, "flop": flop, "bytes": moved}
        asked.update(zip(("m", "n", "k", "batch"), shape))
        asked["name"] = entry
        return self._remember(key, asked)

    def collective(self, kind: str, members: Sequence[int], size: float) -> float:
        """Return the seconds of a collective of `size` bytes among ranks."""
        key = (kind, tuple(members), size)
        known = self._known.get(key)
        if known is not None:
            return known
        return self._remember(key, {"collective": kind, "members": list(members), "bytes": size})

    def post(
        self, line: str, number: int, members: Sequence[int], time: float, seconds: float,
        content: str,
    ) -> None:  # fmt: skip
        """Posts this rank's arrival at a meeting of running ranks (roles.py)."""
        self._exchange(
            {"meet": line, "number": number, "members": list(members), "time": time,
             "seconds": seconds, "content": content}
        )  # fmt: skip

    def wait(self, line: str, number: int) -> "tuple[float, dict[str, str]]":
        """Return the start of a meeting and its contents by rank, once all members have posted.

        Raises
        ------
        LostRank, StuckRanks
            If a member has ended, or if all running ranks wait.
        """
        answer = self._exchange({"wait": line, "number": number})
        if "lost" in answer:
            raise LostRank(answer["lost"])
        if "stuck" in answer:
            raise StuckRanks(answer["stuck"])
        return float(answer["start"]), answer["contents"]

    def request_ranks(self, ranks: Sequence[int]) -> None:
        """Requests that the program starts again with a process for each of these ranks."""
        self._exchange({"needs": list(ranks)})

    def send_summary(self, summary: "dict[str, Any]") -> None:
        """Hands the summary of a rank beside rank 0 to the command line."""
        self._exchange({"summary": summary})

    def summaries(self) -> "list[dict[str, Any]]":
        """Return the summaries of the other ranks, once they have ended."""
        found: "list[dict[str, Any]]" = self._exchange({"summaries": True}).get("summaries", [])
        return found

    def send_report(self, text: str) -> None:
        """Hands the text of the report to the command line."""
        self._exchange({"report": text})

    def close(self) -> None:
        """Closes the socket. The command line then waits for the end of the program only."""
        self._connection.close()

    def _remember(self, key: Any, asked: "dict[str, Any]") -> float:
        answer = self._exchange(asked)
        if "seconds" not in answer:
            raise PriceError(f"no price of {asked}: {answer.get('error')}")
        seconds = float(answer["seconds"])
        self._known[key] = seconds
        return seconds

    def _exchange(self, message: "dict[str, Any]") -> "dict[str, Any]":
        text = json.dumps(message).encode()
        self._connection.sendall(struct.pack("<I", len(text)) + text)
        (length,) = struct.unpack("<I", self._receive(4))
        answer: "dict[str, Any]" = json.loads(self._receive(length))
        return answer

    def _receive(self, count: int) -> bytes:
        parts = []
        while count > 0:
            part = self._connection.recv(count)
            if not part:
                raise PriceError("the command line that prices operators is gone")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def inherited_connection() -> "socket.socket | None":
    """Return the socket to the command line; None in a process that did not inherit it."""
    try:
        if not os.path.realpath(f"/proc/self/fd/{DESCRIPTOR}").startswith(
            f"/proc/{os.getpid()}/fd/socket:"
        ):
            return None
        connection = socket.socket(fileno=DESCRIPTOR)
        connection.getpeername()
        return connection
    except OSError:
        return None
