"""The contenders: how each is started, and how what it says becomes one sample.

A sample is a dict: `packets_per_second` and `lost_packets` (UDP), `bits_per_second` (TCP),
`spacing_deviation_seconds` and `rate_error_ratio` (pacing), `transactions_per_second`. Delivered packets are counted, not sent ones.
"""

import atexit
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

from .lab import ADDRESS, RunFailed

HOST = ADDRESS["b"]


@dataclass(frozen=True)
class Tool:
    """One way of running one program. Words may hold {host} {seconds} {milliseconds} {payload} {streams} {pps}."""

    name: str
    server: list
    client: list
    port: tuple  # ("tcp"|"udp", number) that says the server is ready
    parse: object = None  # (server text, client text) -> sample; None: counted by the kernel of host b
    server_ends: bool = False
    quiet: bool = False
    extra_seconds: float = 0.0  # run longer than measured, where the kernel's counters are the measure
    environment: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Loaded:
    """A tool paced at a part of the rate that another one reaches just before: the error of the rate that it achieves."""

    name: str
    free: Tool
    paced: Tool
    part: float

    def run(self, lab, values, seconds):
        free = run(lab, self.free, values, seconds)["sent_packets_per_second"]
        asked = self.part * free
        sample = run(lab, self.paced, {**values, "asked": f"{asked:.0f}"}, seconds)
        # Slots that were missed are not sent: they count as shortfall.
        return {**sample, "asked_packets_per_second": asked, "rate_error_ratio": abs(sample["sent_packets_per_second"] / asked - 1)}


CAPTURE_FRAMES = 1_000_000


