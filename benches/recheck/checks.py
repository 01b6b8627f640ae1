"""Judges one run: Weir's record against the captures, and Weir's outputs against the record.

`record` rows hold a figure of the record (weir.run/1) against the captures at both ends. All other rows hold an
output of the same run against the record, exactly or to the digits that are printed.
"""
import math
import os

import agreement
import capture
import truth
from path import read_json

# How far a program's view of an arrival or a departure may lie from the capture's, ns. An interval's figures are
# attributed by Weir when a packet is read or sent, and here by the kernel's stamp at the interface: what crossed
# within this time of a boundary may belong to either side. Reading waits for the processor, which other programs
# use as well.
BOUNDARY = 15_000_000
# The same for streams, which are timed when they are read: on a busy host later.
READING = 80_000_000
# The kernel's TCP information is sampled every 250 ms (METHODOLOGY) and at an interval's end, by a program that waits
# for the processor: retransmits may count an interval later, or earlier when they come right behind its end.
SAMPLING = 260_000_000
SAMPLED_LATE = 100_000_000
# Errors of joining the two clocks by readings before and after the run, ns: of Weir's and of this program's.
CLOCKS = 5_000


class Rows:
    """The table: one row for each figure compared."""

    COLUMNS = ["run", "parameters", "output", "figure", "flow", "weir", "truth", "deviation", "tolerance", "ok",
               "note"]

    def __init__(self, run, parameters):
        self.run, self.parameters, self.rows = run, parameters, []

    def add(self, output, figure, flow, weir, true, deviation, tolerance, ok, note=""):
        self.rows.append([self.run, self.parameters, output, figure, flow, weir, true, deviation, tolerance,
                          {True: "yes", False: "no", None: "unread"}[ok], note])

    def near(self, figure, flow, weir, true, tolerance, output="record", note=""):
        """Weir's figure within `tolerance` of the truth. None is an absent figure."""
        if true is None and weir is None:
            return
        if weir is None or true is None:
            what = "absent" if weir is None else "present, but nothing supports it"
            self.add(output, figure, flow, weir, true, None, tolerance, False, f"{what}; {note}".rstrip("; "))
            return
        deviation = weir - true
        self.add(output, figure, flow, weir, true, deviation, tolerance, abs(deviation) <= tolerance, note)

    def between(self, figure, flow, weir, low, high, middle=None, output="record", note=""):
        """Weir's figure within bounds that the captures prove."""
        if weir is None:
            self.add(output, figure, flow, None, middle, None, None, False, f"absent; {note}".rstrip("; "))
            return
        middle = (low + high) / 2 if middle is None else middle
        self.add(output, figure, flow, weir, middle, weir - middle, f"{low:.9g} to {high:.9g}",
                 low <= weir <= high, note)


