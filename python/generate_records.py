#!/usr/bin/python3
"""Writes the classes of events, actions and settings of the Python package from traces/trace.proto.

    python3 python/generate_records.py          # after a change of the schema
    python3 python/generate_records.py --check  # exit code 1 if a file is out of date

A message XRecord is the dataclass X, its comment the docstring, a field `x_ns` the field `x` in
seconds, an enumerator HEALTH_LOST the string "lost", runs of GPUs a list of GPUs, and a message
that is only a choice stands for the chosen one. The compiled part converts by the same
rules
(python/bindings/records.cpp). "Default: X" in a field's comment is its default in Python.
"""

import keyword
import pathlib
import re
import sys
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCHEMA = ROOT / "traces" / "trace.proto"
PACKAGE = ROOT / "python" / "orrery"

NAMES = {"JobRecord": "JobSpec"}
#: Written by hand beside the generated fields (python/orrery/_layout.py).
BASES = {"LayoutRecord": "LayoutMath"}
#: Fields whose Python type does not follow from the field's type alone.
KIND_SETS = {("JobRecord", "can")}
#: Fields of a job about its placement, not its submission (python/orrery/_seen.py).
STANDS = ("id", "gpus", "layout", "settings")
NUMBERS = {"uint32": "int", "uint64": "int", "int32": "int", "int64": "int", "double": "float",
           "bool": "bool", "bytes": "str", "string": "str"}  # fmt: skip
ZERO = {"int": "0", "float": "0.0", "bool": "False", "str": '""'}


@dataclass
class Field:
    label: str
    type: str
    name: str
    comment: str

    @property
    def seconds(self):
        return self.name.endswith("_ns")

    @property
    def python_name(self):
        name = self.name[:-3] if self.seconds else self.name
        return name + "_" if keyword.iskeyword(name) else name


@dataclass
class Message:
    name: str
    comment: str
    fields: list = field(default_factory=list)
    choice: list = field(default_factory=list)  # alternatives of its oneof

    @property
    def python_name(self):
        return NAMES.get(self.name, self.name.removesuffix("Record"))


# ---- the schema ----------------------------------------------------------------------------------

_FIELD = re.compile(r"(?:(repeated|optional) )?(\w+) (\w+) = \d+(?: \[.*\])?;(?:\s*// (.*))?$")
_VALUE = re.compile(r"(\w+) = \d+;")


class Schema:
    """Messages and enums of the outermost level, with their comments."""

    def __init__(self, text):
        self.messages, self.enums = {}, {}
        self._open, self._enum, self._choice, self._comment = None, None, False, []
        for line in text.splitlines():
            self._read(line.strip())

    def _read(self, line):
        if line.startswith("//"):
            self._comment.append(line[2:].strip())
            return
        comment, self._comment = " ".join(self._comment), []
        if match := re.match(r"message (\w+) {(})?$", line):
            self._open = self.messages[match[1]] = Message(match[1], comment)
            if match[2]:
                self._open = None
        elif match := re.match(r"enum (\w+) {$", line):
            self._enum = self.enums[match[1]] = []
        elif self._enum is not None and (match := _VALUE.match(line)):
            self._enum.append(match[1].partition("_")[2].lower().replace("_", "-"))
        elif line.startswith("oneof"):
            self._choice = True
        elif self._open is not None and (match := _FIELD.match(line)):
            found = Field(match[1] or "", match[2], match[3], match[4] or comment)
            (self._open.choice if self._choice else self._open.fields).append(found)
        elif line == "}" and self._choice:
            self._choice = False
        elif line == "}":
            self._open = self._enum = None

    def is_choice(self, name):
        return name in self.messages and bool(self.messages[name].choice)

    def kinds(self, name):
        return [self.messages[each.type] for each in self.messages[name].choice]

    def parts(self, messages):
        """Messages that these are made of, innermost first."""
        out = []
        for message in messages:
            for each in message.fields:
                inner = self.messages.get(each.type)
                if inner is None or self.is_choice(each.type) or each.type == "GpuRunRecord":
                    continue
                out += [part for part in [*self.parts([inner]), inner] if part not in out]
        return out


# ---- output --------------------------------------------------------------------------------------


def sentences(text):
    """The first one, and the others."""
    match = re.match(r"(.*?[^.]\.)(?: (?=[A-Z])|$)(.*)$", text)
    return (match[1], match[2]) if match else (text.rstrip(".") + ".", "")


def wrapped(text, indent, width=99):
    lines, line = [], indent
    for word in text.split():
        if len(line) + len(word) + 1 > width and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += word + " "
    return [*lines, line.rstrip()] if line.strip() else lines


def import_of(module, text, used_by):
    defined = re.findall(r"^(?:class (\w+)|(\w+) = Literal)", text, re.MULTILINE)
    code = re.sub(r'"""(?s:.*?)"""', "", used_by)
    names = sorted({a or b for a, b in defined if re.search(rf"\b{a or b}\b", code)})
    line = f"from orrery.{module} import {', '.join(names)}"
    if len(line) > 100:
        return [f"from orrery.{module} import (", *(f"    {name}," for name in names), ")"]
    return [line] if names else []


