"""Parts of a rehearsal that need no PyTorch: allocator, clock, registered prices, stand-ins."""

import json
import math
import random
import subprocess
import sys
from types import SimpleNamespace

import conftest
import pytest
from orrery.programs.allocator import MIB, CachingAllocator, Exhausted, segment_size
from orrery.programs.chakra import TraceWriter
from orrery.programs.clock import Clock
from orrery.programs.record import Collective, Kernel, Mark, Pass, Record, Step, Transfer
from orrery.programs.registered import PriceFileError, read_prices
from orrery.programs.roles import Roles
from orrery.programs.settings import Settings
from orrery.programs.stand_ins import Ledger, make_stand_in
from orrery.programs.state import State, state_of, sum_of
from orrery.programs.steps import (
    Sequence,
    joined_stages,
    nodes_of,
    recorded_step,
    stride_of,
)


def new_allocator(capacity=100 * MIB):
    clock = Clock()
    return clock, CachingAllocator(capacity, lambda s: clock.ready[s], lambda: clock.now)


def test_segments_follow_the_caching_allocator():
    assert [segment_size(n * MIB) for n in (1, 2, 9, 10, 11)] == [
        2 * MIB, 20 * MIB, 20 * MIB, 10 * MIB, 12 * MIB,
    ]  # fmt: skip
    _, memory = new_allocator()
    first, second = memory.allocate(1, 0), memory.allocate(5 * MIB, 0)
    assert (memory.allocated, memory.reserved) == (512 + 5 * MIB, 22 * MIB)
    memory.release(first)
    memory.release(second)
    assert (memory.allocated, memory.reserved) == (0, 22 * MIB)
    memory.release_cached()
    assert memory.reserved == 0
    assert memory.peak_allocated == 512 + 5 * MIB


def test_fragments_and_cached_segments_decide_what_fits():
    _, memory = new_allocator()
    blocks = [memory.allocate(5 * MIB, 0) for _ in range(16)]  # four segments of 20 MiB
    for block in blocks[::2]:
        memory.release(block)
    with pytest.raises(Exhausted) as error:  # 60 MiB are free, in pieces of 5 MiB
        memory.allocate(30 * MIB, 0)
    assert error.value.requested == 30 * MIB
    for block in blocks[1:8:2]:
        memory.release(block)
    memory.allocate(30 * MIB, 0)  # two segments are given back
    assert memory.retries == 2


def test_a_block_serves_its_own_stream_and_waits_for_others():
    clock, memory = new_allocator()
    block = memory.allocate(20 * MIB, 0)
    block.users = {7}
    clock.start(2.0, 7)
    memory.release(block)
    assert memory.allocated == 20 * MIB
    clock.synchronize(7)
    assert memory.allocate(20 * MIB, 3) is not block
    assert (memory.allocated, memory.reserved) == (20 * MIB, 40 * MIB)
    assert memory.allocate(20 * MIB, 0) is block


def test_random_requests_keep_the_books(seed=7):
    draw = random.Random(seed)
    _, memory = new_allocator(1 << 40)
    held = []
    for _ in range(3000):
        if held and draw.random() < 0.5:
            memory.release(held.pop(draw.randrange(len(held))))
        else:
            held.append(memory.allocate(int(2 ** draw.uniform(0, 26)), draw.randrange(2)))
        assert memory.allocated == sum(block.size for block in held) <= memory.reserved
    for block in held:
        memory.release(block)
    memory.release_cached()
    assert (memory.allocated, memory.reserved) == (0, 0)


def test_kernels_run_in_stream_order_after_their_launch():
    clock = Clock()
    clock.spend(1.0)
    assert clock.start(2.0, 0) == 1.0
    assert clock.start(2.0, 0) == 3.0
    assert clock.start(1.0, 1) == 1.0
    clock.wait_for(5.0, 1)
    assert clock.start(1.0, 1) == 5.0
    assert clock.now == 1.0
    clock.synchronize(0)
    assert clock.now == 5.0
    clock.synchronize()
    assert clock.now == 6.0


