#!/usr/bin/env python3
"""What readers of the live stream cost: a paced test that the API started, alone and with readers beside it, in turn.

    benches/readers.py [--weir PROGRAM] [--readers 5] [--rounds 15] [--seconds 5] [--rate 5000pps] [--out FILE]

Each round is one run without readers and one with them, forward and backward in turn: a drift of the machine weighs on
both alike. `weir serve --ui` answers on this host's loopback, with directories of its own that are removed; readers,
receiver, sender and server share the machine's processors. The plan makes up no slot (`catch_up: none`), so that
each that the sender could not serve in time is a missed one. The server's processor time and the samples are of a
window inside the run: neither its start nor its end is in them. Medians, with the one-sided 95 % bootstrap bounds of the
difference within a round. Exit: 0 measured, 2 usage, 3 a run failed.
"""

import argparse
import http.client
import json
import os
import platform
import re
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import judge  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SETTLE_SECONDS = 1.0
MARK = b"event: sample\n"
FIGURES = {
    "missed_slots": ("missed slots", 1, "{:.0f}"),
    "late_slots": ("late slots", 1, "{:.0f}"),
    "spacing_deviation_seconds": ("spacing deviation, µs", 1e6, "{:.2f}"),
    "server_cpu_ratio": ("server, ms of processor a second", 1e3, "{:.2f}"),
}


class Failed(Exception):
    """What did not work, in words."""


class Counter:
    """Counts a mark in a stream that comes in pieces, also where a piece ends within one."""

    def __init__(self, mark=MARK):
        self.mark, self.rest, self.count = mark, b"", 0

    def take(self, piece):
        text = self.rest + piece
        self.count += text.count(self.mark)
        self.rest = text[-(len(self.mark) - 1):]


class Readers:
    """Connections that read the live stream as fast as it comes, by one thread that does nothing else."""

    def __init__(self, address, count):
        self.counters, self.closed = [], False
        self.selector = selectors.DefaultSelector()
        self.sockets = []
        for _ in range(count):
            connection = socket.create_connection(address, 10)
            connection.sendall(b"GET /api/v1/events?topics=tests HTTP/1.0\r\nHost: localhost\r\n\r\n")
            connection.setblocking(False)
            counter = Counter()
            self.counters.append(counter)
            self.sockets.append(connection)
            self.selector.register(connection, selectors.EVENT_READ, counter)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while not self.closed:
            for key, _ in self.selector.select(0.2):
                piece = key.fileobj.recv(1 << 20)
                if not piece:
                    self.selector.unregister(key.fileobj)
                key.data.take(piece)

    def samples(self):
        return sum(counter.count for counter in self.counters)

    def close(self):
        self.closed = True
        self.thread.join()
        for connection in self.sockets:
            connection.close()


def cpu_seconds(pid):
    """Processor time of a process so far, ended threads included, by its clock (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """`weir serve --ui` with directories of its own."""

    def __init__(self, weir, work):
        self.port = free_port()
        places = {f"WEIR_{name.upper()}_DIR": os.path.join(work, name) for name in ("data", "config", "runtime")}
        self.popen = subprocess.Popen(
            [weir, "serve", "--ui=127.0.0.1:0", "-B", "127.0.0.1", "-p", str(self.port)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env={**os.environ, **places, "NO_COLOR": "1"})
        found = None
        for line in self.popen.stdout:
            if found := re.match(r"(?:page and )?API on http://([\d.]+):(\d+)/", line):
                break
        if not found:
            raise Failed("weir serve --ui ended before it told where its page is")
        self.address = (found[1], int(found[2]))
        # What it prints later fills no pipe.
        threading.Thread(target=self.popen.stdout.read, daemon=True).start()

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(*self.address, timeout=30)
        text = None if body is None else json.dumps(body)
        connection.request(method, f"/api/v1{path}", text, {"Content-Type": "application/json"} if text else {})
        answer = connection.getresponse()
        got = json.loads(answer.read() or b"null")
        connection.close()
        if answer.status >= 300:
            raise Failed(f"{method} {path}: {answer.status} {got}")
        return got

    def end(self):
        self.popen.send_signal(signal.SIGTERM)
        try:
            self.popen.wait(15)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()


def stolen_ticks():
    with open("/proc/stat") as file:
        fields = [int(f) for f in file.readline().split()[1:9]]
    return sum(fields), fields[7]


def run(server, count, arguments):
    """One test with so many readers beside it: what its record and the server's clock tell."""
    plan = {"schema": "weir.plan/1", "interval": "100ms",
            "connection": [{"transport": "udp", "rate": arguments.rate, "duration": f"{arguments.seconds}s", "catch_up": "none"}]}
    readers = Readers(server.address, count)
    try:
        total, stolen = stolen_ticks()
        test = server.ask("POST", "/tests", {"host": f"127.0.0.1:{server.port}", "plan": plan})["id"]
        time.sleep(SETTLE_SECONDS)
        before = (time.monotonic(), cpu_seconds(server.popen.pid), readers.samples())
        time.sleep(arguments.seconds - 2 * SETTLE_SECONDS)
        after = (time.monotonic(), cpu_seconds(server.popen.pid), readers.samples())
        until = time.monotonic() + 30
        while (state := server.ask("GET", f"/tests/{test}"))["state"] not in ("ended", "failed"):
            if time.monotonic() > until:
                raise Failed(f"test {test} is {state['state']} 30 s after its time")
            time.sleep(0.25)
        if state["state"] == "failed":
            raise Failed(f"test {test} failed: {state.get('error')}")
        after_total, after_stolen = stolen_ticks()
    finally:
        readers.close()
    sender = server.ask("GET", f"/tests/{test}/record")["flows"][0]["sender"]
    window = after[0] - before[0]
    return {
        "readers": count, "window_seconds": window, "server_cpu_seconds": after[1] - before[1],
        "server_cpu_ratio": (after[1] - before[1]) / window, "samples": after[2] - before[2],
        "intended_slots": sender["intended_slots"], "missed_slots": sender["missed_slots"], "late_slots": sender["late_slots"],
        "spacing_deviation_seconds": sender["spacing"]["deviation_seconds"], "scheduling": sender.get("scheduling"),
        "steal_ratio": (after_stolen - stolen) / max(1, after_total - total),
    }


