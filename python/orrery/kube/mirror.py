"""Copies of the collections of an API server that follow their changes: list, then watch."""

from __future__ import annotations

import threading
from typing import Callable, Dict, List, Optional

from .api import Api, ApiError, Expired, Missing
from .objects import Object

#: Receiver of changes: the object before and after; None stands for an object that is not there.
OnChange = Callable[[Optional[Object], Optional[Object]], None]


class Mirror:
    """Copy of one collection, kept by a thread of its own. Thread-safe.

    A watch that ends continues from the newest version that was seen. If the server has forgotten
    this version, the collection is listed again. Without an answer the copy stays as it is, and
    :meth:`failure` says why.

    Parameters
    ----------
    api : Api
        Access to the server.
    path : str
        Path of the collection, for example ``/api/v1/pods``.
    on_change : callable
        Receives each change of the copy, in the order of the changes, from the thread that makes
        the change; must not call the mirror.
    pause_s : float
        Pause after a failed request, in seconds.
    """

    def __init__(
        self, api: Api, path: str, on_change: OnChange, pause_s: float = 1.0
    ) -> None:
        self.path = path
        self._api = api
        self._on_change = on_change
        self._pause_s = pause_s
        self._lock = threading.Lock()
        self._objects: Dict[str, Object] = {}
        self._version = ""
        self._failure = "it was not read yet"
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"watch {path}", daemon=True)

    def start(self) -> None:
        """List the collection, and begin to follow it. Raises ApiError if the list fails."""
        self._list()
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its current request."""
        self._stopped.set()

    def put(self, thing: Object) -> None:
        """Store an object that the server has just returned, before the watch shows it."""
        self._store(thing)

    def remove(self, thing: Object) -> None:
        """Remove an object that the server no longer has, before the watch shows it."""
        with self._lock:
            self._replace(thing["metadata"]["uid"], None)

    def failure(self) -> str:
        """Return why the copy may be out of date; empty while the watch runs."""
        with self._lock:
            return f"{self.path}: {self._failure}" if self._failure else ""

    def _store(self, thing: Object) -> None:
        metadata = thing["metadata"]
        with self._lock:
            known = self._objects.get(metadata["uid"])
            if known is None or _is_newer(thing, known):
                self._replace(metadata["uid"], thing)

    def _replace(self, uid: str, thing: Optional[Object]) -> None:
        """Replace or remove one object; the caller holds the lock."""
        known = self._objects.pop(uid, None)
        if thing is not None:
            self._objects[uid] = thing
        if known is not None or thing is not None:
            self._on_change(known, thing)

    def _replace_all(self, objects: Dict[str, Object]) -> None:
        """Replace the copy; the caller holds the lock."""
        for uid in [uid for uid in self._objects if uid not in objects]:
            self._replace(uid, None)
        for uid, thing in objects.items():
            known = self._objects.get(uid)
            if known is None or _version_of(known) != _version_of(thing):
                self._replace(uid, thing)

    def _list(self) -> None:
        objects, version = self._api.list(self.path)
        with self._lock:
            self._replace_all({thing["metadata"]["uid"]: thing for thing in objects})
            self._version = version
            self._failure = ""

    def _follow(self) -> None:
        while not self._stopped.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
            except Expired:
                self._version = ""
            except Missing as error:  # the kind is gone, for example with Kueue
                with self._lock:
                    self._replace_all({})
                self._note(error)
            except ApiError as error:
                self._note(error)

    def _watch(self) -> None:
        changes = self._api.watch(self.path, self._version)
        with self._lock:  # the server follows again, also while nothing changes
            self._failure = ""
        for kind, thing in changes:
            if kind == "DELETED":
                with self._lock:
                    self._replace(thing["metadata"]["uid"], None)
            elif kind in ("ADDED", "MODIFIED"):
                self._store(thing)
            with self._lock:
                self._version = thing["metadata"]["resourceVersion"]
            if self._stopped.is_set():
                return
        self._stopped.wait(self._pause_s / 20)  # the next watch continues, or says why not

    def _note(self, error: ApiError) -> None:
        with self._lock:
            self._failure = str(error)
        self._stopped.wait(self._pause_s)


def _is_newer(thing: Object, known: Object) -> bool:
    """Return false if a late event shows a state that a patch has returned before, or an older one.

    Versions are opaque texts; every server so far writes growing numbers. Another text counts as
    newer, so that the order of the events decides.
    """
    new, old = _version_of(thing), _version_of(known)
    if not (new.isdigit() and old.isdigit()):
        return bool(new != old)
    return int(new) > int(old)


def _version_of(thing: Object) -> str:
    return str(thing["metadata"]["resourceVersion"])
