#!/usr/bin/python3
"""Path of the loss of one GPU's rank through the files, in both worlds, checked against the code.

    tests/tidy/loss_path.py [--check] [--root ROOT] [--trace ORRERY SCENARIO]

reads loss_path.txt and prints the table of docs/ARCHITECTURE.md: for each file the stages in which
control enters it, and the calls that enter it from another file. A stage begins with an event that
the world's loop passes. Each call of a function from another file enters the file once, and each
line of the path is checked: the file defines the function, and the function calls the named ones in
their order, and no other function of the path, except where an `except` line says why. At most two
calls enter a file of a world, counted over all stages. Each function that begins a stage, or goes
on with it after a return to the loop, is called by a function of the loop, and these call nothing
else of the path. With --check it also compares the table with that of the page. --trace simulates a
scenario with one loss under gdb, with a breakpoint in each function, prints the calls in the order
in which they came, and names the functions without a call. Exits 1 for a difference. Plain Python;
--trace needs gdb. architecture_test.py holds it."""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cxx

PAGE = 'docs/ARCHITECTURE.md'
BEGIN, END = '<!-- tests/tidy/loss_path.py -->', '<!-- end -->'


MOST_ENTRIES = 2


def read_path(text):
    """Returns [(world, [(stage, [(file, function, calls)])])] of the lines of loss_path.txt."""
    worlds = []
    for line in text.splitlines():
        if not line.strip() or line.startswith('#'):
            continue
        kind, _, rest = line.strip().partition(' ')
        if kind == 'world':
            worlds.append((rest, []))
        elif kind == 'stage':
            worlds[-1][1].append((rest, []))
        elif kind not in ('loop', 'except'):
            function, _, calls = rest.partition('->')
            worlds[-1][1][-1][1].append((kind, function.strip(), calls.split()))
    return worlds


def read_loops(text):
    """Returns {world: [(file, function, calls)]} of the functions that wait for events or pass each
    of them to the function with its rule."""
    loops = {}
    for kind, rest in re.findall(r'^(world|loop) +(.*)$', text, re.MULTILINE):
        if kind == 'world':
            world = loops.setdefault(rest, [])
        else:
            place, _, calls = rest.partition('->')
            file, function = place.split()
            world.append((file, function, calls.split()))
    return loops


def body_of(text, name):
    """Returns the code of the function of this name, from its first to its last line; None if the
    text defines none."""
    lines = cxx.code_of(text).split('\n')
    for first, last, found in cxx.functions_of(text):
        if found == name:
            return '\n'.join(lines[first - 1:last])
    return None


def calls_in_order(body, calls):
    """Returns the first of the calls that the body does not make after those before it; None if
    it makes all."""
    position = body.find('{')
    for call in calls:
        match = re.compile(rf'\b{call}\s*\(').search(body, position)
        if match is None:
            return call
        position = match.end()
    return None


def problems_of(worlds, text_of):
    """Yields a sentence for each line of the path that the code does not confirm; `text_of` returns
    the text of a file."""
    for world, stages in worlds:
        for stage, lines in stages:
            place = f'{world}, {stage}'
            for at, (file, function, calls) in enumerate(lines):
                body = body_of(text_of(file), function)
                if body is None:
                    yield f'{place}: expected {function} in {file}, found no such function'
                    continue
                missing = calls_in_order(body, [call.rstrip('*') for call in calls])
                if missing:
                    yield f'{place}: expected a call of {missing} in {function}, found none'
                named = {line[1].rpartition('::')[2] for line in lines[at + 1:]}
                for call in calls:
                    if not call.endswith('*') and call not in named:
                        yield f'{place}: {call}, called by {function}, has no later line'


def target_of(lines, at, call, nth=0):
    """Returns the index of the line to which the nth call of this name from the line at `at` leads:
    the nth later line with the name, or the last of them; None if there is no later line."""
    later = [index for index in range(at + 1, len(lines))
             if lines[index][1].rpartition('::')[2] == call]
    return later[min(nth, len(later) - 1)] if later else None


