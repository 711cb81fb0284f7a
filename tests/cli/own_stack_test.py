"""Software stacks of own runs: fitted to a table, and used by the other commands."""

import csv
import io
import json

import pytest
from conftest import orrery

HEAD = "id,model,gpu,n_gpus,tp,pp,dp,gbs,mbs,framework"
LAYOUTS = [(512, 1), (256, 1), (128, 1), (512, 2), (256, 2)]


def rows(framework="nemo"):
    return [f"r{i},llama3-8b,H100,64,4,1,16,{gbs},{mbs},{framework}"
            for i, (gbs, mbs) in enumerate(LAYOUTS)]  # fmt: skip


def table(path, lines, head=HEAD):
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def predicted(path, *more):
    result = orrery("predict", path, *more)
    assert result.returncode == 0, result.stderr
    return list(csv.DictReader(io.StringIO(result.stdout)))


def measured(tmp_path, factor, framework="nemo"):
    """A table of runs that take `factor` times as long as predicted."""
    times = [float(row["iter_time_s"])
             for row in predicted(table(tmp_path / "c.csv", rows(framework)))]  # fmt: skip
    lines = [f"{row},{factor * time}" for row, time in zip(rows(framework), times)]
    return table(tmp_path / "mine.csv", lines, HEAD + ",iter_time_s")


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    path = folder / "mine.yaml"
    result = orrery("calibrate", "--runs", measured(folder, 1.4), "-o", path)
    assert result.returncode == 0, result.stderr
    assert "median of measured over predicted 1.400" in result.stdout
    assert "name: " in path.read_text() and "own-mine" in path.read_text()
    return path


def test_predict_moves_towards_the_runs(stack, tmp_path):
    cases = table(tmp_path / "cases.csv", rows())
    before, after = predicted(cases), predicted(cases, "--stack", stack)
    for old, new in zip(before, after):
        # The factors of the parts are linear in the log time, so that 1.4 is met roughly.
        assert 1.3 < float(new["iter_time_s"]) / float(old["iter_time_s"]) < 1.41
        assert "rests on: own runs; stack own-mine" in new["reason"]
        assert new["state"] == "measured"
    other = predicted(table(tmp_path / "other.csv", rows("torchtitan")), "--stack", stack)
    assert all("own-mine" not in row["reason"] for row in other)


def test_layouts_plan_and_simulate_take_the_stack(stack, tmp_path):
    asked = ("--model", "llama3-8b", "--cluster", "dgx-h100", "--gpus", 64,
             "--tokens-per-batch", 2**21)  # fmt: skip
    file = tmp_path / "row.yaml"
    plain = json.loads(orrery("layouts", *asked, "--json").stdout)["layouts"][0]
    found = orrery("layouts", *asked, "--stack", stack, "--json", "--scenario", file)
    assert found.returncode == 0, found.stderr
    own = json.loads(found.stdout)["layouts"][0]
    assert own["state"] == "measured" and own["iter_time_s"] > 1.2 * plain["iter_time_s"]
    report = json.loads(orrery("simulate", file, "--json").stdout)
    assert report["step_time_s"] == pytest.approx(own["iter_time_s"], rel=0.02)
    assert report["step_interval"]["rests_on"] == "own runs"
    orrery("layouts", *asked, "--scenario", file)
    shipped = json.loads(orrery("simulate", file, "--json").stdout)["step_time_s"]
    mine = json.loads(orrery("simulate", file, "--json", "--stack", stack).stdout)["step_time_s"]
    assert mine > 1.2 * shipped
    plan = orrery("plan", *asked, "--tokens", "100B", "--seeds", 20, "--stack", stack, "--json")
    assert plan.returncode == 0, plan.stderr
    assert json.loads(plan.stdout)["candidates"][0]["step_time_s"] > 1.2 * plain["iter_time_s"]


def test_one_run_may_be_chance(tmp_path):
    runs = measured(tmp_path, 1.3)
    head, first, *_ = runs.read_text().splitlines()
    one = orrery("calibrate", "--runs", table(tmp_path / "one.csv", [first], head),
                 "-o", tmp_path / "one.yaml")  # fmt: skip
    assert one.returncode == 0, one.stderr
    assert "the times stay those of nemo: 1 such deviation may be chance" in one.stdout
    assert "times of nemo x 1.000; median of measured over predicted 1.300" in one.stdout
    five = orrery("calibrate", "--runs", runs, "-o", tmp_path / "five.yaml")
    assert five.returncode == 0 and "may be chance" not in five.stdout


def test_rows_without_a_time_are_left_out(tmp_path):
    lines = [f"{row},{time}" for row, time in zip(rows(), ("", "9", "x", "0", "8"))]
    runs = table(tmp_path / "some.csv", lines, HEAD + ",iter_time_s")
    result = orrery("calibrate", "--runs", runs, "-o", tmp_path / "some.yaml", "--name", "mine")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("left out: no step time") == 3
    assert "2 measured runs" in (tmp_path / "some.yaml").read_text()


@pytest.mark.parametrize(
    "lines, head, part",
    [
        (rows(), HEAD, "expected a column 'iter_time_s'"),
        ([row + "," for row in rows()], HEAD + ",iter_time_s", "expected a row with a step time"),
        ([rows()[0] + ",9", rows("torchtitan")[1] + ",9"], HEAD + ",iter_time_s",
         "expected runs of one software"),
    ],
)  # fmt: skip
def test_tables_without_a_stack_are_refused(tmp_path, lines, head, part):
    out = tmp_path / "out.yaml"
    result = orrery("calibrate", "--runs", table(tmp_path / "t.csv", lines, head), "-o", out)
    assert result.returncode == 3 and part in result.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    "old, new, part",
    [
        ("name: \"own-mine\"", "name: nemo", "expected a name of its own"),
        ("kin: \"nemo\"", "kin: nemmo", "did you mean 'nemo'"),
    ],
)
def test_wrong_stacks_are_refused(stack, tmp_path, old, new, part):
    wrong = tmp_path / "wrong.yaml"
    text = stack.read_text()
    assert old in text
    wrong.write_text(text.replace(old, new))
    cases = table(tmp_path / "cases.csv", rows())
    result = orrery("predict", cases, "--stack", wrong)
    assert result.returncode == 3 and part in result.stderr
