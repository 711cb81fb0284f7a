"""The scenarios and the notebook that the package brings along."""

from pathlib import Path

from orrery._errors import UsageError

_FOLDER = Path(__file__).parent / "examples"


def example(name: str) -> Path:
    """Return the path of an example that the package brings along.

    Parameters
    ----------
    name : str
        Its file name; ``.yaml`` may be left out, as in ``"straggler-4-ranks"`` or
        ``"compare/plain"``. The notebook is ``"first-steps.ipynb"``.

    Returns
    -------
    Path
        Where it stands; another function of this package takes it as it is.

    Raises
    ------
    UsageError
        If there is no such example; the message lists all.
    """
    files = sorted(path for path in _FOLDER.rglob("*") if path.is_file())
    known = {str(path.relative_to(_FOLDER)): path for path in files}
    path = known.get(name) or known.get(name + ".yaml")
    if path is None:
        raise UsageError(f"no example {name!r}; there are: {', '.join(known)}")
    return path