class Writer:
    def __init__(self, schema):
        self.schema = schema

    def enum_name(self, name):
        return name.removesuffix("Record")

    def type_of(self, message, each, wide=False):
        if (message.name, each.name) in KIND_SETS:
            return "List[str]"
        if each.type == "GpuRunRecord":
            return "Sequence[Union[int, range]]" if wide else "List[int]"
        if each.seconds:
            inner = "float"
        elif each.type in self.schema.enums:
            inner = self.enum_name(each.type)
        elif self.schema.is_choice(each.type):
            inner = "Setting"
        elif each.type in self.schema.messages:
            inner = self.schema.messages[each.type].python_name
        else:
            inner = NUMBERS[each.type]
        return f"List[{inner}]" if each.label == "repeated" else inner

    def default_of(self, message, each, type_name):
        given = re.search(r"(?:by default|Default): ([\w.-]+)", each.comment)
        if each.label == "repeated":
            return "()" if each.type == "GpuRunRecord" else "field(default_factory=list)"
        if each.type in self.schema.enums:
            return f'"{given[1] if given else self.schema.enums[each.type][0]}"'
        if given:
            return given[1]
        return ZERO.get(type_name, "None")

    def signature(self, message, defaults):
        """(field, type, default or empty) of each field; the first one always has to be given."""
        for index, each in enumerate(message.fields):
            name = self.type_of(message, each, wide=defaults and message.name == "AssignRecord")
            first = index == 0 and "efault: " not in each.comment
            if not defaults or first or self.schema.is_choice(each.type):
                absent = each.label == "optional" and "efault: " not in each.comment
                wanted = f"Optional[{name}]" if absent and not defaults else name
                yield each, wanted, "" if defaults else self.default_if_last(message, index)
                continue
            default = self.default_of(message, each, name)
            yield each, f"Optional[{name}]" if default == "None" else name, default

    def default_if_last(self, message, index):
        """Default of an event's field; only optional and repeated fields at its end have one."""
        last = index > 0 and all(each.label for each in message.fields[index:])
        if not last or message not in self.schema.kinds("EventRecord"):
            return ""
        optional = message.fields[index].label == "optional"
        return "None" if optional else "field(default_factory=list)"

    def describe(self, each, message):
        said = re.sub(r"\s*;?\s*(?:by default|Default): [\w.-]+", "", each.comment)
        said = [said[0].upper() + said[1:].rstrip(".") + "." if said else ""]
        if each.seconds:
            said.append("Seconds.")
        if (message.name, each.name) in KIND_SETS:
            said = ["Names of the settings that its program lets be set while it runs."]
        return " ".join(said).strip()

    def write_class(self, message, base, defaults=False):
        base = ", ".join(filter(None, (BASES.get(message.name), base)))
        yield "@dataclass(frozen=True)"
        yield f"class {message.python_name}{f'({base})' if base else ''}:"
        summary, more = sentences(message.comment)
        head = wrapped(summary, "    ", 96)
        fields = list(self.signature(message, defaults))
        head[0] = '    """' + head[0].strip()
        body = ["", *wrapped(more, "    ")] if more else []
        if fields:
            body += ["", "    Attributes", "    ----------"]
        for each, name, _ in fields:
            body.append(f"    {each.python_name} : {name}")
            body += wrapped(self.describe(each, message), "        ")
        if body:
            yield from [*head, *body, '    """']
        else:
            yield head[0] + '"""'
        yield ""
        yield f'    _record: ClassVar[str] = "{message.name}"'
        if fields:
            yield ""
        for each, name, default in fields:
            yield f"    {each.python_name}: {name}" + (f" = {default}" if default else "")
        yield ""
        yield ""

    def head(self, doc, body, *modules):
        """A whole module; `modules`: (name, its text) of those whose names it may use."""
        text = "\n".join(body)
        yield '"""' + doc
        yield ""
        yield "Written by python/generate_records.py from traces/trace.proto."
        yield '"""'
        yield ""
        yield "from __future__ import annotations"
        yield ""
        dataclasses = [n for n in ("dataclass", "field") if re.search(rf"\b{n}\(", text)]
        if dataclasses:
            yield f"from dataclasses import {', '.join(dataclasses)}"
        names = ("ClassVar", "List", "Literal", "Optional", "Sequence", "Type", "Union")
        typing = [name for name in names if f"{name}[" in text]
        yield f"from typing import {', '.join(typing)}"
        yield ""
        imports = [line for name, other in modules for line in import_of(name, other, text)]
        yield from [*imports, ""] if imports else []
        yield from body

    def base(self, base, doc):
        yield ""
        yield f"class {base}:"
        yield f'    """{doc}"""'
        yield ""
        yield ""

    def listing(self, base, kinds, name="KINDS"):
        yield "#: All kinds, in the order of the schema."
        yield f"{name}: List[Type[{base}]] = ["
        yield from (f"    {kind.python_name}," for kind in kinds)
        yield "]"


