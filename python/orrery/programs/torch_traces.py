"""Profiles of ranks from the traces that PyTorch's own tools recorded.

``orrery import pytorch`` runs this file with a folder and the traces of all ranks: one execution
trace (ExecutionTraceObserver) and one Kineto trace (torch.profiler) of each rank. Kineto knows the
times, the execution trace knows tensors and process groups; the number of the record function links
an event of one to a node of the other. The folder receives one profile a rank, in the form of
profiling.py. The file uses the standard library only, so that any Python runs it.
"""

import bisect
import collections
import gzip
import json
import math
import os
import re
import sys
import zlib
from typing import Any, NamedTuple, Optional

_BACKWARD = "autograd::engine::evaluate_function: "
#: Events behind the last gradient of a backward pass that still belong to it.
_BACKWARD_ENDS = ("torch.distributed.ddp.reducer::", "FSDP::post_backward", "FSDP::root_post_")
#: Operations of groups by the name of PyTorch's operator, with the argument whose size counts: the
#: input of an all-gather, the output of a reduce-scatter.
_OPERATIONS = {
    "allreduce_": ("all_reduce", 0),
    "allreduce_coalesced_": ("all_reduce", 0),
    "reduce_": ("reduce", 0),
    "broadcast_": ("broadcast", 0),
    "allgather_": ("all_gather", 1),
    "_allgather_base_": ("all_gather", 1),
    "allgather_into_tensor_coalesced_": ("all_gather", 1),
    "reduce_scatter_": ("reduce_scatter", 0),
    "_reduce_scatter_base_": ("reduce_scatter", 0),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", 0),
    "gather_": ("gather", 1),
    "scatter_": ("scatter", 0),
    "barrier": ("barrier", None),
}
_HOW = (
    "record each rank with torch.profiler.profile(execution_trace_observer=...), whose "
    "export_chrome_trace writes the Kineto trace"
)


class TraceProblem(Exception):
    """Traces that cannot be imported; the text names the file and the remedy."""


class Event(NamedTuple):
    """Event of a Kineto trace, in seconds. `number`: number of the record function, or -1."""

    name: str
    begin_s: float
    end_s: float
    thread: Any
    number: int
    is_operator: bool


class Kineto:
    """Kineto trace of one rank.

    Parameters
    ----------
    path : str
        File of the trace.
    content : dict
        Content of the file.
    """

    def __init__(self, path: str, content: "dict[str, Any]") -> None:
        self.path = path
        self.base_ns = int(content.get("baseTimeNanoseconds", 0))
        told = content.get("distributedInfo", {})
        self.rank, self.ranks = int(told.get("rank", 0)), int(told.get("world_size", 1))
        self.groups = [list(each.get("ranks", [])) for each in told.get("pg_config", [])]
        rows = [row for row in content["traceEvents"] if row.get("ph") == "X"]
        self.events = sorted(map(_event, filter(_is_host_event, rows)), key=_order)
        self.processes = {row.get("pid") for row in rows if _is_host_event(row)}
        if any(row.get("cat") == "kernel" for row in rows):
            raise TraceProblem(
                f"{path}: expected a trace of a program on CPUs, found kernels of a GPU; convert "
                "the traces with chakra_trace_link and chakra_converter of MLCommons, then "
                "orrery import chakra"
            )
        if not any(event.number >= 0 for event in self.events):
            raise TraceProblem(
                f"{path}: expected events with 'Record function id', found none; {_HOW}"
            )


def _is_host_event(row: "dict[str, Any]") -> bool:
    return row.get("cat") in ("cpu_op", "user_annotation")


def _event(row: "dict[str, Any]") -> Event:
    begin_s = float(row["ts"]) * 1e-6
    number = int(row.get("args", {}).get("Record function id", -1))
    end_s = begin_s + float(row.get("dur", 0)) * 1e-6
    return Event(row["name"], begin_s, end_s, row["tid"], number, row["cat"] == "cpu_op")


def _order(event: Event) -> "tuple[float, float]":
    return event.begin_s, -event.end_s


