"""orrery import pytorch: traces of PyTorch's own tools as jobs, and traces that are refused.

run_programs/traced.py has recorded the traces, with PyTorch 2.13.0 for the CPU.
"""

import gzip
import json
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT

PROGRAM = BUILD / "bin" / "orrery"
TRACES = ROOT / "tests" / "python" / "run_programs" / "traces"
PATIENCE = 60
READER = ROOT / "python" / "orrery" / "programs" / "torch_traces.py"
#: Bytes of all parameters of traced.py in fp32.
BYTES = 4 * (64 * 32 + 32 * 64 + 64 + 64 * 64 + 64)
#: Traced steps of "ddp"; the other programs have one.
STEPS = 2
#: Seconds of the two steps of "ddp", as the program measured them on rank 0.
SECONDS = (0.024992238, 0.018825984)


def traces_of(kind):
    """Returns the traces of two ranks: two execution traces, then two Kineto traces."""
    return [TRACES / f"{kind}-{name}.{r}.json.gz" for name in ("et", "kineto") for r in range(2)]


def profiles_of(files, folder):
    """Returns the profiles of both ranks."""
    folder.mkdir()
    words = [sys.executable, READER, folder, *files]
    result = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, result.stderr
    return [json.loads((folder / str(rank)).read_text()) for rank in range(2)]


def refusal_of(files, folder):
    """Returns the message of the reader, with the names of files without their folder."""
    words = [sys.executable, READER, folder, *files]
    result = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 3, result.stderr
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    return result.stderr.replace(f"{folder}/", "")


def edited(path, folder, change):
    """Returns a copy of a trace, changed by a function."""
    content = json.loads(gzip.decompress(path.read_bytes()))
    change(content)
    copy = folder / path.stem
    copy.write_text(json.dumps(content))
    return copy


def kinds_of(profile):
    return [kind for kind, _, _ in profile["parts"]]


