"""The controller's copies and answers on a session that was recorded beside a real kube-apiserver
and kube-scheduler (tests/chaos/kube/extender.py --samples)."""

import gzip
import http.server
import json
import pathlib
import threading
import urllib.parse

import pytest
from kube_server import wait_until

kubernetes = pytest.importorskip("kubernetes", reason="left out: pip install 'orrery[kubernetes]'")

from orrery.kube.adapter import Adapter  # noqa: E402
from orrery.kube.api import Api, Expired  # noqa: E402
from orrery.kube.extender import Answers  # noqa: E402

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
FILE = pathlib.Path(__file__).resolve().parent / "samples" / "kube" / "session.jsonl.gz"
SESSION = [json.loads(line) for line in gzip.open(FILE, "rt")]
FORGOTTEN = "1"  #: version from which the server refused a watch


class Recorded:
    """Server that sends the recorded lists, and lines of watches when a test says so."""

    def __init__(self):
        self.lists = {each["list"]: each["answer"] for each in SESSION if "list" in each}
        self.lines = {}  #: (path, version) -> lines to be sent
        self.changed = threading.Condition()
        self.is_over = False
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                query = dict(urllib.parse.parse_qsl(url.query))
                if query.get("watch") == "true":
                    return server.send_lines(self, (url.path, query["resourceVersion"]))
                known = server.lists.get(url.path)
                text = json.dumps(known or {"kind": "Status", "code": 404}).encode()
                self.send_response(200 if known else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args):
                pass

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def send_lines(self, request, watch):
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        request.close_connection = True
        sent = 0
        while not self.is_over:
            with self.changed:
                lines = self.lines.get(watch, [])[sent:]
                if not lines:
                    self.changed.wait(0.1)
                    continue
            for line in lines:
                text = f"{line}\n".encode()
                request.wfile.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
                request.wfile.flush()
            sent += len(lines)

    def send(self, entry):
        with self.changed:
            watch = (entry["watch"], entry["version"])
            self.lines.setdefault(watch, []).append(entry["line"])
            self.changed.notify_all()

    def api(self):
        configuration = kubernetes.client.Configuration(host=self.url)
        return Api(kubernetes.client.ApiClient(configuration), timeout_s=5)

    def stop(self):
        self.is_over = True
        self._http.shutdown()
        self._http.server_close()


class Replay:
    """An adapter whose copies follow the session entry by entry."""

    def __init__(self, server):
        self.server = server
        self.adapter = Adapter(server.api(), ["ml"], None, ["topology.kubernetes.io/rack"])
        self.adapter.start()
        self.answers = Answers(self.adapter.index.find_gang, ["ml"])
        self.mirrors = {mirror.path: mirror for mirror in self.adapter._mirrors()}

    def apply(self, entry):
        """Send one line of a watch, and wait until the copy has its version."""
        if entry["version"] == FORGOTTEN:
            return
        version = json.loads(entry["line"])["object"]["metadata"]["resourceVersion"]
        self.server.send(entry)
        wait_until(lambda: self.mirrors[entry["watch"]]._version == version)

    def state(self, name):
        reading = self.adapter.answer({"read": {"acts": False}})
        assert "failed" not in reading and reading["problems"] == [], reading
        found = {each["id"]: each for each in reading["gangs"]}
        return (found[name]["state"], found[name]["nodes"]) if name in found else ("", [])

    def stop(self):
        for mirror in self.mirrors.values():
            mirror.stop()


@pytest.fixture
def replay():
    server = Recorded()
    replay = Replay(server)
    yield replay
    replay.stop()
    server.stop()


def test_a_recorded_watch_stream_is_read_as_the_server_sent_it(replay):
    states = {"ml/first": [], "ml/large": []}
    kinds = set()
    for entry in SESSION:
        if "watch" not in entry or entry["version"] == FORGOTTEN:
            continue
        replay.apply(entry)
        kinds.add(json.loads(entry["line"])["type"])
        for name, seen in states.items():
            state, nodes = replay.state(name)
            if not seen or seen[-1][0] != state:
                seen.append((state, nodes))
    assert kinds == {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}
    first, large = states["ml/first"], states["ml/large"]
    assert [s for s, _ in first if s] == ["incomplete", "waiting", "placing", "placed", *
                                          [s for s, _ in first if s][4:]]  # fmt: skip
    placed = dict(first)["placed"]
    assert len(set(placed)) == 4 and len(racks_of(placed)) == 1
    assert [s for s, _ in large if s][:2] == ["incomplete", "waiting"]
    assert first[-1][0] == "", "all of its pods are deleted"


def racks_of(names):
    labels = {each["metadata"]["name"]: each["metadata"]["labels"]
              for entry in SESSION if entry.get("list") == NODES
              for each in entry["answer"]["items"]}  # fmt: skip
    return {labels[name]["topology.kubernetes.io/rack"] for name in names}


def test_recorded_requests_of_a_scheduler_get_the_answers_that_it_got(replay):
    held, placed = 0, 0
    for entry in SESSION:
        if "watch" in entry:
            replay.apply(entry)
        if "ask" not in entry:
            continue
        answer = getattr(replay.answers, entry["ask"].removeprefix("/"))(entry["arguments"])
        assert answer == entry["answer"], entry["arguments"]["Pod"]["metadata"]["name"]
        if entry["ask"] == "/filter":
            held += answer["NodeNames"] == []
            placed += len(answer["NodeNames"]) == 1
    assert held >= 5 and placed >= 4


def test_a_version_that_the_server_has_forgotten_is_told_apart(replay):
    (entry,) = [each for each in SESSION if each.get("version") == FORGOTTEN]
    replay.server.send(entry)
    with pytest.raises(Expired, match="too old resource version"):
        list(replay.server.api().watch(PODS, FORGOTTEN))
