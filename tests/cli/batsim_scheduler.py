"""Scheduler for tests of `orrery jobs --scheduler`: speaks Batsim's protocol over ZeroMQ's wire
protocol without libraries. Usage: batsim_scheduler.py PORT fifo|easy|BROKEN."""

import json
import signal
import socket
import struct
import sys


class Server:
    """REP socket of one client."""

    def __init__(self, port):
        listener = socket.create_server(("127.0.0.1", port))
        self.peer, _ = listener.accept()
        if sys.argv[2] == "garbage":
            self.peer.sendall(64 * b"HTTP")
            sys.exit()
        self.peer.sendall(b"\xff" + 8 * b"\0" + b"\x7f\x03\0" + b"NULL" + 16 * b"\0" + 32 * b"\0")
        self.receive(64)
        body = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 3) + b"REP"
        self.peer.sendall(bytes([4, len(body)]) + body)
        self.frame()

    def receive(self, count):
        data = b""
        while len(data) < count:
            part = self.peer.recv(count - len(data))
            if not part:
                if sys.argv[2] == "hang":
                    signal.pause()
                sys.exit()
            data += part
        return data

    def frame(self):
        flags = self.receive(1)[0]
        size = struct.unpack(">Q", self.receive(8))[0] if flags & 2 else self.receive(1)[0]
        return flags, self.receive(size)

    def message(self):
        self.frame()  # delimiter
        return json.loads(self.frame()[1])

    def answer(self, message):
        self.send(json.dumps(message).encode())

    def send(self, body):
        self.peer.sendall(b"\x01\x00\x02" + struct.pack(">Q", len(body)) + body)


class Queue:
    """First come, first served, with or without EASY backfill, on any free resources."""

    def __init__(self, backfills):
        self.backfills = backfills
        self.waiting, self.running, self.free = [], {}, []

    def start(self, job, now):
        alloc = [self.free.pop(0) for _ in range(job["res"])]
        self.running[job["id"]] = (now + job["walltime"], alloc)
        return job["id"], alloc

    def schedule(self, now):
        started = []
        while self.waiting and self.waiting[0]["res"] <= len(self.free):
            started.append(self.start(self.waiting.pop(0), now))
        if not self.waiting or not self.backfills:
            return started
        shadow, extra = now, len(self.free)
        for end, alloc in sorted(self.running.values(), key=lambda each: (each[0], len(each[1]))):
            extra += len(alloc)
            shadow = end
            if extra >= self.waiting[0]["res"]:
                break
        extra -= self.waiting[0]["res"]
        for job in self.waiting[1:]:
            ends = now + job["walltime"] <= shadow
            if job["res"] <= (len(self.free) if ends else min(len(self.free), extra)):
                extra -= 0 if ends else job["res"]
                self.waiting.remove(job)
                started.append(self.start(job, now))
        return started

    def handle(self, event):
        if event["type"] == "SIMULATION_BEGINS":
            self.free = [each["id"] for each in event["data"]["compute_resources"]]
        elif event["type"] == "JOB_SUBMITTED":
            self.waiting.append(event["data"]["job"])
        elif event["type"] == "JOB_COMPLETED":
            self.free = sorted(self.free + self.running.pop(event["data"]["job_id"])[1])


def main():
    port, kind = int(sys.argv[1]), sys.argv[2]
    server, queue = Server(port), Queue(kind == "easy")
    while True:
        message = server.message()
        for event in message["events"]:
            queue.handle(event)
        now = message["now"]
        events = [
            {"timestamp": now, "type": "EXECUTE_JOB",
             "data": {"job_id": job, "alloc": " ".join(map(str, alloc))}}
            for job, alloc in queue.schedule(now)
        ]  # fmt: skip
        if kind == "twice" and events:
            events.append(events[0])
        if kind == "kill" and events:
            events = [{"timestamp": now, "type": "KILL_JOB", "data": {"job_ids": ["w0!0"]}}]
        if kind == "silent":
            sys.exit()
        if kind == "hang":
            print("received", [event["type"] for event in message["events"]], flush=True)
            continue
        if kind == "truncated":
            server.send(json.dumps({"now": now, "events": events}).encode()[:-3])
            continue
        server.answer({"now": now, "events": events})
        if message["events"][-1]["type"] == "SIMULATION_ENDS":
            return


main()
