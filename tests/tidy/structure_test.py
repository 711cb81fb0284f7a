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
struct Bundle final : Base {
  struct Two {
    A& in;
    A& out;
  };
  A& one;
  const A& other;
  std::vector<A>& all;
  void save_to(int& message) const;
  bool restore_from(const int& message) { return restore(message); }
};
int f(const A& here);
'''


class StructureTest(unittest.TestCase):
    def test_counts_a_header(self):
        found = structure.figures({'sim/x/a.hpp': A})
        self.assertEqual((found.files, found.lines, found.levels), (1, A.count('\n'), 1))
        self.assertEqual((found.large, found.references, found.bundles), (1, 7, 1))
        self.assertEqual((found.virtual, found.most, found.words), (2, 2, 0))
        self.assertEqual(found.resumes, 2)

    def test_lengths_are_those_of_all_functions(self):
        functions = [f'void f{lines}() {{\n' + '  g();\n' * (lines - 2) + '}\n'
                     for lines in (3, 30, 4, 5, 2)]
        found = structure.figures({'sim/x/a.cpp': ''.join(functions), 'sim/x/b.hpp': A})
        self.assertEqual(found.lengths, '3 / 5 / 30')
        self.assertEqual(structure.figures({'sim/x/b.hpp': 'int f();\n'}).lengths, '-')

    def test_files_of_sub_folders_count_on_request_and_folders_can_be_one_room(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in ('sim/x/a.hpp', 'sim/x/in/b.cpp', 'sim/y/c.cpp', 'sim/y/page.md'):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text('')
            for room, with_inner, files in (
                    ('sim/x', False, ['sim/x/a.hpp']),
                    ('sim/x', True, ['sim/x/a.hpp', 'sim/x/in/b.cpp']),
                    ('sim/x+sim/y', False, ['sim/x/a.hpp', 'sim/y/c.cpp'])):
                self.assertEqual(list(structure.texts_of(root, room, with_inner)), files)
            self.assertEqual(list(structure.folders_missing(root, ['sim/x+sim/z', 'sim/y'])),
                             ['sim/z'])

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
        self.assertEqual(found.levels, 3)
        self.assertEqual(found.words, 1)

    def test_a_row_of_the_page_shows_what_differs(self):
        before, after = [structure.Figures(
            files=files, lines=100, levels=3, large=0, references=2, bundles=1, virtual=10,
            most=most, words=5, resumes=1, lengths=lengths)
            for files, most, lengths in ((7, 4, '4 / 9 / 20'), (9, 4, '5 / 9 / 20'))]
        self.assertEqual(
            structure.table_row('`x`', before, after),
            '| `x` | 7 → 9 | 3 | 0 | 2 | 1 | 10 | 4 | 5 | 1 | 4 / 9 / 20 → 5 / 9 / 20 |')

    def test_a_circle_has_an_end(self):
        self.assertEqual(structure.levels({'a': {'b'}, 'b': {'a'}}), 2)

    def test_the_order_of_files_does_not_matter(self):
        includes = {'a': {'b'}, 'b': {'c'}, 'c': {'a', 'd'}, 'd': set(), 'e': {'b'}}
        for names in itertools.permutations(includes):
            self.assertEqual(structure.levels({name: includes[name] for name in names}), 5)


if __name__ == '__main__':
    unittest.main()
