"""Pictures of the pages: their scripts run, and draw what the program says."""

import re
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT, orrery

PLOTS = ROOT / "python" / "plots"


def draw(script, *arguments):
    done = subprocess.run(
        [sys.executable, PLOTS / script, *map(str, arguments)], capture_output=True, text=True,
        env={"PYTHONPATH": str(BUILD / "python"), "HOME": "/tmp", "MPLCONFIGDIR": "/tmp"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_timeline_has_a_bar_for_each_slice_of_the_file(tmp_path):
    trace, picture = tmp_path / "step.pftrace", tmp_path / "step.svg"
    orrery("simulate", "llama3-70b-512-h100", "--set", "run.steps=1", "--timeline", trace)
    said = draw("timeline.py", trace, "-o", picture)
    slices, tracks = map(int, re.match(r"(\d+) slices on (\d+) tracks", said).groups())
    assert tracks == 8, "computation and communication of four stages"
    bars = sum(len(re.findall(r"^M ", path, re.MULTILINE))
               for path in re.findall(r'<path d="([^"]*)"', picture.read_text()))  # fmt: skip
    assert bars >= slices >= 4 * 2 * 16, "forward and backward of 16 micro-batches"


def test_the_timeline_of_the_pages_is_the_one_that_the_script_draws(tmp_path):
    said = draw("timeline.py", "-o", tmp_path / "again.svg")
    assert said.startswith("292 slices on 8 tracks")
    assert (ROOT / "docs" / "timeline.svg").read_text().count("<path") == (
        tmp_path / "again.svg").read_text().count("<path")  # fmt: skip


def test_the_plot_of_the_first_steps_is_drawn_by_the_lines_of_the_page(tmp_path):
    picture = tmp_path / "sweep.svg"
    said = draw("first_steps.py", "-o", picture)
    assert re.findall(r"^ *(128|256|512) ", said, re.MULTILINE) == ["128", "256", "512"]
    assert "<svg" in picture.read_text()


def test_the_picture_of_readme_is_the_one_that_the_script_draws(tmp_path):
    picture = tmp_path / "straggler.svg"
    said = draw("straggler.py", "-o", picture)
    medians = [float(median) for median in re.findall(r"median\D*(\d+\.\d+)", said)]
    assert len(medians) == 2 and medians[0] > 2 * medians[1], said
    shown = (ROOT / "docs" / "straggler.svg").read_text()
    assert picture.read_text().count("<path") == shown.count("<path")


def test_the_pictures_of_plans_and_job_logs_show_the_answers_of_the_pages(tmp_path):
    said = draw("answers.py", "-o", tmp_path)
    during, until_end = re.search(r"utilization (\d+%) while .*, (\d+\.\d%) until", said).groups()
    page = (ROOT / "docs" / "jobs.md").read_text()
    assert f"has {during} of the GPUs busy while jobs arrive, and {until_end} until" in page
    assert "P10/P50/P90" in said and "matters most" in said
    for name in ("plan.svg", "jobs.svg"):
        shown = (ROOT / "docs" / name).read_text()
        assert (tmp_path / name).read_text().count("<path") == shown.count("<path")


def test_a_file_that_is_no_trace_is_refused(tmp_path):
    other = tmp_path / "other.pftrace"
    other.write_bytes(b"\x0b\x0c")
    with pytest.raises(AssertionError, match="expected a Perfetto trace of orrery"):
        draw("timeline.py", other, "-o", tmp_path / "a.svg")


def test_the_plots_of_a_twin_are_drawn_by_the_commands_of_the_page(tmp_path):
    picture = tmp_path / "twin.svg"
    said = draw("twin.py", "-o", picture)
    assert re.search(r"Inside the 80% interval: \d+\.\d% of \d+ starts", said), said
    shown = (ROOT / "docs" / "twin.svg").read_text()
    assert picture.read_text().count("<path") == shown.count("<path")
