"""What happened, by the captures of both ends: the figures that Weir's are held against.

Of Weir only the layout of its data header is known (docs: "the data header grows with the payload") and the
first bytes of its greetings. Definitions: RFC 7680 loss, RFC 5560 duplicates, RFC 4737 reordering, RFC 3357
loss periods, RFC 3550 jitter, RFC 7679 one-way delay, RFC 5481 PDV and IPDV.
"""
import bisect
import math
import struct

from capture import ACK, FIN, SYN, TCP, UDP

GREETING = b"\xf7WEIR"  # first bytes of greetings on data connections; no data header begins so
WINDOW = 1 << 32


class Clocks:
    """CLOCK_REALTIME (captures) joined to CLOCK_MONOTONIC (packets), from readings before and after a run."""

    def __init__(self, before, after):
        self.start, self.offset = before
        end, offset = after
        self.slope = (offset - self.offset) / max(1, end - self.start)

    def realtime(self, monotonic):
        """Nanoseconds of CLOCK_REALTIME."""
        # Integers: a float of nanoseconds since 1970 is rounded to 256.
        return monotonic + self.offset + round(self.slope * (monotonic - self.start))


def header(payload, size):
    """(sequence, send time, actual - intended) of a datagram's data header; None for what it does not carry."""
    if len(payload) < min(size, 32):
        return None, None, None
    if size >= 32:
        return struct.unpack_from(">QQi", payload)
    if size >= 16:
        return (*struct.unpack_from(">IQ", payload), None)
    if size >= 8:
        return (*struct.unpack_from(">II", payload), None)
    if size >= 4:
        return struct.unpack_from(">I", payload)[0], None, None
    if size >= 2:
        return struct.unpack_from(">H", payload)[0], None, None
    if size == 1:
        return payload[0], None, None
    return None, None, None


def header_size(size):
    return 32 if size >= 32 else 16 if size >= 16 else 8 if size >= 8 else 4 if size >= 4 else min(size, 2)


def nearest_rank(ordered, q):
    """Percentile by nearest rank of ascending values."""
    return ordered[max(0, math.ceil(q * len(ordered) - 1e-9) - 1)]


