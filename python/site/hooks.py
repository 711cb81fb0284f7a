"""Hooks of the site's generator (mkdocs.yml): pages that are not files of docs/, and links.

Added pages: the README as the first page, CONTRIBUTING and CHANGELOG, the C++ reference
(headers.py), and each file or folder of the repository to which a page links, as `source/PATH`.
Links of pages are written for a reader of the repository; here they lead to these pages.
"""

import json
import pathlib
import posixpath
import re
import sys

from mkdocs.structure.files import File

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import headers

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(#[^)\s]*)?(?=\))")
PICTURES = {".svg", ".png"}
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".proto": "proto", ".py": "python", ".yaml": "yaml",
             ".lua": "lua", ".json": "json"}  # fmt: skip
AT_ROOT = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md",
           "CHANGELOG.md": "CHANGELOG.md"}  # fmt: skip


#: Pages of the repository outside docs/ to which pages link, path -> page of the site.
pages_of_repository = {}


def repository_path(page):
    """Returns the path in the repository of a page of the site; None for a generated page."""
    for path, at in [*AT_ROOT.items(), *pages_of_repository.items()]:
        if at == page:
            return path
    return None if page.startswith(("source/", "cpp/")) else f"docs/{page}"


def site_page(path):
    """Returns the page of the site for a path of the repository."""
    if path in AT_ROOT:
        return AT_ROOT[path]
    if path.startswith("docs/") and not path.endswith(".json"):
        return path.removeprefix("docs/")
    shown = re.sub(r"(^|/)\.", r"\1", path)  # MkDocs leaves out names that begin with a dot
    return f"source/{shown}/index.md" if (ROOT / path).is_dir() else f"source/{shown}.md"


def linked(markdown, path):
    """Yields the paths of the repository to which a page of the repository links."""
    for target, _ in LINK.findall(markdown):
        yield posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def with_site_links(markdown, page):
    """Returns the text of a page with links to pages of the site."""
    path = repository_path(page)
    if path is None:
        return markdown

    def link(match):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), match[1]))
        return posixpath.relpath(site_page(target), posixpath.dirname(page)) + (match[2] or "")

    return LINK.sub(link, markdown)


def fenced(text, language):
    """Returns a text as a fenced block that no line of the text ends."""
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"^`+", text, re.MULTILINE)), default=0))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def notebook_page(text):
    """Returns the cells of a notebook as Markdown, without outputs."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else fenced(source, "python"))
    return "\n\n".join(parts)


def source_page(path):
    """Returns (text of the page of a file or folder, paths to which the page leads)."""
    file = ROOT / path
    if file.is_dir():
        inside = sorted(each for each in file.iterdir() if each.name != "__pycache__")
        lines = [f"- [{each.name}]({each.name}{'/index' if each.is_dir() else ''}.md)"
                 for each in inside]  # fmt: skip
        return "\n".join([f"# {path}/", "", *lines, ""]), [f"{path}/{each.name}" for each in inside]
    text = file.read_text(encoding="utf-8", errors="replace")
    if file.suffix == ".md":
        pages_of_repository[path] = site_page(path)
        return text, [each for each in linked(text, path)
                      if site_page(each).startswith("source/")]  # fmt: skip
    if file.suffix == ".ipynb":
        return notebook_page(text), []
    return f"# {path}\n\n" + fenced(text, LANGUAGES.get(file.suffix, "")), []


def add_source_pages(files, config, paths):
    """Adds a page for each file or folder, and for the contents of folders."""
    open_paths, known = sorted(paths), set()
    while open_paths:
        path = open_paths.pop()
        if path in known or path.startswith("..") or (ROOT / path).suffix in PICTURES:
            continue
        known.add(path)
        text, inside = source_page(path)
        open_paths += inside
        files.append(File.generated(config, site_page(path), content=text))


def on_files(files, config):
    """Adds the generated pages to the files of the site."""
    wanted = set()
    pages_of_repository.clear()
    for path, page in AT_ROOT.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
        wanted.update(linked(text, path))
    for file in list(files.documentation_pages()):
        path = repository_path(file.src_uri)
        if path and path not in AT_ROOT:
            wanted.update(linked(file.content_string, path))
    for name, text in headers.pages().items():
        files.append(File.generated(config, f"cpp/{name}", content=text))
    outside = {path for path in wanted if site_page(path).startswith("source/")}
    add_source_pages(files, config, outside)
    return files


def on_page_markdown(markdown, page, config, files):
    """Leads the links of a page to pages of the site, and ends the escape of | within code."""
    text = with_site_links(markdown, page.file.src_uri)
    lines = [re.sub(r"`[^`]+`", lambda code: code[0].replace("\\|", "|"), line)
             if line.startswith("|") else line for line in text.split("\n")]  # fmt: skip
    return "\n".join(lines)


OTHER_HOST = re.compile(r'src="https://unpkg\.com/iframe-worker/shim"')


def on_post_page(output, page, config):
    """Replaces the script of another host, which the search of file: pages needs, by our own."""
    up = "../" * page.file.dest_uri.count("/")
    return OTHER_HOST.sub(f'src="{up}worker.js"', output)


def on_post_template(output_content, template_name, config):
    """Does the same in pages without a source."""
    return OTHER_HOST.sub('src="/worker.js"', output_content)
