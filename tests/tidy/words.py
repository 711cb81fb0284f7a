"""The language of comments and names: the rules of docs/STYLE.md that a machine can count.

Comments are those of C++, protobuf, CUDA, Python (docstrings too), shell and CMake files, and those
of the templates of `orrery new`. `figures()` gives the table of `./dev tidy --words`, `check_words`
and `check_language` give the breaches. Refused method names stand in verbs.txt, the headers that
need an example or a formula in algorithms.txt."""
import ast
import collections
import functools
import io
import pathlib
import re
import tokenize

import cxx

HERE = pathlib.Path(__file__).resolve().parent
ALGORITHMS = 'tests/tidy/algorithms.txt'

MAX_WHAT = 20       # uses of that word per 10,000 comment words; of the project and each file
MIN_RETURNS = 40    # "returns" per 10,000 comment words of the project
MAX_NO_SUBJECT = 20  # comments of the project

Comment = collections.namedtuple('Comment', 'line text')

# A comment that begins with one of these has no subject.
_NEVER = set('of by with as what whatever whoever whom who that which whose whichever and but or '
             'so than nor like per'.split())
# A comment may begin with one of these if a main clause follows after a comma.
_BEFORE_A_CLAUSE = set('in on at to from until after before because if when while for without '
                       'into since though although where how within between during under over '
                       'once unless'.split())


# ---- comments ------------------------------------------------------------------------------------

_CXX_TOKEN = re.compile(
    r'(?P<line>//[^\n]*)'
    r'|(?P<block>/\*.*?\*/)'
    r'|R"(?P<fence>[^(\s]*)\(.*?\)(?P=fence)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])*'",
    re.DOTALL)


def _joined(lines):
    """Comments from (line, text, whether code stands before it): adjacent lines are one comment."""
    comments = []
    for line, text, trails in lines:
        follows = comments and line == comments[-1][1] + 1 and not trails
        if follows and text:
            comments[-1][2].append(text)
            comments[-1][1] = line
        elif text:
            comments.append([line, line, [text]])
    return [Comment(first, ' '.join(texts)) for first, _, texts in comments]


def _cxx_comments(text):
    lines = []
    for match in _CXX_TOKEN.finditer(text):
        if match['line'] is None and match['block'] is None:
            continue
        number = text.count('\n', 0, match.start()) + 1
        trails = bool(text[text.rfind('\n', 0, match.start()) + 1:match.start()].strip())
        if match['block'] is not None:
            words = re.sub(r'^[\s*/]+|[\s*/]+$', '', match['block'])
            lines.append((number, re.sub(r'\s*\n[\s*]*', ' ', words), trails))
        else:
            lines.append((number, match['line'].lstrip('/!< ').strip(), trails))
    return _joined(lines)


def _python_comments(text):
    lines = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith('#!'):
            lines.append((token.start[0], token.string.lstrip('#').strip(),
                          bool(token.line[:token.start[1]].strip())))
    comments = _joined(lines)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if text_of := ast.get_docstring(node):
                comments.append(Comment(node.body[0].lineno, text_of))
    return comments


def _hash_comments(text):
    lines = []
    for number, line in enumerate(text.split('\n'), 1):
        if match := re.match(r'(?P<before>[^"\'#$]*)(?<!\S)#(?!!)(?P<text>.*)', line):
            lines.append((number, match['text'].strip(), bool(match['before'].strip())))
    return _joined(lines)


def reader_of(path):
    """Returns the function that reads the comments of a file with this path, or None."""
    name = path[:-len('.in')] if path.endswith('.in') else path
    if name.endswith(('.cpp', '.hpp', '.cu', '.cuh', '.h', '.proto')):
        return _cxx_comments
    if name.endswith(('.py', '.pyi')):
        return _python_comments
    if name == 'dev' or name.endswith(('.sh', 'CMakeLists.txt', '.cmake')):
        return _hash_comments
    if name.startswith('.ci/') and '.' not in name[len('.ci/'):]:
        return _hash_comments
    return None


@functools.lru_cache(maxsize=None)
def _comments_of(path, text):
    read = reader_of(path)
    try:
        return tuple(read(text)) if read else ()
    except (SyntaxError, tokenize.TokenError):
        return ()  # a template of a Python file need not be Python


