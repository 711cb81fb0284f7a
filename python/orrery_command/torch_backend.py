"""Entry point of PyTorch's group ``torch.backends``: attaches a rank whose PYTHONPATH was lost.

`orrery run` attaches programs by a folder on PYTHONPATH. A launcher that sets another PYTHONPATH
hides it; PyTorch then calls attach() at the end of `import torch`, if Orrery is installed in the
program's Python. Outside `orrery run` the call returns at once.
"""

import os


def attach() -> None:
    """Attaches this process to `orrery run` if the process is a rank that is not attached yet.

    Never raises. A failure is one line on standard error, and the program runs without Orrery.
    """
    if not os.environ.get("ORRERY_RUN"):
        return
    import importlib
    import importlib.util
    import json
    import sys

    if "orrery_programs" in sys.modules:
        return
    try:
        native = json.loads(os.environ["ORRERY_RUN"])["native"]
        folder = os.path.join(os.path.dirname(native), "programs")
        spec = importlib.util.spec_from_file_location(
            "orrery_programs",
            os.path.join(folder, "__init__.py"),
            submodule_search_locations=[folder],
        )
        if spec is None or spec.loader is None:
            raise FileNotFoundError(f"expected Orrery's package in {folder}, found none")
        package = importlib.util.module_from_spec(spec)
        sys.modules["orrery_programs"] = package
        spec.loader.exec_module(package)
        importlib.import_module("orrery_programs.running").attach()
    except Exception as error:
        sys.stderr.write(f"orrery: not attached: {type(error).__name__}: {error}\n")
