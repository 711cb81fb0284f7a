#!/usr/bin/python3
"""The tidy test: the rules of docs/STYLE.md that a machine can check.

    tests/tidy/tidy.py [--words] [ROOT]

prints one line `file:line: error: ...` for each breach and exits 1 if there is one. --words also
prints the figures of the language, a line for each room. Plain Python, nothing to install. The
tables are in rules.py, the rules of the language in words.py; tidy_test.py shows that each rule can
fail."""
import ast
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cxx
import rules
import words

CXX = {'.cpp', '.hpp', '.cu', '.cuh', '.h'}
COVERED_BY = 'tests/tidy/covered_by.txt'
COMPARED_WORDS = 'tests/tidy/compared_words.txt'


class File:
    """One file of the project: its path from the root, its text, its kind."""

    def __init__(self, root, path):
        self.path = path.relative_to(root).as_posix()
        self.text = path.read_text(encoding='utf-8', errors='replace')
        self.lines = self.text.splitlines()
        self.is_cxx = path.suffix in CXX
        self.is_python = path.suffix == '.py'
        self.is_shell = path.suffix == '.sh' or self.text.startswith('#!/usr/bin/env bash')
        self.is_proto = path.suffix == '.proto'
        self.is_code = self.is_cxx or self.is_python or self.is_shell
        self.is_build = path.name == 'CMakeLists.txt' or path.suffix == '.cmake'
        self.code = cxx.code_of(self.text) if self.is_cxx else self.text

    @property
    def room(self):
        """The room of this file, None outside the rooms (tests, docs, ...)."""
        return room_of(self.path)


def room_of(path):
    """Returns the innermost room of a path, or None."""
    parents = [str(parent) for parent in pathlib.PurePath(path).parents]
    return next((parent for parent in parents if parent in rules.ROOMS), None)


def project_files(root):
    """Yields every text file of the project: no products of a build, nothing hidden but .ci."""
    def ours(part):
        return not (part.startswith('build') or part in ('__pycache__', 'dist', '_skbuild')
                    or part.endswith('.egg-info')
                    or (part.startswith('.') and part not in ('.ci', '.clang-format')))

    for path in sorted(root.rglob('*')):
        if not path.is_file() or not all(ours(p) for p in path.relative_to(root).parts):
            continue
        if b'\0' not in path.read_bytes()[:4096]:
            yield File(root, path)


def inner_arrow(file, target):
    """Returns true if a file may include another file of its own room: the order of the inner rooms
    decides, in every room that contains both. Messages may be included everywhere."""
    if target.endswith('.pb.h') or target.endswith('.proto'):
        return True
    for room, inner in rules.INNER_ROOMS.items():
        if not all(path.startswith(f'{room}/') for path in (file.path, target)):
            continue
        here, there = (path[len(room) + 1:].split('/')[0] for path in (file.path, target))
        if here in inner and not (there in inner and inner.index(there) <= inner.index(here)):
            return False
    return True


def check_arrows(file):
    """Yields includes and proto imports that point up, and libraries outside their room."""
    if file.room is None or not (file.is_cxx or file.is_proto):
        return
    for number, line in enumerate(file.lines, 1):
        match = re.match(r'\s*(?:#\s*include|import(?:\s+public)?)\s*(["<])([^">]+)[">]', line)
        if not match:
            continue
        target = match.group(2)
        other = room_of(target)
        if other and other != file.room and other not in rules.ROOMS[file.room]:
            yield number, f'{file.room}/ may not include {other}/ (arrows point down only)'
        if other == file.room and not inner_arrow(file, target):
            yield number, (f'{pathlib.PurePath(file.path).parent}/ may not include {target}: inner '
                           'rooms include those below them only (tests/tidy/rules.py)')
        if match.group(1) == '"' and '/' not in target:
            yield number, f'write the full path from the root: "{file.room}/{target}"'
        for pattern, owners, advice in rules.LIBRARIES:
            if pattern.match(f'<{target}>') and file.room not in owners:
                yield number, advice


def namespace_of(room):
    return rules.NAMESPACES.get(room, 'orrery')


