#!/usr/bin/python3
"""Holds docs/ARCHITECTURE.md, its chapters and the decisions to the code: drawings, the table of
the path of a loss, five answers, the files to read first; and shows that each of these checks can
fail."""
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import drawing
import loss_path
import path_drawing

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / loss_path.PAGE).read_text(encoding='utf-8')
ANSWER = re.compile(r'^\| (?:Where|the same) [^|]*\| `([^`]+)` \| `([\w:]+)` \|$', re.MULTILINE)
FIRST = re.compile(r'^\| an? [^|]*\| `([^`]+)` \| \[list\]\(EXTENDING\.md#([\w-]+)\) \|$',
                   re.MULTILINE)
CHAPTERS = sorted((ROOT / 'docs/architecture').glob('*.md'))
# Words of the questions that the names of the files have.
WORDS = (('loss', 'event'), ('loss', 'event'), ('layout', 'check'), ('save', 'tim'),
         ('collective', 'table'), ('share',))

ROOM = {
    'live/x/top.hpp': '#include "live/x/a.hpp"\nclass Top {\n class Inner {};\n};\n',
    'live/x/top.cpp': '#include "live/x/top.hpp"\n#include "live/x/files/f.hpp"\n',
    'live/x/a.hpp': '#include "live/x/files/f.hpp"\n#include "live/x/b.hpp"\nstruct A {\n};\n',
    'live/x/b.hpp': '', 'live/x/c.hpp': 'class C final : public D {\n};\n',
    'live/x/files/f.hpp': '#include "live/x/files/g.hpp"\n', 'live/x/files/g.hpp': ''}


class DrawingTest(unittest.TestCase):
    def test_drawings_of_the_page_are_those_of_the_files(self):
        for name, room in drawing.DRAWINGS.items():
            path = ROOT / drawing.FOLDER / f'{name}.svg'
            self.assertEqual(path.read_text(encoding='utf-8'),
                             drawing.picture(room, drawing.texts_of(ROOT, room)),
                             f'{path.name}: run tests/tidy/drawing.py')
            self.assertIn(f'(drawings/{name}.svg)', PAGE)

    def test_a_box_is_a_header_or_a_folder_and_leads_to_what_it_includes(self):
        lines, below = drawing.boxes_of('live/x', ROOM)
        self.assertEqual(lines, {'top': ['Top'], 'a': ['A'], 'b': [], 'c': ['C'],
                                 'files/': ['f', 'g']})
        self.assertEqual(below, {'top': {'a', 'files/'}, 'a': {'files/', 'b'}, 'b': set(),
                                 'c': set(), 'files/': set()})

    def test_names_that_include_nothing_share_a_box_and_shortcuts_are_left_out(self):
        lines, below = drawing.with_base(*drawing.boxes_of('live/x', ROOM))
        self.assertEqual(lines[drawing.BASE], ['b', 'c'])
        self.assertEqual(drawing.without_shortcuts(below)['top'], {'a'})

    def test_another_include_or_class_changes_the_drawing(self):
        picture = drawing.picture('live/x', ROOM)
        for path, text in (('live/x/b.hpp', '#include "live/x/c.hpp"\n'),
                           ('live/x/a.hpp', ROOM['live/x/a.hpp'] + 'class Other {\n};\n')):
            self.assertNotEqual(drawing.picture('live/x', {**ROOM, path: text}), picture)

    def test_lines_cross_less_in_the_order_that_is_found(self):
        rows, edges = [['a', 'b'], ['c', 'd']], [('a', 'd'), ('b', 'c')]
        self.assertEqual(drawing.crossings(rows, edges), 1)
        self.assertEqual(drawing.crossings(drawing.ordered(rows, edges), edges), 0)


