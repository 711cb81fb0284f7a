"""Ranks of a rehearsal that run side by side: meetings, lost and stuck ranks, a second start.

Programs without PyTorch take the place of rehearsed ones; tests/python/rehearse_roles_test.py
has real ones.
"""

import json
import sys

from conftest import orrery

#: A Python part of which each rank runs its own lines.
PART = """
import json, os, socket, struct, sys
sock = socket.socket(fileno=3)
def ask(**message):
    text = json.dumps(message).encode()
    sock.sendall(struct.pack("<I", len(text)) + text)
    size = struct.unpack("<I", sock.recv(4, socket.MSG_WAITALL))[0]
    return json.loads(sock.recv(size, socket.MSG_WAITALL))
def post(line, number, time, members=(0, 4), content="", seconds=0.5):
    return ask(meet=line, number=number, members=members, time=time, seconds=seconds,
               content=content)
def wait(line, number):
    return ask(wait=line, number=number)
def tell(*words):  # in one piece, beside the lines of the other rank
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
rank = int(os.environ["RANK"])
exec(sys.argv[1 + (rank > 0)])
"""


def run(first, second, *options, roles="0,4"):
    """The lines that rank 0 and rank 4 of 16 printed, with the result."""
    result = orrery("rehearse", "--ranks", "16", "--cluster", "dgx-h100", "--roles", roles,
                    *options, "--", sys.executable, "-S", "-c", PART, first, second)  # fmt: skip
    return sorted(result.stdout.splitlines()), result


def test_a_meeting_starts_when_the_last_rank_arrives_and_the_one_before_has_ended():
    lines, result = run(
        "post('a', 1, 1.0, content='x'); post('a', 2, 1.2); wait('a', 1)\n"
        "tell(0, wait('a', 2)); ask(report='the report')",
        "post('a', 1, 3.0, content='y')\ntell(4, wait('a', 1)); post('a', 2, 2.0)",
    )
    assert lines == [
        "0 {'contents': {'0': '', '4': ''}, 'start': 3.5}",
        "4 {'contents': {'0': 'x', '4': 'y'}, 'start': 3.0}",
    ]
    assert result.returncode == 0
    assert "rehearsing ranks 0, 4 of 16 on 2 nodes" in result.stderr
    assert result.stderr.endswith("the report")


def test_the_first_failed_process_decides_the_exit_code():
    lines, result = run(
        "post('a', 1, 0.0); tell(wait('a', 1)); ask(report='r'); os._exit(4)", "os._exit(7)"
    )
    assert lines == ["{'lost': 'rank 4 ended before rank 0 met it'}"]
    assert result.returncode == 7


def test_a_rank_that_reports_meets_nobody():
    lines, result = run(
        "ask(summaries=True); ask(report='r')",
        "post('a', 1, 0.0); tell(wait('a', 1)); ask(summary={})",
    )
    assert lines == ["{'lost': 'rank 0 ended before rank 4 met it'}"]
    assert result.returncode == 0


def test_ranks_that_wait_for_each_other_are_told():
    lines, _ = run("tell(wait('a', 1)); ask(report='r')", "tell(wait('b', 3)); os._exit(0)")
    stuck = "{'stuck': 'rank 0 waits for number 1 of a, rank 4 waits for number 3 of b'}"
    assert lines == [stuck, stuck]


def test_a_program_that_needs_a_partner_starts_again_beside_it():
    lines, result = run(
        "ranks = json.loads(os.environ['ORRERY_REHEARSE'])['roles']\n"
        "if ranks == [0]: ask(needs=[0, 4]); os._exit(4)\n"
        "tell(ranks, os.environ['LOCAL_RANK']); tell(ask(summaries=True)); ask(report='r')",
        "tell(rank, os.environ['LOCAL_RANK']); ask(summary={'rank': 4})",
        roles="0",
    )
    assert lines == ["4 4", "[0, 4] 0", "{'summaries': [{'rank': 4}]}"]
    assert result.returncode == 0
    assert "starting again with a process for each of ranks 0, 4 (--roles 0,4 begins" in (
        result.stderr
    )


def test_roles_are_ranks_of_the_job():
    _, result = run("", "", roles="0,16")
    assert result.returncode == 2
    assert "--roles: expected at most 64 ranks below 16, found 2 up to 16" in result.stderr


def test_a_scenario_needs_ranks_that_are_alike(tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text("name: s\ncluster: {preset: dgx-h100, nodes: 2}\nrun: {steps: 3}\n")
    _, result = run("ask(report=json.dumps({}))", "", "--scenario", scenario, "--json")
    assert result.returncode == 4
    assert json.loads(result.stdout) == {}
    told = (
        "expected ranks that are alike, or the stages of a pipeline of PyTorch, "
        "found ranks 0, 4 with roles"
    )
    assert f"--scenario: {told}" in result.stderr


def test_a_trace_needs_ranks_that_are_alike_or_all_ranks(tmp_path):
    _, result = run("ask(report='r')", "", "--trace", tmp_path / "step")
    assert result.returncode == 4
    told = (
        "expected ranks that are alike, the stages of a pipeline of PyTorch, or a process for each "
        "rank, found ranks 0, 4 with roles"
    )
    assert f"--trace: {told}" in result.stderr
