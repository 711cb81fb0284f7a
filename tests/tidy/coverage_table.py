#!/usr/bin/python3
"""Prints the executed lines of each room, from the summary of gcovr; `./dev coverage` calls it.

    coverage_table.py SUMMARY.json    the file of `gcovr --json-summary`
"""
import json
import sys


def rooms_of(summary):
    """Returns {room: [lines, executed lines, branches, executed branches]}, in the order of names.

    A room is the first folder of a file's path. Only compiled files are in the summary.
    """
    rooms = {}
    for file in summary['files']:
        counts = rooms.setdefault(file['filename'].split('/')[0], [0, 0, 0, 0])
        for at, key in enumerate(('line_total', 'line_covered', 'branch_total', 'branch_covered')):
            counts[at] += file[key]
    return dict(sorted(rooms.items()))


def table(rooms):
    """Returns the lines of a table in Markdown, with a row for all rooms together at the end."""
    everything = [sum(column) for column in zip(*rooms.values())] or [0, 0, 0, 0]
    lines = ['| room | lines | executed | branches executed |', '|---|---:|---:|---:|']
    for room, (total, done, branches, taken) in {**rooms, 'together': everything}.items():
        shares = (f'{100 * part / whole:.1f}%' if whole else ''
                  for part, whole in ((done, total), (taken, branches)))
        lines.append(f'| {room} | {total:,} | ' + ' | '.join(shares) + ' |')
    return lines


def main():
    with open(sys.argv[1], encoding='utf-8') as file:
        print(*table(rooms_of(json.load(file))), sep='\n')


if __name__ == '__main__':
    main()
