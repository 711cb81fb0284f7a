#!/usr/bin/python3
"""Drawings of docs/architecture from checked paths through the code.

    tests/tidy/path_drawing.py [--check]

writes docs/drawings/*.svg: the rooms (rules.py), the processes (processes.txt), and the paths of
loss_path.txt, decision_path.txt and time_path.txt. Each call and each starter is checked against
the code. A path is drawn as a row of stages for each world; a box is a file with the functions that
the stage calls in it, in their order. With --check it writes nothing and exits 1 if a drawing
differs. Plain Python, nothing to install; architecture_test.py holds it."""
import html
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import loss_path
import rules

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = 'docs/drawings'
PATHS = {'loss': 'loss_path.txt', 'decision': 'decision_path.txt', 'time': 'time_path.txt'}
CHAR, LINE, PAD, GAP, FALL = 6.3, 14, 7, 14, 16
TITLE_CHARS, BOX_CHARS = 34, 36
ROOM_TEXTS = {
    'core': 'units, ids, errors, randomness, child processes',
    'core/schema': 'YAML loader, names of enums',
    'topologies': 'description of the cluster',
    'traces': 'work that arrives, records of past work',
    'sim/estimates': 'prices of steps and collectives: pure functions',
    'policies': 'interface, loop, built-in policies',
    'sim': 'simulated world', 'live': 'real processes',
    'cli': 'command line', 'python': 'Python package'}


def text_of(file):
    return (ROOT / file).read_text(encoding='utf-8')


def svg(title, width, height, parts):
    """Returns a drawing with a white ground."""
    return '\n'.join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="DejaVu Sans, sans-serif" '
        'font-size="11">', f'<title>{html.escape(title)}</title>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>', *parts, '</svg>', ''])


def box(left, top, width, lines, fill='#ffffff'):
    """Returns (parts, height) of a box whose first line is bold."""
    height = len(lines) * LINE + 2 * PAD - 4
    parts = [f'<rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{height:.0f}" '
             f'fill="{fill}" stroke="#333333"/>']
    for at, line in enumerate(lines):
        weight = ' font-weight="bold"' if at == 0 else ''
        parts.append(f'<text x="{left + PAD:.0f}" y="{top + PAD + 8 + at * LINE:.0f}"{weight}>'
                     f'{html.escape(line)}</text>')
    return parts, height


def line(points):
    return ('<polyline fill="none" stroke="#8a8a8a" stroke-width="1" points="'
            + ' '.join(f'{x:.0f},{y:.0f}' for x, y in points) + '"/>')


def folded(text, chars, separator=' '):
    """Returns the words of a text as lines."""
    out = []
    for word in text.split(separator):
        if out and len(out[-1]) + len(separator) + len(word) <= chars:
            out[-1] += separator + word
        else:
            out.append(word)
    return out


def blocks_of(lines):
    """Returns [(file, functions)] of a stage: successive calls in a file share a box."""
    blocks = []
    for file, function, _ in lines:
        name = function.rpartition('::')[2] or function
        if not blocks or blocks[-1][0] != file:
            blocks.append((file, []))
        if name not in blocks[-1][1]:
            blocks[-1][1].append(name)
    return blocks


def path_picture(title, worlds, loops):
    """Returns the drawing of a path: a row of stages for each world, with the files of its loop."""
    width = BOX_CHARS * CHAR + 2 * PAD
    parts, top = [], GAP
    for world, stages in worlds:
        files = ', '.join(dict.fromkeys(file for file, _, _ in loops[world]))
        head = f'{world}; loop: {files}' if files else world
        parts.append(f'<text x="{GAP}" y="{top + 10}" font-weight="bold" font-size="13">'
                     f'{html.escape(head)}</text>')
        lowest = top
        for at, (stage, lines) in enumerate(stages):
            left, y = GAP + at * (width + GAP), top + 20
            head = folded(f'{at + 1}. {stage}', TITLE_CHARS)
            found, height = box(left, y, width, [head[0], *head[1:]], '#eef3fb')
            parts += found
            y += height
            for file, functions in blocks_of(lines):
                parts.append(line([(left + width / 2, y), (left + width / 2, y + FALL)]))
                y += FALL
                folder, _, name = file.rpartition('/')
                texts = [name, folder + '/', *folded(', '.join(functions), BOX_CHARS)]
                found, height = box(left, y, width, texts)
                parts += found
                y += height
            lowest = max(lowest, y)
        top = lowest + 2 * GAP
    columns = max(len(stages) for _, stages in worlds)
    return svg(title, GAP + columns * (width + GAP), top - GAP, parts)


