#!/usr/bin/python3
"""Writes scenarios as an earlier program reads them, for equal.py.

    tests/equal/older.py PROGRAM FROM TO

PROGRAM is `orrery` of an earlier build, FROM a folder of collect.py. Each FROM/NAME is copied to
TO/NAME, its scenario without the keys that PROGRAM does not know, and with `checkpoints` below
`live`, where it was until format 1.0. Prints how many scenarios PROGRAM accepts, by exit code of
`orrery check`. Needs PyYAML; tests/cli/collect_test.py holds it."""
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys

import yaml

UNKNOWN = re.compile(r"unknown key '([^']+)'(?: in ([^;]+))?;")
MOST_KEYS = 100  # number of keys that are removed from one scenario


def value_at(scenario, path):
    """Returns the value at a path such as `cluster.gpus[0]`; None if there is none."""
    for part in re.findall(r'[^.\[\]]+', path or ''):
        if isinstance(scenario, list):
            scenario = scenario[int(part)]
        else:
            scenario = (scenario or {}).get(part)
    return scenario


def in_earlier_places(scenario):
    """Moves keys of a scenario to where format 1.0 had them; removes the format."""
    scenario.pop('format', None)
    if 'checkpoints' in scenario:
        checkpoints = scenario.pop('checkpoints')
        scenario['live'] = {**(scenario.get('live') or {}), 'checkpoints': checkpoints}


def accepted(program, folder, scenario):
    """Writes a scenario without keys that the program does not know. Returns the exit code of its
    check, or None if a key could not be removed."""
    for _ in range(MOST_KEYS):
        (folder / 'scenario.yaml').write_text(json.dumps(scenario))
        done = subprocess.run([program, 'check', 'scenario.yaml'], cwd=folder, capture_output=True,
                              text=True, check=False)
        unknown = UNKNOWN.search(done.stderr + done.stdout)
        if not unknown:
            return done.returncode
        place = value_at(scenario, unknown[2])
        if not isinstance(place, dict) or unknown[1] not in place:
            return None
        del place[unknown[1]]
    return None


def main(arguments):
    if len(arguments) != 3:
        print(__doc__.split('\n\n')[1], file=sys.stderr)
        return 2
    program, source, to = (pathlib.Path(each).resolve() for each in arguments)
    codes = collections.Counter()
    for folder in sorted(source.iterdir()):
        try:
            scenario = yaml.safe_load((folder / 'scenario.yaml').read_text())
        except yaml.YAMLError:
            continue
        if isinstance(scenario, dict):
            shutil.copytree(folder, to / folder.name)
            in_earlier_places(scenario)
            codes[accepted(program, to / folder.name, scenario)] += 1
    print('older:', ', '.join(f'{count} with exit code {code}' for code, count in codes.items()))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
