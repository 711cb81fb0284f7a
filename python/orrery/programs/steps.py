"""Compact form of a recorded step, which `job: {program: ...}` of a scenario simulates.

Kernels between two waits are one operation. Kernels run one at a time, so their order is decided
here. It is the order of their issue for the main stream. Kernels of other streams run as soon as
the kernels before them have ended (such as the copy before a gathering of parameters), or, if they
wait for a collective (such as the division of scattered gradients), when their result is needed,
at the end of the step at the latest. The form is the JSON of RecordedStep in
traces/scenario.proto.
"""

from typing import TYPE_CHECKING, Any, Collection, NamedTuple

from .dependencies import Dependencies
from .record import Collective, Kernel, Mark, Pass, Step, Transfer
from .state import State, sum_of

if TYPE_CHECKING:
    from .session import Session

#: Names of collectives in the form; a broadcast moves as many bytes as an all-gather.
_KINDS = {"broadcast": "all_gather", "barrier": "all_reduce"}
#: Bytes of a collective that carries gradients or parameters, and not norms or flags.
_LARGE = 64 * 1024
_MESSAGES = ("send", "receive")
#: Keys of an operation that tell its part of the step.
_PARTS = ("phase", "micro_batch", "chunk", "weights")
#: Keys of a step that each stage of a pipeline has.
_OF_A_STAGE = "parameter_bytes gradient_bytes optimizer_bytes peak_bytes reserved_bytes".split()
#: Kernels in a row beside the main stream that run early.
_DEEPEST = 64


class Node(NamedTuple):
    """Kernel or collective with its dependencies, its part of the step and its micro-batch.

    `chunk` is that of a pipeline stage, `part` the number of the pass there, and `weights` whether
    the pass computes the gradients of the weights apart from the backward pass. The row waits for
    the messages `sends`.
    """

    row: "Kernel | Collective"
    before: "list[int]"
    phase: str
    micro_batch: int
    chunk: int = 0
    part: int = 0
    weights: bool = False
    sends: "tuple[Transfer, ...]" = ()


def nodes_of(step: Step) -> "tuple[list[Node], int]":
    """Return the nodes of a step, with the number of its micro-batches.

    A micro-batch is a forward part with the backward part behind it. The update follows the last
    backward part. Pipeline stages tell their passes and micro-batches themselves.
    """
    if any(isinstance(row, Pass) for row in step.rows):
        return _nodes_of_stage(step)
    rows: "list[Kernel | Collective]" = []
    befores: "list[list[int]]" = []
    dependencies = Dependencies()
    for each in step.rows:
        numbers = dependencies.add(each)
        if numbers is not None and isinstance(each, (Kernel, Collective)):
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


def _nodes_of_stage(step: Step) -> "tuple[list[Node], int]":
    """Return the nodes of a step of a pipeline stage (see `nodes_of`).

    Kernels between two passes belong to the pass before, such as the loss of the last stage. A
    backward pass without kernels of its own, as the first layers have, is one with that of its
    weights.
    """
    nodes: "list[Node]" = []
    dependencies = Dependencies()
    passes = [row for row in step.rows if isinstance(row, Pass)]
    phase, place, part = "forward", passes[0], 1
    sends = _sends_of(step)
    awaited: "dict[int, list[Transfer]]" = {}  # messages that each stream awaits
    for row in step.rows:
        if isinstance(row, Pass):
            place, part = row, part + (row is not passes[0])
            phase = "forward" if row.kind == "forward" else "backward"
        if isinstance(row, Collective) and row.kind in _MESSAGES:
            continue
        if isinstance(row, Mark) and row.action == "wait_collective" and row.number in sends:
            awaited.setdefault(row.stream, []).append(sends[row.number])
        numbers = dependencies.add(row)
        if numbers is None or not isinstance(row, (Kernel, Collective)):
            continue
        before = sorted(number - 1 for number in numbers)
        weights = place.kind == "weights"
        after = tuple(awaited.pop(row.stream, ())) if isinstance(row, Kernel) else ()
        nodes.append(
            Node(row, before, phase, place.micro_batch, place.chunk, part, weights, after)
        )
    apart = {
        (node.micro_batch, node.chunk)
        for node in nodes
        if node.phase == "backward" and not node.weights
    }
    last = max((i for i, node in enumerate(nodes) if node.row.phase == "backward"), default=-1)
    for i, node in enumerate(nodes):
        if i > last:
            nodes[i] = Node(node.row, node.before, "update", 0, 0, part + 1, sends=node.sends)
        elif node.weights and (node.micro_batch, node.chunk) not in apart:
            nodes[i] = node._replace(weights=False)
    return nodes, max(row.micro_batch for row in passes) + 1


