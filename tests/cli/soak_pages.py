"""Runs the commands of the pages that no test runs: `./dev soak --pages [--only PART]`.

    soak_pages.py [--only PART] [--since COMMIT]

The commands are those of page_commands.of_soak(). One after the other runs in a shell, in a clone
of HEAD in build/soak/pages/clone, with builds of its own, so that neither the checkout nor changes
of it during the hours matter. build/soak/pages.jsonl has a line for each command that ended:
commit, exit code, seconds. A command that passed at this commit is left out; with --since COMMIT,
so is one that passed at COMMIT or a later one before HEAD, which spreads the hours over days.
Commands that need ORRERY_DATA are skipped without this variable. Exits 1 if a command fails.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import page_commands
from page_commands import ROOT, SOAKED, Soaked

LIMIT_S = 12 * 3600
OUT_OF_TIME = 124  # exit code of a command that ran for LIMIT_S
LAST_LINES = 15  # lines of the log of a failed command that are printed


def git(*words, cwd=ROOT):
    return subprocess.check_output(["git", *map(str, words)], cwd=cwd, text=True).strip()


def commits_since(commit, checkout=ROOT):
    """Returns a commit of the checkout and all commits from it to HEAD."""
    first = git("rev-parse", "--verify", f"{commit}^{{commit}}", cwd=checkout)
    later = git("rev-list", "--ancestry-path", f"{first}..HEAD", cwd=checkout)
    return {first, *later.split()}


def clone_head(folder):
    """Sets up the clone at HEAD of the checkout and returns the commit."""
    if not (folder / ".git").exists():
        folder.mkdir(parents=True, exist_ok=True)
        git("init", "--quiet", cwd=folder)
    git("fetch", "--quiet", ROOT, "HEAD", cwd=folder)
    git("-c", "advice.detachedHead=false", "checkout", "--quiet", "--force", "--detach",
        "FETCH_HEAD", cwd=folder)  # fmt: skip
    return git("rev-parse", "HEAD", cwd=folder)


def chosen(commands, only):
    """Returns the commands of the group `only`, or those whose line contains it; all without it."""
    if only is None:
        return list(commands)
    if only in SOAKED:
        return [each for each in commands if each.group == only]
    return [each for each in commands if only in each.line]


class Soak:
    """Runs commands in a clone and records them.

    Parameters
    ----------
    folder : pathlib.Path
        Of the logs and of the environments of `pip`.
    clone : pathlib.Path
        Where commands run; its tracked files are restored before each.
    record : pathlib.Path
        File of the results.
    commit : str
        Of the clone.
    environment : mapping
        Variables of the commands, without those of another Python.
    since : collection of str
        Earlier commits of which a pass counts.
    """

    def __init__(self, folder, clone, record, commit, environment=os.environ, since=()):
        self._folder, self._clone, self._record = folder, clone, record
        self._commit = commit
        self._environment = {name: value for name, value in environment.items()
                             if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV",
                                             "ORRERY_BUILD")}  # fmt: skip
        if data := self._environment.get("ORRERY_DATA"):
            self._environment["ORRERY_DATA"] = os.path.abspath(data)
        self._environment["TAG"] = f"cp{sys.version_info.major}{sys.version_info.minor}"
        self.counts = dict.fromkeys(("passed", "passed before", "skipped", "failed"), 0)
        self._passed, self._failed = set(), set()  # lines of the shell
        for line in record.read_text().splitlines() if record.exists() else ():
            row = json.loads(line)
            if row["commit"] in {commit, *since} and row["exit"] == 0:
                self._passed.add(row["runs"])
        self._before = frozenset(self._passed)

    def run(self, command):
        """Runs a command, after those that it needs, unless it passed before. Returns whether it
        passed; None if it was skipped."""
        if command.runs in self._before:
            return self._tell("passed before", command)
        if command.runs in self._passed:
            return self._tell("passed", command, "above")
        if command.runs in self._failed:
            return self._tell("failed", command, "above")
        if command.group == "data" and "ORRERY_DATA" not in self._environment:
            return self._tell("skipped", command, "ORRERY_DATA is not set")
        for line in command.needed:
            if line not in self._passed | self._failed:
                self.run(Soaked(command.group, line, line))
            if line not in self._passed:
                return self._tell("failed", command, f"it needs {line}")
        return self._execute(command)

    def _execute(self, command):
        print(f"== runs: {command.runs}", flush=True)
        name = re.sub(r"[^\w.-]+", "-", command.line).strip("-.")[:80]
        log = self._folder / f"{name}.log"
        begin = time.monotonic()
        with log.open("w") as out:
            code = self._prepare(command, out)
            code = code or self._shell(command.runs, out, self._path(command))
        seconds = time.monotonic() - begin
        with self._record.open("a") as rows:
            rows.write(json.dumps({"command": command.line, "runs": command.runs,
                                   "commit": self._commit, "exit": code,
                                   "seconds": round(seconds, 1)}) + "\n")  # fmt: skip
        if code == 0:
            self._passed.add(command.runs)
            return self._tell("passed", command, f"{seconds:.0f} s")
        self._failed.add(command.runs)
        for line in log.read_text(errors="replace").splitlines()[-LAST_LINES:]:
            print(f"   | {line}")
        return self._tell("failed", command, f"exit code {code} after {seconds:.0f} s, {log}")

    def _prepare(self, command, out):
        """Restores the clone and makes the environment of a command. Returns an exit code."""
        if (self._clone / ".git").exists():
            git("checkout", "--quiet", "--force", "HEAD", cwd=self._clone)
        if command.packages is None:
            return 0
        venv = self._folder / "venv"
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", venv], stdout=out,
                              stderr=subprocess.STDOUT)  # fmt: skip
        if made.returncode != 0 or not command.packages:
            return made.returncode
        return self._shell(f"pip install {' '.join(command.packages)}", out, venv / "bin")

    def _path(self, command):
        own = self._folder / "venv" / "bin"
        return own if command.packages is not None else self._clone / "build" / "venv" / "bin"

    def _shell(self, line, out, first):
        """Runs a line in bash with a folder before those of PATH. Returns its exit code; kills all
        of its processes after LIMIT_S, or if this program is interrupted."""
        environment = {**self._environment, "PATH": f"{first}:{self._environment['PATH']}"}
        started = subprocess.Popen(["bash", "-o", "pipefail", "-c", line], cwd=self._clone,
                                   env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
        try:
            return started.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            return OUT_OF_TIME
        finally:
            if started.returncode is None:
                os.killpg(started.pid, signal.SIGKILL)
                started.wait()

    def _tell(self, word, command, more=""):
        self.counts[word] += 1
        print(f"{word:<13} {command.line}{f': {more}' if more else ''}", flush=True)
        return None if word == "skipped" else word != "failed"


def run_all(commands, soak):
    """Runs the commands and prints the sums. Returns the exit code of the program."""
    for command in commands:
        soak.run(command)
    print("== pages: " + ", ".join(f"{count} {word}" for word, count in soak.counts.items()))
    return 1 if soak.counts["failed"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", metavar="PART",
                        help=f"a group ({', '.join(SOAKED)}), or a part of a line")
    parser.add_argument("--since", metavar="COMMIT",
                        help="count what passed at this commit or a later one")
    asked = parser.parse_args()
    part = asked.only
    since = commits_since(asked.since) if asked.since else ()
    commands = chosen(page_commands.of_soak(), part)
    if not commands:
        parser.error(f"--only: expected a group ({', '.join(SOAKED)}) or a part of a command of "
                     f"docs/not-run.md, found '{part}'")  # fmt: skip
    folder = pathlib.Path(ROOT, "build", "soak", "pages")
    commit = clone_head(folder / "clone")
    if changed := git("status", "--porcelain", "--untracked-files=no"):
        print(f"note: runs {commit[:12]}, without the changes of {len(changed.splitlines())} files")
    soak = Soak(folder, folder / "clone", folder.with_suffix(".jsonl"), commit,
                since=since)
    sys.exit(run_all(commands, soak))


if __name__ == "__main__":
    main()
