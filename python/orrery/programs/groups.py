"""Process groups of ranks that do not exist: torch.distributed of the rehearsal.

All ranks are taken to be alike: a collective returns on every rank the values that this rank
would have if the others had sent the same. Imported after torch.
"""

import os
import weakref
from typing import Any, NamedTuple, Optional, Sequence

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor
from torch.testing._internal.distributed.fake_pg import FakeStore

from .device import constant
from .messages import Messages, combined, install_objects, packed, unpacked
from .record import Collective, Mark
from .roles import Meeting, Roles
from .session import Session
from .values import LIMIT, Values

_KINDS = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "barrier": "all_reduce",
    "monitored_barrier": "all_reduce",
    "reduce": "all_reduce",
    "_allgather_base": "all_gather",
    "allgather": "all_gather",
    "allgather_coalesced": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_out": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "gather": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "scatter": "broadcast",
    "broadcast": "broadcast",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_to_all_single": "all_to_all",
    "shard_dim_alltoall": "all_to_all",
}
#: Namespaces of collectives that return new tensors.
FUNCTIONAL = ("_c10d_functional", "_dtensor")
#: Messages between ranks of different roles.
_MESSAGES = ("send", "recv", "recv_any_source", "isend", "irecv")
#: Collectives whose futures programs await, as hooks of DistributedDataParallel do.
_AWAITED = ("allreduce", "allreduce_coalesced")
#: Host time of a collective, in operators.
_HOST_SHARE = 2.0


def is_collective(func: Any) -> bool:
    """Return true for an operator of FUNCTIONAL that communicates or waits."""
    base = func._schema.name.split("::")[1].rstrip("_")
    return base in _KINDS or base == "wait_tensor"


