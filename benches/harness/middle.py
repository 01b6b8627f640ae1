"""Contenders in the middle of a path: how each is put between `m0` and `m1`, and what is measured through it.

A sample is a dict: `packets_per_second` (counted behind the middle by an XDP program), `cpu_nanoseconds_per_packet` (of the
emulator's thread, kernel included), `round_trip_seconds`, `bits_per_second`, errors of a constant delay, memory held.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import time
from dataclasses import dataclass

from . import tools
from .lab import PATH_ADDRESS, RunFailed, ip

LINKS = {"packet": "tpacket2", "xdp": "xdp-native"}  # weir's name of a link: the bare forwarder's
# Each law's state is used for every packet; nothing waits so long that memory for frames becomes the measure.
LAW_MIX = 'loss = { percentage = 1.0 }, delay = { normal = { mean = "1ms", deviation = "100us" }, order = "fifo-release" }, rate = { bits = "20G", queue = "100ms" }'
ASKED_SECONDS = 0.010
SLACK_SECONDS = 5e-6
HELD_PACKETS = 1_000_000
PINGS = 200


def processors():
    """Words that pin the source to one processor, and those that pin the middle to all others: what of the kernel's work
    each does then depends on no scheduler's mood. Nothing on a single processor."""
    mine = sorted(os.sched_getaffinity(0))
    if len(mine) < 2:
        return [], []
    return ["taskset", "-c", str(mine[0])], ["taskset", "-c", ",".join(map(str, mine[1:]))]


@dataclass(frozen=True)
class Emulator:
    """`weir impair`, by a link, with these laws from A to B or this many flows (each with the same laws)."""

    link: str
    laws: str = None
    flows: int = None
    memory: str = None

    def words(self, place, laws=None):
        line = [tools.WEIR, "impair", "m0", "m1", "--link", self.link, "--json", "--no-control-socket", "--seed", "1"]
        if self.flows is not None:
            path = os.path.join(place.directory.name, f"flows-{self.flows}.toml")
            with open(path, "w") as file:
                file.write(configuration(self.flows))
            return line + ["--config", path]
        laws = laws or self.laws
        return line + (["--config", self.held(place, laws)] if self.memory else ["--a-to-b", laws] if laws else [])

    def held(self, place, delay):
        path = os.path.join(place.directory.name, "held.toml")
        with open(path, "w") as file:
            file.write(f'schema = "weir.impair/1"\nmemory = "{self.memory}"\n[other]\n'
                       f'a_to_b = {{ delay = {{ constant = "{delay}" }} }}\n')
        return path

    @contextlib.contextmanager
    def running(self, place, pin=(), laws=None):
        process = place.start("m", [*pin, *self.words(place, laws)])
        process.await_words("no control socket", 10)
        yield process
        # After the first SIGINT delayed packets still leave.
        process.popen.send_signal(signal.SIGINT)
        code = process.wait(20)
        if code not in (0, 130):
            raise RunFailed(f"weir impair: exit {code}: {process.stderr().strip()[-300:]}")
        process.report = tools.whole_json(process.stdout(), "weir impair")


@dataclass(frozen=True)
class Forwarder:
    """The bare forwarder of a link."""

    link: str

    @contextlib.contextmanager
    def running(self, place, pin=(), laws=None):
        process = place.start("m", [*pin, tools.BARE + "forward", LINKS[self.link], "m0", "m1", "60"])
        process.await_words("ready")
        yield process
        process.end()


@dataclass(frozen=True)
class Bridge:
    """Linux's own."""

    @contextlib.contextmanager
    def running(self, place, pin=(), laws=None):
        space = place.name["m"]
        ip("-n", space, "link", "add", "br0", "type", "bridge", "stp_state", "0", "forward_delay", "0")
        try:
            for port in ("m0", "m1"):
                ip("-n", space, "link", "set", "dev", port, "master", "br0")
            ip("-n", space, "link", "set", "dev", "br0", "up")
            yield None
        finally:
            ip("-n", space, "link", "del", "br0")


def configuration(flows):
    """A weir.impair/1: `flows` flows distinguished by port, address and protocol, each with the laws of Other."""
    laws = f"{{ {LAW_MIX} }}"
    text = ['schema = "weir.impair/1"']
    for port in range(1, flows + 1):
        text.append(f'[[flow]]\nname = "flow-{port}"\na_to_b = {laws}\n'
                    f'filter = {{ protocol = "udp", destination = "{PATH_ADDRESS["d"]}/32", destination_port = "{port}" }}')
    text.append(f"[other]\na_to_b = {laws}")
    return "\n".join(text) + "\n"


