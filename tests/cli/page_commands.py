"""Commands of README and docs/: where each one runs, or why it does not.

    page_commands.py    prints docs/not-run.md, the commands that no test runs

A command of Orrery counts as run if a function of a test, a tutorial or `RUNS` (pages_test.py)
begins a list of arguments with its name and contains all its options. Commands of ./dev and of
other tools have a line in `DEV` or `TOOLS`: the test that runs them, a reason of `REASONS`, or a
group of `SOAKED`, whose commands `./dev soak --pages` runs (soak_pages.py). In a block of commands
every other first word but those of `SHELL` is a problem.
"""

import ast
import os
import pathlib
import re
import shlex
import sys
import typing

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted(page for folder in (".", "docs/**", "examples", "python/**")
               for page in ROOT.glob(f"{folder}/*.md"))  # fmt: skip
GENERATED = {"not-run.md", "options.md", "CHANGELOG.md"}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
CHECKS = {"docs_test.py", "help_test.py", "completion_test.py", "main_test.py", "page_commands.py",
          "soak_pages_test.py"}  # fmt: skip

#: Why a command runs neither in a test nor in a soak.
REASONS = {
    "gpu": "needs an NVIDIA GPU",
    "cluster": "needs a Slurm or Kubernetes cluster, or several machines",
    "root": "needs root",
}
#: Groups of commands that `./dev soak --pages` runs.
SOAKED = {
    "network": "downloads packages or files",
    "data": "needs measured tables that the repository does not contain (`ORRERY_DATA`)",
    "minutes": "measures this machine, or compiles everything once more",
}
#: Commands of Orrery, by name and options, that no test runs.
EXCEPTIONS = {("twin", frozenset({"--partition", "--policy"})): "cluster"}
#: Commands of ./dev, also with the word that follows: the test that does the same, or a key of
#: REASONS or SOAKED.
DEV = {
    "demo": "tests/cli/docs_test.py", "build": "tests/cli/main_test.py",
    "test": "tests/cli/main_test.py", "tidy": "tests/tidy/tidy_test.py",
    "site": "tests/cli/site_test.py", "reference": "tests/python/reference_test.py",
    "help": "tests/cli/docs_test.py", "soak": ".ci/soak", "fresh": "root",
    "cuda": "network", "torch": "network", "format": "network", "executors": "network",
    "bench": "minutes", "bench own": "data", "fuzz": "minutes", "asan": "minutes",
    "tsan": "minutes", "wheel": "minutes", "lint": "minutes", "coverage": "minutes",
    "equal": "minutes",
}  # fmt: skip
#: First words of command lines of other tools, or such lines: the test that runs such a line, or a
#: key of REASONS or SOAKED.
TOOLS = {
    "pip wheel .": "tests/python/wheel_test.py",
    "tests/bench/public_logs.py": "network", "tests/programs/table.py": "network",
    "tests/programs/kills.py": "network",
    "tests/programs/accuracy.py": "data",
    "tests/wheel/chroots.py": "root", "tests/wheel/image.py": "root",
    "pip": "network", "pre-commit": "network", "srun": "cluster", "sacct": "cluster",
    "sacctmgr": "cluster", "docker": "root", "kubectl": "cluster",
    "scontrol": "cluster", "squeue": "cluster", "nvidia-smi": "gpu",
    "curl": "tests/cli/runs_test.py", "git": "tests/tidy/extending_test.py",
    "openssl": "tests/cli/several_machines_test.py",
    "cmake": "tests/cli/cpp_policy_test.py", "ctest": "tests/CMakeLists.txt",
    "build/tests/sim_failures_test": "minutes",
    "build/tests/live_trainer_test": "tests/live/CMakeLists.txt",
    "man": "tests/cli/man_page_test.py",
    ".ci/release_notes": "tests/python/packaging_test.py",
    "source": "tests/cli/completion_test.py", "tests/live/gpu.sh": "gpu",
    "tests/live/gpu_programs.sh": "gpu", "python/site/browser.py": "minutes",
    "python/site/notebook_pages.py": "minutes",
    "python/site/check.py": "network",
    "tests/cli/slow_files_test.py": "tests/cli/slow_files_test.py",
    "tests/python/rehearse_roles_test.py": "tests/python/rehearse_roles_test.py",
    "tests/chaos/chaos.py": "tests/chaos/CMakeLists.txt",
    **{f"tests/chaos/slurm_{part}.py": "cluster" for part in (
        "kills", "keeper", "controller", "policies", "queue", "rights", "twin")},
    "tests/chaos/kube/extender.py": "network", "tests/chaos/kube/crds.py": "network",
    "tests/chaos/twin_runs.py": "tests/cli/twin_run_test.py",
    "tests/chaos/pairs.py": "tests/chaos/pairs_test.py",
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
    "python/plots/twin.py": "tests/cli/plots_test.py",
    "python/plots/timeline.py": "tests/cli/plots_test.py",
    "python/plots/first_steps.py": "tests/cli/plots_test.py",
    "python/generate_records.py": "tests/python/records_test.py",
    **{f"python/calibration/{name}.py": "data" for name in (
        "accuracy", "fit_stacks", "fit_components", "sweeps", "collectives_asked", "monotone",
        "fit_hardware", "node_kernels", "open_rows", "plan_intervals", "fit_all")},
}  # fmt: skip

