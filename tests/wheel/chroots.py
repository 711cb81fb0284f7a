"""Shows the wheels of `./dev wheel` in bare installations of Debian (`./dev fresh --wheel`).

    chroots.py [--suite NAME]... [--folder FOLDER] [--prepare | --check | --list]

Each suite gets a root with its minimal packages, python3 and python3-venv, and no other package.
The wheel of that Python is installed there, and the first commands of README.md run in an
empty folder. Printed are the seconds from the end of the download to the end of the last command.
Roots are kept in FOLDER, so that an interrupted run continues. Needs root and debootstrap. The
roots reach package indexes as this machine does; how, is copied when they are made.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEELS = ROOT / "build" / "wheels"
SUITES = ("bookworm", "trixie", "testing")
PACKAGES = "python3,python3-venv,ca-certificates"
LIMIT_S = 60  # limit from the end of the download to the end of the last command
CARRIED = re.compile(r"(pip_(index|extra|trusted|cert|proxy)|ssl_cert_|(https?|no)_proxy=)", re.I)


def first_commands(text):
    """Return the commands of the program in a page's blocks of code, at least three.

    Parameters
    ----------
    text : str
        The page, in Markdown.

    Returns
    -------
    list of str

    Raises
    ------
    SystemExit
        If the page has fewer.
    """
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    commands = [line.removeprefix("$ ").split("  #")[0].rstrip() for line in lines]
    commands = [line for line in commands if line.startswith("orrery ")]
    if len(commands) < 3:
        raise SystemExit("error: expected three lines that begin with 'orrery' in the code of "
                         f"README.md, found {len(commands)}")  # fmt: skip
    return commands


def mirror():
    """Return the address of this machine's Debian mirror, or an empty text."""
    said = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages",
         "Origin: Debian", "Label: Debian"], capture_output=True, text=True, check=False
    )  # fmt: skip
    return said.stdout.split("\n", 1)[0]


def copy_network(root):
    """Copy this machine's names, proxies, certificates and settings of pip into a root."""
    certificates = "etc/ssl/certs/ca-certificates.crt"
    for name in ("etc/resolv.conf", "etc/hosts", "etc/pip.conf", certificates):
        if pathlib.Path("/", name).is_file():
            (root / name).unlink(missing_ok=True)
            shutil.copyfile(pathlib.Path("/", name), root / name)
    settings = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False)
    lines = [line for line in settings.stdout.splitlines()
             if re.match(r"Acquire::(https?|Check|Retries)", line)]  # fmt: skip
    (root / "etc/apt/apt.conf.d/99host").write_text("\n".join([*lines, ""]), encoding="utf-8")


def inside(root, command, folder="/root", network=False):
    """Run a line of shell in a root, with an environment that names nothing of this machine.

    Parameters
    ----------
    root : pathlib.Path
    command : str
    folder : str
        Where the command starts.
    network : bool
        Whether the command gets the variables with which this machine reaches package indexes.

    Returns
    -------
    str
        Output and errors.

    Raises
    ------
    SystemExit
        If the command fails; the message ends with its output.
    """
    environment = {"HOME": "/root", "LANG": "C.UTF-8",
                   "PATH": "/root/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin"}  # fmt: skip
    if network:
        environment |= {name: value for name, value in os.environ.items()
                        if CARRIED.match(f"{name}=")}  # fmt: skip
    result = subprocess.run(
        ["chroot", str(root), "/bin/sh", "-c", f"cd {folder} && {command}"], env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    if result.returncode != 0:
        raise SystemExit(f"error: {root.name}: exit code {result.returncode} of: {command}\n"
                         + result.stdout[-4000:])  # fmt: skip
    return result.stdout


def tag_of(root):
    """Return the tag of the root's Python, for example ``"cp313"``."""
    return inside(root, "python3 -c 'import sys; print(\"cp%d%d\" % sys.version_info[:2])'").strip()


def prepare(suite, root):
    """Make the root of a suite, and unpack the headers of its Python into its folder headers."""
    if not (root / "complete").exists():
        print(f"{suite}: debootstrap", flush=True)
        shutil.rmtree(root, ignore_errors=True)
        address = mirror()
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, str(root)]
        with open(f"{root}.log", "w", encoding="utf-8") as log:
            done = subprocess.run([*command, *([address] if address else [])], stdout=log,
                                  stderr=log, check=False)  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"error: debootstrap {suite} failed: {root}.log")
        (root / "complete").touch()
    if (root / "headers" / "usr").exists():
        return
    copy_network(root)
    inside(root, "apt-get -q -o APT::Sandbox::User=root update", network=True)
    package = inside(root, "python3 -c 'import sys; print(\"libpython%d.%d-dev\" % "
                           "sys.version_info[:2])'").strip()  # fmt: skip
    fetch = f"apt-get -q -o APT::Sandbox::User=root download {package}"
    inside(root, f"mkdir -p headers && cd headers && {fetch} && dpkg-deb -x {package}_*.deb .",
           folder="/", network=True)  # fmt: skip


