"""What is measured through a middle must be what came through it, and bars must be held against the right figures."""

import os
import re
import unittest

import bench
from harness import middle, scenarios, tools


def report(other, flow):
    """A report of `weir impair --json`, as much of it as is read."""
    def line(name, packets, direction="forward"):
        return {"name": name, "direction": direction, "counters": {"received_packets": packets},
                "realised": {"delay_min_seconds": 0.009998}, "lateness": {"max_seconds": 0.001}}
    return {"directions": [{"direction": "reverse", "received_packets": 7},
                           {"direction": "forward", "received_packets": other + flow}],
            "impairment": {"config": {"flow": [{"name": "flow-1"}]}, "flows": [line("other", 10 ** 9, "reverse"), line("other", other), line("flow-1", flow)]}}


class Samples(unittest.TestCase):
    def test_the_time_of_a_thread_is_read(self):
        process = type("Process", (), {"pid": os.getpid()})
        before = middle.busy(process)
        sum(range(3_000_000))
        self.assertGreater(middle.busy(process), before)

    def test_filters_that_took_nothing_make_no_sample(self):
        middle.check_filters(report(0, 1000))
        with self.assertRaises(tools.RunFailed):
            middle.check_filters(report(1000, 0))

    def test_nothing_received_makes_no_sample(self):
        with self.assertRaises(tools.RunFailed):
            middle.check_filters(report(0, 0))

    def test_ping_is_the_median_without_the_first_ones(self):
        line = "64 bytes from 198.18.1.2: icmp_seq=1 ttl=64 time={} ms\n"
        text = line.format("30.5") * 10 + line.format("0.050") * (middle.PINGS - 10)
        self.assertAlmostEqual(middle.parse_ping(text), 50e-6)
        with self.assertRaises(tools.RunFailed):
            middle.parse_ping(line.format("0.050") * 20)

    def test_errors_of_a_constant_delay(self):
        found = middle.constant_errors({"p50_seconds": 50e-6}, {"p50_seconds": 0.010080, "p99_seconds": 0.010200, "max_seconds": 0.011},
                                       {"p50": 20e-6, "p99": 60e-6}, report(10, 0))
        for name, wanted in (("error_p50_seconds", 30e-6), ("error_p99_seconds", 150e-6), ("over_p50_seconds", 5e-6),
                             ("over_p99_seconds", 20e-6), ("early_seconds", 2e-6)):
            self.assertAlmostEqual(found[name], wanted, 9, name)

    def test_each_flow_has_the_laws_of_other_and_a_port_of_its_own(self):
        text = middle.configuration(16)
        self.assertEqual(text.count(middle.LAW_MIX), 17)
        self.assertEqual(re.findall(r'destination_port = "(\d+)"', text), [str(n) for n in range(1, 17)])


class Rules(unittest.TestCase):
    def test_a_difference_is_taken_within_rounds(self):
        rounds = [{"a": {"m": base + 10}, "b": {"m": base}} for base in range(100, 1600, 100)]
        line = bench.row(scenarios.Difference("a", "b", "m", 20), rounds)
        self.assertEqual((line["median"], line["verdict"]), (10, "met"))
        self.assertEqual(bench.row(scenarios.Difference("a", "b", "m", 9), rounds)["verdict"], "missed")

    def test_one_early_packet_in_one_round_misses(self):
        rounds = [{"a": {"early_seconds": -1e-5}}] * 14 + [{"a": {"early_seconds": 2e-6}}]
        self.assertEqual(bench.row(scenarios.Bound("a", "early_seconds", 1e-6), rounds)["verdict"], "missed")

    def test_every_contender_of_a_path_exists(self):
        tools.BARE = tools.WEIR = "/nowhere/"
        names = set().union(*middle.catalogue())
        for scenario in scenarios.impaired():
            for rule in scenario.rules:
                self.assertLessEqual({rule.a, getattr(rule, "b", rule.a)}, names, scenario.name)


if __name__ == "__main__":
    unittest.main()