class LossPathTest(unittest.TestCase):
    def test_the_path_and_the_table_of_the_page_are_those_of_the_code(self):
        done = subprocess.run([sys.executable, ROOT / 'tests/tidy/loss_path.py', '--check'],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ''))

    def test_a_file_that_more_than_two_calls_enter_is_refused_in_one_stage_or_in_three(self):
        for lines, count in (
                (['x.cpp f -> g', 'y.cpp g ->'], 0),
                (['x.cpp f -> g h', 'y.cpp g -> i', 'y.cpp h ->', 'y.cpp i ->'], 0),
                (['x.cpp f -> g h i', 'y.cpp g ->', 'y.cpp h ->', 'y.cpp i ->'], 1),
                (['x.cpp f -> g g g', 'y.cpp g ->'], 1),
                (['x.cpp f -> g k', 'z.cpp k -> g g', 'y.cpp g ->'], 1)):
            path = 'world w\nstage 1\n  ' + '\n  '.join(lines)
            found = list(loss_path.visits_of(loss_path.read_path(path)))
            self.assertEqual(len(found), count, lines)
            self.assertIn('enter y.cpp, found 3' if count else '', ' '.join(found))
        for stages, count in ((2, 0), (3, 1)):
            path = 'world w\n' + 'stage s\n  x.cpp f ->\n' * stages
            found = list(loss_path.visits_of(loss_path.read_path(path)))
            self.assertEqual(len(found), count, stages)

    def test_a_stage_begins_with_a_call_of_a_loop_and_a_loop_calls_nothing_else(self):
        code = 'void L::wait() {\n  f();\n  h();\n}\nvoid f() {\n  g();\n}\nvoid g() {}\n'
        loop = 'world w\nloop l.cpp L::wait -> f\n'
        stage = 'stage s\n  x.cpp f -> g\n  x.cpp g ->\n'
        for path, problem in (
                (loop + stage, None),
                (loop.replace('-> f', '-> f h') + stage + '  x.cpp h ->\n', None),
                (loop.replace('-> f', '-> f h') + stage, 'a stage in which the loop calls h'),
                (loop + stage + '  x.cpp h ->\n', 'a loop that calls h'),
                (loop.replace('-> f', '-> e') + stage.replace(' f', ' e'), 'expected e in L::wait'),
                (loop.replace('L::wait', 'L::pass') + stage, 'expected L::pass in L::pass'),
                (loop + stage + '  l.cpp L::wait ->\n', 'a loop that calls wait')):
            worlds, loops = loss_path.read_path(path), loss_path.read_loops(path)
            found = list(loss_path.loop_problems(worlds, loops, lambda _: code))
            self.assertEqual(len(found), int(problem is not None), (path, found))
            self.assertIn(problem or '', ' '.join(found))

    def test_a_call_from_another_file_enters_a_file_and_a_call_within_it_does_not(self):
        worlds = loss_path.read_path(
            'world w\nstage 1\n  x.cpp A::f -> g k\n  x.cpp g ->\n  y.cpp B::k -> h\n'
            '  x.cpp A::h ->\nstage 2\n  x.cpp A::f ->\n')
        self.assertEqual(loss_path.calls_into(worlds[0][1]), {'x.cpp': 3, 'y.cpp': 1})
        self.assertIn('| `x.cpp` | 2 | 3 | `f`, `g`, `h` | `f` |',
                      loss_path.table_of(worlds, {'w': []}).split('\n'))

    def test_a_function_that_is_called_twice_makes_each_of_its_calls_twice(self):
        worlds = loss_path.read_path('world w\nstage s\n  x.cpp f -> g g\n  y.cpp g -> h k h\n'
                                     '  z.cpp A::h ->\n  z.cpp k ->\n  z.cpp B::h ->\n')
        self.assertEqual(loss_path.calls_into(worlds[0][1]), {'x.cpp': 1, 'y.cpp': 2, 'z.cpp': 6})

    def test_a_call_that_the_path_does_not_tell_is_refused(self):
        code = 'void L::wait() {\n  f();\n}\nvoid f() {\n  g();\n  k();\n}\nvoid g() {}\n'
        loop = 'world w\nloop l.cpp L::wait -> f\n'
        stage = 'stage s\n  x.cpp f -> g\n  y.cpp g ->\n'
        for path, more, problem in (
                (loop + stage, '', None),
                (loop + stage, '  g();\n', 'expected 1 calls of g in f, found 2'),
                (loop + 'except f -> g: why\n' + stage, '  g();\n', None),
                (loop + 'except f -> g: why\n' + stage, '', 'expected 2 calls of g in f, found 1'),
                (loop + stage + '  z.cpp k ->\n', '', 'expected 0 calls of k in f, found 1')):
            worlds, loops = loss_path.read_path(path), loss_path.read_loops(path)
            text = code.replace('  k();\n', '  k();\n' + more)
            found = list(loss_path.silent_calls(worlds, loops, loss_path.read_exceptions(path),
                                                lambda _, text=text: text))
            self.assertEqual(len(found), int(problem is not None), (path, found))
            self.assertIn(problem or '', ' '.join(found))
        starred = loss_path.read_path('world w\nstage s\n  x.cpp f -> g*\n')
        self.assertIn('a line for each call, found g*', ' '.join(loss_path.visits_of(starred)))

    def test_a_path_that_the_code_does_not_take_is_refused(self):
        code = 'void A::f() {\n  g(1);\n  // h(2)\n}\nvoid g(int) {\n  k();\n}\n'
        for path, problem in (
                ('x.cpp A::f -> g\n  x.cpp g ->', None),
                ('x.cpp A::e ->', 'no such function'),
                ('x.cpp A::f -> h*', 'expected a call of h'),
                ('x.cpp A::f -> g', 'has no later line'),
                ('x.cpp A::f -> g*', None),
                ('x.cpp A::f -> g* g*', 'expected a call of g'),
                ('x.cpp g -> k* g*', 'expected a call of g')):
            worlds = loss_path.read_path('world w\nstage s\n  ' + path)
            found = list(loss_path.problems_of(worlds, lambda _: code))
            self.assertTrue(problem is None and not found or problem and problem in found[0],
                            (path, found))

    def test_a_trace_has_the_functions_of_the_path_in_their_order(self):
        self.assertTrue(loss_path.is_in_order(['a', 'x', 'b', 'a', 'c'], ['a', 'b', 'c']))
        self.assertFalse(loss_path.is_in_order(['b', 'a', 'c'], ['a', 'b']))