def cpu_s():
    """Return the CPU time in seconds of all programs that have ended so far."""
    times = os.times()
    return times.children_user + times.children_system


def check(suite, root):
    """Install the wheel in a root and run the commands there; prints the times.

    Returns
    -------
    bool
        Whether everything was done within the limit.
    """
    tag = tag_of(root)
    wheels = sorted(WHEELS.glob(f"orrery-*-{tag}-{tag}-*.whl"))
    if not wheels:
        raise SystemExit(f"error: {suite}: expected a wheel for {tag} in {WHEELS}; "
                         f"./dev wheel --root {root}")  # fmt: skip
    for name in ("venv", "wheels", "empty"):
        shutil.rmtree(root / "root" / name, ignore_errors=True)
    (root / "root" / "wheels").mkdir()
    (root / "root" / "empty").mkdir()
    shutil.copy2(wheels[-1], root / "root" / "wheels")
    copy_network(root)
    packages = inside(root, "dpkg-query -W -f '${Package} '").split()
    inside(root, "python3 -m venv venv")
    inside(root, f"pip -q download --only-binary :all: -d wheels wheels/{wheels[-1].name}",
           network=True)  # fmt: skip
    begin, used_s = time.monotonic(), cpu_s()
    inside(root, "pip -q install --no-index --find-links wheels orrery")
    installed_s = time.monotonic() - begin
    print(f"{suite}: {tag}, {len(packages)} Debian packages, {wheels[-1].name}")
    print(f"{suite}: {installed_s:.1f} s pip install", flush=True)
    for command in first_commands((ROOT / "README.md").read_text(encoding="utf-8")):
        started = time.monotonic()
        said = inside(root, command, folder="/root/empty")
        print(f"{suite}: {time.monotonic() - started:.1f} s {command} "
              f"({len(said.splitlines())} lines)", flush=True)  # fmt: skip
    took_s, used_s = time.monotonic() - begin, cpu_s() - used_s
    inside(root, "orrery --version && test -f venv/share/man/man1/orrery-simulate.1")
    print(f"{suite}: {took_s:.1f} s after the download ({used_s:.1f} s of CPU), limit {LIMIT_S} s; "
          f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)  # fmt: skip
    return took_s < LIMIT_S


def prove(arguments):
    """Prepare and check the roots, in a mount namespace of their own; returns an exit code."""
    good = True
    for suite in arguments.suite or SUITES:
        root = arguments.folder / suite
        if not arguments.check:
            prepare(suite, root)
        if arguments.prepare:
            continue
        subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
        subprocess.run(["mount", "--rbind", "/dev", root / "dev"], check=True)
        good = check(suite, root) and good
    return 0 if good else 1


def main():
    """Parse the command line, and enter a namespace whose mounts end with this program."""
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--suite", action="append", choices=SUITES, help="default: all")
    parser.add_argument("--folder", type=pathlib.Path,
                        default=pathlib.Path(cache) / "orrery" / "chroots")  # fmt: skip
    parser.add_argument("--prepare", action="store_true", help="make the roots and stop")
    parser.add_argument("--check", action="store_true", help="the roots exist already")
    parser.add_argument("--list", action="store_true", help="print the roots and exit")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.list:
        print(*(arguments.folder / suite for suite in arguments.suite or SUITES), sep="\n")
        return
    if arguments.inside:
        sys.exit(prove(arguments))
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise SystemExit("error: expected root and debootstrap (apt-get install debootstrap)")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    os.execvp("unshare", ["unshare", "--mount", "--pid", "--fork", "--kill-child", sys.executable,
                          __file__, "--inside", *sys.argv[1:]])  # fmt: skip


if __name__ == "__main__":
    main()
