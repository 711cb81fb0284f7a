"""orrery rehearse without PyTorch: the environment of the program, its end, and its prices."""

import json
import os
import subprocess
import sys

import pytest
from conftest import PROGRAM, ROOT, orrery

#: A Python part that asks for the prices in its arguments and prints the answers.
CLIENT = """
import json, socket, struct, sys
sock = socket.socket(fileno=3)
for text in sys.argv[1:]:
    sock.sendall(struct.pack("<I", len(text)) + text.encode())
    size = struct.unpack("<I", sock.recv(4))[0]
    print(sock.recv(size).decode(), flush=True)
"""


def rehearse(*words, ranks=16, options=(), **more):
    return orrery("rehearse", "--ranks", str(ranks), "--cluster", "dgx-h100", *options, "--",
                  *words, **more)  # fmt: skip


def test_the_program_is_rank_0_of_a_launched_job():
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT")
    code = f"import os; print([os.environ[n] for n in {names}])"
    result = rehearse(sys.executable, "-S", "-c", code)
    assert result.stdout == "['0', '0', '16', '8', '29500']\n"
    assert result.stderr.startswith("rehearsing rank 0 of 16 on 2 nodes of dgx-h100 (H100): ")
    # A program without PyTorch has no report.
    assert "no report: expected a Python program that imports torch" in result.stderr
    assert result.returncode == 4


def test_the_exit_code_is_the_programs():
    assert rehearse(sys.executable, "-S", "-c", "raise SystemExit(7)").returncode == 7
    result = rehearse("no-such-program")
    assert result.returncode == 127
    assert "no-such-program: expected a program, found none" in result.stderr


def test_prices_are_answered():
    product = {"kernel": "gemm", "precision": "bf16", "m": 4096, "n": 4096, "k": 4096,
               "flop": 2 * 4096**3, "bytes": 6 * 4096**2}  # fmt: skip
    gathered = {"collective": "all_gather", "members": list(range(16)), "bytes": 1e9}
    questions = [
        product,
        {**product, "precision": "fp32"},
        {"kernel": "memory", "bytes": 3.35e9, "name": "norm"},
        {"kernel": "memory", "bytes": 3.35e9},
        gathered,
        {"collective": "all_gather", "members": [0], "bytes": 1e9},
        {"kernel": "dance"},
        {"collective": "all_gather", "members": [0, 99], "bytes": 1},
        {"report": "the report\n"},
    ]
    result = rehearse(sys.executable, "-S", "-c", CLIENT, *map(json.dumps, questions))
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    seconds = [answer.get("seconds") for answer in answers]
    # At most the peak of the data sheet, at least half of it.
    assert 1 < seconds[0] / (2 * 4096**3 / 989.4e12) < 2
    assert seconds[1] > 10 * seconds[0]
    # A norm reaches 0.3681 of 3.35 TB/s in the kernel tables, a plain stream all.
    assert seconds[2] == pytest.approx(1e-3 / 0.3681, rel=0.01)
    assert seconds[3] == pytest.approx(1e-3, rel=0.01)
    # Half of the bytes cross the eight NICs of 50 GB/s.
    assert 1e9 / 2 / 400e9 < seconds[4] < 2e9 / 400e9
    assert seconds[5] == 0
    assert "dance" in answers[6]["error"]
    assert "expected ranks below 16, got 99" in answers[7]["error"]
    assert result.returncode == 0
    assert result.stderr.endswith("the report\n")


def test_json_is_alone_on_the_standard_output():
    code = "print('from the program')\n" + CLIENT
    report = json.dumps({"report": '{"ranks": 16}\n'})
    result = rehearse(sys.executable, "-S", "-c", code, report, options=["--json"])
    assert json.loads(result.stdout) == {"ranks": 16}
    assert "from the program" in result.stderr


def test_the_cluster_must_have_a_gpu_for_each_rank(tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text("preset: dgx-h100\nnodes: 1\n")
    result = orrery("rehearse", "--ranks", "9", "--cluster", file, "--", "true")
    assert result.returncode == 3
    assert "expected a GPU for each of 9 ranks, found 8 GPUs" in result.stderr
    assert orrery("rehearse", "--ranks", "9", "--cluster", "dgx-h10", "--", "true").returncode == 3
    assert orrery("rehearse", "--cluster", "dgx-h100", "--", "true").returncode == 2


def test_outside_a_rehearsal_the_attached_folder_does_nothing(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('hidden one')\n")
    attach = ROOT / "python" / "orrery" / "programs" / "attach"
    environment = {**os.environ, "PYTHONPATH": f"{attach}:{tmp_path}"}
    code = "import sys, time; print('orrery_programs' in sys.modules, time.time.__name__)"

    def run(**more):
        return subprocess.run(
            [sys.executable, "-c", code], env={**environment, **more}, capture_output=True,
            text=True,
        )  # fmt: skip

    expected = "hidden one\nFalse time\n"
    assert run().stdout == expected
    # A process that did not inherit the connection is left as it is.
    assert run(ORRERY_REHEARSE="{}").stdout == "hidden one\nTrue time\n"
    assert PROGRAM.exists()
