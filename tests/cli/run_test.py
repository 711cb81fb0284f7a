"""orrery run without PyTorch: the ranks' environment, ends of ranks and of the run, the report."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from conftest import PROGRAM, children_of, orrery


def run(*words, ranks=3, options=()):
    return orrery("run", "-n", str(ranks), *options, "--", *words)


def python(code, **more):
    return run(sys.executable, "-S", "-c", f"import os, signal, sys, time\n{code}", **more)


def test_the_ranks_have_the_environment_of_a_launched_job():
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS")
    # In one piece, between those of the other ranks.
    line = f"str([os.environ[n] for n in {names}]) + chr(10)"
    result = python(f"os.write(1, ({line}).encode())")
    assert sorted(result.stdout.splitlines()) == [
        str([str(rank), str(rank), "3", "3", os.environ.get("OMP_NUM_THREADS", "1")])
        for rank in range(3)
    ]
    first = "orrery run: 3 ranks; the tier follows with the first process group"
    assert result.stderr.startswith(first)
    assert "tier T0" not in result.stderr  # the program has no group
    assert "at the end; not attached: the program created no process group" in result.stderr
    assert result.returncode == 0


def test_a_sitecustomize_of_the_user_runs_and_may_fail(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('hidden one', flush=True)\n1 / 0\n")
    result = subprocess.run(
        [PROGRAM, "run", "-n", "1", "--", sys.executable, "-c",
         "import sys; print('trained', 'orrery_programs.running' in sys.modules)"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert (result.returncode, result.stdout) == (0, "hidden one\ntrained True\n"), result.stderr
    assert f"error in {tmp_path / 'sitecustomize.py'}: ZeroDivisionError" in result.stderr


def test_torchruns_arguments_are_read(tmp_path):
    torchrun = tmp_path / "torchrun"
    torchrun.write_text("not started")
    torchrun.chmod(0o755)
    (tmp_path / "python").symlink_to(sys.executable)
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys; os.write(1, ' '.join([os.environ['RANK'], *sys.argv[1:], '\\n']).encode())"
    )
    options = ("--nproc-per-node=2", "--standalone")
    result = orrery("run", "--", torchrun, *options, script, "--lr", "1")
    assert sorted(result.stdout.splitlines()) == ["0 --lr 1 ", "1 --lr 1 "], result.stderr
    result = orrery("run", "--", torchrun, "--nnodes=2", script)
    assert result.returncode == 2
    assert "--nnodes: expected 1, found '2'" in result.stderr


def test_the_exit_code_is_the_programs():
    assert python("sys.exit(7)").returncode == 7
    assert python("os.kill(os.getpid(), 9)", ranks=1).returncode == 137
    result = run("no-such-program")
    assert result.returncode == 127
    assert "no-such-program: expected a program, found none" in result.stderr


def test_options_about_decisions_need_a_policy(tmp_path):
    log = tmp_path / "run.log"
    for options in (["--record", log], ["--mode", "approve", "--hook", "/bin/false"],
                    ["--decisions-per-hour", "3"], ["--kill-switch", log],
                    ["--on-policy-error", "stop"], ["--policy-timeout", "3"]):  # fmt: skip
        result = python("print('trained')", ranks=1, options=map(str, options))
        assert (result.returncode, result.stdout) == (2, ""), result.stderr
        assert f"{options[0]}: expected a policy" in result.stderr
        assert not log.exists()
    options = ["--policy", "static", "--record", str(log)]
    assert python("print('trained')", ranks=1, options=options).stdout == "trained\n"


def test_policies_of_job_queues_are_refused_by_name(tmp_path):
    words = ["--policy", "recover", "--policy", "easy"]
    result = python("print('trained')", ranks=1, options=words)
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    expected = "expected a policy of trainings, found 'easy', which orders a queue of jobs"
    assert expected in result.stderr
    scenario = tmp_path / "policies.yaml"
    scenario.write_text("policies:\n  - name: recover\n  - name: easy\n")
    result = python("print('trained')", ranks=1, options=["--scenario", str(scenario)])
    assert (result.returncode, result.stdout) == (3, ""), result.stderr
    assert f"{scenario}:3:11: error: {expected}" in result.stderr


def test_all_ranks_start_again_if_none_can_go_on():
    code = "\n".join(
        [
            "line = os.environ['RANK'] + ' ' + os.environ['TORCHELASTIC_RESTART_COUNT'] + '\\n'",
            "os.write(1, line.encode())  # in one piece, between those of the other rank",
            "if os.environ['TORCHELASTIC_RESTART_COUNT'] != '2': os.kill(os.getpid(), 9)",
        ]
    )
    result = python(code, ranks=2, options=["--restart", "3"])
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.split("\n")[:-1]) == [
        f"{rank} {restart}" for rank in range(2) for restart in range(3)
    ]
    assert "restart 2 of 3: all ranks start again" in result.stderr
    report = json.loads(python(code, ranks=2, options=["--restart", "3", "--json"]).stdout)
    assert report["tier"] == "T1"
    assert len(report["restarts"]) == 2
    assert report["ranks_missing"] == []
    assert {loss["attempt"] for loss in report["losses"]} <= {0, 1}
    assert report["exit_code"] == 0


def test_the_restarts_have_a_limit(tmp_path):
    assert python("sys.exit(3)", options=["--restart", "1"]).returncode == 3
    torchrun = tmp_path / "torchrun"
    torchrun.write_text("not started")
    torchrun.chmod(0o755)
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\necho start\nexit 5\n")
    script.chmod(0o755)
    options = ("--no-python", "--max-restarts=2")
    result = orrery("run", "--", torchrun, *options, script)
    assert (result.returncode, result.stdout) == (5, 3 * "start\n")
    result = orrery("run", "--", torchrun, "--max-restarts=many", script)
    assert result.returncode == 2
    assert "--max-restarts: expected a number of restarts, found 'many'" in result.stderr


def test_a_lost_rank_is_reported():
    code = "\n".join(
        [
            "if os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGKILL)",
            "time.sleep(1)",
            "print('end')",
        ]
    )
    result = python(code, options=("--json",))
    assert result.returncode == 6
    report = json.loads(result.stdout)
    assert report["ranks"] == 3
    assert report["ranks_at_end"] == 2
    assert report["ranks_missing"] == [1]
    assert report["attached"] is False
    assert report["not_attached_because"] == "the program created no process group"
    assert report["tier"] is None
    assert report["ended_by"] == "program"
    assert report["losses"] == [
        {
            "rank": 1,
            "cause": "killed by signal 9 (Killed)",
            "lost_s": None,
            "replaced_s": None,
            "attempt": 0,
        }
    ]
    assert result.stderr.count("end\n") == 2  # the program prints to standard error
    assert "rank 1 lost (killed by signal 9 (Killed)), 2 of 3 ranks go on" in result.stderr


def test_processes_that_a_rank_has_started_end_with_it():
    code = "\n".join(
        [
            "if os.fork() == 0: print(os.getpid(), flush=True); time.sleep(600)",
            "time.sleep(0.5)",
        ]
    )
    result = python(code, ranks=1)
    assert result.returncode == 0
    child = int(result.stdout)
    for _ in range(100):
        if not os.path.exists(f"/proc/{child}"):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {child} is left")


def test_a_signal_to_the_run_ends_all_ranks():
    process = subprocess.Popen(
        [PROGRAM, "run", "-n", "2", "--json", "--", sys.executable, "-S", "-c",
         "import time; time.sleep(600)"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while len(children_of(process.pid)) < 2:
        time.sleep(0.02)
    ranks = children_of(process.pid)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    report = json.loads(out)
    assert report["ended_by"] == "orrery"
    assert report["ranks_missing"] == []
    assert process.returncode == report["exit_code"] == 143
    assert not any(os.path.exists(f"/proc/{rank}") for rank in ranks)


def test_a_program_is_seen_and_stopped_from_another_terminal():
    with tempfile.TemporaryDirectory(dir="/tmp") as runs:
        environment = {**os.environ, "ORRERY_RUNS": runs}
        process = subprocess.Popen(
            [PROGRAM, "run", "-n", "2", "--json", "--", sys.executable, "-S", "-c",
             "import time; time.sleep(600)"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

        def look(*words):
            return subprocess.run(
                [PROGRAM, *words], capture_output=True, text=True, check=False, env=environment
            )

        ranks = []
        while not ranks:
            listed = json.loads(look("runs", "--json").stdout)
            ranks = listed[0].get("ranks", []) if listed else []
            time.sleep(0.05)
        assert {rank["pid"] for rank in ranks} == set(children_of(process.pid))
        assert {rank["state"] for rank in ranks} == {"working"}
        shown = look("status").stdout
        assert "training" in shown
        assert "rank 1    working" in shown
        result = look("stop", listed[0]["run"], "--checkpoint")
        assert result.returncode == 2
        assert "call orrery.torch.state(folder=PATH) in the program" in result.stderr
        assert " step 0, 0 lost" in look("runs").stdout
        assert look("stop", listed[0]["run"]).returncode == 0
        report = json.loads(process.communicate(timeout=60)[0])
        assert report["ended_by"] == "orrery"
        assert process.returncode == 143
        assert look("runs").stdout == "no live run of this user\n"
        assert os.listdir(runs) == []


#: A module torch in place of PyTorch's, whose import is recorded in the file IMPORTS.
FAKE_TORCH = """
import os
os.write(os.open(os.environ["IMPORTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT), b"import\\n")
class cuda:
    @staticmethod
    def is_initialized():
        return "CUDA" in os.environ
"""


def run_with_torch(tmp_path, code, ranks=2, options=("--warm", "all"), **more):
    """A run of a script that imports a fake torch: result, and the number of imports."""
    (tmp_path / "modules" / "torch").mkdir(parents=True)
    (tmp_path / "modules" / "torch" / "__init__.py").write_text(FAKE_TORCH)
    script = tmp_path / "train.py"
    script.write_text(f"import os, signal, sys, time\nimport torch\n{code}\n")
    imports = tmp_path / "imports"
    result = subprocess.run(
        [PROGRAM, "run", "-n", str(ranks), "--json", *options, "--", "/usr/bin/python3", script,
         "a word"],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "modules"), "IMPORTS": str(imports),
             **more},
    )  # fmt: skip
    return result, imports.read_text().count("import")


def test_warm_ranks_import_torch_once_and_are_children_of_the_run(tmp_path):
    code = (
        "line = [os.environ['RANK'], os.getpid() == os.getpgid(0), sys.argv[1:], sys.path[0],\n"
        "        os.readlink(f'/proc/{os.getppid()}/exe').rsplit('/', 1)[1], __name__]\n"
        "os.write(2, (repr(line) + '\\n').encode())\n"
        "if os.environ['RANK'] == '0':\n"
        "    open('said', 'w').close()\n"
        "    sys.exit(0)\n"
        "while not os.path.exists('said'):  # the failure ends the other rank\n"
        "    time.sleep(0.01)\n"
        "sys.exit(5)"
    )
    result, imports = run_with_torch(tmp_path, code)
    assert imports == 1, result.stderr
    assert result.returncode == 5
    for rank in range(2):
        line = [str(rank), True, ["a word"], str(tmp_path), "orrery", "__main__"]
        assert repr(line) in result.stderr.splitlines()


def test_a_killed_warm_rank_is_lost_with_the_processes_that_it_has_started(tmp_path):
    code = (
        "if os.environ['RANK'] == '1':\n"
        "    if os.fork() == 0:\n"
        "        os.write(2, f'child {os.getpid()} \\n'.encode()); time.sleep(600)\n"
        "    time.sleep(0.5)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "time.sleep(1)"
    )
    result, imports = run_with_torch(tmp_path, code)
    assert imports == 1
    assert result.returncode == 137, result.stderr  # the fake torch has no process groups
    report = json.loads(result.stdout)
    assert [loss["cause"] for loss in report["losses"]] == ["killed by signal 9 (Killed)"]
    child = int(result.stderr.split("child ")[1].split()[0])
    for _ in range(100):
        if not os.path.exists(f"/proc/{child}"):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {child} is left")


def test_all_ranks_start_again_from_the_warm_process(tmp_path):
    code = "time.sleep(2)\nsys.exit(3 if os.environ['TORCHELASTIC_RESTART_COUNT'] != '2' else 0)"
    result, imports = run_with_torch(tmp_path, code, options=("--restart", "2"))
    assert result.returncode == 0, result.stderr
    assert imports == 3  # one by the warm process, two by the first ranks


def test_a_process_with_threads_or_cuda_forks_no_ranks(tmp_path):
    result, imports = run_with_torch(tmp_path, "", CUDA="yes")
    assert result.returncode == 0, result.stderr
    assert imports == 3
    assert result.stderr.count("new ranks import PyTorch anew: expected imports that leave") == 1


def test_only_a_program_of_python_has_a_warm_process(tmp_path):
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    result = run(script, options=("--warm", "all"))
    assert result.returncode == 0
    assert "new ranks import PyTorch anew: a warm process needs a program of python" in (
        result.stderr
    )
