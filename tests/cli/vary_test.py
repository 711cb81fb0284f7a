"""orrery rehearse --vary: combinations, ranked results, failed ones. A program without PyTorch
takes the place of the rehearsed one; tests/python/rehearse_test.py has a real one."""

import json
import sys

import pytest
from conftest import orrery

#: A Python part whose step takes 8 / tp + mbs seconds, and that fails for tp 3 and mbs 4.
PART = """
import json, os, socket, struct, sys
tp, mbs, tokens = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "tokens"
print("output of the program")
if tp == 3:
    print("Traceback\\n[rank12]: ValueError: tp = 3 divides nothing\\n", file=sys.stderr)
    raise SystemExit(1)
step = None if mbs == 9 else 8 / tp + mbs
report = {"step_time_s": step, "memory_bytes": mbs << 30, "reserved_bytes": mbs << 31,
          "tokens_per_s": mbs * 1000 / step if step and tokens else None,
          "refused": "train.py:3: no branch" if mbs == 4 else None}
sock = socket.socket(fileno=3)
text = json.dumps({"report": json.dumps(report) + "\\n"}).encode()
sock.sendall(struct.pack("<I", len(text)) + text)
sock.recv(100)
os._exit(4 if mbs == 4 else 0)
"""


def vary(text, *options, last="tokens", words=("{tp}", "{mbs}")):
    return orrery("rehearse", "--ranks", "8", "--cluster", "dgx-h100", "--vary", text, *options,
                  "--", sys.executable, "-S", "-c", PART, *words, last)  # fmt: skip


def test_combinations_are_ranked_by_tokens():
    result = vary("tp=1,2 mbs=1..3", "--json")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)["combinations"]
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5, 6]
    values = [(int(row["values"]["tp"]), int(row["values"]["mbs"])) for row in rows]
    # Tokens in a second: mbs / (8 / tp + mbs); equal ones stay in their order.
    assert values == [(2, 3), (2, 2), (1, 3), (1, 2), (2, 1), (1, 1)]
    assert rows[0]["step_time_s"] == 8 / 2 + 3
    assert rows[0]["tokens_per_s"] == pytest.approx(3000 / 7)
    assert rows[0]["memory_bytes"] == 3 << 30
    assert rows[0]["reason"] is None


def test_without_tokens_the_shortest_step_is_first():
    rows = json.loads(vary("tp=1,4 mbs=1,2", "--json", last="-").stdout)["combinations"]
    assert [row["step_time_s"] for row in rows] == [3, 4, 9, 10]
    assert rows[0]["tokens_per_s"] is None


def test_failed_combinations_are_rows_with_their_reason():
    result = vary("tp=3,2 mbs=1,4,9")
    assert result.returncode == 0, result.stderr
    head, best, *failed = result.stdout.splitlines()
    assert head.split() == ["rank", "tp", "mbs", "step", "tokens/s", "allocated", "reserved",
                            "reason"]  # fmt: skip
    assert best.split() == ["1", "2", "1", "5.0000", "s", "200", "1.0", "GiB", "2.0", "GiB"]
    reasons = [line.split(maxsplit=3)[3] for line in failed]
    assert reasons == ["ValueError: tp = 3 divides nothing"] * 3 + [
        "train.py:3: no branch", "expected two optimizer steps, found fewer",
    ]  # fmt: skip
    assert all(line.startswith("   -") for line in failed)


def test_no_result_misses_the_goal():
    result = vary("tp=3 mbs=1", "--json")
    assert result.returncode == 1
    (row,) = json.loads(result.stdout)["combinations"]
    assert (row["rank"], row["exit_code"], row["step_time_s"]) == (None, 1, None)


def test_mistakes_are_named():
    def refusal(text, **more):
        result = vary(text, **more)
        assert result.returncode == 2, result.stderr
        return result.stderr

    assert "expected NAME=VALUE,VALUE or NAME=FIRST..LAST, found 'tp'" in refusal("tp mbs=1")
    assert "expected a value between two commas" in refusal("tp=1,,2 mbs=1")
    assert "a rising range" in refusal("tp=4..1 mbs=1")
    assert "a rising range" in refusal("tp=1..x mbs=1")
    assert "'tp' is given twice" in refusal("tp=1 tp=2")
    assert "expected at most 1000 combinations" in refusal("tp=1..500 mbs=1..3")
    assert "expected {other} in the program's command line" in refusal("other=1")
    assert "found nothing" in refusal(" ")
    assert "neither --scenario nor --trace" in vary("tp=1 mbs=1", "--trace", "x").stderr