def test_registered_prices():
    text = "a::b flops=2*in0[0]*in1[-1]  bytes=max(in_bytes,1)\n# no\nc time_s=1e-3\n"
    prices = read_prices(text, "f")
    assert prices["a::b"].values([(4, 8), (8, 16)], [], 10, 0) == {"flops": 128, "bytes": 10}
    assert prices["c"].values([], [], 0, 0) == {"time_s": 1e-3}
    for bad in ("a", "a time=3", "a bytes=", "a bytes=1 +2", "a bytes=(", "a bytes=in0(3)"):
        with pytest.raises((PriceFileError, ValueError)):
            read_prices(f"\n{bad}", "f")["a"].values([(1,)], [], 0, 0)
    with pytest.raises(PriceFileError, match=r"^f:2: expected NAME"):
        read_prices("\na 3", "f")


class Refused(Exception):
    pass


def ledger(allowed=()):
    def refuse(message):
        raise Refused(message)

    return Ledger(frozenset(allowed), refuse)


def test_stand_ins_print_and_calculate_but_do_not_decide():
    loss, count = (make_stand_in(value, "mean", ledger()) for value in (1.0, 1))
    assert f"{loss:.2f} {2 * loss + 1:.1f} {round(loss / 3, 2)} {-count}" == "1.00 3.0 0.33 -1"
    assert json.dumps({"loss": 2 * loss}) == '{"loss": 2.0}'
    total = 0
    total += count
    decisions = (
        lambda: loss < 3, lambda: bool(2 * loss), lambda: max(loss, 3.0), lambda: int(loss),
        lambda: range(total), lambda: [1, 2][count], lambda: 3 == count, lambda: abs(loss) > 1,
        lambda: bool(count & 1), lambda: range(1 << count), lambda: [1][~count],
        lambda: int(f"{loss:.0f}"), lambda: int(str(total)), lambda: complex(loss),
    )  # fmt: skip
    for decide in decisions:
        with pytest.raises(Refused, match="'mean', which no kernel computed"):
            decide()
    assert math.isclose(float(loss), 1.0)


#: Conversions of stand-ins; a process of its own, because they are replaced for good.
CONVERSIONS = """
import collections, math, pickle
from orrery.programs.conversions import follow_conversions, guard_math
from orrery.programs.stand_ins import Ledger, StandIn, find_stand_in, make_stand_in, plain

def refuse(message):
    raise SystemError(message)

assert follow_conversions() == ""
guard_math()
assert [float(2), float("1e3"), float(True), float(), float(1.5)] == [2.0, 1e3, 1.0, 0.0, 1.5]
for wrong in ("a", None, []):
    try:
        float(wrong)
        raise AssertionError(wrong)
    except (TypeError, ValueError):
        pass
ledger = Ledger(frozenset(), refuse)
loss, count = (make_stand_in(each, "mean", ledger) for each in (1.5, 2))
made = [float(loss), float(count), float(f"{loss:.1f}"), *map(float, [loss]), math.exp(loss),
        math.sqrt(count), math.floor(loss), math.fsum(each for each in [1, loss]), sum([loss, 1])]
assert all(isinstance(each, StandIn) and each.name == "mean" for each in made), made
assert [str(each) for each in made[:4]] == ["1.5", "2.0", "1.5", "1.5"]
assert math.sqrt(4) == 2 and math.gcd(4, 6) == 2 and isinstance(float(loss), float)
for name, check in (("isnan", math.isnan), ("mean", lambda each: math.isclose(each, 1))):
    try:
        check(loss)
        raise AssertionError(name)
    except SystemError as error:
        assert f"a result of '{name}'" in str(error)
window = collections.deque([1, (loss,)], maxlen=2)
assert find_stand_in([{"losses": window}]) is loss and plain(window)[1] == (1.5,)
assert type(pickle.loads(pickle.dumps([loss, str(loss)]))[0]) is float
assert ledger.reads == {}
"""


def test_conversions_and_functions_of_python_return_stand_ins():
    code = f"import sys; sys.path.insert(0, {str(conftest.BUILD / 'python')!r})\n{CONVERSIONS}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_allowed_stand_in_decides_and_is_counted():
    book = ledger({"mean"})
    loss = make_stand_in(1.0, "mean", book)
    assert loss < 3
    assert [(name, use) for name, use, _ in book.reads] == [("mean", "decides")]


def kernel(seconds=1.0, stream=0):
    return Kernel("mm", "table", seconds, 8.0, 4.0, stream, 0.0)


def test_steps_of_two_optimizers_are_one():
    record = Record()
    for end in (2.0, 5.0):
        record.add(kernel())
        record.note_pass()
        record.end_step(end, end)
        record.add(kernel())
        record.end_step(end + 0.5, end)
    assert record.durations == [3.5 - 0.5]
    assert len(record.last.rows) == 2


