"""Namespaces joined by veth pairs, and the processes in them; all are gone afterwards, whatever happens."""

import ctypes
import os
import re
import signal
import subprocess
import tempfile
import time

PREFIX = "wbench-"
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
ADDRESS = {"a": "198.18.0.1", "b": "198.18.0.2"}
PATH_ADDRESS = {"s": "198.18.1.1", "d": "198.18.1.2"}


class RunFailed(Exception):
    """A program did not start, end or say what it should; carries its name and last words."""


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise RunFailed(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Process:
    """One program in a namespace; its output goes to files so that no pipe can fill and stop it."""

    def __init__(self, namespace, words, cwd, quiet=False):
        self.words = words
        self.out = None if quiet else tempfile.TemporaryFile(dir=cwd)
        self.err = None if quiet else tempfile.TemporaryFile(dir=cwd)
        self.popen = subprocess.Popen(
            ["ip", "netns", "exec", namespace, *words],
            stdin=subprocess.DEVNULL,
            stdout=self.out if self.out else subprocess.DEVNULL,
            stderr=self.err if self.err else subprocess.DEVNULL,
            cwd=cwd,
            start_new_session=True,
            # Killed with us, even by SIGKILL: a sender without end must not outlive its harness.
            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
        )

    @property
    def pid(self):
        return self.popen.pid

    def text(self, stream):
        if stream is None:
            return ""
        stream.seek(0)
        return stream.read(64 << 20).decode(errors="replace")

    def stdout(self):
        return self.text(self.out)

    def stderr(self):
        return self.text(self.err)

    def wait(self, seconds):
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise RunFailed(f"{self.words[0]} did not end within {seconds} s") from None

    def end(self, with_signal=signal.SIGKILL):
        """SIGKILL by default: some peers starve their own signal handling while they flood."""
        if self.popen.poll() is None:
            try:
                os.killpg(self.pid, with_signal)
            except ProcessLookupError:
                pass
        try:
            self.popen.wait(5)
        except subprocess.TimeoutExpired:
            if with_signal != signal.SIGKILL:
                self.end()

    def await_words(self, words, seconds=5.0):
        """Returns once it has said `words` on stderr."""
        end = time.monotonic() + seconds
        while words not in self.stderr():
            if self.popen.poll() is not None:
                raise RunFailed(f"{self.words[0]} ended at once: {self.stderr().strip()[-300:]}")
            if time.monotonic() > end:
                raise RunFailed(f"{self.words[0]} is not ready: {self.stderr().strip()[-300:]}")
            time.sleep(0.005)

    def await_port(self, protocol, port, seconds=5.0):
        """Returns once something in the namespace listens on (TCP) or is bound to (UDP) the port."""
        pattern = re.compile(rf"^\s*\d+: [0-9A-F]+:{port:04X} \S+ {'0A' if protocol == 'tcp' else '..'} ", re.M)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.popen.poll() is not None:
                raise RunFailed(f"{self.words[0]} ended at once: {self.stderr().strip()[-300:]}")
            for family in ("", "6"):
                try:
                    with open(f"/proc/{self.pid}/net/{protocol}{family}") as table:
                        if pattern.search(table.read()):
                            return
                except OSError:
                    pass
            time.sleep(0.005)
        raise RunFailed(f"{self.words[0]} opened no {protocol} port {port} within {seconds} s")

    def udp_counters(self):
        """(datagrams read by programs, datagrams dropped at sockets) of the process's namespace."""
        with open(f"/proc/{self.pid}/net/snmp") as table:
            rows = [line.split() for line in table if line.startswith("Udp:")]
        names = dict(zip(rows[0][1:], map(int, rows[1][1:])))
        return names["InDatagrams"], names["RcvbufErrors"]


class Lab:
    """Hosts a and b: namespaces wbench-PID-a and -b, interfaces `va` and `vb`."""

    sides = "ab"

    def __init__(self):
        self.name = {side: f"{PREFIX}{os.getpid()}-{side}" for side in self.sides}
        self.directory = None
        self.running = []

    def __enter__(self):
        heal()
        self.directory = tempfile.TemporaryDirectory(prefix="wbench-")
        try:
            for side in self.sides:
                ip("netns", "add", self.name[side])
                ip("-n", self.name[side], "link", "set", "dev", "lo", "up")
            self.wire()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def wire(self):
        ip("-n", self.name["a"], "link", "add", "va", "type", "veth", "peer", "name", "vb", "netns", self.name["b"])
        for side in "ab":
            ip("-n", self.name[side], "addr", "add", f"{ADDRESS[side]}/30", "dev", f"v{side}")
            ip("-n", self.name[side], "link", "set", "dev", f"v{side}", "up")

    def __exit__(self, *_):
        # A second Ctrl-C must not leave half of it behind.
        handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        for process in self.running:
            process.end()
        self.running.clear()
        for side in self.sides:
            subprocess.run(["ip", "netns", "del", self.name[side]], capture_output=True)
        if self.directory:
            self.directory.cleanup()
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def offloads(self, merged):
        """Merged: the veth's own defaults, coalesced. Else: per-packet."""
        word = "on" if merged else "off"
        for side in "ab":
            done = subprocess.run(
                ["ip", "netns", "exec", self.name[side], "ethtool", "-K", f"v{side}", "tx-udp-segmentation", word, "gro", "off"],
                capture_output=True, text=True)
            if done.returncode != 0:
                raise RunFailed(f"ethtool v{side}: {done.stderr.strip()}")

    def start(self, side, words, quiet=False):
        process = Process(self.name[side], words, self.directory.name, quiet)
        self.running.append(process)
        return process

    def stop_all(self):
        for process in self.running:
            process.end()
        self.running.clear()


class Path(Lab):
    """Source s, middle m, destination d: interfaces `s0`-`m0` and `m1`-`d0`. Nothing but what the middle runs joins them."""

    sides = "smd"

    def wire(self):
        for (one, a), (other, b) in ((("s", "s0"), ("m", "m0")), (("m", "m1"), ("d", "d0"))):
            ip("-n", self.name[one], "link", "add", a, "type", "veth", "peer", "name", b, "netns", self.name[other])
        for side, interface in (("s", "s0"), ("m", "m0"), ("m", "m1"), ("d", "d0")):
            self.within(side, "sysctl", "-qw", f"net.ipv6.conf.{interface}.disable_ipv6=1")
            # The bare forwarders complete no checksums and segment no super-packets: neither is made, for anyone.
            self.within(side, "ethtool", "-K", interface, "tx", "off", "tso", "off", "gso", "off", "gro", "off")
            ip("-n", self.name[side], "link", "set", "dev", interface, "up")
        for side, address in PATH_ADDRESS.items():
            ip("-n", self.name[side], "addr", "add", f"{address}/30", "dev", f"{side}0")

    def within(self, side, *words):
        done = subprocess.run(["ip", "netns", "exec", self.name[side], *words], capture_output=True, text=True)
        if done.returncode != 0:
            raise RunFailed(f"{' '.join(words)}: {done.stderr.strip()}")

    def offloads(self, _merged):
        """Off, always."""


def heal():
    """Removes what a killed harness left: namespaces with our prefix whose maker is gone."""
    for line in ip("netns", "list").splitlines():
        name = line.split()[0] if line.split() else ""
        match = re.fullmatch(rf"{PREFIX}(\d+)-[a-z]", name)
        if match and not os.path.exists(f"/proc/{match.group(1)}"):
            for pid in ip("netns", "pids", name).split():
                os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
