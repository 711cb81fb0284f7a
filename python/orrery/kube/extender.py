"""Scheduler extender: answers the requests of kube-scheduler from the placements of the pods.

Any replica may answer, because the node of each pod is an annotation of the pod.
"""

from __future__ import annotations

import functools
import http.server
import json
import threading
from typing import Any, Callable, Dict, List, Optional

from .objects import SLOT, Gang, Object, annotations_of, full_name, gang_key, gpus_of, is_ours

#: Largest score of kube-scheduler's extenders.
MOST_SCORE = 10
#: Longest accepted request in bytes: nodes of about 10 kB each.
MOST_BYTES = 256 << 20
#: Seconds after which an idle connection is closed. kube-scheduler closes its own after 90; a
#: request that meets a closed connection would be a pod without an answer.
IDLE_S = 300


class Answers:
    """Answers to the requests of a scheduler. Thread-safe if ``find_gang`` is.

    Parameters
    ----------
    find_gang : callable
        Returns the managed gang of an id; None if it does not exist.
    namespaces : set of str
        Managed namespaces.
    is_binding : bool
        False: the answers permit all nodes (shadow mode).
    """

    def __init__(
        self,
        find_gang: Callable[[str], Optional[Gang]],
        namespaces: List[str],
        is_binding: bool = True,
    ) -> None:
        self._find_gang = find_gang
        self._namespaces = set(namespaces)
        self._is_binding = is_binding

    def allowed_nodes(self, pod: Object) -> Optional[List[str]]:
        """Return the node of a placed pod, no node for a pod that waits; None: all nodes.

        A pod gets its node by the annotation that the leading controller writes. A pod of a placed
        gang without the annotation still waits, because each node of the placement may be the one
        that another pod of the gang is about to get.
        """
        namespace, name = gang_key(pod)
        if not self._is_binding or namespace not in self._namespaces or gpus_of(pod["spec"]) == 0:
            return None
        slot = annotations_of(pod).get(SLOT)
        if slot:  # also where the copy of this replica is older than the scheduler's
            return [slot]
        gang = self._find_gang(f"{namespace}/{name}")
        if gang is None or gang.problem:
            return [] if is_ours(pod) else None
        uid = pod["metadata"].get("uid")
        slots = [annotations_of(known).get(SLOT) for known in gang.pods
                 if known["metadata"]["uid"] == uid]  # fmt: skip
        return [slot for slot in slots if slot]

    def filter(self, arguments: Object) -> Object:
        """Return the result of a filter request (ExtenderFilterResult)."""
        pod = arguments["Pod"]
        allowed = self.allowed_nodes(pod)
        reason = (
            f"{'/'.join(gang_key(pod))} waits for its placement by orrery"
            if not allowed
            else f"{full_name(pod)} is placed on {','.join(sorted(set(allowed)))} by orrery"
        )
        names = arguments.get("NodeNames")
        if names is None:
            items = (arguments.get("Nodes") or {}).get("items") or []
            kept = [n for n in items if allowed is None or n["metadata"]["name"] in allowed]
            names = [n["metadata"]["name"] for n in items]
            result: Object = {"Nodes": {"items": kept}, "NodeNames": None}
        else:
            result = {
                "Nodes": None,
                "NodeNames": [name for name in names if allowed is None or name in allowed],
            }
        failed = [] if allowed is None else [name for name in names if name not in allowed]
        return {**result, "FailedNodes": {name: reason for name in failed}, "Error": ""}

    def prioritize(self, arguments: Object) -> List[Object]:
        """Return the result of a prioritize request (HostPriorityList)."""
        allowed = self.allowed_nodes(arguments["Pod"])
        names = arguments.get("NodeNames")
        if names is None:
            items = (arguments.get("Nodes") or {}).get("items") or []
            names = [node["metadata"]["name"] for node in items]
        return [
            {"Host": name, "Score": MOST_SCORE if allowed is not None and name in allowed else 0}
            for name in names
        ]


    def preempt(self, arguments: Object) -> Object:
        """Return the result of a preempt request (ExtenderPreemptionResult).

        Without this answer, kube-scheduler evicts pods of a lower priority for a pod that the
        extender holds back.
        """
        allowed = self.allowed_nodes(arguments["Pod"])
        victims = arguments.get("NodeNameToMetaVictims")
        if victims is None:
            victims = {
                name: {
                    "Pods": [{"UID": each["metadata"]["uid"]} for each in found.get("Pods") or []],
                    "NumPDBViolations": found.get("NumPDBViolations", 0),
                }
                for name, found in (arguments.get("NodeNameToVictims") or {}).items()
            }
        kept = {n: found for n, found in victims.items() if allowed is None or n in allowed}
        return {"NodeNameToMetaVictims": kept}


class Extender:
    """HTTP server of the extender, with a thread of its own."""

    def __init__(self, answers: Answers, address: str, port: int) -> None:
        handler = functools.partial(_Handler, answers)
        self._server = http.server.ThreadingHTTPServer((address, port), handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="extender", daemon=True
        )

    def start(self) -> None:
        """Begin to answer requests."""
        self._thread.start()

    def stop(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes; the second must not wait
    timeout = IDLE_S

    def __init__(self, answers: Answers, *args: Any) -> None:
        self.answers = answers
        super().__init__(*args)  # answers the requests of the connection

    def do_POST(self) -> None:
        """Answer ``/filter``, ``/prioritize`` and ``/preempt``."""
        routes: Dict[str, Callable[[Object], Any]] = {
            "/filter": self.answers.filter,
            "/prioritize": self.answers.prioritize,
            "/preempt": self.answers.preempt,
        }
        try:
            length = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            length = MOST_BYTES + 1
        if not 0 <= length <= MOST_BYTES:
            self.close_connection = True
            return self._send(413, {"Error": f"expected at most {MOST_BYTES} bytes"})
        body = self.rfile.read(length)
        route = routes.get(self.path)
        if route is None:
            return self._send(404, {"Error": f"expected {' or '.join(routes)}, found {self.path}"})
        try:
            return self._send(200, route(json.loads(body)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return self._send(400, {"Error": f"expected the arguments of an extender: {error!r}"})

    def do_GET(self) -> None:
        """Answer ``/healthz``, for probes."""
        self._send(200 if self.path == "/healthz" else 404, {})

    def _send(self, status: int, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: a scheduler asks several times a second."""
