#!/usr/bin/python3
"""Shows that every rule of the tidy test can fail, and that similar correct code passes."""
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import rules
import tidy
import words


def header(body=''):
    return '// Header of a test.\n#pragma once\n' + body


class TidyTest(unittest.TestCase):
    def findings(self, files):
        """Returns the breaches in a tree of these files; a .cpp file gets an empty test."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                if name.endswith('.cpp') and not name.startswith('tests/'):
                    test = pathlib.Path(folder, 'tests', name[:-len('.cpp')] + '_test.cpp')
                    test.parent.mkdir(parents=True, exist_ok=True)
                    test.touch()
            return tidy.findings(folder)

    def assert_breach(self, files, path, line, part):
        found = self.findings(files)
        self.assertEqual([(p, n) for p, n, _ in found], [(path, line)], found)
        self.assertIn(part, found[0][2])

    def assert_clean(self, files):
        self.assertEqual(self.findings(files), [])

    def test_every_room_may_not_include_what_stands_above_it(self):
        for room, below in rules.ROOMS.items():
            for other in rules.ROOMS:
                text = header(f'#include "{other}/x.hpp"\n')
                with self.subTest(room=room, other=other):
                    if other == room or other in below:
                        self.assert_clean({f'{room}/a.hpp': text})
                    else:
                        self.assert_breach({f'{room}/a.hpp': text}, f'{room}/a.hpp', 3, other)

    def test_sim_and_live_never_see_each_other(self):
        for one, other in [('sim', 'live'), ('live', 'sim')]:
            self.assertNotIn(other, rules.ROOMS[one])

    def test_inner_rooms_may_not_include_what_stands_above_them(self):
        for room, inner in rules.INNER_ROOMS.items():
            for below, above in zip(inner, inner[1:]):
                path = f'{room}/{below}/x.hpp'
                self.assert_breach({path: header(f'#include "{room}/{above}/y.hpp"\n')}, path, 3,
                                   'inner rooms')
                self.assert_breach({path: header(f'#include "{room}/y.hpp"\n')}, path, 3,
                                   'inner rooms')
                self.assert_clean({path: header(f'#include "{room}/{below}/y.hpp"\n'),
                                   f'{room}/{above}/y.hpp':
                                   header(f'#include "{room}/{below}/x.hpp"\n'),
                                   f'{room}/z.hpp': header(f'#include "{path}"\n')})

    def test_rooms_within_inner_rooms_keep_the_order_round_them_too(self):
        inner = {'live': ['control', 'run', 'rank'], 'live/run': ['files', 'losses']}
        path = 'live/run/files/x.hpp'
        with unittest.mock.patch.object(rules, 'INNER_ROOMS', inner):
            for above in ['live/run/losses', 'live/run', 'live/rank', 'live']:
                with self.subTest(above=above):
                    self.assert_breach({path: header(f'#include "{above}/y.hpp"\n')}, path, 3,
                                       'inner rooms')
            self.assert_clean({path: header('#include "live/control/y.hpp"\n'),
                               'live/run/y.hpp': header(f'#include "{path}"\n'),
                               'live/rank/y.hpp': header(f'#include "{path}"\n'),
                               'live/run/losses/y.hpp': header(f'#include "{path}"\n')})
            self.assert_breach({'live/control/y.hpp': header(f'#include "{path}"\n')},
                               'live/control/y.hpp', 3, 'inner rooms')

    def test_proto_imports_follow_the_arrows(self):
        self.assert_breach({'topologies/t.proto': 'syntax = "proto3";\n'
                                                  'import "traces/trace.proto";\n'},
                           'topologies/t.proto', 2, 'traces')

    def test_includes_name_the_full_path(self):
        self.assert_breach({'core/a.hpp': header('#include "b.hpp"\n')}, 'core/a.hpp', 3, 'core/b')

    def test_libraries_stay_in_their_room(self):
        for library in ['simgrid/s4u.hpp', 'grpcpp/grpcpp.h', 'nccl.h', 'cuda_runtime.h',
                        'pybind11/pybind11.h', 'yaml-cpp/yaml.h']:
            with self.subTest(library=library):
                self.assert_breach({'policies/a.hpp': header(f'#include <{library}>\n')},
                                   'policies/a.hpp', 3, ' ')

    def test_names_stand_in_their_rooms_namespace(self):
        homes = {'orrery', *rules.NAMESPACES.values()}
        for room in rules.ROOMS:
            mine = rules.NAMESPACES.get(room, 'orrery')
            for other in homes:
                text = header(f'namespace {other}::inner {{\nint a;\n}}\n')
                with self.subTest(room=room, other=other):
                    if other == mine:
                        self.assert_clean({f'{room}/a.hpp': text})
                    else:
                        self.assert_breach({f'{room}/a.hpp': text}, f'{room}/a.hpp', 3, mine)

    def test_nested_namespaces_are_read_with_what_is_around_them(self):
        nested = ('namespace std {\nstruct hash;\n}\nnamespace orrery {\nstruct A::B {};\n'
                  'namespace {\nint a;\n}\nnamespace live {\nint b;\n}\n}\n')
        self.assert_clean({'live/a.cpp': nested})
        self.assert_breach({'live/a.hpp': header(nested)}, 'live/a.hpp', 6, 'not in orrery')
        self.assert_breach({'policies/a.cpp': nested}, 'policies/a.cpp', 9, 'not in orrery::live')

    def test_a_type_of_a_room_below_may_be_announced(self):
        def announces(room):
            return header(f'namespace {room} {{\nclass A;\nenum class B : int;\n}}\n')
        self.assert_clean({'sim/a.hpp': announces('orrery'), 'cli/a.hpp': announces('orrery::sim')})
        for room in ['policies', 'live']:
            self.assert_breach({f'{room}/a.hpp': announces('orrery::sim')}, f'{room}/a.hpp', 3,
                               'not in orrery::sim')

    def test_every_ban_fails_in_policies(self):
        for code in ['int x = rand();', 'srand(1);', 'std::mt19937 g;', 'drand48();',
                     'std::random_device d;', 'auto v = std::getenv("A");', 'secure_getenv("A");',
                     'auto t = std::chrono::steady_clock::now();', 'clock_gettime(0, &t);',
                     'std::thread t;', 'std::jthread t;', 'auto f = std::async(g);',
                     'std::this_thread::sleep_for(x);', 'usleep(5);', 'pid = fork();',
                     'std::system("ls");', 'assert(x);', 'std::unordered_map<int, int> m;',
                     'if (backend.is_simulated()) {}', 'if (isSimulation) {}', 'if (is_live) {}',
                     'std::uniform_real_distribution<double> d;']:
            with self.subTest(code=code):
                found = self.findings({'policies/a.cpp': f'void f() {{\n  {code}\n}}\n'})
                self.assertEqual([(p, n) for p, n, _ in found], [('policies/a.cpp', 2)], found)

    def test_every_ban_says_what_to_write_instead(self):
        for pattern, _, advice in rules.BANNED + rules.BANNED_PYTHON:
            self.assertRegex(advice, '; (use|take|read|put|let|time|\\w)', pattern)

    def test_owners_of_clocks_threads_and_environment_may_use_them(self):
        self.assert_clean({
            'live/a.cpp': 'std::thread t;\nauto n = std::chrono::steady_clock::now();\n',
            'core/process.cpp': 'pid_t p = fork();\n',
            'cli/a.cpp': 'auto v = getenv("ORRERY_DATA");\n'})

    def test_comments_literals_and_look_alikes_are_no_breach(self):
        self.assert_clean({'policies/a.cpp': '''// rand() and getenv("x") are banned
/* std::thread
   fork() */
const char* a = "rand() // std::thread";
const char* b = R"x(getenv( ")x";
static_assert(sizeof(int) == 4);
int operand(int brand);
int x = my_rand(1) + 1'000'000;
char quote = '"';
void g() { fabric.assert (1); }
'''})

    def test_a_ban_after_a_digit_separator_or_quote_is_seen(self):
        self.assert_breach({'policies/a.cpp': "int x = 1'000;\nchar c = '\\'';\nint y = rand();\n"},
                           'policies/a.cpp', 3, 'rand')

    def test_python_bans(self):
        self.assert_breach({'python/orrery/a.py': 'import random\n'}, 'python/orrery/a.py', 1,
                           'seed')
        self.assert_breach({'python/orrery/a.py': 'x = run.is_simulated\n'}, 'python/orrery/a.py',
                           1, 'world')

    def test_long_lines(self):
        for name in ['core/a.hpp', 'core/a.proto', 'dev.sh', 'python/a.py', 'core/CMakeLists.txt']:
            text = header() if name.endswith('.hpp') else '\n\n'
            with self.subTest(name=name):
                self.assert_breach({name: text + '#' + ' ' * 100 + '\n'}, name, 3, '101 columns')
                self.assert_clean({name: text + '#' + ' ' * 99 + '\n'})

    def test_unfinished_work(self):
        for mark in ['FIX' + 'ME', 'TO' + 'DO', 'XX' + 'X']:
            self.assert_breach({'docs/A.md': f'# A\n{mark}: later\n'}, 'docs/A.md', 2, mark)
        self.assert_clean({'core/a.cpp': 'char t[] = "/tmp/a.XXXXXX";\n'})

    def test_paths_of_one_machine(self):
        for folder in ['wo' + 'rk', 'ho' + 'me', 'Us' + 'ers']:
            self.assert_breach({'docs/A.md': f'see /{folder}/me\n'}, 'docs/A.md', 1, folder)
            self.assert_clean({'docs/A.md': f'see a/{folder}/me\n'})

    def test_headers(self):
        self.assert_breach({'core/a.hpp': '#pragma once\n'}, 'core/a.hpp', 1, 'opens')
        self.assert_breach({'core/a.hpp': '// Header of a test.\n'}, 'core/a.hpp', 1, 'pragma')

    def test_long_cxx_functions(self):
        for head in ['int f(int a) {', 'A::A(int b) : b_{b}, c_(1) {', 'TEST(A, B) {',
                     'class A {\n  int f() const {', 'namespace {\nvoid f(\n    int a) noexcept {',
                     'bool operator<(A a, A b) {', 'const int k = [](int a) {',
                     'template <class T>\n  requires(sizeof(T) > 1)\nT f() {']:
            with self.subTest(head=head):
                lines = head.count('\n') + 1 - head.startswith(('class', 'namespace'))
                body = '  x();\n' * (rules.MAX_FUNCTION_LINES - 1 - lines)
                close = '}};' if head.startswith('class') else '}'
                text = '\nint before = 1;\n' + head + '\n' + body
                self.assert_clean({'core/a.cpp': text + close + '\n'})
                first = 4 if head.startswith(('class', 'namespace')) else 3
                self.assert_breach({'core/a.cpp': text + '  x();\n' + close + '\n'},
                                   'core/a.cpp', first, '71 lines')

    def test_long_tables_and_classes_are_no_functions(self):
        self.assert_clean({'core/a.cpp': 'const std::array kA = {\n' + '  f(1),\n' * 90 + '};\n'
                                         'struct A {\n' + '  int f(int a);\n' * 90 + '};\n'})

    def test_classes_of_more_than_one_purpose(self):
        def of(methods, members):
            return header('class A : public B {\n public:\n  A();\n  int f(int a) { return a_; }\n'
                          ' private:\n  struct Inner { int x_; void g(); };\n'
                          + '  void g(int a) const;\n' * methods
                          + ''.join(f'  std::map<int, int> a{i}_;\n' for i in range(members - 2))
                          + '  int b_ = 0, c_{};\n};\n')
        most, members = rules.MAX_PRIVATE_METHODS, rules.MAX_MEMBERS
        self.assert_clean({'core/a.hpp': of(most, members)})
        self.assert_breach({'core/a.hpp': of(most + 1, 2)}, 'core/a.hpp', 3, f'{most + 1} private')
        self.assert_breach({'core/a.hpp': of(0, members + 1)}, 'core/a.hpp', 3,
                           f'{members + 1} data')

    def test_what_a_class_hides_counts_as_well(self):
        def of(methods, members):
            return ('#include "core/a.hpp"\nstruct A::State {\n  State(int a);\n'
                    + '  bool g(int a) const;\n' * methods
                    + ''.join(f'  std::map<int, int> a{i};\n' for i in range(members - 2))
                    + '  int b = 0, c{};\n};\n')
        most, members = rules.MAX_PRIVATE_METHODS, rules.MAX_MEMBERS
        beside = {'core/a.hpp': header()}
        self.assert_clean(beside | {'core/a.cpp': of(most, members)})
        self.assert_breach(beside | {'core/a.cpp': of(most + 1, 2)}, 'core/a.cpp', 2,
                           f'{most + 1} private')
        self.assert_breach(beside | {'core/a.cpp': of(0, members + 1)}, 'core/a.cpp', 2,
                           f'{members + 1} data')

    def test_long_python_and_shell_functions(self):
        self.assert_breach({'python/a.py': 'def f():\n' + '    x = 1\n' * 70}, 'python/a.py', 1,
                           '71 lines')
        self.assert_breach({'a.sh': 'f() {\n' + '  x\n' * 69 + '}\n'}, 'a.sh', 1, '71 lines')

    def test_long_files(self):
        short = {f'core/schema/{i}.hpp': header() for i in range(20)}
        self.assert_clean(short | {'sim/a.hpp': header('\n' * 798)})
        self.assert_breach(short | {'sim/a.hpp': header('\n' * 799)}, 'sim/a.hpp', 801, '801')

    def test_the_90th_percentile_of_file_lengths(self):
        files = {f'sim/{i}.hpp': header('\n' * 600) for i in range(4)}
        files |= {f'core/schema/{i}.hpp': header() for i in range(10)}
        self.assert_breach(files, 'sim/1.hpp', 1, '90th')

    def test_core_stays_small(self):
        files = {f'core/{i:02}.hpp': header() for i in range(rules.MAX_CORE_FILES)}
        self.assert_clean(files)
        self.assert_breach(files | {'core/99.hpp': header()}, 'core/99.hpp', 1, 'core/ has 11')

    def test_every_source_has_a_test(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, 'policies/queues/a.cpp')
            source.parent.mkdir(parents=True)
            source.touch()
            found = tidy.findings(folder)
            self.assertEqual(found, [('policies/queues/a.cpp', 1, 'has no test: write '
                                      'tests/policies/queues/a_test.cpp')])
            listed = pathlib.Path(folder, tidy.COVERED_BY)
            listed.parent.mkdir(parents=True)
            pathlib.Path(folder, 'tests/b_test.cpp').touch()
            listed.write_text('# Why\npolicies/queues/a.cpp  tests/b_test.cpp  # both\n')
            self.assertEqual(tidy.findings(folder), [])

    def test_a_python_test_will_do_for_a_command(self):
        for room, count in [('cli', 0), ('sim', 1)]:
            with tempfile.TemporaryDirectory() as folder:
                for name in [f'{room}/a.cpp', f'tests/{room}/a_test.py']:
                    path = pathlib.Path(folder, name)
                    path.parent.mkdir(parents=True)
                    path.touch()
                self.assertEqual(len(tidy.findings(folder)), count)

    def test_the_list_of_covered_files_is_kept_up(self):
        listed = tidy.COVERED_BY
        self.assert_breach({listed: 'core/gone.cpp  tests/core/a_test.cpp\n', 'core/a.cpp': ''},
                           listed, 1, 'does not exist')
        for test in ['', 'tests/core/gone_test.cpp', 'core/a.cpp']:
            self.assert_breach({listed: f'core/a.cpp  {test}\n', 'core/a.cpp': ''}, listed, 1,
                               'name the test')

    def test_texts_are_compared_with_words_in_listed_files_only(self):
        code = {'sim/x.hpp': header('inline bool f(S s) { return s == "ring"; }\n')}
        self.assert_breach(code, 'sim/x.hpp', 3, 'names.hpp')
        self.assert_breach({'sim/x.hpp': header('bool b = "Ring" != s;\n')}, 'sim/x.hpp', 3, 'enum')
        self.assert_clean({'sim/x.hpp': header('bool b = s == "" || s == "-x";  // == "ring"\n')})
        self.assert_clean({'tests/sim/x.hpp': code['sim/x.hpp']})
        listed = {**code, tidy.COMPARED_WORDS: '# reasons\nsim/x.hpp  a foreign format\n'}
        self.assert_clean(listed)
        self.assert_breach({**listed, 'sim/x.hpp': header()}, tidy.COMPARED_WORDS, 2, 'any more')
        self.assert_breach({**code, tidy.COMPARED_WORDS: 'sim/x.hpp\n'}, tidy.COMPARED_WORDS, 1,
                           'reason')

    def test_scenarios_do_not_know_what_is_claimed(self):
        claims = '[{"row": "7", "figures": [42], "pair": "a"}]'
        folder = 'examples/claims/'
        files = {f'{folder}claims.json': claims, f'{folder}a-before.yaml': 'steps: 420\n',
                 f'{folder}a-after.yaml': '# of 42\n'}
        self.assert_breach(files, f'{folder}a-after.yaml', 1, '42 is a number of claim 7')
        del files[f'{folder}a-after.yaml']
        self.assert_breach(files, f'{folder}claims.json', 1, 'there is no')

    def test_output_and_exit_code(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(tidy.main([folder]), 0)
            pathlib.Path(folder, 'a.sh').write_text('x' * 101)
            self.assertEqual(tidy.main([folder]), 1)

    def test_names_of_overrides_are_the_choice_of_their_base(self):
        text = header('class A : public B {\n public:\n  void take(int a) override;\n'
                      '  int told(int a = 1) const override { return 1; }\n};\n')
        self.assertEqual(self.findings({'core/a.hpp': text}), [])

    def test_bare_verbs_are_refused_in_headers(self):
        for code in ['void take();', 'virtual int keep(int a) = 0;',
                     '[[nodiscard]] bool told() const;',
                     'std::map<int, std::function<void()>> hand() const { return a_; }',
                     'template <class T>\n  void leave(T a);', 'inline void meet() { run(); }',
                     'struct B {\n    int a = 0;\n    void put(int);\n  };']:
            text = header(f'class A {{\n public:\n  {code}\n}};\n')
            with self.subTest(code=code):
                found = self.findings({'core/a.hpp': text})
                self.assertEqual(len(found), 1, found)
                self.assertIn('bare verb', found[0][2])

    def test_allowed_names_and_calls_are_no_bare_verbs(self):
        self.assert_clean({'core/a.hpp': header(
            'class A {\n  void run();\n  void claim_gpus();\n  bool is_lost() const;\n'
            '  int size() const { return take(keep(1)); }\n  A() : a_(take()) {}\n'
            '  std::function<int(int)> f_ = leave(1);\n  bool operator()(int take);\n};\n'),
            'core/b.cpp': 'void take();\n',
            'core/c.hpp': header('namespace a {\nvoid describe(int event);\n}\n')})

    def test_comments_without_a_subject(self):
        for text in ['Of the job.', 'What it takes.', 'And that.', 'In bytes', 'from the start']:
            self.assertTrue(words.lacks_subject(text), text)
        for text in ['Bytes of the job.', 'For example, 3 ranks.', 'Returns what was read.',
                     'If a rank is lost, the step repeats on all others.', 'with_gpus(a): a call']:
            self.assertFalse(words.lacks_subject(text), text)

    def test_many_comments_without_a_subject_fail(self):
        def of(count):
            return header('int a;  // of the job\n' * count)
        self.assert_clean({'core/a.hpp': of(words.MAX_NO_SUBJECT)})
        found = self.findings({'core/a.hpp': of(words.MAX_NO_SUBJECT + 1)})
        self.assertEqual(len(found), words.MAX_NO_SUBJECT + 1)
        self.assertIn('no subject', found[0][2])

    def test_what_has_a_budget_in_each_file(self):
        line = '// Returns what a rank sends.\n\n'
        self.assert_clean({'core/a.hpp': header(line)})
        self.assert_breach({'core/a.hpp': header(line * 2)}, 'core/a.hpp', 3, 'what')
        many = '// A rank sends bytes to a rank of its node.\n' * 120
        self.assert_clean({'core/a.hpp': header(line * 2 + many)})

    def test_the_words_of_every_kind_of_comment_are_read(self):
        files = {'a/x.cpp': '/* one */ int a;  // two\n', 'a/x.proto': '// one two\n',
                 'a/x.py': '"""One."""\nx = 1  # two\n', 'a/x.sh': 'f # one\n# two\n',
                 'a/CMakeLists.txt': '# one two\n', 'a/x.hpp.in': '// one two\n'}
        for path, text in files.items():
            comments = words._comments_of(path, text)
            self.assertEqual(sum(len(words._words(c.text)) for c in comments), 2, path)
        self.assertEqual(words._comments_of('a/x.cpp', 'char a[] = "// one";\n'), ())

    def test_algorithms_have_an_example_or_a_formula(self):
        listed = {words.ALGORITHMS: 'core/a.hpp\n'}
        enough = '// Returns a rank.\n\n'
        self.assert_breach(listed | {'core/a.hpp': header(enough)}, 'core/a.hpp', 1, 'formula')
        for comment in ['// For example, 3 ranks take 2 s.\n', '// time = bytes / bandwidth\n']:
            self.assert_clean(listed | {'core/a.hpp': header(enough + comment)})
        self.assert_breach(listed, words.ALGORITHMS, 1, 'does not exist')

    def test_the_sums_of_the_project_are_checked(self):
        listed = {words.ALGORITHMS: '\n'}
        self.assert_breach(listed | {'core/a.hpp': header('// A rank sends bytes.\n' * 30)},
                           words.ALGORITHMS, 1, '"returns"')
        text = header('// Returns what a rank sends.\n')
        whats = {f'core/schema/{i}.hpp': text for i in range(9)}
        self.assert_breach(listed | whats, words.ALGORITHMS, 1, '"what"')


if __name__ == '__main__':
    unittest.main()
