"""Description of a rehearsal, as `orrery rehearse` hands it over (cli/commands/rehearse.cpp)."""

import dataclasses
import json
import os

#: Compute capability by GPU family. Programs choose kernels by this value.
CAPABILITIES = {"A100": (8, 0), "A800": (8, 0), "H": (9, 0), "GH": (9, 0), "B": (10, 0)}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a rehearsal.

    Attributes
    ----------
    ranks, gpus_per_node : int
        Ranks of the job, and GPUs of one node of the cluster.
    gpu : str
        Name of the GPU model.
    memory_bytes : float
        Memory of one GPU.
    pcie : float
        Bandwidth between host and GPU in one direction, bytes per second.
    processors : int
        Streaming multiprocessors of the GPU.
    as_json : bool
        True if the report is one JSON object.
    allowed : frozenset of str
        Stand-ins that may decide a branch or a shape.
    trace : str
        Folder for the execution trace; empty: no trace.
    prices, prices_file : str
        Text and name of the file with registered prices; empty: none.
    rank : int
        Rank of this process.
    roles : tuple of int
        Ranks that run side by side, in rising order.
    """

    ranks: int
    gpus_per_node: int
    gpu: str
    memory_bytes: float
    pcie: float
    processors: int
    as_json: bool = False
    allowed: "frozenset[str]" = frozenset()
    trace: str = ""
    prices: str = ""
    prices_file: str = ""
    rank: int = 0
    roles: "tuple[int, ...]" = (0,)

    @property
    def local_ranks(self) -> int:
        """Ranks on the first node."""
        return min(self.ranks, self.gpus_per_node)

    @property
    def capability(self) -> "tuple[int, int]":
        """Compute capability of the GPU, for example (9, 0)."""
        for prefix, capability in CAPABILITIES.items():
            if self.gpu.startswith(prefix):
                return capability
        return (9, 0)


def settings_from(text: str) -> Settings:
    """Return the settings of the JSON object in ORRERY_REHEARSE.

    Raises
    ------
    KeyError
        If a key is missing.
    """
    told = json.loads(text)
    return Settings(
        ranks=told["ranks"],
        gpus_per_node=told["gpus_per_node"],
        gpu=told["gpu"],
        memory_bytes=told["memory_bytes"],
        pcie=told["pcie"] or 25e9,
        processors=int(told["processors"]),
        as_json=told["json"],
        allowed=frozenset(told["allowed"]),
        trace=told["trace"],
        prices=told["prices"],
        prices_file=told["prices_file"],
        rank=int(os.environ.get("RANK", "0")),
        roles=tuple(told["roles"]),
    )
