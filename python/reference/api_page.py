"""Writes docs/python.md: the Python package, from its docstrings.

    api_page.py    prints the page; run it with the Python that has the package
"""

import functools
import inspect
import re
import sys

import orrery

HEAD = """# The Python package

For planners who use Orrery from Python. First line: `import orrery`. Start with the notebook
[first-steps.ipynb](../python/notebooks/first-steps.ipynb). Times are seconds, sizes bytes.
`./dev reference` writes this page from the docstrings; a test compares the page with them.
"""
LISTS = ("Parameters", "Returns", "Raises", "Attributes")
RUNS = (
    "simulate", "live", "sweep", "futures", "summary", "predict", "layouts", "plan", "names",
    "prices", "jobs", "job_log", "replay", "read_log", "compare_policies", "twin_score",
    "load", "check", "example", "torchtitan", "policy_names", "version"
)
MODULES = ("events", "actions", "settings", "values", "testing")


def text_of(thing):
    """Returns a docstring as Markdown: numpydoc's headings in bold, their items as a list."""
    out, lines = [], inspect.cleandoc(thing.__doc__ or "").splitlines()
    in_list = False
    for line, following in zip(lines, [*lines[1:], ""]):
        if set(line) == {"-"}:
            continue
        if set(following) == {"-"}:
            in_list = line in LISTS
            out += [f"**{line}**", ""]
        elif line.startswith(">>>"):
            out.append(f"    {line}")
        elif line.startswith("    ") and in_list:
            out.append(f"  {line.strip()}")
        elif line and in_list:
            out.append(f"- `{line}`")
        else:
            out.append(line)
    return "\n".join(out).strip()


def signature_of(thing):
    """Names and defaults; the docstring has the types."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return "(...)"  # a function of the extension: its docstring begins with the signature
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in parameters]
    return str(inspect.Signature([each for each in plain if each.name != "self"]))


def members_of(kind):
    for name, member in vars(kind).items():
        is_value = isinstance(member, (property, functools.cached_property))
        if name.startswith("_") or not (callable(member) or is_value):
            continue
        if is_value:
            yield f"#### `{kind.__name__}.{name}`", text_of(member)
        elif member.__doc__:
            yield f"#### `{kind.__name__}.{name}{signature_of(member)}`", text_of(member)


def section(name):
    thing = getattr(orrery, name)
    if inspect.isclass(thing):
        bases = [base.__name__ for base in thing.__bases__ if base.__module__.startswith("orrery")]
        yield f"### class `orrery.{name}`" + (f", a kind of `{bases[0]}`" if bases else "")
        yield text_of(thing)
        for heading, text in members_of(thing):
            yield heading
            yield text
    else:
        yield f"### `orrery.{name}{signature_of(thing)}`"
        yield text_of(thing)


def page():
    names = [name for name in orrery.__all__ if name not in MODULES]
    classes = [name for name in names if inspect.isclass(getattr(orrery, name))]
    errors = [name for name in classes if issubclass(getattr(orrery, name), Exception)]
    parts = [HEAD, "## Functions", *(line for name in RUNS for line in section(name))]
    rest = [name for name in names if name not in RUNS and name not in classes]
    assert not rest, f"say where {rest} belong on the page"
    parts += ["## Classes"]
    parts += [line for name in classes if name not in errors for line in section(name)]
    parts += ["## What is raised"]
    parts += [line for name in errors for line in section(name)]
    for module in MODULES:
        parts += [f"## `orrery.{module}`", text_of(getattr(orrery, module))]
        for name, kind in vars(getattr(orrery, module)).items():
            if inspect.isclass(kind) and kind.__module__ == f"orrery.{module}":
                parts += [f"### class `orrery.{module}.{name}`", text_of(kind)]
                parts += [line for each in members_of(kind) for line in each]
            elif inspect.isfunction(kind) and kind.__module__ == f"orrery.{module}":
                if not name.startswith("_"):
                    parts += [f"### `orrery.{module}.{name}{signature_of(kind)}`", text_of(kind)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
