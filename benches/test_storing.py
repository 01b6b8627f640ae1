"""The cost of storing a run must come from the right pairs: stored against not stored, in turn, by all processor time.
The server is waited for, however long it takes, and not when it is gone."""

import contextlib
import io
import os
import resource
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import storing


def children():
    """User and system seconds of this program's children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime, used.ru_stime


class Pairs(unittest.TestCase):
    def test_pairs_are_kept_and_not_kept_in_turn(self):
        asked = []

        def fake(command, _environment):
            asked.append("--no-store" not in command)
            return (3.0 if asked[-1] else 2.0), 0.5

        with mock.patch.object(storing, "cpu_seconds", fake), contextlib.redirect_stderr(io.StringIO()):
            pairs, walls = storing.pairs_of(["weir", "test"], 3, {})
        self.assertEqual(pairs, [(3.0, 2.0)] * 3)
        self.assertEqual(walls, [0.5] * 6)
        # A drift of the machine weighs on both alike.
        self.assertEqual(asked, [True, False, False, True, True, False])

    def test_the_time_is_the_childs_in_the_kernel_too(self):
        before = children()
        cpu, _ = storing.cpu_seconds([sys.executable, "-c", "open('/dev/zero', 'rb').read(1 << 26)"], os.environ)
        user, system = (after - earlier for earlier, after in zip(before, children()))
        self.assertGreater(system, 0)
        self.assertAlmostEqual(cpu, user + system, places=5)

    def test_a_test_that_failed_is_no_sample(self):
        said = io.TextIOWrapper(io.BytesIO())
        with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(said):
            storing.cpu_seconds([sys.executable, "-c", "raise SystemExit(9)"], os.environ)
        self.assertEqual(ended.exception.code, 3)


class Words(unittest.TestCase):
    def test_shares_are_of_a_test_that_keeps_nothing(self):
        # 10 % within each pair, though the machine drifts; 40 ms at the low rate, against a median of 4 s at the high one.
        high = [(2.2, 2.0), (4.4, 4.0), (88.0, 80.0)]
        low = [(0.14, 0.10), (0.24, 0.20), (0.54, 0.50)]
        self.assertEqual(storing.told(high, low), [
            "direct:     +10.00 % (+10.00 to +10.00 %)",
            "difference: +40.00 ms (+40.00 to +40.00 ms), which is +1.00 % (+1.00 to +1.00 %) of the high rate's CPU",
        ])

    def test_two_pairs_have_no_bounds(self):
        self.assertEqual(storing.words([0.1, 0.3], "%", 100), "+20.00 %")


class Listening(unittest.TestCase):
    def server(self, program, patience_seconds=30):
        """Waits for a server that is this program; whether its second file was there by then."""
        with tempfile.TemporaryDirectory() as place:
            said, begun = os.path.join(place, "log"), os.path.join(place, "begun")
            with open(said, "wb") as log:
                server = subprocess.Popen([sys.executable, "-uc", program, begun], stdout=log, stderr=log)
            try:
                storing.listens(server, said, patience_seconds)
                return os.path.exists(begun)
            finally:
                server.kill()
                server.wait()

    def test_a_slow_server_is_waited_for(self):
        slow = ("import sys, time; print('weir: a remark'); time.sleep(1.5); open(sys.argv[1], 'w').close(); "
                "print('weir 0: listening on 127.0.0.1:1 (TCP and UDP)'); time.sleep(60)")
        self.assertTrue(self.server(slow))

    def test_a_server_that_ended_or_says_nothing_is_given_up(self):
        with self.assertRaises(SystemExit):
            self.server("raise SystemExit('port 1 is taken')")
        with self.assertRaises(SystemExit):
            self.server("import time; time.sleep(60)", 0.2)


if __name__ == "__main__":
    unittest.main()