def test_record_has_the_processor_time_of_the_first_step_and_the_least_of_the_others():
    record = Record()
    for cpu_s in (5.0, 7.0, 8.0, 12.0):
        record.note_pass()
        record.add(kernel())
        record.end_step(cpu_s, cpu_s)
    assert record.first_end_cpu_s == 5.0
    assert record.least_cpu_s == 1.0


def test_trace_has_the_dependencies_of_streams():
    writer = TraceWriter(4)
    among = Collective("all_gather", 16, "pg", (0, 1, 2, 3), 1.0, 1, 0.0, 5, False)
    for row in (kernel(), Mark("event", 0, 9), Mark("wait_event", 1, 9), among,
                Mark("wait_collective", 0, 5), kernel()):  # fmt: skip
        writer.add(row)
    first, gathered, second = writer.nodes
    assert b"\x2a\x01\x01" in gathered  # data_deps: node 1
    assert b"\x2a\x02\x01\x02" in second
    assert b"comm_size" in gathered and writer.groups == {}
    writer.add(among._replace(members=(0, 2), group="tp"))
    assert writer.groups == {"tp": [0, 2]}


def test_messages_of_a_trace_are_numbered_between_two_ranks():
    writer = TraceWriter(8)
    sent = Collective("send", 16, "pg", (0, 4), 1.0, 0, 0.0, 5, False)
    for row in (sent, sent._replace(kind="receive", members=(4, 0)), sent):
        writer.add(row)
    tags = [node[node.index(b"comm_tag"):] for node in writer.nodes]
    # int64_val, field 9: the first message each way, and the second from rank 0 to rank 4.
    assert tags == [b"comm_tag\x48\x01", b"comm_tag\x48\x01", b"comm_tag\x48\x02"]
    assert [node[node.index(b"\x18") + 1] for node in writer.nodes] == [5, 6, 5]
    assert writer.groups == {}


def sequence(rows):
    """The operations of rows, and the number of micro-batches."""
    nodes, micro_batches = nodes_of(Step([*rows], 0.0, 1.0, len(rows), 0.0))
    made = Sequence(nodes)
    made.build()
    return made, micro_batches


def exchange(number, kind="all_reduce", stream=0, phase="backward", size=1 << 20):
    return Collective(kind, size, "pg", (0, 1), 1.0, stream, 0.0, number, False, phase, 2)


def test_micro_batches_are_forward_and_backward_parts():
    forward = kernel()
    backward = forward._replace(phase="backward")
    update = forward._replace(phase="update")
    made, count = sequence([forward, backward, forward, forward, backward, forward, update])
    assert count == 2
    parts = [(op["phase"], op["micro_batch"], op["counts"]) for op in made.ops]
    # A kernel between the last backward part and the update clips gradients, for example.
    assert parts == [("forward", 0, [1]), ("backward", 0, [1]), ("forward", 1, [2]),
                     ("backward", 1, [1]), ("update", 0, [2])]  # fmt: skip
    assert sequence([forward])[1] == 0


def test_exchange_begins_behind_its_kernels_and_later_kernels_do_not_wait():
    backward = kernel()._replace(phase="backward")
    rows = [kernel(), backward, exchange(1), backward, exchange(2), Mark("wait_collective", 0, 1),
            Mark("wait_collective", 0, 2), kernel()._replace(phase="update")]  # fmt: skip
    made, _ = sequence(rows)
    after = [(op.get("collective"), op["after"]) for op in made.ops]
    # Operation 5 waits for the newest exchange only: exchanges run in their order.
    assert after == [(None, []), (None, []), ("all_reduce", [1]), (None, []), ("all_reduce", [3]),
                     (None, [4])]  # fmt: skip
    assert not made.sharded


def test_copy_beside_the_main_stream_lets_the_gathering_begin_early():
    # Kernels 1 to 3 of the main stream, and a copy that needs kernel 1 only, before a gathering.
    rows = [kernel(5.0), Mark("event", 0, 1), kernel(5.0), kernel(5.0), Mark("wait_event", 1, 1),
            kernel(1.0, 1), exchange(1, "all_gather", 1, "forward"),
            kernel()._replace(phase="backward")]  # fmt: skip
    made, _ = sequence(rows)
    kinds = [op.get("collective") or sum(op["counts"]) for op in made.ops]
    assert kinds == [2, "all_gather", 2, 1]
    assert made.ops[1]["after"] == [0]


