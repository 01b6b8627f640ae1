"""The path of a run: two hosts with Weir's emulator between them, in namespaces of this program's own.

    rg-PID-a  e0 ======== e0  rg-PID-m  e1 ======== e0  rg-PID-b
    (client)                 (emulator)                 (server)

Offloads are off everywhere, neighbours are fixed (no ARP, no neighbour discovery in the captures).
"""
import json
import os
import re
import shutil
import signal
import subprocess
import time

ADDRESSES = {"a": ("10.97.0.1", "fd97::1"), "b": ("10.97.0.2", "fd97::2")}
OFFLOADS = ("tso off gso off gro off tx off rx off sg off tx-udp-segmentation off "
            "rxvlan off txvlan off").split()


def run(*words, check=True):
    """Runs a short command; its output."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def monotonic_reading():
    """(CLOCK_MONOTONIC, CLOCK_REALTIME - CLOCK_MONOTONIC) in ns, by the tightest of some brackets."""
    best = None
    for _ in range(200):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        real = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        if best is None or after - before < best[0]:
            best = (after - before, before, real - (before + after) // 2)
    return best[1], best[2]


class Program:
    """A program in one of the namespaces, its output in files; ended by its process id alone."""

    def __init__(self, words, output, environment=None):
        self.name = os.path.basename(output)
        self.output = output
        with open(output, "wb") as out, open(output + ".err", "wb") as err:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            env=environment, start_new_session=True)

    def errors(self):
        with open(self.output + ".err", errors="replace") as file:
            return file.read()

    def wait_for(self, text, seconds=10):
        """Waits until its output or diagnostics contain `text`."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with open(self.output, errors="replace") as file:
                if text in file.read() or text in self.errors():
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        with open(self.output, errors="replace") as file:
            said = (file.read() + self.errors()).strip()
        raise RuntimeError(f"{self.name} did not print {text!r}: {said[-500:]}")

    def end(self, first=signal.SIGINT, seconds=5):
        for sign in (first, signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is not None:
                break
            try:
                self.process.send_signal(sign)
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
        return self.process.wait(5)


class Path:
    """The namespaces; a context manager that removes them and ends all programs in them."""

    def __init__(self):
        self.prefix = f"rg-{os.getpid()}"
        self.programs = []
        self.mac = {}

    def namespace(self, node):
        return f"{self.prefix}-{node}"

    def __enter__(self):
        remove_left_behind()
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self):
        for node in "amb":
            name = self.namespace(node)
            run("ip", "netns", "add", name)
            self.inside(node, "sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0",
                        "net.ipv6.conf.default.accept_ra=0", "net.ipv6.conf.default.router_solicitations=0",
                        "net.ipv6.conf.default.addr_gen_mode=1")
            run("ip", "-n", name, "link", "set", "dev", "lo", "up")
        middle = self.namespace("m")
        for node, other in (("a", "e0"), ("b", "e1")):
            run("ip", "-n", self.namespace(node), "link", "add", "dev", "e0", "type", "veth",
                "peer", "name", other, "netns", middle)
        for node, device in (("a", "e0"), ("b", "e0"), ("m", "e0"), ("m", "e1")):
            name = self.namespace(node)
            for feature, state in zip(OFFLOADS[::2], OFFLOADS[1::2]):
                self.inside(node, "ethtool", "-K", device, feature, state, check=False)
            if node != "m":
                address4, address6 = ADDRESSES[node]
                run("ip", "-n", name, "address", "add", f"{address4}/24", "dev", device)
                run("ip", "-n", name, "address", "add", f"{address6}/64", "dev", device, "nodad")
                text = self.inside(node, "cat", f"/sys/class/net/{device}/address").strip()
                self.mac[node] = bytes.fromhex(text.replace(":", ""))
            run("ip", "-n", name, "link", "set", "dev", device, "up")
        for node, peer in (("a", "b"), ("b", "a")):
            for address in ADDRESSES[peer]:
                run("ip", "-n", self.namespace(node), "neighbour", "replace", address, "lladdr",
                    self.mac[peer].hex(":"), "nud", "permanent", "dev", "e0")
        self._require_offloads_off()

    def _require_offloads_off(self):
        for node, device in (("a", "e0"), ("b", "e0")):
            text = self.inside(node, "ethtool", "-k", device)
            for feature in ("tcp-segmentation-offload", "generic-segmentation-offload",
                            "generic-receive-offload", "tx-checksumming", "tx-udp-segmentation"):
                state = re.search(rf"^\s*{feature}: (\w+)", text, re.M)
                if state and state[1] != "off":
                    raise RuntimeError(f"{device} of {node}: {feature} is {state[1]}; captures would be wrong")

    def __exit__(self, *_):
        for program in reversed(self.programs):
            try:
                program.end()
            except Exception as error:  # the others have to be ended too
                print(f"recheck: {program.name}: {error}")
        for node in "amb":
            run("ip", "netns", "delete", self.namespace(node), check=False)

    def inside(self, node, *words, check=True):
        return run("ip", "netns", "exec", self.namespace(node), *words, check=check)

    def start(self, node, words, output, environment=None):
        program = Program(["ip", "netns", "exec", self.namespace(node), *words], output, environment)
        self.programs.append(program)
        return program

    def end(self, program, **how):
        code = program.end(**how)
        self.programs.remove(program)
        return code

    def capture(self, node, directory, snap):
        """Starts a capture at the host's interface, and waits until it captures."""
        words = ["tcpdump", "-i", "e0", "-n", "-U", "-B", "65536", "-s", str(snap), "-Z", "root",
                 "--time-stamp-precision=nano", "-w", os.path.join(directory, f"{node}.pcap")]
        program = self.start(node, words, os.path.join(directory, f"tcpdump-{node}"))
        program.wait_for("listening on")
        return program

    def kernel_counters(self, node):
        """UDP and TCP counters of a host: {"Udp": {...}, "Udp6": {...}, "Tcp": {...}}."""
        counters = {}
        lines = self.inside(node, "cat", "/proc/net/snmp").splitlines()
        for names, values in zip(lines[::2], lines[1::2]):
            kind = names.split(":")[0]
            if kind in ("Udp", "Tcp"):
                counters[kind] = dict(zip(names.split()[1:], map(int, values.split()[1:])))
        counters["Udp6"] = {}
        for line in self.inside(node, "cat", "/proc/net/snmp6").splitlines():
            name, value = line.split()
            if name.startswith("Udp6"):
                counters["Udp6"][name[4:]] = int(value)
        return counters


def capture_losses(text):
    """(captured, dropped by the kernel) as tcpdump prints them at its end."""
    captured = re.search(r"(\d+) packets? captured", text)
    dropped = re.search(r"(\d+) packets? dropped by kernel", text)
    return (int(captured[1]) if captured else None, int(dropped[1]) if dropped else None)


def remove_left_behind():
    """Removes namespaces of runs of this program that were killed."""
    for line in run("ip", "netns", "list").splitlines():
        name = line.split()[0] if line.split() else ""
        match = re.fullmatch(r"rg-(\d+)-[amb]", name)
        if match and not os.path.exists(f"/proc/{match[1]}"):
            run("ip", "netns", "delete", name, check=False)


def required_programs():
    missing = [p for p in ("ip", "tcpdump", "ethtool", "sysctl") if not shutil.which(p)]
    if missing:
        raise SystemExit(f"recheck: missing programs: {', '.join(missing)}")
    if os.geteuid() != 0:
        raise SystemExit("recheck: network namespaces and captures need root")


def subtract(after, before):
    return {kind: {name: value - before[kind].get(name, 0) for name, value in names.items()}
            for kind, names in after.items()}


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file, indent=1)


def read_json(path):
    with open(path) as file:
        return json.load(file)
