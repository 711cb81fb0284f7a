"""Election of one leader among several controllers, by a Lease of the API server."""

from __future__ import annotations

import datetime
import threading
import time
from typing import Callable, Optional, Tuple

from .api import Api, Conflict, Missing
from .objects import Object


class Leadership:
    """Membership in the election of a leader. Thread-safe: one thread renews while others wait.

    A controller leads while it has renewed the Lease within ``duration_s``. Another controller
    takes the Lease over once it has seen the same renewal for ``duration_s`` on its own clock, so
    that the clocks of the machines need not agree. :meth:`is_leader` ends earlier, after two thirds
    of the duration: whoever asks before a write never writes beside a successor, as long as a
    request takes less than the remaining third.

    Parameters
    ----------
    api : Api
        Access to the server.
    namespace, name : str
        Place of the Lease.
    identity : str
        Name of this controller, different for each process.
    duration_s : float
        Time after which a silent leader is replaced.
    clock : callable
        Monotonic clock in seconds.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        identity: str,
        duration_s: float = 15.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.identity = identity
        self.holder = ""  #: identity of the newest known leader
        self._api = api
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{name}"
        self._name = name
        self._duration_s = duration_s
        self._clock = clock
        self._lock = threading.RLock()
        self._renewed_at: Optional[float] = None
        self._seen: Tuple[str, str] = ("", "")
        self._seen_at = 0.0

    def is_leader(self) -> bool:
        """Return true if this controller may write now."""
        renewed_at = self._renewed_at
        return renewed_at is not None and self._clock() - renewed_at < self._duration_s * 2 / 3

    def renew(self) -> bool:
        """Acquire or renew the Lease where possible, and return :meth:`is_leader`.

        Raises
        ------
        ApiError
            If the server does not answer or refuses.
        """
        with self._lock:
            return self._renew()

    def release(self) -> None:
        """Give the Lease up if this controller holds it, so that a successor need not wait."""
        with self._lock:
            if not self.is_leader():
                return
            self._renewed_at = None
            lease = self._api.get(self._path)
            if lease["spec"].get("holderIdentity") == self.identity:
                lease["spec"]["holderIdentity"] = ""
                self._api.replace(self._path, lease)

    def _renew(self) -> bool:
        asked_at = self._clock()
        if self.is_leader() and self._renewed_at is not None:
            if asked_at - self._renewed_at < self._duration_s / 5:
                return True
        try:
            lease = self._api.get(self._path)
        except Missing:
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name},
                "spec": {},
            }
        if not self._may_hold(lease):
            return self.is_leader()
        try:
            self._write(lease)
        except Conflict:  # another controller was faster
            self._renewed_at = None
            return False
        self._renewed_at = asked_at
        self.holder = self.identity
        return True

    def _may_hold(self, lease: Object) -> bool:
        spec = lease.get("spec") or {}
        self.holder = spec.get("holderIdentity") or ""
        if self.holder == self.identity or not self.holder:
            return True
        self._renewed_at = None
        seen = (self.holder, str(spec.get("renewTime")))
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock()
        return self._clock() - self._seen_at > float(spec.get("leaseDurationSeconds") or 0)

    def _write(self, lease: Object) -> None:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="microseconds")
        now = now.replace("+00:00", "Z")
        spec = dict(lease.get("spec") or {})
        if spec.get("holderIdentity") != self.identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        spec["holderIdentity"] = self.identity
        spec["renewTime"] = now
        spec["leaseDurationSeconds"] = max(1, round(self._duration_s))
        body = {**lease, "spec": spec}
        if "resourceVersion" in lease["metadata"]:
            self._api.replace(self._path, body)
        else:
            self._api.create(self._collection, body)
