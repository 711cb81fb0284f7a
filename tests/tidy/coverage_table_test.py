#!/usr/bin/python3
"""Tests the table of coverage_table.py on a summary of three files."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import coverage_table


def file(name, lines, executed, branches, taken):
    return {'filename': name, 'line_total': lines, 'line_covered': executed,
            'branch_total': branches, 'branch_covered': taken}


class CoverageTableTest(unittest.TestCase):
    def test_files_of_a_room_are_added(self):
        summary = {'files': [file('sim/training/a.cpp', 100, 90, 40, 10),
                             file('core/b.cpp', 1000, 1000, 0, 0),
                             file('sim/c.hpp', 100, 30, 0, 0)]}
        self.assertEqual(coverage_table.table(coverage_table.rooms_of(summary))[2:], [
            '| core | 1,000 | 100.0% |  |',
            '| sim | 200 | 60.0% | 25.0% |',
            '| together | 1,200 | 93.3% | 25.0% |'])

    def test_a_summary_without_files_has_a_row_of_zeros(self):
        rows = coverage_table.table(coverage_table.rooms_of({'files': []}))[2:]
        self.assertEqual(rows, ['| together | 0 |  |  |'])


if __name__ == '__main__':
    unittest.main()