def test_buckets_overlap_with_the_backward_passes_that_issue_them(tmp_path):
    for profile in profiles_of(traces_of("ddp"), tmp_path / "profiles"):
        assert kinds_of(profile) == ["update"] + STEPS * ["backward", "backward", "update"]
        rows = profile["operations"]
        assert [row[0] for row in rows] == STEPS * 2 * 2 * ["all_reduce"]
        assert sum(row[2] for row in rows) == STEPS * 2 * BYTES
        passes = [part for part in profile["parts"] if part[0] == "backward"]
        for number, (_, group, _, issued, begun, ended, awaited) in enumerate(rows):
            _, begin, end = passes[number // 2]
            assert group == "gloo:0:0-1#0"
            assert begin <= issued <= begun <= ended <= end
            assert awaited == 0
        ends = [end for kind, _, end in profile["parts"] if kind == "update"]
        # A traced step begins in the profiler's call before it; the program measures rank 0.
        assert profile["rank"] == 1 or ends[-1] - ends[0] >= sum(SECONDS)
        state = profile["state"]
        assert state["parameters"] == {"matrices": 6144, "vectors": 128, "embeddings": 2048}
        assert state["parameter_bytes"] == BYTES
        assert state["tokens"] == 4 * 16


def test_blocking_calls_wait_at_once(tmp_path):
    for profile in profiles_of(traces_of("blocking"), tmp_path / "profiles"):
        rows = profile["operations"]
        assert [row[0] for row in rows] == 5 * ["all_reduce"] + ["barrier"]
        assert all(awaited == issued for _, _, _, issued, _, _, awaited in rows)
        assert sum(row[2] for row in rows) == BYTES


def test_sharded_programs_gather_parts_and_scatter_gradients(tmp_path):
    for profile in profiles_of(traces_of("sharded"), tmp_path / "profiles"):
        sums = {}
        for name, _, size, *_ in profile["operations"]:
            sums[name] = sums.get(name, 0) + size
        # The root is gathered once in a micro-batch, both layers twice; sizes are those of parts.
        layers = BYTES - 4 * 64 * 32
        gathered = 2 * (4 * 64 * 32 + 2 * layers) // 2
        assert sums == {"all_gather": gathered, "reduce_scatter": 2 * BYTES // 2}
        assert kinds_of(profile).count("backward") == 2
        assert profile["state"]["parameter_bytes"] == BYTES // 2
        assert profile["state"]["parameters"]["embeddings"] == 64 * 32


def test_traces_become_a_job_that_runs_at_other_sizes(tmp_path):
    scenario = tmp_path / "traced.yaml"
    result = subprocess.run(
        [PROGRAM, "import", "pytorch", *traces_of("ddp"), "-o", scenario],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "ranks        2\n" in result.stdout
    assert "2 backward passes\n" in result.stdout
    assert 'program: {trace: "traced"}' in scenario.read_text()
    recording = (tmp_path / "traced.0.et").read_bytes().decode("latin-1")
    step = json.loads(recording[recording.index("{") :])
    collectives = [op for op in step["ops"] if op.get("collective")]
    assert [op["bytes"] for op in collectives] == 4 * [BYTES / 2]
    for sizes in ((), ("--set", "job.layout.data=8", "--set", "cluster.nodes=8")):
        run = subprocess.run(
            [PROGRAM, "simulate", scenario, "--json", *sizes],
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        report = json.loads(run.stdout)
        assert report["ranks"] == (8 if sizes else 2)
        assert report["step_time_s"] >= sum(each.get("time", 0) for each in step["kernels"]) * 0.99


def test_traces_that_do_not_belong_together_are_refused(tmp_path):
    et0, et1, kineto0, kineto1 = traces_of("ddp")
    message = refusal_of([et0, kineto0], tmp_path)
    assert "expected Kineto traces of all 2 ranks, found none of rank 1" in message
    message = refusal_of([et0, kineto0, kineto1], tmp_path)
    assert "kineto.1.json.gz: expected the execution trace of rank 1" in message
    assert "found none" in message
    assert "found none" in refusal_of([et0, et1], tmp_path)
    message = refusal_of([et0, et1, kineto0, kineto0], tmp_path)
    assert "rank 0 has two Kineto traces" in message

    def renumber(content):
        for node in content["nodes"]:
            for each in node["attrs"]:
                if each["name"] == "rf_id":
                    each["value"] += 10**6

    other = edited(et0, tmp_path, renumber)
    message = refusal_of([other, et1, kineto0, kineto1], tmp_path)
    assert "et.0.json: expected the execution trace of the steps in" in message
    assert "found 0 of its" in message


def test_programs_that_are_not_recorded_so_are_refused(tmp_path):
    et0, et1, kineto0, kineto1 = traces_of("ddp")

    def add_kernel(content):
        content["traceEvents"].append({"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1})

    def divide(content):
        content["distributedInfo"]["pg_config"].append({"pg_name": "1", "ranks": [1]})

    def untrain(content):
        content["traceEvents"] = [
            each for each in content["traceEvents"] if "Optimizer.step" not in each["name"]
        ]

    def rename(content):
        for each in content["traceEvents"]:
            each["name"] = each["name"].replace("c10d::allreduce_", "c10d::alltoall_")

    for change, words in (
        (add_kernel, "found kernels of a GPU; convert the traces with chakra_trace_link"),
        (divide, "expected process groups of all 2 ranks, found one of the ranks 1"),
        (untrain, "expected steps of a torch.optim optimizer, found none"),
        (rename, "found c10d::alltoall_"),
    ):
        message = refusal_of([et0, et1, edited(kineto0, tmp_path, change), kineto1], tmp_path)
        assert "kineto.0.json: expected" in message
        assert words in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"traceEvents": [{"ph": "X", "na', "t.json:1: expected JSON, found a file that ends"),
        ("", "t.json:1: expected JSON, found a file that ends early"),
        ('{"nodes": [}', "t.json:1: expected JSON, found Expecting value"),
        ("\udcff\udcff", "t.json: expected JSON, found other bytes"),
        ("\x1f\udc8bxx", "t.json: "),
        ("[1, 2]", "t.json: expected a trace of PyTorch, found another JSON file"),
        ('{"a": 1}', "t.json: expected an execution trace (with 'schema' and 'nodes') or a Kin"),
        ('{"traceEvents": [{"ph": "X", "cat": "cpu_op"}]}', "found a different form (KeyError("),
        ('{"traceEvents": []}', "expected events with 'Record function id', found none"),
        (None, "t.json: No such file or directory"),
    ],
)
def test_other_files_are_named_with_a_remedy(tmp_path, text, words):
    path = tmp_path / "t.json"
    if text is not None:
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert words in refusal_of([path], tmp_path)


def test_the_command_ends_with_the_code_of_bad_input_and_writes_nothing(tmp_path):
    (tmp_path / "t.json").write_text("{}")
    out = tmp_path / "t.yaml"
    result = subprocess.run(
        [PROGRAM, "import", "pytorch", tmp_path / "t.json", "-o", out],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert result.returncode == 3
    assert "t.json: expected an execution trace" in result.stderr
    assert not out.exists()
