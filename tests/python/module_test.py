"""Stubs agree with the module, docstrings with the signatures, and the notebook runs."""

import inspect
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from conftest import BUILD, ROOT, STRAGGLER
from nbclient import NotebookClient

import orrery

ALLOWED = str(ROOT / "tests" / "python" / "stubtest-allowlist.txt")
CONFIG = str(ROOT / "pyproject.toml")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "MYPYPATH": str(BUILD / "python")}


def test_stubs(tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "orrery", "--mypy-config-file", CONFIG,
         "--allowlist", ALLOWED],
        env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr


def public_callables():
    for name in orrery.__all__:
        thing = getattr(orrery, name)
        if inspect.isfunction(thing):
            yield name, thing
        if inspect.isclass(thing) and thing.__module__ != "orrery._core":
            for attribute, method in vars(thing).items():
                if inspect.isfunction(method) and not attribute.startswith("_"):
                    yield f"{name}.{attribute}", method


@pytest.mark.parametrize("name, function", list(public_callables()))
def test_docstrings_follow_numpydoc(name, function):
    text = inspect.getdoc(function)
    assert text, f"{name} has no docstring"
    assert re.match(r"[^\n]+[.]", text)
    signature = inspect.signature(function)
    named = [parameter for parameter in signature.parameters if parameter != "self"]
    if named:
        section = text.split("Parameters\n----------\n")[1].split("\n\n")[0]
        listed = re.findall(r"^(\*{0,2}\w[^:\n]*?)(?: :|$)", section, re.MULTILINE)
        words = {word.strip(" *") for line in listed for word in line.split(",")}
        assert set(named) <= words, f"{name}: {set(named) - words} undocumented"
    if signature.return_annotation not in (None, "None", inspect.Signature.empty):
        assert "Returns\n-------" in text, f"{name} does not say what it returns"


def test_every_public_name_has_a_docstring():
    for name in orrery.__all__:
        assert inspect.getdoc(getattr(orrery, name)), name


def test_what_is_installed_is_whole(tmp_path):
    # Packages the build as `pip install .` does; compiling everything again would take minutes.
    subprocess.run(
        ["cmake", "--install", BUILD, "--component", "python", "--prefix", tmp_path],
        check=True, capture_output=True,
    )  # fmt: skip
    shutil.copytree(ROOT / "python" / "orrery", tmp_path / "orrery", dirs_exist_ok=True)
    script = (
        "import orrery, sys; print(orrery.__file__);"
        f"print(orrery.simulate({str(STRAGGLER)!r}, run__steps=3).steps_completed)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=tmp_path,
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.stdout.split() == [str(tmp_path / "orrery" / "__init__.py"), "3"], result.stderr
    command = subprocess.run(
        [sys.executable, "-m", "orrery", "--version"], env=environment, cwd=tmp_path,
        capture_output=True, text=True,
    )  # fmt: skip
    assert command.stdout.startswith(f"orrery {orrery.__version__}"), command.stderr
    policy = tmp_path / "mine.py"
    policy.write_text("import orrery\nclass Mine(orrery.Policy):\n"
                      "    def observe(self, seen, decisions):\n        print(orrery.__file__)\n")
    steered = subprocess.run(
        [sys.executable, "-m", "orrery", "simulate", STRAGGLER, "--policy", policy,
         "--set", "run.steps=1"],
        env=environment, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert steered.returncode == 0, steered.stderr
    assert str(tmp_path / "orrery" / "__init__.py") in steered.stderr


#: First cell of a tested notebook: notes each axis with numbers and no label, before the figures of
#: a cell are shown and closed.
NOTE_BARE_AXES = """
import sys
bare_axes = []

def note_bare_axes():
    pyplot = sys.modules.get("matplotlib.pyplot")
    for number in pyplot.get_fignums() if pyplot else []:
        figure = pyplot.figure(number)
        figure.canvas.draw()
        for axes in figure.axes:
            for which, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
                shown = [each.get_text() for each in axis.get_ticklabels() if each.get_visible()]
                counted = any(text[-1:].isdigit() and text[:1] in "-0123456789\\u2212"
                              for text in shown)
                if counted and not axis.get_label_text():
                    bare_axes.append(f"{which} of {axes.get_title(loc='left')!r}: {shown}")

get_ipython().events.register("post_execute", note_bare_axes)
"""


@pytest.mark.parametrize(
    "name",
    ["first-steps", "replay-a-production-trace", "capacity-planning", "choice-of-fabric",
     "cluster-health"],
)
def test_a_notebook_runs(name):
    path = ROOT / "python" / "notebooks" / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    assert all(cell.get("outputs", []) == [] for cell in notebook.cells), "clear the outputs"
    os.environ["PYTHONPATH"] = ENVIRONMENT["PYTHONPATH"]
    notebook.cells.insert(0, nbformat.v4.new_code_cell(NOTE_BARE_AXES))
    notebook.cells.append(nbformat.v4.new_code_cell("print(bare_axes)"))
    client = NotebookClient(notebook, timeout=240, resources={"metadata": {"path": path.parent}})
    client.execute()
    assert notebook.cells[-1].outputs[0]["text"] == "[]\n", "axes without a label"
    pictures = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) >= 2
