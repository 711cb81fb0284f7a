"""Commands of README and docs/: where each one runs, or why it does not.

    page_commands.py    prints docs/not-run.md, the commands that no test runs, with their reasons

A command of Orrery counts as run if a function of a test, a tutorial or `RUNS` (pages_test.py)
begins a list of arguments with its name and contains all its options. Commands of ./dev and of
other tools have a line in `DEV` or `TOOLS`: the test that runs them, or a reason of `REASONS`.
"""

import ast
import pathlib
import re
import shlex
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])
GENERATED = {"not-run.md", "options.md", "CHANGELOG.md"}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
CHECKS = {"docs_test.py", "help_test.py", "completion_test.py", "main_test.py", "page_commands.py"}

REASONS = {
    "gpu": "needs an NVIDIA GPU",
    "cluster": "needs a Slurm or Kubernetes cluster, or several machines",
    "root": "needs root",
    "network": "downloads packages or files",
    "data": "needs measured tables that the repository does not contain (`ORRERY_DATA`)",
    "minutes": "measures this machine, or compiles everything once more",
    "open": "stays open until it is closed by hand",
}
#: Commands of Orrery, by name and options, that no test runs.
EXCEPTIONS = {("twin", frozenset({"--partition", "--policy"})): "cluster"}
#: Commands of ./dev: the test that does the same, or a reason.
DEV = {
    "demo": "tests/cli/docs_test.py", "build": "tests/cli/main_test.py",
    "test": "tests/cli/main_test.py", "tidy": "tests/tidy/tidy_test.py",
    "site": "tests/cli/site_test.py", "reference": "tests/python/reference_test.py",
    "cuda": "network", "torch": "network", "fresh": "root", "format": "network",
    "notebook": "open", "soak": ".ci/soak", "bench": "minutes", "fuzz": "minutes",
    "asan": "minutes", "tsan": "minutes",
    "wheel": "minutes", "lint": "minutes", "coverage": "minutes", "equal": "minutes",
    "help": "tests/cli/docs_test.py",
}  # fmt: skip
#: First words of command lines of other tools, or such lines: the test that runs such a line, or a
#: reason.
TOOLS = {
    "pip wheel .": "tests/python/wheel_test.py",
    "tests/bench/public_logs.py": "network", "tests/wheel/chroots.py": "root",
    "tests/wheel/image.py": "root",
    "pip": "network", "srun": "cluster", "sacct": "cluster", "sacctmgr": "cluster",
    "docker": "root", "kubectl": "cluster", "cmake": "tests/cli/cpp_policy_test.py",
    "ctest": "tests/CMakeLists.txt",
    "source": "tests/cli/completion_test.py", "tests/live/gpu.sh": "gpu",
    "tests/live/gpu_programs.sh": "gpu", "python/site/browser.py": "minutes",
    "python/site/check.py": "network",
    "tests/chaos/chaos.py": "tests/chaos/CMakeLists.txt",
    "tests/chaos/slurm_kills.py": "cluster", "tests/chaos/pairs.py": "tests/chaos/pairs_test.py",
    "tests/chaos/flips.py": "tests/chaos/CMakeLists.txt",
    "tests/chaos/strangers.py": "tests/chaos/CMakeLists.txt",
    "tests/tidy/structure.py": "tests/tidy/structure_test.py",
    "tests/equal/collect.py": "tests/cli/collect_test.py",
    "tests/tidy/drawing.py": "tests/tidy/architecture_test.py",
    "tests/tidy/path_drawing.py": "tests/tidy/architecture_test.py",
    "tests/tidy/loss_path.py": "tests/tidy/architecture_test.py",
    "tests/tidy/sample_methods.py": "tests/tidy/structure_test.py",
    "tests/cli/operating.py": "tests/cli/runs_test.py",
    "python/plots/straggler.py": "tests/cli/plots_test.py",
    "python/plots/answers.py": "tests/cli/plots_test.py",
    "python/plots/timeline.py": "tests/cli/plots_test.py",
    "python/plots/first_steps.py": "tests/cli/plots_test.py",
    "python/generate_records.py": "tests/python/records_test.py",
    "python/calibration/accuracy.py": "data", "python/calibration/fit_stacks.py": "data",
    "python/calibration/fit_components.py": "data", "python/calibration/sweeps.py": "data",
    "python/calibration/collectives_asked.py": "data", "python/calibration/monotone.py": "data",
    "python/calibration/fit_hardware.py": "data", "python/calibration/node_kernels.py": "data",
    "python/calibration/plan_intervals.py": "data",
}  # fmt: skip


def without_wrapping(text):
    return text.replace("\\\n", " ").replace("\\|", "|")


