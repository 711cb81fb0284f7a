"""A reading of C++ that is just deep enough for the tidy rules: text without comments and
literals (line numbers kept), the functions with their extent, the classes and the namespaces."""
import re

_TOKEN = re.compile(
    r'//[^\n]*'
    r'|/\*.*?\*/'
    r'|R"(?P<fence>[^(\s]*)\(.*?\)(?P=fence)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])*'",
    re.DOTALL)
_DIRECTIVE = re.compile(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.MULTILINE)
_SCOPE = re.compile(r'\b(?:namespace|class|struct|enum|union|extern)\b')


def _blank(match):
    """Returns as many empty lines as the text has; a literal stays an empty literal."""
    text = match.group(0)
    quote = '""' if text[-1] in '"\'' and text[0] != '/' else ' '
    return quote + '\n' * text.count('\n')


def code_of(text):
    """The text without comments and without the contents of literals."""
    return _TOKEN.sub(_blank, text)


def _closing(code, opening):
    """Index of the brace that closes the one at `opening`."""
    depth = 0
    for match in re.compile(r'[{}]').finditer(code, opening):
        depth += 1 if match.group(0) == '{' else -1
        if depth == 0:
            return match.start()
    return len(code) - 1


def body_at(code, opening):
    """Returns the text between the brace at `opening` and the brace that closes it, without the
    contents of inner braces: one statement a member."""
    return _outline(code[opening + 1:_closing(code, opening)])


def _is_member_initializer(code, closing):
    """Returns true for `A(int b) : b_{b}, c_{} {`, where a comma or the body follows a brace
    pair."""
    return code[closing + 1:].lstrip()[:1] in (',', '{')


def functions_of(text):
    """Yields (first line, last line, name) of each function, methods and test cases included;
    nested functions belong to the outer one."""
    code = _DIRECTIVE.sub(_blank, code_of(text))
    position = head_start = 0
    mark = re.compile(r'[{};]')
    while match := mark.search(code, position):
        position = match.end()
        if match.group(0) != '{':
            head_start = position
            continue
        head = code[head_start:match.start()]
        if ')' in head and not head.rstrip().endswith('='):
            closing = _closing(code, match.start())
            position = closing + 1
            if _is_member_initializer(code, closing):
                continue
            name = re.search(r'([\w:~]+|operator\S+)\s*\(', head)
            begin = head_start + len(head) - len(head.lstrip())
            yield (code.count('\n', 0, begin) + 1, code.count('\n', 0, closing) + 1,
                   name.group(1) if name else 'lambda')
        elif not _SCOPE.search(head):
            position = _closing(code, match.start()) + 1  # an initializer
        head_start = position


# Also the hidden part of a class, `struct A::State {`: all of it is private to A.
_CLASS = re.compile(r'\b(?:class\s+(?:\w+::)*|(?P<hidden>struct)\s+(?:\w+::)+)(?P<name>\w+)'
                    r'(?:\s+final)?(?:\s*:\s*[^{;]+)?\s*\{')
_ACCESS = re.compile(r'\b(public|private|protected)\s*:(?!:)')
_NO_MEMBER = re.compile(r'(?:using|friend|class|struct|enum|static constexpr|template)\b')


def _outline(body):
    """Returns a class without the contents of braces: one statement a member."""
    out, depth = [], 0
    for char in body:
        depth += char == '{'
        if depth == 0:
            out.append(char)
        elif char == '}':
            depth -= 1
            if depth == 0:
                out.append(';')
    return ''.join(out)


def _without_templates(statement):
    """Returns `std::map<int, void()> a_` without the contents of angle brackets."""
    while (less := re.sub(r'<[^<>]*>', '', statement)) != statement:
        statement = less
    return statement


def classes_of(text):
    """Yields (line, name, private methods, data members) of each class; a nested one by itself."""
    code = _DIRECTIVE.sub(_blank, code_of(text))
    for match in _CLASS.finditer(code):
        body = code[match.end():_closing(code, match.end() - 1)]
        access, methods, members = 'private', 0, 0
        for part in _ACCESS.split(_outline(body)):
            if part in ('public', 'private', 'protected'):
                access = part
                continue
            for statement in (each.strip() for each in part.split(';')):
                if not statement or _NO_MEMBER.match(statement):
                    continue
                plain = _without_templates(statement)
                if match['hidden'] and plain.partition('(')[2].startswith('*'):
                    continue  # a pointer in a table of a library's functions
                if '(' in plain.split('=')[0]:
                    made = re.match(rf'(?:explicit\s+)?~?{match["name"]}\s*\(', plain)
                    methods += access == 'private' and not made
                else:
                    ends = r'[\w\]]\s*(?=,|$)' if match['hidden'] else r'\w_\s*(?=,|$)'
                    members += len(re.findall(ends, re.sub(r'=[^,]*', '', plain)))
        yield code.count('\n', 0, match.start()) + 1, match['name'], methods, members


_NAMESPACE = re.compile(r'\bnamespace\s*([\w:]*)\s*\{')
_ANNOUNCES = re.compile(r'(?:\s*(?:class|struct|enum class)\s+\w+(?:\s*:\s*[\w:]+)?\s*;)+\s*')


def namespaces_of(text):
    """Yields (line, full name, whether it only announces types) of each namespace with a name."""
    code = _DIRECTIVE.sub(_blank, code_of(text))
    around = []
    for match in _NAMESPACE.finditer(code):
        closing = _closing(code, match.end() - 1)
        around = [(end, name) for end, name in around if end > match.start()]
        around.append((closing, match.group(1)))
        if match.group(1):
            yield (code.count('\n', 0, match.start()) + 1,
                   '::'.join(name for _, name in around if name),
                   _ANNOUNCES.fullmatch(code, match.end(), closing) is not None)