@dataclass(frozen=True)
class Contender:
    """A middle and what is measured through it: a function of (place, middle, values, seconds)."""

    name: str
    middle: object
    measure: object

    def run(self, place, values, seconds):
        try:
            return self.measure(place, self.middle, values, seconds)
        finally:
            place.stop_all()


def flood(place, middle, values, seconds, laws=None, settle=0.1):
    """Frames of 60 bytes one way, as many as the source can; counted behind the middle over a window inside the run."""
    first, others = processors()
    source = [tools.BARE + "frames", values["source"], "s0", "60", "60", *([values["flows"]] if "flows" in values else [])]
    with middle.running(place, others, laws) as process:
        counter = place.start("d", [tools.BARE + "frames", "count", "d0", f"{seconds:g}", f"{settle:g}"])
        counter.await_words("ready")
        sender = place.start("s", [*first, *source], quiet=True)
        counter.await_words("counting", settle + 25)
        before = busy(process), time.monotonic()
        code = counter.wait(seconds + 25)
        after = busy(process), time.monotonic()
        peak = high_water(process)
        held = sender.popen.poll() is None
        sender.end()
        if code != 0 or not held:
            raise RunFailed(f"frames: exit {code}: {counter.stderr().strip()[-300:]}" if code else "the source ended early")
        found = tools.last_json(counter.stdout(), "frames count")
        sample = {"packets_per_second": found["frames"] / found["seconds"]}
    if process is not None:
        # As shares of the window, since the reader's window is not quite the counter's.
        sample["cpu_nanoseconds_per_packet"] = (after[0] - before[0]) / (after[1] - before[1]) / sample["packets_per_second"]
    if report := getattr(process, "report", None):
        check_filters(report)
        sample["resident_bytes"] = peak
    return sample


def high_water(process):
    """Most memory that the program has had resident (VmHWM)."""
    if process is None:
        return None
    with open(f"/proc/{process.pid}/status") as status:
        found = re.search(r"^VmHWM:\s+(\d+) kB", status.read(), re.M)
    return int(found.group(1)) * 1024 if found else None


def busy(process):
    """CPU time of the busiest thread, ns, the kernel's part included: that of the direction which carries the frames. What
    each flow's first packets cost is left out by the window, since that is no cost of every packet."""
    if process is None:
        return 0
    times = []
    for task in os.listdir(f"/proc/{process.pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{process.pid}/task/{task}/schedstat") as file:
            times.append(int(file.read().split()[0]))
    return max(times)


def check_filters(report):
    """A sample of flows whose packets no filter took would be one of Other."""
    forward = next(d for d in report["directions"] if d["direction"] == "forward")
    received = forward["received_packets"]
    if received == 0:
        raise RunFailed("weir impair: nothing came in at A")
    if report["impairment"]["config"].get("flow"):
        other = next(f for f in report["impairment"]["flows"] if f["name"] == "other" and f["direction"] == "forward")
        if other["counters"]["received_packets"] > received / 100:
            raise RunFailed("weir impair: the filters did not take the flows' packets")


def ping(place, middle, _values, _seconds):
    """Round trip of an echo that the destination's kernel answers, through the middle twice: median."""
    with middle.running(place):
        done = place.start("s", ["ping", "-n", "-i", "0.002", "-c", str(PINGS), "-W", "1", PATH_ADDRESS["d"]])
        if done.wait(30) != 0:
            raise RunFailed(f"ping: {done.stdout().strip()[-200:]}")
        return {"round_trip_seconds": parse_ping(done.stdout())}


def parse_ping(text):
    # The first ones wait for ARP and wake everything up.
    times = [float(t) / 1000 for t in re.findall(r"time=([\d.]+) ms", text)][10:]
    if len(times) < PINGS // 2:
        raise RunFailed(f"ping: {len(times)} answers only")
    return statistics.median(times)


def weir_test(place, *words, seconds):
    server = place.start("d", [tools.WEIR, "serve", "-1"])
    server.await_port("tcp", 9347)
    client = place.start("s", [tools.WEIR, "test", PATH_ADDRESS["d"], "-t", f"{seconds:g}", "--json", "--no-store", *words])
    code = client.wait(seconds + 20)
    if code != 0:
        raise RunFailed(f"weir test: exit {code}: {(client.stderr() or client.stdout()).strip()[-300:]}")
    server.wait(10)
    return client.stdout()


def constant(place, middle, values, seconds):
    """A constant delay against the same run without it: errors of the median and the 99th percentile of one-way delays,
    held against what the host is calibrated to; and whether anything left before its time."""
    calibrated = floor(place)
    delays = []
    for laws in (None, f"delay {ASKED_SECONDS * 1000:g}ms"):
        with middle.running(place, laws=laws) as process:
            text = weir_test(place, "-u", "-l", "160", "-b", values["pps"] + "pps", seconds=max(2.0, seconds))
        delays.append(one_way(text))
    return constant_errors(*delays, calibrated, process.report)


