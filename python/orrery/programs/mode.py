"""Dispatch mode that rehearses every operator of the program. Imported after torch.

Tensors of the CPU stay real, except parameters and large new tensors. Tensors of the device are
fake: they have shapes, types and a storage in the model of the allocator, and small ones carry
their values. Each device operator is priced and put on the clock.
"""

import functools
import math
from typing import Any, Optional, Sequence

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.utils._python_dispatch import TorchDispatchMode

from .calls import Call, Calls, Cost, forget_forms
from .fusing import Fusing
from .groups import FUNCTIONAL, Groups, is_collective
from .kernels import KernelPricer, Operator, Work, operator_of, touched_bytes
from .places import program_place
from .record import Kernel
from .session import VIEW_SHARE, Session
from .stand_ins import make_stand_in
from .storages import Storages
from .values import COUNTS, FINITE_CHECKS, Values, base_name, run_known

#: Elements above which a new tensor of the CPU is fake: an untrained model costs no memory.
LARGE = 1 << 20
_MODE_OF = torch._C._get_dispatch_mode
_FAKE_KEY = torch._C._TorchDispatchModeKey.FAKE
_OVERLOAD = torch._ops.OpOverload
_DEVICE_OF = torch.ops.prim.device.default
_COPY = torch.ops.aten._to_copy.default
_PLAIN = (torch.Tensor, torch.nn.Parameter)
#: Operators that replace all values of a tensor.
_FILLS = (torch.ops.aten.zero_, torch.ops.aten.fill_, torch.ops.aten.copy_)
_FLEXIBLE = ("flex_attention", "flex_attention_backward")
_ITEM_PARTS = ("aten::is_nonzero", "aten::allclose", "aten::item")
#: Fixed time of a copy between host and GPU, seconds.
COPY_SECONDS = 10e-6


class Parts:
    """Collaborators of the mode."""

    def __init__(
        self,
        session: Session,
        storages: Storages,
        values: Values,
        groups: Groups,
        pricer: KernelPricer,
    ) -> None:
        self.session = session
        self.storages = storages
        self.values = values
        self.groups = groups
        self.pricer = pricer
        self.calls = Calls(pricer.has_own_prices)
        #: Results of functional collectives, which have prices and clocks of their own.
        self.collectives = Calls(False)
        self.fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.fusing = Fusing(session, storages)
        self.optimizing = 0
        session.phase = self.phase

    def phase(self) -> str:
        """Return the phase of the step: 'update', 'backward' or 'forward'.

        Passes in a closure of the optimizer (Lightning) compute gradients, updates do not.
        """
        if torch._C._current_graph_task_id() != -1:
            return "backward"
        return "update" if self.optimizing and not torch.is_grad_enabled() else "forward"


def tensors_of(args: Sequence[Any], kwargs: "dict[str, Any]") -> "list[Any]":
    """Return the tensors among the arguments of a call, lists of tensors included."""
    found = []
    for each in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif isinstance(each, (list, tuple)):
            found.extend(one for one in each if isinstance(one, torch.Tensor))
    return found


@functools.lru_cache(None)
def _unwraps_itself(kind: Any) -> bool:
    """Return true for a type of tensors whose parts the mode sees, such as DTensor."""
    return kind not in _PLAIN and not issubclass(kind, FakeTensor)


def is_on_device(tensor: Any) -> bool:
    """Return true for a fake tensor of the fake device."""
    return isinstance(tensor, FakeTensor) and tensor.fake_device.type == "cuda"


