//! The receiving side of one stream flow: bytes by interval, and their verification if requested.

use std::sync::Arc;

use weir_model::record::{IntervalCount, Receiver, Sender};

use crate::drain::Drain;
use crate::intervals::{IntervalClock, IntervalLog};
use crate::payload::StreamPool;
use weir_stats::{Arrival, SequenceConfig, SequenceExtender, SequenceTracker};

/// Counts of one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamCount {
    /// Bytes.
    pub bytes: u64,
    /// Reads.
    pub reads: u64,
}

/// The receiving side of one stream.
pub struct StreamReceiving {
    bytes: u64,
    reads: u64,
    /// Its reads are transfers, not calls.
    has_parts: bool,
    first_ns: Option<u64>,
    last_ns: u64,
    verify: Option<Arc<StreamPool>>,
    /// Of requests that may be lost or copied on the way.
    numbers: Option<Box<RequestNumbers>>,
    bit_errors: u64,
    verified_bytes: u64,
    ended: bool,
    sent_total: Option<u64>,
    sent_packets: Option<u64>,
    drain: Option<Drain>,
    /// Counts by interval.
    pub log: IntervalLog<StreamCount>,
}

impl StreamReceiving {
    /// A receiver; `verify` holds the pool that the bytes are compared with.
    pub fn new(verify: Option<Arc<StreamPool>>) -> Self {
        StreamReceiving {
            bytes: 0,
            reads: 0,
            has_parts: false,
            first_ns: None,
            last_ns: 0,
            verify,
            numbers: None,
            bit_errors: 0,
            verified_bytes: 0,
            ended: false,
            sent_total: None,
            sent_packets: None,
            drain: None,
            log: IntervalLog::default(),
        }
    }

    /// Sets the intervals, at the start of the test.
    pub fn start(&mut self, clock: IntervalClock) {
        self.log.start(clock);
    }

    /// Whether received bytes are needed for verification.
    pub fn wants_bytes(&self) -> bool {
        self.verify.is_some()
    }

    /// Accounts for one read of `bytes`; `data` is its content if it was copied.
    #[inline]
    pub fn on_read(&mut self, bytes: usize, data: Option<&[u8]>, now_ns: u64) {
        if let (Some(pool), Some(data)) = (&self.verify, data) {
            self.bit_errors += pool.bit_errors(self.bytes, data);
            self.verified_bytes += data.len() as u64;
        }
        self.add(bytes, now_ns);
        self.reads += 1;
        self.log.current.reads += 1;
    }

    #[inline]
    fn add(&mut self, bytes: usize, now_ns: u64) {
        self.advance(now_ns);
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = now_ns;
        self.bytes += bytes as u64;
        self.log.current.bytes += bytes as u64;
    }

    /// Accounts for a request of `bytes` that may be lost or copied on the way: a copy is no further request. `low`: the
    /// last bytes of its number.
    pub fn on_request(&mut self, low: &[u8], bytes: usize, now_ns: u64) {
        if self.numbers.get_or_insert_with(|| RequestNumbers::new(low.len())).is_first(low, now_ns)
        {
            self.on_read(bytes, None, now_ns);
        }
    }

    /// Accounts for bytes of a transfer, which was counted as a read when it began.
    pub fn on_part(&mut self, bytes: usize, now_ns: u64) {
        self.add(bytes, now_ns);
        self.has_parts = true;
    }