#: First words of lines of blocks that are no commands of their own: every shell and Linux has them.
SHELL = {"cd", "export", "head", "printf", "rm", "umask"}
#: Pages whose blocks with `console` tutorials_test.py runs line by line.
CONSOLE_PAGES = ("docs/newcomers.md", "docs/tutorials/")

#: Begin of a command line that needs the checkouts of tests/programs/table.py below build/programs.
PROGRAMS = (
    "rm -rf build/programs && mkdir build/programs && "
    "(cd build/programs && python3 ../../tests/programs/table.py --checkouts | bash -e) && "
    "~/.cache/orrery/torch/bin/python -m pip install --no-deps "
    "--target build/programs/packages/site-packages -r tests/programs/requirements.txt && "
)
#: Soaked commands with a placeholder, or whose line does nothing in a clone, and the line of a
#: shell that runs in place of each. `$TAG` is the tag of this Python, for example cp311.
IN_PLACE = {
    "./dev bench NAME": "./dev bench all_reduce",
    "./dev bench plan SEEDS LAYOUTS GPUS ROW": "./dev bench plan 100 50 1024 1",
    "./dev bench twin [durations | learning | starts | choice | day]":
        "./dev bench twin durations learning starts choice",
    "./dev coverage ROOM...": "./dev coverage core policies",
    "./dev equal ../before/build/bin": "./dev equal build/bin",
    "./dev fuzz": "./dev fuzz 60",
    "./dev lint": "echo >>core/units.cpp && ./dev lint",
    "pip install orrery-*.whl": "pip install build/wheels/orrery-*-$TAG-*.whl",
    "pip install 'orrery-0.1.0-cp311-cp311-manylinux_2_35_x86_64.whl[plot]'":
        "pip install \"$(ls build/wheels/orrery-*-$TAG-*.whl)[plot]\"",
    "pip install 'orrery[kubernetes]'":
        "pip install \"$(ls build/wheels/orrery-*-$TAG-*.whl)[kubernetes]\"",
    "pre-commit install": "pip install pre-commit && pre-commit install",
    "python3 python/site/browser.py build/site --pictures FOLDER":
        "python3 python/site/browser.py build/site --pictures build/pictures",
    "python3 tests/bench/public_logs.py FOLDER":
        "python3 tests/bench/public_logs.py build/public-logs",
    **{f"ORRERY_PROGRAMS=FOLDER ~/.cache/orrery/torch/bin/python tests/programs/{name}.py":
        PROGRAMS +
        "ORRERY_PROGRAMS=$PWD/build/programs ~/.cache/orrery/torch/bin/python "
        f"tests/programs/{name}.py" for name in ("table", "kills")},
    "ORRERY_PROGRAMS=FOLDER python3 tests/programs/accuracy.py --stack":
        PROGRAMS + "ORRERY_PROGRAMS=$PWD/build/programs python3 tests/programs/accuracy.py --stack",
}  # fmt: skip
#: Begins of soaked commands: the commands of ./dev whose products they need.
NEEDED = {
    "pip install 'orrery": ("./dev wheel",), "pip install orrery": ("./dev wheel",),
    "python3 python/site/": ("./dev site",),
    "build/venv/bin/python python/site/": ("./dev build",),
    "python3 python/calibration/": ("./dev build",),
    "python3 tests/bench/": ("./dev build",), "ORRERY_SEQUENCES=": ("./dev build",),
    "ORRERY_PROGRAMS=": ("./dev torch", "./dev build"), "./dev bench run": ("./dev torch",),
    "./dev bench programs": ("./dev torch",),
}  # fmt: skip
#: Begins of soaked commands that run in an environment of their own, with these packages.
PACKAGES = {
    "pip ": (), "pre-commit ": (), "python3 python/calibration/": ("numpy", "scipy"),
    "ORRERY_PROGRAMS=FOLDER python3 ": ("numpy", "scipy", "pyyaml"),
}  # fmt: skip
PLACEHOLDER = re.compile(r"(?<![\w$])[A-Z]{2,}(?![\w=])|\.\.\.|\[\w+ \|")


