"""Runs the last stage of the Dockerfile in a bare Debian 12, without a container engine.

    image.py [--folder FOLDER]

The root is a copy of the one of `chroots.py --prepare --suite bookworm`, the wheel the one of
`./dev wheel`. The copy gets the wheel where the Dockerfile copies it, then runs the RUN lines as a
container engine does, and the entry point as the user of the image and as a user without a name.
The first stage is not run: it compiles everything, as `./dev fresh` does in such a root.
"""

import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import chroots

DOCKERFILE = chroots.ROOT / "Dockerfile"
NAMELESS = "12345"  # a user of the host that the image does not know


def stages(text):
    """Return the stages of a Dockerfile, each a list of (instruction, arguments).

    Parameters
    ----------
    text : str
        The Dockerfile.

    Returns
    -------
    list of list of tuple of str
        Continued lines are joined; the first instruction of each stage is ``FROM``.

    Raises
    ------
    SystemExit
        If an instruction stands before the first ``FROM``.
    """
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            found.append([])
        if word and not found:
            raise SystemExit(f"error: Dockerfile: expected FROM first, found {word}")
        if word:
            found[-1].append((word, re.sub(r"\s+", " ", rest).strip()))
    return found


def arguments_of(stage, instruction):
    """Return the arguments of an instruction in a stage, in their order."""
    return [rest for word, rest in stage if word == instruction]


def packages_of(stage):
    """Return the Debian packages that a stage installs."""
    commands = " && ".join(arguments_of(stage, "RUN"))
    lists = re.findall(r"apt-get install -y --no-install-recommends ([^&]*)", commands)
    return set(" ".join(lists).split())


def examples_of(text):
    """Return the words after the image's name in the ``docker run`` lines of a text."""
    lines = re.findall(r"docker run [^`\n]*", text)
    return [shlex.split(line.split(" orrery ", 1)[1]) for line in lines if " orrery " in line]


def run_as(root, user, folder, words):
    """Run the entry point as a user; exits with the output if it fails."""
    command = ["chroot", f"--userspec={user}", str(root), "/usr/bin/env", "-i", "LANG=C.UTF-8",
               "PATH=/opt/orrery/bin:/usr/bin:/bin", "/bin/sh", "-c",
               f"cd {folder} && exec {shlex.join(['orrery', *words])}"]  # fmt: skip
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"error: exit code {done.returncode} of user {user}: orrery "
                         f"{shlex.join(words)}\n{done.stdout[-4000:]}")  # fmt: skip
    print(f"user {user}: orrery {shlex.join(words)} ({len(done.stdout.splitlines())} lines)",
          flush=True)  # fmt: skip


def play(root, text):
    """Run the last stage of a Dockerfile in a root that may be changed, then its entry point."""
    stage = stages(text)[-1]
    variables = " ".join(f"{name}='{value}'" for name, _, value in
                         (rest.partition("=") for rest in arguments_of(stage, "ARG")))  # fmt: skip
    (copied,) = arguments_of(stage, "COPY")
    wheels = sorted(chroots.WHEELS.glob(f"orrery-*-{chroots.tag_of(root)}-*.whl"))
    if not wheels:
        raise SystemExit(f"error: expected a wheel in {chroots.WHEELS}; ./dev wheel")
    to = root / copied.split()[-1].strip("/")
    to.mkdir()
    shutil.copy2(wheels[-1], to)
    chroots.copy_network(root)
    (root / "etc/apt/apt.conf.d/99host").open("a").write('APT::Sandbox::User "root";\n')
    for command in arguments_of(stage, "RUN"):
        said = chroots.inside(root, f"{variables} && {command}", folder="/", network=True)
        print(f"RUN {command[:70]} ({len(said.splitlines())} lines)", flush=True)
    (user,), (folder,) = arguments_of(stage, "USER"), arguments_of(stage, "WORKDIR")
    readme = (chroots.ROOT / "README.md").read_text(encoding="utf-8")
    given = [shlex.split(line)[1:] for line in chroots.first_commands(readme)]
    for words in [["--help"], *examples_of(text), *given]:
        run_as(root, user, folder, words)
    os.chown(root / folder.strip("/"), int(NAMELESS), int(NAMELESS))
    run_as(root, f"{NAMELESS}:{NAMELESS}", folder, [*examples_of(text)[0], "--record", "run.log"])


def prove(folder):
    """Run the stage in a copy of the root of Debian 12, in a mount namespace of its own."""
    source = folder / "bookworm"
    if not (source / "complete").exists():
        raise SystemExit(f"error: expected the root {source}: chroots.py --prepare")
    with tempfile.TemporaryDirectory(prefix="orrery-image.", dir=folder) as name:
        root = pathlib.Path(name) / "root"
        subprocess.run(["cp", "-a", "--reflink=auto", source, root], check=True)
        subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
        subprocess.run(["mount", "--rbind", "/dev", root / "dev"], check=True)
        try:
            play(root, DOCKERFILE.read_text(encoding="utf-8"))
        finally:
            subprocess.run(["umount", "--recursive", root / "dev", root / "proc"], check=True)


def main():
    """Parse the command line, and enter a namespace whose mounts end with this program."""
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--folder", type=pathlib.Path,
                        default=pathlib.Path(cache) / "orrery" / "chroots")  # fmt: skip
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        prove(arguments.folder)
        return
    if os.geteuid() != 0:
        raise SystemExit("error: expected root")
    sys.stdout.flush()
    os.execvp("unshare", ["unshare", "--mount", "--pid", "--fork", "--kill-child", sys.executable,
                          __file__, "--inside", *sys.argv[1:]])  # fmt: skip


if __name__ == "__main__":
    main()
