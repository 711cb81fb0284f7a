"""A real control plane for extender.py: etcd, kube-apiserver and kube-scheduler of build.sh on one
machine, with RBAC, an audit log and no kubelets."""

import base64
import datetime
import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import time

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
MANIFESTS = ROOT / "python" / "orrery" / "kube" / "manifests"
GPU = "nvidia.com/gpu"
RACK = "topology.kubernetes.io/rack"
MERGE = "application/merge-patch+json"
ADMIN, SCHEDULER = "administrator", "scheduler"
#: Name of the controller's service account in the audit log.
ACCOUNT = "system:serviceaccount:orrery:orrery"
CONFIG = """\
apiVersion: v1
kind: Config
current-context: real
contexts: [{{name: real, context: {{cluster: real, user: real}}}}]
clusters: [{{name: real, cluster: {{server: "https://127.0.0.1:{port}",
  certificate-authority: {folder}/server.crt}}}}]
users: [{{name: real, user: {{token: "{token}"}}}}]
"""
#: Requests of the controller and of its account are written with their response codes.
AUDIT = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata, users: ["%s"]}, {level: None}]
""" % ACCOUNT  # fmt: skip


class Refused(Exception):
    """An answer with an error status; `code` is its number."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text[:300]}")
        self.code = code


class RealKube:
    """Processes of one control plane in a folder. Their outputs are FOLDER/NAME.txt."""

    def __init__(self, programs, folder, extender, changes):
        """`extender`, `changes`: keys of kube-scheduler's extender (None: no such key) and of its
        configuration."""
        self.programs, self.folder = pathlib.Path(programs), pathlib.Path(folder)
        self.processes = {}
        self.starts = []  #: instants of each start of the server and of its readiness
        self.ports = dict(zip(("client", "peer", "server", "health"), free_ports(4)))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
             "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
             "-keyout", self.folder / "server.key", "-out", self.folder / "server.crt"],
            check=True, capture_output=True,
        )  # fmt: skip
        (self.folder / "tokens.csv").write_text(
            f'{ADMIN},admin,1,"system:masters"\n{SCHEDULER},system:kube-scheduler,2\n'
        )
        (self.folder / "audit.yaml").write_text(AUDIT)
        self.write_access("scheduler.kubeconfig", SCHEDULER)
        (self.folder / "scheduler.yaml").write_text(
            yaml.safe_dump({**self.scheduler_configuration(extender), **changes})
        )
        self.context = ssl.create_default_context(cafile=str(self.folder / "server.crt"))

    def write_access(self, name, token):
        path = self.folder / name
        path.write_text(
            CONFIG.format(port=self.ports["server"], folder=self.folder, token=token)
        )
        return path

    def scheduler_configuration(self, extender):
        """The manifest as it is shipped, for this version of kube-scheduler and these ports."""
        shipped = yaml.safe_load((MANIFESTS / "scheduler.yaml").read_text())
        extenders = [
            {key: value for key, value in {**each, **extender}.items() if value is not None}
            for each in shipped["extenders"]
        ]
        return {
            **shipped,
            "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
            "clientConnection": {"kubeconfig": str(self.folder / "scheduler.kubeconfig")},
            "leaderElection": {"leaderElect": False},
            "healthzBindAddress": f"127.0.0.1:{self.ports['health']}",
            "metricsBindAddress": f"127.0.0.1:{self.ports['health']}",
            "extenders": extenders,
        }

    # ---- processes --------------------------------------------------------------------------

    def start(self):
        self.start_etcd()
        self.start_server()
        self.start_scheduler()

    def start_etcd(self):
        client, peer = (f"http://127.0.0.1:{self.ports[name]}" for name in ("client", "peer"))
        self._start("etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", client,
                    "--advertise-client-urls", client, "--listen-peer-urls", peer,
                    "--initial-advertise-peer-urls", peer,
                    "--initial-cluster", f"default={peer}")  # fmt: skip

    def start_server(self):
        key, certificate = self.folder / "server.key", self.folder / "server.crt"
        options = {
            "etcd-servers": f"http://127.0.0.1:{self.ports['client']}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": self.ports["server"],
            "insecure-port": 0,
            "tls-cert-file": certificate,
            "tls-private-key-file": key,
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "service-account-issuer": "https://kubernetes.default.svc",
            "token-auth-file": self.folder / "tokens.csv",
            "authorization-mode": "RBAC",
            "disable-admission-plugins": "ServiceAccount",  # nothing creates default accounts
            "endpoint-reconciler-type": "none",
            "audit-policy-file": self.folder / "audit.yaml",
            "audit-log-path": self.folder / "audit.log",
            "audit-log-mode": "blocking",
        }
        begin = timestamp()
        self._start("kube-apiserver", *(f"--{name}={value}" for name, value in options.items()))
        self.wait_until(self.is_ready, 120, "kube-apiserver answers /readyz")
        self.starts.append((begin, timestamp()))

    def start_scheduler(self, program="kube-scheduler"):
        self._start(program, f"--config={self.folder / 'scheduler.yaml'}", "--secure-port=0",
                    "--v=2", name="kube-scheduler")  # fmt: skip

    def _start(self, program, *words, name=""):
        name = name or program
        with open(self.folder / f"{name}.txt", "ab") as output:
            self.processes[name] = subprocess.Popen(
                [self.programs / program, *map(str, words)], stdout=output, stderr=output,
                cwd=self.folder,
            )  # fmt: skip

    def kill(self, name):
        """Kill a process with SIGKILL."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def stop(self):
        for name in reversed(list(self.processes)):
            process = self.processes.pop(name)
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def wait_until(self, is_true, seconds, expected):
        """Block until a condition holds. Raises TimeoutError, also if a process has ended."""
        end = time.monotonic() + seconds
        while not is_true():
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise TimeoutError(f"{name} ended with code {process.returncode}")
            if time.monotonic() > end:
                raise TimeoutError(f"expected within {seconds} s: {expected}")
            time.sleep(0.1)

    # ---- requests ---------------------------------------------------------------------------

    def connect(self, seconds=30):
        return http.client.HTTPSConnection(
            "127.0.0.1", self.ports["server"], timeout=seconds, context=self.context
        )

    def ask(self, method, path, body=None, token=ADMIN, kind=None):
        """The answer to one request as an object."""
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json",
                   "Content-Type": kind or (MERGE if method == "PATCH" else "application/json")}
        connection = self.connect()
        try:
            text = json.dumps(body) if body is not None else None
            connection.request(method, path, text, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise Refused(answer.status, data.decode(errors="replace"))
        return json.loads(data) if data[:1] == b"{" else {"text": data.decode()}

    def is_ready(self):
        try:
            return self.ask("GET", "/readyz")["text"] == "ok"
        except (OSError, http.client.HTTPException, Refused):
            return False

    def version(self):
        return self.ask("GET", "/version")["gitVersion"]

    def create(self, thing):
        """Create an object of a manifest."""
        return self.ask("POST", collection_of(thing), thing)

    def add_node(self, name, rack, gpus=8):
        """A ready node without a kubelet; the server's not-ready taint is removed."""
        amounts = {GPU: str(gpus), "cpu": "64", "memory": "256Gi", "pods": "110"}
        labels = {"kubernetes.io/hostname": name, RACK: rack}
        metadata = {"name": name, "labels": labels}
        self.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        self.ask("PATCH", f"/api/v1/nodes/{name}/status", {
            "status": {"capacity": amounts, "allocatable": amounts,
                       "conditions": [{"type": "Ready", "status": "True", "reason": "Test"}]},
        })  # fmt: skip
        self.ask("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}})

    def add_account(self, mutate=None):
        """The service account of rbac.yaml with its rights; returns a token of the server."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount",
                   "metadata": {"name": "orrery", "namespace": "orrery"}}  # fmt: skip
        self.create(account)
        for thing in yaml.safe_load_all((MANIFESTS / "rbac.yaml").read_text()):
            self.create(mutate(thing) if mutate else thing)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                   "spec": {"audiences": ["https://kubernetes.default.svc"],
                            "expirationSeconds": 7200}}  # fmt: skip
        path = "/api/v1/namespaces/orrery/serviceaccounts/orrery/token"
        return self.ask("POST", path, request)["status"]["token"]

    def pods(self, namespace="ml"):
        """The pods of a namespace by their names."""
        items = self.ask("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        return {each["metadata"]["name"]: each for each in items}

    def audit(self):
        """Requests of the controller so far: (verb, resource, namespace, code, is_early).

        A request is early if the server was not ready: it then knows no roles, and refuses all.
        """
        found = []
        for line in (self.folder / "audit.log").read_text().splitlines():
            event = json.loads(line)
            where = event.get("objectRef") or {}
            resource = "/".join(where[key] for key in ("resource", "subresource") if key in where)
            code = (event.get("responseStatus") or {}).get("code", 0)
            instant = event["requestReceivedTimestamp"]
            is_early = any(begin <= instant <= end for begin, end in self.starts)
            found.append((event["verb"], resource, where.get("namespace", ""), code, is_early))
        return found


def collection_of(thing):
    """The path of the collection of an object."""
    version, kind, metadata = thing["apiVersion"], thing["kind"], thing["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if "namespace" in metadata:
        root += f"/namespaces/{metadata['namespace']}"
    return f"{root}/{kind.lower()}{'es' if kind.endswith('s') else 's'}"


def timestamp():
    """The present instant as the audit log writes it."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def free_ports(count):
    """Different ports that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def account_in(token):
    """The user that a token of a service account names."""
    body = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["sub"]


def programs_of(build):
    """The folder of the programs, built first where they are missing."""
    done = subprocess.run([build], stdout=subprocess.PIPE, text=True, env=os.environ)
    if done.returncode != 0:
        raise SystemExit(f"{build}: expected the programs, got exit code {done.returncode}")
    return done.stdout.strip()
