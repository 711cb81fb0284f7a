#!/usr/bin/python3
"""Runs tests and keeps the scenarios that they simulate, for equal.py.

    tests/equal/collect.py BUILD FOLDER TEST...

BUILD is the folder of a build (build), TEST... are arguments of pytest, for example
`tests/cli tests/python -k simulate`. Each scenario that a test gives to `orrery simulate` or to
orrery.simulate() gets into FOLDER/DIGEST/scenario.yaml, its options into scenario.json, and the
files that it names beside it; equal scenarios with equal options are kept once. Not kept are runs
of other commands, of other options than those of KEPT and DROPPED, of policies that are files or
Python objects, and of ten million steps and more, which the tests end themselves. The exit code is
that of pytest. Tests in C++ keep theirs in the folder that the environment variable ORRERY_COLLECT
names (tests/sim/run.cpp). tests/cli/collect_test.py holds it."""
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

FOLDER = 'ORRERY_COLLECT'  # environment variable
KEPT = ('--seed', '--detail', '--mode', '--on-policy-error', '--set', '--policy')
DROPPED = ('--record', '--timeline')  # options with a value that do not change what is simulated
LARGEST_FILE = 16 << 20
ENDLESS = re.compile(r'\bsteps["\s:=]+\d{8,}')


def parsed(words):
    """Returns (scenario, options) of the arguments of `orrery simulate`; None if the run is not
    kept."""
    scenario, options = None, []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition('=')
        if name in KEPT or name in DROPPED:
            value = value if equals else next(rest, '')
            if name == '--policy' and re.search(r'[/.]', value):
                return None  # a file
            options += [name, value] if name in KEPT else []
        elif word == '--json':
            continue
        elif word.startswith('-') or scenario is not None:
            return None
        else:
            scenario = word
    return None if scenario is None else (pathlib.Path(scenario), options)


def keep(folder, text, options, base):
    """Writes a scenario, its options and the files below `base` that it names to `folder`."""
    if ENDLESS.search(text) or any(ENDLESS.search(option) for option in options):
        return
    digest = hashlib.sha1(json.dumps([text, options]).encode()).hexdigest()[:16]
    folder = pathlib.Path(folder)
    if (folder / digest).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    made = pathlib.Path(tempfile.mkdtemp(prefix='.', dir=folder))
    for name in set(re.findall(r'[\w./-]+', ' '.join([text, *options]))):
        source = pathlib.Path(base, name)
        inside = not name.startswith('/') and '..' not in source.parts
        if inside and source.is_file() and source.stat().st_size <= LARGEST_FILE:
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, made / name)
    (made / 'scenario.json').write_text(json.dumps(options))
    (made / 'scenario.yaml').write_text(text)
    try:
        made.rename(folder / digest)
    except OSError:  # another test was faster
        shutil.rmtree(made)


def run_program(program, words):
    """Keeps the scenario of a command line, and becomes the program."""
    found = parsed(words[1:]) if words[:1] == ['simulate'] else None
    if found and found[0].is_file():
        scenario, options = found
        keep(os.environ[FOLDER], scenario.read_text(errors='replace'), options, scenario.parent)
    os.execv(program, [program, *words])


def pytest_collection_finish(session):
    """Makes orrery.simulate() keep its scenarios; pytest has imported the packages by then."""
    del session
    try:
        from orrery import _core
    except ImportError:
        return
    run = _core.run

    def kept(scenario, settings, policies, *others):
        plain = not (policies or settings.get('from') or settings.get('mode', 'drive') != 'drive')
        if settings['program'] == 'orrery-sim' and plain:
            options = ['--detail', settings['detail']] if settings.get('detail') else []
            keep(os.environ[FOLDER], scenario.written(), options, os.getcwd())
        return run(scenario, settings, policies, *others)

    _core.run = kept


def build_that_keeps(build, place):
    """Writes a folder of a build to `place` whose program `orrery` keeps scenarios."""
    (place / 'bin').mkdir(parents=True)
    for source in [*build.iterdir(), *(build / 'bin').iterdir()]:
        if source.name not in ('bin', 'orrery'):
            (place / source.relative_to(build)).symlink_to(source)
    program = place / 'bin/orrery'
    words = [sys.executable, __file__, '--program', str(build / 'bin/orrery')]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)


def main(arguments):
    if arguments[:1] == ['--program']:
        return run_program(arguments[1], arguments[2:])
    if len(arguments) < 3:
        print(__doc__.split('\n\n')[1], file=sys.stderr)
        return 2
    build, folder = (pathlib.Path(each).resolve() for each in arguments[:2])
    here = pathlib.Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as place:
        build_that_keeps(build, pathlib.Path(place, 'build'))
        paths = os.pathsep.join(filter(None, [str(here), os.environ.get('PYTHONPATH')]))
        code = subprocess.run(
            [sys.executable, '-m', 'pytest', '-p', 'collect', *arguments[2:]], check=False,
            cwd=here.parents[1], env={**os.environ, 'ORRERY_BUILD': f'{place}/build',
                                      FOLDER: str(folder), 'PYTHONPATH': paths}).returncode
    print(f'collect: {len(list(folder.glob("*/scenario.yaml")))} scenarios in {folder}')
    return code


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
