#!/usr/bin/env python3
"""Draws public methods from the headers, to judge whether the headers alone explain them.

    tests/tidy/sample_methods.py SEED [COUNT] [--headers FOLDER]

Prints COUNT (default 60) methods as FILE:LINE Class::method, drawn by SEED. With --headers, copies
all headers to FOLDER, so that a reader sees nothing else. docs/STYLE.md states the rule by which
the reader's answers are judged."""
import argparse
import pathlib
import random
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ('policies', 'sim', 'live', 'traces', 'topologies', 'core', 'cli')
CLASS = re.compile(r'^(class|struct) (?:\[\[\w+\]\] )?(\w+)[^;]*$')
ACCESS = re.compile(r'^ (public|protected|private):')
# Two spaces: a member of a class at the margin, not a line of a body or of an argument list.
METHOD = re.compile(r'^  (?=\S)(?!//|return\b|using\b|friend\b|explicit\b|throw\b)'
                    r'(?:\[\[nodiscard\]\] )?(?:(?:virtual|static|constexpr|inline) )*'
                    r'[\w:<>,&*\s\[\]]+?[ &*](\w+)\(')


def headers():
    """Returns the paths of all headers of the rooms."""
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob('*.hpp'))


def methods(path):
    """Yields (line number, class, method) for each public method that a header declares."""
    name, public = None, False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if found := CLASS.match(line):
            name, public = found[2], found[1] == 'struct'
        elif line.startswith('};'):
            name = None
        elif found := ACCESS.match(line):
            public = found[1] == 'public'
        elif name and public and (found := METHOD.match(line)):
            is_written = not re.search(r'operator|= (?:delete|default);', line)
            if is_written and found[1] != name and not found[1].endswith('_'):
                yield number, name, found[1]


def main():
    """Prints the sample."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('seed', type=int)
    parser.add_argument('count', type=int, nargs='?', default=60)
    parser.add_argument('--headers', type=pathlib.Path)
    options = parser.parse_args()
    found = [(path.relative_to(ROOT), *each) for path in headers() for each in methods(path)]
    drawn = random.Random(options.seed).sample(found, options.count)
    for path, line, name, method in sorted(drawn):
        print(f'{path}:{line} {name}::{method}')
    print(f'{options.count} of {len(found)} methods, seed {options.seed}')
    for path in headers() if options.headers else ():
        copy = options.headers / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)


if __name__ == '__main__':
    main()