class RehearsalMode(TorchDispatchMode):  # type: ignore[misc]
    """Mode that is active for the whole program in its main thread."""

    supports_higher_order_operators = True

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self._parts = parts
        self._session = parts.session
        self._values = parts.values
        self._calls = parts.calls
        self._known = parts.calls.known
        self._fusing = parts.fusing
        self._fusing.launch = self._launch
        #: Forms of the results of flex_attention.
        self._forms: "dict[Any, Any]" = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: no compiler traces a rehearsed program, so that calls need no guard."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: "tuple[Any, ...]" = (),
        kwargs: "Optional[dict[str, Any]]" = None,
    ) -> Any:
        if func is _DEVICE_OF and isinstance(args[0], FakeTensor):
            return args[0].fake_device
        kwargs = kwargs or {}
        if _MODE_OF(_FAKE_KEY) is not None:
            return func(*args, **kwargs)  # shape arithmetic, for example of DTensor
        if types and type(func) is _OVERLOAD:
            for each in types:
                if each is not FakeTensor and _unwraps_itself(each):
                    return NotImplemented
        inputs: "list[Any]" = []
        key = self._calls.key_of(func, args, kwargs, inputs)
        call = None if key is None else self._known.get(key)
        if call is None:
            return self._run(func, args, kwargs, key)
        return self._repeat(call, func, args, kwargs, inputs)

    def _run(
        self, func: Any, args: "tuple[Any, ...]", kwargs: "dict[str, Any]", key: Any
    ) -> Any:
        """Runs a call that is not in the memory of calls."""
        if isinstance(func, torch._ops.HigherOrderOperator):
            return self._run_higher_order(func, args, kwargs)
        inputs = tensors_of(args, kwargs)
        fake = False
        for each in inputs:
            if isinstance(each, FakeTensor):
                fake = True
            elif type(each) not in _PLAIN:
                return NotImplemented  # a subclass without operators of its own
        if not fake and self._values.unknown:
            fake = self._has_unknown(func, inputs)
        if self._fusing.deferred and func.namespace in ("c10d", *FUNCTIONAL):
            self._fusing.compute(pytree.tree_leaves((args, kwargs)))
        if func.namespace == "c10d":
            return self._parts.groups.run(func, args, kwargs)
        if func.namespace in FUNCTIONAL and is_collective(func):
            return self._run_functional_collective(func, args, kwargs, inputs, key)
        if not fake and not _names_device(kwargs):
            return self._run_real(func, args, kwargs, inputs)
        if func.namespace == "prim":
            return func(*args, **kwargs)
        if func is _COPY and _names_meta(kwargs):
            # Without memory on any device, as a plain parameter of a model that is built on meta.
            source = inputs[0]
            dtype = kwargs.get("dtype") or source.dtype
            return torch.empty_strided(source.shape, source.stride(), dtype=dtype, device="meta")
        if func._schema.name in _ITEM_PARTS and func._can_decompose():
            with self:
                return func.decompose(*args, **kwargs)
        if func is _COPY and inputs[0].dtype == torch.uint8 and not _names_device(kwargs):
            known = self._values.of(inputs[0])
            if known is not None:  # bytes that the CPU reads, such as states of its generators
                self._wait_for(inputs[0])
                return known.to(kwargs.get("dtype") or torch.uint8, copy=True)
            key = None
        special = self._run_special(func, args)
        if special is not NotImplemented:
            return special
        return self._run_fake(func, args, kwargs, inputs, key)

    def _repeat(
        self,
        call: Call,
        func: Any,
        args: "tuple[Any, ...]",
        kwargs: "dict[str, Any]",
        inputs: "list[Any]",
    ) -> Any:
        """Runs a call that is in the memory of calls."""
        values, known = self._values, None
        if call.may_be_known:
            known = values.arguments(func, args, kwargs, inputs)
            if known is not None and call.depends_on_values:
                return self._run_fake(func, args, kwargs, inputs, None)
        result, outputs = call.make(inputs)
        if known is not None or call.loses or values.has_marks:
            written = [inputs[place] for place in call.written]
            values.compute(func, known, written, outputs, inputs)
        if not call.is_on_device:
            return result
        cost = call.cost
        if cost is None:
            self._account(func, call.operator, (args, kwargs), inputs, outputs)
            return result
        self._session.record.operators += 1
        if self._fusing.is_used and self._is_absorbed(call.operator, cost, inputs, outputs):
            return result
        hold = self._parts.storages.hold
        for place in call.held:
            hold(outputs[place])
        if cost.work is None:
            self._session.clock.now += self._session.host_seconds * VIEW_SHARE
        else:
            self._charge(cost)
        return result

    def _is_absorbed(
        self, operator: Operator, cost: Cost, inputs: "list[Any]", outputs: "list[Any]"
    ) -> bool:
        """Return true for a call that compiled code fuses, which is then done.

        Computes the deferred inputs of a kernel that is not fused.
        """
        fusing = self._fusing
        if cost.work is None:
            return False
        if cost.work.source != "copy" and fusing.absorbs(operator, inputs, outputs):
            return True
        if fusing.deferred:
            fusing.compute(inputs)
        return False

    def _has_unknown(self, func: Any, inputs: "list[Any]") -> bool:
        """Return true if a call reads unknown values of real tensors, or writes a part of them."""
        unknown = [self._values.of(each) is None for each in inputs]
        if func.overloadpacket in _FILLS and not any(unknown[1:]):
            return not self._values.clear(inputs[0])
        return any(unknown)

    def _run_real(
        self, func: Any, args: Sequence[Any], kwargs: "dict[str, Any]", inputs: "list[Any]"
    ) -> Any:
        """Runs an operator of the CPU; large new tensors are fake."""
        if not inputs and func.namespace == "aten" and args and not _names_meta(kwargs):
            size = args[0]
            if isinstance(size, (list, tuple)) and all(isinstance(each, int) for each in size):
                if math.prod(size) > LARGE:
                    with self._parts.fake_mode:
                        return func(*args, **kwargs)
        return func(*args, **kwargs)

    def _run_special(self, func: Any, args: Sequence[Any]) -> Any:
        """Runs the operators whose result is no plain tensor; NotImplemented for all others."""
        name = func._schema.name
        if name == "_c10d_functional::_wrap_tensor_autograd":
            return AsyncCollectiveTensor(args[0])  # waits for the collective at its first use
        if name == "aten::_local_scalar_dense":
            return self.read_scalar(args[0])
        if name == "aten::_pin_memory":
            return args[0]
        if name == "aten::is_pinned":
            return False
        if name == "aten::equal":
            first, second = self._values.of(args[0]), self._values.of(args[1])
            if first is not None and second is not None:
                return bool(torch.equal(first, second))
            unknown = args[0] if first is None else args[1]
            self._session.ledger.decide(self._values.name_of(unknown))
            return True
        return NotImplemented

    def read_scalar(self, tensor: Any) -> Any:
        """Return the value of a tensor of one element, after its stream is idle.

        An unknown value is a stand-in that decides: callers that only print read the tensor by
        `read_number`.
        """
        self._wait_for(tensor)
        value = self._values.of(tensor)
        if value is not None:
            return value.item()
        name = self._values.name_of(tensor)
        self._session.ledger.decide(name)
        return stand_in_number(tensor.dtype, name)

    def read_number(self, tensor: Any) -> Any:
        """Return the value of a tensor of one element, or a stand-in that remembers its name."""
        self._wait_for(tensor)
        value = self._values.of(tensor)
        if value is not None:
            return value.item()
        name = self._values.name_of(tensor)
        number = stand_in_number(tensor.dtype, name)
        if isinstance(number, bool):
            self._session.ledger.decide(name)
            return number
        self._session.ledger.note(name, "read")
        return make_stand_in(number, name, self._session.ledger)

    def has_unknown(self) -> bool:
        """Return true if a real tensor may have unknown values."""
        return len(self._values.unknown) > 0

    def is_known(self, tensor: Any) -> bool:
        """Return true for a tensor whose values are known."""
        return self._values.of(tensor) is not None

    def read_array(self, tensor: Any) -> Any:
        """Return the values of a tensor as a tensor of the CPU; ones if they may be unknown.

        Unknown values end the rehearsal unless their name is allowed.
        """
        self._wait_for(tensor)
        value = self._values.of(tensor)
        if value is not None:
            return value
        self._session.ledger.decide(self._values.name_of(tensor))
        return torch.ones(tuple(tensor.shape), dtype=tensor.dtype)

    def _wait_for(self, tensor: Any) -> None:
        if is_on_device(tensor):
            self._fusing.compute([tensor])
            self._session.clock.synchronize(self._session.clock.stream)

    def _run_fake(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: "dict[str, Any]",
        inputs: "list[Any]",
        key: Any,
    ) -> Any:
        """Runs an operator of fake tensors, and keeps it in the memory of calls at `key`."""
        values, fake_mode = self._values, self._parts.fake_mode
        known = values.arguments(func, args, kwargs, inputs)
        operator = operator_of(func)
        real = [each for each in _written(operator, args) if not isinstance(each, FakeTensor)]
        if any(not isinstance(each, FakeTensor) for each in inputs):
            args, kwargs = pytree.tree_map_only(
                torch.Tensor,
                lambda each: each if isinstance(each, FakeTensor) else fake_mode.from_tensor(each),
                (args, kwargs),
            )
        if torch.Tag.dynamic_output_shape in func.tags:
            args = self._with_known_masks(args)
            found = self._run_of_known_shape(func, args, kwargs, known, inputs)
            if found is not NotImplemented:
                return found
        result = self._fake_result(func, args, kwargs)
        forget_forms(inputs)
        outputs = tensors_of((result,), {})
        written = [*_written(operator, args), *real]
        if func._schema.name in FINITE_CHECKS and known is None:
            self._session.ledger.note("non-finite check of gradients", "assumed")
        else:
            values.compute(func, known, written, outputs, inputs)
            if known is None and operator.name in COUNTS:
                self._spread_evenly(operator.name, inputs[0].numel(), outputs[0])
        cost = None
        if any(map(is_on_device, outputs)) or any(map(is_on_device, inputs)):
            cost = self._account(func, operator, (args, kwargs), inputs, outputs)
        if key is not None:
            self._calls.remember(
                key, (func, args, kwargs), operator, inputs, result, cost, base_name(func)
            )
        return result

    def _with_known_masks(self, args: Sequence[Any]) -> Sequence[Any]:
        """Return the arguments of an indexing call with positions in place of known masks."""
        if len(args) < 2 or not isinstance(args[1], (list, tuple)):
            return args
        indices: "list[Any]" = []
        for each in args[1]:
            mask = None if each is None or each.dtype != torch.bool else self._values.of(each)
            if mask is None or isinstance(mask, FakeTensor):
                indices.append(each)
            else:
                places = mask.nonzero().unbind(1)
                indices.extend(self._made(place, each, "nonzero") for place in places)
        return [args[0], indices, *args[2:]]

    def _made(self, value: Any, like: Any, name: str) -> Any:
        """Return a new fake tensor with a known value, on the device of another."""
        with self._parts.fake_mode:
            made = torch.empty(tuple(value.shape), dtype=value.dtype, device=like.device)
        self._values.keep(made, value, name)
        return made

    def _run_of_known_shape(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: "dict[str, Any]",
        known: Any,
        inputs: "list[Any]",
    ) -> Any:
        """Runs an operator whose shapes depend on values, all of which are known."""
        results = None if known is None else run_known(func, known)
        if not results:
            return NotImplemented
        operator = operator_of(func)
        self._wait_for(inputs[0])
        outputs = [self._made(each, inputs[0], operator.name) for each in results]
        if is_on_device(inputs[0]):
            self._account(func, operator, (args, kwargs), inputs, outputs)
        return outputs[0] if len(func._schema.returns) == 1 else tuple(outputs)

    def _spread_evenly(self, name: str, count: int, bins: Any) -> None:
        """Sets the counts of unknown values, if their name is allowed: equal but for the rest."""
        if self._session.ledger.is_allowed(name) and bins.numel() > 0:
            each, rest = divmod(count, bins.numel())
            even = torch.full(tuple(bins.shape), each, dtype=bins.dtype)
            even.reshape(-1)[:rest] += 1
            self._values.keep(bins, even, name)
            self._session.ledger.note(name, "assumed even")

    def _fake_result(self, func: Any, args: Sequence[Any], kwargs: "dict[str, Any]") -> Any:
        name = func._schema.name
        try:
            with self._parts.fake_mode:
                return func(*args, **kwargs)
        except (DynamicOutputShapeException, DataDependentOutputException):
            self._session.refuse(
                f"{program_place()}: expected shapes and branches that do not depend on values of "
                f"the device, found one in {name.removeprefix('aten::')}; a fixed capacity would "
                "make the program rehearsable"
            )
        except UnsupportedOperatorException:
            self._refuse_kernel(name)
        except RuntimeError as error:
            if "no fake impl registered" not in str(error):
                raise
            self._refuse_kernel(name)

    def _refuse_kernel(self, name: str) -> None:
        self._session.refuse(
            f"{program_place()}: expected an operator with a fake kernel, found {name} without "
            "one; register its shapes with torch.library.register_fake, and its price with a line "
            f"of --prices: {name} flops=... bytes=..."
        )

    def _account(
        self,
        func: Any,
        operator: Operator,
        call: "tuple[Sequence[Any], dict[str, Any]]",
        inputs: "list[Any]",
        outputs: "list[Any]",
    ) -> Cost:
        """Allocates the outputs of a device operator, prices the call and puts it on the clock."""
        self._session.record.operators += 1
        cost = self._cost_of(func, operator, call, inputs, outputs)
        if self._fusing.is_used and self._is_absorbed(operator, cost, inputs, outputs):
            return cost
        hold = self._parts.storages.hold
        for each in outputs:
            if is_on_device(each):
                hold(each)
        self._charge(cost)
        return cost

    def _cost_of(
        self,
        func: Any,
        operator: Operator,
        call: "tuple[Sequence[Any], dict[str, Any]]",
        inputs: "list[Any]",
        outputs: "list[Any]",
    ) -> Cost:
        """Return the cost of a call on the device."""
        if operator.kind in ("free", "view"):
            return Cost(operator.name, None, False)
        read = [each for each in inputs if is_on_device(each)]
        wrote = [each for each in outputs if is_on_device(each)]
        if operator.in_place_list and not outputs:
            wrote = [each for each in tensors_of(_arguments_at(operator, call[0]), {})]
        if operator.name in ("copy_", "_to_copy") and is_on_device(inputs[-1]) != bool(wrote):
            return self._copy(call, inputs[-1])
        work = self._parts.pricer.work(
            func, operator, call, inputs if operator.kind == "attention" else read, wrote
        )
        return Cost(operator.name, work, False)

    def _copy(self, call: "tuple[Sequence[Any], dict[str, Any]]", source: Any) -> Cost:
        """Return the cost of a copy between host and device."""
        size = source.numel() * source.element_size()
        seconds = COPY_SECONDS + size / self._session.settings.pcie
        waits = not call[1].get("non_blocking") and True not in call[0][2:3]
        return Cost("copy between host and device", Work(seconds, 0, size, "copy"), waits)

    def _charge(self, cost: Cost) -> None:
        """Puts a call on the clock."""
        clock = self._session.clock
        if cost.work is None:
            clock.spend(self._session.host_seconds * VIEW_SHARE)
            return
        self._launch(cost.name, cost.work)
        if cost.waits:
            clock.synchronize(clock.stream)

    def _launch(self, name: str, work: Work) -> None:
        session = self._session
        clock, record = session.clock, session.record
        clock.spend(session.host_seconds)
        start = clock.start(work.seconds, clock.stream)
        phase = session.phase()
        if phase != "update":
            record.note_pass()
        record.add(
            Kernel(
                name, work.source, work.seconds, work.flops, work.moved, clock.stream, start,
                phase, work.shape,
            )
        )  # fmt: skip

    def launch_outside(self, name: str, tensors: Sequence[Any]) -> None:
        """Prices a kernel that PyTorch does not dispatch, and leaves its execution out."""
        self._session.record.operators += 1
        self._fusing.compute(tensors)
        self._launch(name, self._parts.pricer.launched(name, tensors))
        for each in tensors:
            self._values.forget(each, name)

    def _run_functional_collective(
        self,
        func: Any,
        args: "tuple[Any, ...]",
        kwargs: "dict[str, Any]",
        inputs: "list[Any]",
        key: Any,
    ) -> Any:
        finish = self._parts.groups.run_functional(func, args, kwargs)
        if finish is None:
            return args[0]
        calls = self._parts.collectives
        call = None if key is None else calls.known.get(key)
        if call is not None:
            result = call.make(inputs)[0]
        else:
            with self._parts.fake_mode:
                result = func(*args, **kwargs)
            if key is not None:
                calls.remember(key, (func, args, kwargs), operator_of(func), inputs, result, None)
        for each in tensors_of((result,), {}):
            if is_on_device(each):
                self._parts.storages.hold(each)
        finish(result)
        return result

    def _run_higher_order(self, func: Any, args: Sequence[Any], kwargs: "dict[str, Any]") -> Any:
        """Runs an operator that takes functions, which has no price."""
        name = str(func)
        leaves = pytree.tree_leaves((args, kwargs))
        result = self._attention_result(func, args, kwargs, leaves)
        inputs = [each for each in leaves if is_on_device(each)]
        self._fusing.compute(inputs)
        outputs = [each for each in pytree.tree_leaves(result) if is_on_device(each)]
        for each in outputs:
            self._parts.storages.hold(each)
        if name in _FLEXIBLE:
            self._launch_flexible_attention(name, args, [*inputs, *outputs])
        else:
            self.launch_outside(name, [*inputs, *outputs])
        return result

    def _attention_result(
        self, func: Any, args: Sequence[Any], kwargs: "dict[str, Any]", leaves: "list[Any]"
    ) -> Any:
        """Return the result of an operator that takes functions.

        The shapes of flex_attention do not depend on its functions, so that its calls are
        remembered.
        """
        inputs: "list[Any]" = []
        calls, key = self._calls, None
        if str(func) in _FLEXIBLE:
            key = calls.key_of_leaves(str(func), leaves, inputs)
        if key is not None and key in self._forms:
            return pytree.tree_unflatten(calls.leaves_of(key, inputs), self._forms[key])
        with self._parts.fake_mode:
            result = func(*args, **kwargs)
        if key is not None:
            found, form = pytree.tree_flatten(result)
            calls.remember_leaves(key, inputs, found)
            if key in calls.leaves:
                self._forms[key] = form
        return result

    def _launch_flexible_attention(
        self, name: str, args: Sequence[Any], tensors: "list[Any]"
    ) -> None:
        """Prices attention by the blocks of its mask; half of them if they are unknown."""
        counts = [
            self._values.of(each)
            for each in pytree.tree_leaves(args)
            if isinstance(each, torch.Tensor) and each.dtype == torch.int32 and each.dim() == 3
        ][:2]
        density = 0.5
        if len(counts) == 2 and counts[0] is not None:
            rows = counts[0].numel() * args[1].shape[-2] / args[0].shape[-2]
            whole = counts[0].sum() + (0 if counts[1] is None else counts[1].sum())
            density = min(1.0, float(whole) / (counts[0].numel() * max(1.0, rows)))
        else:
            self._session.note("flex_attention with an unknown mask computes half of the scores")
        moved = sum(map(touched_bytes, tensors))
        self._session.record.operators += 1
        backward = name.endswith("backward")
        work = self._parts.pricer.flexible_attention(args[0], args[1], density, backward, moved)
        self._launch(name, work)


def stand_in_number(dtype: Any, name: str) -> Any:
    """Return the number in place of an unknown value: false (true for isfinite), 1 or 1.0."""
    if dtype == torch.bool:
        return name == "isfinite"
    return 1.0 if dtype.is_floating_point else 1


def _names_device(kwargs: "dict[str, Any]") -> bool:
    device = kwargs.get("device")
    return device is not None and torch.device(device).type == "cuda"


def _names_meta(kwargs: "dict[str, Any]") -> bool:
    device = kwargs.get("device")
    return device is not None and torch.device(device).type == "meta"


def _arguments_at(operator: Operator, args: Sequence[Any]) -> "list[Any]":
    return [args[place] for place in operator.written if place < len(args)]


def _written(operator: Operator, args: Sequence[Any]) -> "list[Any]":
    if not operator.written:
        return []
    return tensors_of(_arguments_at(operator, args), {})
