#!/usr/bin/env python3
"""Runs a command in the background, at low priority, while another one runs; prints its output when both have ended.

usage: together.py BACKGROUND… -- COMMAND…

For work that fills the processors beside tests that mostly wait. The exit code is that of COMMAND, or that of BACKGROUND where
COMMAND succeeded.
"""

import os
import signal
import subprocess
import sys
import tempfile


def code(returncode):
    """As shells report a signal."""
    return returncode if returncode >= 0 else 128 - returncode


def end(child):
    """Ends a process group that is still running."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGTERM)
        child.wait()


def run(background, command, out):
    """Runs both and returns the exit code."""
    with tempfile.TemporaryFile() as text:
        beside = subprocess.Popen(["nice", "-n", "19", *background], stdin=subprocess.DEVNULL, stdout=text, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            first = code(subprocess.run(command, check=False).returncode)
            second = code(beside.wait())
        finally:
            end(beside)
        text.seek(0)
        out.write(text.read().decode(errors="replace"))
        out.flush()
    return first or second


if __name__ == "__main__":
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else 0
    if not words[:at] or not words[at + 1:]:
        sys.exit(__doc__)
    try:
        sys.exit(run(words[:at], words[at + 1:], sys.stdout))
    except KeyboardInterrupt:
        sys.exit(130)