    /// Closes intervals that have passed.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        while self.log.is_due(now_ns) {
            self.log.close(|_| {});
        }
    }

    /// The sender closed its direction.
    pub fn on_end(&mut self) {
        self.ended = true;
    }

    /// Whether the stream has ended.
    pub fn is_complete(&self) -> bool {
        self.ended || self.sent_total.is_some_and(|t| self.bytes >= t)
    }

    /// Sets the sender's final count of bytes.
    pub fn set_sent_total(&mut self, bytes: u64) {
        self.sent_total = Some(bytes);
    }

    /// Sets the client's final count of requests.
    pub fn set_sent_packets(&mut self, packets: u64) {
        self.sent_packets = Some(packets);
    }

    /// The sender has finished: `drain` now limits the wait for the remaining data.
    pub fn drain(&mut self, drain: Drain) {
        self.drain = Some(drain);
    }

    /// Whether everything has arrived, or the wait for it has ended.
    pub fn is_over(&self, now_ns: u64) -> bool {
        self.is_complete() || self.drain.is_some_and(|d| d.is_over(now_ns, self.last_ns))
    }

    /// Time of the last arrival, or 0.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Closes the last interval.
    pub fn finish(&mut self, now_ns: u64) {
        self.advance(now_ns.min(self.last_ns));
        if self.log.current != StreamCount::default() || self.log.closed().is_empty() {
            self.log.close(|_| {});
        }
    }

    /// This end's intervals in the form of the record.
    pub fn interval_counts(&self) -> Vec<IntervalCount> {
        (0..self.log.closed().len()).filter_map(|i| self.interval_count(i)).collect()
    }

    /// One closed interval.
    pub fn interval_count(&self, index: usize) -> Option<IntervalCount> {
        let clock = self.log.clock()?;
        let c = self.log.closed().get(index)?;
        let per_second = |n: u64| clock.seconds(index).map(|s| n as f64 / s);
        Some(IntervalCount {
            bytes: c.bytes,
            packets: c.reads,
            bits_per_second: per_second(8 * c.bytes),
            packets_per_second: per_second(c.reads),
            ..IntervalCount::default()
        })
    }

    /// The part of the record of a server that answers requests, which were counted as reads. `lossy`: they may be lost.
    /// After a burst of losses that makes the numbers ambiguous, copies count as requests, and loss is unknown.
    pub fn report_requests(&self, buffer_bytes: Option<u64>, lossy: bool) -> Receiver {
        let mut out = self.report("respond", buffer_bytes);
        let is_whole = lossy && self.log.omitted() == 0;
        let copies = match &self.numbers {
            Some(numbers) => numbers.copies(),
            // Requests without numbers can't be distinguished from copies.
            None => (self.reads == 0).then_some(0),
        };
        out.duplicate_packets = copies.filter(|_| is_whole);
        let sent = self.sent_packets.filter(|_| is_whole && copies.is_some());
        out.lost_packets = sent.map(|sent| sent.saturating_sub(out.packets));
        let ratio = |lost: u64| sent.filter(|sent| *sent > 0).map(|sent| lost as f64 / sent as f64);
        out.loss_ratio = out.lost_packets.and_then(ratio);
        if lossy {
            out.undelivered_bytes = None;
        }
        out
    }

    /// The part of the record of a server that sends what its clients fetch: what was counted as read was written.
    pub fn report_sent(&self, buffer_bytes: Option<u64>) -> Sender {
        let counted = self.report("respond", buffer_bytes);
        Sender {
            bytes: counted.bytes,
            packets: counted.packets,
            seconds: counted.seconds,
            start_seconds: counted.start_seconds,
            end_seconds: counted.end_seconds,
            bits_per_second: counted.bits_per_second,
            packets_per_second: counted.packets_per_second,
            io_calls: counted.io_calls,
            method: counted.method,
            buffer_bytes,
            ..Sender::default()
        }
    }

    /// The receiver's part of the record.
    pub fn report(&self, method: &str, buffer_bytes: Option<u64>) -> Receiver {
        let omitted = self.log.omitted();
        let (mut bytes, mut reads) = (self.bytes, self.reads);
        for skipped in self.log.closed().iter().take(omitted) {
            bytes -= skipped.bytes;
            reads -= skipped.reads;
        }
        let omit_end = self.log.clock().filter(|c| c.omit_ns > 0).map(|c| c.start_ns + c.omit_ns);
        let first = self.first_ns.map(|f| omit_end.map_or(f, |o| f.max(o)));
        let seconds = first.map_or(0.0, |f| self.last_ns.saturating_sub(f) as f64 / 1e9);
        let per_second = |n: u64| (seconds > 0.0).then(|| n as f64 / seconds);
        let zero = self.log.start_ns();
        let since_zero = |at: u64| Some(at.saturating_sub(zero?) as f64 / 1e9);
        Receiver {
            bytes,
            packets: reads,
            seconds,
            start_seconds: first.and_then(since_zero),
            end_seconds: first.and_then(|f| since_zero(self.last_ns.max(f))),
            bits_per_second: per_second(8 * bytes),
            packets_per_second: per_second(reads),
            io_calls: (!self.has_parts).then_some(self.reads),
            method: method.into(),
            undelivered_bytes: self.sent_total.map(|sent| sent.saturating_sub(self.bytes)),
            bit_errors: self.verify.is_some().then_some(self.bit_errors),
            verified_bytes: self.verify.is_some().then_some(self.verified_bytes),
            buffer_bytes,
            ..Receiver::default()
        }
    }
}

