#!/usr/bin/env python3
"""Compares docs/EXTENDING.md with the newest example of each kind of addition: the files that its
list states, and the files that name the example. Compares the patterns of `ctest -R` on the page
with the names of the tests.

    extending_test.py            as a test
    extending_test.py --print    the number of stated and of needed files of each kind

A file that names the example is a step of the addition, which the list must state, unless it is a
page, an example, a benchmark, a build file or a generated file, or BESIDE says why it is no step.
The first list of the page covers the test of a stated source file (the test of its name, and the
one in tests/tidy/covered_by.txt); every other test that names the example is a step. A stated file
must exist and name the example, unless its sentence has a condition ("if", "only").
"""
import dataclasses
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = 'docs/EXTENDING.md'
SUFFIXES = ('.hpp', '.cpp', '.proto', '.py', '.yaml', '.md', '.txt')
# Not a step of one kind: pages and benchmarks are stated where a kind needs them.
NO_STEPS = re.compile(r'^(docs|examples|tests/bench|\.github)/|(^|/)(README|CHANGELOG)\.md$'
                      r'|CMakeLists\.txt$|^python/orrery/(values|settings|actions|events)\.py$'
                      r'|^tests/tidy/extending_test\.py$')
COVERED_BY = 'tests/tidy/covered_by.txt'
CASE = re.compile(r'^(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)'
                  r'\(\s*(\w+),\s*(\w+)', re.MULTILINE)
CONDITION = re.compile(r'\b(if|If|only|Only|unless|instead)\b')


@dataclasses.dataclass(frozen=True)
class Kind:
    """A heading of the page, and the pattern of the name of its newest example, or of the names of
    several examples that need different files (a fault of a rank, and one that rates draw)."""
    heading: str
    pattern: str
    replaced: tuple = ()  # placeholders in the paths of the list: (('NAME', 'plan'),)
    after: str = ''       # heading of the list whose steps come first
    beside: tuple = ()    # (file, reason): names the example, and is no step of an addition
    spared: tuple = ()    # (file, reason): stated, and not needed by this example


