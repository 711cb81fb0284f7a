"""`orrery cluster kubernetes` as the extender of a real kube-scheduler.

python3 tests/chaos/kube/extender.py [--only CASE,...] [--mutant shadow|no-rights|sampled|unasked]
    [--ignorable] [--samples FILE] [--keep FOLDER]

Builds the programs where they are missing (build.sh), starts etcd, kube-apiserver with
RBAC, and kube-scheduler with the shipped manifest, and creates eight nodes of eight GPUs in two
racks. The command has the rights of rbac.yaml alone, by a token of its service account. Pods run
nowhere, because there is no kubelet: a pod is bound, and the script finishes or deletes it. Cases,
each with what counts as a fault:

- rack: four pods that need one rack are not bound to four nodes of one rack;
- large: a pod of a gang of five is bound while four nodes are free, or the gang, whose priority is
  the highest, makes kube-scheduler evict pods; or a gang of four beside it is not bound. The
  priority has `preemptionPolicy: Never`, because this kube-scheduler does not ask before it evicts;
- end: the gang of five is not bound as a whole after the others have finished and were deleted;
- asks: the same beside a gang of four, under a priority that may evict, with
  kube-scheduler-preempt of build.sh, which asks before it evicts;
- foreign: a pod in another namespace is not bound while a gang waits, or was written to;
- kills: the command is killed with -9 before its write 0, 1, 2, 3 and 4 to the pods of a gang of
  four; a pod without a placement is bound while no controller runs, or the successor does not bind
  all four, or a committed placement changes;
- pause: a pod is bound to the node of another one while a second passes between the commit of a
  placement and the release of its pods;
- server: kube-apiserver is killed with -9 and started again; the command ends, or does not place
  the gang that was created meanwhile;
- preempt: `srtf` evicts a gang for a shorter one; the short one is not bound, or the long one,
  whose pods are created anew, is not bound again after the end of the short one;
- many: of 240 free nodes, kube-scheduler does not look at the one that a pod of 16 has got;
- rights: a request of the command was refused by a server that was ready, or its token may write
  or read what it must not.

With --ignorable, kube-scheduler decides alone while no controller answers (`ignorable: true`), and
pods that it binds meanwhile are counted, not faults. --samples records a session with one gang that
is bound and one that waits for tests/python/samples/kube (recorder.py), instead of the cases.
Prints one table; ends with 1 if there is a fault. The mutants show that it can: `shadow` permits
all nodes, `no-rights` may not write to pods, `sampled` lacks percentageOfNodesToScore (case many),
`unasked` lacks preemptVerb (case asks).
"""

import argparse
import datetime
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from real_kube import (  # noqa: E402
    ACCOUNT,
    GPU,
    ROOT,
    RACK,
    RealKube,
    Refused,
    account_in,
    free_ports,
    programs_of,
)
from recorder import Recorder  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build")) / "bin" / "orrery"
SLOT, RECORD = "orrery.io/placed-on", "orrery.io/placement"
LEASE = 4
PATIENCE_S = 45
NODES = 240
SAMPLE_S = 36
QUIET_S = 12  # longer than the largest pause of kube-scheduler between two attempts


class Command:
    """`orrery cluster kubernetes` with an extender; `text`: all that it has printed."""

    def __init__(self, kube, access, port, mode, policy="fifo-skip", **environment):
        self.kube = kube
        self.output = kube.folder / f"command-{uuid.uuid4().hex[:6]}.txt"
        python = kube.folder / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE}/killed_adapter.py" "$@"\n')
        python.chmod(0o755)
        environment = {key: str(value) for key, value in environment.items()}
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                [PROGRAM, "cluster", "kubernetes", "--policy", policy, "--namespace", "ml",
                 "--mode", mode, "--kubeconfig", access, "--every", "0.2", "--lease", str(LEASE),
                 "--rack-label", RACK, "--extender-address", "127.0.0.1",
                 "--extender-port", str(port), "--record", self.output.with_suffix(".log")],
                cwd=kube.folder, stdout=output, stderr=output,
                env={**os.environ, "ORRERY_PYTHON": str(python), **environment},
            )  # fmt: skip

    def text(self):
        return self.output.read_text(errors="replace")

    def has_ended(self):
        return self.process.poll() is not None

    def end(self):
        if not self.has_ended():
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()


