"""Attaches Orrery to every Python that starts with this folder on PYTHONPATH.

Runs the sitecustomize module that this one hides first. Does nothing else outside `orrery rehearse`
and `orrery run`, and never raises.
"""

import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def _run_hidden_sitecustomize() -> None:
    """Runs the next sitecustomize module on the path, which Python would have run without us."""
    others = [path for path in sys.path if os.path.abspath(path or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # site.py reports it too
        sys.stderr.write(f"error in {spec.origin}: {type(error).__name__}: {error}\n")


def _attach(module: str) -> None:
    """Loads the package beside this folder as orrery_programs, and calls `module`.attach()."""
    folder = os.path.dirname(HERE)
    spec = importlib.util.spec_from_file_location(
        "orrery_programs", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        return
    package = importlib.util.module_from_spec(spec)
    sys.modules["orrery_programs"] = package
    spec.loader.exec_module(package)
    importlib.import_module(f"orrery_programs.{module}").attach()


_run_hidden_sitecustomize()
if os.environ.get("ORRERY_REHEARSE"):
    try:
        _attach("attaching")
    except Exception as error:
        sys.stderr.write(f"orrery: cannot attach: {type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(4)
elif os.environ.get("ORRERY_RUN"):
    try:
        _attach("running")
    except Exception as error:  # the program runs without Orrery
        sys.stderr.write(f"orrery: not attached: {type(error).__name__}: {error}\n")
