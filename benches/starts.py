#!/usr/bin/env python3
"""How closely tests at several agents start: weir fleet run --together, by the starts that the tests measure themselves.

    benches/starts.py --weir target/release/weir             40 starts of four agents of this host
    benches/starts.py --starts 10 --agents 2

Agents of one host have one clock, so that the figure has no error of a clock. Judged is the median, against 200 µs; the largest
figure and the number of starts above the bar are printed beside it. It needs root and nats-server in PATH, as weir fleet dev does.
Run it on an idle machine. Nothing is left behind.
Exit: 0 met, 1 missed, 3 a command failed.
"""

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BAR_US = 200


def fail(what, result):
    print(f"starts.py: {what}: {(result.stderr or result.stdout).strip()}", file=sys.stderr)
    raise SystemExit(3)


def call(what, command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if result.returncode != 0:
        fail(what, result)
    return result.stdout


def started(fleet):
    """What weir fleet dev prints once its agents are there."""
    text = ""
    while line := fleet.stdout.readline():
        text += line
        try:
            return json.loads(text)
        except ValueError:
            continue
    print("starts.py: weir fleet dev ended", file=sys.stderr)
    raise SystemExit(3)


def measured_us(weir, there, starts):
    """The spread of N starts, one after the other, in µs."""
    server = ["--nats", there["nats"], "--nkey", there["nkey"]]
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as job:
        job.write('job = "serve"\nport = 5999\n')
        job.flush()
        # The agent's queue of tests stays free.
        call("the server", [weir, "fleet", "run", *server, "--on", there["agents"][0], "--resource", "probes", "--detach", job.name])
    time.sleep(1)
    test = ["test", "198.18.0.1", "-p", "5999", "-u", "-b", "1M", "-t", "1"]
    together = [weir, "fleet", "run", *server, "--on", ",".join(there["agents"]), "--together", "--no-store", "--json", "--", *test]
    for _ in range(starts):
        yield json.loads(call("a start", together))["start_spread"]["spread_ns"] / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="target/release/weir", help="the program [default: target/release/weir]")
    parser.add_argument("--starts", type=int, default=40, help="how often all agents start [default: 40]")
    parser.add_argument("--agents", type=int, default=4, help="agents that start together [default: 4]")
    asked = parser.parse_args()
    command = [asked.weir, "fleet", "dev", "--json", "--port", "0", "--agents", str(asked.agents)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as fleet:
        try:
            spreads = sorted(measured_us(asked.weir, started(fleet), asked.starts))
        finally:
            fleet.send_signal(signal.SIGINT)
            fleet.wait(30)
    median = statistics.median(spreads)
    above = sum(spread > BAR_US for spread in spreads)
    verdict = "met" if median <= BAR_US else "MISSED"
    print(
        f"start spread of {asked.agents} agents: median {median:.0f} µs, largest {spreads[-1]:.0f} µs, "
        f"{above} of {len(spreads)} above {BAR_US} µs; bar {BAR_US} µs: {verdict}"
    )
    return 0 if verdict == "met" else 1


if __name__ == "__main__":
    sys.exit(main())