class Proof:
    """The cases on one control plane. `rows`: (case, figures, faults)."""

    def __init__(self, kube, port, options, recorder=None):
        self.kube, self.port, self.options, self.recorder = kube, port, options, recorder
        self.mode = "shadow" if options.mutant == "shadow" else "drive"
        self.rows, self.faults, self.command = [], [], None
        self.alone = 0  # pods that kube-scheduler has bound without a placement

    # ---- steps ------------------------------------------------------------------------------

    def prepare(self):
        for name in ("ml", "orrery", "else"):
            self.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for i in range(8):
            self.kube.add_node(f"n{i + 1}", f"rack{1 + i // 4}")
        for name, policy in (("high", "PreemptLowerPriority"), ("patient", "Never")):
            self.kube.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                              "metadata": {"name": name}, "value": 1000,
                              "preemptionPolicy": policy})  # fmt: skip
        self.token = self.kube.add_account(
            without_patches if self.options.mutant == "no-rights" else None
        )
        self.access = self.kube.write_access("orrery.kubeconfig", self.token)

    def run_command(self, policy="fifo-skip", **environment):
        self.command = Command(self.kube, self.access, self.port, self.mode, policy, **environment)
        self.wait_until(self.is_answering, "the extender answers")
        return self.command

    def is_answering(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def add_gang(self, name, size, priority="", owner="", suffix="", **annotations):
        """Create the pods of a gang; returns their names."""
        marks = {"orrery.io/gang-size": str(size),
                 **{f"orrery.io/{key.replace('_', '-')}": value
                    for key, value in annotations.items()}}  # fmt: skip
        names = [f"{name}-{suffix}{i}" for i in range(size)]
        for each in names:
            pod = new_pod(each, "ml", priority)
            pod["metadata"].update(labels={"orrery.io/gang": name}, annotations=marks)
            if owner:  # a Job that creates evicted pods anew: this script
                reference = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": owner}
                pod["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
            self.kube.create(pod)
        return names

    def nodes_of(self, names):
        """The node of each pod that is bound, by its name."""
        pods = self.kube.pods()
        return {name: pods[name]["spec"]["nodeName"] for name in names
                if name in pods and "nodeName" in pods[name]["spec"]}  # fmt: skip

    def wait_until(self, is_true, expected, seconds=PATIENCE_S):
        """Whether a condition comes true; otherwise a fault."""
        try:
            self.kube.wait_until(is_true, seconds, expected)
        except TimeoutError as error:
            self.faults.append(str(error))
            return False
        return True

    def is_bound(self, names, gang):
        """Whether all pods get nodes, one each; otherwise faults. Returns the nodes."""
        self.wait_until(lambda: len(self.nodes_of(names)) == len(names),
                        f"all {len(names)} pods of {gang} are bound")  # fmt: skip
        nodes = self.nodes_of(names)
        if len(set(nodes.values())) != len(nodes):
            self.faults.append(f"{gang}: two pods on one node: {nodes}")
        return nodes

    def is_out(self, names, gang):
        bound = self.nodes_of(names)
        if bound:
            self.faults.append(f"{gang}: {len(bound)} of {len(names)} pods are bound: {bound}")
        return not bound

    def delete(self, *names):
        for name in names:
            try:
                self.kube.ask("DELETE", f"/api/v1/namespaces/ml/pods/{name}",
                              {"gracePeriodSeconds": 0})  # fmt: skip
            except Refused as refused:
                if refused.code != 404:
                    raise

    def finish(self, *names):
        for name in names:
            self.kube.ask("PATCH", f"/api/v1/namespaces/ml/pods/{name}/status",
                          {"status": {"phase": "Succeeded"}})  # fmt: skip

    def clear(self):
        self.delete(*self.kube.pods())

    # ---- cases ------------------------------------------------------------------------------

    def rack(self):
        begin = time.monotonic()
        names = self.add_gang("first", 4, rack="required")
        nodes = self.is_bound(names, "first")
        took = time.monotonic() - begin
        racks = {rack_of(node) for node in nodes.values()}
        if len(racks) != 1:
            self.faults.append(f"first: expected one rack, found {nodes}")
        return f"bound in {', '.join(sorted(racks))} after {took:.1f} s"

    def large(self):
        """Case that follows `rack`: four nodes are free."""
        before = set(self.kube.pods())
        large = self.add_gang("large", 5, priority="patient", time_limit_seconds="600")
        time.sleep(QUIET_S)
        self.is_out(large, "large")
        second = self.add_gang("second", 4, rack="required")
        beside = self.is_bound(second, "second")
        time.sleep(QUIET_S)
        self.is_out(large, "large")
        lost = before - set(self.kube.pods())
        if lost:
            self.faults.append(f"large: kube-scheduler has evicted {sorted(lost)} for it")
        return (f"{len(self.nodes_of(large))} of 5 bound in {2 * QUIET_S} s, {len(lost)} pods "
                f"evicted for it, {len(beside)} of 4 beside it bound")  # fmt: skip

    def end(self):
        """Case that follows `large`: one gang finishes, one is deleted."""
        self.finish(*(name for name in self.kube.pods() if name.startswith("first-")))
        time.sleep(2)
        large = [name for name in self.kube.pods() if name.startswith("large-")]
        self.is_out(large, "large")
        begin = time.monotonic()
        self.delete(*(name for name in self.kube.pods() if name.startswith("second-")))
        nodes = self.is_bound(large, "large")
        return f"{len(nodes)} of 5 bound {time.monotonic() - begin:.1f} s after the end"

    def asks(self):
        """Another kube-scheduler for the time of this case."""
        self.clear()
        low = self.add_gang("low", 4, rack="required")
        self.is_bound(low, "low")
        self.restart_scheduler("kube-scheduler-preempt")
        high = self.add_gang("high", 5, priority="high")
        time.sleep(2 * QUIET_S)
        self.is_out(high, "high")
        lost = set(low) - set(self.kube.pods())
        if lost:
            self.faults.append(f"asks: kube-scheduler has evicted {sorted(lost)} for high")
        waiting = len(high) - len(self.nodes_of(high))
        self.delete(*low)
        nodes = self.is_bound(high, "high")
        self.restart_scheduler("kube-scheduler")
        return (f"{len(lost)} pods evicted for {waiting} that waited {2 * QUIET_S} s, of which "
                f"{len(nodes)} were bound afterwards")  # fmt: skip

    def restart_scheduler(self, program):
        self.kube.kill("kube-scheduler")
        self.kube.start_scheduler(program)

    def foreign(self):
        """Four pods in another namespace on four nodes, and a gang that waits."""
        self.clear()
        for i in range(4):
            self.kube.create(new_pod(f"foreign-{i}", "else"))
        self.wait_until(lambda: all("nodeName" in pod["spec"]
                                    for pod in self.kube.pods("else").values()),
                        "the pods of another namespace are bound")  # fmt: skip
        waits = self.add_gang("waits", 5)
        time.sleep(QUIET_S)
        self.is_out(waits, "waits")
        early = len(self.nodes_of(waits))
        writes = [one for one in self.kube.audit() if one[2] == "else"]
        if writes:
            self.faults.append(f"foreign: requests in another namespace: {writes}")
        for name in self.kube.pods("else"):
            self.kube.ask("DELETE", f"/api/v1/namespaces/else/pods/{name}",
                          {"gracePeriodSeconds": 0})  # fmt: skip
        late = self.is_bound(waits, "waits")
        return (f"4 pods, {len(writes)} requests name them; of a gang of 5 {early} bound before "
                f"their end, {len(late)} after it")  # fmt: skip

    def kills(self):
        self.clear()
        self.command.end()
        slowest, committed, bound = 0.0, 0, 0
        for write in range(5):
            command = self.run_command(ORRERY_KILL_AT=write)
            names = self.add_gang(f"killed{write}", 4, rack="required")
            if not self.wait_until(command.has_ended, f"the command dies at write {write}"):
                command.end()
            time.sleep(1)
            before = self.check_gap(names, write)
            begin = time.monotonic()
            self.run_command()
            nodes = self.is_bound(names, f"killed{write}")
            slowest = max(slowest, time.monotonic() - begin)
            committed += bool(before)
            bound += len(nodes)
            if before and not self.options.ignorable and set(nodes.values()) != before:
                self.faults.append(f"killed{write}: placement {before} became {nodes}")
            if write < 4:
                self.command.end()
            self.clear()
        return (f"5 kills, {committed} after the commit; the successors bind {bound} of 20 pods "
                f"within {slowest:.1f} s of their start{self.count_alone()}")  # fmt: skip

    def check_gap(self, names, write):
        """Note pods that were bound while no controller ran; returns the committed nodes."""
        pods = self.kube.pods()
        for name in names:
            if "nodeName" in pods[name]["spec"] and SLOT not in annotations_of(pods[name]):
                self.alone += 1
                if not self.options.ignorable:
                    self.faults.append(f"killed{write}: {name} was bound without a placement")
        records = {annotations_of(pods[name]).get(RECORD) for name in names} - {None}
        if len(records) > 1 or bool(records) != (write > 0):
            self.faults.append(f"killed{write}: placements {records}")
        return {node for record in records for node in re.findall(r'"(n\d)"', record)}

    def count_alone(self):
        text = f"; {self.alone} pods bound by kube-scheduler alone"
        return text if self.options.ignorable else ""

    def pause(self):
        """kube-scheduler tries the pods again while the placement is committed, not released."""
        self.command.end()
        self.run_command(ORRERY_PAUSE=1)
        names = self.add_gang("paused", 8)
        nodes = self.is_bound(names, "paused")
        pods = self.kube.pods()
        astray = {name: node for name, node in nodes.items()
                  if annotations_of(pods[name]).get(SLOT) != node}  # fmt: skip
        for name, node in astray.items():
            self.faults.append(f"paused: {name} is on {node}, not on the node that it got")
        self.clear()
        self.command.end()
        self.run_command()
        return f"{len(nodes)} of 8 bound, {len(astray)} of them not to their own node"

    def server(self):
        self.kube.kill("kube-apiserver")
        time.sleep(3)
        self.kube.start_server()
        begin = time.monotonic()
        names = self.add_gang("after", 4, rack="required")
        nodes = self.is_bound(names, "after")
        took = time.monotonic() - begin
        if self.command.has_ended():
            self.faults.append("server: the command has ended")
            self.run_command()
        self.clear()
        return f"{len(nodes)} of 4 bound {took:.1f} s after the server's return"

    def preempt(self):
        self.command.end()
        self.run_command("srtf")
        owner = str(uuid.uuid4())
        long = self.add_gang("long", 8, owner=owner, time_limit_seconds="36000")
        self.is_bound(long, "long")
        short = self.add_gang("short", 4, owner=str(uuid.uuid4()), time_limit_seconds="60")
        gone = lambda: not set(long) & set(self.kube.pods())  # noqa: E731
        self.wait_until(gone, "all pods of long are evicted")
        evicted = len(set(long) - set(self.kube.pods()))
        version = self.kube.ask("GET", "/apis/policy")["preferredVersion"]["groupVersion"]
        again = self.add_gang("long", 8, owner=owner, suffix="b", time_limit_seconds="36000")
        short_nodes = self.is_bound(short, "short")
        self.is_out(again, "long")
        self.finish(*short)
        long_nodes = self.is_bound(again, "long")
        self.clear()
        self.command.end()
        self.run_command()
        return (f"{evicted} of 8 pods evicted ({version}), {len(short_nodes)} of 4 of the short "
                f"gang bound, {len(long_nodes)} of 8 of the long one again")  # fmt: skip

    def many(self):
        """232 more nodes; kube-scheduler would look at about half of all that fit."""
        self.clear()
        self.command.end()
        for i in range(8, NODES):
            self.kube.add_node(f"n{i + 1}", f"rack{1 + i // 4}")
        self.run_command()
        begin = time.monotonic()
        names = self.add_gang("many", 16)
        nodes = self.is_bound(names, "many")
        self.clear()
        return f"{len(nodes)} of 16 bound on {NODES} nodes after {time.monotonic() - begin:.1f} s"

    def rights(self):
        requests = self.kube.audit()
        refusals = [one for one in requests if one[3] in (401, 403)]
        refused = sorted({one[:3] for one in refusals if not one[4]})
        early = sum(one[4] for one in refusals)
        if refused:
            self.faults.append(f"rights: refused: {refused}")
        if not any(one[0] == "patch" for one in requests):
            self.faults.append("rights: expected patches in the audit log, found none")
        if account_in(self.token) != ACCOUNT:
            self.faults.append(f"rights: the token belongs to {account_in(self.token)}")
        forbidden = (
            ("PATCH", "/api/v1/namespaces/else/pods/x", {"metadata": {"labels": {"a": "b"}}}),
            ("DELETE", "/api/v1/namespaces/ml/pods/x", None),
            ("POST", "/api/v1/namespaces/ml/pods", new_pod("x", "ml")),
            ("PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"a": "b"}}}),
            ("GET", "/api/v1/secrets", None),
        )
        codes = []
        for method, path, body in forbidden:
            try:
                self.kube.ask(method, path, body, token=self.token)
                code = 200
            except Refused as answer:
                code = answer.code
            codes.append(code)
            if code != 403:
                self.faults.append(f"rights: {method} {path}: expected 403, got {code}")
        counts = {verb: sum(one[0] == verb for one in requests)
                  for verb in ("list", "watch", "get", "patch", "create", "update")}  # fmt: skip
        total = ", ".join(f"{count} {verb}" for verb, count in counts.items())
        conflicts = sum(one[3] == 409 for one in requests)
        return (f"{len(requests)} requests ({total}), {len(refused)} refused, {early} more "
                f"by a server that was not ready, {conflicts} conflicts; "
                f"{codes.count(403)} of 5 others forbidden")  # fmt: skip

    def sample(self):
        """The recorded session, of a server that has forgotten all changes before its start."""
        self.wait_until(lambda: "leads" in self.command.text(), "the command leads")
        self.kube.kill("kube-apiserver")
        self.kube.start_server()
        self.is_bound(self.add_gang("before", 4), "before")
        self.clear()
        self.recorder.start(SAMPLE_S)
        first = self.add_gang("first", 4, rack="required")
        self.is_bound(first, "first")
        large = self.add_gang("large", 5)
        time.sleep(SAMPLE_S / 3)
        self.is_out(large, "large")
        self.delete(*first)
        return f"{len(self.recorder.lines)} messages"

    # ---- run --------------------------------------------------------------------------------

    def run(self, cases):
        self.prepare()
        self.run_command()
        try:
            for name in cases:
                self.faults = []
                try:
                    figures = getattr(self, name)()
                except (Refused, OSError, TimeoutError) as error:
                    self.faults.append(f"{name}: {error!r}")
                    figures = "not finished"
                self.rows.append((name, figures, self.faults))
                print(f"{name}: {figures}; {self.faults or 'no fault'}", file=sys.stderr)
        finally:
            self.command.end()


CASES = ("rack", "large", "end", "asks", "foreign", "kills", "pause", "server", "preempt",
         "many", "rights")


def new_pod(name, namespace, priority=""):
    """A pod of eight GPUs that ends at once when it is deleted."""
    container = {"name": "train", "image": "train:1", "resources": {"limits": {GPU: "8"}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if priority:
        spec["priorityClassName"] = priority
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec,
            "metadata": {"name": name, "namespace": namespace}}  # fmt: skip


def annotations_of(pod):
    return pod["metadata"].get("annotations") or {}


def rack_of(node):
    return f"rack{1 + (int(node[1:]) - 1) // 4}"


def without_patches(thing):
    """rbac.yaml without the right that places a gang."""
    for rule in thing.get("rules", ()):
        if rule["resources"] == ["pods"]:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb != "patch"]
    return thing


def print_table(proof, seconds):
    faults = sum(len(each) for _, _, each in proof.rows)
    version, ignorable = proof.kube.version(), str(proof.options.ignorable).lower()
    print(f"kube-apiserver and kube-scheduler {version}, `ignorable: {ignorable}`, the rights of "
          f"rbac.yaml; {datetime.date.today()}, {seconds:.0f} s on {os.cpu_count()} cores, load "
          f"{os.getloadavg()[0]:.0f}:\n")  # fmt: skip
    print("| case | shown | faults |\n|---|---|---|")
    for name, figures, found in proof.rows:
        print(f"| {name} | {figures} | {len(found)} |")
    print(f"\n{len(proof.rows)} cases, {faults} faults")
    for _, _, found in proof.rows:
        for each in found:
            print(f"    {each}")
    return 1 if faults else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(CASES), metavar="CASE,...")
    parser.add_argument("--mutant", default="", 
                        choices=("shadow", "no-rights", "sampled", "unasked"))
    parser.add_argument("--ignorable", action="store_true")
    parser.add_argument("--samples", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER")
    options = parser.parse_args()
    options.only = options.only.split(",")
    unknown = set(options.only) - set(CASES)
    if unknown:
        parser.error(f"--only: expected some of {', '.join(CASES)}, found {', '.join(unknown)}")
    return options


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    programs = programs_of(HERE / "build.sh")
    port, asked = free_ports(2)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="orrery-kube-"))
    changes = {"percentageOfNodesToScore": 0} if options.mutant == "sampled" else {}
    extender = {
        "urlPrefix": f"http://127.0.0.1:{asked if options.samples else port}",
        "ignorable": options.ignorable,
        **({"preemptVerb": None} if options.mutant == "unasked" else {}),
    }
    kube = RealKube(programs, folder, extender, changes)
    recorder = Recorder(kube, asked, port) if options.samples else None
    begin = time.monotonic()
    try:
        kube.start()
        proof = Proof(kube, port, options, recorder)
        proof.run(["sample"] if recorder is not None else options.only)
        code = print_table(proof, time.monotonic() - begin)
        if recorder is not None:
            recorder.write(options.samples)
        return code
    finally:
        kube.stop()
        if options.keep:
            shutil.copytree(folder, options.keep, dirs_exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
