#!/usr/bin/env python3
"""Runs a test command, passes its output on, and lists the failed tests at the end.

usage: tests.py COMMAND [ARGUMENT]…

Most tests wait for real packets and times, so five run at the same time also where there are fewer processors (RUST_TEST_THREADS).
The exit code is the command's. With `cargo test --no-fail-fast` the failures are spread over the whole output.
"""

import os
import re
import subprocess
import sys

BINARY = re.compile(r"^\s+(?:Running (?:unittests )?(?P<source>\S+) \((?P<program>[^)]*)\)|Doc-tests (?P<crate>\S+))")
FAILED = re.compile(r"^test (?P<name>.+?)(?: - should panic)? \.\.\. FAILED$")
# What a test that ends its whole program leaves: cargo names the program and the signal.
KILLED = re.compile(r"^\s+process didn't exit successfully: (?P<what>.*\(signal: .*\))")


class Summary:
    """The failures in the output of `cargo test`, line by line."""

    def __init__(self):
        self.binary = ""
        self.failed = []

    def line(self, text):
        """Takes the next line."""
        text = text.rstrip("\n")
        if found := BINARY.match(text):
            if found["crate"]:
                self.binary = f"doc-tests {found['crate']}"
            else:
                program = found["program"].rsplit("/", 1)[-1].rsplit("-", 1)[0]
                self.binary = f"{program} ({found['source']})"
        elif found := FAILED.match(text):
            self.failed.append(f"{self.binary}: {found['name']}")
        elif found := KILLED.match(text):
            self.failed.append(f"{self.binary}: {found['what']}")

    def text(self):
        """What is printed at the end."""
        count = len(self.failed)
        head = f"{count} failed test{'' if count == 1 else 's'}:" if count else "no test failed, but the command did:"
        return "\n".join([head, *(f"  {name}" for name in self.failed)])


def run(command, out):
    """Runs `command`, writes its output and the summary to `out`, and returns its exit code."""
    summary = Summary()
    threads = str(max(5, os.cpu_count() or 1))
    environment = {"RUST_TEST_THREADS": threads} | os.environ
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment) as child:
        for line in child.stdout:
            out.write(line)
            out.flush()
            summary.line(line)
    if child.returncode:
        out.write(f"\n{summary.text()}\n")
    # A signal is reported as shells do.
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        sys.exit(run(sys.argv[1:], sys.stdout))
    except KeyboardInterrupt:
        sys.exit(130)
