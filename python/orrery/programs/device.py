"""torch.cuda of the fake device: streams, events, properties, memory. Imported after torch."""

import collections
import contextlib
from typing import Any, Callable, Optional

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .record import Mark
from .session import Session
from .storages import Storages

#: Host time of recording an event, seconds.
EVENT_SECONDS = 1e-6


class Current:
    """Index of the GPU that the program has chosen; all indices mean the one rehearsed GPU."""

    index = 0


def set_device(device: Any) -> None:
    """Chooses a GPU by number, device or torch.cuda.device, for tensors without a number."""
    chosen = getattr(device, "idx", device)
    index = chosen if isinstance(chosen, int) else torch.device(chosen).index
    if index is not None and index >= 0:
        Current.index = index


def constant(value: Any) -> Callable[..., Any]:
    """Return a function that returns `value` for any arguments."""
    return lambda *_args, **_kwargs: value


def _make_event(session: Session, current: Callable[[], Any]) -> Any:
    clock, record = session.clock, session.record

    class Event:
        """torch.cuda.Event on the simulated clock."""

        count = 0

        def __init__(self, enable_timing: bool = False, *_args: Any, **_kwargs: Any) -> None:
            Event.count += 1
            self.number = Event.count
            self.moment = 0.0
            self.device = torch.device("cuda", Current.index)

        def record(self, stream: Any = None) -> "Event":
            line = clock.stream if stream is None else stream.stream_id
            record.add(Mark("event", line, self.number))
            self.moment = max(clock.now, clock.ready[line])
            clock.spend(EVENT_SECONDS)
            return self

        def wait(self, stream: Any = None) -> None:
            (stream or current()).wait_event(self)

        def query(self) -> bool:
            clock.spend(EVENT_SECONDS)
            return clock.now >= self.moment

        def synchronize(self) -> None:
            clock.now = max(clock.now, self.moment)

        def elapsed_time(self, end: "Event") -> float:
            return (end.moment - self.moment) * 1e3

    return Event


def _make_stream(session: Session, event: Any) -> Any:
    clock, record = session.clock, session.record

    class Stream:
        """torch.cuda.Stream on the simulated clock."""

        count = 0

        def __init__(
            self,
            device: Any = None,
            priority: int = 0,
            stream_id: Optional[int] = None,
            **_kwargs: Any,
        ) -> None:
            if stream_id is None:
                Stream.count += 1
                stream_id = Stream.count
            self.stream_id = self.cuda_stream = stream_id
            self.device = torch.device("cuda", Current.index)
            self.device_index, self.device_type, self.priority = Current.index, 1, priority
            self._outer = 0

        def wait_event(self, event: Any) -> None:
            record.add(Mark("wait_event", self.stream_id, event.number))
            clock.wait_for(event.moment, self.stream_id)

        def wait_stream(self, other: Any) -> None:
            record.add(Mark("wait_stream", self.stream_id, other.stream_id))
            clock.wait_for(clock.ready[other.stream_id], self.stream_id)

        def record_event(self, recorded: Any = None) -> Any:
            return (recorded or event()).record(self)

        def synchronize(self) -> None:
            clock.synchronize(self.stream_id)

        def query(self) -> bool:
            clock.spend(EVENT_SECONDS)
            return clock.now >= clock.ready[self.stream_id]

        def is_capturing(self) -> bool:
            return False

        def __enter__(self) -> "Stream":
            self._outer, clock.stream = clock.stream, self.stream_id
            return self

        def __exit__(self, *_error: Any) -> None:
            clock.stream = self._outer

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Stream) and other.stream_id == self.stream_id

        def __hash__(self) -> int:
            return int(self.stream_id)

    return Stream


def _make_stream_context(session: Session) -> Any:
    class StreamContext:
        """torch.cuda.StreamContext: sets the current stream."""

        def __init__(self, stream: Any) -> None:
            self.stream = stream
            self._outer = 0

        def __enter__(self) -> None:
            self._outer = session.clock.stream
            if self.stream is not None:
                session.clock.stream = self.stream.stream_id

        def __exit__(self, *_error: Any) -> None:
            session.clock.stream = self._outer

    return StreamContext


class _AnyDevice(contextlib.AbstractContextManager):  # type: ignore[type-arg]
    """torch.cuda.device: the process has one GPU, so that nothing is chosen."""

    def __init__(self, device: Any = None) -> None:
        self.idx = device

    def __exit__(self, *_error: Any) -> None:
        return None


