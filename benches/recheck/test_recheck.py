"""The truth of a capture must be right, and a wrong figure must be noticed. Needs no rights and no network."""

import copy
import json
import os
import random
import struct
import tempfile
import unittest

import agreement
import agreement_text
import capture
import checks
import draw
import outputs
import truth
from path import write_json

MAC = {"a": bytes.fromhex("020000000001"), "b": bytes.fromhex("020000000002")}
CLIENT, SERVER = ("10.97.0.1", 40000), ("10.97.0.2", 9347)
SECOND = 1_000_000_000
START = 1_800_000_000 * SECOND  # realtime of the first datagram
OFFSET = START - 500 * SECOND   # realtime - monotonic


def udp_frame(payload, sender="a", source=CLIENT, destination=SERVER, identification=0):
    addresses = bytes(map(int, source[0].split("."))) + bytes(map(int, destination[0].split(".")))
    length = 8 + len(payload)
    header = struct.pack(">HHH", source[1], destination[1], length)
    check = 0xFFFF - capture.internet_sum(addresses + struct.pack(">II", 17, length) + header + b"\0\0" + payload)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, identification, 0x4000, 64, 17, 0) + addresses
    receiver = "b" if sender == "a" else "a"
    return MAC[receiver] + MAC[sender] + b"\x08\0" + ip + header + struct.pack(">H", check or 0xFFFF) + payload