class Datagrams:
    """One UDP flow by the captures at its sender (`sent`) and at its receiver (`arrived`), data alone.

    `numbered` is False where the captures cannot tell which datagram came (no number and no identification):
    then only totals are known.
    """

    def __init__(self, sent, arrived, size, clocks, threshold, first_identification=True):
        self.size, self.clocks, self.threshold = size, clocks, threshold
        self.sent, self.on_wire = sent, arrived
        self.damaged_on_wire = sum(not p.valid for p in arrived)
        arrived = [p for p in arrived if p.valid]
        self.arrivals = len(arrived)
        self.sent_count = len(sent)
        self.unreadable = self.bit_errors = self.content_damaged = 0
        self.ambiguous_late = 0
        self.numbered = self._number(first_identification)
        self.series = []  # (number, arrival) in order of arrival, first copies and further ones
        if self.numbered:
            for packet in arrived:
                number = self._identify(packet)
                if number is None:
                    self.unreadable += 1
                else:
                    self.series.append((number, packet.time))
            self._classify()

    def _number(self, use_identification):
        """Finds the key by which arrivals are matched with what was sent."""
        self.index = {}
        if not self.size:
            return False
        if self.size >= 4 or (self.size >= 2 and self.sent_count < 1 << 15):
            self.key = lambda p: header(p.payload, p.size)[0]
        elif use_identification and self.sent and self.sent[0].identification is not None \
                and self.sent_count < 1 << 16:
            self.key = lambda p: p.identification
        else:
            return False
        for number, packet in enumerate(self.sent):
            self.index[self.key(packet)] = number
        return len(self.index) == self.sent_count

    def _identify(self, packet):
        """The number of the datagram that this is a copy of; None when its header was damaged."""
        number = self.index.get(self.key(packet))
        if number is None:
            return None
        sent = self.sent[number]
        kept = min(len(sent.payload), len(packet.payload))
        if packet.payload[:kept] != sent.payload[:kept]:
            cut = header_size(self.size)
            if packet.payload[:cut] != sent.payload[:cut]:
                return None
            self.content_damaged += 1
            self.bit_errors += sum((a ^ b).bit_count() for a, b in
                                   zip(packet.payload[cut:kept], sent.payload[cut:kept]))
        return number

    def _classify(self):
        """Received, late, duplicates, order: in one pass over the arrivals."""
        self.arrival = {}       # number -> time of its first copy, within the loss threshold
        self.late = set()
        self.duplicates = []    # times
        self.reordered = []     # times
        self.extents = []
        self.accepted = []      # (number, time) of received, in order of arrival
        highest, records = -1, []  # records: (number, position, time) of each new highest
        grain = self.threshold / 64
        for number, time in self.series:
            if number in self.arrival or number in self.late:
                self.duplicates.append(time)
                continue
            if number < highest:
                at = bisect.bisect_right(records, number, key=lambda r: r[0])
                waited = time - records[at][2]
                if abs(waited - self.threshold) <= grain + 1_000_000:
                    self.ambiguous_late += 1
                if waited > self.threshold:
                    self.late.add(number)
                    continue
                self.reordered.append(time)
                self.extents.append(len(self.accepted) - records[at][1])
            else:
                records.append((number, len(self.accepted), time))
                highest = number
            self.arrival[number] = time
            self.accepted.append((number, time))
        self.records = records
        self.lost = [n for n in range(self.sent_count) if n not in self.arrival]

    # Totals -------------------------------------------------------------------------------------------

    @property
    def received(self):
        return len(self.arrival) if self.numbered else self.arrivals

    def loss_periods(self):
        runs, length, previous = {}, 0, None
        for number in self.lost:
            if previous is not None and number == previous + 1:
                length += 1
            else:
                if length:
                    runs[length] = runs.get(length, 0) + 1
                length = 1
            previous = number
        if length:
            runs[length] = runs.get(length, 0) + 1
        return runs

    def sending_time(self):
        """From the first to the last datagram sent, ns."""
        return self.sent[-1].time - self.sent[0].time if self.sent else 0

    def receiving_times(self):
        """First and last arrival that count as received, ns."""
        if self.numbered:
            return (self.accepted[0][1], self.accepted[-1][1]) if self.accepted else None
        times = [p.time for p in self.on_wire if p.valid]
        return (times[0], times[-1]) if times else None

    # Times --------------------------------------------------------------------------------------------

    def has_send_times(self):
        return self.size >= 8

    def send_time(self, number, intended=False):
        """When the sender says that it sent, on the captures' clock, ns; or when it was due."""
        packet = self.sent[number]
        _, time, late = header(packet.payload, packet.size)
        if self.size < 16:  # 32 bits: restored by the capture at the sender
            near = packet.time - self.clocks.offset
            time = near - ((near - time + (1 << 31)) % WINDOW - (1 << 31))
        if intended:
            time -= late
        return self.clocks.realtime(time)

    def delays(self, start="said"):
        """One-way delays of received datagrams in order of sending: [(number, ns)].

        `start`: `said` (the send time in the packet), `intended`, or `captured` (at the sender's interface).
        """
        if start == "captured":
            return [(n, self.arrival[n] - self.sent[n].time) for n in sorted(self.arrival)]
        return [(n, self.arrival[n] - self.send_time(n, start == "intended")) for n in sorted(self.arrival)]

    def stack_times(self):
        """From the send time in the packet to the sender's interface, ns."""
        return [p.time - self.send_time(n) for n, p in enumerate(self.sent)]

    def jitter_series(self, start="said", copies=False):
        """[(arrival, J in ns)] after each arrival (RFC 3550, section 6.4.1)."""
        sends = {}
        out, jitter, before = [], 0.0, None
        seen = self.series if copies else self.accepted
        for number, time in seen:
            if number not in sends:
                sends[number] = self.sent[number].time if start == "captured" else self.send_time(number)
            transit = time - sends[number]
            if before is not None:
                jitter += (abs(transit - before) - jitter) / 16
            before = transit
            out.append((time, jitter))
        return out

    def variation(self, start="said", displaced=None):
        """|IPDV| of consecutive numbers that both came, ascending, ns; without pairs whose arrivals lie
        `displaced` or more positions apart."""
        delays = dict(self.delays(start))
        place = {n: i for i, (n, _) in enumerate(self.accepted)}
        return sorted(abs(d - delays[n - 1]) for n, d in delays.items() if n - 1 in delays
                      and (displaced is None or abs(place[n] - place[n - 1]) < displaced))

    def loss_times(self, planned_start, planned_end):
        """When each lost number would have come: evenly spread between the arrivals around it, ns."""
        times, before, at = {}, -1, planned_start
        for number, _, time in self.records:
            for k in range(before + 1, number):
                times[k] = at + (time - at) * (k - before) // (number - before)
            before, at = number, time
        tail = self.sent_count - 1 - before
        for k in range(1, tail + 1):
            times[before + k] = at + max(0, planned_end - at) * k // (tail + 1)
        return [(n, times[n]) for n in self.lost if n in times]

    def known_lost(self, from_time, to_time, until, slack):
        """Bounds of the losses that a receiver can know at `until` to belong to [from_time, to_time)."""
        low = high = 0
        lost = set(self.lost)
        for number, (would, noticed) in self._gap_times().items():
            inside = from_time + slack <= would < to_time - slack
            near = from_time - slack <= would < to_time + slack
            if number in lost:
                if inside and noticed <= until - slack:
                    low += 1
                if near and noticed <= until + slack:
                    high += 1
            elif near and noticed <= until + slack and self.arrival[number] >= until - slack:
                high += 1
        return low, high

    def _gap_times(self):
        """Numbers that a higher one overtook: number -> (when it would have come, when that was noticed)."""
        if not hasattr(self, "_gaps"):
            self._gaps, before, at = {}, -1, None
            for number, _, time in self.records:
                start = time if at is None else at
                for k in range(before + 1, number):
                    self._gaps[k] = (start + (time - start) * (k - before) // (number - before), time)
                before, at = number, time
        return self._gaps


class Stream:
    """One direction of one TCP connection by the captures at its sender and receiver."""

    def __init__(self, sent, arrived):
        self.sent = sent
        isn = next((p.sequence for p in sent if p.flags & SYN), None)
        if isn is None:
            raise ValueError("no SYN in the capture")
        self.base = (isn + 1) % WINDOW
        self.preamble = 0
        for packet in sent:
            if packet.size and packet.payload.startswith(GREETING):
                self.preamble = packet.size
                break
            if packet.size:
                break
        self._walk_sent()
        self._walk_arrived(arrived)

    def relative(self, sequence):
        return (sequence - self.base + (1 << 31)) % WINDOW - (1 << 31)

    def _walk_sent(self):
        self.retransmits = self.retransmitted_bytes = self.syn_retransmits = self.fin_retransmits = 0
        self.retransmit_times = []
        highest, syns, fins, self.segments = 0, 0, 0, 0
        self.first_data = self.last_new = None
        for packet in self.sent:
            if packet.flags & SYN:
                syns += 1
                continue
            start = self.relative(packet.sequence)
            if packet.size and start >= 0:
                self.segments += 1
                if start + packet.size <= highest or start < highest:
                    self.retransmits += 1
                    self.retransmitted_bytes += packet.size
                    self.retransmit_times.append(packet.time)
                elif start + packet.size > self.preamble and self.first_data is None:
                    self.first_data = packet.time
                if start + packet.size > highest:
                    highest = start + packet.size
                    self.last_new = packet.time
            if packet.flags & FIN:
                fins += 1
                if fins > 1 and not packet.size:
                    self.fin_retransmits += 1
        self.syn_retransmits = max(0, syns - 1)
        self.sent_bytes = highest - self.preamble

    def _walk_arrived(self, arrived):
        """In-order delivery: what the receiving program could have read by when."""
        self.delivery = []  # (time, bytes deliverable so far, without the preamble)
        edge, waiting = 0, []
        self.damaged = 0
        for packet in arrived:
            if not packet.valid:
                self.damaged += 1
                continue
            if not packet.size or packet.flags & SYN:
                continue
            start = self.relative(packet.sequence)
            waiting.append((start, start + packet.size))
            if start > edge:
                continue
            waiting.sort()
            moved = False
            rest = []
            for low, high in waiting:
                if low <= edge:
                    if high > edge:
                        edge, moved = high, True
                else:
                    rest.append((low, high))
            waiting = rest
            if moved and edge > self.preamble:
                self.delivery.append((packet.time, edge - self.preamble))
        self.received_bytes = max(0, edge - self.preamble)

    def delivered_by(self, time):
        at = bisect.bisect_right(self.delivery, time, key=lambda d: d[0])
        return self.delivery[at - 1][1] if at else 0

    def min_round_trip(self, answers):
        """Least time from a segment sent once (or its SYN) to an acknowledgement that covers it, at the sender,
        ns."""
        acks, covered = [], -1
        for packet in answers:
            if packet.flags & ACK:
                value = self.relative(packet.acknowledged)
                if value > covered:
                    covered = value
                    acks.append((value, packet.time))
        best, highest = None, -1
        for packet in self.sent:
            start = self.relative(packet.sequence)
            if packet.flags & SYN:
                if self.syn_retransmits:
                    continue
                start, end = -1, 0
            elif not packet.size:
                continue
            else:
                end = start + packet.size
            if end <= highest or start < highest:
                continue
            highest = end
            at = bisect.bisect_left(acks, (highest, 0))
            if at < len(acks):
                time = acks[at][1] - packet.time
                if best is None or time < best:
                    best = time
        return best


def flow_packets(captures, source, destination, protocol):
    """Packets of one direction of a 5-tuple at the sender and at the receiver: (sent, arrived)."""
    at_sender, at_receiver = captures
    sent = [p for p in at_sender.packets if p.protocol == protocol and p.out
            and p.source == source and p.destination == destination]
    arrived = [p for p in at_receiver.packets if p.protocol == protocol and not p.out
               and p.source == source and p.destination == destination]
    return sent, arrived


def datagrams(captures, source, destination, size, clocks, threshold):
    """The UDP flow of a record: its data alone, without greetings and feedback."""
    sent, arrived = flow_packets(captures, source, destination, UDP)
    sent = [p for p in sent if p.size == size and not p.payload.startswith(GREETING)]
    arrived = [p for p in arrived if p.size == size and not p.payload.startswith(GREETING)]
    return Datagrams(sent, arrived, size, clocks, threshold)


def stream(captures, source, destination):
    """The TCP flow of a record."""
    return Stream(*flow_packets(captures, source, destination, TCP))


def round_trips(captures, clocks, data_ports, port):
    """Round trips of Weir's UDP probes: (requests, {id: ns}), less the time that the other host held them.

    Times of arrival are the captures', times of sending those in the packets.
    """
    at_client, at_server = captures
    requests, answers, arrivals = {}, {}, {}

    def probes(packets, out, kind):
        for p in packets:
            if p.protocol == UDP and p.out == out and p.size == 64 and p.valid and len(p.payload) >= 56 \
                    and p.payload[:8] == GREETING + b"UDP" and p.payload[9] == kind \
                    and not {p.source[1], p.destination[1]} & data_ports and port in (p.source[1], p.destination[1]):
                yield struct.unpack_from(">Q", p.payload, 24)[0], p

    sent = {}
    for number, packet in probes(at_client.packets, True, 4):
        if number not in requests:
            requests[number] = struct.unpack_from(">Q", packet.payload, 32)[0]
            sent[number] = packet.payload
    answered = {p.payload for _, p in probes(at_server.packets, True, 5)}
    for number, packet in probes(at_server.packets, False, 4):
        if sent.get(number) == packet.payload:  # not damaged on its way
            arrivals.setdefault(number, []).append(packet.time)
    for number, packet in probes(at_client.packets, False, 5):
        if number in arrivals and number not in answers and packet.payload in answered:
            came, left = (clocks.realtime(t) for t in struct.unpack_from(">QQ", packet.payload, 40))
            request = min(arrivals[number], key=lambda t: abs(t - came))  # the copy that was answered
            answers[number] = packet.time - clocks.realtime(requests[number]) - (left - request)
    return len(requests), answers