def comments_of(file):
    """Returns the comments of a file, adjacent lines as one, section banners left out."""
    return tuple(comment for comment in _comments_of(file.path, file.text)
                 if not comment.text.startswith(('---', '===', 'NOLINT', 'shellcheck',
                                                 'clang-format', 'SPDX', 'noqa', 'type:')))


def _words(text):
    return re.findall(r"[A-Za-z][A-Za-z'-]*", text)


def _count(words, *wanted):
    return sum(word.lower() in wanted for word in words)


def lacks_subject(text):
    """Returns true if a comment begins with a preposition, a conjunction or a relative pronoun, and
    no main clause follows. For example, "Of the job" lacks a subject, and "If a rank is lost, the
    step repeats" has one."""
    first = re.match(r"([A-Za-z]+)(?![\w'()=:.-]*[(_=])(?:[\s,.]|$)", text)
    word = first.group(1).lower() if first else ''
    if re.match(r'for (?:example|instance)\b', text, re.IGNORECASE):
        return False
    if word in _NEVER:
        return True
    if word not in _BEFORE_A_CLAUSE:
        return False
    sentence = re.split(r'[.;:](?:\s|$)', text)[0]
    return len(_words(sentence.partition(',')[2])) < 3


# ---- names ---------------------------------------------------------------------------------------

_SCOPE = re.compile(r'\b(?:namespace|class|struct|union|extern)\b')
_DECLARED = re.compile(r'(?P<name>~?\w+)\s*\(')
_NO_NAMES = set('if for while switch return sizeof alignof decltype noexcept catch static_assert '
                'requires operator alignas explicit defined void int bool auto const'.split())


def _outline(code):
    """The code without function bodies and initializers: one declaration a statement."""
    out, position = [], 0
    mark = re.compile(r'[{};]')
    start = 0
    while match := mark.search(code, position):
        position = match.end()
        head = code[start:match.start()]
        if match.group(0) == '{' and ('(' in head or not _SCOPE.search(head)):
            position = cxx._closing(code, match.start()) + 1
            out.append(code[start:match.start()] + ';' +
                       '\n' * code.count('\n', match.start(), position))
        else:
            out.append(code[start:position])
        start = position
    return ''.join(out)


def _without_angles(statement):
    while (less := re.sub(r'<[^<>()]*(?:\([^()]*\)[^<>()]*)?>', lambda found: '\n' *
                          found.group(0).count('\n'), statement)) != statement:
        statement = less
    return statement


def declared_methods(text):
    """Yields (line, name) of each method that a class in a header declares or defines."""
    code = re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
                  lambda directive: '\n' * directive.group(0).count('\n'),
                  cxx.code_of(text), flags=re.MULTILINE)
    outline = _outline(code)
    in_class = []
    for statement in re.finditer(r'([^;{}]*)([;{}])', outline):
        head, end = statement.groups()
        if end == '}':
            del in_class[-1:]
        elif end == '{':
            in_class.append(re.search(r'\b(?:class|struct|union)\b', head) is not None)
        elif in_class and in_class[-1]:
            yield from _method_in(head, outline.count('\n', 0, statement.start()))


def _method_in(statement, lines_before):
    """Yields (line, name) if a statement of a class declares a method."""
    plain = re.sub(r'\[\[.*?\]\]', '', _without_angles(statement))
    plain = re.sub(r'^\s*(?:(?:public|private|protected)\s*:\s*)*', lambda found: '\n' *
                   found.group(0).count('\n'), plain)
    if re.match(r'\s*(?:using|typedef|friend|return)\b', plain):
        return
    if re.search(r'\)[^()]*\boverride\b', plain):  # the base chose the name, often another library
        return
    match = next((found for found in _DECLARED.finditer(plain)
                  if found['name'] not in _NO_NAMES), None)
    before = plain[:match.start()] if match else ''
    if match and '=' not in before and re.search(r'\w[\s&*>]', before):
        yield lines_before + plain.count('\n', 0, match.start()) + 1, match['name']


@functools.lru_cache(maxsize=None)
def refused_verbs():
    """Returns the method names that say no object, from verbs.txt."""
    lines = (HERE / 'verbs.txt').read_text().splitlines()
    return frozenset(word for line in lines if not line.startswith('#') for word in line.split())


# ---- checks --------------------------------------------------------------------------------------