def summary(rounds):
    """Medians without and with readers, the difference within a round with its bounds, and what a sample costs."""
    told = {}
    for key in FIGURES:
        alone, beside = ([pair[which][key] for pair in rounds] for which in ("alone", "beside"))
        middle, low, high = judge.bounds([b - a for a, b in zip(alone, beside)])
        told[key] = {"alone": statistics.median(alone), "beside": statistics.median(beside), "difference": middle, "lower": low, "upper": high}
    # A round whose readers got nothing has no such figure.
    costs = [(pair["beside"]["server_cpu_ratio"] - pair["alone"]["server_cpu_ratio"]) * pair["beside"]["window_seconds"] / pair["beside"]["samples"]
             for pair in rounds if pair["beside"]["samples"] > 0]
    if costs:
        middle, low, high = judge.bounds(costs)
        told["cpu_seconds_per_sample_and_reader"] = {"median": middle, "lower": low, "upper": high}
    return told


def table(told, count, rounds):
    """The summary for people."""
    lines = [f"{'median of ' + str(len(rounds)) + ' rounds':34}{'0 readers':>12}{str(count) + ' readers':>12}{'difference':>12}  95 % bounds"]
    for key, (name, scale, form) in FIGURES.items():
        row = told[key]
        words = [form.format(row[part] * scale) for part in ("alone", "beside", "difference")]
        bounds = "" if row["lower"] is None else f"{form.format(row['lower'] * scale)} to {form.format(row['upper'] * scale)}"
        lines.append(f"{name:34}" + "".join(f"{word:>12}" for word in words) + f"  {bounds}")
    lines.append(f"intended slots of a run: {rounds[0]['alone']['intended_slots']}; scheduling: {rounds[0]['alone']['scheduling']}")
    if cost := told.get("cpu_seconds_per_sample_and_reader"):
        bounds = "" if cost["lower"] is None else f" ({cost['lower'] * 1e3:.3f} to {cost['upper'] * 1e3:.3f})"
        lines.append(f"server's processor time for each sample and reader: {cost['median'] * 1e3:.3f} ms{bounds}")
    steal = max(one["steal_ratio"] for pair in rounds for one in pair.values())
    lines.append(f"most processor time stolen during a run: {steal:.1%}")
    return "\n".join(lines)


def main():
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    parser = argparse.ArgumentParser(description="What readers of the live stream cost beside a paced test.")
    parser.add_argument("--weir", default=os.path.join(target, "release", "weir"), help="the weir program")
    parser.add_argument("--readers", type=int, default=5, help="readers beside the test in every second run (5)")
    parser.add_argument("--rounds", type=int, default=judge.PAIRS_LEAST, help="rounds (15)")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a run, above 2 (5)")
    parser.add_argument("--rate", default="5000pps", help="rate of the paced flow (5000pps)")
    parser.add_argument("--out", help="write raw samples and summary here, as JSON")
    arguments = parser.parse_args()
    for flag, holds, accepted in (("readers", 1 <= arguments.readers <= 16, "1 to 16"), ("rounds", arguments.rounds >= 1, "1 or more"),
                                  ("seconds", arguments.seconds > 2 * SETTLE_SECONDS, "more than 2")):
        if not holds:
            parser.error(f"--{flag} {getattr(arguments, flag)}: {accepted} is accepted")
    if not os.access(arguments.weir, os.X_OK):
        parser.error(f"--weir {arguments.weir}: no program there; `make build` makes it")
    rounds = []
    with tempfile.TemporaryDirectory(prefix="weir-readers-") as work:
        server = None
        try:
            server = Server(os.path.abspath(arguments.weir), work)
            for number in range(arguments.rounds):
                order = [("alone", 0), ("beside", arguments.readers)]
                pair = {which: run(server, count, arguments) for which, count in (order if number % 2 == 0 else order[::-1])}
                rounds.append(pair)
                print(f"round {number + 1}: missed {pair['alone']['missed_slots']} alone, {pair['beside']['missed_slots']} beside; "
                      f"{pair['beside']['samples']} samples read", file=sys.stderr)
        except (Failed, OSError) as error:
            print(f"readers: {error}", file=sys.stderr)
            return 3
        finally:
            if server:
                server.end()
    told = summary(rounds)
    print(table(told, arguments.readers, rounds))
    if arguments.out:
        host = {"cores": os.cpu_count(), "kernel": platform.release(), "machine": platform.machine()}
        with open(arguments.out, "w") as file:
            json.dump({"host": host, "arguments": vars(arguments), "summary": told, "rounds": rounds}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