def targets_of(lines, at):
    """Returns the indices of the lines to which the calls of the line at `at` lead, one for each
    call; calls of functions without a later line are left out."""
    calls = lines[at][2]
    found = [target_of(lines, at, call, calls[:index].count(call))
             for index, call in enumerate(calls)]
    return [target for target in found if target is not None]


def begun_by_loop(lines):
    """Returns the indices of the lines of a stage to which no earlier line leads."""
    led = {target for at in range(len(lines)) for target in targets_of(lines, at)}
    return [at for at in range(len(lines)) if at not in led]


def visits_of(worlds):
    """Yields a sentence for each file that too many calls of a world enter, and for each call whose
    file the path does not name."""
    for world, stages in worlds:
        for file, calls in calls_into(stages).items():
            if calls > MOST_ENTRIES:
                yield (f'{world}: expected at most {MOST_ENTRIES} calls that enter {file}, '
                       f'found {calls}')
        for stage, lines in stages:
            for _, function, calls in lines:
                yield from (f'{world}, {stage}: expected a line for each call, found {call} in '
                            f'{function}' for call in calls if call.endswith('*'))


def loop_problems(worlds, loops, text_of):
    """Yields a sentence for each line of a loop that the code does not confirm, for each function
    that no line calls, and for each call of a loop that begins nothing."""
    for world, stages in worlds:
        passed = {call for _, _, calls in loops[world] for call in calls}
        own = {function.rpartition('::')[2] for _, function, _ in loops[world]}
        for file, function, calls in loops[world]:
            body = body_of(text_of(file), function)
            missing = function if body is None else calls_in_order(body, calls)
            if missing:
                yield f'{world}: expected {missing} in {function} of the loop {file}, found none'
        begun = set()
        for stage, lines in stages:
            names = [lines[at][1].rpartition('::')[2] for at in begun_by_loop(lines)]
            begun |= set(names)
            for name in names:
                if name not in passed or name in own:
                    yield f'{world}, {stage}: expected a loop that calls {name}, found none'
        for call in sorted(passed - begun - own):
            yield f'{world}: expected a stage in which the loop calls {call}, found none'


def read_exceptions(text):
    """Returns {(world, function): [call]} of the calls that are not made at this loss."""
    found, world = {}, None
    for kind, rest in re.findall(r'^(world|except) +(.*)$', text, re.MULTILINE):
        if kind == 'world':
            world = rest
            continue
        function, _, calls = rest.partition(': ')[0].partition('->')
        found.setdefault((world, function.strip()), []).extend(calls.split())
    return found


def silent_calls(worlds, loops, exceptions, text_of):
    """Yields a sentence for each function of a path or a loop that calls another function of the
    path more or less often than its line and its exceptions say."""
    for world, stages in worlds:
        lines = [line for _, lines in stages for line in lines]
        names = {function.rpartition('::')[2] for _, function, _ in lines}
        listed = {}
        for file, function, calls in lines + loops[world]:
            most = listed.setdefault((file, function), {})
            for call in calls:
                most[call] = max(most.get(call, 0), calls.count(call))
        for (file, function), calls in listed.items():
            body = body_of(text_of(file), function) or ''
            for name in sorted(names):
                sites = len(re.findall(rf'\b{name}\s*\(', body[body.find('{'):]))
                known = (calls.get(name, 0)
                         + exceptions.get((world, function), []).count(name))
                if sites != known:
                    yield (f'{world}: expected {known} calls of {name} in {function}, '
                           f'found {sites}')


def entries_of(stages):
    """Returns file -> titles of the stages in which control enters the file, in order."""
    entries = {}
    for stage, lines in stages:
        for file in dict.fromkeys(line[0] for line in lines):
            entries.setdefault(file, []).append(stage)
    return entries


def calls_into(stages):
    """Returns file -> number of calls, counted in each stage, by which control comes into the file
    from another file or from the world's loop. A function that is called twice makes each of its
    calls twice. Calls within the file do not count."""
    counts = {}
    for _, lines in stages:
        times = dict.fromkeys(begun_by_loop(lines), 1)
        for at in times:
            counts[lines[at][0]] = counts.get(lines[at][0], 0) + 1
        for at, (file, _, _) in enumerate(lines):
            for target in targets_of(lines, at):
                times[target] = times.get(target, 0) + times[at]
                entered = lines[target][0]
                counts[entered] = counts.get(entered, 0) + times[at] * (entered != file)
    return counts


