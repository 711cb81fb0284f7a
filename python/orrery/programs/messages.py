"""Messages between the running ranks of a rehearsal, and values of collectives of several roles.

A message starts when both ranks have posted it and the message before it between them has ended.
Imported after torch.
"""

import ctypes
import io
import pickle
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor

from .pipelines import follow_stages
from .places import program_place
from .record import Collective, Mark
from .roles import Meeting, Roles
from .session import Session
from .stand_ins import StandIn, make_stand_in
from .values import LIMIT, Values

if TYPE_CHECKING:
    from .groups import Groups

#: Bytes of the largest tensor of the CPU that a message carries.
LARGEST = 64 << 20


class _ObjectPickler(pickle.Pickler):
    """Pickler between the running ranks, whose stand-ins remember their names."""

    def reducer_override(self, value: Any) -> Any:
        """Return how a stand-in is restored; NotImplemented for all other objects."""
        if isinstance(value, StandIn):
            return (_restored, (value.number, value.name))
        return NotImplemented


def _restored(number: Any, name: str) -> Any:
    """Return the stand-in that another running rank has sent."""
    session = Session.current
    return number if session is None else make_stand_in(number, name, session.ledger)


class Plain(NamedTuple):
    """Tensor of the CPU as bytes."""

    dtype: str
    shape: "tuple[int, ...]"
    content: bytes


def packed(values: Values, tensors: Sequence[Any]) -> bytes:
    """Return the values of tensors as bytes; the name of its operator for an unknown value."""
    contents: "list[Any]" = []
    for each in tensors:
        fits = each.numel() <= LIMIT or (not isinstance(each, FakeTensor) and each.nbytes < LARGEST)
        value = values.of(each) if fits else None
        if value is None:
            contents.append(values.name_of(each))
            continue
        whole = value.detach().contiguous()
        content = ctypes.string_at(whole.data_ptr(), whole.nbytes) if whole.nbytes else b""
        name = str(whole.dtype).removeprefix("torch.")
        contents.append(tuple(Plain(name, tuple(whole.shape), content)))
    return pickle.dumps(contents)


def unpacked(content: bytes) -> "list[Any]":
    """Return the tensors of the CPU, or names of operators, that `packed` wrote."""
    found: "list[Any]" = []
    for each in pickle.loads(content):
        if isinstance(each, str):
            found.append(each)
            continue
        plain = Plain(*each)
        dtype = getattr(torch, plain.dtype)
        flat = (
            torch.frombuffer(bytearray(plain.content), dtype=dtype)
            if plain.content
            else torch.empty(0, dtype=dtype)
        )
        found.append(flat.reshape(plain.shape))
    return found


def set_value(values: Values, tensor: Any, value: Any) -> None:
    """Sets the value of a tensor that a message wrote; a name: unknown, of that operator."""
    if isinstance(value, str) or value is None:
        values.forget(tensor, value or "a message")
    elif isinstance(tensor, FakeTensor):
        values.write(tensor, value, "a message")
    else:
        tensor.copy_(value.reshape(tensor.shape))


