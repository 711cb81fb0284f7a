"""Defects that a new user met on 2026-11-23: each one has a command that shows that it is gone.

Items are named as in the user's list: A for an operator with job logs, B for a planner, C for the
commands of the pages, D for the author of a policy, E for an installation. docs/newcomers.md shows
a command for each. Tests of this file run further cases of items that no other test runs;
`ELSEWHERE` names the test of each other item.
"""

import ast
import json
import re
import subprocess
import sys

import pytest
from conftest import BUILD, EXAMPLES, PROGRAM, ROOT, STRAGGLER, data_file, orrery

sys.path.insert(0, str(BUILD / "python"))
SAMPLES = ROOT / "tests" / "traces" / "samples"
SACCT = SAMPLES / "sacct.txt"
CLUSTER = ("--nodes", 64, "--gpus-per-node", 8)
ELSEWHERE = {
    "A1": "tests/cli/jobs_test.py::test_a_change_that_cannot_be_is_refused",
    "A3": "tests/cli/jobs_test.py::test_requested_times_must_be_in_the_log",
    "A5": "tests/cli/jobs_test.py::test_waits_beside_those_of_the_log",
    "A7": "tests/cli/jobs_test.py::test_ids_that_stand_for_several_jobs_are_counted",
    "A: saved hours and money": "tests/cli/jobs_test.py::test_savings_are_told_in_hours_and_money",
    "B1": "tests/cli/plan_test.py::test_goals_are_met_with_a_probability",
    "B3": "tests/cli/layouts_test.py::test_layouts_predict_and_simulate_give_one_answer",
    "B3, a scenario of a row": "tests/cli/plan_test.py::test_layouts_write_scenarios",
    "B4": "tests/cli/plan_test.py::test_a_change_of_the_batch_saves_odd_numbers_of_nodes",
    "B5, layouts": "tests/cli/layouts_test.py::test_spares_of_a_scenario_are_named",
    "B7": "tests/cli/layouts_test.py::test_the_table_has_a_column_for_each_part_that_differs",
    "B9, B10": "tests/python/module_test.py::test_a_notebook_runs",
    "C1": "tests/cli/runs_test.py::test_a_run_without_checkpoints_cannot_be_stopped_with_one",
    "D1": "tests/cli/policy_option_test.py::test_policies_are_compared_side_by_side",
    "D3": "tests/cli/policy_time_test.py::test_a_shadow_is_never_on_the_path_of_a_step",
    "D3, a hanging policy":
        "tests/cli/policy_time_test.py::test_status_names_who_owes_an_answer_and_stop_ends_the_run",
    "E2": "tests/cli/shipped_examples_test.py::test_a_shipped_example_has_a_name_in_any_folder",
}  # fmt: skip


#: The number of items of each part of the list; the logs of A have no number.
ITEMS = {"A": 11, "B": 11, "C": 8, "D": 4, "E": 3}


def test_the_page_has_each_item_with_a_command_that_shows_it():
    """tutorials_test.py runs the commands and compares their output."""
    parts = re.split(r"^(?=\*\*[A-E])", (ROOT / "docs" / "newcomers.md").read_text(),
                     flags=re.MULTILINE)[1:]  # fmt: skip
    shown = []
    for part in parts:
        assert "\n$ " in part or "the test `" in part, part
        shown += re.findall(r"\b[A-E]\d+\b", part.partition("\n\n")[0])
    assert sorted(set(shown)) == sorted(
        f"{part}{number}" for part, count in ITEMS.items() for number in range(1, count + 1)
    )


@pytest.mark.parametrize("item", ELSEWHERE)
def test_the_item_has_a_test(item):
    file, name = ELSEWHERE[item].split("::")
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def sacct_as(tmp_path, change):
    """Returns a file with the rows of the sample, changed: a function of the list of rows."""
    rows = [line.split("|") for line in SACCT.read_text().splitlines()]
    file = tmp_path / "sacct.txt"
    file.write_text(change(rows))
    return file


def joined(mark):
    return lambda rows: "".join(mark.join(row) + "\n" for row in rows)


