"""Rules of the tidy test about the rooms: permitted includes, owners of libraries, and banned
patterns with their replacements. docs/STYLE.md gives the reasons."""
import re

# Each room and the rooms it may include. `core/schema` is a room of its own above `core`, and
# `sim/estimates` one below `policies`: the price of a step does not depend on its user.
ROOMS = {
    'core': [],
    'core/schema': ['core'],
    'topologies': ['core', 'core/schema'],
    'traces': ['core', 'core/schema', 'topologies'],
    'sim/estimates': ['core', 'core/schema', 'topologies', 'traces'],
    'policies': ['core', 'core/schema', 'topologies', 'traces', 'sim/estimates'],
    'sim': ['core', 'core/schema', 'topologies', 'traces', 'sim/estimates', 'policies'],
    'live': ['core', 'core/schema', 'topologies', 'traces', 'sim/estimates', 'policies'],
    'cli': ['core', 'core/schema', 'topologies', 'traces', 'sim/estimates', 'policies', 'sim',
            'live'],
    'python': ['core', 'core/schema', 'topologies', 'traces', 'sim/estimates', 'policies', 'sim',
               'live'],
}

# The inner rooms of a room, from the lowest up: each may include those before it. Files in no inner
# room are above them all, so that none of them may include such a file. An inner room may have
# inner ones in turn: a file keeps to the order of each room that contains it.
INNER_ROOMS = {
    'traces': ['files', 'chakra', 'report', 'workload', 'models', 'scenario',
               'published', 'jobs', 'clusters'],
    'policies': ['seam', 'placement', 'collectives', 'compression', 'checkpointing', 'power',
                 'input', 'recovery', 'queues', 'rebalancing', 'record', 'handover', 'run'],
    'sim/estimates': ['engine', 'prices', 'collectives', 'plan', 'step', 'predict'],
    'sim': ['engine', 'world', 'contention', 'training', 'chakra', 'packing', 'replay',
            'forecast', 'planning'],
    'live': ['membership', 'group', 'codec', 'torch', 'jobs', 'queue', 'slurm',
             'kubernetes', 'cuda', 'nccl', 'checkpoint',
             'machine', 'transport', 'fabric', 'training', 'control', 'run', 'programs', 'rank'],
    'live/run': ['files', 'processes', 'observations', 'metrics', 'checkpoints', 'losses',
                 'operator'],
    'cli': ['shared', 'commands'],
}

# The namespace of each room that has one of its own, inner rooms included. The other rooms are the
# vocabulary of all, users' policies too: plain `orrery`.
NAMESPACES = {
    'sim/estimates': 'orrery::estimates',
    'sim': 'orrery::sim',
    'live': 'orrery::live',
    'cli': 'orrery::cli',
    'python': 'orrery::python',
}

# Headers of a library that only some rooms may touch: everything else stays without it.
LIBRARIES = [
    (re.compile(r'<(simgrid|xbt)/'), ['sim'], 'SimGrid belongs to sim/'),
    (re.compile(r'<(grpcpp|grpc)/'), ['live'], 'gRPC belongs to live/'),
    (re.compile(r'<(cuda\w*|nccl|nvml|cublas\w*)(\.h|/)'), ['live'],
     'CUDA and NCCL belong to live/ (liborrery_cuda.so)'),
    (re.compile(r'<pybind11/'), ['python'], 'pybind11 belongs to python/'),
    (re.compile(r'<yaml-cpp/'), ['core/schema'], 'read YAML with core/schema/yaml_loader.hpp'),
]

_HOST_TIME = ['live/', 'core/process', 'policies/run/worker', 'policies/run/run_client',
              'policies/run/policy_meter', 'policies/run/detached_backend', 'tests/']
_THREADS = ['live/', 'core/process', 'policies/run/threaded_policy', 'tests/']

# (pattern in code, permitted paths, replacement)
BANNED = [
    (r'\b(?:std::)?s?rand(?:48)?\s*\(|\bdrand48\b|\bmt19937|_distribution\s*<', [],
     'the stream differs between machines; use Rng of core/random.hpp'),
    (r'\brandom_device\b', [], 'a run is its seed; take a seed and use Rng of core/random.hpp'),
    # A plugin in another program's process has no other input: NCCL's are set up by environment.
    # The parent of the runs' folders is an environment of the user, as TMPDIR: every command and
    # process must find the same one.
    (r'\b(?:secure_)?getenv\b',
     ['cli/', 'python/', 'tests/', 'core/process', 'live/nccl/tuner.cpp',
      'live/nccl/profiler.cpp', 'live/run/files/run_files.hpp'],
     'hidden input; read it in cli/ or python/ and pass the value down'),
    (r'\bchrono::\w*_clock\b|\bclock_gettime\b|\bgettimeofday\b|\bstd::time\b|\bstd::clock\b',
     _HOST_TIME, 'time is a field of the observation; use Observation time, or host use in live/'),
    (r'\bstd::(?:jthread|thread|async)\b|\bpthread_create\b', _THREADS,
     'threads belong to live/ and core/process; use worker processes (core/process.hpp)'),
    (r'\bthis_thread::sleep|\b(?:u|nano)sleep\s*\(', _THREADS,
     'nothing waits for the wall clock here; let the policy ask for a wake-up or a tick'),
    (r'\b(?:v?fork|popen|posix_spawnp?|(?:std::)?system)\s*\(', ['core/process', 'tests/'],
     'children are started and reaped in one place; use ChildProcess of core/process.hpp'),
    (r'(?<![.\w>])assert\s*\(', [], 'holds in debug builds only; use ensure() of core/error.hpp'),
    (r'\bstd::unordered_(?:multi)?(?:map|set)\b', ['cli/', 'core/', 'live/', 'python/', 'tests/'],
     'its order differs between runs and machines; use std::map or a sorted vector'),
    (r'(?i)\b(?:is|am_?i|in|running)_?(?:simulated|simulation|sim|live)\b', [],
     'nobody asks which world this is; put the difference behind Backend or a capability'),
]

# Python: (pattern, permitted paths, replacement).
BANNED_PYTHON = [
    (r'^\s*(?:import|from)\s+random\b', ['tests/'],
     'a run is its seed; use numpy.random.default_rng(seed)'),
    (r'(?i)\b(?:is|am_?i|in|running)_?(?:simulated|simulation|sim|live)\b', ['tests/tidy/'],
     'nobody asks which world this is; put the difference behind Backend or a capability'),
]

# Built from halves, so that this file does not break its own rules.
UNFINISHED = re.compile(r'\b(?:' + '|'.join(['FIX' + 'ME', 'TO' + 'DO', 'XX' + 'X']) + r')\b')
MACHINE_PATH = re.compile(r'(?<![\w.$}~-])/(?:' + '|'.join(['wo' + 'rk', 'ho' + 'me',
                                                            'Us' + 'ers']) + r')/')

# Comparison of a text with a word; tests/tidy/compared_words.txt lists the files that may have one.
WORD_COMPARISON = re.compile(r'(?:==|!=)\s*"[A-Za-z]|"[A-Za-z][^"\n]*"\s*(?:==|!=)(?!=)')

MAX_COLUMNS = 100
MAX_FUNCTION_LINES = 70
MAX_PRIVATE_METHODS = 15  # limit of a class: with more it has more than one purpose
MAX_MEMBERS = 20
MAX_FILE_LINES = 800
P90_FILE_LINES = 450
MAX_CORE_FILES = 10

# Public claims, and the scenarios that test them (tests/bench/claims_bench.py).
CLAIMS = 'examples/claims/claims.json'
