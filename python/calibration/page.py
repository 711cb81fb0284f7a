"""docs/accuracy.md: one page of generated parts, each between two markers and each written by its
own script."""

import argparse
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = """\
# Accuracy

How far off predictions are, of whole training runs and of the component models under them. Each
part of this page is printed by the script that it names.

"""
PAGE = ROOT / "docs" / "accuracy.md"


def markers(part):
    return f"<!-- begin {part} -->\n", f"<!-- end {part} -->\n"


def read_part(part):
    """The text of a part, without its markers; empty if the page has no such part."""
    begin, end = markers(part)
    text = PAGE.read_text() if PAGE.exists() else ""
    if begin not in text or end not in text:
        return ""
    return text.split(begin, 1)[1].split(end, 1)[0]


def write_part(part, text):
    """Replaces a part, or appends it."""
    begin, end = markers(part)
    page = PAGE.read_text() if PAGE.exists() else HEAD
    if begin in page and end in page:
        head, rest = page.split(begin, 1)
        page = head + begin + text + end + rest.split(end, 1)[1]
    else:
        page += begin + text + end
    PAGE.write_text(page)


def run_script(part, make_text, doc):
    """The program of the script that writes a part: prints the text and writes it to the page, or
    compares both with --check. Returns the exit code."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the page only")
    check = parser.parse_args().check
    text = make_text()
    print(text)
    if check:
        return 0 if read_part(part) == text else 1
    write_part(part, text)
    return 0