def commands_in(text):
    """(command, rest of the line or of the code span) of every command line in a page."""
    lines = [line for _, block in BLOCK.findall(text)
             for line in without_wrapping(block).splitlines()]  # fmt: skip
    lines += re.findall(r"`([^`\n]*orrery [^`\n]*)`", without_wrapping(text))
    for line in lines:
        for found in re.finditer(r"(?:^|[ /(])orrery ([a-z][a-z|\\-]*)([^#]*)", line):
            for command in found[1].replace("\\", "").split("|"):
                yield command, found[2]


def tool_lines(text):
    """Yields (first word, line) of the command lines of other tools and scripts in a page."""
    spans = re.findall(r"`([^`\n]+)`", re.sub(BLOCK, "", text))
    blocks = [line for language, block in BLOCK.findall(text) if language in ("", "sh", "console")
              for line in without_wrapping(block).splitlines()]  # fmt: skip
    script = re.compile(r"^(?:\S*python3? )?((?:tests|python)/[\w/]+\.(?:py|sh))(?: |$)")
    for line in [*spans, *blocks]:
        line = line.removeprefix("$ ").strip()
        if found := script.match(line):
            if line.startswith(found[1]) and " " not in line and found[1] not in TOOLS:
                continue  # the name of a file, not a command
            yield found[1], line
        elif (word := line.partition(" ")[0]) in TOOLS and " " in line:
            yield word, line


def words_of(node):
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            found.update(re.split(r"[\s=]+", each.value))
    return found


def starts_of(node):
    """Returns the words that begin an argument list or a list, after the name of the program."""
    found = set()
    for each in ast.walk(node):
        listed = each.args if isinstance(each, ast.Call) else getattr(each, "elts", [])
        for item in listed[:3]:
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                found.update(item.value.removeprefix("orrery ").split()[:1])
    return found


def scopes():
    """Yields (test, commands, words) of a function of a test, a tutorial's line, a line of RUNS."""
    for file in sorted(ROOT.glob("tests/**/*.py")):
        if file.name in CHECKS:
            continue
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                yield file.relative_to(ROOT).as_posix(), starts_of(node), words_of(node)
            elif file.name == "pages_test.py" and isinstance(node, ast.Assign):
                for each in ast.walk(node):
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        words = each.value.split()
                        yield "tests/cli/pages_test.py", words[1:2], set(words)
    for file in [*sorted(ROOT.glob("docs/tutorials/*.md")), ROOT / "docs" / "newcomers.md"]:
        for line in re.findall(r"^\$ (.*)$", file.read_text(), re.MULTILINE):
            words = set(shlex.split(line))
            yield "tests/cli/tutorials_test.py", words, words


def not_run():
    """Returns ({(line, reason): pages} of the commands that no test runs, problems)."""
    known = list(scopes())
    found, problems = {}, []

    def settle(line, page, how):
        if how in REASONS:
            found.setdefault((line, how), set()).add(page)
        elif how is None or not (ROOT / how).exists():
            problems.append(f"{page}: expected a test that runs `{line}`, found none: add the "
                            "command to RUNS of pages_test.py, or a reason")  # fmt: skip

    for file in PAGES:
        page = file.relative_to(ROOT).as_posix()
        if file.name in GENERATED:
            continue
        text = file.read_text()
        for command, rest in commands_in(text):
            options = frozenset(OPTION.findall(rest))
            line = re.sub(r"\s+", " ", f"orrery {command} {rest}").strip()
            how = EXCEPTIONS.get((command, options))
            how = how or next((test for test, commands, words in known
                               if command in commands and options <= words), None)  # fmt: skip
            settle(line, page, how)
        for word in re.findall(r"\./dev ([a-z]+)", text):
            settle(f"./dev {word}", page, DEV.get(word))
        for word, line in tool_lines(text):
            settle(line, page, TOOLS.get(line, TOOLS.get(word)))
    return found, problems


def page():
    """Returns docs/not-run.md."""
    found, _ = not_run()
    out = ["# Commands that no test runs", "",
           "For everybody who wonders whether a command of these pages still works. First command:",
           "`./dev test`, which runs all other ones, with `./dev soak`. `./dev reference` writes",
           "this page; a test compares it with the pages, and allows no other reasons.",
           ""]  # fmt: skip
    for reason, meaning in REASONS.items():
        rows = sorted((line, pages) for (line, why), pages in found.items() if why == reason)
        if not rows:
            continue
        out += [f"## {meaning[0].upper()}{meaning[1:]}", "", "| command | pages |", "|---|---|"]
        for line, pages in rows:
            shown = line.replace("|", "\\|")
            out.append(f"| `{shown}` | {', '.join(sorted(pages))} |")
        out.append("")
    return "\n".join(out)


if __name__ == "__main__":
    sys.stdout.write(page())