def check_namespaces(file):
    """Yields names outside the namespace of their room. A file may announce types of a room below
    its own, and a source file may define members of a type in plain `orrery`."""
    if file.room is None or not file.is_cxx:
        return
    mine = namespace_of(file.room)
    below = {namespace_of(room) for room in rules.ROOMS[file.room]}
    opened = []
    for line, name, announces in cxx.namespaces_of(file.text):
        if name.split('::')[0] == 'orrery':
            start = '::'.join(name.split('::')[:2])
            home = start if start in rules.NAMESPACES.values() else 'orrery'
            opened.append((line, home, announces))
    is_home = any(home == mine for _, home, _ in opened)
    for line, home, announces in opened:
        member = home == 'orrery' and is_home and file.path.endswith('.cpp')
        if home != mine and not member and not (announces and home in below):
            yield line, f'names of {file.room}/ stand in namespace {mine}, not in {home}'


def check_bans(file):
    """Yields uses of banned names, each with its replacement."""
    table = rules.BANNED if file.is_cxx else rules.BANNED_PYTHON if file.is_python else []
    lines = file.code.split('\n')
    for pattern, allowed, advice in table:
        if any(file.path.startswith(prefix) for prefix in allowed):
            continue
        for number, line in enumerate(lines, 1):
            match = re.search(pattern, line)
            if match:
                yield number, f"'{match.group(0).strip()}': {advice}"


def check_text(file):
    """Yields lines that are too long, unfinished work and paths of one machine."""
    narrow = file.is_code or file.is_proto or file.is_build
    for number, line in enumerate(file.lines, 1):
        if narrow and len(line) > rules.MAX_COLUMNS:
            yield number, f'line has {len(line)} columns, at most {rules.MAX_COLUMNS}'
        if match := rules.UNFINISHED.search(line):
            yield number, f'{match.group(0)} cannot merge; finish it, or leave it out'
        if match := rules.MACHINE_PATH.search(line):
            yield number, f'{match.group(0)} is a path of one machine'


def check_headers(file):
    """Yields headers without an opening comment or without #pragma once."""
    if not file.path.endswith('.hpp'):
        return
    if not file.text.startswith('//'):
        yield 1, 'a header opens with a comment: what it is, who calls it, thread rule, units'
    if '#pragma once' not in file.lines:
        yield 1, 'write #pragma once below the opening comment'


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno, node.name


def shell_functions(lines):
    begin = name = None
    for number, line in enumerate(lines, 1):
        if match := re.match(r'([\w-]+)\s*\(\)\s*\{', line):
            begin, name = number, match.group(1)
        elif line == '}' and begin:
            yield begin, number, name
            begin = None


def check_functions(file):
    """Yields functions that are longer than a screen."""
    if file.is_cxx:
        found = cxx.functions_of(file.text)
    elif file.is_python:
        found = python_functions(file.text)
    else:
        found = shell_functions(file.lines) if file.is_shell else []
    for first, last, name in found:
        if last - first + 1 > rules.MAX_FUNCTION_LINES:
            yield first, (f'function {name} has {last - first + 1} lines, '
                          f'at most {rules.MAX_FUNCTION_LINES}')


def check_classes(file):
    """Yields classes with too many private methods or members; tests are exempt, because
    their models and oracles are in one piece."""
    if not file.is_cxx or file.path.startswith('tests/'):
        return
    for line, name, methods, members in cxx.classes_of(file.text):
        if methods > rules.MAX_PRIVATE_METHODS:
            yield line, (f'class {name} has {methods} private methods, at most '
                         f'{rules.MAX_PRIVATE_METHODS}: what goes together becomes a class')
        if members > rules.MAX_MEMBERS:
            yield line, (f'class {name} has {members} data members, at most {rules.MAX_MEMBERS}: '
                         'what goes together becomes a class')


def check_file_lengths(files):
    """Yields files over the limit, and a breach if more than one in ten is long."""
    code = sorted((f for f in files if f.is_code), key=lambda f: len(f.lines))
    for file in code:
        if len(file.lines) > rules.MAX_FILE_LINES:
            yield (file.path, rules.MAX_FILE_LINES + 1,
                   f'file has {len(file.lines)} lines, at most {rules.MAX_FILE_LINES}')
    if not code:
        return
    middle = code[int(0.9 * (len(code) - 1))]
    if len(middle.lines) > rules.P90_FILE_LINES:
        yield (middle.path, 1, f'one file in ten is as long as this one ({len(middle.lines)} '
                               f'lines), the 90th percentile may be {rules.P90_FILE_LINES}')


def check_core_size(files):
    """Yields a breach if core/ has too many files."""
    core = [f for f in files if re.fullmatch(r'core/[^/]+\.(hpp|cpp)', f.path)]
    if len(core) > rules.MAX_CORE_FILES:
        yield core[-1].path, 1, f'core/ has {len(core)} files, at most {rules.MAX_CORE_FILES}'


