#!/usr/bin/env python3
"""Compares Weir with the kernel's netem: the same words, in one guest kernel, frame by frame.

usage: guest.py PROGRAM [CASE…]      a CASE is words of netem; without any, all cases are run (scripts/netem_cases.py)

This host needs neither netem nor root: Debian's cloud kernel and busybox are downloaded by apt-get, which checks their signatures, unpacked
into target/guest, and run by qemu. PROGRAM is `weir`. qemu counts instructions (-icount), so that the guest's time is virtual: it is
the same on a slow or busy host, and idle time takes none. Half of the cases run in each of two guests.

Exit: 0 all verdicts are as expected, or skipped with the reason on stderr; 1 a verdict is not; 2 bad usage; 4 a guest failed.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

import netem_cases

HERE = pathlib.Path(__file__).resolve().parent
GUESTS = 2
LIMIT_SECONDS = 900
DISK_BYTES = 256 << 20
KERNEL_PACKAGE = "linux-image-cloud-amd64"
MODULES = ["virtio_pci", "virtio_blk", "bridge", "veth", "sch_netem"]
# The guest's clock is that of the virtual processor. Its randomness is the processor's, which -seed makes repeatable. Interfaces with
# IPv6 would send frames of their own, which netem counts.
COMMAND_LINE = "ipv6.disable=1 console=ttyS0 quiet panic=-1 rdinit=/init nokaslr mitigations=off clocksource=tsc tsc=reliable random.trust_cpu=on"


class Missing(Exception):
    """What this host lacks."""


def output(*command, **options):
    """The output of a command."""
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def require(*tools):
    """The paths of programs, which may be in directories that are not in an ordinary user's PATH."""
    path = os.environ["PATH"] + ":/usr/local/sbin:/usr/sbin:/sbin"
    found = {tool: shutil.which(tool, path=path) for tool in tools}
    if missing := [tool for tool in tools if found[tool] is None]:
        raise Missing(f"{', '.join(missing)} not found (scripts/ensure.sh guest)")
    return found


def packages(place):
    """Downloads and unpacks the kernel and busybox; returns where the kernel's and busybox's files are."""
    depends = output("apt-cache", "depends", "--important", KERNEL_PACKAGE).split()
    names = [word for word in depends if word.startswith("linux-image-") and word != KERNEL_PACKAGE] + ["busybox-static"]
    if len(names) != 2:
        raise Missing(f"apt has no package {KERNEL_PACKAGE}")
    roots = []
    for name in names:
        root = place / name
        roots.append(root)
        if root.exists():
            continue
        with tempfile.TemporaryDirectory(dir=place) as scratch:
            got = subprocess.run(["apt-get", "download", "-q", name], cwd=scratch, capture_output=True, text=True, check=False)
            if got.returncode != 0:
                raise Missing(f"apt-get download {name}: {got.stderr.strip()}")
            unpacked = pathlib.Path(scratch, "unpacked")
            output("dpkg-deb", "--extract", *map(str, pathlib.Path(scratch).glob("*.deb")), str(unpacked))
            unpacked.rename(root)
    return roots


def libraries(program):
    """The shared libraries of a program, and its loader."""
    words = output("ldd", program).split()
    return {word for word in words if word.startswith("/")}


def modules(kernel, wanted):
    """The files of modules, each after those that it depends on, and without those that are built in."""
    found = {path.stem: path for path in kernel.glob("lib/modules/*/kernel/**/*.ko")}
    order = []

    def add(name):
        if name in found and found[name] not in order:
            for depends in re.findall(rb"\0depends=([^\0]*)\0", found[name].read_bytes()):
                for other in filter(None, depends.decode().split(",")):
                    add(other)
            order.append(found[name])

    for name in wanted:
        add(name)
    return order


def cpio(files):
    """An archive in the format of the kernel's initramfs (newc): `files` are contents by path; None is a directory."""
    archive = bytearray()

    def entry(number, name, mode, data):
        path = name.encode() + b"\0"
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0]
        archive.extend(b"070701" + b"".join(b"%08x" % field for field in fields) + path)
        archive.extend(bytes(-len(archive) % 4) + data)
        archive.extend(bytes(-len(archive) % 4))

    for number, (name, data) in enumerate(sorted(files.items())):
        entry(number, name, 0o040755 if data is None else 0o100755, data or b"")
    entry(0, "TRAILER!!!", 0, b"")
    return bytes(archive)