KINDS = (
    Kind('A policy', r'"prefetch"|name: prefetch\b|\bprefetch, recover|prefetch\.hpp'
         r'|\bPrefetchP(olicy|arameters)\b',
         (('FAMILY', 'input'), ('NAME', 'prefetch')),
         beside=(('tests/sim/prefetch_test.cpp', 'whole runs under the policy'),
                 ('tests/python/run_policies_test.py', 'whole runs under the policy'),
                 ('live/programs/policies/program_backend.cpp', 'a setting of the same name'),
                 ('python/orrery/programs/steering.py', 'a setting of the same name')),
         spared=(('policies/seam/policy.hpp', 'the interface, to read'),)),
    Kind('A queue policy',
         r'ElasticP(olicy|arameters)|elastic\.hpp|[\'"], \'elastic\'|"elastic"(}|\)| \|\||,? ?new_)'
         r'|multifactor, elastic|\| `elastic` \||\A"elastic"\Z', (('NAME', 'elastic'),), 'A policy',
         beside=(('tests/cli/elastic_jobs_test.py', 'whole runs under the policy'),
                 ('tests/examples/by_name.hpp', 'an example of the same name'),
                 ('tests/sim/forecast/recorded_queue_test.cpp', 'a refusal of elastic jobs'),
                 ('sim/replay/replay_change.cpp', 'policies that read estimates or preempt'),
                 ('tests/sim/replay/replay_change_test.cpp', 'all queue policies'))),
    Kind('A kind of fault',
         r'link_down|LinkDown|Fault::kDown|\bFailureEffect\b|(fault|kind|first\))\.has_down\(',
         beside=(('tests/live/fault_run_test.cpp', 'whole runs'),
                 ('tests/live/run/live_backend_test.cpp', 'whole runs'),
                 ('tests/sim/training/assignments_test.cpp', 'whole runs'),
                 ('tests/sim/world/sim_backend_test.cpp', 'whole runs')),
         spared=(('docs/faults.md', 'has the fault in words'),
                 ('docs/fit.md', 'has the fault in words'),
                 ('docs/both-worlds.md', 'has the scenario in words'),
                 ('traces/failures/incident_log.hpp', 'has the effect as a field'),
                 ('traces/failures/failure_section.cpp', 'has the effect as a field'),
                 ('tests/traces/failures/incident_log_test.cpp', 'has the effect in a log'),
                 ('tests/traces/failures/failure_section_test.cpp', 'has the effect in a log'),
                 *((file, 'of an effect that is not one of links') for file in (
                     'sim/estimates/plan/hardware_state.hpp', 'sim/estimates/plan/fold.cpp',
                     'sim/estimates/prices/cost_model.hpp',
                     'sim/estimates/step/compute_streams.cpp',
                     'sim/estimates/step/step_record.cpp', 'sim/estimates/step/step_hardware.cpp',
                     'sim/estimates/step/iteration.hpp', 'sim/estimates/step/stepper.cpp',
                     'sim/training/step_conditions.hpp', 'sim/training/fitted_job.cpp',
                     'sim/training/next_step.cpp', 'tests/sim/estimates/plan/fold_test.cpp',
                     'tests/sim/estimates/step/iteration_test.cpp')))),
    Kind('A property of a fault', r'(?<!is_)corrupted(?!`)|corrupted_since',
         beside=(('policies/seam/event.hpp', 'a field of an event'),
                 ('policies/seam/job.hpp', 'the state of a job'),
                 ('policies/seam/job_lifecycle.hpp', 'the state of a job'),
                 ('policies/seam/world_actions.cpp', 'the state of a job'),
                 ('policies/recovery/ways.hpp', 'a comment'),
                 ('traces/trace.proto', 'a field of an event'),
                 ('tests/policies/seam/world_actions_test.cpp', 'the state of a job')),
         spared=(('docs/faults.md', 'has the property in words'),)),
    Kind('A GPU', r'\b(B300|MI355X)\b|\bV100-32GB',
         beside=(('topologies/catalog/presets.yaml', 'a cluster is an addition of its own'),
                 ('tests/sim/estimates/predict/collective_interval_test.cpp',
                  'a GPU whose collectives nobody measured'),
                 ('tests/cli/calibration_test.py', 'rows of a made table'),
                 ('tests/sim/estimates/prices/cost_model_test.cpp', 'attention on four GPUs'),
                 ('traces/workload/framework.cpp', 'where a habit was measured'))),
    Kind('A software stack', r'pytorch-fsdp|PyTorch FSDP',
         beside=(('tests/traces/workload/layout_choices_test.cpp', 'a stack of each habit'),
                 ('tests/traces/workload/step_graph_test.cpp', 'a stack of each way of sharding'),
                 ('tests/programs/accuracy.py', 'the stack of a program')),
         spared=(('docs/accuracy.md', 'the stack has no measured runs'),
                 ('python/calibration/accuracy.py', 'writes the page for all stacks'),
                 ('python/calibration/sweeps.py', 'writes the page for all stacks'))),
    Kind('A format of job logs', r'\bdlrm\b',
         beside=(('tests/cli/newcomer_test.py', 'the commands of a page'),
                 ('tests/cli/ignored_columns_test.py', 'all formats that are tables')),
         spared=(('docs/jobs.md', 'has the format in words'),
                 ('traces/jobs/job_log.cpp', 'the jobs of the log have ids'),
                 ('README.md', 'that of the samples; has the format in words'))),
    Kind('A format of job logs', r'\bbatsim(_workload)?\b',
         beside=(('tests/cli/pybatsim/fifo.py', 'a scheduler'),
                 ('tests/cli/scheduler_test.py', 'schedulers')),
         spared=(('docs/jobs.md', 'has the format in words'),
                 ('traces/jobs/job_formats.cpp', 'has the formats that are tables'),
                 ('tests/traces/jobs/job_log_test.cpp', 'a format in JSON has a test of its own'),
                 ('README.md', 'that of the samples; has the format in words'))),
    Kind('A collective algorithm', r'halving[-_]doubling|HalvingDoubling',
         (('NAME', 'halving_doubling'),),
         beside=(('tests/examples/by_name.hpp', 'the algorithms that an example tries'),
                 ('tests/python/observed_test.py', 'the algorithms that a run may choose'),
                 ('tests/policies/collectives/collective_table_test.cpp', 'one of all')),
         spared=(('traces/trace.proto', 'has the name in capitals'),
                 ('python/generate_records.py', 'writes all names'))),
    Kind('A command', r'\badd_twin\b|"twin"', (('NAME', 'twin'),),
         beside=(('tests/chaos/slurm_target.py', 'a program under test'),
                 ('tests/chaos/slurm_twin.py', 'a program under test'),
                 ('tests/chaos/twin_runs.py', 'a program under test'),
                 ('tests/cli/job_names_test.py', 'a second test of the command'),
                 ('tests/cli/kubernetes_test.py', 'a program under test'),
                 ('tests/cli/power_jobs_test.py', 'a refusal of the command'),
                 ('tests/cli/twin_run_test.py', 'a second test of the command'),
                 ('tests/cli/twin_status_test.py', 'a second test of the command'),
                 ('cli/shared/twin_status.hpp', 'the status of the command'),
                 ('python/plots/twin.py', 'a picture')),
         spared=(('docs/commands.md', 'has the command in words'),
                 ('tests/cli/completion_test.py', 'has the words of import'))),
    Kind('A fabric', r'\bplanes\b|\b[Tt]orus|dragonfly',
         beside=(('live/transport/credentials.hpp', 'planes of control and data'),
                 ('topologies/catalog/presets.yaml', 'clusters with such a network'),
                 ('tests/topologies/catalog_test.cpp', 'clusters with such a network'),
                 ('tests/live/transport/credentials_test.cpp', 'planes of control and data'),
                 ('tests/sim/fabric_test.cpp', 'losses of planes'),
                 ('topologies/builder.hpp', 'a comment'),
                 ('traces/scenario/scenario.cpp', 'a message about faults of a collective'))),
    Kind('A family of models, a format of cluster files',
         r'Format::simgrid|\b(read|write)_simgrid_platform|enum class (Cluster|Written)Format'
         r'|\bgpt_oss\b|\bgemma3\b',
         (('NAME', 'simgrid'),),
         spared=(('docs/models.md', 'has the format in words'),)),
    Kind('An action, a setting or an event', r'\b(PowerCap|Prefetch)(Record)?\b',
         beside=(*((file, 'a policy that decides the setting') for file in (
                     'policies/input/prefetch.cpp', 'policies/input/prefetch.hpp',
                     'policies/power/power_budget.cpp', 'policies/power/power_budget.hpp',
                     'tests/policies/input/prefetch_test.cpp', 'tests/sim/prefetch_test.cpp',
                     'tests/policies/power/power_budget_test.cpp')),
                 ('policies/seam/samples.hpp', 'a comment'),
                 ('sim/training/next_step.hpp', 'a comment'),
                 ('sim/training/storage_traffic.cpp', 'a comment'),
                 ('traces/scenario.proto', 'a comment')),
         spared=tuple((file, f'of {kind}') for kind, files in (
             ('actions', ('sim/training/assignments.cpp', 'sim/replay/recorded_jobs.cpp',
                          'live/run/step_driver.cpp', 'live/jobs/local_jobs.cpp',
                          'policies/seam/decision.hpp')),
             ('settings of live mode', ('live/run/next_step.cpp',
                                        'tests/policies/seam/random_decisions.hpp')),
             ('events', ('policies/seam/event.hpp', 'policies/record/encode_seen.cpp',
                         'policies/seam/world_events.cpp', 'live/run/operator/status_board.cpp',
                         'tests/policies/record/encode_seen_test.cpp')),
         ) for file in files)),
)


