"""The page of the Python package: from the docstrings, and whole."""

import inspect
import sys

from conftest import ROOT

import orrery

sys.path.insert(0, str(ROOT / "python" / "reference"))
import api_page  # noqa: E402


def test_the_page_is_what_the_docstrings_say():
    assert api_page.page() == (ROOT / "docs" / "python.md").read_text(), "run ./dev reference"


def test_everything_public_is_on_it():
    page = api_page.page()
    for name in orrery.__all__:
        if name != "events":
            assert f"`orrery.{name}" in page, name
    for name, kind in vars(orrery.events).items():
        if inspect.isclass(kind) and kind.__module__ == "orrery.events":
            assert f"`orrery.events.{name}`" in page, name


def test_every_function_says_what_it_takes():
    for name in api_page.RUNS:
        function = getattr(orrery, name)
        for parameter in inspect.signature(function).parameters:
            assert parameter in (function.__doc__ or ""), f"{name}: {parameter}"
