#!/usr/bin/python3
"""Drawings of two rooms for docs/ARCHITECTURE.md, from the includes and classes of their files.

    tests/tidy/drawing.py [--check] [--root ROOT]

writes docs/drawings/training.svg (sim/training) and docs/drawings/run.svg (live/run); with --check
it writes nothing and exits 1 if one of them differs from the files of the room. A box is a header
with its source, with the classes that the header declares; a sub-folder is one box with its
headers; the names that include nothing of the room share one box at the bottom. A line leads from a
box down to each box that it includes, unless a path over other boxes leads there too. Plain Python,
nothing to install; architecture_test.py holds it."""
import argparse
import html
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cxx
import structure

DRAWINGS = {'training': 'sim/training', 'run': 'live/run'}
FOLDER = 'docs/drawings'
BASE = 'used by many, include nothing of the room'
CHAR, BOLD, LINE, PAD, GAP, FALL, LANE = 6.3, 7.4, 14, 8, 18, 46, 14
LINE_CHARS = 26  # longest line of a box; the box at the bottom has wider ones
SWEEPS = 24


def texts_of(root, room):
    """Returns path -> text of the C++ files of a room and of its sub-folders."""
    return {path.relative_to(root).as_posix(): path.read_text(encoding='utf-8')
            for path in sorted((root / room).rglob('*')) if path.suffix in ('.cpp', '.hpp')}


def box_of(room, name):
    """Returns the box of a file `room/a` or `room/folder/a`: "a" or "folder/"."""
    first, slash, _ = name[len(room) + 1:].partition('/')
    return first + slash


def classes_of(text):
    """Returns the names of the classes that a header defines outside of other classes."""
    return re.findall(r'^(?:class|struct) (\w+)(?: final)?(?: : [^{;]+)? \{', cxx.code_of(text),
                      re.MULTILINE)


def boxes_of(room, texts):
    """Returns (box -> lines of text, box -> boxes that it includes) of a room."""
    lines, below = {}, {}
    for name, others in sorted(structure.includes_of(texts).items()):
        box = box_of(room, name)
        parts = lines.setdefault(box, [])
        if box.endswith('/'):
            parts.append(name.rsplit('/', 1)[1])
        else:
            parts += classes_of(texts.get(name + '.hpp', ''))
        below.setdefault(box, set()).update(box_of(room, other) for other in others)
    for box, others in below.items():
        others.discard(box)
    return lines, below


def with_base(lines, below):
    """Returns the same with one box for all files that include nothing of the room."""
    base = sorted(box for box in below if not below[box] and not box.endswith('/'))
    if len(base) < 2:
        return lines, below
    kept = {box: parts for box, parts in lines.items() if box not in base}
    kept[BASE] = base
    edges = {box: {BASE if other in base else other for other in others}
             for box, others in below.items() if box not in base}
    edges[BASE] = set()
    return kept, edges


def without_shortcuts(below):
    """Returns the edges without those whose end is reached over other boxes too."""
    def reached(box, seen):
        for other in below[box]:
            if other not in seen:
                seen.add(other)
                reached(other, seen)
        return seen

    return {box: {other for other in others
                  if not any(other in reached(third, set()) for third in others - {other})}
            for box, others in below.items()}


def levels_of(below):
    """Returns box -> level: 0 for boxes that include none, else one more than the highest below."""
    known = {}

    def level(box):
        if box not in known:
            known[box] = 1 + max((level(other) for other in below[box]), default=-1)
        return known[box]

    for box in below:
        level(box)
    return known


def rows_of(below):
    """Returns (rows from the top, edges): a line over several levels passes through one place of
    each row between, which is a tuple (from, to, level)."""
    level = levels_of(below)
    rows = [[] for _ in range(max(level.values()) + 1)]
    edges = []
    for box in sorted(below):
        rows[-1 - level[box]].append(box)
        for other in sorted(below[box]):
            last = box
            for between in range(level[box] - 1, level[other], -1):
                rows[-1 - between].append((box, other, between))
                edges.append((last, (box, other, between)))
                last = (box, other, between)
            edges.append((last, other))
    return rows, edges


def crossings(rows, edges):
    """Returns the number of pairs of lines that cross."""
    place = {each: at for row in rows for at, each in enumerate(row)}
    row_of = {each: at for at, row in enumerate(rows) for each in row}
    ends = {}
    for above, other in edges:
        ends.setdefault(row_of[above], []).append((place[above], place[other]))
    return sum((a[0] - b[0]) * (a[1] - b[1]) < 0
               for pairs in ends.values() for i, a in enumerate(pairs) for b in pairs[:i])


def ordered(rows, edges):
    """Returns the rows in an order with few crossings: each row again and again by the mean place
    of its neighbours, first of those above, then of those below."""
    best, fewest = rows, crossings(rows, edges)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        rows = [list(row) for row in rows]
        for row in rows if down else reversed(rows):
            place = {each: at for line in rows for at, each in enumerate(line)}
            near = {each: [] for each in row}
            for above, other in edges:
                if down and other in near:
                    near[other].append(place[above])
                elif not down and above in near:
                    near[above].append(place[other])
            row.sort(key=lambda each, near=near, place=place: (
                sum(near[each]) / len(near[each]) if near[each] else place[each], str(each)))
        found = crossings(rows, edges)
        if found < fewest:
            best, fewest = rows, found
    return best