def judge(directory):
    """All rows of the run whose files are in `directory`."""
    given = read_json(os.path.join(directory, "given.json"))
    rows = Rows(given["number"], given["words"])
    facts = read_json(os.path.join(directory, "facts.json"))
    for node in "ab":
        dropped = facts["captures"][node]["dropped"]
        if dropped != 0:
            rows.add("capture", "packets dropped by the capture", node, None, dropped, None, 0, None,
                     "the captures are incomplete: the run proves nothing")
    if any(r[9] == "unread" for r in rows.rows):
        return rows.rows
    if facts["exit_code"] != 0:
        rows.add("test", "exit code", "", facts["exit_code"], 0, None, 0, False, facts["errors"][-400:])
    record_path = os.path.join(directory, "record.json")
    if not os.path.exists(record_path):
        rows.add("test", "record", "", None, None, None, None, False, "no record was stored")
        return rows.rows
    record = read_json(record_path)
    if record.get("status") != "complete":
        rows.add("test", "status", "", record.get("status"), "complete", None, 0, False,
                 str(record.get("end_reason")))
    check = "corrupt" in given["kind"]
    captures = {node: capture.read(os.path.join(directory, f"{node}.pcap"), bytes.fromhex(facts["mac"][node]),
                                   check) for node in "ab"}
    clocks = truth.Clocks(*facts["clocks"])
    truths = {}
    for flow in record["flows"]:
        forward = flow["direction"] == "forward"
        ends = (captures["a"], captures["b"]) if forward else (captures["b"], captures["a"])
        source, destination = capture.endpoint(flow["source"]), capture.endpoint(flow["destination"])
        try:
            if flow["transport"] == "udp":
                true = truth.datagrams(ends, source, destination, flow["payload_bytes"], clocks,
                                       record.get("loss_threshold_seconds", 2.0) * 1e9)
                Datagrams(rows, record, flow, true, given, facts).all()
            else:
                true = truth.stream(ends, source, destination)
                answers = [p for p in ends[0].packets if not p.out and p.protocol == capture.TCP
                           and p.source == destination and p.destination == source]
                Stream(rows, record, flow, true, given, ends).all(answers)
            truths[flow["id"]] = true
        except (ValueError, KeyError, IndexError) as error:
            rows.add("record", "flow in the captures", flow["id"], None, None, None, None, None, repr(error))
    totals(rows, record, truths)
    overflows(rows, record, facts)
    probes(rows, record, captures, clocks)
    emulator(rows, directory, captures, facts)
    agreement.sums(rows, record)
    agreement.all_outputs(rows, directory, given, record, truths)
    return rows.rows


def window(record, index):
    interval = record["intervals"][index]
    return interval["start_seconds"], interval["end_seconds"]