def _properties(session: Session) -> Any:
    settings = session.settings

    class Properties:
        """torch.cuda.get_device_properties(): values of the GPU model, and Hopper's else."""

        name = f"NVIDIA {settings.gpu}"
        total_memory = int(settings.memory_bytes)
        multi_processor_count = settings.processors
        major, minor = settings.capability
        uuid = "GPU-rehearsed"
        warp_size = 32
        max_threads_per_multi_processor = 2048
        L2_cache_size = 50 << 20
        shared_memory_per_block = 48 << 10
        shared_memory_per_block_optin = 227 << 10
        regs_per_multiprocessor = 1 << 16
        is_integrated = 0
        is_multi_gpu_board = 0
        gcnArchName = ""

    return Properties()


def _memory_functions(session: Session, storages: Storages) -> "dict[str, Callable[..., Any]]":
    allocator = storages.allocator

    def memory_stats(*_args: Any, **_kwargs: Any) -> "dict[str, int]":
        stats: "dict[str, int]" = collections.defaultdict(int)
        for key in ("allocated_bytes", "active_bytes", "requested_bytes"):
            stats[f"{key}.all.current"] = allocator.allocated
            stats[f"{key}.all.peak"] = allocator.peak_allocated
        stats["reserved_bytes.all.current"] = allocator.reserved
        stats["reserved_bytes.all.peak"] = allocator.peak_reserved
        stats["num_alloc_retries"] = allocator.retries
        stats["num_ooms"] = 0
        return stats

    def reset(*_args: Any, **_kwargs: Any) -> None:
        allocator.reset_peaks()

    def free_and_total(*_args: Any, **_kwargs: Any) -> "tuple[int, int]":
        return allocator.capacity - allocator.reserved, allocator.capacity

    return {
        "memory_allocated": lambda *_args, **_kwargs: allocator.allocated,
        "max_memory_allocated": lambda *_args, **_kwargs: allocator.peak_allocated,
        "memory_reserved": lambda *_args, **_kwargs: allocator.reserved,
        "max_memory_reserved": lambda *_args, **_kwargs: allocator.peak_reserved,
        "memory_stats": memory_stats,
        "reset_peak_memory_stats": reset,
        "reset_max_memory_allocated": reset,
        "reset_accumulated_memory_stats": constant(None),
        "mem_get_info": free_and_total,
        "memory_summary": constant("memory of a rehearsed GPU: see the report"),
        "empty_cache": lambda: allocator.release_cached(),
    }


class DeviceGenerator(torch.Generator):  # type: ignore[misc]
    """Generator of one GPU: seed and offset, as those of CUDA have; nobody reads what it draws."""

    def __init__(self) -> None:
        super().__init__()
        self._state = torch.zeros(2, dtype=torch.int64)

    def get_state(self) -> Any:
        """Return seed and offset as 16 bytes."""
        return self._state.clone().view(torch.uint8)

    def set_state(self, state: Any) -> "DeviceGenerator":
        """Sets seed and offset; a state on the device has unknown values and changes nothing."""
        if not isinstance(state, FakeTensor):
            self._state = state.clone().view(torch.int64)
        return self

    def manual_seed(self, seed: int) -> "DeviceGenerator":
        """Sets the seed, and the offset to 0."""
        self._state = torch.tensor([int(seed) & (1 << 63) - 1, 0])
        return self

    def seed(self) -> int:
        """Return a new seed, which the generator has from now on."""
        self.manual_seed(torch.seed())
        return self.initial_seed()

    def initial_seed(self) -> int:
        """Return the seed."""
        return int(self._state[0])

    def clone_state(self) -> "DeviceGenerator":
        """Return a generator with the same seed and offset."""
        return DeviceGenerator().set_state(self._state)