def capture():
    """A capture of a million frames of 64 and 1000 bytes in turn, as nanosecond pcap; made once a run of the benchmark."""
    path = os.path.join(tempfile.gettempdir(), f"weir-bench-{os.getuid()}-{os.getpid()}.pcap")
    if not os.path.exists(path):
        atexit.register(lambda: os.path.exists(path) and os.unlink(path))
        parts = []
        for length in (64, 1000):
            ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, length - 14, 0, 0, 64, 17, 0, b"\xc6\x12\x00\x01", b"\xc6\x12\x00\x02")
            frame = b"\x02\0\0\0\0\x0b\x02\0\0\0\0\x0a\x08\0" + ip + struct.pack("!HHHH", 9, 9, length - 34, 0)
            parts.append(struct.pack("<IIII", 1, 0, length, length) + frame.ljust(length, b"\0"))
        with open(path, "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
            for _ in range(CAPTURE_FRAMES // 2000):
                file.write(b"".join(parts) * 1000)
    return path


@dataclass(frozen=True)
class Replayed:
    """A program that sends the frames of the capture on host a's interface, by its own figures."""

    name: str
    words: list
    parse: object

    def run(self, lab, _values, _seconds):
        try:
            client = lab.start("a", words(self.words, {"capture": capture()}))
            code = client.wait(60)
            if code != 0:
                raise RunFailed(f"{self.name}: exit {code}: {(client.stderr() or client.stdout()).strip()[-300:]}")
            return self.parse(client.stdout())
        finally:
            lab.stop_all()


def parse_tcpreplay(text):
    found = re.search(r"Actual: (\d+) packets.*?Rated: .*?([\d.]+) pps", text, re.DOTALL)
    if not found or int(found[1]) != CAPTURE_FRAMES:
        raise RunFailed(f"tcpreplay: {text.strip()[-200:]!r}")
    return {"packets_per_second": float(found[2])}


def parse_replay(text):
    sender = whole_json(text, "weir")["flows"][0]["sender"]
    if sender["packets"] != CAPTURE_FRAMES:
        raise RunFailed(f"weir: {sender['packets']} frames sent")
    return {"packets_per_second": sender["packets_per_second"]}


def words(template, values):
    return [part.format(**values) for part in template]


def run(lab, tool, values, seconds):
    """One run of one tool: a sample."""
    if hasattr(tool, "run"):
        return tool.run(lab, values, seconds)
    values = {"host": HOST, **values, "seconds": f"{seconds + tool.extra_seconds:g}",
              "whole_seconds": str(max(1, round(seconds + tool.extra_seconds))),
              "milliseconds": str(int((seconds + tool.extra_seconds) * 1000))}
    try:
        server = lab.start("b", words(tool.server, values), tool.quiet)
        server.await_port(*tool.port)
        judge = None
        if "pps" in values:
            judge = lab.start("b", [BARE + "spacing", "-i", "vb", "-t", "30", "-l", values["payload"]])
            await_ready(judge)
        counting = tool.parse is None and judge is None
        before = server.udp_counters()
        client = lab.start("a", words(tool.client, values), tool.quiet)
        if counting:
            return count_by_kernel(server, client, before, seconds)
        code = client.wait(seconds + 15)
        if judge is not None:
            missed = missed_slots(client.stdout()) if tool.parse is parse_weir else 0
            return spacing(judge, float(values["pps"]), missed)
        if code != 0:
            raise RunFailed(f"{tool.name}: exit {code}: {(client.stderr() or client.stdout()).strip()[-300:]}")
        if tool.server_ends:
            server.wait(seconds + 15)
        return tool.parse(server.stdout(), client.stdout())
    finally:
        lab.stop_all()


def count_by_kernel(server, client, before, seconds):
    """Datagrams read by the receiving program over a window inside the run: fair to tools that report nothing."""
    end = time.monotonic() + 5
    while server.udp_counters()[0] < before[0] + 1000:
        if time.monotonic() > end or client.popen.poll() not in (None, 0):
            raise RunFailed(f"{client.words[0]} delivered nothing: {client.stderr().strip()[-300:]}")
        time.sleep(0.005)
    t0, first = time.monotonic(), server.udp_counters()
    time.sleep(seconds)
    t1, last = time.monotonic(), server.udp_counters()
    if client.popen.poll() is not None:
        raise RunFailed(f"{client.words[0]} ended inside the measured window")
    return {"packets_per_second": (last[0] - first[0]) / (t1 - t0), "lost_packets": last[1] - first[1]}


def await_ready(judge):
    end = time.monotonic() + 5
    while "ready" not in judge.stderr():
        if time.monotonic() > end or judge.popen.poll() is not None:
            raise RunFailed(f"spacing is not ready: {judge.stderr().strip()[-300:]}")
        time.sleep(0.005)


def missed_slots(client):
    """Slots that Weir says it skipped: Weir reports a rate that is short by them, so it is not wrong."""
    senders = [flow["sender"] for flow in whole_json(client, "weir test")["flows"]]
    return sum(sender.get("missed_slots", 0) for sender in senders)


def spacing(judge, asked, missed):
    judge.popen.send_signal(signal.SIGTERM)
    judge.wait(10)
    found = last_json(judge.stdout() or "", "spacing: " + judge.stderr())
    if found["dropped_packets"]:
        raise RunFailed(f"the capture itself dropped {found['dropped_packets']} packets")
    found["missed_slots"] = missed
    found["rate_error_ratio"] = abs((found["packets_per_second"] + missed / found["seconds"]) / asked - 1)
    return found


def last_json(text, name):
    for line in reversed(text.strip().splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise RunFailed(f"{name.strip()[-300:]}: no JSON line")


def whole_json(text, name):
    try:
        return json.loads(text)
    except ValueError as error:
        raise RunFailed(f"{name}: {error}: {text[:200]!r}") from None


def parse_bare_udp(server, client):
    received, sent = last_json(server, "bare receiver"), last_json(client, "bare sender")
    return {"packets_per_second": received["packets_per_second"], "lost_packets": sent["packets"] - received["packets"]}


def parse_bare_tcp(server, _client):
    return {"bits_per_second": last_json(server, "bare receiver")["bits_per_second"]}


def parse_iperf3_udp(_server, client):
    end = whole_json(client, "iperf3")["end"]
    total = end.get("sum_received") or end["sum"]
    # 3.12 tells the receiver's loss in `sum`, beside the sender's packets and time.
    delivered = total["packets"] - total["lost_packets"]
    return {"packets_per_second": delivered / end["sum"]["seconds"], "lost_packets": total["lost_packets"]}


def parse_iperf3_tcp(_server, client):
    return {"bits_per_second": whole_json(client, "iperf3")["end"]["sum_received"]["bits_per_second"]}


def parse_nuttcp_udp(_server, client):
    found = dict(re.findall(r"(\w+)=([\d.]+)", client))
    if "pkt" not in found:
        raise RunFailed(f"nuttcp: {client.strip()[:200]!r}")
    delivered = int(found["pkt"]) - int(found["drop"])
    return {"packets_per_second": delivered / float(found["real_seconds"]), "lost_packets": int(found["drop"])}


def parse_sockperf(_server, client):
    """Ping-pong: responses received in the time without warm-up."""
    found = re.search(r"\[Valid Duration\] RunTime=([\d.]+) sec;.*ReceivedMessages=(\d+)", client)
    if not found or float(found[1]) <= 0:
        raise RunFailed(f"sockperf: {client.strip()[-200:]!r}")
    return {"transactions_per_second": int(found[2]) / float(found[1])}


def parse_weir_transactions(_server, client):
    """weir.run/1: transactions completed by the client."""
    record = whole_json(client, "weir")
    if record.get("status") != "complete" or record["flows"][0]["transactions"]["failed"]:
        raise RunFailed(f"weir: status {record.get('status')}: {record.get('end_reason')}")
    return {"transactions_per_second": record["flows"][0]["transactions"]["transactions_per_second"]}


def parse_weir(_server, client):
    """weir.run/1: what arrived, as the receiver saw it."""
    record = whole_json(client, "weir")
    if record.get("schema") != "weir.run/1" or record.get("status") != "complete":
        raise RunFailed(f"weir: schema {record.get('schema')}, status {record.get('status')}: {record.get('end_reason')}")
    receiver = record["total"]["forward"]["receiver"]
    sample = {"bits_per_second": receiver["bits_per_second"], "warnings": [w["code"] for w in record.get("warnings", [])]}
    for key in ("packets_per_second", "lost_packets"):
        if key in receiver:
            sample[key] = receiver[key]
    sender = record["total"]["forward"].get("sender", {})
    if "packets_per_second" in sender:
        sample["sent_packets_per_second"] = sender["packets_per_second"]
    return sample


BARE = WEIR = ""  # set by `catalogue`


def catalogue(bare_directory, weir, iperf3_new):
    """All contenders by name; those whose program is not here are left out and named in the second value."""
    global BARE, WEIR
    BARE, WEIR = bare_directory.rstrip("/") + "/", weir
    tools, missing = {}, {}

    def add(tool, *programs):
        lacking = [p for p in programs if not (p and shutil.which(p))]
        if lacking:
            missing[tool.name] = ", ".join(p or "IPERF3_NEW unset" for p in lacking)
        else:
            tools[tool.name] = tool

    udp, tcp = ("udp", 9347), ("tcp", 9347)
    for name, kind_send, kind_recv in (("bare-gso", "udp_gso_send", "udp_gro_recv"), ("bare-cut", "udp_gso_send", "udp_recv"),
                                       ("bare-packet", "udp_send", "udp_recv")):
        add(Tool(name, [BARE + kind_recv], [BARE + kind_send, "-c", "{host}", "-l", "{payload}", "-t", "{seconds}"], udp,
                 parse_bare_udp, server_ends=True), BARE + kind_send, BARE + kind_recv)
    for name, send, receive in (("bare-tcp-copy", "copy", "copy"), ("bare-tcp-best", "sendfile", "discard")):
        add(Tool(name, [BARE + "tcp_recv", "-m", receive, "-P", "{streams}"],
                 [BARE + "tcp_send", "-m", send, "-P", "{streams}", "-c", "{host}", "-t", "{seconds}"], tcp, parse_bare_tcp,
                 server_ends=True), BARE + "tcp_send", BARE + "tcp_recv")

    for name, program in (("iperf3", "iperf3"), ("iperf3-new", iperf3_new)):
        server, client = [program, "-s", "-1"], [program, "-c", "{host}", "-J", "-i", "0", "-t", "{whole_seconds}"]
        end = dict(port=("tcp", 5201), server_ends=True)
        add(Tool(f"{name}-udp", server, client + ["-u", "-b", "0", "-l", "{payload}"], parse=parse_iperf3_udp, **end), program)
        add(Tool(f"{name}-tcp", server, client + ["-P", "{streams}"], parse=parse_iperf3_tcp, **end), program)
        if name == "iperf3-new":
            add(Tool("iperf3-new-gsro", server, client + ["-u", "-b", "0", "-l", "{payload}", "--gsro"], parse=parse_iperf3_udp, **end), program)
            add(Tool("iperf3-new-tcp-best", server, client + ["-P", "{streams}", "-Z", "--skip-rx-copy"], parse=parse_iperf3_tcp, **end), program)

    add(Tool("iperf-udp", ["iperf", "-s", "-u"], ["iperf", "-u", "-c", "{host}", "-b", "100g", "-l", "{payload}", "-t", "{seconds}"],
             ("udp", 5001), extra_seconds=0.5), "iperf")
    add(Tool("nuttcp-udp", ["nuttcp", "-S", "--nofork"], ["nuttcp", "-u", "-Ru", "-l{payload}", "-T{whole_seconds}", "-fparse", "{host}"],
             ("tcp", 5000), parse_nuttcp_udp), "nuttcp")
    add(Tool("ditg-udp", ["ITGRecv"], ["ITGSend", "-a", "{host}", "-T", "UDP", "-C", "10000000", "-c", "{payload}", "-t", "{milliseconds}"],
             ("tcp", 9000), quiet=True, extra_seconds=0.5), "ITGSend", "ITGRecv")
    mgen_server = ["mgen", "port", "5001", "rxbuffer", "4194304", "output", "/dev/null"]
    mgen_on = "0.0 ON 1 UDP DST {host}/5001 PERIODIC "
    add(Tool("mgen-udp", mgen_server, ["mgen", "txbuffer", "4194304", "event", mgen_on + "[-1 {payload}]", "output", "/dev/null"],
             ("udp", 5001), quiet=True), "mgen")

    add(Tool("nuttcp-paced", ["nuttcp", "-S", "--nofork"], ["nuttcp", "-u", "-R{pps}p", "-l{payload}", "-T{whole_seconds}", "{host}"],
             ("tcp", 5000)), "nuttcp")
    add(Tool("mgen-paced", mgen_server, ["mgen", "event", mgen_on + "[{pps} {payload}]", "event", "{seconds} OFF 1", "output", "/dev/null"],
             ("udp", 5001), quiet=True), "mgen")
    add(Tool("sockperf-paced", ["sockperf", "sr", "-p", "5002"],
             ["sockperf", "tp", "-i", "{host}", "-p", "5002", "-m", "{payload}", "-t", "{whole_seconds}", "--mps", "{pps}"],
             ("udp", 5002)), "sockperf")

    for name, options in (("sockperf-udp-rr", []), ("sockperf-tcp-rr", ["--tcp"]), ("sockperf-udp-rr-spin", ["--nonblocked"]),
                          ("sockperf-tcp-rr-spin", ["--tcp", "--nonblocked"])):
        add(Tool(name, ["sockperf", "sr", "-p", "5002"] + options,
                 ["sockperf", "pp", "-i", "{host}", "-p", "5002", "-m", "{payload}", "-t", "{whole_seconds}"] + options,
                 ("tcp" if "--tcp" in options else "udp", 5002), parse_sockperf), "sockperf")

    serve = [WEIR, "serve", "-1"]
    test = [WEIR, "test", "{host}", "-t", "{seconds}", "--json", "--no-store"]
    weir_udp = test + ["-u", "-l", "{payload}"]
    # TCP and UDP 9347 are opened together; the TCP listener is what a client meets first.
    for name, client in (
            ("weir-merged", weir_udp + ["-b", "0", "--gso", "on", "--gro", "on"]),
            ("weir-cut", weir_udp + ["-b", "0", "--gso", "on", "--gro", "off"]),
            ("weir-packet", weir_udp + ["-b", "0", "--gso", "off", "--gro", "off"]),
            ("weir-xdp", weir_udp + ["-b", "0", "--engine", "xdp"]),
            ("weir-sizes", test + ["-u", "-b", "0", "-l", "{sizes}", "--gro", "off"]),
            ("weir-paced", weir_udp + ["-b", "{pps}pps"]),
            # Nearer to nuttcp and sockperf, which never sleep.
            ("weir-paced-spin", weir_udp + ["-b", "{pps}pps", "--spin", "500us"]),
            ("weir-tcp", test + ["-P", "{streams}"]),
            ("weir-tcp-best", test + ["-P", "{streams}", "-Z", "--skip-rx-copy"])):
        add(Tool(name, serve, client, tcp, parse_weir, server_ends=True), weir_if_real(weir))
    for name, options in (("weir-udp-rr", ["-u"]), ("weir-tcp-rr", []), ("weir-udp-rr-spin", ["-u", "--spin", "10ms"]),
                          ("weir-tcp-rr-spin", ["--spin", "10ms"])):
        sizes = ["--rr", "--request", "{payload}", "--response", "{payload}", "--no-latency"]
        server = serve + options[options.index("--spin"):] if "--spin" in options else serve
        add(Tool(name, server, test + options + sizes, tcp, parse_weir_transactions, server_ends=True), weir_if_real(weir))
    top = ["--replay-speed", "top", "--json", "--no-store", "-i", "0"]
    add(Replayed("weir-replay", [WEIR, "test", "interface:va", "--replay", "{capture}"] + top, parse_replay), weir_if_real(weir))
    add(Replayed("tcpreplay", ["tcpreplay", "-i", "va", "--topspeed", "--preload-pcap", "{capture}"], parse_tcpreplay), "tcpreplay")
    if "weir-packet" in tools:
        paced = weir_udp + ["-b", "{asked}pps", "--spacing", "exponential", "--gro", "off"]
        paced = Tool("weir-exponential", serve, paced, tcp, parse_weir, server_ends=True)
        add(Loaded("weir-exponential", tools["weir-packet"], paced, 0.8))
    return tools, missing


def weir_if_real(path):
    """The path when it answers `--version`; else a name that is found nowhere, so that its rows are left out."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=5)
        return path if done.returncode == 0 and done.stdout.strip() else path + " (no version)"
    except (OSError, subprocess.TimeoutExpired):
        return os.path.basename(path) + " (not built)"
