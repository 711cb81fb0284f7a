"""The documentation site: it builds without a warning, and its pages need no other host."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import ROOT

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
MKDOCS = CACHE / "orrery" / "site" / "bin" / "mkdocs"

sys.path.insert(0, str(ROOT / "python" / "site"))
import check  # noqa: E402
import headers  # noqa: E402


def test_every_link_and_anchor_of_the_built_site_leads_somewhere(tmp_path):
    if not MKDOCS.exists():
        pytest.skip(f"no generator at {MKDOCS}: ./dev site installs it")
    done = subprocess.run(
        [MKDOCS, "build", "--quiet", "--strict", "--site-dir", tmp_path / "site"], cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list(check.problems_of(tmp_path / "site")) == []
    assert (tmp_path / "site" / "search" / "search_index.js").exists()


def test_a_broken_link_and_a_file_of_another_host_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a id="x" href="b.html">1</a><a href="#x">2</a><a href="#y">3</a><a href="a.html#x">4</a>'
        '<script src="https://example.org/s.js"></script><a href="https://example.org">5</a>'
    )
    found = " ".join(problem for _, problem in check.problems_of(tmp_path))
    assert "link b.html, found none" in found
    assert "anchor of the link #y" in found
    assert "found https://example.org/s.js" in found
    assert len(list(check.problems_of(tmp_path))) == 3


def test_the_reference_has_every_installed_header_with_its_declarations():
    pages = headers.pages()
    assert len(pages) == 1 + len(headers.installed())
    policy = pages[headers.page_name(headers.FIRST)]
    assert re.findall(r"^## (.*)$", policy, re.MULTILINE) == [
        "struct Observation", "struct Needs", "struct Capabilities", "struct Context",
        "using Archive", "class Policy",
    ]  # fmt: skip
    assert "virtual Needs needs() const = 0;" in policy
    for name, page in pages.items():
        assert "\n private:" not in page, name
        assert name == "index.md" or page.count("\n## ") >= 1, name