class Datagrams:
    """A UDP flow."""

    def __init__(self, rows, record, flow, true, given, facts):
        self.rows, self.record, self.flow, self.true, self.given = rows, record, flow, true, given
        self.id = flow["id"]
        self.sender, self.receiver = flow.get("sender") or {}, flow.get("receiver") or {}
        # Datagrams that crossed the receiver's interface, and that its socket had no room for.
        node = "b" if flow["direction"] == "forward" else "a"
        kind = "Udp" if flow.get("family") == "ipv4" else "Udp6"
        self.overflow = facts["counters"][node][kind].get("RcvbufErrors", 0)

    def near(self, figure, weir, true, tolerance, note=""):
        self.rows.near(figure, self.id, weir, true, tolerance, note=note)

    def slack(self):
        """Packets of which the captures do not tell what the receiver made of them."""
        return self.overflow + self.true.ambiguous_late + (self.true.unreadable if self.true.size < 16 else 0)

    def all(self):
        self.counts()
        self.rates()
        if self.true.numbered and self.true.received:
            self.order()
            if self.true.has_send_times():
                self.times()
        self.intervals()

    def counts(self):
        true, receiver = self.true, self.receiver
        size = true.size
        note = f"{self.overflow} datagrams overflowed sockets of this host" if self.overflow else ""
        slack = self.slack()
        if size < 16 and true.unreadable:
            # METHODOLOGY: below 16 B there is no tag, damage may pass for another number.
            note = f"{true.unreadable} arrivals with damaged headers and no tag; {note}".rstrip("; ")
        self.near("packets sent", self.sender.get("packets"), true.sent_count, 0)
        self.near("bytes sent", self.sender.get("bytes"), true.sent_count * size, 0)
        self.near("packets received", receiver.get("packets"), true.received, slack, note)
        self.near("bytes received", receiver.get("bytes"), true.received * size, slack * size, note)
        lost = true.sent_count - true.received
        self.near("packets lost", receiver.get("lost_packets"), lost, slack, note)
        if true.sent_count:
            self.near("loss ratio", receiver.get("loss_ratio"), lost / true.sent_count,
                      slack / true.sent_count + 1e-12, note)
        if not true.numbered:
            return
        self.near("duplicates", receiver.get("duplicate_packets"), len(true.duplicates), slack, note)
        self.near("late", receiver.get("late_packets"), len(true.late), slack, note)
        damaged = true.unreadable + (true.content_damaged if self.given.get("verify") else 0)
        if size >= 16:
            self.near("corrupted", receiver.get("corrupted_packets"), damaged, slack, note)
            self.near("header damaged", receiver.get("unreadable_packets"), true.unreadable, slack, note)
        if self.given.get("verify"):
            self.near("bit errors", receiver.get("bit_errors"), true.bit_errors, slack * 64, note)
        # Every arrival that the kernel delivered is in one of the receiver's counters.
        counted = sum(receiver.get(name) or 0 for name in (
            "packets", "duplicate_packets", "late_packets", "unreadable_packets", "implausible_packets",
            "forced_packets"))
        self.near("arrivals in any counter", counted, true.arrivals, self.overflow, note)
        runs = {int(k) if k.isdigit() else k: v for k, v in (receiver.get("loss_periods") or {}).items()}
        expected = true.loss_periods()
        wrong = sum(abs(runs.get(k, 0) - expected.get(k, 0)) for k in set(runs) | set(expected))
        self.near("loss periods", sum(runs.values()), sum(expected.values()), 2 * slack,
                  f"{wrong} lengths differ" if wrong else note)
        if wrong and not slack:
            self.near("loss periods by length: differences", wrong, 0, 0,
                      f"Weir {dict(sorted(runs.items(), key=str))}, truth {dict(sorted(expected.items()))}")

    def order(self):
        true, receiver = self.true, self.receiver
        slack = self.slack()
        self.near("reordered", receiver.get("reordered_packets"), len(true.reordered), slack)
        if true.extents or receiver.get("reordering_extent_max"):
            self.near("reordering extent, maximum", receiver.get("reordering_extent_max") or 0,
                      max(true.extents, default=0), slack)
        if receiver.get("reordering_extent_mean") is not None and true.extents:
            mean = sum(true.extents) / len(true.extents)
            self.near("reordering extent, mean", receiver["reordering_extent_mean"], mean, slack + 1e-9 * mean)

    def rates(self):
        true = self.true
        count, size = true.sent_count, true.size
        if count < 2:
            return
        span = true.sending_time() / 1e9
        gap = span / (count - 1)
        planned = self.given["seconds"] if self.given["ends_by"] == "time" else None
        sending = planned if planned and 0 <= planned - span <= 3 * gap + 0.005 else span
        relative = 0.003 + 1.5 / count
        self.sending = sending
        self.near("rate sent, bit/s", self.sender.get("bits_per_second"), count * size * 8 / sending,
                  relative * count * size * 8 / sending)
        times = true.receiving_times()
        received = true.received
        if times is None or received < 2:
            return
        spread = (times[1] - times[0]) / 1e9 * received / (received - 1)
        took = max(spread, sending)
        rate = received * size * 8 / took
        tolerance = (0.003 + 1.5 / received + self.slack() / received) * rate
        self.near("rate received, bit/s", self.receiver.get("bits_per_second"), rate, tolerance)
        self.near("rate received, packets/s", self.receiver.get("packets_per_second"), received / took,
                  tolerance / 8 / size if size else (0.003 + 1.5 / received) * received / took)
        seconds = self.receiver.get("seconds")
        self.near("time from first to last arrival, s", seconds, (times[1] - times[0]) / 1e9,
                  0.002 + (0.01 if self.overflow else 0) + (true.threshold / 1e9 if true.ambiguous_late else 0))

    def times(self):
        """Jitter, delay and its variation."""
        true, receiver = self.true, self.receiver
        if self.overflow:
            return  # which arrivals the program saw is not known
        notes = []
        if receiver.get("time_unit") == "batch":
            notes.append("Weir: between batches")
        if receiver.get("user_timed_messages"):
            notes.append(f"{receiver['user_timed_messages']} messages without a kernel stamp")
        note = "; ".join(notes)
        jitter = true.jitter_series()[-1][1] / 1e9
        # Which packets came within the threshold decides the last terms of the mean.
        unsure = 0.5 * jitter if true.ambiguous_late else 0
        self.near("jitter, s", receiver.get("jitter_seconds"), jitter, 0.001 * jitter + 1e-6 + unsure, note)
        stack = sorted(true.stack_times())
        mean_stack, worst_stack = sum(stack) / len(stack), stack[-1]
        captured = true.jitter_series("captured")[-1][1] / 1e9
        self.near("jitter by captures alone, s", receiver.get("jitter_seconds"), captured,
                  0.05 * captured + (20_000 + 2 * (worst_stack - stack[0])) / 16e9 + 5e-6 + unsure,
                  f"send to interface {stack[0] / 1e3:.0f} to {worst_stack / 1e3:.0f} µs")
        self.delay("delay", receiver.get("one_way_delay") or {}, [d for _, d in true.delays()], note)
        captured = [d for _, d in true.delays("captured")]
        delay = receiver.get("one_way_delay") or {}
        for name, value in (("mean", sum(captured) / len(captured)), ("min", min(captured))):
            # Weir counts from the program, the capture from the interface: later by the way down the stack.
            unsure = self.unsure(captured) if name == "mean" else 0
            low = -CLOCKS - unsure if name == "mean" else -CLOCKS + stack[0]
            high = mean_stack + CLOCKS + 10_000 + unsure if name == "mean" else worst_stack + CLOCKS
            weir = delay.get(f"{name}_seconds")
            self.rows.between(f"delay by captures alone, {name}, s", self.id, weir, (value + low) / 1e9,
                              (value + high) / 1e9, value / 1e9,
                              note=f"send to interface {mean_stack / 1e3:.1f} µs in the mean")
        if true.size >= 32:
            self.delay("delay from intended", receiver.get("one_way_delay_from_intended") or {},
                       [d for _, d in true.delays("intended")], note)
        self.variation(note)

    def unsure(self, delays):
        """How far packets near the loss threshold can move a mean, ns."""
        return self.true.ambiguous_late / len(delays) * (max(delays) - min(delays))

    def delay(self, name, weir, delays, note):
        ordered = sorted(delays)
        count, least = len(ordered), ordered[0]
        error = (weir.get("error_seconds") or 0) + CLOCKS / 1e9
        self.near(f"{name}, samples", weir.get("count"), count, self.true.ambiguous_late, note)
        self.near(f"{name}, min, s", weir.get("min_seconds"), least / 1e9, error, note)
        self.near(f"{name}, mean, s", weir.get("mean_seconds"), sum(ordered) / count / 1e9,
                  error + self.unsure(ordered) / 1e9, note)
        self.near(f"{name}, max, s", weir.get("max_seconds"), ordered[-1] / 1e9, error, note)
        for key, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            supported = count >= 10 / (1 - q) - 1e-6
            value = truth.nearest_rank(ordered, q) if supported else None
            resolution = 0 if value is None else (value - least) / 1024 / 1e9
            if value is not None and self.true.ambiguous_late:
                at, k = ordered.index(value), self.true.ambiguous_late
                resolution += (ordered[min(at + k, count - 1)] - ordered[max(at - k, 0)]) / 1e9
            if not supported and count + self.true.ambiguous_late >= 10 / (1 - q):
                continue
            self.near(f"{name}, {key}, s", weir.get(f"{key}_seconds"),
                      None if value is None else value / 1e9, error + resolution,
                      note if supported else f"{count} samples do not support it")

    def variation(self, note):
        true = self.true
        weir = self.receiver.get("delay_variation") or {}
        ordered = sorted(d for _, d in true.delays())
        ipdv = true.variation()
        pdv = [d - ordered[0] for d in ordered]
        for name, key, values in (("PDV", "pdv", pdv), ("IPDV", "ipdv", ipdv)):
            if not values:
                continue
            q = truth.nearest_rank(values, 0.99) if len(values) >= 1000 else None
            resolution = 0 if q is None else q / 512 / 1e9
            extra = note
            if key == "ipdv":
                kept = len(true.variation(displaced=32))
                extra = f"{len(values)} pairs, {len(values) - kept} displaced by 32 or more; {note}".rstrip("; ")
            if true.ambiguous_late:
                continue
            self.near(f"{name} p99, s", weir.get(f"{key}_p99_seconds"), None if q is None else q / 1e9,
                      2 * CLOCKS / 1e9 + resolution, extra)
            mean = sum(values) / len(values) / 1e9
            if weir.get(f"{key}_mean_seconds") is not None:
                self.near(f"{name} mean, s", weir[f"{key}_mean_seconds"], mean, 2 * CLOCKS / 1e9, extra)

    def intervals(self):
        """Each interval's part, by the captures' times: what lies near a boundary may be on either side."""
        true, record = self.true, self.record
        if not record.get("intervals") or not true.sent_count:
            return
        # The start of the test by the record's time of the first arrival; both ends have one clock.
        times = true.receiving_times()
        if self.receiver.get("start_seconds") is None or not times:
            return
        base = times[0] - self.receiver["start_seconds"] * 1e9
        if self.sender.get("start_seconds") is not None:
            first = true.send_time(0) if true.has_send_times() else true.sent[0].time
            self.near("first send since the start of the test, s", self.sender["start_seconds"],
                      (first - base) / 1e9, 0.005, "the start by the record's first arrival")
        departures = [p.time for p in true.sent]
        numbered = true.numbered
        arrivals = [t for _, t in true.accepted] if numbered else [p.time for p in true.on_wire if p.valid]
        series = true.jitter_series() if numbered and true.has_send_times() else []
        delays = {true.arrival[n]: d for n, d in true.delays()} if series else {}
        planned_end = departures[0] + getattr(self, "sending", 0) * 1e9
        lost_times = [t for _, t in true.loss_times(base, max(planned_end, departures[-1]))] \
            if numbered else []
        for index, interval in enumerate(record["intervals"]):
            part = next((f for f in interval["flows"] if f["id"] == self.id), None)
            if part is None:
                continue
            last = index == len(record["intervals"]) - 1
            low, high = interval["start_seconds"] * 1e9, interval["end_seconds"] * 1e9
            label = f"interval {index + 1}"
            self.interval_count("packets sent", part.get("sender"), "packets", departures, base,
                                low, high, label, last)
            receiver = part.get("receiver")
            self.interval_count("packets received", receiver, "packets", arrivals, base, low, high, label, last)
            if receiver is None or not numbered or self.overflow:
                continue
            self.interval_count("duplicates", receiver, "duplicate_packets", true.duplicates, base, low, high,
                                label, last)
            self.interval_count("reordered", receiver, "reordered_packets", true.reordered, base, low, high,
                                label, last)
            self.interval_count("packets lost", receiver, "lost_packets", lost_times, base, low, high, label,
                                last, extra=1)
            self.interval_times(receiver, series, delays, base + low, base + high, label, last)

    def interval_count(self, figure, part, key, times, base, low, high, label, last, extra=0):
        slack = self.slack() + extra
        weir = (part or {}).get(key)
        first, end = base + low, base + high
        after = math.inf if last else end + BOUNDARY
        before = -math.inf if low == 0 else first - BOUNDARY
        least = sum((first + BOUNDARY if low else -math.inf) <= t < (math.inf if last else end - BOUNDARY)
                    for t in times)
        most = sum(before <= t < after for t in times)
        exact = sum(first <= t < end for t in times)
        if weir is None and exact == 0:
            return
        self.rows.between(f"{figure} in an interval", self.id, weir, least - slack, most + slack, exact, note=label)

    def interval_times(self, receiver, series, delays, first, end, label, last):
        if not series:
            return
        # Jitter at the end: any value that it had within the boundary's uncertainty.
        near = [j for t, j in series if end - BOUNDARY <= t <= end + BOUNDARY]
        before = [j for t, j in series if t <= end - BOUNDARY]
        candidates = ([series[-1][1]] if last else near) + before[-1:]
        weir = receiver.get("jitter_seconds")
        if candidates and weir is not None:
            low, high = min(candidates) / 1e9, max(candidates) / 1e9
            exact = next((j for t, j in reversed(series) if t <= end), candidates[-1]) / 1e9
            unsure = 0.5 * exact if self.true.ambiguous_late else 0
            self.rows.between("jitter at the end of an interval, s", self.id, weir, low * 0.999 - 1e-6 - unsure,
                              high * 1.001 + 1e-6 + unsure, exact, note=label)
        inside = [d for t, d in delays.items() if first <= t < end]
        near = [d for t, d in delays.items() if abs(t - end) <= BOUNDARY or abs(t - first) <= BOUNDARY]
        weir = receiver.get("mean_delay_seconds")
        if inside and weir is not None:
            mean = sum(inside) / len(inside)
            edge = max((abs(d - mean) for d in near), default=0) * len(near) / len(inside)
            tolerance = CLOCKS + self.unsure(inside) + edge
            self.rows.near("mean delay of an interval, s", self.id, weir, mean / 1e9, tolerance / 1e9, note=label)


