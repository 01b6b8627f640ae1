#!/usr/bin/env python3
"""Plays the page of the speed test (web/src/speed/PROTOCOL.md), with the standard library alone.

    speed_client.py HOST PORT

Prints the result that the server keeps, as JSON. Exit: 0 measured and kept, 1 anything else, with words on stderr.
"""

import base64
import hashlib
import http.client
import json
import os
import socket
import struct
import sys
import threading
import time

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MOST_PINGS = 200


class Socket:
    def __init__(self, host, port, query=""):
        self.tcp = socket.create_connection((host, port), timeout=30)
        self.tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16)).decode()
        self.tcp.sendall(
            (
                f"GET /speed/v1{query} HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: http://{host}:{port}\r\n"
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: weir.speed.v1\r\n\r\n"
            ).encode()
        )
        self.file = self.tcp.makefile("rb")
        status = self.file.readline()
        if b" 101 " not in status:
            raise SystemExit(f"refused: {status!r}")
        head = {}
        while (line := self.file.readline().strip()):
            name, _, value = line.decode().partition(":")
            head[name.lower()] = value.strip()
        digest = hashlib.sha1((key + GUID).encode()).digest()
        assert head["sec-websocket-accept"] == base64.b64encode(digest).decode(), head
        self.writing = threading.Lock()

    def send(self, opcode, payload):
        # A mask of zeros is a mask: the payload is as it is, which costs no time.
        if len(payload) < 126:
            head = struct.pack("!BB", 0x80 | opcode, 0x80 | len(payload))
        elif len(payload) < 65536:
            head = struct.pack("!BBH", 0x80 | opcode, 0xFE, len(payload))
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 0xFF, len(payload))
        with self.writing:
            self.tcp.sendall(head + bytes(4) + payload)

    def frame(self):
        """Opcode and payload of the next frame; nothing at the end."""
        head = self.file.read(2)
        if len(head) < 2:
            return None, b""
        length = head[1]
        if length == 126:
            (length,) = struct.unpack("!H", self.file.read(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", self.file.read(8))
        return head[0] & 15, self.file.read(length)


class Test:
    def __init__(self, host, port):
        self.control = Socket(host, port)
        hello = json.loads(self.control.frame()[1])
        if hello["type"] != "hello":
            raise SystemExit(f"not greeted: {hello}")
        self.hello = hello
        self.phase = "idle"
        self.bytes = 0
        self.marks = []
        self.began = 0.0
        self.latency = {"idle": [], "download": [], "upload": []}
        self.pings = {}
        self.lock = threading.Lock()
        self.messages = {}
        self.came = threading.Condition()
        query = "?session=" + hello["session"]
        self.data = [Socket(host, port, query) for _ in range(hello["streams"])]
        for target, arguments in [(self.listen, ()), (self.ping, ())] + [(self.count, (s,)) for s in self.data]:
            threading.Thread(target=target, args=arguments, daemon=True).start()

    def say(self, **message):
        self.control.send(1, json.dumps(message).encode())

    def listen(self):
        while True:
            opcode, payload = self.control.frame()
            now = time.perf_counter()
            if opcode != 1:
                return
            message = json.loads(payload)
            if message["type"] == "pong":
                at, phase = self.pings.pop(message["id"])
                if phase == self.phase:
                    self.latency[phase].append(now - at)
                continue
            with self.came:
                self.messages[message["type"]] = message
                self.came.notify_all()

    def ping(self):
        for number in range(100000):
            if len(self.latency[self.phase]) < MOST_PINGS and len(self.pings) < 20:
                self.pings[number] = (time.perf_counter(), self.phase)
                self.say(type="ping", id=number)
            time.sleep(self.hello["ping_seconds"])

    def count(self, data):
        while True:
            opcode, payload = data.frame()
            if opcode is None:
                return
            if self.phase == "download":
                with self.lock:
                    self.bytes += len(payload)
                    self.marks.append((time.perf_counter() - self.began, self.bytes))

    def wait(self, *kinds):
        with self.came:
            while not any(kind in self.messages for kind in kinds):
                if not self.came.wait(30):
                    raise SystemExit(f"none of {kinds} came")
            return next(self.messages.pop(kind) for kind in kinds if kind in self.messages)

    def measure(self, phase):
        self.messages.pop("stopped", None)
        self.bytes, self.marks = 0, []
        self.say(type="start", phase=phase)
        self.wait("started")
        self.began = time.perf_counter()
        self.phase = phase
        if phase == "upload":
            for data in self.data:
                threading.Thread(target=self.feed, args=(data,), daemon=True).start()
        time.sleep(self.hello["phase_seconds"] - 0.5)
        self.say(type="stop")
        stopped = self.wait("stopped")
        self.phase = "idle" if phase == "upload" else "between"
        self.latency.setdefault("between", [])
        return stopped

    def feed(self, data):
        chunk = os.urandom(65536)
        while self.phase == "upload":
            data.send(2, chunk)

    def run(self):
        time.sleep(self.hello["idle_seconds"])
        self.measure("download")
        marks = list(self.marks)
        ramp = [mark for mark in marks if mark[0] <= 1.0][-1:] or [(0.0, 0)]
        seconds, count = marks[-1][0] - ramp[0][0], marks[-1][1] - ramp[0][1]
        download = {"bytes": count, "seconds": seconds, "bits_per_second": count * 8 / seconds}
        time.sleep(1)
        self.measure("upload")
        latency = {name: self.latency[name][:MOST_PINGS] for name in ("idle", "download", "upload")}
        self.say(type="result", download=download, latency=latency)
        return self.wait("kept", "not_kept")


def main():
    host, port = sys.argv[1], int(sys.argv[2])
    kept = Test(host, port).run()
    if kept["type"] != "kept":
        raise SystemExit(f"not kept: {kept}")
    link = http.client.HTTPConnection(host, port, timeout=30)
    link.request("GET", f"/speed/v1/results/{kept['id']}")
    print(link.getresponse().read().decode())


main()