class Messages:
    """Messages of this rank.

    Parameters
    ----------
    session : Session
        The rehearsal.
    values : Values
        Values of small tensors, which messages carry.
    roles : Roles
        Ranks that run.
    groups : Groups
        Process groups, which number the collectives and messages.
    """

    def __init__(self, session: Session, values: Values, roles: Roles, groups: "Groups") -> None:
        self._session = session
        self._values = values
        self._roles = roles
        self._groups = groups
        self._work_type = self._make_work()
        #: Works whose end nobody has awaited; C++ holds them without their Python part.
        self._open: "dict[int, Any]" = {}

    def run(self, base: str, args: Sequence[Any], group: Any) -> Any:
        """Posts a message of torch.ops.c10d and returns its Work."""
        members = self._groups.members_of(group)
        if base not in ("send", "recv"):
            self._session.refuse(
                f"{program_place()}: expected messages with a known sender, found {base}"
            )
        work = self._post(base == "send", members[int(args[2])], group, list(args[0]))
        return work.boxed()

    def send_objects(self, objects: "list[Any]", group: Any, peer: int) -> None:
        """Sends Python objects, and blocks until their receiver has them."""
        self._post(True, peer, group, [], self._pickled(objects)).wait()

    def receive_objects(self, objects: "list[Any]", group: Any, peer: int) -> None:
        """Blocks until Python objects arrive, and replaces the contents of the list by them."""
        work = self._post(False, peer, group, [], b"")
        work.wait()
        objects[:] = pickle.loads(work.met.contents[peer])

    def exchange_objects(self, group: Any, sent: Any) -> "Optional[list[Any]]":
        """Return the object of each member of a group; None if one role has all members."""
        members = self._groups.members_of(group)
        clock = self._session.clock
        line = self._groups.line_of(group, "objects")
        met = self._roles.meet(line, members, clock.now, 0.0, self._pickled(sent))
        if met is None:
            return None
        clock.now = max(clock.now, met.start)
        return [pickle.loads(met.contents[self._roles.like(member)]) for member in members]

    def _pickled(self, value: Any) -> bytes:
        written = io.BytesIO()
        try:
            _ObjectPickler(written).dump(value)
            return written.getvalue()
        except Exception as error:
            self._session.refuse(
                f"{program_place()}: expected objects that pickle can send, found another: {error}"
            )

    def _post(
        self, sends: bool, peer: int, group: Any, tensors: "list[Any]", content: bytes = b""
    ) -> Any:
        session, clock, own = self._session, self._session.clock, self._roles.own
        members = self._groups.members_of(group)
        self._roles.require(peer, members)
        follow_stages(session)
        pair = (own, peer) if sends else (peer, own)
        size = max(1, sum(each.nbytes for each in tensors) or len(content))
        seconds = session.client.collective("send_receive", sorted(pair), size)
        clock.spend(self._groups.host_seconds())
        moment = max(clock.now, clock.ready[clock.stream])
        if sends and tensors:
            content = packed(self._values, tensors)
        kind = "" if tensors else "objects "
        line = self._groups.line_of(group, f"{kind}{pair[0]}>{pair[1]}")
        number = self._roles.post(line, sorted(pair), moment, seconds, content)
        row = self._groups.next_number()
        session.record.add(
            Collective(
                "send" if sends else "receive", size, group.group_name, pair, seconds,
                clock.stream, moment, row, False, session.phase(),
            )
        )  # fmt: skip
        work = self._work_type(line, number, row, seconds, None if sends else (pair[0], tensors))
        self._open[row] = work
        return work

    def _make_work(self) -> Any:
        messages = self

        class Message(self._groups.work_type):  # type: ignore[name-defined, misc]
            """Work of a message; its end is known once both ranks have posted the message."""

            def __init__(
                self, line: str, number: int, row: int, seconds: float, received: Any
            ) -> None:
                super().__init__((0.0, row), None)
                self.met: Optional[Meeting] = None
                self._place = (line, number)
                self._seconds = seconds
                self._received = received

            def wait(self, *_timeout: Any) -> bool:
                messages.finish(self)
                return True

            def is_completed(self) -> bool:
                return self.wait()

            def meet(self) -> float:
                """Blocks until both ranks have posted; sets the values; returns the end."""
                if self.met is None:
                    self.met = messages._roles.wait(*self._place)
                    if self._received is not None and self._received[1]:
                        source, tensors = self._received
                        for each, value in zip(tensors, unpacked(self.met.contents[source])):
                            set_value(messages._values, each, value)
                return self.met.start + self._seconds

        return Message

    def finish(self, work: Any) -> None:
        """Blocks until a message's partner has posted, and makes the current stream wait."""
        clock = self._session.clock
        end = work.meet()
        self._open.pop(work.end[1], None)
        self._session.record.add(Mark("wait_collective", clock.stream, work.end[1]))
        clock.wait_for(end, clock.stream)


def combined(
    kind: str, sent: "list[Any]", counts: "list[int]", output: Any, reduction: str
) -> Any:
    """Return the value of a collective's output; None if it is unknown.

    Parameters
    ----------
    kind : str
        Kind of the collective.
    sent : list
        Value of each member for `all_gather`, else of each role among the members.
    counts : list of int
        Members of each role.
    output : torch.Tensor
        The output.
    reduction : str
        Name of the reduction.
    """
    if not sent or any(value is None or isinstance(value, str) for value in sent):
        return None
    if kind == "all_gather" and sum(value.numel() for value in sent) == output.numel():
        return torch.cat([value.reshape(-1) for value in sent]).reshape(output.shape)
    if kind == "broadcast" and sent[0].numel() == output.numel():
        return sent[0].reshape(output.shape).clone()
    if kind != "all_reduce":
        return None
    if "SUM" in reduction or "AVG" in reduction:
        total = sum(value * count for value, count in zip(sent, counts))
        return total if "SUM" in reduction else total / sum(counts)
    stacked = torch.stack(sent)
    if "MAX" in reduction:
        return stacked.amax(0)
    return stacked.amin(0) if "MIN" in reduction else None


def install_objects(messages: Messages) -> None:
    """Replaces the messages of Python objects."""
    module = dist.distributed_c10d

    def peer_in(group: Any, peer: Optional[int], group_peer: Optional[int]) -> int:
        members = dist.get_process_group_ranks(group)
        return members[group_peer] if peer is None and group_peer is not None else int(peer or 0)

    def send_object_list(
        object_list: "list[Any]", dst: Optional[int] = None, group: Any = None, device: Any = None,
        group_dst: Optional[int] = None, use_batch: bool = False,
    ) -> None:  # fmt: skip
        group = group or dist.group.WORLD
        messages.send_objects(object_list, group, peer_in(group, dst, group_dst))

    def recv_object_list(
        object_list: "list[Any]", src: Optional[int] = None, group: Any = None, device: Any = None,
        group_src: Optional[int] = None, use_batch: bool = False,
    ) -> int:  # fmt: skip
        group = group or dist.group.WORLD
        peer = peer_in(group, src, group_src)
        messages.receive_objects(object_list, group, peer)
        return peer

    def batch_isend_irecv(p2p_op_list: "list[Any]") -> "list[Any]":
        works = []
        for each in p2p_op_list:
            name = "group_dst" if each.op is module.isend else "group_src"
            works.append(
                each.op(each.tensor, group=each.group, tag=each.tag, **{name: each.group_peer})
            )
        return works

    for function in (send_object_list, recv_object_list, batch_isend_irecv):
        setattr(module, function.__name__, function)
        setattr(dist, function.__name__, function)
