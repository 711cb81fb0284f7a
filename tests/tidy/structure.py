#!/usr/bin/python3
"""Figures of the structure of some rooms, to compare two versions of the project.

    tests/tidy/structure.py [--with-inner] [--root ROOT] [--before ROOT] [ROOM...]

prints one line for each room (default: the inner rooms of sim/, without sim/estimates, and their
sum): files, lines, levels (the longest chain of files of the room that include each other, headers
and sources of one name counted as one), classes with more than seven data members, members that are
references to other objects, structs with at least three of them, virtual methods without
destructors, the most of them in one class, comparisons with a word (== "word"), methods whose names
begin with save_to, restore, resume, continue or reopen, and the lengths of functions: median, nine
of ten, longest. With --with-inner the files of a room's sub-folders count as the room's. Several
folders are one room if + joins them. To measure another version, clone it and name it as ROOT. With
--before the lines are those of the table in docs/ARCHITECTURE.md: figures before and after, joined
by an arrow where they differ; ROOM=OLD is a room that had the name OLD before. Plain Python,
nothing to install; structure_test.py holds the counting."""
import argparse
import collections
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cxx

MANY_MEMBERS = 7
MANY_REFERENCES = 3
# Column -> heading; `lengths`: median / nine of ten / longest function, in lines.
HEADINGS = {'files': 'files', 'lines': 'lines', 'levels': 'levels', 'large': 'classes > 7',
            'references': 'references', 'bundles': 'structs', 'virtual': 'virtual', 'most': 'most',
            'words': 'words', 'resumes': 'resumes', 'lengths': 'lengths'}
Figures = collections.namedtuple('Figures', HEADINGS)


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


_REFERENCE = re.compile(r'^\s+(?:const\s+)?[\w:]+(?:<[^;()]*>)?(?:\s+const)?&\s+\w+;',
                        re.MULTILINE)
_STRUCT = re.compile(r'\bstruct\s+(?:\w+::)*\w+(?:\s+final)?\s*(?::[^{;]*)?\{')
_RESUME = re.compile(r'^\s*(?!return\b)[\w:<>,&*\s]*[\w>&*]\s+'
                     r'(?:save_to|(?:restore|resume|continue|reopen)\w*)\(', re.MULTILINE)


def references(text):
    """Returns the number of data members that are references."""
    return len(_REFERENCE.findall(cxx.code_of(text)))


def bundles(text):
    """Returns the number of structs with at least three members that are references."""
    code = cxx.code_of(text)
    bodies = (cxx.body_at(code, match.end() - 1) for match in _STRUCT.finditer(code))
    return sum(len(_REFERENCE.findall(body)) >= MANY_REFERENCES for body in bodies)


def resumes(text):
    """Returns the number of declared functions that save, restore or resume an object."""
    return len(_RESUME.findall(cxx.code_of(text)))


def lengths(texts):
    """Returns the lengths of all functions of the texts, in lines, ascending."""
    return sorted(last - first + 1 for text in texts for first, last, _ in cxx.functions_of(text))


def spread(values):
    """Returns median, nine of ten and largest of ascending values as a text; "-" without one."""
    if not values:
        return '-'
    return ' / '.join(str(values[int(share * (len(values) - 1))]) for share in (0.5, 0.9, 1))


def figures(texts):
    """Returns the Figures of a room; `texts` has path -> text of its C++ files."""
    headers = [text for path, text in texts.items() if path.endswith('.hpp')]
    virtual = [count for text in headers for count in virtual_methods(text)]
    return Figures(
        files=len(texts), lines=sum(text.count('\n') for text in texts.values()),
        levels=levels(includes_of(texts)),
        large=sum(members > MANY_MEMBERS for text in texts.values()
                  for _, _, _, members in cxx.classes_of(text)),
        references=sum(map(references, headers)), bundles=sum(map(bundles, headers)),
        virtual=sum(virtual), most=max(virtual, default=0),
        words=sum(len(re.findall(r'(?:==|!=) "[a-z]', text)) for text in texts.values()),
        resumes=sum(map(resumes, headers)), lengths=spread(lengths(texts.values())))


def texts_of(root, room, with_inner=False):
    """Returns path -> text of the C++ files of a room, whose folders + joins; `with_inner`: those
    of its sub-folders too."""
    found = (path for folder in room.split('+')
             for path in ((root / folder).rglob('*') if with_inner else (root / folder).iterdir()))
    return {path.relative_to(root).as_posix(): path.read_text(encoding='utf-8')
            for path in sorted(found) if path.suffix in ('.cpp', '.hpp')}


def default_rooms(root):
    """Returns the inner rooms of sim/ without sim/estimates."""
    return [path.relative_to(root).as_posix() for path in sorted((root / 'sim').iterdir())
            if path.is_dir() and path.name != 'estimates']


# Columns of the table in docs/ARCHITECTURE.md.
SHOWN = ('files', 'levels', 'large', 'references', 'bundles', 'virtual', 'most', 'words', 'resumes',
         'lengths')


def table_row(room, before, after):
    """Returns a row of the page's table from the Figures of a room in both versions."""
    pairs = ((getattr(before, column), getattr(after, column)) for column in SHOWN)
    cells = [f'{old} → {new}' if old != new else str(new) for old, new in pairs]
    return f'| {room} | ' + ' | '.join(cells) + ' |'


def print_table(before, after, rooms, with_inner):
    """Prints the rows of the page's table."""
    for room in rooms:
        new, _, old = room.partition('=')
        names, olds = (' + '.join(f'`{folder}`' for folder in each.split('+'))
                       for each in (new, old))
        print(table_row(names + (f' (was {olds})' if old else ''),
                        figures(texts_of(before, old or new, with_inner)),
                        figures(texts_of(after, new, with_inner))))


def line_of(room, cells):
    """Returns a line of the figures of one version."""
    return f'{room:24}' + ''.join(f'{cell:>13}' for cell in cells)


def folders_missing(root, names):
    """Yields the folders of the rooms with these names that the version at `root` lacks."""
    for name in names:
        yield from (folder for folder in name.split('+') if not (root / folder).is_dir())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--root', default=pathlib.Path(__file__).resolve().parents[2],
                        type=pathlib.Path, help='another clone of the project')
    parser.add_argument('--before', metavar='ROOT', type=pathlib.Path,
                        help='an older clone: prints the table of docs/ARCHITECTURE.md')
    parser.add_argument('--with-inner', action='store_true',
                        help='count the files of sub-folders as those of the room')
    parser.add_argument('rooms', nargs='*', metavar='ROOM', help='for example sim/training')
    arguments = parser.parse_args()
    rooms = arguments.rooms or default_rooms(arguments.root)
    wanted = {arguments.root: [room.partition('=')[0] for room in rooms]}
    if arguments.before:
        wanted[arguments.before] = [room.partition('=')[2] or room for room in rooms]
    for root, names in wanted.items():
        for missing in folders_missing(root, names):
            parser.error(f'expected folders of {root}, found no {missing}; name a room that had '
                         'another name before as ROOM=OLD')
    if arguments.before:
        return print_table(arguments.before, arguments.root, rooms, arguments.with_inner)
    print(line_of('room', HEADINGS.values()))
    every = {}
    for room in wanted[arguments.root]:
        texts = texts_of(arguments.root, room, arguments.with_inner)
        every.update(texts)
        print(line_of(room, figures(texts)))
    if len(rooms) > 1:
        print(line_of('all', figures(every)))


if __name__ == '__main__':
    main()