# Tables that have a line for each example: heading, file, pattern of the name of an example, and
# the file that the examples of the heading have, if the table has those of other headings, too.
TABLES = (
    ('A policy', 'policies/run/registry.cpp', r'Entry\{"([\w-]+)"', ''),
    ('A queue policy', 'policies/run/registry.cpp', r'Entry\{"([\w-]+)"', 'policies/queues/{}.hpp'),
    ('A GPU', 'topologies/catalog/gpus.yaml', r'^  - name: (\S+)', ''),
    ('A format of job logs', 'traces/jobs/job_formats.hpp', r'^  (\w+),?$', ''),
    ('An action, a setting or an event', 'policies/seam/decision.cpp', r'"(\w+)"', ''),
)


def dated_lines(file):
    """Returns (time, line) of the lines of a file, as git knows them; nothing without its
    history."""
    def git(*words):
        return subprocess.run(['git', '-C', str(ROOT), *words], capture_output=True, text=True,
                              check=False).stdout
    if git('rev-parse', '--is-shallow-repository').strip() != 'false':
        return []
    found, time = [], 0
    for line in git('blame', '--line-porcelain', '--', file).splitlines():
        if line.startswith('author-time '):
            time = int(line.split()[1])
        elif line.startswith('\t'):
            found.append((time, line[1:]))
    return found


