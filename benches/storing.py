#!/usr/bin/env python3
"""What keeping a run costs: CPU time of `weir test` with and without --no-store, in alternating pairs.

    benches/storing.py --weir target/release/weir            10 pairs of 5 s of TCP at 10 Gbit/s, then 30 pairs of 5 s at 1 Mbit/s
    benches/storing.py --pairs 20 --seconds 10

The server runs on loopback, outside of what is counted. A run is kept once, after the test, and as one record whatever its
rate: the cost is a number of CPU milliseconds, not a ratio. Two figures show it:

  direct     the median over pairs of (CPU with − CPU without) ÷ CPU without, at the high rate, for the same volume (`-n`): what one
             wants to know, blurred by all that a test at that rate varies by from run to run;
  difference the median over pairs of CPU with − CPU without of a test of the same length, intervals and flows at 1 Mbit/s, whose own
             CPU time is small and even; divided by the median CPU of the high-rate runs it is the same share, sharper.

Each with its one-sided 95 % bootstrap bounds. CPU is user and system time of the client by wait4. Steal and load are not corrected
for: run it on an idle machine. Nothing is left behind; runs are kept in a directory of their own.
Exit: 0 measured, 2 usage, 3 a test failed, 4 a program lacking.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import judge  # noqa: E402


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(server, said, patience_seconds=30):
    """Waits for the line by which the server says that it listens, in the file `said`. Gives up when it ends before that, or
    says nothing of the kind."""
    end = time.monotonic() + patience_seconds
    while time.monotonic() < end:
        has_ended = server.poll() is not None
        with open(said, encoding="utf-8", errors="replace") as file:
            words = file.read()
        if "listening on" in words:
            return
        if has_ended:
            break
        time.sleep(0.005)
    print(f"storing.py: weir serve does not listen; it said: {words.strip() or 'nothing'}", file=sys.stderr)
    raise SystemExit(3)


def cpu_seconds(command, environment):
    """User and system seconds of a program that has ended, and its wall seconds."""
    begun = time.monotonic()
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    with child.stderr:
        said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.stderr.buffer.write(said)
        print(f"storing.py: {' '.join(command)} ended with {child.returncode}", file=sys.stderr)
        raise SystemExit(3)
    return usage.ru_utime + usage.ru_stime, time.monotonic() - begun


def pairs_of(test, count, environment):
    """Pairs of CPU seconds, kept and not kept, in turn; which one is first alternates. The walls of all runs."""
    out, walls = [], []
    for number in range(count):
        cpu = {}
        for is_kept in (True, False) if number % 2 == 0 else (False, True):
            cpu[is_kept], wall = cpu_seconds(test + ([] if is_kept else ["--no-store"]), environment)
            walls.append(wall)
        out.append((cpu[True], cpu[False]))
        print(f"  {number + 1}/{count}  kept {cpu[True]:.3f} s, not kept {cpu[False]:.3f} s", file=sys.stderr)
    return out, walls


def words(values, unit, factor):
    middle, low, high = judge.bounds(values)
    if low is None:
        return f"{middle * factor:+.2f} {unit}"
    return f"{middle * factor:+.2f} {unit} ({low * factor:+.2f} to {high * factor:+.2f} {unit})"


def told(high, low):
    """What keeping costs, by pairs of CPU seconds at the high and the low rate."""
    base = statistics.median(without for _, without in high)
    direct = words([(kept - without) / without for kept, without in high], "%", 100)
    difference = words([kept - without for kept, without in low], "ms", 1000)
    share = words([(kept - without) / base for kept, without in low], "%", 100)
    return [f"direct:     {direct}", f"difference: {difference}, which is {share} of the high rate's CPU"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="target/release/weir", help="the program [default: %(default)s]")
    parser.add_argument("--pairs", type=int, default=10, help="pairs at the high rate [default: %(default)s]")
    parser.add_argument("--low-pairs", type=int, default=30, help="pairs at 1 Mbit/s [default: %(default)s]")
    parser.add_argument("--seconds", type=int, default=5, help="length of a test at 10 Gbit/s [default: %(default)s]")
    args = parser.parse_args()
    if min(args.pairs, args.low_pairs, args.seconds) < 1:
        parser.error("--pairs, --low-pairs, --seconds: 1 or more")
    if not os.access(args.weir, os.X_OK):
        print(f"storing.py: {args.weir}: no such program; make build makes it", file=sys.stderr)
        return 4
    port = str(free_port())
    with tempfile.TemporaryDirectory() as place:
        environment = {**os.environ, "WEIR_DATA_DIR": place}
        # A file, since no program reads what it prints about each test.
        said = os.path.join(place, "server.log")
        with open(said, "wb") as log:
            server = subprocess.Popen(
                [args.weir, "serve", "-p", port, "--bind", "127.0.0.1"],
                stdout=log, stderr=subprocess.STDOUT, env=environment,
            )
        try:
            listens(server, said)
            test = [args.weir, "test", "127.0.0.1", "-p", port]
            volume = str(args.seconds * 10**10 // 8)
            high, walls = pairs_of(test + ["-n", volume], args.pairs, environment)
            low, _ = pairs_of(test + ["-t", str(args.seconds), "-b", "1M"], args.low_pairs, environment)
        finally:
            server.terminate()
            server.wait()
    base = statistics.median(without for _, without in high)
    rate = int(volume) * 8 / statistics.median(walls) / 1e9
    print(f"high rate: {volume} bytes in {statistics.median(walls):.2f} s ({rate:.1f} Gbit/s, start and end included), "
          f"{base:.3f} s of CPU not kept, {args.pairs} pairs")
    print("\n".join(told(high, low)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
