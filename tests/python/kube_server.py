"""Stand-in for a kube-apiserver: list, watch, create, replace, merge patch, eviction, Leases.

It keeps the rules of the real server on which the controller depends: a patch with an old
resourceVersion is a conflict, a gate can be removed but not added, and a node selector can get new
keys only while the pod is gated. A scheduler binds pods without gates when a test says so.
"""

import bisect
import copy
import http.server
import json
import threading
import time
import urllib.parse
import uuid

GPU = "nvidia.com/gpu"


class Refusal(Exception):
    """An answer with an error status."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code, self.message = code, message


class KubeServer:
    """API server in this process, on a free port."""

    def __init__(self, kueue=True):
        self.objects = {}  #: (collection path, name) -> object
        self.requests = []  #: (method, path, body) of all requests but reads
        self.asked = set()  #: (verb, API group, resource, namespace, name) of all requests
        self.changes = []  #: (version, collection path, type, object)
        self.version = 100
        self.forgotten = 0  #: watches from before this version are answered with 410
        self.kueue = kueue
        self.before_patch = []  #: callables for the next patches, called without the lock
        self.watches_cut = 0
        self.eviction_version = "v1"  #: of policy; others are refused
        self.grace_s = 0  #: evicted pods stay, and are being deleted, if this is more than 0
        self.changed = threading.Condition()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body of an answer are two writes

            def handle_any(self):
                server.handle(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *args):
                pass

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        self.cut_watches()
        self._http.shutdown()
        self._http.server_close()

    # ---- state, for tests -------------------------------------------------------------------

    def put(self, collection, thing, kind="MODIFIED"):
        """Store an object as a change of somebody else."""
        with self.changed:
            metadata = thing["metadata"]
            key = (collection_of(collection, metadata), metadata["name"])
            kind = kind if key in self.objects else "ADDED"
            metadata.setdefault("uid", str(uuid.uuid4()))
            metadata.setdefault("creationTimestamp", "2026-11-27T10:00:00Z")
            return self._store(key, copy.deepcopy(thing), kind)

    def remove(self, collection, namespace, name):
        with self.changed:
            key = (collection_of(collection, {"namespace": namespace}), name)
            thing = self.objects.pop(key)
            self._note(key, "DELETED", thing)

    def all(self, collection):
        """Objects of a collection in all namespaces."""
        with self.changed:
            return [copy.deepcopy(o) for (path, _), o in self.objects.items()
                    if without_namespace(path) == collection]  # fmt: skip

    def pod(self, name, namespace="ml"):
        with self.changed:
            return copy.deepcopy(self.objects[(f"/api/v1/namespaces/{namespace}/pods", name)])

    def cut_watches(self):
        """End all watches in the middle."""
        with self.changed:
            self.watches_cut += 1
            self.changed.notify_all()

    def forget(self):
        """Forget all versions so far: watches from them are answered with 410."""
        with self.changed:
            self.forgotten = self.version
            self.watches_cut += 1
            self.changed.notify_all()

    def schedule(self):
        """Bind all pods without gates to nodes that fit, one pod at a time."""
        for pod in self.all("/api/v1/pods"):
            spec = pod["spec"]
            if spec.get("nodeName") or spec.get("schedulingGates"):
                continue
            for node in sorted(self.all("/api/v1/nodes"), key=lambda n: n["metadata"]["name"]):
                selector = spec.get("nodeSelector") or {}
                if not selector.items() <= node["metadata"]["labels"].items():
                    continue
                if self.free(node) < gpus_of(pod):
                    continue
                spec["nodeName"] = node["metadata"]["name"]
                pod["status"] = {"phase": "Running"}
                self.put("/api/v1/pods", pod)
                break

    def free(self, node):
        name = node["metadata"]["name"]
        used = sum(gpus_of(p) for p in self.all("/api/v1/pods")
                   if p["spec"].get("nodeName") == name
                   and p.get("status", {}).get("phase") not in ("Succeeded", "Failed"))  # fmt: skip
        return int(node["status"]["allocatable"][GPU]) - used

    # ---- requests ---------------------------------------------------------------------------

    def handle(self, request):
        url = urllib.parse.urlsplit(request.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        length = int(request.headers.get("Content-Length") or 0)
        body = json.loads(request.rfile.read(length)) if length else None
        self.asked.add(asked_of(request.command, url.path, query.get("watch") == "true"))
        try:
            if query.get("watch") == "true":
                return self.send_changes(request, url.path, int(query["resourceVersion"]))
            answer = self.carry_out(request.command, url.path, query, body)
            code = 200
        except Refusal as refusal:
            code, answer = refusal.code, {"kind": "Status", "message": refusal.message}
        text = json.dumps(answer).encode()
        request.send_response(code)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    def carry_out(self, method, path, query, body):
        if method != "GET":
            if method == "PATCH" and self.before_patch:
                self.before_patch.pop(0)()
            self.requests.append((method, path, body))
        if path == "/apis/kueue.x-k8s.io":
            if not self.kueue:
                raise Refusal(404, "the server could not find the requested resource")
            return {"preferredVersion": {"groupVersion": "kueue.x-k8s.io/v1beta2"}}
        if path == "/api/v1":
            known = {"group": "policy", "version": self.eviction_version, "kind": "Eviction"}
            return {"resources": [{"name": "pods"}, {"name": "pods/eviction", **known}]}
        with self.changed:
            if method == "POST" and path.endswith("/eviction"):
                if body["apiVersion"] != f"policy/{self.eviction_version}":
                    raise Refusal(400, f"no kind Eviction is registered for {body['apiVersion']}")
                return self._evict(path)
            if method == "POST":
                return self._create(path, body)
            if is_collection(path):
                return self._list(path, query)
            path = path.removesuffix("/status")
            collection, _, name = path.rpartition("/")
            known = self.objects.get((collection, name))
            if known is None:
                raise Refusal(404, f"{path} not found")
            if method == "GET":
                return copy.deepcopy(known)
            wanted = (body["metadata"]).get("resourceVersion")
            if wanted is not None and wanted != known["metadata"]["resourceVersion"]:
                raise Refusal(409, "the object has been modified; please apply your changes to it")
            new = copy.deepcopy(body) if method == "PUT" else merge(copy.deepcopy(known), body)
            check_pod_update(known, new)
            return copy.deepcopy(self._store((collection, name), new, "MODIFIED"))

    def _list(self, path, query):
        found = [o for (p, _), o in sorted(self.objects.items())
                 if path in (p, without_namespace(p))]  # fmt: skip
        start = int(query.get("continue") or 0)
        limit = int(query.get("limit") or len(found) or 1)
        more = {"continue": str(start + limit)} if start + limit < len(found) else {}
        return {"items": copy.deepcopy(found[start : start + limit]),
                "metadata": {"resourceVersion": str(self.version), **more}}  # fmt: skip

    def _create(self, path, body):
        key = (path, body["metadata"]["name"])
        if key in self.objects:
            raise Refusal(409, f"{path}/{key[1]} already exists")
        body = copy.deepcopy(body)
        body["metadata"].setdefault("uid", str(uuid.uuid4()))
        return copy.deepcopy(self._store(key, body, "ADDED"))

    def _evict(self, path):
        collection, _, name = path.removesuffix("/eviction").rpartition("/")
        pod = self.objects.get((collection, name))
        if pod is None:
            raise Refusal(404, f"{name} not found")
        if self.grace_s > 0:
            pod = copy.deepcopy(pod)
            pod["metadata"]["deletionTimestamp"] = "2026-11-27T10:00:00Z"
            self._store((collection, name), pod, "MODIFIED")
        else:
            self._note((collection, name), "DELETED", self.objects.pop((collection, name)))
        return {"kind": "Status", "status": "Success"}

    def _store(self, key, thing, kind):
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        thing.setdefault("kind", KINDS.get(without_namespace(key[0]).rpartition("/")[2], ""))
        self.objects[key] = thing
        self._note(key, kind, thing, counted=True)
        return thing

    def _note(self, key, kind, thing, counted=False):
        if not counted:
            self.version += 1
            thing = copy.deepcopy(thing)
            thing["metadata"]["resourceVersion"] = str(self.version)
        self.changes.append((self.version, key[0], kind, copy.deepcopy(thing)))
        self.changed.notify_all()

    def send_changes(self, request, path, version):
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        request.close_connection = True
        with self.changed:
            cut = self.watches_cut
            forgotten = version < self.forgotten
        if forgotten:
            status = {"kind": "Status", "code": 410, "message": "too old resource version"}
            return self.send_event(request, {"type": "ERROR", "object": status})
        while True:
            with self.changed:
                begin = bisect.bisect_right(self.changes, version, key=lambda c: c[0])
                new = [c for c in self.changes[begin:]
                       if path in (c[1], without_namespace(c[1]))]  # fmt: skip
                version = self.changes[-1][0] if self.changes else version
                if not new and self.watches_cut == cut:
                    self.changed.wait(0.2)
                    continue
            for _, _, kind, thing in new:
                self.send_event(request, {"type": kind, "object": thing})
            if self.watches_cut != cut:
                return None

    @staticmethod
    def send_event(request, event):
        line = json.dumps(event).encode() + b"\n"
        request.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        request.wfile.flush()


KINDS = {"pods": "Pod", "nodes": "Node", "workloads": "Workload",
         "admissionchecks": "AdmissionCheck", "leases": "Lease"}  # fmt: skip


def collection_of(collection, metadata):
    if "namespace" not in metadata:
        return collection
    head, _, kind = collection.rpartition("/")
    return f"{head}/namespaces/{metadata['namespace']}/{kind}"


def without_namespace(path):
    parts = path.split("/")
    if "namespaces" in parts:
        at = parts.index("namespaces")
        parts[at : at + 2] = []
    return "/".join(parts)


def asked_of(method, path, is_watch):
    """The request as the rules of RBAC name it."""
    parts = path.strip("/").split("/")
    group, parts = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    kind, name, sub = (parts + ["", "", ""])[:3]
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch"}
    verb = "watch" if is_watch else verbs.get(method, "get" if name else "list")
    return verb, group, f"{kind}/{sub}" if sub else kind, namespace, name


def is_collection(path):
    return path.rpartition("/")[2] in KINDS


def merge(old, patch):
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    old = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            old.pop(key, None)
        else:
            old[key] = merge(old.get(key), value)
    return old


def check_pod_update(old, new):
    """Refuse changes of a pod that a real server refuses."""
    if old.get("kind") != "Pod":
        return
    before, after = old["spec"], new["spec"]
    gates = {g["name"] for g in before.get("schedulingGates") or []}
    if not {g["name"] for g in after.get("schedulingGates") or []} <= gates:
        raise Refusal(422, "spec.schedulingGates: only deletion is allowed")
    selector = before.get("nodeSelector") or {}
    if (after.get("nodeSelector") or {}) != selector:
        grows = selector.items() <= (after.get("nodeSelector") or {}).items()
        if not gates or not grows:
            raise Refusal(422, "spec.nodeSelector: only additions to a gated pod are allowed")


def gpus_of(pod):
    limits = (c.get("resources", {}).get("limits", {}) for c in pod["spec"]["containers"])
    return sum(int(each.get(GPU, 0)) for each in limits)


def wait_until(is_true, timeout_s=10.0):
    """Block until a condition holds; an assertion after the timeout."""
    end = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.01)