def wrapped(parts, longest=LINE_CHARS):
    """Returns the parts as lines of text, separated by commas."""
    out = []
    for part in parts:
        if out and len(out[-1]) + 2 + len(part) <= longest:
            out[-1] += ', ' + part
        else:
            out.append(part)
    return out


def size_of(box, lines):
    """Returns (width, height) of a box or of the place of a line."""
    if isinstance(box, tuple):
        return LANE, 0
    wide = max([len(box) * BOLD, *(len(line) * CHAR for line in lines[box])])
    return wide + 2 * PAD, (1 + len(lines[box])) * LINE + 2 * PAD - 4


def places_of(rows, edges, lines):
    """Returns (each -> (left, top, width, height), width, height) of the drawing."""
    size = {each: size_of(each, lines) for row in rows for each in row}
    full = max(sum(size[each][0] + GAP for each in row) for row in rows) + GAP
    near = {each: [] for each in size}
    for above, other in edges:
        near[above].append(other)
        near[other].append(above)
    center = {}
    for row in rows:  # evenly at first
        free = (full - sum(size[each][0] for each in row)) / (len(row) + 1)
        left = free
        for each in row:
            center[each] = left + size[each][0] / 2
            left += size[each][0] + free
    for _ in range(SWEEPS):  # then towards the neighbours, in the same order
        for row in rows:
            _pull(row, {each: sum(center[other] for other in near[each]) / len(near[each])
                        if near[each] else center[each] for each in row}, size, full, center)
    begin = min(center[each] - size[each][0] / 2 for each in center) - GAP
    end = max(center[each] + size[each][0] / 2 for each in center) + GAP
    place, top = {}, GAP
    for row in rows:
        height = max(size[each][1] for each in row)
        for each in row:
            width, own = size[each]
            own = height if isinstance(each, tuple) else own
            place[each] = (center[each] - width / 2 - begin, top, width, own)
        top += height + FALL
    return place, end - begin, top - FALL + GAP


def _pull(row, goal, size, full, center):
    """Moves the boxes of a row to their goals as far as the others and the border permit."""
    left = GAP / 2
    for each in row:
        center[each] = max(goal[each], left + size[each][0] / 2)
        left = center[each] + size[each][0] / 2 + GAP
    right = full - GAP / 2
    for each in reversed(row):
        center[each] = min(center[each], right - size[each][0] / 2)
        right = center[each] - size[each][0] / 2 - GAP


def picture(room, texts):
    """Returns the drawing of a room as SVG."""
    lines, below = with_base(*boxes_of(room, texts))
    lines = {box: wrapped(parts, 80 if box == BASE else LINE_CHARS)
             for box, parts in lines.items()}
    rows, edges = rows_of(without_shortcuts(below))
    rows = ordered(rows, edges)
    place, width, height = places_of(rows, edges, lines)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
           f'width="{width:.0f}" height="{height:.0f}" font-family="DejaVu Sans, sans-serif" '
           'font-size="11">',
           f'<title>{room}: a box includes the boxes below that a line leads to</title>',
           f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>']
    for above, other in edges:
        left, top, wide, high = place[above]
        to_left, to_top, to_wide, _ = place[other]
        points = [(left + wide / 2, top + high), (to_left + to_wide / 2, to_top)]
        if isinstance(above, tuple):
            points.insert(0, (left + wide / 2, top))
        out.append('<polyline fill="none" stroke="#8a8a8a" stroke-width="1" points="'
                   + ' '.join(f'{x:.0f},{y:.0f}' for x, y in points) + '"/>')
    for box, text in lines.items():
        left, top, wide, high = place[box]
        fill = '#eef3fb' if box.endswith('/') else '#f3f3f3' if box == BASE else '#ffffff'
        out.append(f'<rect x="{left:.0f}" y="{top:.0f}" width="{wide:.0f}" height="{high:.0f}" '
                   f'fill="{fill}" stroke="#333333"/>')
        for at, line in enumerate([box, *text]):
            weight = ' font-weight="bold"' if at == 0 else ''
            out.append(f'<text x="{left + PAD:.0f}" y="{top + PAD + 8 + at * LINE:.0f}"{weight}>'
                       f'{html.escape(line)}</text>')
    return '\n'.join([*out, '</svg>', ''])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--root', default=pathlib.Path(__file__).resolve().parents[2],
                        type=pathlib.Path, help='another clone of the project')
    parser.add_argument('--check', action='store_true', help='write nothing, compare')
    arguments = parser.parse_args()
    differ = False
    for name, room in DRAWINGS.items():
        path = arguments.root / FOLDER / f'{name}.svg'
        text = picture(room, texts_of(arguments.root, room))
        if not arguments.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding='utf-8')
        elif not path.exists() or path.read_text(encoding='utf-8') != text:
            differ = True
            print(f'{FOLDER}/{name}.svg: expected the drawing of {room} as it is, found another; '
                  'run tests/tidy/drawing.py')
    return 1 if differ else 0


if __name__ == '__main__':
    sys.exit(main())