class Soaked(typing.NamedTuple):
    """A command of a page that `./dev soak --pages` runs."""

    group: str
    line: str  # command as on the page
    runs: str  # command line of the shell
    needed: tuple[str, ...] = ()  # commands of ./dev that have to pass before
    packages: tuple[str, ...] | None = None  # packages of its own environment; None: without one


def soaked(group, line):
    """Returns a command as it runs, or None if a word of it stands for another one."""
    runs = IN_PLACE.get(line, line)
    if PLACEHOLDER.search(runs):
        return None

    def of(table, otherwise):
        return next((value for begin, value in table.items() if line.startswith(begin)), otherwise)

    return Soaked(group, line, runs, of(NEEDED, ()), of(PACKAGES, None))


def without_wrapping(text):
    return text.replace("\\\n", " ").replace("\\|", "|")


def spans_of(text):
    """Returns the code spans outside of the blocks of a page, each in one line."""
    parts = re.split(r"\n\s*\n|\n(?=\|)", BLOCK.sub("\n\n", text))
    return [re.sub(r"\s+", " ", span[1]) for part in parts for span in SPAN.findall(part)]


def commands_in(text):
    """(command, rest of the line or of the code span) of every command line in a page."""
    lines = [line for _, block in BLOCK.findall(text)
             for line in without_wrapping(block).splitlines()]  # fmt: skip
    lines += spans_of(without_wrapping(text))
    for line in lines:
        for found in re.finditer(r"(?:^|[ /(])orrery ([a-z][a-z|\\-]*)([^#]*)", line):
            for command in found[1].replace("\\", "").split("|"):
                yield command, found[2]


def shell_lines(text):
    """Returns the code spans and the lines of the blocks of commands of a page."""
    blocks = [line for language, block in BLOCK.findall(text)
              if language in ("", "sh", "bash", "console")
              for line in without_wrapping(block).splitlines()]  # fmt: skip
    return [line.removeprefix("$ ").strip() for line in [*spans_of(text), *blocks]]


def dev_lines(text):
    """Yields the commands of ./dev in a page, each with its words."""
    for line in shell_lines(text):
        for found in re.finditer(r"(?:^|\s)(\./dev [a-z].*?)(?=\s+#|\s+&&|;|$)", line):
            yield found[1]


def short_names(text):
    """Yields the code spans of a page that name a script without its folder, and have an option."""
    scripts = {file.name for folder in ("tests/bench", "tests/chaos", "tests/equal", "tests/tidy",
                                        "tests/wheel", "python/calibration", "python/site")
               for file in (ROOT / folder).glob("*.py")}  # fmt: skip
    for span in spans_of(text):
        if re.match(r"[\w-]+\.py -", span) and span.partition(" ")[0] in scripts:
            yield span


def way_of_dev(line):
    """Returns the entry of DEV of a command, the longest one first; None without one."""
    words = line.split()[1:3]
    return DEV.get(" ".join(words), DEV.get(words[0]))


def tool_lines(text):
    """Yields (first word, line) of the command lines of other tools and scripts in a page."""
    script = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:\S*python3? (?:-m pytest (?:-\w+ )*)?)?"
                        r"((?:tests|python)/[\w/]+\.(?:py|sh)|build/tests/\w+)(?: |$)")  # fmt: skip
    for line in shell_lines(text):
        if found := script.match(line):
            if line == found[1] and not os.access(ROOT / line, os.X_OK):
                continue  # the name of a file, not a command
            yield found[1], line
        elif (word := line.partition(" ")[0]) in TOOLS and " " in line:
            yield word, line


