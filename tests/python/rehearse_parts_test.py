"""Parts of a rehearsal that need no PyTorch: allocator, clock, registered prices, stand-ins."""

import json
import math
import random

import conftest  # noqa: F401
import pytest
from orrery.programs.allocator import MIB, CachingAllocator, Exhausted, segment_size
from orrery.programs.chakra import TraceWriter
from orrery.programs.clock import Clock
from orrery.programs.record import Collective, Kernel, Mark, Record
from orrery.programs.registered import PriceFileError, read_prices
from orrery.programs.settings import Settings
from orrery.programs.stand_ins import Ledger, make_stand_in


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
    )  # fmt: skip
    for decide in decisions:
        with pytest.raises(Refused, match="'mean', which no kernel computed"):
            decide()
    assert math.isclose(float(loss), 1.0)


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


def test_capability_follows_the_family():
    def of(gpu):
        return Settings(1, 8, gpu, 1.0, 1.0, 1).capability

    assert [of(gpu) for gpu in ("A100-80GB", "H100", "B200", "other")] == [
        (8, 0), (9, 0), (10, 0), (9, 0),
    ]  # fmt: skip
