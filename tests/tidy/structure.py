#!/usr/bin/python3
"""Figures of the structure of some rooms, to compare two versions of the project.

    tests/tidy/structure.py [--root ROOT] [--before ROOT] [ROOM...]

prints one line for each room (default: the inner rooms of sim/, without sim/estimates, and their
sum): files, lines, levels (the longest chain of files of the room that include each other, headers
and sources of one name counted as one), classes with more than seven data members, members that are
references to other objects, virtual methods without destructors, the most of them in one class, and
comparisons with a word (== "word"). To measure another version, clone it and name it as ROOT. With
--before the lines are those of the table in docs/ARCHITECTURE.md: figures before and after, joined
by an arrow where they differ; ROOM=OLD is a room that had the name OLD before. Plain Python,
nothing to install; structure_test.py holds the counting."""
import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cxx

MANY_MEMBERS = 7
COLUMNS = ('files', 'lines', 'levels', 'classes > 7', 'references', 'virtual', 'most', 'words')


def levels(includes):
    """Returns the length of the longest chain of names that include each other; a circle counts
    as one level for each of its names. The result does not depend on the order of the names."""
    reached = {}
    for name in includes:  # all names that a name includes, directly or not
        found, open_names = set(), [name]
        while open_names:
            for other in includes[open_names.pop()] - found:
                found.add(other)
                open_names.append(other)
        reached[name] = found
    known = {}

    def level(name):
        if name not in known:
            circle = {other for other in reached[name] if name in reached[other]} | {name}
            below = set().union(*(includes[each] for each in circle)) - circle
            known.update(dict.fromkeys(circle, len(circle) + max(map(level, below), default=0)))
        return known[name]

    return max(map(level, includes), default=0)


def includes_of(texts):
    """Returns name -> names of the same room that it includes; `texts` has path -> text."""
    names = {path.rsplit('.', 1)[0] for path in texts}
    found = {name: set() for name in names}
    for path, text in texts.items():
        name = path.rsplit('.', 1)[0]
        for target in re.findall(r'^#include "([^"]+)\.hpp"', text, re.MULTILINE):
            if target in names and target != name:
                found[name].add(target)
    return found


def virtual_methods(text):
    """Yields the number of virtual methods, without destructors, of each class in the text."""
    code = cxx.code_of(text)
    for part in re.split(r'\b(?:class|struct)\s+\w+(?:\s+final)?\s*(?::[^{;]*)?\{', code)[1:]:
        yield len(re.findall(r'\bvirtual\b(?!\s*~)', part))


def references(text):
    """Returns the number of data members that are references."""
    return len(re.findall(r'^\s+(?:const\s+)?[\w:]+(?:<[^;()]*>)?(?:\s+const)?&\s+\w+;',
                          cxx.code_of(text), re.MULTILINE))


def figures(texts):
    """Returns the figures of COLUMNS for a room; `texts` has path -> text of its C++ files."""
    headers = [text for path, text in texts.items() if path.endswith('.hpp')]
    virtual = [count for text in headers for count in virtual_methods(text)]
    return (len(texts), sum(text.count('\n') for text in texts.values()),
            levels(includes_of(texts)),
            sum(members > MANY_MEMBERS for text in texts.values()
                for _, _, _, members in cxx.classes_of(text)),
            sum(map(references, headers)), sum(virtual), max(virtual, default=0),
            sum(len(re.findall(r'(?:==|!=) "[a-z]', text)) for text in texts.values()))


def texts_of(root, room):
    """Returns path -> text of the C++ files of a room, without those of its sub-folders."""
    return {path.relative_to(root).as_posix(): path.read_text(encoding='utf-8')
            for path in sorted((root / room).iterdir()) if path.suffix in ('.cpp', '.hpp')}


def default_rooms(root):
    """Returns the inner rooms of sim/ without sim/estimates."""
    return [path.relative_to(root).as_posix() for path in sorted((root / 'sim').iterdir())
            if path.is_dir() and path.name != 'estimates']


# Figures of the table in docs/ARCHITECTURE.md.
SHOWN = ('files', 'levels', 'classes > 7', 'virtual', 'most', 'words')


def table_row(room, before, after):
    """Returns a row of the page's table from the figures of a room in both versions."""
    cells = [f'{old} → {new}' if old != new else str(new)
             for column, old, new in zip(COLUMNS, before, after) if column in SHOWN]
    return f'| {room} | ' + ' | '.join(cells) + ' |'


def print_table(before, after, rooms):
    """Prints the rows of the page's table."""
    for room in rooms:
        new, _, old = room.partition('=')
        name = f'`{new}`' + (f' (was `{old}`)' if old else '')
        print(table_row(name, figures(texts_of(before, old or new)),
                        figures(texts_of(after, new))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--root', default=pathlib.Path(__file__).resolve().parents[2],
                        type=pathlib.Path, help='another clone of the project')
    parser.add_argument('--before', metavar='ROOT', type=pathlib.Path,
                        help='an older clone: prints the table of docs/ARCHITECTURE.md')
    parser.add_argument('rooms', nargs='*', metavar='ROOM', help='for example sim/training')
    arguments = parser.parse_args()
    rooms = arguments.rooms or default_rooms(arguments.root)
    missing = [room for room in rooms
               if not (arguments.root / room.partition('=')[0]).is_dir()]
    if missing:
        parser.error(f'expected folders of {arguments.root}, found no {missing[0]}')
    if arguments.before:
        return print_table(arguments.before, arguments.root, rooms)
    print(f'{"room":24}' + ''.join(f'{column:>12}' for column in COLUMNS))
    every = {}
    for room in rooms:
        texts = texts_of(arguments.root, room)
        every.update(texts)
        print(f'{room:24}' + ''.join(f'{figure:>12}' for figure in figures(texts)))
    if len(rooms) > 1:
        print(f'{"all":24}' + ''.join(f'{figure:>12}' for figure in figures(every)))


if __name__ == '__main__':
    main()