class Stream:
    """One direction of a TCP connection."""

    def __init__(self, rows, record, flow, true, given, ends):
        self.rows, self.record, self.flow, self.true, self.given = rows, record, flow, true, given
        self.id = flow["id"]
        self.sender, self.receiver, self.tcp = (flow.get(k) or {} for k in ("sender", "receiver", "tcp"))

    def near(self, figure, weir, true, tolerance, note=""):
        self.rows.near(figure, self.id, weir, true, tolerance, note=note)

    def all(self, answers):
        true = self.true
        codes = [w["code"] for w in self.record.get("warnings", []) if w.get("flow") in (None, self.id)]
        note = f"warnings: {', '.join(codes)}" if codes else ""
        self.near("bytes sent", self.sender.get("bytes"), true.sent_bytes, 0, note)
        self.near("bytes received", self.receiver.get("bytes"), true.received_bytes, 0, note)
        retransmits = true.retransmits + true.syn_retransmits
        parts = f"{true.retransmits} of data, {true.syn_retransmits} of SYN, {true.fin_retransmits} of FIN"
        # A FIN is retransmitted when the last reading may be over: it may count.
        self.rows.between("retransmits", self.id, self.tcp.get("retransmits"), retransmits,
                          retransmits + true.fin_retransmits, retransmits, note=parts)
        if self.tcp.get("retransmitted_bytes") is not None:
            self.near("retransmitted bytes", self.tcp["retransmitted_bytes"], true.retransmitted_bytes, 0)
        largest = max((p.size for p in true.sent), default=0)
        self.near("MSS, bytes", self.tcp.get("mss_bytes"), largest, 0)
        least = true.min_round_trip(answers)
        if least is not None and self.tcp.get("min_rtt_seconds") is not None:
            # The kernel's least may be of a segment that the capture cannot use (a retransmitted one, the handshake).
            self.near("TCP round trip, min, s", self.tcp["min_rtt_seconds"], least / 1e9, 0.05 * least / 1e9 + 2e-4)
        self.rates()
        self.intervals()

    def rates(self):
        true = self.true
        if not true.delivery or true.first_data is None:
            return
        span = (true.last_new - true.first_data) / 1e9
        planned = self.given["seconds"] if self.given["ends_by"] == "time" else None
        sending = planned or span
        if planned or self.given["ends_by"] == "count":
            # Of a stream that ends by its bytes the time of the last write lies before its last segment.
            tolerance = 0.005 if planned else 0.02
            if planned or "rate" not in self.given["kind"] and self.given["kind"] != "everything":
                self.near("rate sent, bit/s", self.sender.get("bits_per_second"), true.sent_bytes * 8 / sending,
                          tolerance * true.sent_bytes * 8 / sending)
        arrived = (true.delivery[-1][0] - true.delivery[0][0]) / 1e9
        took = max(arrived, planned or 0)
        late = abs((self.receiver.get("seconds") or arrived) - arrived)  # read late: judged by a row of its own
        rate = true.received_bytes * 8 / took
        self.near("rate received, bit/s", self.receiver.get("bits_per_second"), rate,
                  ((0.005 if planned else 0.02) + late / took) * rate)
        self.near("time from first to last arrival, s", self.receiver.get("seconds"), arrived, READING / 1e9)

    def intervals(self):
        true, record = self.true, self.record
        if not true.delivery or self.receiver.get("start_seconds") is None or not record.get("intervals"):
            return
        base = true.delivery[0][0] - self.receiver["start_seconds"] * 1e9
        if true.first_data is not None and self.sender.get("start_seconds") is not None:
            self.near("first send since the start of the test, s", self.sender["start_seconds"],
                      (true.first_data - base) / 1e9, READING / 1e9, "the start by the record's first arrival")
        count = len(record["intervals"])
        for index, interval in enumerate(record["intervals"]):
            part = next((f for f in interval["flows"] if f["id"] == self.id), None)
            if part is None:
                continue
            label = f"interval {index + 1}"
            first, end = base + interval["start_seconds"] * 1e9, base + interval["end_seconds"] * 1e9
            last = index == count - 1
            weir = (part.get("receiver") or {}).get("bytes")
            start_low = true.delivered_by(first - READING) if index else 0
            start_high = true.delivered_by(first + READING) if index else 0
            end_low = true.received_bytes if last else true.delivered_by(end - READING)
            end_high = true.received_bytes if last else true.delivered_by(end + READING)
            exact = (end_high if last else true.delivered_by(end)) - (true.delivered_by(first) if index else 0)
            if weir is not None or end_high > start_low:
                self.rows.between("bytes received in an interval", self.id, weir,
                                  max(0, end_low - start_high), end_high - start_low, exact, note=label)
            weir = (part.get("sender") or {}).get("retransmits")
            if weir is not None:
                times = true.retransmit_times
                least = sum((first + SAMPLED_LATE if index else 0) <= t < (math.inf if last else end - SAMPLING)
                            for t in times)
                most = sum((first - SAMPLING if index else 0) <= t < (math.inf if last else end + SAMPLED_LATE)
                           for t in times)
                self.rows.between("retransmits in an interval", self.id, weir, least,
                                  most + (true.syn_retransmits if index == 0 else 0)
                                  + (true.fin_retransmits if last else 0),
                                  sum(first <= t < end for t in times), note=label)


