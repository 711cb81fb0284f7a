#!/usr/bin/python3
"""Simulates scenarios in forks of one process, for equal.py: the program is loaded once.

    tests/equal/forked.py PACKAGES

PACKAGES is the folder `python` of a build. Reads one JSON object a line from standard input
(`scenario`: path; `options`: options of `orrery simulate`; `record`: path of the log, or empty;
`limit`: seconds) and answers with one a line: `code`, the exit code of the command line for this
result, and `report`, or null without one."""
import json
import sys
import time

OPTIONS = {'--detail': 'detail', '--mode': 'mode'}
TIMED_OUT = 124  # exit code, that of equal.py


def settings_of(options):
    """Returns options of `orrery simulate` as arguments of a run in Python."""
    pairs = dict(zip(options[::2], options[1::2]))
    fall_back = pairs.pop('--on-policy-error', 'stop') == 'static'
    return {'fall_back': fall_back, **{OPTIONS[name]: value for name, value in pairs.items()}}


def simulate(order, server):
    """Returns the answer to one order."""
    from orrery import _errors, _run, load
    end = time.monotonic() + order['limit']
    is_late = lambda: time.monotonic() > end
    try:
        report = _run.start('orrery-sim', load(order['scenario']), None, False, cancelled=is_late,
                            server=server, record=order['record'],
                            **settings_of(order['options']))
    except _errors.Error as error:
        return {'code': TIMED_OUT if is_late() else error.exit_code, 'report': None}
    except KeyboardInterrupt:
        return {'code': TIMED_OUT, 'report': None}
    return {'code': 0, 'report': report.to_dict()}


def main():
    sys.path.insert(0, sys.argv[1])
    import warnings

    from orrery import _core
    warnings.simplefilter('ignore')
    server = _core.ForkServer('orrery-sim')
    for line in sys.stdin:
        print(json.dumps(simulate(json.loads(line), server)), flush=True)


if __name__ == '__main__':
    main()