def write_pcap(path, frames):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for time, frame in frames:
            file.write(struct.pack("<IIII", time // SECOND, time % SECOND, len(frame), len(frame)) + frame)


def data(number, monotonic, size=100):
    return struct.pack(">QQiIII", number, monotonic, 1000, 1, 0, 7).ljust(size, b"x")


def clocks():
    return truth.Clocks((0, OFFSET), (10 * SECOND, OFFSET))


def flow(arrivals, count=10, size=100, gap=SECOND // 100, threshold=2 * SECOND):
    """A flow of `count` datagrams, sent every `gap`; `arrivals` are (number, ns since the start)."""
    def packet(number, time, out):
        payload = data(number, START - OFFSET + number * gap, size)
        return capture.Packet(time, out, capture.UDP, CLIENT, SERVER, number, size, payload)
    sent = [packet(n, START + n * gap, True) for n in range(count)]
    return truth.Datagrams(sent, [packet(n, START + t, False) for n, t in arrivals], size, clocks(), threshold)


class Datagrams(unittest.TestCase):
    def test_loss_duplicates_and_order(self):
        true = flow([(0, 1), (1, 2), (4, 3), (2, 4), (2, 5), (5, 6), (7, 7)])
        self.assertEqual(true.received, 6)
        self.assertEqual(true.lost, [3, 6, 8, 9])
        self.assertEqual(true.loss_periods(), {1: 2, 2: 1})
        self.assertEqual(len(true.duplicates), 1)
        self.assertEqual(len(true.reordered), 1)

    def test_extent_counts_arrivals_since_the_first_higher_number(self):
        # RFC 4737, section 4.2.2: of 2 behind 3, 5, 4 it is 3; of 4 behind 5 it is 1.
        true = flow([(0, 1), (1, 2), (3, 3), (5, 4), (4, 5), (2, 6)])
        self.assertEqual(sorted(true.extents), [1, 3])

    def test_what_comes_behind_the_threshold_is_late_and_lost(self):
        true = flow([(0, 0), (2, SECOND), (1, 4 * SECOND)])
        self.assertEqual(true.late, {1})
        self.assertIn(1, true.lost)
        self.assertFalse(true.reordered)

    def test_jitter_is_of_rfc_3550(self):
        gap = SECOND // 100
        true = flow([(0, 1000), (1, gap + 17000), (2, 2 * gap + 1000)])
        self.assertEqual([j for _, j in true.jitter_series()], [0, 1000, 1000 + (16000 - 1000) / 16])

    def test_delays_and_variation(self):
        gap = SECOND // 100
        true = flow([(0, 1000), (1, gap + 3000), (3, 3 * gap + 2000), (4, 4 * gap + 7000)])
        self.assertEqual([d for _, d in true.delays()], [1000, 3000, 2000, 7000])
        self.assertEqual(true.variation(), [2000, 5000])  # 3 has no predecessor
        self.assertEqual(true.delays("intended")[0], (0, 2000))

    def test_losses_are_spread_evenly_between_the_arrivals_around_them(self):
        true = flow([(0, 0), (4, 400)])
        self.assertEqual([(n, t - START) for n, t in true.loss_times(START, START + 1000)][:3],
                         [(1, 100), (2, 200), (3, 300)])

    def test_damage_is_found_by_comparing_with_what_was_sent(self):
        true = flow([])
        sent = true.sent
        content, head = copy.copy(sent[0]), copy.copy(sent[1])
        content.payload = content.payload[:50] + b"z" + content.payload[51:]
        head.payload = b"\1" + head.payload[1:]
        for packet in (content, head):
            packet.out = False
        true = truth.Datagrams(sent, [content, head], 100, clocks(), 2 * SECOND)
        self.assertEqual((true.received, true.content_damaged, true.unreadable), (1, 1, 1))
        self.assertEqual(true.bit_errors, (ord("z") ^ ord("x")).bit_count())

    def test_narrow_numbers_wrap(self):
        packets = [capture.Packet(START + n, True, capture.UDP, CLIENT, SERVER, n, 1, bytes([n % 256]))
                   for n in range(700)]
        true = truth.Datagrams(packets, packets[300:], 1, clocks(), 2 * SECOND)
        self.assertEqual(true.received, 400)
        self.assertEqual(true.loss_periods(), {300: 1})


class Streams(unittest.TestCase):
    def segment(self, sequence, size, time=0, flags=16, payload=b""):
        return capture.Packet(time, True, capture.TCP, CLIENT, SERVER, 0, size, payload, sequence, flags)

    def test_retransmits_and_delivery(self):
        base = (1 << 32) - 1000  # the numbers wrap within the stream
        number = lambda n: (base + 1 + n) % (1 << 32)
        greeting = truth.GREETING.ljust(36, b"\0")
        sent = [self.segment(base, 0, 0, flags=2), self.segment(number(0), 36, 1, payload=greeting),
                self.segment(number(36), 1000, 2), self.segment(number(1036), 1000, 3),
                self.segment(number(36), 1000, 4), self.segment(number(2036), 500, 5),
                self.segment(number(2536), 0, 6, flags=17), self.segment(number(2536), 0, 7, flags=17)]
        arrived = [sent[0], sent[1], sent[3], sent[4], sent[5]]
        true = truth.Stream(sent, arrived)
        self.assertEqual((true.preamble, true.sent_bytes, true.received_bytes), (36, 2500, 2500))
        self.assertEqual((true.retransmits, true.fin_retransmits, true.retransmitted_bytes), (1, 1, 1000))
        self.assertEqual(true.delivery, [(4, 2000), (5, 2500)])

    def test_a_damaged_segment_is_not_delivered(self):
        sent = [self.segment(0, 0, flags=2), self.segment(1, 100, 1), self.segment(101, 100, 2)]
        broken = copy.copy(sent[2])
        broken.valid = False
        self.assertEqual(truth.Stream(sent, [sent[0], sent[1], broken]).received_bytes, 100)


class Captures(unittest.TestCase):
    def test_a_frame_is_read_and_its_checksum_verified(self):
        frame = udp_frame(b"hello world", identification=9)
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "x.pcap")
            write_pcap(path, [(START + 5, frame), (START + 6, frame[:-1] + b"D")])
            read = capture.read(path, MAC["a"], check_sums=True)
        self.assertEqual([p.valid for p in read.packets], [True, False])
        packet = read.packets[0]
        self.assertEqual((packet.time, packet.out, packet.source, packet.destination, packet.payload, packet.size,
                          packet.identification), (START + 5, True, CLIENT, SERVER, b"hello world", 11, 9))
        self.assertEqual((len(read.frames_out), read.frames_in), (2, 0))


class Outputs(unittest.TestCase):
    def test_printed_figures(self):
        self.assertTrue(outputs.shown("94.7 KiB").shows(97000))
        self.assertFalse(outputs.shown("94.7 KiB").shows(97100))
        self.assertTrue(outputs.shown("1\u202f301").shows(1301))
        self.assertTrue(outputs.shown("2.02 %").shows(0.0202))
        self.assertIsNone(outputs.shown("–"))

    def test_lines_of_text(self):
        live, summary, rest = outputs.text_lines(
            "[  1]   0.00-1.00   sec  94.7 KiB   776 kbit/s   4.23 ms  10/495 (2.02%)\n- - - -\n"
            "[  1][TX-C]   0.00-3.00   sec  1.79 MiB  5.00 Mbit/s     19  27.9 KiB   6.40 ms  sender\n"
            "Loss             [ 1] 49 of 1500 packets lost\n                 [ 2] 36 of\n"
            "                 1500 packets lost\n")
        self.assertEqual((live[0].lost, live[0].packets, live[0].time.value), (10, 495, 0.00423))
        self.assertEqual((summary[0].retransmits, summary[0].sender, summary[0].role), (19, True, "TX"))
        self.assertEqual(outputs.details(rest), {("Loss", 1): "49 of 1500 packets lost",
                                                 ("Loss", 2): "36 of 1500 packets lost"})

    def test_a_line_states_losses_of_earlier_intervals(self):
        live, _, _ = outputs.text_lines(
            "[  1]   4.00-5.00   sec  94.7 KiB   776 kbit/s   4.23 ms  3/495 (0.61%)  (+699 lost earlier)\n"
            "[SUM]   5.00-6.00   sec  94.7 KiB   776 kbit/s   0/495 (0%)  (3 of 4 flows) (-2 lost earlier)\n"
            "[  1]   6.00-7.00   sec  94.7 KiB   776 kbit/s   4.23 ms  0/495 (0%)\n")
        self.assertEqual([(line.lost, line.earlier) for line in live], [(3, 699), (0, -2), (0, 0)])

    def test_columns_are_paths(self):
        part = {"receiver": {"one_way_delay": {"p50_seconds": 3.5}, "bytes": 7}, "payload_bytes": 9}
        self.assertEqual(agreement.by_column(part, "receiver_one_way_delay_p50_seconds"), 3.5)
        self.assertEqual(agreement.by_column(part, "receiver_bytes"), 7)
        self.assertIsNone(agreement.by_column(part, "receiver_packets"))


class Rows(list):
    """The rows of comparisons, as (figure, flow, right)."""

    def add(self, output, figure, flow, weir, true, deviation, tolerance, right, note=""):
        self.append((figure, flow, right))

    def near(self, figure, flow, weir, true, tolerance, output="", note=""):
        self.append((figure, flow, abs(weir - true) <= tolerance))

    def wrong(self):
        return [row for row in self if not row[2]]


class RunningTests(unittest.TestCase):
    """Three intervals of which the second had an outage that the third line states."""

    record = {"total": {"forward": {}}, "flows": [{"id": 1, "transport": "udp", "sender": {"packets": 298}, "receiver": {
        "lost_packets": 21, "delay_variation": {"pdv_mean_seconds": 0.002, "pdv_p99_seconds": 0.004,
                                                "ipdv_mean_seconds": 0.001, "ipdv_p99_seconds": 0.003}}}]}
    counts = [(98, 2, 0), (80, 0, 0), (99, 1, 18)]  # received, lost, lost earlier

    def setUp(self):
        final = [2, 18, 1]
        self.record = copy.deepcopy(self.record)
        self.record["intervals"] = [self.interval(n, received, final[n]) for n, (received, _, _) in
                                    enumerate(self.counts)]

    @staticmethod
    def interval(number, received, lost, earlier=0):
        receiver = {"packets": received, "lost_packets": lost} | ({"earlier_lost_packets": earlier} if earlier else {})
        return {"start_seconds": float(number), "end_seconds": number + 1.0, "flows": [{"id": 1, "receiver": receiver}],
                "total": {"forward": {"receiver": dict(receiver)}}}

    def test_losses_and_corrections_of_a_stream_add_up_to_the_record(self):
        for missing, skipped, sums in ((0, 0, [True]), (1, 0, [False]), (1, 3, [])):
            events = [self.interval(n, received, lost, earlier - missing if earlier else 0)
                      for n, (received, lost, earlier) in enumerate(self.counts)]
            rows = Rows()
            agreement.live_intervals(rows, "", events, self.record, None, skipped)
            self.assertEqual([right for figure, _, right in rows if "sum" in figure], sums)
            self.assertEqual([row for row in rows.wrong() if "sum" not in row[0]], [])

    def test_losses_and_corrections_of_lines_add_up_to_the_record(self):
        for missing in (0, 1):
            text = "".join(
                f"[  1]   {n}.00-{n + 1}.00   sec  0 B  0 bit/s   -  {lost}/{received + lost} (0%)"
                + (f"  (+{earlier - missing} lost earlier)" if earlier else "") + "\n"
                for n, (received, lost, earlier) in enumerate(self.counts))
            rows = Rows()
            agreement_text.text_output(rows, text, self.record, {}, "text")
            self.assertEqual([right for figure, _, right in rows if "sum" in figure and "lines" not in figure
                              and "paragraphs" not in figure], [not missing])

    def test_means_and_percentiles_of_delay_variation_are_read(self):
        text = ("Loss             [ 1] 21 of 298 packets lost\n"
                "Delay variation  [ 1] PDV mean {}, p99 4 ms; IPDV mean 1 ms, p99 {} (at least: 2 % of pairs\n"
                "                 omitted) (RFC 5481)")
        for values, right in ((("2 ms", "3 ms"), True), (("2.1 ms", "3 ms"), False), (("2 ms", "3.1 ms"), False)):
            rows = Rows()
            agreement_text.text_details(rows, "text", text.format(*values), self.record)
            self.assertEqual([row[2] for row in rows], [right])


class Judging(unittest.TestCase):
    """A run of which both captures and the record are made here: right figures pass, each wrong one does not."""

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        rng = random.Random(5)
        count, gap, delay = 1200, 2_500_000, 4_000_000
        sent, arrived = [], []
        for number in range(count):
            due = START + number * gap
            payload = data(number, due - OFFSET)
            sent.append((due, udp_frame(payload)))
            if rng.random() > 0.05:
                arrived.append((due + delay + rng.randrange(8_000_000), udp_frame(payload)))
                if rng.random() < 0.02:
                    arrived.append((arrived[-1][0] + 1000, udp_frame(payload)))
        arrived.sort()
        for name, frames in (("a", sent), ("b", arrived)):
            write_pcap(os.path.join(self.directory.name, f"{name}.pcap"), frames)
        captures = [capture.read(os.path.join(self.directory.name, f"{n}.pcap"), MAC[n]) for n in "ab"]
        true = truth.datagrams(captures, CLIENT, SERVER, 100, clocks(), 2 * SECOND)
        first, last = true.receiving_times()
        ordered = sorted(d for _, d in true.delays())
        rank = lambda q, values=ordered: truth.nearest_rank(values, q) / 1e9
        intended = sorted(d for _, d in true.delays("intended"))
        def delays(values):
            return {"count": len(values), "min_seconds": values[0] / 1e9, "max_seconds": values[-1] / 1e9,
                    "mean_seconds": sum(values) / len(values) / 1e9, "p50_seconds": rank(0.5, values),
                    "p90_seconds": rank(0.9, values), "p99_seconds": rank(0.99, values), "error_seconds": 1e-9}
        end = (last - START) / 1e9
        seconds = max((last - first) / 1e9 * true.received / (true.received - 1), 3.0)
        receiver = {
            "bytes": true.received * 100, "packets": true.received, "seconds": (last - first) / 1e9,
            "start_seconds": (first - START) / 1e9, "end_seconds": end,
            "bits_per_second": true.received * 800 / seconds, "packets_per_second": true.received / seconds,
            "lost_packets": len(true.lost), "loss_ratio": len(true.lost) / count, "late_packets": 0,
            "duplicate_packets": len(true.duplicates), "reordered_packets": len(true.reordered),
            "reordering_extent_max": max(true.extents), "corrupted_packets": 0, "unreadable_packets": 0,
            "loss_periods": {str(k): v for k, v in true.loss_periods().items()},
            "jitter_seconds": true.jitter_series()[-1][1] / 1e9,
            "delay_variation": {"pdv_p99_seconds": rank(0.99) - rank(0), "ipdv_p99_seconds":
                                truth.nearest_rank(true.variation(), 0.99) / 1e9},
            "one_way_delay": delays(ordered), "one_way_delay_from_intended": delays(intended)}
        sender = {"bytes": count * 100, "packets": count, "seconds": 3.0, "start_seconds": 0.0, "end_seconds": 3.0,
                  "bits_per_second": count * 800 / 3, "packets_per_second": count / 3}
        counts = ("bytes", "packets", "lost_packets", "duplicate_packets", "reordered_packets")
        part = {"id": 1, "sender": {k: sender[k] for k in counts[:2]}, "receiver": {k: receiver[k] for k in counts}}
        part["receiver"]["jitter_seconds"] = receiver["jitter_seconds"]
        part["receiver"]["mean_delay_seconds"] = receiver["one_way_delay"]["mean_seconds"]
        total = {"forward": {"sender": dict(part["sender"]), "receiver": {k: receiver[k] for k in counts}}}
        total_rates = copy.deepcopy(total)
        for name in ("bits_per_second", "late_packets", "corrupted_packets"):
            total_rates["forward"]["receiver"][name] = receiver[name]
        self.record = {
            "id": "x", "status": "complete", "plan": {}, "loss_threshold_seconds": 2.0, "total": total_rates,
            "flows": [{"id": 1, "name": "udp-forward", "transport": "udp", "family": "ipv4", "direction": "forward",
                       "source": "10.97.0.1:40000", "destination": "10.97.0.2:9347", "payload_bytes": 100,
                       "sender": sender, "receiver": receiver}],
            "intervals": [{"start_seconds": 0.0, "end_seconds": end, "flows": [part], "total": total}]}
        write_json(self.file("given.json"), {"number": 1, "words": "", "kind": "loss", "mode": "none", "seconds": 3,
                                             "ends_by": "time"})
        counters = {n: {"Udp": {"RcvbufErrors": 0}, "Udp6": {}} for n in "ab"}
        write_json(self.file("facts.json"), {
            "mac": {n: m.hex() for n, m in MAC.items()}, "captures": {n: {"captured": 1, "dropped": 0} for n in "ab"},
            "exit_code": 0, "errors": "", "emulator": [0, 0, 1 << 62], "counters": counters,
            "clocks": [[0, OFFSET], [10 * SECOND, OFFSET]]})
        write_json(self.file("impair.json"), {"impairment": {"flows": [
            {"direction": d, "counters": {"received_packets": n, "sent_packets": m}} for d, n, m in
            (("forward", count, len(arrived)), ("reverse", 0, 0))]}})

    def file(self, name):
        return os.path.join(self.directory.name, name)

    def judge(self, record):
        with open(self.file("record.json"), "w") as file:
            json.dump(record, file)
        return {row[3]: row for row in checks.judge(self.directory.name) if row[9] != "yes"}

    def test_right_figures_pass(self):
        self.assertEqual(self.judge(self.record), {})

    def test_each_wrong_figure_is_noticed(self):
        receiver = self.record["flows"][0]["receiver"]
        paths = [("flows", 0, "receiver", key) for key in receiver
                 if isinstance(receiver[key], (int, float)) and key not in ("end_seconds",)]
        paths += [("flows", 0, "receiver", part, key) for part in ("one_way_delay", "delay_variation")
                  for key in receiver[part] if key != "error_seconds"]
        paths += [("flows", 0, "sender", key) for key in ("packets", "bytes", "bits_per_second", "start_seconds")]
        paths += [("intervals", 0, "flows", 0, "receiver", key) for key in
                  self.record["intervals"][0]["flows"][0]["receiver"]]
        for path in paths:
            record = copy.deepcopy(self.record)
            part = record
            for key in path[:-1]:
                part = part[key]
            value = part[path[-1]]
            part[path[-1]] = value + 1 if isinstance(value, int) else value * 1.02 + 0.02
            self.assertTrue(self.judge(record), f"{path} by one or 2 %")
            del part[path[-1]]
            if path[-1] not in ("end_seconds", "late_packets", "unreadable_packets", "mean_delay_seconds",
                                "jitter_seconds", "start_seconds", "bytes", "reordering_extent_max") \
                    and path[0] != "intervals":
                self.assertTrue(self.judge(record), f"{path} absent")


class Drawing(unittest.TestCase):
    def test_the_same_seed_draws_the_same(self):
        self.assertEqual(draw.parameters(3, 7), draw.parameters(3, 7))
        self.assertNotEqual(draw.parameters(3, 7), draw.parameters(4, 7))

    def test_thirty_runs_draw_each_kind_of_law(self):
        drawn = [draw.parameters(1, n) for n in range(30)]
        self.assertEqual({g["kind"] for g in drawn if g["transport"] == "udp"}, set(draw.UDP_LAWS))
        self.assertEqual({g["kind"] for g in drawn if g["transport"] == "tcp"}, set(draw.TCP_LAWS))
        self.assertEqual({g["direction"] for g in drawn}, set(draw.DIRECTIONS))


if __name__ == "__main__":
    unittest.main()
