"""Pages of the C++ reference: the installed headers of policies in C++, from their own comments.

Each header opens with a paragraph, and each declaration has a comment in Markdown
(docs/STYLE.md), so a page is that paragraph and, for each type or function, its comment and its
declaration. Doxygen is not used: its pages would need a second converter, and the comments use none
of its commands.
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

LIST = "policies/program/CMakeLists.txt"
FIRST = "policies/seam/policy.hpp"
KIND = re.compile(
    r"(?:template\s*<.*?>\s*)?(class|struct|enum class|enum|using|concept)\s+([\w:]+)", re.DOTALL
)
PRIVATE = re.compile(
    r"^ (?:private|protected):\n.*?(?=^ public:|^\};|\Z)", re.MULTILINE | re.DOTALL
)


def installed():
    """Returns the paths of the headers that the component `policy` installs, FIRST first."""
    text = (ROOT / LIST).read_text(encoding="utf-8")
    (listed,) = re.findall(r"set\(public_headers (.*?)\)", text, re.DOTALL)
    return [FIRST, *sorted(set(listed.split()) - {FIRST})]


def opening_of(text):
    """Returns the opening comment of a header as Markdown."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[3:])
    return "\n".join(lines)


def _end_of(code, begin):
    """Index behind the declaration that begins at `begin`: its semicolon or closing brace."""
    depth = 0
    for at in range(begin, len(code)):
        char = code[at]
        depth += char in "{(" and 1
        depth -= char in "})" and 1
        if depth == 0 and char == ";":
            return at + 1
        if depth == 0 and char == "}" and not code[at + 1 :].lstrip().startswith(";"):
            return at + 1
    return len(code)


def declarations_of(text):
    """Yields (comment, declaration) of each declaration of namespace orrery that has a comment."""
    code, lines, starts = _blanked(text), text.split("\n"), [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    number = 0
    while number < len(lines):
        comment = []
        while number < len(lines) and lines[number].startswith("///"):
            comment.append(lines[number][4:])
            number += 1
        if comment and number < len(lines) and lines[number].strip():
            end = _end_of(code, starts[number])
            yield "\n".join(comment), text[starts[number] : end]
            number = max(number, text.count("\n", 0, end))
        number += 1


def _blanked(text):
    """Returns the text with comments and literals as blanks, each character at its place."""
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
                  r"|'(?:\\.|[^'\\\n])'",
                  lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.DOTALL)  # fmt: skip


def title_of(declaration):
    """Returns the heading of a declaration: kind and name of a type, name of a function."""
    if found := KIND.match(declaration):
        return f"{found[1]} {found[2]}"
    head = re.split(r"[({=;]", declaration, maxsplit=1)[0]
    names = re.findall(r"operator\S+|[\w:]+", head)
    return f"{names[-1]}()" if "(" in declaration[: len(head) + 1] else names[-1]


def page_of(path):
    """Returns the page of one header."""
    text = (ROOT / path).read_text(encoding="utf-8")
    out = [f"# {path}", "",
           "For engineers who write a policy in C++ ([all headers](index.md)). First line:",
           "", "```cpp", '#include "orrery/policy.hpp"', "```", "",
           opening_of(text), ""]  # fmt: skip
    for comment, declaration in declarations_of(text):
        shown = PRIVATE.sub("", declaration)
        out += [f"## {title_of(declaration)}", "", comment, "", "```cpp", shown, "```", ""]
    return "\n".join(out)


def index():
    """Returns the page that lists the headers, each with the first sentence of its opening."""
    out = ["# C++ headers of a policy", "",
           "For engineers who write a policy in C++ ([how](../cpp-policies.md)). First command:",
           "`orrery new policy NAME --cpp`. `cmake --install build --component policy` installs",
           "these headers; a policy includes `orrery/policy.hpp` only, which includes the others.",
           "",
           "| header | content |", "|---|---|"]  # fmt: skip
    for path in installed():
        opening = opening_of((ROOT / path).read_text(encoding="utf-8")).replace("\n", " ")
        sentence = re.split(r"(?<=[a-z)])[.:;] ", opening)[0].rstrip(".")
        out.append(f"| [{path}]({page_name(path)}) | {sentence} |")
    return "\n".join([*out, ""])


def page_name(path):
    """Returns the name of a header's page, in the folder of the reference."""
    return path.replace("/", "-").removesuffix(".hpp") + ".md"


def pages():
    """Returns name -> text of all pages of the reference."""
    return {"index.md": index(), **{page_name(path): page_of(path) for path in installed()}}