def test_kernels_behind_scattered_gradients_run_when_they_are_needed():
    backward = kernel(5.0)._replace(phase="backward")
    rows = [kernel(), backward, Mark("event", 0, 9), Mark("wait_event", 1, 9),
            exchange(1, "reduce_scatter", 1), Mark("wait_collective", 1, 1),
            backward._replace(stream=1, seconds=0.1, moved=9.0), backward,
            Mark("wait_stream", 0, 1), kernel()._replace(phase="update")]  # fmt: skip
    made, _ = sequence(rows)
    assert made.sharded
    kinds = [op.get("collective") or sum(op["counts"]) for op in made.ops]
    # The division of the gradients waits for the exchange; the second backward kernel does not.
    assert kinds == [1, 1, "reduce_scatter", 1, 2]
    assert made.ops[4]["after"] == [2] and made.ops[4]["phase"] == "update"
    shares = [key[-1] for key in made.kernels]
    assert shares == [False, False, True, True]


def test_compact_step_has_the_state_of_the_model():
    backward = kernel()._replace(phase="backward")
    scatter = exchange(1, "reduce_scatter")._replace(members=(0, 1, 2, 3))
    step = Step([kernel(), backward, scatter], 0.0, 1.0, 3, 0.0)
    told = SimpleNamespace(settings=Settings(4, 8, "H100", 1.0, 1.0, 1), tokens=7, storages=None,
                           pipeline=None, schedule="",
                           states={1: State(8, 2, 1, 40, 30, 20)})  # fmt: skip
    made = recorded_step(told, step)
    assert (made["ranks"], made["micro_batches"], made["tokens"]) == (4, 1, 7)
    assert made["sharded"] and made["gradient_value_bytes"] == 2
    # This rank's part of the parameters is less than the scattered gradients of 2 bytes each.
    assert made["parameters"] == {"matrices": (1 << 20) // 2}
    assert (made["parameter_bytes"], made["optimizer_bytes"]) == (40, 20)
    told.states = {1: State(1 << 19)}
    assert recorded_step(told, step)["parameters"]["matrices"] == 1 << 19
    assert made["ops"][2] == {
        "phase": "backward", "micro_batch": 0, "collective": "reduce_scatter", "bytes": 1 << 20,
        "size": 4, "stride": 1, "after": [1],
    }  # fmt: skip
    with pytest.raises(ValueError, match="no regular distance"):
        recorded_step(told, step._replace(rows=[scatter._replace(members=(0, 1, 3))]))


def test_groups_need_a_regular_distance():
    assert [stride_of(members) for members in ((0, 1), (0, 4, 8), (0, 1, 3), (2, 4))] == [
        1, 4, 0, 0,
    ]  # fmt: skip


class Tensor:
    """Shape, element size, gradient and local part of a tensor."""

    def __init__(self, shape, element=4, local=None):
        self.shape, self.grad = shape, None
        self._element = element
        self._local_tensor = local or self

    def element_size(self):
        return self._element


def test_state_counts_whole_models_and_bytes_of_a_rank():
    table, weight = Tensor((100, 8)), Tensor((64, 8), 4, Tensor((16, 8)))
    same_shape, bias = Tensor((100, 8), 2), Tensor((8,))
    weight.grad = weight
    flat = Tensor((10,))
    flat._unpadded_unsharded_size = (40,)

    class Optimizer:
        param_groups = [{"params": [table, weight, same_shape, bias, flat]}]
        state = {weight: {"moment": Tensor((64, 8), 4, Tensor((16, 8))), "step": 1}}

    state = state_of(Optimizer, {(100, 8): {1}})
    assert state == State(64 * 8 + 800 + 40, 8, 800, 4 * (800 + 128 + 8 + 10) + 2 * 800, 512, 512)
    assert sum_of([state, state]).embeddings == 1600


def stage_rows(first, order=(0, 1), awaits=True):
    """Rows of the first or the second of two stages, with two micro-batches."""
    backward = kernel()._replace(phase="backward")
    peer, rows = int(first), []
    for number, micro_batch in enumerate(order):
        sent = Transfer("send", "forward", 0, micro_batch, 0, peer, 64)
        row = exchange(number, "send")
        rows += [Pass("forward", 0, micro_batch)]
        rows += [kernel(), sent, row] if first else [sent._replace(kind="receive"), kernel()]
        rows += [Mark("wait_collective", 0, number)] if first and awaits else []
    for number, micro_batch in enumerate(order):
        sent = Transfer("send", "backward", 0, micro_batch, 0, peer, 64)
        row = exchange(2 + number, "send")
        rows += [Pass("backward", 0, micro_batch)]
        rows += [sent._replace(kind="receive"), backward] if first else [backward, sent, row]
    return [*rows, kernel()._replace(phase="update")]


def stage_of(rank, rows):
    told = SimpleNamespace(settings=Settings(4, 8, "H100", 1.0, 1.0, 1, rank=rank), tokens=0,
                           storages=None, states={1: State(8)}, pipeline=(0, 2),
                           schedule="OfATest")  # fmt: skip
    return recorded_step(told, Step(rows, 0.0, 1.0, 3, 0.0))


def test_stages_of_a_pipeline_become_one_step():
    first, second = (stage_of(rank, stage_rows(rank == 0)) for rank in (0, 2))
    told = [(op["phase"], op["micro_batch"], op.get("collective"), op["after"])
            for op in first["ops"]]  # fmt: skip
    assert told == [
        ("forward", 0, None, []), ("forward", 0, "send", [0]), ("forward", 1, None, [1]),
        ("forward", 1, "send", [2]), ("backward", 0, "receive", []),
        # Waits for its message and for that of the pass before.
        ("backward", 0, None, [3, 4]), ("backward", 1, "receive", []), ("backward", 1, None, [6]),
        ("update", 0, None, []),
    ]  # fmt: skip
    free = stage_of(0, stage_rows(True, awaits=False))
    assert free["ops"][2]["after"] == [] and free["ops"][5]["after"] == [4]
    whole = joined_stages([first, second], (0, 2))
    assert whole["stages_apart"] and whole["schedule"] == "OfATest"
    assert whole["parameters"] == {"matrices": 16, "vectors": 0, "embeddings": 0}
    assert [op.get("collective") for op in whole["stages"][0]["ops"]] == [
        "receive", None, "receive", None, None, "send", None, "send", None
    ]  # fmt: skip
    with pytest.raises(ValueError, match="have no regular distance"):
        joined_stages([first, second], (1, 2))
    with pytest.raises(ValueError, match="some stages divide"):
        joined_stages([first, {**second, "sharded": True}], (0, 2))
    with pytest.raises(ValueError, match=r"OfATest has forward passes in the order \[1, 0\]"):
        stage_of(0, stage_rows(True, order=(1, 0)))


def roles_of(running, ranks=16, own=0):
    session = SimpleNamespace(
        settings=SimpleNamespace(rank=own, roles=running, ranks=ranks),
        restart_with=lambda needed: needs.append(needed),
    )
    needs = []
    return Roles(session), needs


def test_ranks_are_alike_running_ones():
    roles, _ = roles_of((0, 4, 8, 12))
    assert [roles.like(rank) for rank in (0, 3, 4, 9, 15)] == [0, 0, 4, 8, 12]
    # Rank 0 differs from all others.
    assert [roles_of((0, 1))[0].like(rank) for rank in range(5)] == [0, 1, 1, 1, 1]
    assert [roles_of((0, 2, 3))[0].like(rank) for rank in (1, 2, 9)] == [0, 2, 3]
    assert roles.among([0, 1, 4]) == (0, 4) and roles_of((0,))[0].among([0, 1]) == ()


def test_a_partner_that_does_not_run_is_needed_with_its_group():
    roles, needs = roles_of((0,))
    roles.require(4, [0, 4, 8, 12])
    roles.require(2, range(16))  # the group of all ranks: those at this distance
    assert needs == [[0, 4, 8, 12], [0, 2, 4, 6, 8, 10, 12, 14]]
    roles.require(0, [0, 4])
    many, needs = roles_of((0,), ranks=1024)
    many.require(1, range(1024))
    assert needs == [[0, 1]]


def test_capability_follows_the_family():
    def of(gpu):
        return Settings(1, 8, gpu, 1.0, 1.0, 1).capability

    assert [of(gpu) for gpu in ("A100-80GB", "H100", "B200", "other")] == [
        (8, 0), (9, 0), (10, 0), (9, 0),
    ]  # fmt: skip