def overflows(rows, record, facts):
    """Drops of the receivers' sockets against the kernel's counter of full receive buffers."""
    for direction, node in (("forward", "b"), ("reverse", "a")):
        flows = [f for f in record["flows"] if f["direction"] == direction and f["transport"] == "udp"]
        if not flows:
            continue
        kind = "Udp" if flows[0].get("family") == "ipv4" else "Udp6"
        counters = facts["counters"][node][kind]
        kernel = counters.get("RcvbufErrors", 0)
        wrong = counters.get("InCsumErrors", 0)
        dropped = [(f.get("receiver") or {}).get("socket_dropped_packets") for f in flows]
        if any(d is not None for d in dropped):
            rows.between("datagrams dropped by full sockets", direction, sum(d or 0 for d in dropped), 0, kernel,
                         kernel, note=f"kernel: RcvbufErrors {kernel}, InCsumErrors {wrong}")
        side = "remote" if node == "b" else "local"
        ledger = [r["packets"] for r in (record.get("loss_ledger") or {}).get("rows", [])
                  if "overflow" in r["stage"] and r.get("side") == side]
        if ledger:
            rows.between("loss ledger: socket overflow", direction, sum(ledger), 0, kernel, kernel,
                         note=f"kernel: RcvbufErrors {kernel}, InCsumErrors {wrong}")


