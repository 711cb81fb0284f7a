"""Licences of the libraries that a wheel contains, from the Debian packages they came from."""

import pathlib
import re
import shutil
import subprocess

COMMON = pathlib.Path("/usr/share/common-licenses")


def bundled_names(folder):
    """Return the libraries that auditwheel has put into a wheel, without its digest in the name.

    Parameters
    ----------
    folder : pathlib.Path
        The folder ``orrery.libs`` of the unpacked wheel.

    Returns
    -------
    dict of str to str
        ``"libfmt.so.9.1.0"`` to ``"libfmt-0a1b2c3d.so.9.1.0"``.
    """
    files = sorted(path.name for path in folder.iterdir())
    return {re.sub(r"-[0-9a-f]{8}(?=\.so)", "", name): name for name in files}


def _said(*command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip()


def _package_of(path):
    """Return name and version of the Debian package that owns a file, through links of /lib."""
    for each in dict.fromkeys([path, path.resolve(), pathlib.Path("/usr" + str(path))]):
        owner = _said("dpkg-query", "-S", str(each)).split(": ")[0]
        if owner:
            return owner.split(":")[0], _said("dpkg-query", "-W", "-f", "${Version}", owner)
    raise SystemExit(f"error: expected a Debian package that owns {path}, found none; "
                     "a wheel must contain the licence of each library")  # fmt: skip


def add_licences(unpacked, needed, simgrid):
    """Write the licence of each bundled library into a wheel.

    The folder ``licenses/libraries`` of the metadata gets the copyright file of each package, the
    common licences that these refer to, and a table.

    Parameters
    ----------
    unpacked : pathlib.Path
        The unpacked wheel.
    needed : list of pathlib.Path
        The libraries that the programs were linked with on this machine.
    simgrid : pathlib.Path
        Folder of the rebuilt SimGrid, with ``copyright`` and ``version``.

    Returns
    -------
    list of str
        The rows of the table.

    Raises
    ------
    SystemExit
        If a bundled library has no known origin or no copyright file.
    """
    (metadata,) = unpacked.glob("*.dist-info")
    to = metadata / "licenses" / "libraries"
    to.mkdir(parents=True, exist_ok=True)
    places = {name: path for path in needed for name in (path.name, path.resolve().name)}
    rows, referred = [], set()
    for name, file in bundled_names(unpacked / "orrery.libs").items():
        if name not in places:
            raise SystemExit(f"error: expected the origin of {file} among the linked libraries")
        if places[name].parent == simgrid:
            package, version = "simgrid", (simgrid / "version").read_text().strip() + " (rebuilt)"
            text = simgrid / "copyright"
        else:
            package, version = _package_of(places[name])
            text = pathlib.Path("/usr/share/doc", package, "copyright")
        if not text.is_file():
            raise SystemExit(f"error: expected {text}, the licence of {file}; reinstall {package}")
        shutil.copyfile(text, to / f"{package}.txt")
        referred |= set(re.findall(rf"{COMMON}/([\w.+-]*\w)", text.read_text(errors="replace")))
        rows.append(f"{file}  {package} {version}  {package}.txt")
    for name in sorted(referred):
        if (COMMON / name).is_file():
            shutil.copyfile(COMMON / name, to / f"common-{name}.txt")
    head = ["Libraries in orrery.libs: file, Debian package, licence beside this table.",
            "common-*.txt are the licences that the others refer to. The libraries stay separate",
            "files, which can be replaced by others of the same name."]  # fmt: skip
    (to / "LIBRARIES.txt").write_text("\n".join([*head, "", *rows, ""]), encoding="utf-8")
    return rows
