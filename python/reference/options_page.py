"""Writes docs/options.md: every command and option, from the help of the command line.

    options_page.py ORRERY    prints the page; ORRERY is build/bin/orrery
"""

import os
import re
import subprocess
import sys

HEAD = """# Every command and option

For everybody who looks for an option. First command: `orrery help COMMAND`, which prints the same
text. `./dev reference` writes this page from the declarations of the command line; a test compares
the page with them. [Tasks and commands](commands.md) begins with the task instead. Every command
also has `--help`, which is left out below.
"""
HEADING = re.compile(r"^([A-Z][^\n]*):$", re.MULTILINE)
#: Column of the help at which explanations begin.
TEXT_AT = 28


def help_of(program, *words):
    """Returns the help of a command, on lines of 100 columns."""
    done = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True,
                          env={**os.environ, "COLUMNS": "100"})  # fmt: skip
    return done.stdout


def parts_of(text):
    """Returns (purpose, usage, {heading: text below it}) of a command from its help."""
    first, *rest = HEADING.split(text.partition("\nExit codes:")[0])
    about, _, usage = first.strip().partition("\n\nUsage: ")
    return " ".join(about.split()), usage.strip(), dict(zip(rest[::2], rest[1::2]))


def entries_of(text):
    """Yields (names, explanation) of the lines below a heading."""
    names, words = None, []
    for line in text.splitlines():
        if line[:TEXT_AT].strip():
            if names:
                yield names, " ".join(words)
            names, _, said = line.strip().partition("  ")
            words = said.split()
        else:
            words += line.split()
    if names:
        yield names, " ".join(words)


def table_of(text, of):
    """Returns the lines below a heading as a table in Markdown; `of`: name of the first column."""
    def cell(words):
        return re.sub(r"([|*<>])", r"\\\1", words)

    rows = [f"| `{names.replace('|', chr(92) + '|')}` | {cell(said)} |"
            for names, said in entries_of(text) if names != "-h, --help"]  # fmt: skip
    return [f"| {of} | meaning |", "|---|---|", *rows, ""] if rows else []


def section_of(program, *words):
    """Yields the lines of a command, and of the commands below it."""
    about, usage, parts = parts_of(help_of(program, *words))
    yield from (f"{'#' * (2 + len(words))} `orrery {' '.join(words)}`", "")
    yield from (f"{about[:1].upper()}{about[1:]}.", "", f"Usage: `{usage}`", "")
    below = entries_of(parts.pop("Subcommands", ""))
    examples = parts.pop("Examples", "").strip()
    for heading, text in parts.items():
        rows = table_of(text, "argument" if heading == "Positionals" else "option")
        if rows and heading not in ("Options", "Positionals"):
            yield from (f"{heading}:", "")
        yield from rows
    if examples:
        yield from ("```", *(line.strip() for line in examples.splitlines()), "```", "")
    for name, _ in below:
        yield from section_of(program, *words, name)


def page(program):
    """Returns the page."""
    lines = [HEAD]
    _, _, groups = parts_of(help_of(program))
    for group, text in groups.items():
        if group == "Options":
            continue
        lines += [f"## {group}", ""]
        for name, _ in entries_of(text):
            lines += section_of(program, name)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    print(page(sys.argv[1]), end="")