def totals(rows, record, truths):
    """Sums of each direction against the captures."""
    for direction, ends in record["total"].items():
        flows = [f for f in record["flows"] if f["direction"] == direction]
        true = [truths.get(f["id"]) for f in flows]
        if not flows or any(t is None for t in true):
            continue
        receiver = ends.get("receiver") or {}
        udp = flows[0]["transport"] == "udp"
        if udp:
            bits = sum(t.received * t.size * 8 for t in true)
            spans = [t.receiving_times() for t in true if t.receiving_times()]
            sent = (min(t.sent[0].time for t in true if t.sent), max(t.sent[-1].time for t in true if t.sent))
        else:
            bits = sum(t.received_bytes * 8 for t in true)
            spans = [(t.delivery[0][0], t.delivery[-1][0]) for t in true if t.delivery]
            sent = None
        if not spans:
            continue
        first, last = min(s[0] for s in spans), max(s[1] for s in spans)
        took = last - first
        planned = [f["sender"]["seconds"] for f in flows if f.get("sender")]
        took = max(took, sent[1] - sent[0] if sent else 0, max(planned, default=0) * 1e9) / 1e9
        least = min((t.received if udp else 1000) for t in true)
        unsure = sum(t.ambiguous_late for t in true) / max(1, sum(t.received for t in true)) if udp else 0
        rows.near("rate received of a direction, bit/s", direction, receiver.get("bits_per_second"), bits / took,
                  (0.006 + 2 / max(least, 1) + unsure) * bits / took)