def _sends_of(step: Step) -> "dict[int, Transfer]":
    """Return the messages that a stage sends, by the number of their Collective."""
    posted: "list[Transfer]" = []
    sends = {}
    for row in step.rows:
        if isinstance(row, Transfer) and row.kind == "send":
            posted.extend([row] * row.tensors)
        if isinstance(row, Collective) and row.kind == "send" and posted:
            sends[row.number] = posted.pop(0)
    return sends


def stride_of(members: "tuple[int, ...]", first: int = 0) -> int:
    """Return the distance of neighbours in a group that begins with a rank; 0 if they differ."""
    stride = members[1] - members[0]
    regular = all(b - a == stride for a, b in zip(members, members[1:]))
    return stride if regular and members[0] == first else 0


def scattered_groups(nodes: "list[Node]") -> "set[tuple[int, ...]]":
    """Return the groups that divide the state: they scatter gradients, and nothing else.

    Pipeline stages scatter gradients behind their last backward pass, too.
    """
    found: "dict[str, set[tuple[int, ...]]]" = {"forward": set(), "backward": set()}
    for node in nodes:
        row = node.row
        if isinstance(row, Collective) and row.kind == "reduce_scatter" and row.size > _LARGE:
            is_late = node.part > 0 and node.phase == "update"
            found.setdefault("backward" if is_late else node.phase, set()).add(row.members)
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
    transfers : collection of Transfer
        Messages of a pipeline stage, which precede or follow their pass.
    first : int
        First rank of the groups.
    """

    def __init__(
        self, nodes: "list[Node]", transfers: "Collection[Transfer]" = (), first: int = 0
    ) -> None:
        self.ops: "list[dict[str, Any]]" = []
        self.kernels: "dict[tuple[Any, ...], int]" = {}
        self._nodes = nodes
        #: Messages that belong to no part so far, by kind and pass.
        self.transfers: "dict[tuple[Any, ...], list[Transfer]]" = {}
        for each in transfers:
            key = (each.kind, each.phase, each.chunk, each.micro_batch)
            self.transfers.setdefault(key, []).append(each)
        self._first = first
        self._part = 0
        self._pass = ("", 0, 0)
        self._arrived: "list[int]" = []
        #: Operation of each message sent, and the newest of each stage and phase.
        self._sent: "dict[Transfer, int]" = {}
        self._newest_sent: "dict[tuple[str, int], int]" = {}
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
        for number in sorted(order.numbers(), key=lambda number: self._nodes[number].part):
            node = self._nodes[number]
            self._begin_part(node)
            if isinstance(node.row, Collective):
                self._collective(number, node)
            elif number in order.late:
                self._deferred[number] = None
            else:
                self._kernel(number, node)
        if self._nodes:
            self._flush(list(self._deferred), self._nodes[-1])
            self._end_part()

    def _begin_part(self, node: Node) -> None:
        """Appends the messages that precede the part of a node, behind those of the part before."""
        if node.part == self._part:
            return
        self._end_part()
        self._part, self._pass = node.part, (node.phase, node.chunk, node.micro_batch)
        self._open = False
        self._arrived = []
        for each in self.transfers.pop(("receive", *self._pass), ()):
            self._arrived.append(len(self.ops))
            self._transfer(each, [])

    def _end_part(self) -> None:
        for each in self.transfers.pop(("send", *self._pass), ()):
            self._transfer(each, [self._last])

    def _transfer(self, row: Transfer, after: "list[int]") -> None:
        if row.kind == "send":
            self._sent[row] = self._newest_sent[row.phase, row.peer] = len(self.ops)
        self.ops.append(
            {
                "phase": row.phase,
                "micro_batch": row.micro_batch,
                "chunk": row.receiver,
                "collective": row.kind,
                "bytes": row.size,
                "peer": row.peer,
                "after": after,
            }
        )

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
                self._kernel(
                    number, at._replace(row=node.row, before=node.before, sends=node.sends)
                )

    def _is_other(self, part: "dict[str, Any]") -> bool:
        """Whether the newest operation with kernels belongs to another part of the step."""
        op = self.ops[self._last]
        return any(op.get(key) != part.get(key) for key in _PARTS)

    def _kernel(self, number: int, node: Node) -> None:
        self._flush([each for each in node.before if each in self._deferred], node)
        waits = {}  # the newest of each line, because collectives of a line run in their order
        for other in node.before:
            row = self._nodes[other].row
            if isinstance(row, Collective) and self._is_open(other):
                self._waited[_line(row)] = other
                waits[_line(row)] = self._op_of[other]
        part = _part_of(node)
        newest = self._newest_sent.values()
        sent = {self._sent[each] for each in node.sends if self._sent.get(each) in newest}
        # Other streams, such as the one that gathers parameters, do not wait for the messages.
        arrived = self._arrived if node.row.stream == self._main else []
        if waits or sent or arrived or not self._open or self._is_other(part):
            self._last = len(self.ops)
            after = sorted([*arrived, *sent, *waits.values()])
            self.ops.append({**part, "kernels": [], "counts": [], "after": after})
            self._open = True
            self._arrived = [] if arrived else self._arrived
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
                **_part_of(node),
                "collective": _KINDS.get(row.kind, row.kind),
                "bytes": row.size,
                "size": len(row.members),
                "stride": stride_of(row.members, self._first),
                "after": sorted([*others, *([max(kernels)] if kernels else [])]),
            }
        )


def _part_of(node: Node) -> "dict[str, Any]":
    """Return the part of the step to which the operation of a node belongs."""
    part: "dict[str, Any]" = {"phase": node.phase, "micro_batch": node.micro_batch}
    if node.chunk:
        part["chunk"] = node.chunk
    if node.weights:
        part["weights"] = True
    return part


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


def _without_stages(step: Step, others: "set[int]") -> Step:
    """Return a step without the small collectives among stages of a pipeline, such as norms.

    Raises
    ------
    ValueError
        If stages have a large collective.
    """
    if not others:
        return step
    rows = []
    for row in step.rows:
        if isinstance(row, Collective) and row.kind not in _MESSAGES:
            if others.intersection(row.members):
                if row.size > _LARGE:
                    raise ValueError(f"stages have a collective of {row.size} bytes")
                continue
        rows.append(row)
    return step._replace(rows=rows)


def _check_passes(step: Step, schedule: str) -> None:
    """Checks that a stage runs each of its micro-batches once, in order.

    Raises
    ------
    ValueError
        If the schedule has another order.
    """
    numbers: "dict[tuple[str, int], list[int]]" = {}
    for row in step.rows:
        if isinstance(row, Pass):
            numbers.setdefault((row.kind, row.chunk), []).append(row.micro_batch)
    for (kind, _), each in numbers.items():
        if each != sorted(set(each)):
            raise ValueError(
                f"the schedule {schedule} has {kind} passes in the order {each[:8]}: a job runs "
                "each micro-batch once, in order"
            )


def joined_stages(
    steps: "list[dict[str, Any]]", pipeline: "tuple[int, ...]"
) -> "dict[str, Any]":
    """Return the compact form of a step of a pipeline.

    Parameters
    ----------
    steps : list of dict
        Compact form of each stage, in order.
    pipeline : tuple of int
        Ranks of the stages, from rank 0 on.

    Raises
    ------
    ValueError
        If the ranks have no regular pattern, or if only some stages divide their state.
    """
    if len({step["sharded"] for step in steps}) > 1:
        raise ValueError("some stages divide their parameters among replicas, others do not")
    stride = stride_of(pipeline)
    if not stride:
        raise ValueError(f"stages of the ranks {list(pipeline)[:8]} have no regular distance")
    whole = {**steps[0], "stages": []}
    whole["stages_apart"] = stride * len(pipeline) == whole["ranks"]
    numbers = {tuple(sorted(each.items())): i for i, each in enumerate(whole["kernels"])}
    for step in steps[1:]:
        known = []
        for each in step["kernels"]:
            key = tuple(sorted(each.items()))
            if key not in numbers:
                numbers[key] = len(numbers)
                whole["kernels"].append(each)
            known.append(numbers[key])
        for op in step["ops"]:
            if "kernels" in op:
                op["kernels"] = [known[number] for number in op["kernels"]]
        whole["stages"].append({key: step[key] for key in ("ops", *_OF_A_STAGE)})
        for key, count in step["parameters"].items():
            whole["parameters"][key] = whole["parameters"].get(key, 0) + count
    return whole


def recorded_step(session: "Session", step: Step) -> "dict[str, Any]":
    """Return the compact form of a step, or of the part of it that a pipeline stage has.

    Raises
    ------
    ValueError
        If a group of ranks has no regular pattern.
    """
    rank, pipeline = session.settings.rank, session.pipeline or ()
    first = rank if pipeline else 0
    _check_passes(step, session.schedule)
    nodes, micro_batches = nodes_of(_without_stages(step, set(pipeline) - {rank}))
    for node in nodes:
        if isinstance(node.row, Collective) and not stride_of(node.row.members, first):
            raise ValueError(f"ranks {list(node.row.members)[:8]} have no regular distance")
    sequence = Sequence(nodes, [row for row in step.rows if isinstance(row, Transfer)], first)
    sequence.build()
    if sequence.transfers:
        raise ValueError("a pass of the pipeline has messages and no kernels")
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
        **({"schedule": session.schedule} if pipeline else {}),
    }
