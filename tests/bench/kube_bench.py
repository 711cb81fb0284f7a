"""Costs of the controller of `orrery cluster kubernetes` beside a stand-in API server, which runs
as a process of its own: CPU of the start, of readings and of an answer of the extender, and
placements a second. Run by `./dev bench kube [PODS]` (10,000). Exit code 1: a reading costs more
than 0.3 s of CPU, or fewer than 200 gangs are placed in a second."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
sys.path[:0] = [str(BUILD / "python"), str(ROOT / "tests" / "python")]

from kube_objects import node, pod  # noqa: E402

MOST_CPU_S = 0.3
LEAST_PLACEMENTS = 200
GPUS_PER_NODE = 8


def serve(pods, nodes):
    """Runs the server with waiting gangs of one pod each until its input ends."""
    from kube_server import KubeServer

    server = KubeServer(kueue=False)
    for i in range(nodes):
        server.put("/api/v1/nodes", node(f"n{i}", f"rack{i // 16}", GPUS_PER_NODE))
    for i in range(pods):
        server.put("/api/v1/pods", pod(f"g{i}-0", f"g{i}", gpus=1, owner=f"job-{i}"))
    server.changes.clear()  # a watch begins after the list
    print(server.url, flush=True)
    for line in sys.stdin:  # "touch COUNT": that many pods change
        for i in range(int(line.split()[1])):
            changed = server.pod(f"g{i}-0")
            changed["metadata"]["annotations"]["orrery.io/time-limit-seconds"] = str(1 + i)
            server.put("/api/v1/pods", changed)
        print("done", flush=True)


def controller(url):
    """The controller's part that talks to the server, as the command starts it."""
    import kubernetes
    from orrery.kube.adapter import Adapter
    from orrery.kube.api import CONNECTIONS, Api
    from orrery.kube.lease import Leadership

    configuration = kubernetes.client.Configuration(host=url)
    configuration.connection_pool_maxsize = CONNECTIONS
    api = Api(kubernetes.client.ApiClient(configuration), timeout_s=30)
    adapter = Adapter(api, ["ml"], Leadership(api, "orrery", "place", "bench", 600))
    begin = time.process_time()
    adapter.start()
    print(f"start (list and derivation): {time.process_time() - begin:.3f} s of CPU")
    return adapter


def read(adapter, since):
    """Returns a reading, and the seconds of CPU of the reading and of its text."""
    begin = time.process_time()
    reading = adapter.answer({"read": {"acts": True, "since": since}})
    text = json.dumps(reading, separators=(",", ":"))
    assert "failed" not in reading, reading
    return reading, time.process_time() - begin, len(text)


def touch(server, count):
    server.stdin.write(f"touch {count}\n")
    server.stdin.flush()
    assert server.stdout.readline() == "done\n"
    time.sleep(1)  # the watch has shown the changes


def place_all(adapter, gangs, nodes):
    """Places all gangs in batches of 100 and returns the gangs placed in a second."""
    orders = [
        {"gang": each["id"], "nodes": [f"n{i // GPUS_PER_NODE}"]}
        for i, each in enumerate(gangs[: nodes * GPUS_PER_NODE])
    ]
    begin = time.monotonic()
    for at in range(0, len(orders), 100):
        refused = adapter.answer({"place": orders[at : at + 100]})["refused"]
        assert not any(refused), refused
    return len(orders) / (time.monotonic() - begin), len(orders)


def main(words):
    pods = int(words[0]) if words else 10_000
    nodes = max(1, pods // 10)
    server = subprocess.Popen([sys.executable, __file__, "serve", str(pods), str(nodes)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        print(f"{pods:,} gangs of one pod, {nodes:,} nodes")
        adapter = controller(server.stdout.readline().strip())
        reading, first_s, size = read(adapter, 0)
        assert len(reading["gangs"]) == pods, len(reading["gangs"])
        print(f"first reading: {first_s:.3f} s of CPU, {size / 1e6:.2f} MB")
        later = []
        for count in (0, 100, 1000):
            touch(server, count)
            version = reading["version"]
            reading, cpu_s, size = read(adapter, version)
            assert len(reading["gangs"]) <= count, "the reading has changes alone"
            later.append(cpu_s)
            print(f"reading after {count:,} changes: {cpu_s:.4f} s of CPU, {size / 1e6:.2f} MB")
        full, full_s, _ = read(adapter, 0)
        print(f"reading of all gangs again: {full_s:.3f} s of CPU")
        from orrery.kube.extender import Answers

        answers, costs = Answers(adapter.index.find_gang, ["ml"]), []
        asked = pod("g7-0", "g7", gpus=1)
        for _ in range(200):
            begin = time.process_time()
            answers.filter({"Pod": asked, "NodeNames": ["n1", "n2"]})
            costs.append(time.process_time() - begin)
        print(f"answer of the extender: {1e6 * statistics.median(costs):.0f} us of CPU")
        rate, placed = place_all(adapter, full["gangs"][: min(pods, 2000)], nodes)
        print(f"placements: {rate:.0f} a second ({placed:,} gangs, 2 writes each)")
        adapter.stop()
    finally:
        server.stdin.close()
        server.kill()
        server.wait()
    return 0 if max(first_s, *later) <= MOST_CPU_S and rate >= LEAST_PLACEMENTS else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(int(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(main(sys.argv[1:]))