def probes(rows, record, captures, clocks):
    """Round trips beside the test; idle and loaded together, since only Weir knows where it parts them."""
    latency = record.get("latency") or {}
    if latency.get("method") != "udp":
        return
    port = record["plan"].get("port", 9347)
    ports = {capture.endpoint(f[end])[1] for f in record["flows"] for end in ("source", "destination")} - {port}
    sent, trips = truth.round_trips((captures["a"], captures["b"]), clocks, ports, port)
    parts = [latency[k] for k in ("idle", "loaded") if k in latency]
    if not parts or not trips:
        return
    count = sum(p["count"] for p in parts)
    rows.near("probes sent", "", latency.get("sent"), sent, 1)
    # Those that waited for the start or for stragglers, about ten a second, are in neither figure.
    waited = ((record.get("cpu") or {}).get("local") or {}).get("waiting_seconds") or 0
    rows.between("probes answered", "", count, len(trips) - 2 - 10 * (waited + 0.5), len(trips) + 1, len(trips))
    same = count == len(trips)
    error = 4 * CLOCKS / 1e9
    values = sorted(trips.values())
    if same:
        rows.near("round trip, min, s", "", min(p["min_seconds"] for p in parts), values[0] / 1e9, error)
        rows.near("round trip, max, s", "", max(p["max_seconds"] for p in parts), values[-1] / 1e9, error)
        rows.near("round trip, mean, s", "", sum(p["mean_seconds"] * p["count"] for p in parts) / count,
                  sum(values) / len(values) / 1e9, error)


def emulator(rows, directory, captures, facts):
    """The emulator's counters against the frames at the hosts' interfaces."""
    path = os.path.join(directory, "impair.json")
    try:
        report = read_json(path)
        flows = report["impairment"]["flows"]
    except (OSError, ValueError, KeyError) as error:
        rows.add("emulator", "report", "", None, None, None, None, None, repr(error))
        return
    for direction, entry, leaving in (("forward", "a", "b"), ("reverse", "b", "a")):
        counters = {}
        for flow in flows:
            if flow["direction"] == direction:
                for name, value in flow["counters"].items():
                    counters[name] = counters.get(name, 0) + value
        begun, ready, stopped = facts["emulator"]
        times = captures[entry].frames_out
        least = sum(ready < t < stopped for t in times)
        most = sum(begun < t < stopped + 2_500_000_000 for t in times)  # it drains for 2 s at most
        rows.between("frames taken in", direction, counters.get("received_packets"), least, most, least,
                     output="emulator")
        rows.near("frames sent on", direction, counters.get("sent_packets"), captures[leaving].frames_in, 0,
                  output="emulator", note=f"unplanned {counters.get('unplanned_dropped_packets')}")
