"""Process between ``orrery cluster kubernetes`` and the API server.

The command sends requests over descriptor 3, one JSON object in each message (4 bytes of length,
little endian, then the text), and gets one answer each:

===============================================  ===============================================
request                                          answer
===============================================  ===============================================
``{"read": {"acts": true, "since": V}}``         ``leader``, ``holder``, and the changes since the
                                                 reading with ``version`` V, or all (0)
``{"place": [{"gang": ID, "nodes": [N]}]}``      ``{"refused": [""]}``, or the reason of each gang
``{"evict": ID}``                                ``{"refused": ""}``, or the reason
===============================================  ===============================================

A reading has the keys of :meth:`orrery.kube.index.Index.read_changes`. An answer with ``failed``
says why there is none. The process ends when the descriptor closes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import socket
import struct
import sys
from typing import Any, Dict, List, Optional

from .api import Api, ApiError, Missing
from .extender import Answers, Extender
from .index import Index
from .lease import Leadership
from .mirror import Mirror
from .objects import RACK_LABELS, Object, ObjectError
from .placing import Placing, Refused

CHANNEL = 3


class Adapter:
    """Copies of the cluster's objects, the election and the writes, behind the requests.

    Parameters
    ----------
    api : Api
        Access to the server.
    namespaces : list of str
        Managed namespaces.
    leadership : Leadership or None
        Election; None: this controller never writes (shadow mode).
    rack_labels : sequence of str
        Labels that may name the rack of a node.
    """

    def __init__(
        self,
        api: Api,
        namespaces: List[str],
        leadership: Optional[Leadership],
        rack_labels: Any = RACK_LABELS,
    ) -> None:
        self._api = api
        self._leadership = leadership
        self.index = Index(namespaces, rack_labels)
        self._nodes = Mirror(api, "/api/v1/nodes", self.index.change_node)
        self._pods = Mirror(api, "/api/v1/pods", self.index.change_pod)
        self._kueue: Dict[str, Mirror] = {}
        identity = leadership.identity if leadership is not None else ""
        self._placing = Placing(
            api, identity, self._may_write, self._store, self._pods.remove, self.index
        )

    def start(self) -> None:
        """List the collections, derive the gangs, and begin to follow the changes.

        Raises
        ------
        ApiError
            If a list fails.
        """
        version = kueue_version(self._api)
        if version:
            changes = {
                "workloads": self.index.change_workload,
                "admissionchecks": self.index.change_check,
            }
            for kind, on_change in changes.items():
                self._kueue[kind] = Mirror(self._api, f"/apis/{version}/{kind}", on_change)
        for mirror in self._mirrors():
            mirror.start()
        self.index.derive_all()

    def stop(self) -> None:
        """Give the leadership up, and end the threads."""
        self._placing.stop()
        for mirror in self._mirrors():
            mirror.stop()
        if self._leadership is not None:
            self._leadership.release()

    def answer(self, request: Object) -> Object:
        """Return the answer to one request of the command."""
        try:
            if "read" in request:
                return self._read(request["read"])
            if "place" in request:
                return {"refused": self._placing.place_gangs(request["place"])}
            self._placing.evict(str(request["evict"]))
            return {"refused": ""}
        except Refused as refused:
            return {"refused": str(refused)}
        except (ApiError, ObjectError) as error:
            return {"failed": str(error)}

    def _read(self, request: Object) -> Object:
        failures = [mirror.failure() for mirror in self._mirrors()]
        if any(failures):
            return {"failed": "; ".join(each for each in failures if each)}
        leads = self._leadership is None or self._leadership.renew()
        problems: List[str] = []
        if request.get("acts") and leads and self._leadership is not None:
            problems = self._continue()
        reading = self.index.read_changes(int(request.get("since") or 0))
        reading["problems"] += problems
        reading["leader"] = leads
        reading["holder"] = self._leadership.holder if self._leadership is not None else ""
        return reading

    def _continue(self) -> List[str]:
        """Complete what was begun; return what failed, to be repeated at the next reading."""
        try:
            for check in self.index.checks():
                self._placing.activate_check(check)
            self._placing.continue_placements()
        except (ApiError, Refused) as error:
            return [str(error)]
        return []

    def _mirrors(self) -> List[Mirror]:
        return [self._nodes, self._pods, *self._kueue.values()]

    def _may_write(self) -> bool:
        if self._leadership is None:
            return False
        try:
            return self._leadership.renew()
        except ApiError:
            return self._leadership.is_leader()

    def _store(self, thing: Object) -> None:
        mirrors = {
            "Pod": self._pods,
            "Workload": self._kueue.get("workloads"),
            "AdmissionCheck": self._kueue.get("admissionchecks"),
        }
        mirror = mirrors.get(thing.get("kind", ""))
        if mirror is not None:
            mirror.put(thing)


def kueue_version(api: Api) -> str:
    """Return the preferred version of Kueue's API, for example ``kueue.x-k8s.io/v1beta2``.

    Returns the empty text for a cluster without Kueue.
    """
    try:
        group = api.get("/apis/kueue.x-k8s.io")
    except Missing:
        return ""
    return str(group["preferredVersion"]["groupVersion"])


def serve(adapter: Adapter, channel: socket.socket) -> None:
    """Answer the requests of the command until it closes the channel."""
    while True:
        head = receive(channel, 4)
        if head is None:
            return
        body = receive(channel, struct.unpack("<I", head)[0])
        if body is None:
            return
        send(channel, adapter.answer(json.loads(body)))


def send(channel: socket.socket, message: Object) -> None:
    """Send one message."""
    body = json.dumps(message, separators=(",", ":")).encode()
    channel.sendall(struct.pack("<I", len(body)) + body)


def receive(channel: socket.socket, count: int) -> Optional[bytes]:
    """Return exactly ``count`` bytes; None if the channel closes before."""
    parts: List[bytes] = []
    while count > 0:
        part = channel.recv(min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def parse_arguments(words: List[str]) -> argparse.Namespace:
    """Return the options of the process."""
    parser = argparse.ArgumentParser(prog="orrery.kube.adapter")
    parser.add_argument("--namespace", action="append", default=[])
    parser.add_argument("--kubeconfig", default="")
    parser.add_argument("--context", default="")
    parser.add_argument("--rack-label", action="append", default=[])
    parser.add_argument("--lease", default="", help="NAMESPACE/NAME; empty: never write")
    parser.add_argument("--lease-seconds", type=float, default=15.0)
    parser.add_argument("--extender-port", type=int, default=0)
    parser.add_argument("--extender-address", default="0.0.0.0")
    return parser.parse_args(words)


def main(words: Optional[List[str]] = None) -> int:
    """Serve the command that has started this process."""
    options = parse_arguments(sys.argv[1:] if words is None else words)
    gc.set_threshold(100_000)  # objects of the server have no cycles, and there are many
    channel = socket.socket(fileno=CHANNEL)
    try:
        api = Api.from_environment(options.kubeconfig, options.context)
        leadership = None
        if options.lease:
            namespace, _, name = options.lease.partition("/")
            identity = f"{socket.gethostname()}_{os.getpid()}"
            leadership = Leadership(api, namespace, name, identity, options.lease_seconds)
        adapter = Adapter(
            api, options.namespace, leadership, options.rack_label or RACK_LABELS
        )
        adapter.start()
        if options.extender_port:
            answers = Answers(adapter.index.find_gang, options.namespace, leadership is not None)
            Extender(answers, options.extender_address, options.extender_port).start()
    except (ApiError, OSError) as error:
        send(channel, {"failed": str(error)})
        return 1
    send(channel, {"ready": True})
    try:
        serve(adapter, channel)
    finally:
        try:
            adapter.stop()
        except ApiError as error:
            print(f"orrery: the lease ends by itself: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