def strange_lines(text, runs_console=False):
    """Yields the lines of the blocks of commands of a page whose first word is neither one of the
    program or of TOOLS nor one of SHELL. In a block without `sh` or `bash` only the lines after a
    prompt are commands; `runs_console`: a test runs all of them."""
    for language, block in BLOCK.findall(text):
        lines = without_wrapping(block).splitlines()
        if language not in ("sh", "bash"):
            lines = [line[2:] for line in lines if line.startswith("$ ")]
            lines = lines if language in ("", "console") and not runs_console else []
        for line in lines:
            bare = re.sub(r"^(?:\w+=\S* +)+", "", line.strip())
            script = re.match(r"(?:\S*python3? )?((?:tests|python)/[\w/]+\.(?:py|sh))", bare)
            word = script[1] if script else bare.partition(" ")[0]
            if bare and word not in {"orrery", "./dev", "#", *SHELL, *TOOLS}:
                yield line.strip()


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
    """Returns ({(line, reason or group): pages} of the commands that no test runs, problems)."""
    known = list(scopes())
    found, problems = {}, []

    def settle(line, page, how):
        if how in REASONS or (how in SOAKED and soaked(how, line)):
            found.setdefault((line, how), set()).add(page)
        elif how in SOAKED:
            problems.append(f"{page}: expected a command that can run, found `{line}` with a "
                            "placeholder: add its line to IN_PLACE of page_commands.py")
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
        problems += [f"{page}: expected a command of the program, of TOOLS or of SHELL in "
                     f"page_commands.py, found `{line}`"
                     for line in strange_lines(text, page.startswith(CONSOLE_PAGES))]  # fmt: skip
        problems += [f"{page}: expected the folder of a script, found `{line}`"
                     for line in short_names(text)]  # fmt: skip
        for line in dev_lines(text):
            settle(line, page, way_of_dev(line))
        for word, line in tool_lines(text):
            script = line.startswith(word) and word.endswith((".py", ".sh"))
            if script and not os.access(ROOT / word, os.X_OK):
                problems.append(f"{page}: expected python3 before {word}, which is not executable, "
                                f"found `{line}`")  # fmt: skip
            settle(line, page, TOOLS.get(line, TOOLS.get(word)))
    return found, problems


def of_soak():
    """Returns the commands of `./dev soak --pages`, in the order of their groups."""
    found, _ = not_run()
    return [soaked(group, line) for group in SOAKED
            for line, how in sorted(found) if how == group]  # fmt: skip


def rows_of(found, how):
    """Returns the rows of the commands of a reason or a group, with the lines in place of them."""

    def code(line):
        return f"`{line}`".replace("|", "\\|")

    rows = []
    for (line, _), pages in sorted(item for item in found.items() if item[0][1] == how):
        cells = [code(line), ", ".join(sorted(pages))]
        if how in SOAKED:
            runs = soaked(how, line).runs
            cells.insert(1, "" if runs == line else code(runs))
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def page():
    """Returns docs/not-run.md."""
    found, _ = not_run()
    out = ["# Commands that no test runs", "",
           "For everybody who wonders whether a command of these pages still works. First command:",
           "`./dev test`, which runs all other ones, with `./dev soak`. `./dev reference` writes",
           "this page; a test compares it with the pages, and allows no other reasons.",
           ""]  # fmt: skip
    for reason, meaning in REASONS.items():
        out += [f"## {meaning[0].upper()}{meaning[1:]}", "", "| command | pages |", "|---|---|",
                *rows_of(found, reason), ""]  # fmt: skip
    out += ["## Run by `./dev soak --pages`", "",
            "Each command as it stands on its page, or as the second column says, in a clone of",
            "HEAD below `build/soak/pages` with builds of its own, `pip` and scripts of the",
            "calibration in a new environment. Beyond `build/soak` they write, as everywhere, the",
            "caches in `~/.cache/orrery`. `--only PART` runs one group (its name below) or the",
            "commands with a part of their line; a second call leaves out those that passed at",
            "the same commit.", ""]  # fmt: skip
    for group, meaning in SOAKED.items():
        out += [f"### {meaning[0].upper()}{meaning[1:]}", "", f"Group `{group}`.", "",
                "| command | runs as | pages |", "|---|---|---|", *rows_of(found, group),
                ""]  # fmt: skip
    return "\n".join(out)


if __name__ == "__main__":
    sys.stdout.write(page())
