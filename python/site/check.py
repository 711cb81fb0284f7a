"""Checks the pages of a built site: every link and anchor, and that nothing comes from other hosts.

    check.py FOLDER [--outside]    prints a line for each breach and exits 1 if there is one

--outside also follows the links to other hosts, which needs the network.
"""

import html.parser
import pathlib
import sys
import urllib.error
import urllib.parse
import urllib.request

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


def outside_of(folder):
    """Returns the addresses at other hosts to which pages lead: address -> pages, sorted."""
    found = {}
    for path in sorted(folder.rglob("*.html")):
        for target in Page(path.read_text(encoding="utf-8")).links:
            if urllib.parse.urlsplit(target).scheme in ("http", "https"):
                address = urllib.parse.urldefrag(target).url
                found.setdefault(address, []).append(path.relative_to(folder).as_posix())
    return dict(sorted(found.items()))


def lost_outside(addresses, patience_s=30):
    """Yields (page, sentence) for each address that does not exist, or whose host does not answer.

    A host that answers but refuses programs (403, 429, 5xx) is no breach.
    """
    for address, pages in addresses.items():
        request = urllib.request.Request(address, headers={"User-Agent": "orrery-site-check"})
        try:
            urllib.request.urlopen(request, timeout=patience_s).close()
        except urllib.error.HTTPError as answer:
            if answer.code in (404, 410):
                yield pages[0], f"expected a page at {address}, found {answer.code}"
        except OSError as problem:
            yield pages[0], f"expected an answer of {address}, found: {problem}"


def main(arguments):
    folder = pathlib.Path(arguments[0]).resolve()
    pages = len(list(folder.rglob("*.html")))
    found = list(problems_of(folder))
    if "--outside" in arguments[1:]:
        addresses = outside_of(folder)
        print(f"site: {len(addresses)} addresses at other hosts")
        found += lost_outside(addresses)
    for name, problem in found:
        print(f"{name}: {problem}")
    print(f"site: {pages} pages in {arguments[0]}, {len(found)} broken links or loads")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
