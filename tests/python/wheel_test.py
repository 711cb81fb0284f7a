"""Tests of the wheel: `pip wheel .` as an installation runs it, then the wheel in an environment of
its own, outside the repository. By default the wheel packages the programs of this build folder,
which have the same sources; ORRERY_WHEEL=compile compiles everything as pip does (./dev fresh)."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile

import pytest
from conftest import BUILD, ROOT

PROGRAMS = ("orrery", "orrery-sim", "orrery-live")
COMPILES = os.environ.get("ORRERY_WHEEL") == "compile"


def run(command, folder):
    """Returns the output of a command whose environment does not lead back to the repository."""
    back = ("PYTHONPATH", "ORRERY_PYTHON")
    environment = {name: value for name, value in os.environ.items() if name not in back}
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{command}: {result.stdout[-4000:]}{result.stderr[-4000:]}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The path of the built wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    build = BUILD / "wheel" if COMPILES else folder / "build"
    prebuilt = [] if COMPILES else ["--config-settings", f"cmake.define.ORRERY_PREBUILT={BUILD}"]
    run(
        [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-build-isolation", "--no-deps",
         "--no-index", "--wheel-dir", str(folder),
         "--config-settings", f"build-dir={build}", *prebuilt],
        folder,
    )  # fmt: skip
    (built,) = folder.glob("orrery-*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The Python of a new environment with the wheel; NumPy and others are those of this one."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    interpreter = str(home / "bin" / "python")
    here = run([interpreter, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], home)
    # A path in a .pth file is searched, but the .pth files there are not read: not the build tree.
    with open(os.path.join(here.strip(), "others.pth"), "w", encoding="utf-8") as others:
        others.write(sysconfig.get_path("purelib") + "\n")
    run(
        [sys.executable, "-m", "pip", "--python", interpreter, "install", "--no-deps",
         "--no-index", str(wheel)],
        home,
    )  # fmt: skip
    return interpreter


def native_files():
    """The files that the user's compiler gets, as programs/process_group.py names them."""
    path = ROOT / "python" / "orrery" / "programs" / "process_group.py"
    spec = importlib.util.spec_from_file_location("process_group", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    named = {*module.SOURCES, *module.HEADERS}
    texts = [(ROOT / path).read_text() for path in named]
    included = {name for text in texts for name in re.findall(r'^#include "(.*)"', text, re.M)}
    assert included <= named, "the group is compiled again after a change of a named file only"
    return named


def test_the_wheel_has_programs_examples_and_the_notebook(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    expected = {f"orrery/bin/{program}" for program in PROGRAMS}
    expected |= {f"orrery/bin/liborrery_nccl_{plugin}.so" for plugin in ("tuner", "profiler")}
    expected |= {
        f"orrery/programs/{name}"
        for name in ("attach/sitecustomize.py", "guard.cpp", "conversions.cpp")
    }
    expected |= {f"orrery/native/{path}" for path in native_files()}
    expected |= {
        f"orrery/examples/{path.relative_to(ROOT / 'examples')}"
        for path in (ROOT / "examples").rglob("*.yaml")
        if "../shared/" not in path.read_text(encoding="utf-8")
    }
    notebooks = ROOT / "python" / "notebooks"
    expected |= {f"orrery/examples/{path.name}" for path in notebooks.glob("*.ipynb")}
    expected |= {"orrery/py.typed", "orrery_command/__init__.py"}
    shared = "orrery-0.1.0.data/data/share"
    expected |= {f"{shared}/man/man1/{page}.1" for page in ("orrery", "orrery-simulate")}
    expected |= {f"{shared}/bash-completion/completions/orrery"}
    assert expected <= inside, sorted(expected - inside)


def test_pytorch_finds_the_entry_point_which_does_nothing_outside_orrery_run(python, tmp_path):
    script = (
        "import importlib.metadata, os, sys\n"
        "found = importlib.metadata.entry_points()\n"
        "group = found.select(group='torch.backends') if hasattr(found, 'select') else "
        "found['torch.backends']\n"
        "(point,) = [each for each in group if each.name == 'orrery']\n"
        "assert 'ORRERY_RUN' not in os.environ and point.load()() is None\n"
        "print(sorted({'pandas', 'orrery', 'orrery_programs'} & set(sys.modules)))\n"
    )
    assert run([python, "-c", script], tmp_path).strip() == "[]"


def test_warnings_do_not_stop_an_installation(tmp_path):
    run(["cmake", "-S", str(ROOT), "-B", ".", "-G", "Ninja", "-DORRERY_TESTS=OFF",
         f"-DPython_EXECUTABLE={sys.executable}"], tmp_path)  # fmt: skip
    commands = (tmp_path / "build.ninja").read_text(encoding="utf-8")
    assert "-Wall" in commands
    assert "-Werror" not in commands


def test_the_first_steps_work_in_an_empty_folder(python, tmp_path):
    text = (ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    where = run([python, "-c", lines + "\nprint(orrery.__file__, len(table))"], tmp_path).split()
    assert where[0].startswith(os.path.dirname(os.path.dirname(python)))
    assert where[1] == "3"


def test_every_example_is_found_by_name_and_right(python, tmp_path):
    script = (
        "import orrery, pathlib\n"
        "folder = orrery.example('straggler-4-ranks').parent\n"
        "for path in sorted(folder.rglob('*.yaml')):\n"
        "    name = str(path.relative_to(folder))\n"
        "    assert orrery.example(name) == orrery.example(name[:-5]) == path\n"
        "    assert path.stem.startswith('replay-') or orrery.check(path) == []\n"
        "    print(name)\n"
        "assert orrery.example('first-steps.ipynb').is_file()\n"
    )
    assert len(run([python, "-c", script], tmp_path).split()) > 5


def test_its_programs_run_a_policy_of_a_file_in_both_worlds(python, tmp_path):
    home = os.path.dirname(os.path.dirname(python))
    orrery = os.path.join(home, "bin", "orrery")
    run([orrery, "new", "policy", "lost-ranks"], tmp_path)
    with open(tmp_path / "lost_ranks.py", "a", encoding="utf-8") as policy:
        policy.write(f"\nimport sys\n\nassert sys.prefix == {home!r}, sys.prefix\n")
    short = ("run.steps=10", "job.global_batch=8", "job.sequence_length=8",
             "job.pace.micro_batch=20 ms")  # fmt: skip
    sets = [word for change in short for word in ("--set", change)]
    for world, mode in (("simulate", "sim"), ("live", "live")):
        command = [orrery, world, "kill-one-rank", "--policy", "lost_ranks.py", "--json", *sets]
        report = json.loads(run(command, tmp_path))
        assert (report["mode"], report["steps_completed"]) == (mode, 10)
        assert report["decisions"] == 1
        assert len(report["failures"]) == 1