def module_values(writer, parts):
    body = []
    for name, values in writer.schema.enums.items():
        shown = ", ".join(f'"{value}"' for value in values)
        line = f"{writer.enum_name(name)} = Literal[{shown}]"
        if len(line) > 100:
            line = f"{writer.enum_name(name)} = Literal[\n" + "".join(
                f'    "{value}",\n' for value in values) + "]"  # fmt: skip
        body.append(line)
    body += ["", ""]
    for part in parts:
        body += writer.write_class(part, "", defaults=part.name == "LayoutRecord")
    doc = "Names and values that events, actions and settings share."
    return writer.head(doc, body, ("_layout", "class LayoutMath"))


def module_settings(writer, kinds, parts, values):
    body = list(writer.base("Setting", "Base of all settings."))
    for part in parts:
        body += writer.write_class(part, "", defaults=True)
    for kind in kinds:
        body += writer.write_class(kind, "Setting", defaults=True)
    body += ["@dataclass(frozen=True)", "class Settings:",
             '    """One value of every setting: how a job is set."""', ""]  # fmt: skip
    choice = writer.schema.messages["SettingRecord"].choice
    body += [f"    {c.name}: {k.python_name}" for c, k in zip(choice, kinds)] + ["", ""]
    body += writer.listing("Setting", kinds)
    doc = "Settings of a running job: ``decisions.configure(job, settings.X(...))``."
    return writer.head(doc, body, ("values", values))


def module_kinds(writer, doc, base, kinds, *modules):
    body = list(writer.base(base, f"Base of all {base.lower()}s."))
    for kind in kinds:
        body += writer.write_class(kind, base, defaults=base == "Action")
    body += writer.listing(base, kinds)
    return writer.head(doc, body, *modules)


def module_spec(writer, job, kinds, *modules):
    body = [""] + list(writer.write_class(job, ""))
    body += ["class JobAttributes:",
             '    """Attributes of a job: the data of its submission, and its settings."""', "",
             "    @property", "    def spec(self) -> JobSpec:",
             '        """Data known at submission."""',
             "        raise NotImplementedError", "",
             "    @property", "    def now(self) -> Settings:",
             '        """Settings of the current step."""',
             "        raise NotImplementedError", ""]  # fmt: skip
    for each in job.fields:
        if each.name in STANDS:
            continue
        said = writer.describe(each, job) or f"Its {each.python_name}."
        body += ["    @property",
                 f"    def {each.python_name}(self) -> {writer.type_of(job, each)}:",
                 *docstring(said), f"        return self.spec.{each.python_name}", ""]  # fmt: skip
    for choice, kind in zip(writer.schema.messages["SettingRecord"].choice, kinds):
        body += ["    @property",
                 f"    def {choice.name}(self) -> {kind.python_name}:",
                 *docstring(sentences(kind.comment)[0]),
                 f"        return self.now.{choice.name}", ""]  # fmt: skip
    return writer.head("Submission and settings of a job.", body[:-1], *modules)


def docstring(text):
    lines = wrapped(text, "        ", 93)
    lines[0] = '        """' + lines[0].strip()
    lines[-1] += '"""'
    return lines


def generate():
    """File name to text."""
    schema = Schema(SCHEMA.read_text())
    events, actions, kinds = (
        schema.kinds(name) for name in ("EventRecord", "DecisionRecord", "SettingRecord")
    )
    job = schema.messages["JobRecord"]
    of_settings = schema.parts(kinds)
    shared = [part for part in schema.parts([*actions, *events])
              if part not in of_settings and part is not job]  # fmt: skip
    writer = Writer(schema)

    def text_of(lines):
        return "\n".join(lines).rstrip() + "\n"

    values = text_of(module_values(writer, shared))
    settings = text_of(module_settings(writer, kinds, of_settings, values))
    below = ("settings", settings), ("values", values)
    spec = text_of(module_spec(writer, job, kinds, *below))
    doc = 'Actions of a policy: ``decisions.add(actions.X(...), why="...")``.'
    action_module = text_of(module_kinds(writer, doc, "Action", actions, *below))
    doc = "Events of a run, as a policy sees them in ``seen.events``."
    event_module = text_of(module_kinds(writer, doc, "Event", events, ("_spec", spec), *below))
    return {"values.py": values, "settings.py": settings, "_spec.py": spec,
            "actions.py": action_module, "events.py": event_module}  # fmt: skip


def main(arguments):
    stale = []
    for name, text in generate().items():
        path = PACKAGE / name
        if "--check" in arguments:
            if not path.exists() or path.read_text() != text:
                stale.append(name)
        else:
            path.write_text(text)
    for name in stale:
        print(f"python/orrery/{name} is out of date: run python3 {sys.argv[0]}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
