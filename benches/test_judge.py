"""The judge must tell met, missed and undecided apart, and parsers must count what arrived."""

import random
import unittest

from harness import judge, tools


class Verdicts(unittest.TestCase):
    def ratios(self, middle, spread, count=15):
        draw = random.Random(7)
        return [draw.gauss(middle, spread) for _ in range(count)]

    def test_met_missed_undecided(self):
        self.assertEqual(judge.verdict(self.ratios(1.0, 0.02), ">=", 0.8)["verdict"], "met")
        self.assertEqual(judge.verdict(self.ratios(0.6, 0.02), ">=", 0.8)["verdict"], "missed")
        self.assertEqual(judge.verdict(self.ratios(0.8, 0.2), ">=", 0.8)["verdict"], "undecided")
        self.assertEqual(judge.verdict(self.ratios(0.6, 0.02), "<=", 0.8)["verdict"], "met")
        self.assertEqual(judge.verdict(self.ratios(1.0, 0.02), "<=", 0.8)["verdict"], "missed")

    def test_a_bar_between_bound_and_median_decides_nothing(self):
        # Each median lies on one side of the bar, and its bound on the other.
        values = self.ratios(1.0, 0.2)
        middle, low, high = judge.bounds(values)
        self.assertTrue(low < middle < high)
        for bar in ((low + middle) / 2, (middle + high) / 2):
            for operator in (">=", "<="):
                self.assertEqual(judge.verdict(values, operator, bar)["verdict"], "undecided", (operator, bar))

    def test_without_a_bar_nothing_is_judged_and_an_unknown_operator_is_refused(self):
        self.assertEqual(judge.verdict([1.0] * 15, ">=", None)["verdict"], "info")
        with self.assertRaises(ValueError):
            judge.verdict([1.0] * 15, "==", 1.0)

    def test_fourteen_pairs_decide_nothing(self):
        self.assertEqual(judge.verdict([2.0] * 14, ">=", 0.8)["verdict"], "undecided")

    def test_bounds_enclose_the_median_and_repeat(self):
        values = self.ratios(1.0, 0.1, 30)
        middle, low, high = judge.bounds(values)
        self.assertTrue(low <= middle <= high)
        self.assertEqual(judge.bounds(values), (middle, low, high))
        for count in range(16, 28, 2):
            values = self.ratios(1.0, 0.1, count)
            self.assertEqual(judge.bounds(values), judge.bounds(values), count)

    def test_each_bound_is_of_95_per_cent_by_itself(self):
        # Of nine draws from nine values, three of them high, five or more are high in 14.5 % of cases; with
        # two high, in 3.0 %.
        self.assertEqual(judge.bounds([0] * 6 + [1] * 3), (0, 0, 1))
        self.assertEqual(judge.bounds([0] * 7 + [1] * 2), (0, 0, 0))

    def test_two_values_have_no_bounds(self):
        self.assertEqual(judge.bounds([1.0, 3.0]), (2.0, None, None))


class Parsers(unittest.TestCase):
    def test_iperf3_old_and_new(self):
        old = '{"end":{"sum":{"seconds":2.0,"packets":1000,"lost_packets":100}}}'
        new = ('{"end":{"sum":{"seconds":2.0,"packets":1000,"lost_packets":100},'
               '"sum_received":{"packets":990,"lost_packets":100}}}')
        self.assertEqual(tools.parse_iperf3_udp("", old), {"packets_per_second": 450.0, "lost_packets": 100})
        self.assertEqual(tools.parse_iperf3_udp("", new)["packets_per_second"], 445.0)

    def test_nuttcp(self):
        line = "megabytes=11.2 real_seconds=2.00 rate_Mbps=94 tx_cpu=61 rx_cpu=19 drop=100 pkt=1100 data_loss=9"
        self.assertEqual(tools.parse_nuttcp_udp("", line), {"packets_per_second": 500.0, "lost_packets": 100})

    def test_sockperf_ping_pong_is_the_valid_duration(self):
        text = ("sockperf: [Total Run] RunTime=1.001 sec; SentMessages=26392; ReceivedMessages=26391\n"
                "sockperf: [Valid Duration] RunTime=0.500 sec; SentMessages=16484; ReceivedMessages=16484\n")
        self.assertEqual(tools.parse_sockperf("", text), {"transactions_per_second": 32968.0})
        with self.assertRaises(tools.RunFailed):
            tools.parse_sockperf("", "sockperf: ERROR")

    def test_transactions_that_failed_are_no_sample(self):
        record = '{"status":"complete","flows":[{"transactions":{"failed":%d,"transactions_per_second":9.5}}]}'
        self.assertEqual(tools.parse_weir_transactions("", record % 0), {"transactions_per_second": 9.5})
        with self.assertRaises(tools.RunFailed):
            tools.parse_weir_transactions("", record % 1)

    def test_weir_partial_run_is_no_sample(self):
        with self.assertRaises(tools.RunFailed):
            tools.parse_weir("", '{"schema":"weir.run/1","status":"partial"}')


if __name__ == "__main__":
    unittest.main()
