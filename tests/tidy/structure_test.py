#!/usr/bin/python3
"""Holds the counting of structure.py on texts of a few lines."""
import itertools
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sample_methods
import structure

A = '''// About A.
#pragma once
class A {
 public:
  virtual ~A() = default;
  virtual int one() const = 0;
  virtual void two() {}  // virtual words of a comment do not count

 private:
  int a_, b_, c_, d_, e_, f_, g_, h_;
};
struct Parts {
  const A& here;
  std::map<int, int>& there;
};
int f(const A& here);
'''


class StructureTest(unittest.TestCase):
    def test_counts_a_header(self):
        files, lines, levels, large, references, virtual, most, words = structure.figures(
            {'sim/x/a.hpp': A})
        self.assertEqual((files, lines, levels, large), (1, A.count('\n'), 1, 1))
        self.assertEqual((references, virtual, most, words), (2, 2, 2, 0))

    def test_a_sample_is_drawn_by_its_seed_and_copies_the_headers(self):
        script = pathlib.Path(sample_methods.__file__)
        with tempfile.TemporaryDirectory() as folder:
            first, again = (
                subprocess.run([sys.executable, script, '7', '5', '--headers', folder],
                               capture_output=True, text=True, check=True).stdout
                for _ in range(2))
            copied = list(pathlib.Path(folder).rglob('*.hpp'))
        self.assertEqual(first, again)
        *drawn, total = first.splitlines()
        self.assertRegex(total, r'^5 of \d+ methods, seed 7$')
        for line in drawn:
            self.assertRegex(line, r'^[\w/]+\.hpp:\d+ \w+::\w+$')
        self.assertEqual(len(copied), len(sample_methods.headers()))

    def test_levels_count_a_header_and_its_source_as_one(self):
        texts = {'sim/x/a.hpp': '', 'sim/x/a.cpp': '#include "sim/x/a.hpp"\n',
                 'sim/x/b.hpp': '#include "sim/x/a.hpp"\n#include "core/error.hpp"\n',
                 'sim/x/c.cpp': '#include "sim/x/b.hpp"\nbool f() { return g == "word"; }\n'}
        found = structure.figures(texts)
        self.assertEqual(found[2], 3)
        self.assertEqual(found[-1], 1)

    def test_a_row_of_the_page_shows_what_differs(self):
        before, after = [(files, 100, 3, 0, 2, 10, most, 5) for files, most in ((7, 4), (9, 4))]
        self.assertEqual(structure.table_row('`x`', before, after),
                         '| `x` | 7 → 9 | 3 | 0 | 10 | 4 | 5 |')

    def test_a_circle_has_an_end(self):
        self.assertEqual(structure.levels({'a': {'b'}, 'b': {'a'}}), 2)

    def test_the_order_of_files_does_not_matter(self):
        includes = {'a': {'b'}, 'b': {'c'}, 'c': {'a', 'd'}, 'd': set(), 'e': {'b'}}
        for names in itertools.permutations(includes):
            self.assertEqual(structure.levels({name: includes[name] for name in names}), 5)


if __name__ == '__main__':
    unittest.main()