def newest_of(lines, pattern, file=''):
    """Returns the names in the newest of the dated lines that have one, of those with a file."""
    named = [(time, name) for time, line in lines for name in re.findall(pattern, line)
             if not file or (ROOT / file.format(name.replace('-', '_'))).is_file()]
    newest = max((time for time, _ in named), default=0)
    return {name for time, name in named if time == newest}


def sections(page):
    """Returns the text below each heading of the page."""
    parts = re.split(r'^## (.*)$', page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def steps_of(text):
    """Returns the numbered steps of a section, each on one line."""
    found = re.findall(r'^\d+\. .*?(?=^\d+\. |\n\n|\Z)', text + '\n\n', re.MULTILINE | re.DOTALL)
    return [' '.join(step.split()) for step in found]


def stated_files(step, replaced=()):
    """Returns the files that a step names, as path -> whether the sentence has a condition. A name
    without a folder is beside the path before it, and `.cpp` is the source of the header before."""
    files, last = {}, ''
    for sentence in re.split(r'(?<=[.;]) ', step):
        conditional = CONDITION.search(sentence) is not None
        for word in re.findall(r'`([\w./-]+)`', sentence):
            for name, value in replaced:
                word = word.replace(name, value)
            if word == '.cpp' and last:
                word = last.rsplit('.', 1)[0] + '.cpp'
            elif not word.endswith(SUFFIXES):
                continue
            elif '/' not in word and last:
                word = str(pathlib.PurePath(last).parent / word)
            last = word
            files[word] = files.get(word, True) and conditional
    return files


def files_with(pattern):
    """Returns the files of the repository, or of an unpacked archive of it, with a pattern."""
    said = subprocess.run(['git', '-C', str(ROOT), 'grep', '-lP', pattern, '--',
                           *(f'*{suffix}' for suffix in SUFFIXES)],
                          capture_output=True, text=True, check=False)
    if said.returncode == 0:
        return set(said.stdout.splitlines())
    names = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob('*')
             if path.suffix in SUFFIXES and path.is_file())
    return {name for name in names if not name.startswith(('build', '.')) and
            re.search(pattern, (ROOT / name).read_text(encoding='utf-8', errors='replace'))}


def tests_of(sources):
    """Returns the tests that the first list of the page gives to the source files."""
    lines = (ROOT / COVERED_BY).read_text(encoding='utf-8').splitlines()
    covered = dict(line.split()[:2] for line in lines if line and not line.startswith('#'))
    named = {f'tests/{source.rsplit(".", 1)[0]}_test.cpp' for source in sources}
    return named | {covered[source] for source in sources if source in covered}


