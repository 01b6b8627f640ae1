"""Tests of instructions.py: what it lets pass, and what a new figure must bring with it."""

import unittest

import instructions


class Judging(unittest.TestCase):
    def off(self, now):
        return instructions.judge({"cut": 1000.0}, {"cut": now})[1]

    def test_two_percent_either_way_pass(self):
        for now in (980.5, 1000.0, 1019.5):
            self.assertEqual(self.off(now), [], now)

    def test_more_fails_either_way(self):
        for now in (1021.0, 979.0, 500.0):
            self.assertEqual(self.off(now), ["cut"], now)

    def test_each_figure_is_printed(self):
        lines, _ = instructions.judge({"cut": 1000.0}, {"cut": 1100.0})
        self.assertIn("cut: 1100.0 (committed 1000.0, +10.0%)", lines[0])


    def test_a_figure_that_was_never_committed_fails(self):
        lines, off = instructions.judge({}, {"flows-16": 300.0}, "instructions per packet, engine")
        self.assertEqual((lines, off), (["instructions per packet, engine, flows-16: 300.0 (none committed)"], ["flows-16"]))


class Blessing(unittest.TestCase):
    def test_the_newest_note_comes_first_and_the_old_ones_stay(self):
        kept = {"rustc": "a", "instructions_per_datagram": {"cut": 1.0}, "notes": [{"why": "the first of all"}]}
        new = instructions.bless(kept, "b", {"instructions_per_datagram": {"cut": 2.0}}, "tags are checked twice")
        self.assertEqual(new["instructions_per_datagram"], {"cut": 2.0})
        self.assertEqual(new["rustc"], "b")
        self.assertEqual([n["why"] for n in new["notes"]], ["tags are checked twice", "the first of all"])

    def test_the_note_tells_only_what_changed(self):
        kept = {"instructions_per_datagram": {"cut": 1.0}, "instructions_per_packet": {"other-only": 5.0}}
        new = instructions.bless(kept, "b", {**kept, "instructions_per_packet": {"other-only": 6.0}}, "a reason of words")
        self.assertEqual(new["notes"], [{"instructions_per_packet": {"other-only": 6.0}, "rustc": "b", "why": "a reason of words"}])
        self.assertEqual(new["instructions_per_datagram"], {"cut": 1.0})

    def test_without_a_reason_nothing_is_blessed(self):
        with self.assertRaises(SystemExit):
            instructions.bless({}, "b", {"cut": 2.0}, "1")


if __name__ == "__main__":
    unittest.main()