def _random_functions(devices: int) -> "dict[str, Any]":
    """Return the functions of torch.cuda.random."""
    generators = tuple(DeviceGenerator() for _ in range(devices))

    def generator_of(device: Any = "cuda") -> DeviceGenerator:
        index = device if isinstance(device, int) else torch.device(device).index
        return generators[Current.index if index is None or index < 0 else index]

    def set_state(state: Any, device: Any = "cuda") -> None:
        generator_of(device).set_state(state)

    def seed_all(seed: int) -> None:
        for each in generators:
            each.manual_seed(seed)

    def set_states(states: "list[Any]") -> None:
        for each, state in zip(generators, states):
            each.set_state(state)

    return {
        "default_generators": generators,
        "manual_seed": lambda seed: generator_of().manual_seed(seed) and None,
        "manual_seed_all": seed_all,
        "seed": lambda: generator_of().seed() and None,
        "seed_all": lambda: seed_all(torch.seed()),
        "initial_seed": lambda: generator_of().initial_seed(),
        "get_rng_state": lambda device="cuda": generator_of(device).get_state(),
        "set_rng_state": set_state,
        "get_rng_state_all": lambda: [each.get_state() for each in generators],
        "set_rng_state_all": set_states,
    }


def _device_functions(session: Session) -> "dict[str, Any]":
    settings, clock = session.settings, session.clock
    event_type: Any = None
    streams: "dict[int, Any]" = {}

    def current(*_device: Any) -> Any:
        if clock.stream not in streams:
            streams[clock.stream] = stream_type(stream_id=clock.stream)
        return streams[clock.stream]

    def set_stream(stream: Any) -> None:
        clock.stream = stream.stream_id

    def synchronize(*_args: Any, **_kwargs: Any) -> None:
        clock.synchronize()

    event_type = _make_event(session, current)
    stream_type = _make_stream(session, event_type)
    context = _make_stream_context(session)
    properties = _properties(session)
    return {
        "Event": event_type,
        "Stream": stream_type,
        "StreamContext": context,
        "stream": context,
        "current_stream": current,
        "default_stream": lambda *_args: stream_type(stream_id=0),
        "set_stream": set_stream,
        "synchronize": synchronize,
        "device": _AnyDevice,
        "is_available": constant(True),
        "is_initialized": constant(True),
        "_is_compiled": constant(True),
        "_lazy_init": constant(None),
        "init": constant(None),
        "device_count": constant(settings.local_ranks),
        "current_device": lambda: Current.index,
        "set_device": set_device,
        "get_device_name": constant(properties.name),
        "get_device_capability": constant(settings.capability),
        "get_device_properties": constant(properties),
        "get_arch_list": constant(["sm_%d%d" % settings.capability]),
        "is_bf16_supported": constant(True),
        "is_current_stream_capturing": constant(False),
        "can_device_access_peer": constant(True),
        "ipc_collect": constant(None),
        "utilization": constant(0),
        "set_per_process_memory_fraction": constant(None),
    }


def _assign(module: Any, functions: "dict[str, Any]", only_known: bool) -> None:
    for name, function in functions.items():
        if not only_known or hasattr(module, name):
            setattr(module, name, function)


def install(session: Session, storages: Storages) -> None:
    """Replaces the functions of torch.cuda and torch.accelerator by those of the fake device."""
    functions = _device_functions(session)
    memory = _memory_functions(session, storages)
    randoms = _random_functions(session.settings.local_ranks)
    cuda = torch.cuda
    for group in (functions, memory, randoms):
        _assign(cuda, group, only_known=False)
    _assign(cuda.memory, memory, only_known=True)
    _assign(cuda.random, randoms, only_known=True)
    _assign(cuda.streams, {name: functions[name] for name in ("Event", "Stream")}, only_known=True)
    cuda.nccl.version = constant((2, 27, 5))
    cuda.nccl.is_available = constant(True)
    torch.version.cuda = torch.version.cuda or "12.8"
    torch.backends.cuda.is_built = constant(True)
    accelerated = {name: functions[name] for name in ("synchronize", "current_stream")}
    accelerated.update(
        set_device_index=functions["set_device"], current_device_index=functions["current_device"]
    )
    _assign(torch.accelerator, {**accelerated, **memory}, only_known=True)
    torch.Stream, torch.Event = functions["Stream"], functions["Event"]

    def record_stream(tensor: Any, stream: Any) -> None:
        storages.use(tensor, stream.stream_id)

    torch.Tensor.record_stream = record_stream
    torch.Tensor.pin_memory = lambda tensor, *_args, **_kwargs: tensor
    torch.Tensor.is_pinned = constant(False)
    import torch.utils.data._utils.pin_memory as pinning

    pinning.pin_memory = lambda data, *_args, **_kwargs: data
