"""Writes docs/scenario.md: every key of a scenario, from the JSON Schema that the loader enforces.

    scenario_page.py ORRERY    prints the page; ORRERY is build/bin/orrery
"""

import json
import subprocess
import sys

HEAD = """# Every key of a scenario

For everybody who writes scenarios. First command: `orrery check FILE.yaml`, which finds mistakes.
Read the commented [examples](../examples/) first. For editors: `orrery schema scenario`. This page
comes from `./dev reference`, from the rules of the loader (`orrery schema scenario`) and from the
comments of the `.proto` files; a test compares the page with them.

Quantities are written with their units: `50 ms`, `80 GiB`, `400 Gbps`, `989 TFLOP/s`, `700 W`,
`2.5 USD/h`. Whole numbers of up to 10^12 or more (steps, tokens) may end in k, M, B or T: `2T`. A
key in **bold** is required.
"""


def schema_of(program, kind):
    """The JSON Schema of a kind of file."""
    done = subprocess.run([program, "schema", kind], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def name_of(reference):
    """The section that a reference leads to."""
    return reference.rsplit("/", 1)[1].removesuffix("_partial")


def anchor(name):
    return f"[{name}](#{name.lower()})"


def number(value):
    return f"{value:,}" if abs(value) < 1e15 else f"{value:.0e}"


def kind_of(value):
    """Returns the permitted values in words."""
    if "$ref" in value:
        return anchor(name_of(value["$ref"]))
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    if value["type"] == "array":
        return f"list of {kind_of(value['items'])}"
    if "enum" in value:
        return ", ".join(f"`{choice}`" for choice in value["enum"])
    if value["type"] == ["integer", "string"]:  # HEAD explains the suffixes
        value = {**value, "type": "integer"}
    elif "pattern" in value:
        return f"quantity, `{value['examples'][0]}`"
    words = {"integer": "whole number", "number": "number", "boolean": "`true`, `false`"}
    text = words.get(value["type"], "text" if value["type"] == "string" else "map")
    low, high = value.get("minimum"), value.get("maximum")
    if low is not None and high is not None:
        return f"{text}, {number(low)} to {number(high)}"
    return f"{text}, at least {number(low)}" if low else text


def sentence(text):
    """Returns the text with a capital letter and a full stop, unless it begins with a name."""
    if not text:
        return ""
    first = text.split(maxsplit=1)[0]
    if first.isalpha():
        text = text[0].upper() + text[1:]
    return text if text[-1] in ".:" else text + "."


def row(key, value, required):
    shown = f"**`{key}`**" if key in required else f"`{key}`"
    inner = value.get("items", value)
    default = inner.get("default")
    text = json.dumps(default) if not isinstance(default, str) else default
    said = sentence(value.get("description", ""))
    known = [] if "pattern" in inner else inner.get("examples", [])
    if known:
        said += " Known: " + ", ".join(f"`{name}`" for name in known) + "."
    said = said.replace("|", "\\|")
    return f"| {shown} | {kind_of(value)} | {'' if default is None else f'`{text}`'} | {said} |"


def section(name, schema, title=None):
    lines = [f"## {title or name}", ""]
    if schema.get("description"):
        lines += [schema["description"], ""]
    if not schema["properties"]:
        return [*lines, "No keys.", ""]
    lines += ["| key | value | default | |", "|---|---|---|---|"]
    lines += [row(key, value, schema.get("required", ()))
              for key, value in schema["properties"].items()]
    said = [sentence_of(case) for case in schema.get("allOf", ())]
    return [*lines, *([""] if said else []), *said, ""]


def sentence_of(case):
    """Returns the conditions between several keys."""
    if "if" in case:
        policy = case["if"]["properties"]["name"]["const"]
        (parameters,) = case["then"]["properties"].values()
        return f"- `name: {policy}` takes {anchor(name_of(parameters['$ref']))}"
    if "anyOf" in case:
        (other,), keys = (choice["required"] for choice in case["anyOf"])
        return f"- without `{other}`, required are {', '.join(f'`{key}`' for key in keys)}"
    keys = [choice["required"][0] for choice in case["oneOf"] if "required" in choice]
    most = "at most" if any("not" in choice for choice in case["oneOf"]) else "exactly"
    return f"- {most} one of {', '.join(f'`{key}`' for key in keys)}"


def references(value):
    """Returns the names that a schema leads to, in their order."""
    if isinstance(value, dict):
        if "$ref" in value:
            yield name_of(value["$ref"])
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def page(program):
    schema = schema_of(program, "scenario")
    sections = section("Scenario", schema)
    waiting, seen = list(references(schema["properties"])), {"Scenario"}
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        sections += section(name, schema["$defs"][name])
        waiting = list(references(schema["$defs"][name])) + waiting
    return HEAD + "\n" + "\n".join(sections).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(page(sys.argv[1]))
