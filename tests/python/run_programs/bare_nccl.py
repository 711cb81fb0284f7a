"""A program without PyTorch whose ranks load NCCL, as JAX does: this file plays NCCL.

Loads the plugins that the environment names, asks the tuner for each call and tells the profiler of
its time, as NCCL does. Writes the algorithms that it was to use.
"""

import ctypes
import os
import sys
import time

RANK, RANKS, STEPS = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "STEPS"))
ALL_REDUCE, COLLECTIVE, CHANNEL, CHANNEL_STOP = 4, 1 << 1, 1 << 6, 22
ALGORITHMS, PROTOCOLS = 7, 3
C = ctypes
P, INT, U64, SIZE = C.c_void_p, C.c_int, C.c_uint64, C.c_size_t


class Tuner(C.Structure):
    """ncclTuner_v5_t."""

    _fields_ = [
        ("name", C.c_char_p),
        ("open", C.CFUNCTYPE(INT, C.POINTER(P), U64, SIZE, SIZE, P, P, P)),
        ("choose", C.CFUNCTYPE(INT, P, INT, SIZE, INT, P, INT, INT, INT, C.POINTER(INT))),
        ("close", C.CFUNCTYPE(INT, P)),
    ]


class Call(C.Structure):
    """coll of ncclProfilerEventDescr_v5_t."""

    _fields_ = [
        ("sequence", U64), ("function", C.c_char_p), ("sent", P), ("received", P),
        ("count", SIZE), ("root", INT), ("type", C.c_char_p), ("channels", C.c_uint8),
        ("warps", C.c_uint8), ("algorithm", C.c_char_p), ("protocol", C.c_char_p),
    ]  # fmt: skip


class Channel(C.Structure):
    """kernelCh of ncclProfilerEventDescr_v5_t."""

    _fields_ = [("number", C.c_uint8), ("time", U64)]


class Either(C.Union):
    _fields_ = [("call", Call), ("channel", Channel)]


class Described(C.Structure):
    """ncclProfilerEventDescr_v5_t."""

    _fields_ = [("type", U64), ("parent", P), ("rank", INT), ("of", Either)]


class Profiler(C.Structure):
    """ncclProfiler_v5_t."""

    _fields_ = [
        ("name", C.c_char_p),
        ("open", C.CFUNCTYPE(INT, C.POINTER(P), U64, C.POINTER(INT), C.c_char_p, INT, INT, INT, P)),
        ("start", C.CFUNCTYPE(INT, P, C.POINTER(P), C.POINTER(Described))),
        ("stop", C.CFUNCTYPE(INT, P)),
        ("record", C.CFUNCTYPE(INT, P, INT, C.POINTER(U64))),
        ("close", C.CFUNCTYPE(INT, P)),
    ]


def choose(tuner, context, count):
    costs = (C.c_float * (ALGORITHMS * PROTOCOLS))(*range(10, 10 + ALGORITHMS * PROTOCOLS))
    channels = INT(0)
    tuner.choose(
        context, ALL_REDUCE, 4 * count, 1, costs, ALGORITHMS, PROTOCOLS, 0, C.byref(channels)
    )
    best = min(range(len(costs)), key=lambda at: costs[at])
    return "TREE RING OTHER".split()[min(best // PROTOCOLS, 2)]


def start(profiler, context, described):
    handle = P()
    profiler.start(context, C.byref(handle), C.byref(described))
    return handle


def report(profiler, context, sequence, count, algorithm, duration_ns):
    call = Call(
        sequence=sequence, function=b"AllReduce", count=count, type=b"ncclFloat32", channels=1,
        algorithm=algorithm.encode(), protocol=b"SIMPLE",
    )  # fmt: skip
    whole = start(profiler, context, Described(COLLECTIVE, None, RANK, Either(call=call)))
    profiler.stop(whole)
    begin = Channel(0, 1_000_000)
    channel = start(profiler, context, Described(CHANNEL, whole, RANK, Either(channel=begin)))
    profiler.record(channel, CHANNEL_STOP, C.byref(U64(1_000_000 + duration_ns)))
    profiler.stop(channel)


def main():
    own = C.CDLL(os.environ["NCCL_TUNER_PLUGIN"])
    tuner = Tuner.in_dll(own, "ncclTunerPlugin_v5")
    profiler = Profiler.in_dll(C.CDLL(os.environ["NCCL_PROFILER_PLUGIN"]), "ncclProfiler_v5")
    tuned, profiled, mask = P(), P(), INT(0)
    tuner.open(C.byref(tuned), 7, RANKS, 1, None, None, None)
    profiler.open(C.byref(profiled), 7, C.byref(mask), b"world", 1, RANKS, RANK, None)
    assert mask.value == COLLECTIVE | CHANNEL
    used = []
    for step in range(STEPS):
        for count in (250, 250_000):
            algorithm = choose(tuner, tuned, count)
            used.append(algorithm)
            report(profiler, profiled, len(used), count, algorithm, 40 * count * (2 - RANK % 2))
            time.sleep(0.01)
    profiler.close(profiled)
    tuner.close(tuned)
    print(f"rank {RANK} used {'-'.join(used[:2])}, in all calls: {used == used[:2] * STEPS}")


assert "torch" not in sys.modules
main()