def compared(kind, page, found):
    """Returns (stated, needed, messages) of a kind; `found`: the files that name the example."""
    parts = sections(page)
    text = parts.get(kind.heading)
    if text is None:
        return set(), set(), [f'{PAGE}: expected a section "{kind.heading}"']
    stated = {}
    for step in steps_of(text):
        stated |= stated_files(step, kind.replaced)
    every = set(stated)
    for part in (re.split('^## ', page, maxsplit=1, flags=re.MULTILINE)[0],
                 parts.get(kind.after, ''), text):
        every |= set(re.findall(r'`([\w./-]+)`', part))
    beside = {file for file, _ in kind.beside} | tests_of(stated)
    needed = {file for file in found if not NO_STEPS.search(file)} - beside
    messages = [f'{kind.heading}: {file} names the newest example; state it as a step'
                for file in sorted(needed - every)]
    for file, conditional in sorted(stated.items()):
        if not (ROOT / file).is_file():
            messages.append(f'{kind.heading}: {file} does not exist')
        elif not (conditional or file in found or file in {name for name, _ in kind.spared}
                  or file.endswith('CMakeLists.txt')):
            messages.append(f'{kind.heading}: the newest example does not need {file}')
    return set(stated), needed, messages


def names_of_tests():
    """Returns the names of the tests as ctest has them, without a program of C++ before them."""
    found = set()
    for file in ROOT.glob('tests/**/*_test.cpp'):
        found |= {'.'.join(name) for name in CASE.findall(file.read_text(encoding='utf-8'))}
    for file in ROOT.glob('tests/**/CMakeLists.txt'):
        text = file.read_text(encoding='utf-8')
        found |= set(re.findall(r'(?:orrery_test|NAME)\s*\(?\s*(\w+_test)\b', text))
        for room, body in re.findall(r'orrery_pytests\((\w+)\s+([^)]*)\)', text):
            found |= {f'{room}.{word}' for word in body.split() if word.islower()}
    return found


def patterns_of(page):
    """Returns the alternatives of all patterns of `ctest -R` on the page."""
    return [each for pattern in re.findall(r"ctest [^`]*-R '([^']+)'", page)
            for each in pattern.split('|')]


