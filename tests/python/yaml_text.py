"""A reading of the plain block YAML of the examples, to have the same scenario as a dict."""


def _value(text):
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _lines(text):
    for line in text.splitlines():
        line = line.split(" #")[0].rstrip()
        if line.strip() and not line.lstrip().startswith("#"):
            yield len(line) - len(line.lstrip()), line.lstrip()


def _block(lines, indent):
    out = None
    while lines and lines[0][0] >= indent:
        column, text = lines.pop(0)
        if text.startswith("- "):
            out = [] if out is None else out
            lines.insert(0, (column + 2, text[2:]))
            out.append(_block(lines, column + 2))
            continue
        out = {} if out is None else out
        key, _, rest = text.partition(":")
        out[key] = _value(rest.strip()) if rest.strip() else _block(lines, lines[0][0])
    return out


def parse(text):
    """Nested dicts and lists."""
    return _block(list(_lines(text)), 0)
