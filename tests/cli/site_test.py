"""The documentation site: it builds without a warning, and its pages need no other host."""

import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

import pytest
from conftest import ROOT, orrery

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
MKDOCS = CACHE / "orrery" / "site" / "bin" / "mkdocs"

sys.path.insert(0, str(ROOT / "python" / "site"))
import browser  # noqa: E402
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


class _Host(http.server.BaseHTTPRequestHandler):
    """A host that has one page and refuses another."""

    def do_GET(self):
        self.send_response({"/there": 200, "/refused": 403}.get(self.path, 404))
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_lost_page_of_another_host_is_found(tmp_path):
    host = http.server.HTTPServer(("127.0.0.1", 0), _Host)
    threading.Thread(target=host.serve_forever, daemon=True).start()
    at = f"http://127.0.0.1:{host.server_port}"
    (tmp_path / "a.html").write_text(
        f'<a href="{at}/there#x">1</a><a href="{at}/lost">2</a><a href="{at}/refused">3</a>'
        f'<a href="{at}/there">4</a><a href="a.html">5</a>'
    )
    addresses = check.outside_of(tmp_path)
    assert list(addresses) == [f"{at}/lost", f"{at}/refused", f"{at}/there"]
    assert list(check.lost_outside(addresses)) == [
        ("a.html", f"expected a page at {at}/lost, found 404")]  # fmt: skip
    host.shutdown()
    host.server_close()
    ((page, problem),) = check.lost_outside({f"{at}/there": ["b.html"]})
    assert page == "b.html" and f"expected an answer of {at}/there" in problem


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


#: A page that is dark on a dark desktop.
DARK = ("<style>@media (prefers-color-scheme: dark) {html {background: #111; color: #eee}}"
        "</style>")  # fmt: skip


def test_the_browser_finds_wide_pages_pale_text_and_missing_pictures(tmp_path):
    if shutil.which("chromium") is None:
        pytest.skip("no chromium: apt-get install chromium")
    site = tmp_path / "site"
    site.mkdir()
    dark = "<style>@media (prefers-color-scheme: dark) {body {background: #111; color: #eee}"
    (site / "a.html").write_text(f"{dark} p {{color: #666}}}} p {{color: #777}}</style><p>pale</p>"
                                 "<div style='width: 900px'>wide</div>")  # fmt: skip
    (site / "b.html").write_text(f"{dark}}}</style><p>good</p><img src=none.png>")
    (site / "c.html").write_text("<p>always light")
    chromium = browser.Browser(tmp_path / "profile")
    found = list(browser.breaches(chromium, site, sorted(site.iterdir()), tmp_path))
    chromium.close()
    said = {(view, re.sub(r"[:\d].*", "", text)) for view, text in found}
    views = {(f"a.html, {scheme}, {width}", "contrast ")
             for scheme in ("light", "dark") for width in (400, 1400)}  # fmt: skip
    wide = {(f"a.html, {scheme}, 400", "expected at most ") for scheme in ("light", "dark")}
    missing = {(f"b.html, {scheme}, {width}", "no picture")
               for scheme in ("light", "dark") for width in (400, 1400)}  # fmt: skip
    light = {(f"c.html, dark, {width}", "expected a dark ground, found rgb(")
             for width in (400, 1400)}  # fmt: skip
    assert said == views | wide | missing | light
    assert {"contrast 4.48"} <= {
        text[:13] for _, text in found if text.startswith("contrast")}  # fmt: skip
    assert len(list(tmp_path.glob("*.png"))) == 12


def test_the_browser_finds_cut_drawings_and_requests_to_the_network(tmp_path):
    if shutil.which("chromium") is None:
        pytest.skip("no chromium: apt-get install chromium")
    site = tmp_path / "site"
    site.mkdir()
    (site / "a.html").write_text(
        f"{DARK}<svg width=60 height=30>"
        "<text x=5 y=20>in</text><text x=50 y=20>far out</text></svg>"
    )
    (site / "b.html").write_text(
        f"{DARK}<script src='http://127.0.0.1:9/s.js'></script><p>good</p>"
    )
    chromium = browser.Browser(tmp_path / "profile")
    found = list(browser.breaches(chromium, site, sorted(site.iterdir())))
    chromium.close()
    assert {(view[:6], text) for view, text in found} == {
        ("a.html", "cut off: far out"),
        ("b.html", "network access: http://127.0.0.1:9/s.js"),
    }


def test_the_report_of_a_plan_is_readable_in_a_browser(tmp_path):
    if shutil.which("chromium") is None:
        pytest.skip("no chromium: apt-get install chromium")
    result = orrery("plan", "--model", "llama3-8b", "--cluster", "dgx-h100", "--gpus", 64,
                    "--tokens", "100B", "--seeds", 20, "--deadline", "30 d", "--budget", "1M",
                    "--html", tmp_path / "plan.html")  # fmt: skip
    assert result.returncode == 0, result.stderr
    chromium = browser.Browser(tmp_path / "profile")
    found = list(browser.breaches(chromium, tmp_path, [tmp_path / "plan.html"]))
    chromium.close()
    assert found == []
