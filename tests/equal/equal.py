#!/usr/bin/python3
"""Shows that two builds simulate the same: logs, reports and decision traces, byte for byte.

    tests/equal/equal.py BEFORE AFTER [--scenarios N] [--seed S] [--jobs N] [--changed KEY]...
                         [--without WORD]... [--no-logs] [--limit SECONDS] [--forks] [--folder DIR]

BEFORE and AFTER are folders with the programs (build/bin). Both builds simulate all examples, the
scenarios of DIR (those of the tests, from collect.py: NAME.yaml or NAME/scenario.yaml, with options
in a .json beside it) and N random scenarios (default 1,000). The texts of `why`, `reason` and
`cause` are blanked before the comparison, and so is `host`, which the machine decides. --changed
names a key of the report or the log whose value differs on purpose (`scenario_hash` and the keys
that scenarios have got since). --without leaves out the random scenarios that contain a word: a
policy or a key whose rules changed on purpose. --no-logs compares reports, which contain the hash
of the decision trace, and no logs: for a change of the log's format. --limit is the time of one
simulation (default 300 s); a scenario that reaches it is not compared and counts as a difference.
--forks simulates the random scenarios in forks of one process of each build (forked.py), for many
thousands; both builds then need their Python packages (build/python), and this Python those that
they import. For a scenario that a build refuses, the exit codes are compared. Prints one line for
each difference or internal error and exits 1 if there is one; the scenario stays in a temporary
folder. Plain Python without --forks; needs protoc for logs that differ in bytes."""
import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import scenarios

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = ('why', 'reason', 'cause')
FROM_TEXTS = ('decision_log_sha256',)  # a digest with the texts; the log itself is compared
FROM_HOST = ('host', *FROM_TEXTS)
LIMIT_S = 300
TIMED_OUT = 124  # exit code of run()
INTERNAL_ERROR = 5  # exit code

Outcome = collections.namedtuple('Outcome', 'code report table log')


def blanked(value):
    """Returns a JSON value without explanatory texts and without figures of the host."""
    if isinstance(value, dict):
        return {key: '' if key in TEXTS else blanked(each)
                for key, each in value.items() if key not in FROM_HOST}
    if isinstance(value, list):
        return [blanked(each) for each in value]
    return value


def run(arguments, folder, limit_s):
    """Returns (exit code, standard output) of a program; TIMED_OUT if it takes over `limit_s`."""
    try:
        result = subprocess.run(arguments, cwd=folder, capture_output=True, timeout=limit_s,
                                check=False)
    except subprocess.TimeoutExpired:
        return TIMED_OUT, b''
    return result.returncode, result.stdout


def frames(log):
    """Yields the messages of a log: each has its length, a varint, before it."""
    position = 0
    while position < len(log):
        length = shift = 0
        while True:
            byte = log[position]
            position += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        yield log[position:position + length]
        position += length


def readable(frame, changed):
    """Returns a log's message as text, as protoc prints it: explanations are blanked, fields in
    `changed` left out."""
    text = subprocess.run(
        ['protoc', f'-I{ROOT}', '--decode=orrery.LogRecord', 'traces/trace.proto'], input=frame,
        cwd=ROOT, capture_output=True, check=True).stdout.decode()
    blank = '|'.join(TEXTS + FROM_TEXTS)
    text = re.sub(rf'(?m)^(\s*(?:{blank})): ".*"$', r'\1: ""', text)
    return re.sub(rf'(?m)^\s*(?:{"|".join(changed)}): .*\n', '', text) if changed else text


def are_equal(before, after, changed):
    """Returns whether two logs have equal messages. Only messages whose bytes differ are read."""
    pairs = itertools.zip_longest(frames(before), frames(after))
    return all(one == other or
               None not in (one, other) and readable(one, changed) == readable(other, changed)
               for one, other in pairs)


def simulate(programs, scenario, options, folder, chosen):
    """Returns the Outcome of one build for one scenario; its log is empty with --no-logs."""
    log = pathlib.Path(folder, 'run.log')
    log.unlink(missing_ok=True)
    command = [str(programs / 'orrery'), 'simulate', str(scenario), *options, '--json']
    code, out = run([*command, *([] if chosen.no_logs else ['--record', str(log)])],
                    folder, chosen.limit)
    if code not in (0, 1) or not out:
        return Outcome(code, None, None, None)
    return Outcome(code, blanked(json.loads(out)), None, log.read_bytes() if log.exists() else b'')


class Forks:
    """Process of one build that simulates scenarios in its forks."""

    def __init__(self, programs):
        program = pathlib.Path(__file__).with_name('forked.py')
        self.process = subprocess.Popen(
            [sys.executable, program, programs.parent / 'python'], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)

    def simulate(self, scenario, options, folder, chosen):
        """Returns the Outcome of one scenario; its log is empty with --no-logs."""
        log = pathlib.Path(folder, 'run.log')
        log.unlink(missing_ok=True)
        order = {'scenario': str(scenario), 'options': options, 'limit': chosen.limit,
                 'record': '' if chosen.no_logs else str(log)}
        self.process.stdin.write(json.dumps(order) + '\n')
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if answer['report'] is None:
            return Outcome(answer['code'], None, None, None)
        return Outcome(answer['code'], blanked(answer['report']), None,
                       log.read_bytes() if log.exists() else b'')