class Extending(unittest.TestCase):
    """The page against the code, and proofs that the comparison can fail."""
    maxDiff = None

    def test_the_lists_state_the_files_that_the_newest_examples_need(self):
        page = (ROOT / PAGE).read_text(encoding='utf-8')
        found = [message for kind in KINDS
                 for message in compared(kind, page, files_with(kind.pattern))[2]]
        self.assertEqual(found, [])

    def test_the_examples_are_the_newest_ones(self):
        for heading, file, pattern, own in TABLES:
            newest = newest_of(dated_lines(file), pattern, own)
            kinds = [kind for kind in KINDS if heading in (kind.heading, kind.after)]
            known = any(re.search(kind.pattern, text) for kind in kinds for name in newest
                        for text in (name, f'"{name}"'))
            self.assertTrue(known or not newest, f'{heading}: add one of {newest} to KINDS')

    def test_the_newest_name_of_a_table_is_the_one_of_the_newest_line(self):
        lines = [(1, 'Entry{"sjf"'), (3, '};'), (2, 'Entry{"las"'), (2, 'Entry{"prefetch"')]
        self.assertEqual(newest_of(lines, r'Entry\{"(\w+)"'), {'las', 'prefetch'})
        self.assertEqual(newest_of(lines, r'Entry\{"(\w+)"', 'policies/queues/{}.hpp'), {'las'})
        self.assertEqual(newest_of([], 'x'), set())

    def test_a_file_that_is_not_stated_is_found(self):
        page = '## A GPU\n\n1. `topologies/catalog/gpus.yaml`: the rates.\n'
        _, _, found = compared(Kind('A GPU', ''), page,
                               {'topologies/catalog/gpus.yaml', 'sim/main.cpp'})
        self.assertEqual(
            found, ['A GPU: sim/main.cpp names the newest example; state it as a step'])

    def test_a_stated_file_that_is_absent_or_not_needed_is_found(self):
        page = ('## A GPU\n\n1. `sim/absent.cpp`: the rates; `sim/main.cpp`.\n'
                '2. `cli/main.cpp` if old.\n')
        _, _, found = compared(Kind('A GPU', ''), page, set())
        self.assertEqual(found, ['A GPU: sim/absent.cpp does not exist',
                                 'A GPU: the newest example does not need sim/main.cpp'])

    def test_a_test_that_is_not_stated_is_found_unless_it_is_the_one_of_a_stated_source(self):
        page = '## A GPU\n\n1. `core/units.hpp` and `policies/queues/las.cpp` if new.\n'
        _, _, found = compared(Kind('A GPU', ''), page, {
            'tests/core/units_test.cpp', 'tests/policies/queues/preemptive_test.cpp',
            'tests/sim/b_test.cpp', 'tests/bench/a_bench.py'})
        self.assertEqual(
            found, ['A GPU: tests/sim/b_test.cpp names the newest example; state it as a step'])

    def test_the_steps_of_the_list_before_count(self):
        page = '# All\n\n## A policy\n\n1. `sim/a.cpp`: x.\n\n## A queue policy\n\n1. y.\n'
        for after, missing in (('A policy', 0), ('', 1)):
            kind = Kind('A queue policy', '', after=after)
            self.assertEqual(len(compared(kind, page, {'sim/a.cpp'})[2]), missing)

    def test_every_list_has_a_command_for_its_tests_and_every_pattern_names_a_test(self):
        page = (ROOT / PAGE).read_text(encoding='utf-8')
        without = [heading for heading, text in sections(page).items()
                   if steps_of(text) and not patterns_of(text)]
        self.assertEqual(without, [])
        names = names_of_tests()
        self.assertEqual([each for each in patterns_of(page) if 'NAME' not in each and
                          not any(re.search(each, name) for name in names)], [])

    def test_the_table_of_queues_has_the_base_of_each_queue(self):
        table = sections((ROOT / PAGE).read_text(encoding='utf-8'))['A queue policy']
        known = (ROOT / 'policies/run/registry.cpp').read_text(encoding='utf-8')
        bases = {found for header in ROOT.glob('policies/queues/*.hpp')
                 for found in re.findall(r'^class (\w+) : public (\w+)',
                                         header.read_text(encoding='utf-8'), re.MULTILINE)}
        queues = {name for name, _ in bases if f'new_policy<{name}>' in known}
        used = {base for name, base in bases if name in queues} - queues
        self.assertGreater(len(queues), 10)
        self.assertEqual(used, set(re.findall(r'^\| `(\w+)` \(`', table, re.MULTILINE)))

    def test_each_search_of_a_page_finds_something(self):
        searches = [words for page in ROOT.glob('docs/*.md')
                    for words in re.findall(r'`(git grep [^`]+)`', page.read_text('utf-8'))]
        self.assertGreaterEqual(len(searches), 2)
        if (ROOT / '.git').exists():
            for words in searches:
                done = subprocess.run(shlex.split(words), cwd=ROOT, check=False,
                                      stdout=subprocess.DEVNULL)
                self.assertEqual(done.returncode, 0, words)

    def test_patterns_are_read_with_their_alternatives(self):
        self.assertEqual(patterns_of("`ctest --preset release -R 'A[.]|cli.b'`"),
                         ['A[.]', 'cli.b'])
        self.assertEqual(patterns_of("`ctest -N`, `git grep 'a'`"), [])

    def test_a_missing_section_is_found(self):
        self.assertEqual(len(compared(Kind('A GPU', ''), '## A model\n', set())[2]), 1)

    def test_names_without_a_folder_are_beside_the_path_before(self):
        step = '1. `a/NAME.hpp` and `.cpp`: x; `c.cpp`: y.'
        self.assertEqual(list(stated_files(step, (('NAME', 'b'),))),
                         ['a/b.hpp', 'a/b.cpp', 'a/c.cpp'])


def main():
    page = (ROOT / PAGE).read_text(encoding='utf-8')
    for kind in KINDS:
        stated, needed, messages = compared(kind, page, files_with(kind.pattern))
        print(f'{kind.heading}: {len(stated)} files stated, {len(needed)} needed beside tests')
        for message in messages:
            print('  ' + message)


if __name__ == '__main__':
    if '--print' in sys.argv:
        main()
    else:
        unittest.main()