class Guest:
    """What all guests have in common: kernel, programs, libraries."""

    def __init__(self, weir, place):
        tools = require("qemu-system-x86_64", "apt-get", "apt-cache", "dpkg-deb", "cc", "strip", "ldd", "ip", "tc")
        place.mkdir(parents=True, exist_ok=True)
        kernel, busybox = packages(place)
        self.qemu = tools["qemu-system-x86_64"]
        self.kernel = next(kernel.glob("boot/vmlinuz-*"))
        self.release = self.kernel.name.removeprefix("vmlinuz-")
        probe, stripped = place / "probe", place / "weir"
        output(tools["cc"], "-std=gnu11", "-O2", "-Wall", "-Wextra", "-static", "-o", str(probe), str(HERE / "guest/probe.c"))
        output(tools["strip"], "-o", str(stripped), weir)
        programs = {"busybox": next(busybox.glob("*/busybox")), "weir": stripped, "probe": probe, "ip": tools["ip"], "tc": tools["tc"]}
        self.files = {f"bin/{name}": pathlib.Path(path).read_bytes() for name, path in programs.items()}
        self.files["init"] = (HERE / "guest/init.sh").read_bytes()
        copied = libraries(weir) | libraries(tools["ip"]) | libraries(tools["tc"])
        # Of distributions, tc reads the tables that iproute2 has.
        copied |= set(map(str, pathlib.Path("/usr/lib").glob("**/tc/*.dist")))
        self.files |= {path[1:]: pathlib.Path(path).read_bytes() for path in copied}
        ordered = modules(kernel, MODULES)
        self.files |= {f"modules/{path.name}": path.read_bytes() for path in ordered}
        self.files["modules/order"] = "".join(f"{path.name}\n" for path in ordered).encode()

    def start(self, cases, scratch):
        """Starts a guest that runs these cases, each with its number; returns its process."""
        lines = [f"{number}|{case.probe_arguments()}|{case.words}\n" for number, case in cases]
        files = self.files | {"cases": "".join(lines).encode()}
        for path in list(files) + ["proc/", "sys/", "dev/", "root/", "run/", "out/", "tmp/", "applets/"]:
            files |= {str(parent): None for parent in pathlib.Path(path + "x").parents if str(parent) != "."}
        (scratch / "initramfs").write_bytes(cpio(files))
        disk = scratch / "disk"
        with open(disk, "wb") as image:
            image.truncate(DISK_BYTES)
        with open(scratch / "console", "wb") as console:
            return subprocess.Popen([
                self.qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-seed", "1",
                "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-cpu", "qemu64,+rdrand", "-m", "1024",
                "-rtc", "base=2026-01-01,clock=vm", "-serial", "stdio",
                "-kernel", str(self.kernel), "-initrd", str(scratch / "initramfs"), "-append", COMMAND_LINE,
                "-drive", f"file={disk},if=virtio,format=raw,cache=unsafe",
            ], stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT)


def run(guest, cases):
    """Runs the cases; returns the files that the guests left, by name."""
    numbered = list(enumerate(cases))
    with tempfile.TemporaryDirectory(prefix="weir-guest-") as scratch:
        running = []
        try:
            for at in range(min(GUESTS, len(cases))):
                directory = pathlib.Path(scratch, str(at))
                directory.mkdir()
                running.append((guest.start(numbered[at::GUESTS], directory), directory))
            until = time.monotonic() + LIMIT_SECONDS
            for child, _ in running:
                child.wait(max(1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            consoles = "\n".join((directory / "console").read_text(errors="replace")[-2000:] for _, directory in running)
            raise RuntimeError(f"a guest did not end within {LIMIT_SECONDS} s\n{consoles}") from None
        finally:
            for child, _ in running:
                if child.poll() is None:
                    child.kill()
                    child.wait()
        files = {}
        for _, directory in running:
            console = (directory / "console").read_text(errors="replace")[-2000:]
            try:
                with tarfile.open(directory / "disk") as archive:
                    found = {member.name.removeprefix("./"): archive.extractfile(member).read() for member in archive if member.isfile()}
            except tarfile.TarError as error:
                raise RuntimeError(f"a guest left no results ({error})\n{console}") from None
            if found.pop("complete", None) is None:
                raise RuntimeError(f"a guest failed: {found.get('errors', b'').decode()}\n{console}")
            files |= found
        return files


def main(arguments):
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    weir, *words = arguments
    cases = [case for case in netem_cases.CASES if not words or case.words in words]
    if unknown := set(words) - {case.words for case in cases}:
        known = "\n".join(f"  {case.words}" for case in netem_cases.CASES)
        print(f"unknown case {min(unknown)!r}: expected one of\n{known}", file=sys.stderr)
        return 2
    started = time.monotonic()
    try:
        guest = Guest(weir, pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "guest")
    except Missing as missing:
        print(f"SKIPPED comparison with netem: {missing}", file=sys.stderr)
        return 0
    try:
        files = run(guest, cases)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 4
    print(f"netem of Linux {guest.release}, and Weir in the same guest")
    code = netem_cases.report(cases, files, sys.stdout)
    print(f"{time.monotonic() - started:.0f} s")
    return code


if __name__ == "__main__":
    # The guests end with this program.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