own = threading.local()  # the Forks of both builds, for each thread


def forks_of(builds):
    """Returns the Forks of both builds that belong to this thread."""
    if not hasattr(own, 'forks'):
        own.forks = [Forks(build) for build in builds]
    return own.forks


def replay_jobs(programs, replay, folder, chosen):
    """Returns the Outcome of one build for one replay of a job trace."""
    code, out = run([str(programs / 'orrery'), 'jobs', str(replay), '--json'], folder,
                    chosen.limit)
    return Outcome(code, blanked(json.loads(out)) if out else None, None, b'')


def difference(before, after, changed):
    """Returns the first part in which two outcomes differ, or None. Not compared are the report's
    keys in `changed`."""
    if before.code != after.code:
        return f'exit code {before.code}, then {after.code}'
    if before.code in (INTERNAL_ERROR, TIMED_OUT):
        return 'internal error' if before.code == INTERNAL_ERROR else 'not compared: time limit'
    reports = [{key: value for key, value in (outcome.report or {}).items() if key not in changed}
               for outcome in (before, after)]
    if reports[0] != reports[1]:
        keys = [key for key in reports[0] if reports[0][key] != reports[1].get(key)]
        return f'report: {", ".join(keys) or "keys"}'
    if before.log != after.log and not are_equal(before.log, after.log, changed):
        return 'log'
    return None


def compare(scenario, options, chosen):
    """Returns (exit code, difference or None) of one scenario under two builds."""
    builds = chosen.before.resolve(), chosen.after.resolve()
    with tempfile.TemporaryDirectory() as folder:
        if 'replay-' in scenario.name:
            pair = [replay_jobs(build, scenario, folder, chosen) for build in builds]
        elif chosen.forks and scenario.name.startswith('random-'):
            pair = [forks.simulate(scenario, options, folder, chosen)
                    for forks in forks_of(builds)]
        else:
            pair = [simulate(build, scenario, options, folder, chosen) for build in builds]
    return pair[0].code, difference(*pair, chosen.changed)


def given(folder):
    """Yields (scenario file, options) of the scenarios in a folder, in the order of their paths."""
    for path in sorted([*folder.glob('*.yaml'), *folder.glob('*/scenario.yaml')]):
        options = path.with_suffix('.json')
        yield path, json.loads(options.read_text()) if options.exists() else []


def tasks(folder, count, seed, without):
    """Yields (scenario file, options): all examples, then `count` random ones, of which those with
    a word of `without` are left out."""
    for path in sorted((ROOT / 'examples').rglob('*.yaml')):
        if 'policies' not in path.parts and '../shared/' not in path.read_text():
            yield path, []
    for log in (ROOT / 'examples').glob('*.csv'):  # random scenarios read it
        shutil.copy(log, folder)
    for number in range(count):
        text, options = scenarios.random_scenario(seed * 1_000_003 + number)
        if any(word in text for word in without):
            continue
        path = pathlib.Path(folder, f'random-{number}.yaml')
        path.write_text(text)
        yield path, options


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('before', type=pathlib.Path)
    parser.add_argument('after', type=pathlib.Path)
    parser.add_argument('--scenarios', type=int, default=1000)
    parser.add_argument('--seed', type=int, default=int(os.environ.get('ORRERY_SEED', 1)))
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--changed', action='append', default=[], metavar='KEY')
    parser.add_argument('--without', action='append', default=[], metavar='WORD')
    parser.add_argument('--no-logs', action='store_true')
    parser.add_argument('--forks', action='store_true')
    parser.add_argument('--limit', type=float, default=LIMIT_S, metavar='SECONDS')
    parser.add_argument('--folder', type=pathlib.Path, metavar='DIR')
    chosen = parser.parse_args()
    if chosen.folder and not chosen.folder.is_dir():
        parser.error(f'--folder: expected a folder, found no {chosen.folder}; '
                     'tests/equal/collect.py makes one')
    folder = tempfile.mkdtemp(prefix='orrery-equal-')
    todo = [*(given(chosen.folder.resolve()) if chosen.folder else ()),
            *tasks(folder, chosen.scenarios, chosen.seed, chosen.without)]
    codes, differing = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        results = pool.map(lambda task: compare(*task, chosen), todo)
        for (path, options), (code, found) in zip(todo, results):
            codes[code] += 1
            if found:
                differing += 1
                print(f'{path} {" ".join(options)}: {found}', flush=True)
            elif path.parent == pathlib.Path(folder):
                path.unlink()
    exits = ', '.join(f'{count} with exit code {code}' for code, count in sorted(codes.items()))
    print(f'equal: seed {chosen.seed}, {len(todo)} scenarios ({exits}), {differing} differ')
    if not differing:
        shutil.rmtree(folder)
    return 1 if differing else 0


if __name__ == '__main__':
    sys.exit(main())