/// The numbers of requests that may be lost or copied on the way.
struct RequestNumbers {
    extender: SequenceExtender,
    tracker: SequenceTracker,
    copies: u64,
    is_ambiguous: bool,
}

impl RequestNumbers {
    /// Of requests with `width` bytes of their numbers.
    fn new(width: usize) -> Box<Self> {
        Box::new(RequestNumbers {
            extender: SequenceExtender::new(8 * width as u32),
            tracker: SequenceTracker::new(SequenceConfig {
                max_window_bytes: 16 << 10,
                max_gaps: 0,
                ..SequenceConfig::default()
            }),
            copies: 0,
            is_ambiguous: false,
        })
    }

    /// Whether a request has not arrived before; true for all once the numbers are ambiguous.
    fn is_first(&mut self, low: &[u8], now_ns: u64) -> bool {
        let low = low.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let extended = self.extender.extend(low, 0);
        self.is_ambiguous |= extended.ambiguous;
        if self.is_ambiguous {
            return true;
        }
        self.extender.accept(extended);
        let is_copy = self.tracker.on_packet(extended.sequence, now_ns) == Arrival::Duplicate;
        self.copies += u64::from(is_copy);
        !is_copy
    }

    /// Copies of requests; `None` if they can't be distinguished from requests.
    fn copies(&self) -> Option<u64> {
        (!self.is_ambiguous).then_some(self.copies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: IntervalClock =
        IntervalClock { start_ns: 0, interval_ns: 1_000_000_000, omit_ns: 2_000_000_000 };

    #[test]
    fn parts_count_in_their_interval_and_are_no_reads() {
        let mut r = StreamReceiving::new(None);
        r.start(CLOCK);
        for ms in 0..5000u64 {
            // A part is the first of each interval.
            match ms % 10 {
                5 => r.on_read(0, None, ms * 1_000_000),
                _ => r.on_part(100, ms * 1_000_000),
            }
        }
        r.finish(5_000_000_000);
        let counts: Vec<_> = r.interval_counts().iter().map(|i| (i.packets, i.bytes)).collect();
        assert_eq!(counts, [(100, 90_000); 5]);
        let report = r.report("copy", None);
        assert_eq!((report.packets, report.bytes), (300, 270_000));
    }

    #[test]
    fn copies_of_requests_hide_no_losses() {
        for width in [1usize, 2, 8] {
            let mut r = StreamReceiving::new(None);
            r.start(IntervalClock { omit_ns: 0, ..CLOCK });
            // Every tenth is lost, every fifth arrives twice, and the copy later than the next one.
            let mut arrive = |n: u64| r.on_request(&n.to_be_bytes()[8 - width..], 10, n);
            for n in (0..1000u64).filter(|n| n % 10 != 3) {
                arrive(n);
                if n % 5 == 1 {
                    arrive(n - 1);
                }
            }
            r.set_sent_packets(1000);
            r.finish(1000);
            let report = r.report_requests(None, true);
            assert_eq!((report.packets, report.bytes, report.lost_packets), (900, 9000, Some(100)));
            assert_eq!((report.duplicate_packets, report.loss_ratio), (Some(200), Some(0.1)));
        }
        // One byte is not enough for a burst of 100 losses: nothing is said about loss.
        let mut r = StreamReceiving::new(None);
        (0..50).chain(150..300u64).for_each(|n| r.on_request(&[n as u8], 10, n));
        r.set_sent_packets(300);
        let report = r.report_requests(None, true);
        assert_eq!(
            (report.packets, report.lost_packets, report.duplicate_packets),
            (200, None, None)
        );
    }

    #[test]
    fn omitted_bytes_are_left_out() {
        let mut r = StreamReceiving::new(None);
        r.start(CLOCK);
        for ms in 0..5000u64 {
            r.on_read(1000, None, ms * 1_000_000);
        }
        r.finish(5_000_000_000);
        let report = r.report("copy", None);
        assert_eq!(report.bytes, 3_000_000);
        let rate = report.bits_per_second.unwrap();
        assert!((rate - 8e6).abs() < 8e4, "{rate}");
        assert_eq!(r.interval_counts().len(), 5);
        assert!(r.interval_counts().iter().all(|i| i.bytes == 1_000_000));
    }
}