def table_of(worlds, loops):
    """Returns the table of the page."""
    out = []
    for world, stages in worlds:
        titles = [stage for stage, _ in stages]
        passing = dict.fromkeys(file for file, _, _ in loops[world])
        out += [f'Loop of the {world}: ' + ', '.join(
            f'`{path}` (' + ', '.join(f'`{function.rpartition("::")[2]}`'
                                      for file, function, _ in loops[world] if file == path) + ')'
            for path in passing) + '.', '']
        out += [f'| {world} | stages | calls | ' + ' | '.join(titles) + ' |',
                '|---|---:|---:|' + '---|' * len(titles)]
        entries, calls = entries_of(stages), calls_into(stages)
        for file, entered in entries.items():
            functions = [', '.join(dict.fromkeys(f'`{name.rpartition("::")[2]}`'
                                                 for path, name, _ in lines if path == file))
                         for _, lines in stages]
            out.append(f'| `{file}` | {len(entered)} | {calls[file]} | ' + ' | '.join(functions)
                       + ' |')
        out.append('')
    return '\n'.join(out)


def traced(worlds, program, scenario):
    """Returns the functions of the simulated path in the order of their calls in a run."""
    names = dict.fromkeys(line[1] for _, lines in dict(worlds)['simulation'] for line in lines)
    script = ['set confirm off', 'set pagination off', 'set follow-fork-mode child',
              'set breakpoint pending on']
    for name in names:
        for room in ('orrery::sim', 'orrery'):
            script += [f'break {room}::{name}', 'commands', 'silent', f'printf "call {name}\\n"',
                       'continue', 'end']
    with tempfile.NamedTemporaryFile('w', suffix='.gdb') as file:
        file.write('\n'.join([*script, 'run', '']))
        file.flush()
        out = subprocess.run(['gdb', '-q', '-batch', '-x', file.name, '--args', program, 'simulate',
                              scenario], capture_output=True, text=True, check=False).stdout
    return re.findall(r'^call (\S+)$', out, re.MULTILINE)


def is_in_order(calls, wanted):
    """Returns whether the calls contain the wanted ones in their order, others between them."""
    rest = iter(calls)
    return all(any(call == each for call in rest) for each in wanted)


def table_in(page):
    """Returns the table between the marks of the page; empty without marks."""
    return page.partition(BEGIN + '\n')[2].partition(END)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--root', default=pathlib.Path(__file__).resolve().parents[2],
                        type=pathlib.Path, help='another clone of the project')
    parser.add_argument('--check', action='store_true', help='compare with the page')
    parser.add_argument('--trace', nargs=2, metavar=('ORRERY', 'SCENARIO'),
                        help='simulate a scenario with one loss under gdb')
    arguments = parser.parse_args()
    root = arguments.root
    path = (root / 'tests/tidy/loss_path.txt').read_text(encoding='utf-8')
    worlds, loops = read_path(path), read_loops(path)

    def text_of(file):
        return (root / file).read_text(encoding='utf-8')
    problems = list(visits_of(worlds))
    for check in (problems_of(worlds, text_of), loop_problems(worlds, loops, text_of),
                  silent_calls(worlds, loops, read_exceptions(path), text_of)):
        problems += check
    if arguments.trace:
        calls = traced(worlds, *arguments.trace)
        stages = dict(worlds)['simulation']
        names = [name for _, lines in stages for _, name, _ in lines]
        wanted = [name for name in names if name in calls]
        for name in dict.fromkeys(names):
            if name not in calls:
                print(f'{name}: no call, or its code is in its callers', file=sys.stderr)
        print('\n'.join(calls[calls.index(wanted[2]):] if len(wanted) > 2 else calls))
        return 0 if len(wanted) > 2 and is_in_order(calls, wanted) else 1
    table = table_of(worlds, loops)
    if not arguments.check:
        print(table, end='')
    elif table_in((root / PAGE).read_text(encoding='utf-8')) != table:
        problems.append(f'{PAGE}: expected the table of tests/tidy/loss_path.py, found another')
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
