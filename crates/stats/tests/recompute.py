"""Recomputes jitter, delay and delay variation from a packet list, apart from the Rust code.

Input (CSV): sequence,sent_ns,received_ns in order of arrival, copies left out.
Output: one `name value` a line; floating values with repr, so that they can be compared to the last digit.
"""

import csv
import math
import sys


def nearest_rank(values, numerator, denominator):
    ordered = sorted(values)
    return ordered[max(1, -(-len(ordered) * numerator // denominator)) - 1]


def main(path):
    with open(path, newline="") as file:
        rows = [tuple(map(int, row)) for row in csv.reader(file)]
    # RFC 3550 A.8: over arrivals.
    jitter = 0.0
    transits = [received - sent for _, sent, received in rows]
    for previous, transit in zip(transits, transits[1:]):
        jitter += (float(abs(transit - previous)) - jitter) / 16.0
    # RFC 5481: PDV against the minimum, IPDV between neighbours by number.
    delay = {number: received - sent for number, sent, received in rows}
    least = min(delay.values())
    differences = [abs(delay[n] - delay[n - 1]) for n in delay if n - 1 in delay]
    print("jitter_ns", repr(jitter))
    print("min_ns", least)
    print("max_ns", max(delay.values()))
    print("mean_ns", repr(sum(delay.values()) / len(delay)))
    print("p99_ns", nearest_rank(delay.values(), 99, 100))
    print("pdv_p99_ns", nearest_rank(delay.values(), 99, 100) - least)
    print("pdv_mean_ns", repr((sum(delay.values()) - least * len(delay)) / len(delay)))
    print("ipdv_count", len(differences))
    print("ipdv_mean_ns", repr(sum(differences) / len(differences)))
    print("ipdv_p99_ns", nearest_rank(differences, 99, 100))
    assert math.isfinite(jitter)


main(sys.argv[1])
