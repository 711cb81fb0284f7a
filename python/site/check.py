"""Checks the pages of a built site: every link and anchor, and that nothing comes from other hosts.

    check.py FOLDER    prints a line for each breach and exits 1 if there is one
"""

import html.parser
import pathlib
import sys
import urllib.parse

LOADS = {"script": "src", "img": "src", "iframe": "src", "link": "href"}


class Page(html.parser.HTMLParser):
    """Links, loaded files and anchors of one page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Adds what an element names."""
        values = dict(attrs)
        self.anchors.update(values[name] for name in ("id", "name") if values.get(name))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in LOADS and values.get(LOADS[tag]) and values.get("rel") != "canonical":
            self.loads.append(values[LOADS[tag]])


def problems_of(folder):
    """Yields (page, sentence) for each breach in the pages of a folder."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    for path, page in sorted(pages.items()):
        name = path.relative_to(folder).as_posix()
        for target in page.loads:
            if urllib.parse.urlsplit(target).scheme in ("http", "https"):
                yield name, f"expected a file of the site, found {target}"
        for target in page.links + page.loads:
            parts = urllib.parse.urlsplit(target)
            if parts.scheme:
                continue
            base = folder if parts.path.startswith("/") else path.parent
            to = (base / urllib.parse.unquote(parts.path).lstrip("/")).resolve()
            to = path if not parts.path else to / "index.html" if to.is_dir() else to
            if not to.exists():
                yield name, f"expected a file for the link {target}, found none"
            elif to in pages and urllib.parse.unquote(parts.fragment) not in pages[to].anchors:
                yield name, f"expected the anchor of the link {target}, found none"


def main(arguments):
    folder = pathlib.Path(arguments[0]).resolve()
    pages = len(list(folder.rglob("*.html")))
    found = list(problems_of(folder))
    for name, problem in found:
        print(f"{name}: {problem}")
    print(f"site: {pages} pages in {arguments[0]}, {len(found)} broken links or loads")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
