"""What readers cost must be counted from what came, and told from what was measured alone."""

import unittest

import readers


def one(cpu, samples, missed=0):
    return {"window_seconds": 2.0, "server_cpu_ratio": cpu, "samples": samples, "missed_slots": missed, "late_slots": 0,
            "spacing_deviation_seconds": 1e-6, "intended_slots": 100, "scheduling": "normal", "steal_ratio": 0.0}


class Counting(unittest.TestCase):
    def test_a_stream_is_counted_however_it_is_cut(self):
        stream = b"event: hello\ndata: {}\n\n" + b"event: sample\ndata: {}\n\n" * 3 + b"event: state\ndata: {}\n\n"
        for size in range(1, len(stream) + 1):
            counter = readers.Counter()
            for at in range(0, len(stream), size):
                counter.take(stream[at:at + size])
            self.assertEqual(counter.count, 3, f"pieces of {size} bytes")


class Summary(unittest.TestCase):
    def test_a_sample_costs_what_the_server_used_beyond_a_run_alone(self):
        # 20 ms in 2 s more, for 100 samples read: 0.2 ms each.
        rounds = [{"alone": one(0.005, 0), "beside": one(0.015, 100)} for _ in range(3)]
        cost = readers.summary(rounds)["cpu_seconds_per_sample_and_reader"]
        self.assertAlmostEqual(cost["median"], 0.0002)

    def test_a_difference_is_within_a_round(self):
        # The machine drifts from round to round; readers add 2 each time.
        rounds = [{"alone": one(0.0, 0, missed), "beside": one(0.0, 1, missed + 2)} for missed in (0, 50, 1000)]
        told = readers.summary(rounds)["missed_slots"]
        self.assertEqual((told["alone"], told["beside"], told["difference"]), (50, 52, 2))
        self.assertEqual((told["lower"], told["upper"]), (2, 2))

    def test_readers_that_got_nothing_have_no_cost(self):
        told = readers.summary([{"alone": one(0.1, 0), "beside": one(0.1, 0)}])
        self.assertNotIn("cpu_seconds_per_sample_and_reader", told)
        self.assertIsNone(told["missed_slots"]["lower"])
        self.assertIn("0 readers", readers.table(told, 5, [{"alone": one(0.1, 0), "beside": one(0.1, 0)}]))

    def test_figures_are_told_in_the_units_of_their_names(self):
        rounds = [{"alone": one(0.005, 0, 5), "beside": {**one(0.015, 100, 7), "steal_ratio": 0.25}} for _ in range(3)]
        text = readers.table(readers.summary(rounds), 5, rounds)
        rows = {line[:34].strip(): line[34:].split() for line in text.splitlines()}
        self.assertEqual(rows["missed slots"], ["5", "7", "2", "2", "to", "2"])
        self.assertEqual(rows["spacing deviation, µs"][:3], ["1.00", "1.00", "0.00"])
        self.assertEqual(rows["server, ms of processor a second"][:3], ["5.00", "15.00", "10.00"])
        self.assertIn("each sample and reader: 0.200 ms (0.200 to 0.200)", text)
        self.assertIn("most processor time stolen during a run: 25.0%", text)


if __name__ == "__main__":
    unittest.main()
