#!/usr/bin/env python3
"""Recomputes the receiver's figures from a packet log (docs/packets.md), by the definitions of docs/METHODOLOGY.md.

    recompute.py LOG

Written from those two pages alone, so that it is a second opinion. Prints one JSON object: the figures over all
records of kind `arrived` (sent and received times of one clock), in seconds as a record holds them.
"""

import json
import struct
import sys

UNKNOWN = 2**64 - 1
ARRIVED = 1


def read(path):
    with open(path, "rb") as log:
        magic, version, size, length = struct.unpack("<8sHHI", log.read(16))
        assert magic == b"\x89WEIRPK\n" and version == 1 and 40 <= size <= 256, (magic, version, size)
        json.loads(log.read(length))
        while len(record := log.read(size)) == size:
            yield struct.unpack("<QQQIIHBBI", record[:40])


def main(path):
    records = list(read(path))
    kinds = {}
    for record in records:
        kinds[str(record[6])] = kinds.get(str(record[6]), 0) + 1
    arrived = [r for r in records if r[6] == ARRIVED]
    delays = [received - sent for _, sent, received, *_ in arrived]
    assert all(UNKNOWN not in (r[1], r[2]) for r in arrived)

    # RFC 3550 section A.8: over arrivals, the transit's change, a sixteenth of the way.
    jitter = 0.0
    for before, now in zip(delays, delays[1:]):
        jitter += (float(abs(now - before)) - jitter) / 16.0

    in_order = sorted(delays)

    def percentile(q):
        """Nearest rank, q in thousandths: the smallest value with at least that share at or below it."""
        return in_order[-(-len(in_order) * q // 1000) - 1]

    print(json.dumps({
        "kinds": kinds,
        "count": len(delays),
        "sequences": [r[0] for r in arrived],
        "sizes": sorted({r[4] for r in arrived}),
        "directions": sorted({r[7] for r in arrived}),
        "arrivals_ns": [str(r[2]) for r in arrived],
        "sent_ns": [str(r[1]) for r in arrived],
        "jitter_seconds": jitter / 1e9,
        "min_seconds": min(delays) / 1e9,
        "mean_seconds": float(sum(delays)) / float(len(delays)) / 1e9,
        "max_seconds": max(delays) / 1e9,
        "p50_seconds": percentile(500) / 1e9,
        "p90_seconds": percentile(900) / 1e9,
    }))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