def check_words(file):
    """Yields the breaches of one file: the word for unnamed things too often, bare verbs."""
    comments = comments_of(file)
    words = [word for comment in comments for word in _words(comment.text)]
    whats = [comment for comment in comments if _count(_words(comment.text), 'what', 'whatever')]
    if len(whats) > max(MAX_WHAT * len(words) / 10_000, 1):
        yield whats[0].line, (f'{len(whats)} comments of this file use "what" '
                              f'({len(words)} words, at most {MAX_WHAT} in 10,000): name the thing')
    if file.path.endswith(('.hpp', '.cuh')):
        for line, name in declared_methods(file.text):
            if name in refused_verbs():
                yield line, f"'{name}' is a bare verb: name its object too (tests/tidy/verbs.txt)"


def no_subject(file):
    """Yields (line, message) of each comment without a subject."""
    for comment in comments_of(file):
        if lacks_subject(comment.text):
            start = ' '.join(comment.text.split()[:5])
            yield comment.line, f'"{start} ..." has no subject: begin with a noun or a verb'


def check_language(files):
    """Yields the breaches of the project: the sums, and algorithms without an example."""
    lacking = [(file.path, line, text) for file in files for line, text in no_subject(file)]
    if len(lacking) > MAX_NO_SUBJECT:
        yield from lacking
    texts = {file.path: file for file in files}
    listed = texts.get(ALGORITHMS)
    for number, line in enumerate(listed.lines if listed else [], 1):
        path = line.partition('#')[0].strip()
        if path and path not in texts:
            yield ALGORITHMS, number, f'{path} does not exist any more'
        elif path and not has_example(texts[path]):
            yield path, 1, 'an algorithm is explained by "For example, ..." or its formula'
    if listed and any(file.path.endswith('.hpp') for file in files):
        yield from _sums(files)


def has_example(file):
    """Returns true if a comment of the file has an example or a formula."""
    return any(re.search(r'(?i)\bfor example\b|\be\.g\.', comment.text) or
               re.search(r'\w[\w)\]]*\s(?:=|<=|>=|≈|≤)\s[^.]*[-+*/^·×√]', comment.text)
               for comment in comments_of(file))


def _sums(files):
    total = Figures()
    for file in files:
        total.add_file(file)
    if total.per_10_000(total.what) > MAX_WHAT:
        yield ALGORITHMS, 1, f'"what" in comments: {total.per_10_000(total.what):.1f} per 10,000'
    if total.per_10_000(total.returns) < MIN_RETURNS:
        yield ALGORITHMS, 1, (f'"returns" in comments: {total.per_10_000(total.returns):.1f} per '
                              f'10,000, at least {MIN_RETURNS}')


class Figures:
    """Counts of the comment words of some files."""

    def __init__(self):
        self.words = self.what = self.returns = self.examples = self.no_subject = self.verbs = 0

    def add_file(self, file):
        """Adds the counts of one file."""
        for comment in comments_of(file):
            words = _words(comment.text)
            self.words += len(words)
            self.what += _count(words, 'what', 'whatever')
            self.returns += _count(words, 'returns')
            self.examples += len(re.findall(r'(?i)\bfor example\b', comment.text))
        self.no_subject += sum(1 for _ in no_subject(file))
        self.verbs += sum(1 for _, message in check_words(file) if 'bare verb' in message)

    def per_10_000(self, count):
        """Returns a count per 10,000 comment words."""
        return 10_000 * count / max(self.words, 1)


def _room(path):
    parts = path.split('/')
    return parts[0] if len(parts) > 1 else 'the root'


def figures(files):
    """Returns the table of `./dev tidy --words` as text: a line for each room, and the sum."""
    rooms = collections.defaultdict(Figures)
    for file in files:
        if reader_of(file.path):
            for room in (_room(file.path), 'all'):
                rooms[room].add_file(file)
    rows = [f'{"room":<12} {"words":>8} {"what":>6} {"returns":>8} {"example":>8} '
            f'{"no subject":>11} {"bare verbs":>11}']
    for room in sorted(rooms, key=lambda name: (name == 'all', name)):
        sums = rooms[room]
        rates = [sums.per_10_000(count) for count in (sums.what, sums.returns, sums.examples)]
        rows.append(f'{room:<12} {sums.words:>8} {rates[0]:>6.1f} {rates[1]:>8.1f} '
                    f'{rates[2]:>8.1f} {sums.no_subject:>11} {sums.verbs:>11}')
    rows.append('what, returns, example: per 10,000 comment words; the rest: counts')
    return '\n'.join(rows)