def rooms_picture(rooms=None, texts=None):
    """Returns the drawing of the rooms, from the highest down, with their permitted includes."""
    rooms, texts = rooms or rules.ROOMS, texts or ROOM_TEXTS
    width, top, parts = 560, GAP, []
    for room in reversed(rooms):
        inner = rules.INNER_ROOMS.get(room, [])
        below = ', '.join(rooms[room]) or 'none'
        lines = [f'{room}: {texts[room]}', *folded(f'may include: {below}', 84)]
        if inner:
            lines += folded('inner rooms, from the lowest up: ' + ', '.join(inner), 84)
        found, height = box(GAP, top, width, lines, '#f7f9fd')
        parts += found
        top += height + 8
    return svg('rooms: each includes rooms below it only', width + 2 * GAP, top, parts)


PROCESS = re.compile(r'^process ([^:]+) : (.*)$')
STARTS = re.compile(r'^  starts (.+?) +(\S+/\S+) (\S+) (\S+)$')


def read_processes(text):
    """Returns {process: (what it does, [(started process, file, function, call)])}."""
    found, last = {}, None
    for each in text.splitlines():
        if match := PROCESS.match(each):
            last = match[1]
            found[last] = (match[2], [])
        elif match := STARTS.match(each):
            found[last][1].append(match.groups())
    return found


def process_problems(processes):
    """Yields a sentence for each starter that the code does not confirm."""
    for process, (_, starts) in processes.items():
        for other, file, function, call in starts:
            body = loss_path.body_of(text_of(file), function)
            if body is None or loss_path.calls_in_order(body, [call]):
                yield f'{process}: expected a call of {call} in {function} of {file}, found none'
            if other not in processes:
                yield f'{process}: starts {other}, which has no line of its own'


def processes_picture(processes):
    """Returns the drawing of the processes as a tree, a level for each generation."""
    parts, width, top = [], 330, [GAP]

    def draw(name, depth, starter):
        left, y = GAP + depth * 60, top[0]
        lines = [name, *folded(processes[name][0], 50)]
        if starter:
            lines.append(f'started by {starter}')
        found, height = box(left, y, width, lines, '#eef3fb' if depth == 0 else '#ffffff')
        top[0] += height + 10
        for other, _, function, _ in processes[name][1]:
            parts.append(line([(left + 20, y + height), (left + 20, top[0] + 14),
                               (left + 60, top[0] + 14)]))
            draw(other, depth + 1, function.rpartition('::')[2])
        parts.extend(found)

    draw(next(iter(processes)), 0, '')
    return svg('processes: each dies with its parent', width + 2 * GAP + 120, top[0], parts)


def pictures():
    """Returns ({file name: drawing}, problems) of all drawings of this script."""
    here = pathlib.Path(__file__).resolve().parent
    found, problems = {'rooms.svg': rooms_picture()}, []
    for name, file in PATHS.items():
        path = (here / file).read_text(encoding='utf-8')
        worlds = loss_path.read_path(path)
        problems += [f'{file}: {each}' for each in loss_path.problems_of(worlds, text_of)]
        found[f'{name}.svg'] = path_picture(f'path of {file}', worlds, loss_path.read_loops(path))
    processes = read_processes((here / 'processes.txt').read_text(encoding='utf-8'))
    problems += [f'processes.txt: {each}' for each in process_problems(processes)]
    found['processes.svg'] = processes_picture(processes)
    return found, problems


def main(arguments):
    found, problems = pictures()
    for name, text in found.items():
        path = ROOT / FOLDER / name
        if '--check' not in arguments:
            path.write_text(text, encoding='utf-8')
        elif not path.exists() or path.read_text(encoding='utf-8') != text:
            problems.append(f'{FOLDER}/{name}: run tests/tidy/path_drawing.py')
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
