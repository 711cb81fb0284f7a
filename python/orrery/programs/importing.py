"""Calls of functions once a module has been imported, before the program continues."""

import importlib.abc
import importlib.machinery
import os
import sys
from types import ModuleType
from typing import Any, Callable, Optional, Sequence


def on_import_of_torch(
    install: Callable[[], None],
    refuse: Callable[[str], None],
    prepare: Callable[[str], None] = lambda folder: None,
) -> None:
    """Calls `install` after the program's first import of torch; now if torch is imported already.

    `prepare` is called before it with the folder of torch. An exception of one of them, for example
    because another version of PyTorch lacks a part, becomes the reason with which `refuse` is
    called.
    """

    def call_or_refuse(step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            refuse(f"{type(error).__name__}: {error}")

    torch = sys.modules.get("torch")
    if torch is not None:
        call_or_refuse(lambda: prepare(os.path.dirname(str(torch.__file__))))
        call_or_refuse(install)
        return

    def prepare_found(spec: "Optional[importlib.machinery.ModuleSpec]") -> None:
        if spec is None:
            sys.stderr.write(f"orrery: expected PyTorch in {sys.executable}, found none; "
                             "install it with pip install 'orrery[torch]'\n")  # fmt: skip
        elif spec.origin is not None:
            folder = os.path.dirname(spec.origin)
            call_or_refuse(lambda: prepare(folder))

    finder = _Finder("torch", lambda: call_or_refuse(install), prepare_found)
    sys.meta_path.insert(0, finder)


def on_import_of(name: str, follow: "Callable[[ModuleType], None]") -> None:
    """Calls `follow` with a module after its first import; now if it is imported already.

    An exception of `follow`, for example because another version of a library lacks a part, has no
    effect.
    """

    def follow_quietly(module: ModuleType) -> None:
        try:
            follow(module)
        except Exception:
            return

    module = sys.modules.get(name)
    if module is not None:
        follow_quietly(module)
        return
    sys.meta_path.insert(0, _Finder(name, lambda: follow_quietly(sys.modules[name])))


class _Finder(importlib.abc.MetaPathFinder):
    """Finder that finds one module, once."""

    def __init__(
        self,
        name: str,
        follow: Callable[[], None],
        prepare: "Callable[[Optional[importlib.machinery.ModuleSpec]], None]" = lambda spec: None,
    ) -> None:
        self._name = name
        self._follow = follow
        self._prepare = prepare

    def find_spec(
        self,
        fullname: str,
        path: Optional[Sequence[str]] = None,
        target: Optional[ModuleType] = None,
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Return the spec of the module with a loader that calls `follow`; None for others.

        `prepare` is called with the spec first; with None if there is no such module.
        """
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        self._prepare(spec)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._follow)
        return spec


class _Loader(importlib.abc.Loader):
    """Loader that executes a module with the module's own loader, then calls a function."""

    def __init__(self, loader: Any, install: Callable[[], None]) -> None:
        self._loader = loader
        self._install = install

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        """Return the module that its own loader creates."""
        created: Optional[ModuleType] = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        """Executes the module and calls the function."""
        self._loader.exec_module(module)
        self._install()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