def in_columns(rows):
    rows = [[cell.split(",")[0] or "None" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    rows.insert(1, ["-" * width for width in widths])
    return "".join(" ".join(cell.rjust(width) for cell, width in zip(row, widths)) + "\n"
                   for row in rows)  # fmt: skip


def without(column):
    def change(rows):
        at = rows[0].index(column)
        return joined("|")([row[:at] + row[at + 1 :] for row in rows])

    return change


def test_a_log_of_sacct_is_read_in_each_shape(tmp_path):
    plain = orrery("jobs", SACCT, *CLUSTER, "--policy", "fifo", "--json")
    for change in (joined("|"), in_columns):
        file = sacct_as(tmp_path, change)
        done = orrery("jobs", file, *CLUSTER, "--policy", "fifo", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["quality"]["rows"] == 9
    assert json.loads(plain.stdout)["jobs_in"] == 3


@pytest.mark.parametrize(("change", "reason"), [
    (without("Submit"), "found no 'Submit'; write the log with: sacct -aPX"),
    (lambda rows: joined("|")(rows[1:]), "found a row without a header (sacct -n)"),
    (without("AllocTRES"), "no job names GPUs (gres/gpu in AllocTRES): if jobs have whole nodes"),
])  # fmt: skip
def test_a_log_of_sacct_that_cannot_be_read_says_why(tmp_path, change, reason):
    refused = orrery("import", "jobs", sacct_as(tmp_path, change), "-o", tmp_path / "jobs.csv")
    assert refused.returncode == 3 and reason in refused.stderr


def test_the_help_has_the_command_of_sacct_that_messages_name(tmp_path):
    refused = orrery("import", "jobs", sacct_as(tmp_path, without("Submit")), "-o", tmp_path / "o")
    command = refused.stderr.partition("write the log with: ")[2].splitlines()[0]
    assert f"  {command} > sacct.txt\n" in orrery("import", "jobs", "--help").stdout


def test_a_log_of_instances_that_serve_models_is_read():
    done = orrery("jobs", SAMPLES / "dlrm.csv", *CLUSTER, "--policy", "fifo", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["quality"]["format"] == "dlrm"


def test_a2_a_job_without_a_limit_is_a_job(tmp_path):
    file = tmp_path / "sacct.txt"
    limits = SACCT.read_text().replace("|240|", "|UNLIMITED|").replace("|60|", "|Partition_Limit|")
    file.write_text(limits)
    done = orrery("jobs", file, *CLUSTER, "--policy", "fifo", "--json")
    assert json.loads(done.stdout)["quality"]["rejected"] == 1, "the job that ends before it starts"
    assert json.loads(done.stdout)["jobs_in"] == 3


def test_a4_jobs_have_their_recorded_start_and_the_log_its_date(tmp_path):
    orrery("jobs", SACCT, *CLUSTER, "--policy", "fifo", "--out", tmp_path / "out")
    header, first, *_ = (tmp_path / "out" / "jobs.csv").read_text().splitlines()
    row = dict(zip(header.split(","), first.split(",")))
    assert (row["job_id"], row["start_s"], row["recorded_start_s"]) == ("1001", "0", "300")
    done = orrery("import", "jobs", SACCT, "-o", tmp_path / "jobs.csv")
    assert "Time 0 is 2024-03-01 08:00:00 UTC" in done.stdout + done.stderr


def test_a4_an_unknown_user_of_swf_is_no_user(tmp_path):
    log = tmp_path / "log.swf"
    lines = (SAMPLES / "log.swf").read_text().splitlines()
    rows = [line if line.startswith(";") else " ".join(
        "-1" if i in (11, 12, 13) else field for i, field in enumerate(line.split()))
        for line in lines]  # fmt: skip
    log.write_text("\n".join(rows) + "\n")
    orrery("jobs", log, *CLUSTER, "--policy", "fifo", "--out", tmp_path / "out")
    assert [row.split(",")[1] for row in (tmp_path / "out/jobs.csv").read_text().splitlines()[1:]
            ] == ["", ""]  # fmt: skip


def test_a6_explain_names_the_wait_in_the_log_and_the_jobs_in_front(tmp_path):
    said = orrery("explain", SACCT, "--job", "1001", *CLUSTER, "--policy", "fifo").stdout
    assert "in the log it waited 300 s; the lines above are about the replay under fifo" in said
    log = tmp_path / "jobs.csv"
    log.write_text("job_id,submit_s,num_gpus,duration_s\na,0,8,100\nb,1,8,10\nc,2,4,10\nd,3,8,1\n")
    said = orrery("explain", log, "--job", "d", "--nodes", 1, "--gpus-per-node", 8, "--policy",
                  "fifo").stdout  # fmt: skip
    assert "2 jobs waited before it for 12 GPUs\nbefore it waited: b, c\n" in said
    assert "in the log" not in said


def test_a8_python_names_the_argument_of_the_command_line():
    from orrery import jobs

    log = SAMPLES / "sacct.txt"
    with pytest.raises(ValueError, match=r"call orrery.jobs once for each.*\['fifo', 'easy'\]"):
        jobs(log, 64, 8, policy="fifo,easy")
    changed = jobs(log, 64, 8, policy="fifo", what_if={"nodes": 1, "policy": "easy"})
    assert (changed.nodes, changed.policy, changed.what_if) == (1, "easy", "nodes=1, policy=easy")
    with pytest.raises(ValueError, match="not 'gpus'"):
        jobs(log, 64, 8, what_if={"gpus": 9})


def test_a9_an_error_names_the_option_that_was_typed():
    for change, place in (("nodes=+4", "--what-if:1:7: "), ("gpus=64", "--what-if:1:1: ")):
        refused = orrery("jobs", SACCT, *CLUSTER, "--policy", "fifo", "--what-if", change)
        assert refused.returncode == 3 and refused.stderr.startswith(place), refused.stderr
    refused = orrery("jobs", SACCT, *CLUSTER, "--policy", "fifo", "--set", "nodes=+4")
    assert refused.stderr.startswith("--set:1:7: ")


def test_a10_a_word_of_another_scheduler_gets_the_name_here():
    refused = orrery("jobs", SACCT, *CLUSTER, "--policy", "backfill")
    assert "did you mean 'easy'? Known of job queues: conservative, drf, easy, " in refused.stderr
    queues, _, trainings = refused.stderr.partition("; of trainings: ")
    assert "recover" in trainings and "recover" not in queues
    listed = orrery("list", "policies").stdout.splitlines()
    kinds = [re.search(r" of (job queues|trainings); ", line)[1] for line in listed]
    assert kinds == sorted(kinds) and set(kinds) == {"job queues", "trainings"}


def test_a10_long_times_stand_in_hours_too(tmp_path):
    log = tmp_path / "jobs.csv"
    log.write_text("job_id,submit_s,num_gpus,duration_s\na,0,8,180000\n")
    said = orrery("jobs", log, *CLUSTER, "--policy", "fifo").stdout
    assert "makespan        180000 s (2.1 d)" in said


def test_a11_a_list_of_nodes_is_a_cluster_and_a_number_is_no_file():
    nodes = data_file("jobs", "openb2023", "openb_node_list_gpu_node.csv.gz")
    refused = orrery("jobs", SACCT, "--cluster", nodes, "--policy", "fifo")
    assert refused.returncode == 3 and "expected equal nodes, got " in refused.stderr
    refused = orrery("pack", SAMPLES / "openb.csv", "--nodes", 1213)
    assert refused.returncode == 2
    assert "--nodes: expected a file with a row for each node" in refused.stderr


def test_b2_a_recovery_that_takes_no_time_is_warned_of():
    run = ("simulate", EXAMPLES / "llama3-70b-512-h100.yaml", "--set", "run.steps=20000")
    (warning,) = json.loads(orrery(*run, "--set", "failures.profile=llama3", "--json").stdout)[
        "warnings"]  # fmt: skip
    assert warning.startswith("failures cost almost no time, because survival.detection is 10")
    for quiet in ((), ("--set", "failures.profile=llama3", "--set", "survival.detection=30s")):
        assert json.loads(orrery(*run, *quiet, "--json").stdout)["warnings"] == []


def test_b5_a_plan_counts_its_spare_nodes():
    done = orrery("plan", "--model", "llama3-70b", "--cluster", "dgx-h100", "--gpus", 520,
                  "--tokens", "2T", "--json")  # fmt: skip
    best = json.loads(done.stdout)["candidates"][0]
    assert best["gpus"] == 520 and best["layout"]["pipeline"] < 8


@pytest.mark.parametrize("tokens", ["2e9", "2B"])
def test_b6_tokens_may_have_an_exponent_or_a_suffix(tokens):
    done = orrery("simulate", "llama3-70b-512-h100", "--set", f"run.tokens={tokens}", "--json")
    assert json.loads(done.stdout)["steps_completed"] == 954


def test_b5_a_cost_names_its_gpus_and_its_price():
    done = orrery("simulate", "llama3-70b-512-h100", "--set", "run.steps=10")
    assert " USD (512 GPUs, 3.00 USD an hour each), modelled" in done.stdout
    other = orrery("simulate", "llama3-70b-512-h100", "--set", "run.steps=10", "--set",
                   "cluster.price.gpu_hour=2 USD/h")  # fmt: skip
    assert " USD (512 GPUs, 2.00 USD an hour each), modelled" in other.stdout


def test_b8_a_program_without_widgets_prints_no_warning():
    from importlib.util import find_spec

    path = {"PYTHONPATH": str(BUILD / "python")}
    done = subprocess.run([sys.executable, "-W", "error", "-c", "import orrery"], text=True,
                          env=path, capture_output=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = subprocess.run(
        [sys.executable, "-c", "from orrery._progress import tqdm; print(tqdm.__module__)"],
        env=path, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert find_spec("ipywidgets") or said == "tqdm.std\n"


def test_c2_the_change_that_an_example_names_runs():
    text = (EXAMPLES / "month-10k-h100.yaml").read_text()
    change = re.search(r"^#.*(--policy [a-z-]+)$", text, re.MULTILINE)[1]
    done = orrery("simulate", "month-10k-h100", *change.split(), "--set", "run.steps=100")
    assert done.returncode == 0, done.stderr


def test_c3_rows_about_different_jobs_are_marked(tmp_path):
    log = tmp_path / "jobs.csv"
    log.write_text("job_id,submit_s,num_gpus,duration_s\na,0,8,10\nb,0,16,10\n")
    said = orrery("jobs", log, "--nodes", 1, "--gpus-per-node", 8, "--policy", "fifo", "--what-if",
                  "nodes=2").stdout  # fmt: skip
    assert "The rows are about different jobs: fifo 1, fifo, nodes=2 2." in said


def test_c4_a_run_from_a_log_accounts_for_its_own_time(tmp_path):
    log = tmp_path / "run.log"
    whole = orrery("simulate", STRAGGLER, "--record", log, "--json", "--set", "run.steps=20",
                   "--set", "policies[0].name=static")  # fmt: skip
    elapsed = json.loads(whole.stdout)["elapsed_s"]
    over = json.loads(orrery("simulate", "--from", log, "--json").stdout)
    assert (over["gpu_utilization"], over["energy_j"], over["breakdown"]) == (None, None, None)
    assert over["steps_completed"] == 20
    half = json.loads(orrery("simulate", "--from", f"{log}@2s", "--json").stdout)
    assert half["gpu_utilization"] > 0.4 and half["breakdown"]["lost"] < 0.001
    refused = orrery("simulate", "--from", f"{log}@{elapsed + 60:.0f}s")
    assert refused.returncode == 3
    assert "expected an instant up to the end of the log, " in refused.stderr


def test_c5_a_quota_of_an_unknown_virtual_cluster_is_warned_of():
    said = orrery("jobs", SACCT, *CLUSTER, "--policy", "max-min", "--set",
                  "max-min.quotas=[{vc: vision, gpus: 16}, {vc: a100, gpus: 16}]")  # fmt: skip
    assert said.returncode == 0
    (warning,) = [line for line in said.stderr.splitlines() if line.startswith("warning: ")]
    assert "belongs to the virtual cluster 'vision', so its 16 GPUs are lent" in warning


def test_c7_a_ratio_below_one_says_which_ideal_it_is_about():
    done = orrery("simulate", "ramp-4-ranks")
    assert "445 ms median, 0.93 x the ideal 480 ms at the end, modelled" in done.stdout


def test_d2_a_class_is_a_policy_wherever_an_object_is():
    import orrery as package

    class Quiet(package.Policy):
        def observe(self, seen, decisions):
            decisions.rest()

    run = package.load(STRAGGLER, {"run.steps": 3})
    table = package.futures(run, count=1, choices={"quiet": Quiet}, progress=False)
    assert list(table["choice"]) == ["quiet"]
    assert len(package.sweep(run, {"policy": [Quiet, "static"]}, progress=False)) == 2


def test_d2_a_policy_gets_a_name_that_python_can_import(tmp_path):
    refused = orrery("new", "policy", "class", cwd=tmp_path)
    assert refused.returncode == 2 and "try class-policy" in refused.stderr
    assert list(tmp_path.iterdir()) == []
    assert orrery("new", "policy", "class-policy", cwd=tmp_path).returncode == 0


def test_d4_an_assignment_without_a_layout_places_the_job():
    import orrery as package

    class Small(package.Policy):
        def needs(self):
            return package.Needs(actions=["Assign"])

        def observe(self, seen, decisions):
            free = list(map(int, seen.state.free_gpus))
            for job in seen.jobs.values():
                if job.phase == "waiting" and job.spec.gpus <= len(free):
                    gpus = [free.pop(0) for _ in range(job.spec.gpus)]
                    decisions.add(package.actions.Assign(job.id, gpus))

    report = package.jobs(SACCT, 64, 8, policy=Small())
    assert (report.jobs_in, report.jobs_out) == (3, 3)


def test_e1_the_extras_name_what_the_pages_use():
    text = (ROOT / "pyproject.toml").read_text()
    for extra, package in (("plot", "matplotlib"), ("notebook", "ipywidgets"), ("torch", "torch")):
        assert re.search(rf'^{extra} = \[.*"{package}', text, re.MULTILINE), extra
    for page in ("README.md", "docs/first-steps.md", "docs/installation.md"):
        assert "[plot]" in (ROOT / page).read_text(), page


WITHOUT_EXTRAS = """
import sys
sys.modules.update(matplotlib=None, plotly=None, ipywidgets=None)
import orrery, pandas
from orrery._charts import Axis, Chart, draw
table = pandas.DataFrame({"a": [1, 2], "b": [3, 4]})
chart = Chart("", Axis(""), Axis(""))
for call in (lambda: table.plot(x="a"), lambda: table.a.plot.bar(), lambda: table.hist(),
             lambda: draw(chart), lambda: draw(chart, "plotly"), lambda: orrery.Plan.sliders(None)):
    try:
        call()
    except ModuleNotFoundError as error:
        print(str(error).partition("expected ")[2])
del sys.modules["matplotlib"]
import matplotlib
matplotlib.use("agg")
print(len(table.plot(x="a").lines))
"""


def test_e1_a_call_without_its_package_names_the_extra():
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True,
                          env={"PYTHONPATH": str(BUILD / "python")})  # fmt: skip
    rest = "in this Python, found none; install it with pip install"
    assert done.stdout.splitlines() == [
        *[f"matplotlib {rest} 'orrery[plot]'"] * 4, f"plotly {rest} plotly",
        f"ipywidgets {rest} 'orrery[notebook]'", "1",
    ], done.stderr  # fmt: skip


def test_e1_a_program_without_pytorch_names_the_extra(tmp_path):
    (tmp_path / "train.py").write_text("import sys\nsys.path.clear()\nimport torch\n")
    for command in (("run", "-n", 1), ("rehearse", "--ranks", 8, "--cluster", "dgx-h100")):
        done = orrery(*command, "--", sys.executable, tmp_path / "train.py")
        assert done.returncode != 0
        assert "install it with pip install 'orrery[torch]'\n" in done.stderr


def test_e3_the_version_needs_no_pandas_and_a_closed_pipe_is_no_error(tmp_path):
    (tmp_path / "pandas.py").write_text("raise ImportError('pandas is imported')")
    command = "import sys, orrery_command; sys.argv[1:] = ['--version']; orrery_command.main()"
    path = f"{tmp_path}:{BUILD / 'python'}:{ROOT / 'python'}"
    said = subprocess.run([sys.executable, "-c", command], env={"PYTHONPATH": path}, text=True,
                          capture_output=True)  # fmt: skip
    assert said.returncode == 0 and said.stdout.startswith("orrery "), said.stderr
    piped = subprocess.run(["bash", "-c", f"{PROGRAM} list models | head -1; exit 0"],
                           capture_output=True, text=True)  # fmt: skip
    assert piped.stderr == "" and piped.stdout.count("\n") == 1


def test_c7_the_first_commands_of_the_page_of_futures_run():
    page = (ROOT / "docs" / "futures.md").read_text()
    (line,) = re.findall(r"^orrery (simulate ramp-4-ranks --futures .*)$", page, re.MULTILINE)
    done = orrery(*line.replace("--futures 20", "--futures 2").split())
    assert done.returncode == 0, done.stderr
    lines = re.search(r"```python\n(table = .*?)```", page, re.DOTALL)[1]
    import orrery as package

    names = {"orrery": package}
    exec(lines.replace("count=20", "count=2, progress=False"), names)  # noqa: S102
    assert len(names["table"]) == 4