def listed_files(files, table):
    """Returns path -> (line, text) of a table whose lines are `path  text  # remark`."""
    listed = {}
    for file in files:
        if file.path == table:
            for number, line in enumerate(file.lines, 1):
                path, _, text = line.partition('#')[0].strip().partition(' ')
                if path:
                    listed[path] = (number, text.strip())
    return listed


def check_counterparts(files):
    """Yields source files without a test: a/b.cpp needs tests/a/b_test.cpp or .py (cli, python)."""
    paths = {f.path for f in files}
    exempt = listed_files(files, COVERED_BY)
    for file in files:
        if file.room is None or not file.path.endswith('.cpp'):
            continue
        parts = file.path[:-len('.cpp')].split('/')
        accepted = {f'tests/{"/".join(parts)}_test.cpp', f'tests/{parts[0]}/{parts[-1]}_test.cpp'}
        if file.room in ('cli', 'python'):
            accepted.add(f'tests/{parts[0]}/{parts[-1]}_test.py')
        if not accepted & paths and file.path not in exempt:
            yield file.path, 1, f'has no test: write {max(accepted, key=len)}'
    for path, (number, test) in exempt.items():
        if path not in paths:
            yield COVERED_BY, number, f'{path} does not exist any more'
        elif test not in paths or not test.startswith('tests/'):
            yield COVERED_BY, number, f'{path}: name the test that covers it, not "{test}"'


def check_compared_words(files):
    """Yields comparisons of a text with a word in C++ files that are not listed, and listed files
    without one. Comments do not count, and tests are exempt: their words are test data."""
    listed = listed_files(files, COMPARED_WORDS)
    unused = dict(listed)
    for file in files:
        if not file.is_cxx or file.path.startswith('tests/'):
            continue
        for number, line in enumerate(file.lines, 1):
            match = rules.WORD_COMPARISON.search(line.partition('//')[0])
            if match and file.path in listed:
                unused.pop(file.path, None)
            elif match:
                yield file.path, number, (
                    'compares a text with a word: make the word a value of an enum '
                    f'(core/schema/names.hpp), or list the file in {COMPARED_WORDS}')
    for path, (number, reason) in unused.items():
        yield COMPARED_WORDS, number, f'{path} compares no text with a word any more'
    for path, (number, reason) in listed.items():
        if not reason:
            yield COMPARED_WORDS, number, f'{path}: write the reason'


def check_claims(files):
    """Yields scenarios that contain a number of their claim; only claims.json may have it."""
    texts = {file.path: file for file in files}
    claims = texts.get(rules.CLAIMS)
    for claim in json.loads(claims.text) if claims else []:
        for when in ('before', 'after'):
            path = f'{pathlib.PurePath(rules.CLAIMS).parent}/{claim["pair"]}-{when}.yaml'
            if path not in texts:
                yield rules.CLAIMS, 1, f'row {claim["row"]}: there is no {path}'
                continue
            for number, line in enumerate(texts[path].lines, 1):
                for figure in claim['figures']:
                    if re.search(rf'(?<![\w.-]){figure}(?![\w.])', line):
                        yield path, number, f'{figure} is a number of claim {claim["row"]}'


PER_FILE = [check_arrows, check_namespaces, check_bans, check_text, check_headers,
            check_functions, check_classes, words.check_words]
PER_PROJECT = [check_file_lengths, check_core_size, check_counterparts,
               check_compared_words, check_claims,
               words.check_language]


def findings(root):
    """Returns all breaches under `root` as sorted (path, line, message)."""
    return findings_of(list(project_files(pathlib.Path(root).resolve())))


def findings_of(files):
    """Returns all breaches of some files as sorted (path, line, message)."""
    found = [(file.path, line, message)
             for file in files for check in PER_FILE for line, message in check(file)]
    found += [item for check in PER_PROJECT for item in check(files)]
    return sorted(found)


def main(arguments):
    roots = [argument for argument in arguments if argument != '--words']
    root = pathlib.Path(roots[0] if roots else pathlib.Path(__file__).resolve().parents[2])
    files = list(project_files(root.resolve()))
    found = findings_of(files)
    if '--words' in arguments:
        print(words.figures(files))
    for path, line, message in found:
        print(f'{path}:{line}: error: {message}')
    print(f'tidy: {len(found)} breaches' if found else 'tidy: clean')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