def one_way(text):
    return tools.whole_json(text, "weir test")["flows"][0]["receiver"]["one_way_delay"]


def constant_errors(without, with_law, calibrated, report):
    """error = delay - asked - the same run's median without the law; `over` is what it exceeds its bound by."""
    taken_off = ASKED_SECONDS + without["p50_seconds"]
    median, high = with_law["p50_seconds"] - taken_off, with_law["p99_seconds"] - taken_off
    flow = next(f for f in report["impairment"]["flows"] if f["direction"] == "forward")
    return {
        "error_p50_seconds": median, "error_p99_seconds": high, "error_max_seconds": with_law["max_seconds"] - taken_off,
        "over_p50_seconds": median - (calibrated["p50"] + SLACK_SECONDS),
        "over_p99_seconds": high - 2 * (calibrated["p99"] + SLACK_SECONDS),
        # Departure against the ingress stamp, by the emulator's own clock.
        "early_seconds": ASKED_SECONDS - flow["realised"]["delay_min_seconds"],
        "lateness_p50_seconds": flow["lateness"].get("p50_seconds"),
        "lateness_p99_seconds": flow["lateness"].get("p99_seconds"),
        "lateness_max_seconds": flow["lateness"]["max_seconds"],
        "calibrated_p50_seconds": calibrated["p50"], "calibrated_p99_seconds": calibrated["p99"],
    }


def floor(place):
    """How late this host wakes a thread scheduled as the emulator's, from `weir calibrate`; once for each lab."""
    if not hasattr(place, "floor"):
        done = subprocess.run([tools.WEIR, "calibrate", "--json", "--no-store", "--no-lab"], capture_output=True, text=True, timeout=120)
        figures = tools.whole_json(done.stdout, "weir calibrate")["figures"]
        place.floor = {q: figures[f"emulator_wakeup_late_{q}_seconds"] for q in ("p50", "p99")}
    return place.floor


def tcp(place, middle, _values, seconds):
    with middle.running(place):
        return tools.parse_weir("", weir_test(place, seconds=seconds))


def held(place, middle, values, seconds):
    """A million packets of 60 bytes held by a constant delay, against few held: the share of the rate that is left, and the
    most memory that was resident."""
    few = flood(place, middle, values, seconds, laws="10ms")
    place.stop_all()
    # A little more than needed, since the rate may fall; all must be there before the count begins.
    delay = 1.4 * HELD_PACKETS / few["packets_per_second"]
    many = flood(place, middle, values, seconds, laws=f"{delay * 1000:.0f}ms", settle=0.2)
    count = delay * many["packets_per_second"]
    if count < HELD_PACKETS:
        raise RunFailed(f"{count:.0f} packets were held, {HELD_PACKETS} are wanted")
    return {"rate_ratio": many["packets_per_second"] / few["packets_per_second"], "held_packets": count,
            "resident_bytes": many["resident_bytes"], "resident_bytes_of_few": few["resident_bytes"],
            "resident_bytes_per_million": (many["resident_bytes"] - few["resident_bytes"]) * HELD_PACKETS / count + few["resident_bytes"]}


def catalogue():
    """All contenders by name, and those that lack a program; after `tools.catalogue`."""
    found, missing = {}, {}

    def add(name, middle, measure, *programs):
        own = tools.weir_if_real(tools.WEIR) if isinstance(middle, Emulator) or measure in (tcp, constant) else tools.BARE + "forward"
        if lacking := [p for p in (own, *programs) if not shutil.which(p)]:
            missing[name] = ", ".join(lacking)
        else:
            found[name] = Contender(name, middle, measure)

    frames = (tools.BARE + "frames", "taskset")
    for link in LINKS:
        for name, middle in ((f"impair-{link}", Emulator(link)), (f"forward-{link}", Forwarder(link))):
            add(name, middle, flood, *frames)
            add(f"{name}-ping", middle, ping, "ping")
            add(f"{name}-tcp", middle, tcp)
    add("bridge", Bridge(), flood, *frames)
    add("bridge-ping", Bridge(), ping, "ping")
    add("impair-constant", Emulator("auto"), constant)
    add("impair-held", Emulator("auto", memory="4G"), held, *frames)
    for flows in (0, 16, 1000):
        add(f"flows-{flows}" if flows else "other-only", Emulator("auto", flows=flows), spread(flows or 1000), *frames)
    return found, missing


def spread(flows):
    """`flood` from a source that sends to so many ports in turn."""
    return lambda place, middle, values, seconds: flood(place, middle, {**values, "flows": str(flows)}, seconds, settle=0.2)
