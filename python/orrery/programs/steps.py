"""Compact form of a recorded step, which `job: {program: ...}` of a scenario simulates.

Kernels between two waits are one operation. Kernels run one at a time, so their order is decided
here. It is the order of their issue for the main stream. Kernels of other streams run as soon as
the kernels before them have ended (such as the copy before a gathering of parameters), or, if they
wait for a collective (such as the division of scattered gradients), when their result is needed,
at the end of the step at the latest. The form is the JSON of RecordedStep in
traces/scenario.proto.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from .dependencies import Dependencies
from .record import Collective, Kernel, Mark, Step
from .state import State, sum_of

if TYPE_CHECKING:
    from .session import Session

#: Names of collectives in the form; a broadcast moves as many bytes as an all-gather.
_KINDS = {"broadcast": "all_gather", "barrier": "all_reduce"}
#: Bytes of a collective that carries gradients or parameters, and not norms or flags.
_LARGE = 64 * 1024
#: Kernels in a row beside the main stream that run early.
_DEEPEST = 64


class Node(NamedTuple):
    """Kernel or collective with its dependencies, its part of the step and its micro-batch."""

    row: "Kernel | Collective"
    before: "list[int]"
    phase: str
    micro_batch: int


def nodes_of(step: Step) -> "tuple[list[Node], int]":
    """Return the nodes of a step, with the number of its micro-batches.

    A micro-batch is a forward part with the backward part behind it. The update follows the last
    backward part.
    """
    rows: "list[Kernel | Collective]" = []
    befores: "list[list[int]]" = []
    dependencies = Dependencies()
    for each in step.rows:
        numbers = dependencies.add(each)
        if numbers is not None and not isinstance(each, Mark):
            rows.append(each)
            befores.append(sorted(number - 1 for number in numbers))
    last = max((i for i, row in enumerate(rows) if row.phase == "backward"), default=-1)
    nodes, micro_batch, backward = [], 0, False
    for i, (row, before) in enumerate(zip(rows, befores)):
        phase = "update" if i > last else "backward" if row.phase == "backward" else "forward"
        if phase == "forward" and backward:
            micro_batch += 1
        backward = phase == "backward"
        nodes.append(Node(row, before, phase, 0 if phase == "update" else micro_batch))
    return nodes, micro_batch + 1 if last >= 0 else 0


def stride_of(members: "tuple[int, ...]") -> int:
    """Return the distance of neighbours in a group; 0 if the distances differ."""
    stride = members[1] - members[0]
    regular = all(b - a == stride for a, b in zip(members, members[1:]))
    return stride if regular and members[0] == 0 else 0


def scattered_groups(nodes: "list[Node]") -> "set[tuple[int, ...]]":
    """Return the groups that divide the state: they scatter gradients, and nothing else."""
    found: "dict[str, set[tuple[int, ...]]]" = {"forward": set(), "backward": set()}
    for node in nodes:
        row = node.row
        if isinstance(row, Collective) and row.kind == "reduce_scatter" and row.size > _LARGE:
            found.setdefault(node.phase, set()).add(row.members)
    return found["backward"] - found["forward"]


def ranks_of_a_replica(nodes: "list[Node]") -> int:
    """Return the ranks that work on the same tokens: those that reduce in forward passes."""
    groups = [
        len(node.row.members)
        for node in nodes
        if isinstance(node.row, Collective)
        and node.phase == "forward"
        and node.row.kind in ("all_reduce", "reduce_scatter")
        and node.row.size > _LARGE
    ]
    return max(groups, default=1)


class Order:
    """Order in which the nodes of a step are appended to its operations.

    A place is a tuple: (5,) is the place of node 5, (5, 12) that of node 12 directly behind it.

    Parameters
    ----------
    nodes : list of Node
        Kernels and collectives in the order of their issue.
    main : int
        Stream that computes most.
    """

    def __init__(self, nodes: "list[Node]", main: int) -> None:
        #: Kernels beside the main stream that wait for a collective.
        self.late: "set[int]" = set()
        self._nodes = nodes
        self._places: "list[tuple[int, ...]]" = []
        #: For each line of collectives: its newest one, and the kernels that first waited for each.
        self._lines: "dict[Any, list[int]]" = {}
        self._waited: "dict[int, tuple[int, ...]]" = {}
        for number, node in enumerate(nodes):
            if isinstance(node.row, Collective):
                place = self._place_of_collective(number, node.row, node.before)
            elif node.row.stream == main or node.phase == "update":
                place = (number,)
                self._note_waits(node, place)
            else:
                place = self._place_beside(number, node)
            self._places.append(place)

    def numbers(self) -> "list[int]":
        """Return the numbers of the nodes in order."""
        return sorted(range(len(self._nodes)), key=lambda number: self._places[number])

    def _place_of_collective(
        self, number: int, row: Collective, before: "list[int]"
    ) -> "tuple[int, ...]":
        line = self._lines.setdefault(_line(row), [])
        after = [self._places[other] for other in [*before, *line[-1:]]]
        line.append(number)
        return (*max(after, default=(-1,)), number)

    def _note_waits(self, node: Node, place: "tuple[int, ...]") -> None:
        """Collectives of a line end in their order."""
        for other in node.before:
            row = self._nodes[other].row
            if not isinstance(row, Collective) or other in self._waited:
                continue
            for each in reversed(self._lines[_line(row)]):
                if each in self._waited:
                    break
                if each <= other:
                    self._waited[each] = place

    def _place_beside(self, number: int, node: Node) -> "tuple[int, ...]":
        after = []
        for other in node.before:
            is_collective = isinstance(self._nodes[other].row, Collective)
            if other in self.late or (is_collective and other not in self._waited):
                self.late.add(number)
                return (number,)
            after.append(self._waited[other] if is_collective else self._places[other])
        place = (*max(after, default=(-1,)), number)
        return place if len(place) < _DEEPEST else (number,)


class Sequence:
    """Operations of a step in the order in which they run.

    Parameters
    ----------
    nodes : list of Node
        Kernels and collectives in the order of their issue.
    """

    def __init__(self, nodes: "list[Node]") -> None:
        self.ops: "list[dict[str, Any]]" = []
        self.kernels: "dict[tuple[Any, ...], int]" = {}
        self._nodes = nodes
        self._scattered = scattered_groups(nodes)
        self._op_of: "dict[int, int]" = {}
        self._deferred: "dict[int, None]" = {}
        self._waited: "dict[Any, int]" = {}
        self._open = False
        self._last = -1
        self._of_share: "set[int]" = set()
        seconds: "dict[int, float]" = {}
        for node in nodes:
            if isinstance(node.row, Kernel):
                seconds[node.row.stream] = seconds.get(node.row.stream, 0) + node.row.seconds
        self._main = max(seconds, key=lambda stream: seconds[stream], default=0)

    @property
    def sharded(self) -> bool:
        """Whether parameters and gradients are divided among ranks."""
        return bool(self._scattered)

    def build(self) -> None:
        """Appends all operations."""
        order = Order(self._nodes, self._main)
        for number in order.numbers():
            node = self._nodes[number]
            if isinstance(node.row, Collective):
                self._collective(number, node)
            elif number in order.late:
                self._deferred[number] = None
            else:
                self._kernel(number, node)
        if self._nodes:
            self._flush(list(self._deferred), self._nodes[-1])

    def _is_open(self, other: int) -> bool:
        """Whether a node has ended only after a wait that no kernel has made yet."""
        row = self._nodes[other].row
        if isinstance(row, Kernel):
            return other in self._deferred
        return self._waited.get(_line(row), -1) < other

    def _flush(self, numbers: "list[int]", at: Node) -> None:
        """Runs deferred kernels, with those before them, in the part of the step of `at`."""
        for number in sorted(numbers):
            if number in self._deferred:
                node = self._nodes[number]
                self._flush([each for each in node.before if each in self._deferred], at)
                del self._deferred[number]
                self._kernel(number, node._replace(phase=at.phase, micro_batch=at.micro_batch))

    def _kernel(self, number: int, node: Node) -> None:
        self._flush([each for each in node.before if each in self._deferred], node)
        waits = {}  # the newest of each line, because collectives of a line run in their order
        for other in node.before:
            row = self._nodes[other].row
            if isinstance(row, Collective) and self._is_open(other):
                self._waited[_line(row)] = other
                waits[_line(row)] = self._op_of[other]
        part = {"phase": node.phase, "micro_batch": node.micro_batch}
        if waits or not self._open or any(self.ops[self._last][key] != part[key] for key in part):
            self._last = len(self.ops)
            self.ops.append({**part, "kernels": [], "counts": [], "after": sorted(waits.values())})
            self._open = True
        self._op_of[number] = self._last
        key = self._number_of(number, node)
        op = self.ops[self._last]
        if key in op["kernels"]:
            op["counts"][op["kernels"].index(key)] += 1
        else:
            op["kernels"].append(key)
            op["counts"].append(1)

    def _number_of(self, number: int, node: Node) -> int:
        """Return the number of a kernel among the distinct kernels."""
        row = node.row
        assert isinstance(row, Kernel)
        share = self.sharded and (node.phase == "update" or self._works_on_share(number, node))
        if share and node.phase != "update":
            self._of_share.add(number)
        seconds = row.seconds if row.shape.kind == "time" else 0.0
        key = (*row.shape, row.flops, row.moved, seconds, share)
        return self.kernels.setdefault(key, len(self.kernels))

    def _works_on_share(self, number: int, node: Node) -> bool:
        """Whether a kernel beside the main stream works on scattered gradients."""
        if node.row.stream == self._main:
            return False
        for other in node.before:
            row = self._nodes[other].row
            if other in self._of_share:
                return True
            if isinstance(row, Collective) and row.kind == "reduce_scatter":
                return True
        return False

    def _collective(self, number: int, node: Node) -> None:
        row = node.row
        assert isinstance(row, Collective)
        self._flush([each for each in node.before if each in self._deferred], node)
        after = set()
        for other in node.before:
            if isinstance(self._nodes[other].row, Kernel):
                self._open = self._open and self._op_of[other] != self._last
            after.add(self._op_of[other])
        self._op_of[number] = len(self.ops)
        kernels = [op for op in after if "kernels" in self.ops[op]]
        others = [op for op in after if "kernels" not in self.ops[op]]
        self.ops.append(
            {
                "phase": node.phase,
                "micro_batch": node.micro_batch,
                "collective": _KINDS.get(row.kind, row.kind),
                "bytes": row.size,
                "size": len(row.members),
                "stride": stride_of(row.members),
                "after": sorted([*others, *([max(kernels)] if kernels else [])]),
            }
        )


def _line(row: Collective) -> Any:
    """Return the line of collectives that run one after the other (StepGraph's communicators)."""
    return (row.members, row.kind == "all_reduce")


def _described(key: "tuple[Any, ...]") -> "dict[str, Any]":
    names = ("kind", "precision", "m", "n", "k", "batch", "entry", "flop", "bytes", "time", "share")
    return {name: value for name, value in zip(names, key) if value}


def _parameters(state: State, nodes: "list[Node]", micro_batches: int) -> "dict[str, int]":
    """Return the parameters of the whole model by class.

    Parameters of FSDP1 show the part of this rank only; their number is that of the scattered
    gradients then, and they count as matrices.
    """
    groups = scattered_groups(nodes)
    scattered = sum(
        node.row.size // node.row.element
        for node in nodes
        if isinstance(node.row, Collective)
        and node.row.kind == "reduce_scatter"
        and node.row.members in groups
        and node.micro_batch == micro_batches - 1
    )
    if state.matrices + state.vectors + state.embeddings < 0.9 * scattered:
        return {"matrices": scattered}
    return {
        "matrices": state.matrices,
        "vectors": state.vectors,
        "embeddings": state.embeddings,
    }


def recorded_step(session: "Session", step: Step) -> "dict[str, Any]":
    """Return the compact form of a step.

    Raises
    ------
    ValueError
        If a group of ranks has no regular pattern.
    """
    nodes, micro_batches = nodes_of(step)
    for node in nodes:
        if isinstance(node.row, Collective) and not stride_of(node.row.members):
            raise ValueError(f"ranks {list(node.row.members)[:8]} have no regular distance")
    sequence = Sequence(nodes)
    sequence.build()
    state = sum_of(session.states.values())
    exchanges = [
        node.row
        for node in nodes
        if isinstance(node.row, Collective)
        and node.phase != "forward"
        and node.row.kind in ("all_reduce", "reduce_scatter")
    ]
    largest = max(exchanges, key=lambda row: row.size, default=None)
    storages = session.storages
    return {
        "gpu": session.settings.gpu,
        "ranks": session.settings.ranks,
        "micro_batches": micro_batches,
        "tokens": session.tokens,
        "kernels": [_described(key) for key in sequence.kernels],
        "ops": sequence.ops,
        "parameters": _parameters(state, nodes, micro_batches),
        "parameter_bytes": state.parameter_bytes,
        "gradient_bytes": state.gradient_bytes,
        "optimizer_bytes": state.optimizer_bytes,
        "peak_bytes": storages.peak if storages is not None else 0,
        "reserved_bytes": storages.allocator.peak_reserved if storages is not None else 0,
        "gradient_value_bytes": largest.element if largest is not None else 0,
        "sharded": sequence.sharded,
    }
