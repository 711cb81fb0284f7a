#!/usr/bin/env python3
"""Compares docs/EXTENDING.md with the newest example of each kind of addition: the files that its
list states, and the files that name the example.

    extending_test.py            as a test
    extending_test.py --print    the number of stated and of needed files of each kind

A file that names the example is a step of the addition, which the list must state, unless it is a
test, a page, an example, a build file or a generated file, or BESIDE says why it is no step. A
stated file must exist and name the example, unless its sentence has a condition ("if", "only").
"""
import dataclasses
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = 'docs/EXTENDING.md'
SUFFIXES = ('.hpp', '.cpp', '.proto', '.py', '.yaml', '.md', '.txt')
# Not a step of one kind: tests and pages are stated where a kind needs them.
NO_STEPS = re.compile(r'^(tests|docs|examples|\.github)/|(^|/)(README|CHANGELOG)\.md$'
                      r'|CMakeLists\.txt$|^python/orrery/(values|settings|actions|events)\.py$')
CONDITION = re.compile(r'\b(if|If|only|Only|unless|instead)\b')


@dataclasses.dataclass(frozen=True)
class Kind:
    """A heading of the page, and the pattern of the name of its newest example, or of the names of
    several examples that need different files (a fault of a rank, and one that rates draw)."""
    heading: str
    pattern: str
    replaced: tuple = ()  # placeholders in the paths of the list: (('NAME', 'plan'),)
    beside: tuple = ()    # (file, reason): names the example, and is no step of an addition
    spared: tuple = ()    # (file, reason): stated, and not needed by this example


KINDS = (
    Kind('A policy', r'power-budget|power_budget\.hpp|PowerBudgetP',
         (('FAMILY', 'power'), ('NAME', 'power_budget')),
         spared=(('policies/seam/policy.hpp', 'the interface, to read'),)),
    Kind('A queue policy', r'finish[-_]time[-_]fairness|FinishTimeFairness',
         (('NAME', 'finish_time_fairness'),),
         beside=(('policies/queues/ranked.hpp', 'a comment'),)),
    Kind('A kind of fault',
         r'link_down|LinkDown|Fault::kDown|\bFailureEffect\b|(fault|kind|first\))\.has_down\(',
         spared=(('docs/faults.md', 'has the fault in words'),
                 ('docs/month.md', 'has the fault in words'))),
    Kind('A property of a fault', r'(?<!is_)corrupted(?!`)|corrupted_since',
         beside=(('policies/seam/event.hpp', 'a field of an event'),
                 ('policies/seam/job.hpp', 'the state of a job'),
                 ('policies/seam/job_lifecycle.hpp', 'the state of a job'),
                 ('policies/seam/world_actions.cpp', 'the state of a job'),
                 ('policies/recovery/ways.hpp', 'a comment'),
                 ('traces/trace.proto', 'a field of an event')),
         spared=(('docs/faults.md', 'has the property in words'),)),
    Kind('A GPU', r'\b(B300|MI355X)\b|\bV100-32GB',
         beside=(('topologies/catalog/presets.yaml', 'a cluster is an addition of its own'),)),
    Kind('A software stack', r'pytorch-fsdp|PyTorch FSDP',
         spared=(('docs/accuracy.md', 'the stack has no measured runs'),
                 ('python/calibration/accuracy.py', 'writes the page for all stacks'),
                 ('python/calibration/sweeps.py', 'writes the page for all stacks'))),
    Kind('A format of job logs', r'\bdlrm\b',
         spared=(('docs/jobs.md', 'has the format in words'),
                 ('traces/jobs/job_log.cpp', 'the jobs of the log have ids'),
                 ('README.md', 'that of the samples; has the format in words'))),
    Kind('A collective algorithm', r'halving[-_]doubling|HalvingDoubling',
         (('NAME', 'halving_doubling'),),
         spared=(('traces/trace.proto', 'has the name in capitals'),
                 ('python/generate_records.py', 'writes all names'))),
    Kind('A command', r'\badd_twin\b|"twin"', (('NAME', 'twin'),),
         spared=(('docs/commands.md', 'has the command in words'),
                 ('tests/cli/completion_test.py', 'has the words of import'))),
    Kind('A fabric', r'\bplanes\b|\b[Tt]orus|dragonfly',
         beside=(('live/transport/credentials.hpp', 'planes of control and data'),
                 ('topologies/builder.hpp', 'a comment'),
                 ('traces/scenario/scenario.cpp', 'a message about faults of a collective'))),
    Kind('A family of models, a format of cluster files',
         r'Format::simgrid|\b(read|write)_simgrid_platform|enum class (Cluster|Written)Format'
         r'|\bgpt_oss\b',
         (('NAME', 'simgrid'),),
         spared=(('docs/models.md', 'has the format in words'),)),
    Kind('An action, a setting or an event', r'\bPowerCap(Record)?\b',
         beside=(('policies/power/power_budget.cpp', 'a policy that decides the setting'),
                 ('policies/power/power_budget.hpp', 'a policy that decides the setting'),
                 ('sim/training/next_step.hpp', 'a comment')),
         spared=tuple((file, f'of {kind}') for kind, files in (
             ('actions', ('sim/training/assignments.cpp', 'sim/replay/recorded_jobs.cpp',
                          'live/jobs/local_jobs.cpp', 'policies/seam/decision.hpp')),
             ('settings of live mode', ('live/run/step_driver.cpp',
                                        'tests/policies/seam/random_decisions.hpp')),
             ('events', ('policies/seam/event.hpp', 'policies/record/encode_seen.cpp',
                         'policies/seam/world_events.cpp', 'live/run/operator/status_board.cpp',
                         'tests/policies/record/encode_seen_test.cpp')),
         ) for file in files)),
)


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


def compared(kind, page, found):
    """Returns (stated, needed, messages) of a kind; `found`: the files that name the example."""
    text = sections(page).get(kind.heading)
    if text is None:
        return set(), set(), [f'{PAGE}: expected a section "{kind.heading}"']
    stated = {}
    for step in steps_of(text):
        stated |= stated_files(step, kind.replaced)
    every = set(re.findall(r'`([\w./-]+)`', text)) | set(stated)
    beside = {file for file, _ in kind.beside}
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


class Extending(unittest.TestCase):
    """The page against the code, and proofs that the comparison can fail."""
    maxDiff = None

    def test_the_lists_state_the_files_that_the_newest_examples_need(self):
        page = (ROOT / PAGE).read_text(encoding='utf-8')
        found = [message for kind in KINDS
                 for message in compared(kind, page, files_with(kind.pattern))[2]]
        self.assertEqual(found, [])

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
