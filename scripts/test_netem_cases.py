"""The bounds of the comparison with netem: samples of one law pass, others don't."""

import io
import json
import random
import struct
import unittest

import netem_cases
from netem_cases import MS, SENT, UNCHANGED, Case, Run


def records(losses=(), delay=0, order=None, count=2000):
    """A file of probe: frames a millisecond apart, the numbers in `losses` lost."""
    numbers = order or [number for number in range(count) if number not in losses]
    sent = b"".join(struct.pack("<QII", number * MS, number, SENT) for number in range(count))
    return sent + b"".join(struct.pack("<QII", number * MS + delay, number, UNCHANGED) for number in numbers)


def losses(ratio, seed, count=2000):
    """Numbers of independently lost frames."""
    draws = random.Random(seed)
    return {number for number in range(count) if draws.random() < ratio}


def verdicts(figures, netem, weir, unplanned=0, **options):
    """The exit code, and the last words of each line."""
    out = io.StringIO()
    report = json.dumps({"directions": [{"unplanned_dropped_packets": unplanned}]})
    files = {"0.netem": netem, "0.weir": weir, "0.report": report.encode()}
    code = netem_cases.report([Case("words", figures, **options)], files, out)
    return code, [line.split("  ")[-1].strip() for line in out.getvalue().splitlines()[1:]]


class Comparison(unittest.TestCase):
    def test_an_exact_figure_has_no_tolerance(self):
        order = list(range(2000))
        swapped = [1, 0, *order[2:]]
        self.assertEqual(verdicts([netem_cases.ORDER], records(), records())[0], 0)
        self.assertEqual(verdicts([netem_cases.ORDER], records(), records(order=swapped)), (1, ["DIFFERENT"]))
        self.assertEqual(verdicts([netem_cases.FRAMES], records(), records(order=swapped))[0], 0)
        self.assertEqual(verdicts([netem_cases.FRAMES], records(), records(losses={7}))[0], 1)

    def test_a_sample_of_another_law_exceeds_the_bound(self):
        ten = records(losses(0.10, 1))
        self.assertEqual(verdicts(netem_cases.LOSSES, ten, records(losses(0.10, 2)))[0], 0)
        self.assertEqual(verdicts([netem_cases.LOSS], ten, records(losses(0.20, 2)))[0], 1)
        # As many losses, ten at a time.
        bursts = records({number for number in range(2000) if number // 10 % 10 == 0})
        self.assertEqual(verdicts([netem_cases.LOSS], ten, bursts)[0], 0)
        self.assertEqual(verdicts([netem_cases.BURSTS], ten, bursts)[0], 1)

    def test_a_time_may_be_late_by_the_allowance(self):
        late = netem_cases.LATE_NS
        for delay, code in ((late, 0), (late + 1, 1)):
            self.assertEqual(verdicts([netem_cases.DELAY], records(), records(delay=delay))[0], code)

    def test_a_known_difference_is_no_failure_and_unplanned_drops_are(self):
        known = {"differs": {netem_cases.LOSS: "netem's defect"}}
        self.assertEqual(verdicts([netem_cases.LOSS], records(), records({1, 2, 3} | losses(0.5, 1)), **known), (0, ["known: netem's defect"]))
        self.assertEqual(verdicts([], records(), records(), unplanned=1), (1, ["DIFFERENT"]))

    def test_a_shift_within_the_allowance_is_no_distance(self):
        draws = random.Random(1)
        values = [draws.random() for _ in range(1000)]
        shifted = [value + 0.2 for value in values]
        self.assertAlmostEqual(netem_cases.distance(values, shifted), 0.2, delta=0.05)
        self.assertEqual(netem_cases.distance(values, shifted, 0.2001), 0)
        self.assertEqual(netem_cases.distance(shifted, values, 0.2001), 0)

    def test_the_bounds_are_those_of_tables(self):
        # scipy.stats.t.isf(5e-10, 198) = 6.4178.
        self.assertAlmostEqual(netem_cases.student(198), 6.418, delta=0.002)
        # sqrt(ln(e / 1e-9) / 2 · 2 / 1000).
        self.assertAlmostEqual(netem_cases.distance_bound(1000, 1000), 0.1474, delta=0.0001)
        self.assertEqual(netem_cases.run_lengths([True, True, False, True]), [2, 1])


if __name__ == "__main__":
    unittest.main()