def _tensors(value: Any) -> "list[Any]":
    """Return the tensors in nested lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in _tensors(each)]
    return []


def _size(value: Any) -> int:
    return sum(int(each.numel()) * int(each.element_size()) for each in _tensors(value))


def _element(value: Any) -> int:
    """Return the bytes of one value of the first tensor; 4 without one."""
    tensors = _tensors(value)
    return int(tensors[0].element_size()) if tensors else 4


class Carried(NamedTuple):
    """Tensors between which a collective carries values.

    `kind` is that of the price, or 'list' for outputs that each have one member's value. `root` is
    the position of the sender in its group.
    """

    kind: str
    outputs: "list[Any]"
    inputs: "list[Any]"
    reduction: str = ""
    root: int = 0


class Groups:
    """Collectives of the rehearsed rank: recorded, priced, and put on the clock.

    Parameters
    ----------
    session : Session
        The rehearsal.
    values : Values
        Values of small tensors, which collectives carry on.
    roles : Roles
        Ranks that run side by side.
    """

    def __init__(self, session: Session, values: Values, roles: Roles) -> None:
        self._session = session
        self._values = values
        self._roles = roles
        self._members: "dict[str, tuple[int, ...]]" = {}
        self._number = 0
        self._ends: "dict[int, tuple[float, int]]" = {}
        #: Collectives whose end only C++ awaits, as in the reducer of DistributedDataParallel.
        self.unawaited: "set[tuple[float, int]]" = set()
        self._kept: "list[Any]" = []
        self.work_type = self._make_work()
        self.messages = Messages(session, values, roles, self)

    def run(self, func: Any, args: Sequence[Any], kwargs: "dict[str, Any]") -> Any:
        """Runs an operator of torch.ops.c10d and returns its result with a Work."""
        base = func._schema.name.split("::")[1].rstrip("_")
        group = self._group_of([*args, *kwargs.values()])
        if base in _MESSAGES:
            return self.messages.run(base, args, group)
        asynchronous = _is_asynchronous(func, args, kwargs)
        size = max(_size(args[0]), _size(args[1]) if len(args) > 1 else 0)
        size = 8 if "barrier" in base else size
        carried = self._carried(func, base, args, kwargs, group)
        met = self._meet(group, carried.inputs)
        end = self._record(base, size, group, not asynchronous, _element(args[0]), met)
        self._share(carried, group, met)
        work = self.work_type(end, list(args[0]) if base in _AWAITED else None)
        if asynchronous:
            self.unawaited.add(end)
        self._kept.append(work)
        if len(self._kept) > 64:
            self._kept.pop(0).future = None
        boxed = work.boxed()
        return boxed if len(func._schema.returns) == 1 else (args[0], boxed)

    def run_functional(self, func: Any, args: Sequence[Any], kwargs: "dict[str, Any]") -> Any:
        """Records an operator of torch.ops._c10d_functional.

        Returns
        -------
        callable or None
            To be called with the operator's output, once it exists; None for ``wait_tensor``.
        """
        base = func._schema.name.split("::")[1].rstrip("_")
        if base == "wait_tensor":
            end = self._ends.pop(args[0].untyped_storage()._cdata, None)
            if end is not None:
                self.wait(end)
            return None
        names = [each for each in [*args, *kwargs.values()] if isinstance(each, str)]
        group = dist.distributed_c10d._resolve_process_group(names[-1])

        def finish(output: Any) -> None:
            size = max(_size(args[0]), _size(output))
            inputs = _tensors(args[0])
            met = self._meet(group, inputs)
            end = self._record(base, size, group, False, _element(args[0]), met)
            for each in _tensors(output):
                self._ends[each.untyped_storage()._cdata] = end
            reduction = names[0].upper() if len(names) > 1 else ""
            carried = Carried(_KINDS.get(base, base), _tensors(output), inputs, reduction)
            self._share(carried, group, met)

        return finish

    def wait(self, end: "tuple[float, int]") -> None:
        """Makes the current stream wait for a collective."""
        self.unawaited.discard(end)
        clock = self._session.clock
        self._session.record.add(Mark("wait_collective", clock.stream, end[1]))
        clock.wait_for(end[0], clock.stream)

    def wait_for_reducer(self) -> None:
        """Makes the current stream wait for the collectives that only C++ awaits.

        Their futures hold the buckets, which the reducer replaces after its first step.
        """
        for end in list(self.unawaited):
            self.wait(end)
        for work in self._kept:
            work.future = None

    def line_of(self, group: Any, kind: str) -> str:
        """Return the name of a line of meetings of a group, equal on all of its members."""
        members = self.members_of(group)
        return f"{kind} in group {group.group_name} ({members[0]} to {members[-1]})"

    def next_number(self) -> int:
        """Return the number of the next collective or message in the record."""
        self._number += 1
        return self._number

    def host_seconds(self) -> float:
        """Return the host time of a collective or a message."""
        return _HOST_SHARE * self._session.host_seconds

    def _meet(self, group: Any, inputs: "list[Any]") -> Optional[Meeting]:
        """Waits for the other running ranks of a group; None without any."""
        members = self.members_of(group)
        if len(self._roles.among(members)) < 2:
            return None
        clock = self._session.clock
        line = f"collectives of {group.group_name}"
        moment = max(clock.now + self.host_seconds(), clock.ready[line], clock.ready[clock.stream])
        content = packed(self._values, inputs)
        return self._roles.meet(self.line_of(group, "collectives"), members, moment, 0.0, content)

    def _group_of(self, arguments: Sequence[Any]) -> Any:
        for each in arguments:
            if isinstance(each, torch.ScriptObject):
                try:
                    return dist.ProcessGroup.unbox(each)
                except RuntimeError:
                    continue
        return dist.group.WORLD

    def members_of(self, group: Any) -> "tuple[int, ...]":
        """Return the ranks of a group, in the order of the group."""
        name = group.group_name
        if name not in self._members:
            # Programs that make groups of NumPy's numbers get them back.
            self._members[name] = tuple(map(int, dist.get_process_group_ranks(group)))
        return self._members[name]

    def _record(
        self, base: str, size: int, group: Any, blocking: bool, element: int,
        met: Optional[Meeting],
    ) -> "tuple[float, int]":
        session, clock = self._session, self._session.clock
        kind, members = _KINDS.get(base, ""), self.members_of(group)
        if not kind:
            session.refuse(f"expected a collective with a price, found '{base}'")
        seconds = session.client.collective(kind, members, size)
        clock.spend(self.host_seconds())
        line = f"collectives of {group.group_name}"
        after = clock.ready[clock.stream]
        begin = clock.start(seconds, line, after if met is None else max(after, met.start))
        self.next_number()
        if blocking:
            clock.wait_for(begin + seconds, clock.stream)
        if len(members) > 1:
            shown = "barrier" if "barrier" in base else kind
            session.record.add(
                Collective(
                    shown, size, group.group_name, members, seconds, clock.stream, begin,
                    self._number, blocking, session.phase(), element,
                )
            )  # fmt: skip
        return begin + seconds, self._number

    def _carried(
        self, func: Any, base: str, args: Sequence[Any], kwargs: "dict[str, Any]", group: Any
    ) -> "Carried":
        """Return the tensors between which a collective of torch.ops.c10d carries values."""
        reduction = _argument(func, args, kwargs, "reduce_op")
        root = 0
        if base in ("broadcast", "scatter"):
            root = int(_argument(func, args, kwargs, "root_rank") or 0)
        kind, size = _KINDS.get(base, base), group.size()
        if base == "scatter":
            kind = base  # other values than this rank's own
        name = "" if reduction is None else dist.ReduceOp.RedOpType(reduction.op()).name
        outputs = _tensors(args[0])
        inputs = outputs if kind in ("all_reduce", "broadcast") else _tensors(args[1:2])
        if base in ("allgather", "gather"):
            inputs = [each for each in inputs for _ in range(size)]
            kind = "list"
        return Carried(kind, outputs, inputs, name, root)

    def _share(self, carried: "Carried", group: Any, met: Optional[Meeting]) -> None:
        """Sets the values of a collective's outputs.

        Ranks that do not run have sent the same as the running rank that they are alike.
        """
        kind = "broadcast" if carried.kind == "list" else carried.kind
        contents = {} if met is None else {r: unpacked(c) for r, c in met.contents.items()}
        sent_by_root = carried.inputs or carried.outputs  # the others of a scatter have no inputs
        for place, (output, sent) in enumerate(zip(carried.outputs, sent_by_root)):
            result = None
            if contents:
                result = self._combined_of_roles(carried, place, group, contents)
            else:
                value = self._values.of(sent) if sent.numel() <= LIMIT else None
                if value is not None:
                    result = _combined(kind, value, output, group, carried.reduction)
            if not isinstance(output, FakeTensor):
                if result is not None:
                    output.copy_(result)
                elif self._values.of(sent) is None:
                    self._values.forget(output, kind)
                continue
            if result is None:
                self._values.forget(output, kind)
            else:
                self._values.write(output, result, kind)

    def _combined_of_roles(
        self, carried: "Carried", place: int, group: Any, contents: "dict[int, list[Any]]"
    ) -> Any:
        """Return the value of an output of a collective between several roles."""
        roles = [self._roles.like(member) for member in self.members_of(group)]
        kind, output = carried.kind, carried.outputs[place]
        if kind == "list":
            sent = [contents[roles[place % len(roles)]][place // len(roles)]]
            return combined("broadcast", sent, [1], output, "")
        if kind == "broadcast":
            return combined(kind, [contents[roles[carried.root]][place]], [1], output, "")
        if kind == "scatter":
            parts = contents[roles[carried.root]]
            return combined("broadcast", [parts[dist.get_rank(group)]], [1], output, "")
        if kind == "all_gather":
            return combined(kind, [contents[role][place] for role in roles], [], output, "")
        distinct = sorted(set(roles))
        sent = [contents[role][place] for role in distinct]
        counts = [roles.count(role) for role in distinct]
        return combined(kind, sent, counts, output, carried.reduction)

    def _make_work(self) -> Any:
        groups = self

        class RehearsedWork(dist.Work):  # type: ignore[misc]
            """Work of a collective that has its end on the simulated clock.

            The work does not keep its tensors, as that of NCCL does not once it has been awaited;
            a future that was asked for does.
            """

            def __init__(self, end: "tuple[float, int]", result: "Optional[list[Any]]") -> None:
                super().__init__()
                self.end = end
                self.future: Any = None
                self.result = None if result is None else [weakref.ref(each) for each in result]

            def wait(self, *_timeout: Any) -> bool:
                groups.wait(self.end)
                return True

            def synchronize(self) -> None:
                self.wait()

            def get_future(self) -> Any:
                if self.future is None and self.result is not None:
                    self.future = torch.futures.Future()
                    self.future.set_result([each() for each in self.result])
                return self.future

            def getFuture(self) -> Any:
                return self.get_future()

            def is_completed(self) -> bool:
                return True

            def is_success(self) -> bool:
                return True

        return RehearsedWork


def _combined(kind: str, value: Any, output: Any, group: Any, reduction: str) -> Any:
    """Return the value of an output if each rank sends `value`; None if it is unknown."""
    ranks = group.size()
    if kind == "all_reduce":
        if "SUM" in reduction:
            return value * ranks
        return None if "PRODUCT" in reduction else value.clone()
    if kind == "all_gather" and output.numel() == value.numel() * ranks <= LIMIT * 8:
        return value.reshape(-1).repeat(ranks).reshape(output.shape)
    if output.numel() != value.numel():
        return None
    if kind == "all_to_all" and value.numel() % ranks == 0:  # all ranks send this one the same
        return value.reshape(ranks, -1)[dist.get_rank(group)].repeat(ranks).reshape(output.shape)
    return value.reshape(output.shape).clone() if kind == "broadcast" else None


def _argument(func: Any, args: Sequence[Any], kwargs: "dict[str, Any]", name: str) -> Any:
    """Return an argument of a call by the name in the schema; None if the call leaves it out."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.name == name:
            return kwargs.get(name, args[place] if place < len(args) else None)
    return None