class Nodes:
    """Execution trace of one rank.

    Parameters
    ----------
    path : str
        File of the trace.
    content : dict
        Content of the file.
    """

    def __init__(self, path: str, content: "dict[str, Any]") -> None:
        self.path = path
        self.process = content.get("pid")
        self._by_number = {_attribute(node, "rf_id"): node for node in content["nodes"]}

    def node_of(self, event: Event) -> "Optional[dict[str, Any]]":
        """Return the node of an event, or None."""
        node = self._by_number.get(event.number)
        return node if node is not None and node["name"] == event.name else None


def _attribute(node: "dict[str, Any]", name: str) -> Any:
    for each in node.get("attrs", []):
        if each["name"] == name:
            return each["value"]
    return None


def tensors_of(value: Any) -> "list[list[Any]]":
    """Return the tensors in an argument: tensor, storage, offset, elements, bytes of an element."""
    if not isinstance(value, list):
        return []
    if len(value) == 6 and isinstance(value[5], str) and isinstance(value[0], int):
        return [value]
    return [tensor for each in value for tensor in tensors_of(each)]


def _bytes_of(value: Any) -> int:
    return sum(tensor[3] * tensor[4] for tensor in tensors_of(value))


class RankTimes:
    """Parts and operations of one rank.

    Parameters
    ----------
    kineto : Kineto
        Kineto trace of the rank.
    nodes : Nodes
        Execution trace of the rank.
    offset_s : float
        Difference of the trace's clock from that of rank 0.
    """

    def __init__(self, kineto: Kineto, nodes: Nodes, offset_s: float) -> None:
        self._kineto, self._nodes, self._offset_s = kineto, nodes, offset_s
        threads = collections.Counter(each.thread for each in kineto.events if each.is_operator)
        if not threads:
            raise TraceProblem(f"{kineto.path}: expected operators of PyTorch, found none; {_HOW}")
        main = max(threads, key=lambda thread: threads[thread])
        self._main = [each for each in kineto.events if each.thread == main]
        self._operators = [each for each in self._main if each.is_operator]
        self._begins = [each.begin_s for each in self._operators]
        linked = sum(nodes.node_of(each) is not None for each in self._operators)
        if linked * 2 < len(self._operators):
            raise TraceProblem(
                f"{nodes.path}: expected the execution trace of the steps in {kineto.path}, found "
                f"{linked} of its {len(self._operators)} operators; {_HOW}"
            )

    def parts(self) -> "list[tuple[str, float, float]]":
        """Return backward passes, reads of batches, and the ends of steps."""
        found = self._backward_passes() + self._steps()
        for each in self._main:
            if each.name.startswith("enumerate(DataLoader)"):
                found.append(("input", each.begin_s, each.end_s))
        if not any(kind == "backward" for kind, _, _ in found):
            raise TraceProblem(f"{self._kineto.path}: expected backward passes, found none; {_HOW}")
        shifted = [(k, b + self._offset_s, e + self._offset_s) for k, b, e in found]
        return sorted(shifted, key=lambda part: part[1])

    def _backward_passes(self) -> "list[tuple[str, float, float]]":
        """Return runs of gradients; a recorded operation of the forward pass ends a run."""
        passes: "list[tuple[str, float, float]]" = []
        begin_s: Optional[float] = None
        end_s = 0.0
        for each in self._main:
            if each.name.startswith(_BACKWARD):
                begin_s = each.begin_s if begin_s is None else begin_s
                end_s = max(end_s, each.end_s)
            elif begin_s is not None and each.begin_s >= end_s:
                if each.name.startswith(_BACKWARD_ENDS):
                    end_s = max(end_s, each.end_s)
                elif self._is_forward(each):
                    passes.append(("backward", begin_s, end_s))
                    begin_s = None
        if begin_s is not None:
            passes.append(("backward", begin_s, end_s))
        return passes

    def _is_forward(self, event: Event) -> bool:
        if event.name.startswith(("Optimizer.step#", "DistributedDataParallel.forward")):
            return True
        node = self._nodes.node_of(event)
        return node is not None and (_attribute(node, "seq_id") or -1) >= 0

    def _steps(self) -> "list[tuple[str, float, float]]":
        """Return updates: of zero length where the trace begins, then one that ends each step."""
        updates = [each for each in self._main if each.name.startswith("Optimizer.step#")]
        if not updates:
            raise TraceProblem(
                f"{self._kineto.path}: expected steps of a torch.optim optimizer, found none; "
                f"{_HOW}"
            )
        marks = [each for each in self._main if each.name.startswith("ProfilerStep#")]
        begin_s = marks[0].begin_s if marks else self._main[0].begin_s
        found = [("update", begin_s, begin_s)]
        for each in updates:
            around = [mark.end_s for mark in marks if mark.begin_s <= each.begin_s < mark.end_s]
            found.append(("update", each.begin_s, max([each.end_s, *around])))
        return found

    def operations(self) -> "list[list[Any]]":
        """Return the operations of process groups, in the order of their calls."""
        calls = [each for each in self._operators if each.name.startswith("c10d::")]
        runs = sorted(
            (each for each in self._kineto.events if each.name.startswith("gloo:")),
            key=lambda each: each.number,
        )
        numbers = [each.number for each in runs]
        found = []
        for call, until in zip(calls, [each.number for each in calls[1:]] + [sys.maxsize]):
            node = self._nodes.node_of(call)
            name, argument = _OPERATIONS.get(call.name[len("c10d::") :], ("", None))
            if node is None or not name:
                raise TraceProblem(
                    f"{self._kineto.path}: expected all-reduces, all-gathers, broadcasts and "
                    f"reduce-scatters, found {call.name}"
                )
            first = bisect.bisect_right(numbers, call.number)
            own = [run for run in runs[first:] if run.number < until]
            size = 0 if argument is None else _bytes_of(node["inputs"]["values"][argument])
            found.append([name, self._group(), size, *self._times(call, node, own)])
        return found

    def _group(self) -> str:
        """Return the key of the group; Gloo's operations do not name theirs."""
        groups = {tuple(sorted(ranks)) for ranks in self._kineto.groups if ranks}
        everyone = tuple(range(self._kineto.ranks))
        if groups - {everyone}:
            raise TraceProblem(
                f"{self._kineto.path}: expected process groups of all {self._kineto.ranks} ranks, "
                f"found one of the ranks {', '.join(map(str, min(groups - {everyone})))}, and the "
                "execution trace does not name the group of an operation of Gloo; record the "
                "program with orrery calibrate -- python ..."
            )
        return f"gloo:0:{'-'.join(map(str, everyone))}#0"

    def _times(self, call: Event, node: "dict[str, Any]", own: "list[Event]") -> "list[float]":
        """Return the instants of the call, the begin, the end and the wait (0: none).

        A wait ends where the first operator uses the result: Gloo's thread may report its end
        later. The buckets of DistributedDataParallel have no wait of their own, because the
        backward pass waits for all.
        """
        blocks = node["inputs"]["values"][-2:-1] == [False]
        storages = {tensor[1] for tensor in tensors_of(node["inputs"]["values"])}
        ended_s = max((run.end_s for run in own), default=call.end_s)
        free_s = call.begin_s if blocks else call.end_s  # end of the operators so far
        used_s: Optional[float] = None
        has_wait = blocks or not self._is_of_bucket(call)
        for each in self._operators[bisect.bisect_left(self._begins, call.end_s) :]:
            if blocks or self._uses(each, storages):
                used_s = each.begin_s
                break
            if free_s <= ended_s <= each.begin_s:
                break  # the thread waited here
            if not self._encloses(each):
                free_s = max(free_s, each.end_s)
        else:
            has_wait = blocks
        if used_s is not None:
            ended_s = min(ended_s, used_s)
        awaited_s = free_s if used_s is None or ended_s >= free_s else used_s
        begun_s = min([ended_s, *(max(call.begin_s, run.begin_s) for run in own)])
        times = [call.begin_s, max(call.begin_s, begun_s), max(call.begin_s, ended_s)]
        shifted = [each + self._offset_s for each in times]
        return [*shifted, awaited_s + self._offset_s if has_wait else 0]

    def _is_of_bucket(self, call: Event) -> bool:
        """Whether the accumulation of a gradient issues the call."""
        return any(
            each.begin_s <= call.begin_s <= each.end_s
            for each in self._operators
            if each.name.startswith(_BACKWARD) and each.name.endswith("::AccumulateGrad")
        )

    def _uses(self, event: Event, storages: "set[int]") -> bool:
        """Whether an operator has a tensor in one of the storages."""
        node = self._nodes.node_of(event)
        values = node["inputs"]["values"] if node is not None else []
        return any(tensor[1] in storages for tensor in tensors_of(values))

    def _encloses(self, event: Event) -> bool:
        """Whether another operator runs inside of this one."""
        after = bisect.bisect_right(self._begins, event.begin_s)
        return after < len(self._begins) and self._begins[after] < event.end_s

    def state(self) -> "dict[str, Any]":
        """Return parameters and memory, with the keys of RecordedStep in traces/scenario.proto.

        Parameters are the tensors whose gradients the last backward pass accumulates. The optimizer
        holds two values for each with Adam, none with SGD without momentum, and one otherwise.
        """
        passes = self._backward_passes()
        _, begin_s, end_s = passes[-1]
        look_ups: "collections.Counter[tuple[int, ...]]" = collections.Counter()
        tokens = 0
        gradients: "list[tuple[tuple[int, ...], int]]" = []
        for each in self._operators:
            node = self._nodes.node_of(each)
            if node is None:
                continue
            if each.name == "aten::embedding":
                shapes = node["inputs"]["shapes"]
                look_ups[tuple(shapes[0])] += 1
                tokens = max(tokens, math.prod(shapes[1]))
            elif each.name.endswith("::AccumulateGrad") and begin_s <= each.begin_s <= end_s:
                for tensor in tensors_of(node["inputs"]["values"])[:1]:
                    gradients.append((tuple(node["inputs"]["shapes"][0]), tensor[4]))
        counts = {"matrices": 0, "vectors": 0, "embeddings": 0}
        for shape, _ in gradients:
            counts["matrices" if len(shape) > 1 else "vectors"] += math.prod(shape)
        for shape, calls in look_ups.items():  # one look-up of each table in a forward pass
            tables = max(1, calls // len(passes))
            count = min(tables, sum(other == shape for other, _ in gradients))
            counts["embeddings"] += count * math.prod(shape)
            counts["matrices"] -= count * math.prod(shape)
        held = sum(math.prod(shape) * element for shape, element in gradients)
        if any(each.name == "c10d::_reduce_scatter_base_" for each in self._operators):
            held //= self._kineto.ranks
        name = next(each.name for each in self._main if each.name.startswith("Optimizer.step#"))
        states = 2 if "Adam" in name else 0 if "SGD" in name else 1
        return {
            "gpu": "measured",
            "tokens": tokens,
            "parameters": counts,
            "parameter_bytes": held,
            "gradient_bytes": held,
            "optimizer_bytes": states * held,
            "peak_bytes": (2 + states) * held,
            "reserved_bytes": (2 + states) * held,
            "gradient_value_bytes": max((element for _, element in gradients), default=0),
        }


def _content_of(path: str) -> "dict[str, Any]":
    """Return the JSON object in a file, packed by gzip or not."""
    try:
        with open(path, "rb") as file:
            raw = file.read()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        content = json.loads(raw)
    except OSError as error:
        raise TraceProblem(f"{path}: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise TraceProblem(f"{path}: expected a whole gzip file, found a torn one") from error
    except json.JSONDecodeError as error:
        is_whole = error.doc.rstrip().endswith("}")
        found = error.msg if is_whole else "a file that ends early"
        raise TraceProblem(
            f"{path}:{error.lineno}: expected JSON, found {found}; a trace is whole once the "
            "profiler has stopped and the program has ended"
        ) from error
    except ValueError as error:
        raise TraceProblem(f"{path}: expected JSON, found other bytes") from error
    if not isinstance(content, dict):
        raise TraceProblem(f"{path}: expected a trace of PyTorch, found another JSON file; {_HOW}")
    return content


def read_traces(paths: "list[str]") -> "tuple[dict[int, Kineto], list[Nodes]]":
    """Return the Kineto traces by rank, and the execution traces.

    Raises
    ------
    TraceProblem
        If a file is neither, a rank has two files, or a rank has none.
    """
    kinetos: "dict[int, Kineto]" = {}
    nodes = []
    for path in paths:
        content = _content_of(path)
        try:
            if isinstance(content.get("traceEvents"), list):
                made = Kineto(path, content)
                if made.rank in kinetos:
                    other = kinetos[made.rank].path
                    raise TraceProblem(
                        f"{path}: rank {made.rank} has two Kineto traces, expected one: {other} too"
                    )
                kinetos[made.rank] = made
            elif isinstance(content.get("nodes"), list) and "schema" in content:
                nodes.append(Nodes(path, content))
            else:
                raise TraceProblem(
                    f"{path}: expected an execution trace (with 'schema' and 'nodes') or a Kineto "
                    f"trace (with 'traceEvents') of PyTorch, found another JSON file; {_HOW}"
                )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TraceProblem(
                f"{path}: expected a trace of PyTorch, found a different form ({error!r}); {_HOW}"
            ) from error
    _check_ranks(kinetos, nodes)
    return kinetos, nodes


def _check_ranks(kinetos: "dict[int, Kineto]", nodes: "list[Nodes]") -> None:
    if not kinetos:
        raise TraceProblem(f"expected Kineto traces beside execution traces, found none; {_HOW}")
    sizes = {each.ranks for each in kinetos.values()}
    if len(sizes) > 1:
        raise TraceProblem(f"expected traces of one run, found runs of {sorted(sizes)} ranks")
    missing = [rank for rank in range(max(sizes)) if rank not in kinetos]
    if missing:
        raise TraceProblem(
            f"expected Kineto traces of all {max(sizes)} ranks, found none of rank "
            f"{', '.join(map(str, missing[:8]))}: give the files of all ranks"
        )


def nodes_for(kineto: Kineto, nodes: "list[Nodes]") -> Nodes:
    """Return the execution trace of the same process, or with the rank in its name.

    Raises
    ------
    TraceProblem
        If there is none, or if there are several.
    """
    found = [each for each in nodes if each.process in kineto.processes]
    if len(found) > 1:  # process ids of several machines
        named = [each for each in found if _numbers(each.path)[-1:] == [kineto.rank]]
        found = named or found
    if len(found) == 1:
        return found[0]
    count = "none" if not found else f"{len(found)}, none of them named NAME.{kineto.rank}.json"
    raise TraceProblem(
        f"{kineto.path}: expected the execution trace of rank {kineto.rank} beside this Kineto "
        f"trace, found {count}; {_HOW}"
    )


def _numbers(path: str) -> "list[int]":
    return [int(each) for each in re.findall(r"\d+", os.path.basename(path))]


def write_profiles(folder: str, paths: "list[str]") -> None:
    """Writes the profiles of all ranks into a folder, one file a rank.

    Raises
    ------
    TraceProblem
        If the traces cannot be imported.
    OSError
        If a file cannot be written.
    """
    kinetos, nodes = read_traces(paths)
    for rank, kineto in sorted(kinetos.items()):
        own = nodes_for(kineto, nodes)
        try:
            times = RankTimes(kineto, own, (kineto.base_ns - kinetos[0].base_ns) * 1e-9)
            profile = {
                "rank": rank,
                "ranks": kineto.ranks,
                "parts": times.parts(),
                "operations": times.operations(),
                "state": times.state(),
            }
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise TraceProblem(
                f"{own.path}: expected an execution trace as PyTorch 2.13 writes it, found a "
                f"different form ({error!r})"
            ) from error
        with open(os.path.join(folder, str(rank)), "w", encoding="utf-8") as file:
            json.dump(profile, file)


def main(arguments: "list[str]") -> int:
    """Return the exit code: 0, or 3 after a message about the traces."""
    try:
        write_profiles(arguments[0], arguments[1:])
    except TraceProblem as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