class AnswersTest(unittest.TestCase):
    def test_the_files_of_the_answers_exist_with_their_functions_and_are_named_after_them(self):
        answers = ANSWER.findall(PAGE)
        self.assertEqual(len(answers), len(WORDS))
        for (file, function), words in zip(answers, WORDS):
            text = (ROOT / file).read_text(encoding='utf-8')
            self.assertIsNotNone(loss_path.body_of(text, function), (file, function))
            for word in words:
                self.assertIn(word, pathlib.Path(file).stem)

    def test_the_file_to_read_first_is_named_in_the_list_of_its_addition(self):
        rows = FIRST.findall(PAGE)
        self.assertGreaterEqual(len(rows), 13)
        extending = (ROOT / 'docs/EXTENDING.md').read_text(encoding='utf-8')
        lists = {anchor_of(title): text for title, text in
                 re.findall(r'^## (.*)\n(.*(?:\n(?!## ).*)*)', extending, re.MULTILINE)}
        for file, anchor in rows:
            self.assertIn(anchor, lists, file)
            text = (ROOT / file).read_text(encoding='utf-8')
            names = [file, file.rpartition('/')[2],
                     *re.findall(r'^class (\w+)', text, re.MULTILINE)]
            self.assertTrue(any(re.search(rf'\b{re.escape(name)}\b', lists[anchor])
                                for name in names), (file, anchor))


class ChaptersTest(unittest.TestCase):
    def test_drawings_of_the_chapters_are_those_of_the_code(self):
        found, problems = path_drawing.pictures()
        self.assertEqual(problems, [])
        pages = PAGE + ''.join(page.read_text(encoding='utf-8') for page in CHAPTERS)
        for name, text in found.items():
            path = ROOT / path_drawing.FOLDER / name
            self.assertEqual(path.read_text(encoding='utf-8'), text,
                             f'{name}: run tests/tidy/path_drawing.py')
            self.assertIn(f'drawings/{name})', pages)

    def test_a_call_a_starter_and_a_process_that_do_not_exist_are_refused(self):
        worlds = loss_path.read_path(
            'world w\nstage s\n  policies/seam/drive.cpp drive -> nothing*')
        self.assertEqual(len(list(loss_path.problems_of(worlds, path_drawing.text_of))), 1)
        for starts, count in (('begin_futures fork_here', 0), ('begin_futures nothing', 1),
                              ('nothing fork_here', 1)):
            text = f'process a : b\n  starts a  policies/run/futures.cpp {starts}\n'
            problems = path_drawing.process_problems(path_drawing.read_processes(text))
            self.assertEqual(len(list(problems)), count, starts)
        lost = path_drawing.read_processes(
            'process a : b\n  starts c  policies/run/futures.cpp begin_futures fork_here\n')
        self.assertEqual(len(list(path_drawing.process_problems(lost))), 1)

    def test_each_decision_has_its_sections_and_is_in_one_chapter_and_in_the_list(self):
        records = sorted((ROOT / 'docs/decisions').glob('[0-9]*.md'))
        self.assertGreaterEqual(len(records), 63)
        index = (ROOT / 'docs/decisions/README.md').read_text(encoding='utf-8')
        chapters = {page.stem: page.read_text(encoding='utf-8') for page in CHAPTERS}
        self.assertEqual(sorted(chapters), ['formats', 'interface', 'live', 'model', 'time'])
        for record in records:
            text = record.read_text(encoding='utf-8')
            number = re.match(r'# (\d+)([a-z]?)\. ', text)
            self.assertEqual(f'{int(number[1]):03d}{number[2]}', record.stem.partition('-')[0])
            sections = [each for each in re.findall(r'^## (.*)$', text, re.MULTILINE)
                        if each != 'Consequences']
            self.assertEqual(sections, ['Context', 'Decision', 'History'], record.stem)
            self.assertEqual(index.count(f']({record.name})'), 1, record.stem)
            homes = [name for name, page in chapters.items()
                     if f'](../decisions/{record.name})' in page]
            self.assertEqual(homes, re.findall(r'architecture/(\w+)\.md', text)[:1], record.stem)


def anchor_of(heading):
    """Returns the anchor that GitHub and the site give to a heading."""
    return re.sub(r'[^\w -]', '', heading.lower()).replace(' ', '-')


if __name__ == '__main__':
    unittest.main()