def _is_asynchronous(func: Any, args: Sequence[Any], kwargs: "dict[str, Any]") -> bool:
    found = (_argument(func, args, kwargs, name) for name in ("asyncOp", "async_op"))
    return bool(next((each for each in found if each is not None), True))


def _install_groups() -> None:
    """Replaces every backend by the fake one, which programs see as NCCL."""
    module = dist.distributed_c10d
    original_init, original_new = module.init_process_group, module.new_group
    original_backend = module.get_backend

    def init_process_group(backend: Any = None, *_args: Any, **kwargs: Any) -> Any:
        world = int(os.environ["WORLD_SIZE"])
        rank = int(os.environ["RANK"])
        return original_init("fake", store=FakeStore(), rank=rank, world_size=world)

    def new_group(
        ranks: Any = None,
        timeout: Any = None,
        backend: Any = None,
        pg_options: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        kwargs.pop("device_id", None)
        return original_new(ranks, timeout, "fake", None, *args, **kwargs)

    def get_backend(group: Any = None) -> str:
        name = original_backend(group)
        return "nccl" if name == "fake" else str(name)

    replaced = {
        "init_process_group": init_process_group,
        "new_group": new_group,
        "get_backend": get_backend,
        "is_nccl_available": constant(True),
    }
    for name, function in replaced.items():
        setattr(module, name, function)
        setattr(dist, name, function)
    if not hasattr(module, "ProcessGroupNCCL"):
        module.ProcessGroupNCCL = type("ProcessGroupNCCL", (), {"Options": dict})


def _position(group: Any, rank: Any, group_rank: Any) -> int:
    """Return the position of a sender in its group, given as a global rank or a position."""
    if group_rank is not None:
        return int(group_rank)
    return int(dist.get_group_rank(group, rank or 0))


def _install_objects(session: Session, messages: Messages) -> None:
    """Replaces the collectives of Python objects, which would read bytes of fake tensors."""
    module = dist.distributed_c10d
    note = "collectives of Python objects: every rank sent the same object"

    def all_gather_object(object_list: "list[Any]", obj: Any, group: Any = None) -> None:
        found = messages.exchange_objects(group or dist.group.WORLD, obj)
        if found is None:
            session.note(note)
        object_list[:] = found or [obj] * len(object_list)

    def gather_object(
        obj: Any, object_gather_list: "Optional[list[Any]]" = None, dst: Any = None,
        group: Any = None, group_dst: Any = None,
    ) -> None:  # fmt: skip
        found = messages.exchange_objects(group or dist.group.WORLD, obj)
        if found is None:
            session.note(note)
        if object_gather_list is not None:
            object_gather_list[:] = found or [obj] * len(object_gather_list)

    def scatter_object_list(
        scatter_object_output_list: "list[Any]",
        scatter_object_input_list: "Optional[list[Any]]" = None,
        src: Any = None,
        group: Any = None,
        group_src: Any = None,
    ) -> None:
        group = group or dist.group.WORLD
        given = scatter_object_input_list
        found = messages.exchange_objects(group, given)
        if found is None:
            session.note(note)
        sent = given if found is None else found[_position(group, src, group_src)]
        if sent:
            scatter_object_output_list[0] = sent[0 if found is None else dist.get_rank(group)]

    def broadcast_object_list(
        object_list: "list[Any]", src: Any = None, group: Any = None, device: Any = None,
        group_src: Any = None,
    ) -> None:  # fmt: skip
        group = group or dist.group.WORLD
        found = messages.exchange_objects(group, object_list)
        if found is not None:
            object_list[:] = found[_position(group, src, group_src)]

    replaced = {
        "all_gather_object": all_gather_object,
        "gather_object": gather_object,
        "scatter_object_list": scatter_object_list,
        "broadcast_object_list": broadcast_object_list,
    }
    for name, function in replaced.items():
        setattr(module, name, function)
        setattr(dist, name, function)


def install(session: Session, groups: Groups) -> None:
    """Replaces the parts of torch.distributed that need other ranks or a GPU."""
    _install_groups()
    _install_objects(session, groups.messages)
    install_objects(groups.messages)
    # The reducer's logger measures with CUDA events, and DDP compares shapes by reading them back.
    torch._C._distributed_c10d.Logger.set_runtime_stats_and_log = constant(None)
    dist._verify_params_across_processes = constant(None)
    import torch.distributed.tensor._dispatch as dispatch
    import torch.distributed.tensor._random as tensor_random

    # The generator tracker of DTensor reads the states of generators back.
    tensor_random.is_rng_supported_mesh = constant(False)
    dispatch.random.is_rng_supported_mesh = constant(False)
    original = torch.autograd.backward

    def backward(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        groups.wait_for_reducer()
        return result

    torch.autograd.backward = backward
