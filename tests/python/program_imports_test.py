"""Calls after imports of a program (orrery/programs/importing.py), in Pythons without PyTorch."""

import subprocess
import sys

import pytest
from conftest import ROOT

#: Program that loads the module by its file, as the folder that attaches programs does.
HEAD = f"""
import importlib.util
spec = importlib.util.spec_from_file_location(
    "importing", {str(ROOT / "python/orrery/programs/importing.py")!r})
importing = importlib.util.module_from_spec(spec)
spec.loader.exec_module(importing)
def say(text):
    print(text)
def fail():
    raise KeyError("a part")
"""


def output_of(folder, *lines):
    """The lines that a Python prints which finds its modules in a folder, and its errors."""
    result = subprocess.run(
        [sys.executable, "-S", "-c", "\n".join([HEAD, *lines])],
        capture_output=True, text=True, env={"PYTHONPATH": str(folder)}, cwd=folder,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines(), result.stderr


@pytest.fixture
def folder(tmp_path):
    for name in ("torch", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"print('{name} runs')\nvalue = 7\n")
    return tmp_path


def test_the_calls_surround_the_first_import_of_torch(folder):
    lines, _ = output_of(
        folder,
        "importing.on_import_of_torch(lambda: say('install'), say, lambda at: say(at))",
        "import other; import torch; import torch",
        "importing.on_import_of_torch(lambda: say('again'), say, lambda at: say('at ' + at))",
    )
    assert lines == ["other runs", str(folder / "torch"), "torch runs", "install",
                     f"at {folder / 'torch'}", "again"]  # fmt: skip


def test_an_exception_of_a_call_becomes_the_reason(folder):
    lines, _ = output_of(
        folder,
        "importing.on_import_of_torch(fail, say, lambda at: fail())",
        "import torch; say(torch.value)",
    )
    assert lines == ["KeyError: 'a part'", "torch runs", "KeyError: 'a part'", "7"]


def test_a_python_without_torch_names_the_remedy(tmp_path):
    lines, errors = output_of(
        tmp_path,
        "importing.on_import_of_torch(lambda: say('install'), say)",
        "try:\n    import torch\nexcept ImportError as error:\n    say(error)",
    )
    assert lines == ["No module named 'torch'"]
    assert f"expected PyTorch in {sys.executable}, found none" in errors
    assert "pip install 'orrery[torch]'" in errors


def test_other_modules_are_followed_once_and_quietly(folder):
    lines, _ = output_of(
        folder,
        "importing.on_import_of('other', lambda module: say(module.value))",
        "importing.on_import_of('torch', lambda module: fail())",
        "import other; import torch; import other",
        "importing.on_import_of('other', lambda module: say('now'))",
        "importing.on_import_of('missing', lambda module: say('found'))",
        "try:\n    import missing\nexcept ImportError as error:\n    say(error)",
    )
    assert lines == ["other runs", "7", "torch runs", "now", "No module named 'missing'"]
