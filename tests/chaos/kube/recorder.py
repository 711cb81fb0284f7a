"""Record of a real session for tests: lists, watches, and the requests of kube-scheduler.

One JSON object a line, compressed by gzip, in the order in which the messages arrived here:

- {"list": PATH, "answer": OBJECT};
- {"watch": PATH, "version": V, "line": TEXT}: one line of a watch as the server sent it;
- {"ask": ROUTE, "arguments": OBJECT, "answer": OBJECT}: a request of kube-scheduler, and the answer
  of the command.
"""

import functools
import gzip
import http.client
import http.server
import json
import threading
import urllib.parse

from real_kube import ADMIN

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
FORGOTTEN = "1"  # a version before all changes that the server knows


class Recorder:
    """Relay between kube-scheduler, which asks at port `asked`, and the command's extender."""

    def __init__(self, kube, asked, extender):
        self.kube, self.extender = kube, extender
        self.lines, self.watches, self.lock = [], [], threading.Lock()
        self.is_over = True  # no changes, so no requests
        handler = functools.partial(_Relay, self)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", asked), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def add(self, **entry):
        with self.lock:
            if "ask" in entry and self.is_over:
                return
            self.lines.append(json.dumps(entry, separators=(",", ":")))

    def start(self, seconds):
        """Record the nodes and pods, their changes for some seconds, and a forgotten version."""
        with self.lock:
            self.is_over = False
        for path in (NODES, PODS):
            answer = self.kube.ask("GET", f"{path}?limit=500")
            self.add(list=path, answer=answer)
            self.watch(path, answer["metadata"]["resourceVersion"], seconds)
        self.watch(PODS, FORGOTTEN, 5)

    def watch(self, path, version, seconds):
        thread = threading.Thread(target=self._watch, args=(path, version, seconds), daemon=True)
        thread.start()
        self.watches.append(thread)

    def _watch(self, path, version, seconds):
        query = urllib.parse.urlencode({
            "watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true",
            "timeoutSeconds": seconds,
        })  # fmt: skip
        connection = self.kube.connect(seconds + 30)
        connection.request("GET", f"{path}?{query}", headers={"Authorization": f"Bearer {ADMIN}"})
        answer = connection.getresponse()
        while line := answer.readline():
            self.add(watch=path, version=version, line=line.decode().rstrip("\n"))
        connection.close()
        if version != FORGOTTEN:
            self.is_over = True

    def write(self, file):
        """Write the record once all watches are over."""
        for thread in self.watches:
            thread.join(60)
        self._server.shutdown()
        file.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{line}\n" for line in self.lines)
        file.write_bytes(gzip.compress(text.encode(), mtime=0))


class _Relay(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, recorder, *words):
        self.recorder = recorder
        super().__init__(*words)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        connection = http.client.HTTPConnection("127.0.0.1", self.recorder.extender, timeout=10)
        try:
            connection.request("POST", self.path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            data = answer.read()
        except OSError:  # no command runs
            self.close_connection = True
            return
        finally:
            connection.close()
        self.recorder.add(ask=self.path, arguments=json.loads(body), answer=json.loads(data))
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        pass
