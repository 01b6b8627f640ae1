//! The rate of a link: a constant one, or a trace of delivery opportunities as mahimahi has them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::value::word_serde;
use crate::ModelError;
use crate::units::BitRate;

/// Maximum size of a trace as text or file, bytes.
pub const MAX_TRACE_BYTES: usize = 4 << 20;
/// Maximum number of opportunities of a trace.
const MAX_OPPORTUNITIES: u32 = 1_000_000;
/// Bytes of an opportunity: an IP packet of 1500 bytes, with the 4 bytes that mahimahi's TUN device has before each packet.
pub const OPPORTUNITY_BYTES: u32 = 1504;
/// Default framing bytes of a packet on a link with a trace: those 4.
pub(super) const TRACE_OVERHEAD_BYTES: u32 = 4;

const NS_PER_MS: u64 = 1_000_000;
/// Characters of the start of a trace that an error repeats.
const SHOWN: usize = 100;
const TRACE_FORM: &str = "trace(MS …) [once]: the milliseconds of delivery opportunities in rising order, such as trace(1 1 4x3 6), 5x3 for three at 5; the last above 0, at most 1000000 and 4M of text";

/// The delivery opportunities of a link, each for 1504 bytes, as in the traces of mahimahi. The last one is also the length of the
/// trace, after which it starts again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryTrace {
    /// In rising order, at least one; the last is above 0 ms.
    all: Arc<[Opportunities]>,
    once: bool,
}

/// The opportunities in one millisecond. A text of a few bytes may ask for many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Opportunities {
    ms: u32,
    /// The number of these and of all before.
    up_to: u32,
}

/// A trace that is read.
#[derive(Default)]
struct Reading(Vec<Opportunities>);

impl Reading {
    fn count(&self) -> u32 {
        self.0.last().map_or(0, |last| last.up_to)
    }

    /// Adds opportunities; `false` if there would be too many.
    fn add(&mut self, ms: u32, count: u32) -> bool {
        if count > MAX_OPPORTUNITIES - self.count() {
            return false;
        }
        let up_to = self.count() + count;
        match self.0.last_mut().filter(|last| last.ms == ms) {
            Some(last) => last.up_to = up_to,
            None => self.0.push(Opportunities { ms, up_to }),
        }
        true
    }

    fn is_before(&self, ms: u32) -> bool {
        self.0.last().is_some_and(|last| last.ms > ms)
    }

    fn done(self, once: bool) -> Option<DeliveryTrace> {
        self.0.last().filter(|last| last.ms > 0)?;
        Some(DeliveryTrace { all: self.0.into(), once })
    }
}

impl DeliveryTrace {
    /// The trace of a file of mahimahi: a line for each opportunity with its millisecond, in rising order.
    ///
    /// # Errors
    /// [`ModelError::Field`] naming the line.
    pub fn from_lines(text: &str) -> Result<Self, ModelError> {
        let refused = |line: usize, given: &str, accepted: &str| ModelError::Field {
            field: format!("line {line}"),
            given: given.chars().take(SHOWN).collect(),
            accepted: accepted.into(),
        };
        if text.len() > MAX_TRACE_BYTES {
            return Err(refused(1, &format!("{} bytes", text.len()), "at most 4M"));
        }
        let mut reading = Reading::default();
        let mut last = 1;
        for (number, line) in (1..).zip(text.lines()) {
            last = number;
            let at = millisecond(line.trim()).ok_or_else(|| {
                refused(number, line, "the millisecond of a delivery opportunity, such as 12")
            })?;
            if reading.is_before(at) {
                let accepted = "the millisecond of the line before, or a later one";
                return Err(refused(number, line, accepted));
            }
            if !reading.add(at, 1) {
                return Err(refused(number, line, "at most 1000000 lines"));
            }
        }
        reading.done(false).ok_or_else(|| {
            refused(last, text.lines().last().unwrap_or(""), "a last millisecond above 0")
        })
    }

    /// Reads the milliseconds in parentheses; `None` if they are no trace.
    fn read(text: &str, once: bool) -> Option<Self> {
        if text.len() > MAX_TRACE_BYTES {
            return None;
        }
        let mut reading = Reading::default();
        for part in text.split([' ', ',', '\t', '\r', '\n']).filter(|part| !part.is_empty()) {
            let (at, times) = match part.split_once('x') {
                Some((at, times)) => (millisecond(at)?, millisecond(times)?),
                None => (millisecond(part)?, 1),
            };
            if reading.is_before(at) || times == 0 || !reading.add(at, times) {
                return None;
            }
        }
        reading.done(once)
    }

    /// Whether no opportunity follows the last one.
    #[must_use]
    pub fn is_once(&self) -> bool {
        self.once
    }

    fn last(&self) -> Opportunities {
        // A trace has at least one.
        self.all.last().copied().unwrap_or(Opportunities { ms: 1, up_to: 1 })
    }

    /// Length of the trace, ns.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        u64::from(self.last().ms) * NS_PER_MS
    }

    /// Time of opportunity `number` from the start of the first loop, ns; `None` if there is none.
    #[inline]
    #[must_use]
    pub fn at_ns(&self, number: u64) -> Option<u64> {
        let (all, duration_ns) = (u64::from(self.last().up_to), self.duration_ns());
        let (number, loops) = match number < all {
            true => (number, 0),
            false if self.once => return None,
            false => (number % all, number / all),
        };
        let place = self.all.partition_point(|here| u64::from(here.up_to) <= number);
        let ns = u64::from(self.all[place].ms) * NS_PER_MS;
        Some(loops.saturating_mul(duration_ns).saturating_add(ns))
    }

    /// Number of the first opportunity after a time from the start of the first loop, ns.
    #[must_use]
    pub fn first_after(&self, ns: u64) -> u64 {
        let (loops, within_ns) = (ns / self.duration_ns(), ns % self.duration_ns());
        // The last one is not before the end of the loop, so that there is one.
        let place = self.all.partition_point(|here| u64::from(here.ms) * NS_PER_MS <= within_ns);
        let before = place.checked_sub(1).map_or(0, |before| self.all[before].up_to);
        let all = u64::from(self.last().up_to);
        if self.once && loops > 0 { all } else { loops.saturating_mul(all) + u64::from(before) }
    }

    /// Mean rate, bit/s: the bytes of all opportunities in the length of the trace; 1 or more.
    #[must_use]
    pub fn mean_bits(&self) -> BitRate {
        let bits = u128::from(self.last().up_to) * u128::from(OPPORTUNITY_BYTES) * 8_000_000_000;
        let mean = bits / u128::from(self.duration_ns().max(1));
        BitRate(u64::try_from(mean).unwrap_or(u64::MAX).max(1))
    }
}

fn millisecond(text: &str) -> Option<u32> {
    // Without the sign that parse accepts.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl fmt::Display for DeliveryTrace {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("trace(")?;
        let mut before = 0;
        for Opportunities { ms, up_to } in self.all.iter() {
            let separator = if before == 0 { "" } else { " " };
            write!(f, "{separator}{ms}")?;
            if up_to - before > 1 {
                write!(f, "x{}", up_to - before)?;
            }
            before = *up_to;
        }
        f.write_str(if self.once { ") once" } else { ")" })
    }
}

/// The rate of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkRate {
    /// Packets take their time of transmission.
    Constant(BitRate),
    /// Packets leave at delivery opportunities.
    Trace(DeliveryTrace),
}

impl LinkRate {
    /// The rate, or the mean rate of a trace, bit/s.
    #[must_use]
    pub fn mean(&self) -> BitRate {
        match self {
            LinkRate::Constant(bits) => *bits,
            LinkRate::Trace(trace) => trace.mean_bits(),
        }
    }

    /// Its delivery opportunities, if it has a trace.
    #[must_use]
    pub fn trace(&self) -> Option<&DeliveryTrace> {
        match self {
            LinkRate::Constant(_) => None,
            LinkRate::Trace(trace) => Some(trace),
        }
    }

    /// Reads a trace from its milliseconds.
    pub(super) fn of_trace(milliseconds: &str, once: bool) -> Result<Self, ModelError> {
        let refused = || ModelError::Value {
            what: "rate",
            given: format!("trace({})", milliseconds.chars().take(SHOWN).collect::<String>()),
            accepted: TRACE_FORM,
        };
        DeliveryTrace::read(milliseconds, once).map(LinkRate::Trace).ok_or_else(refused)
    }
}

impl FromStr for LinkRate {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let Some(rest) = text.trim().strip_prefix("trace(") else {
            return text.parse().map(LinkRate::Constant);
        };
        match rest.rsplit_once(')').map(|(ms, behind)| (ms, behind.trim())) {
            Some((ms, behind @ ("" | "once"))) => Self::of_trace(ms, behind == "once"),
            // With what is not a millisecond.
            _ => Self::of_trace(&format!("{rest} …"), false),
        }
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            LinkRate::Constant(bits) => bits.fmt(f),
            LinkRate::Trace(trace) => trace.fmt(f),
        }
    }
}

word_serde!(
    LinkRate,
    "bits per second such as 10M, or trace(MS …) [once], the milliseconds of delivery opportunities such as trace(1 1 4x3 6)",
    ["10M"]
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impairment::Laws;

    fn trace(text: &str) -> DeliveryTrace {
        text.parse::<LinkRate>().unwrap().trace().unwrap().clone()
    }

    #[test]
    fn a_trace_has_the_opportunities_of_its_lines_and_starts_again() {
        let lines = DeliveryTrace::from_lines("0\n1\n1\r\n4\n4\n4\n6\n").unwrap();
        assert_eq!(lines, trace("trace(0 1x2 4,4 4 6)"));
        assert_eq!(lines.to_string(), "trace(0 1x2 4x3 6)");
        let ms: Vec<_> = (0..16).map(|n| lines.at_ns(n).unwrap() / NS_PER_MS).collect();
        // The first opportunity of a loop is at the time of the last one before it.
        assert_eq!(ms, [0, 1, 1, 4, 4, 4, 6, 6, 7, 7, 10, 10, 10, 12, 12, 13]);
        for (after, number) in
            [(0, 1), (1, 3), (3, 3), (4, 6), (5, 6), (6, 8), (7, 10), (11, 13), (12, 15)]
        {
            assert_eq!(lines.first_after(after * NS_PER_MS), number, "{after} ms");
        }
        assert_eq!(lines.first_after(NS_PER_MS - 1), 1);
        // 7 · 1504 · 8 bits in 6 ms.
        assert_eq!(lines.mean_bits().0, 14_037_333);
    }

    #[test]
    fn a_trace_that_is_played_once_ends() {
        let once = trace("trace(0 5 5) once");
        assert_eq!((once.at_ns(2), once.at_ns(3)), (Some(5_000_000), None));
        assert_eq!((once.first_after(4_999_999), once.first_after(5_000_000)), (1, 3));
        assert_eq!(once.first_after(u64::MAX), 3);
    }

    #[test]
    fn laws_with_a_trace_are_read_and_written() {
        for (given, printed) in [
            ("rate trace(1 1 3) queue 9packets", "rate trace(1x2 3) queue 9packets"),
            ("rate trace(1x3) once head_drop, loss 1%", "loss 1%, rate trace(1x3) once head_drop"),
            ("rate trace(0x2 7) overhead 0 delay 2ms", "rate trace(0x2 7) overhead 0, delay 2ms"),
            ("rate trace(9) background 5%", "rate trace(9) background 5%"),
        ] {
            let laws: Laws = given.parse().unwrap_or_else(|error| panic!("{given}: {error}"));
            assert_eq!(laws.to_string(), printed);
            assert_eq!(printed.parse::<Laws>().unwrap(), laws, "{printed}");
            let json = serde_json::to_string(&laws).unwrap();
            assert_eq!(serde_json::from_str::<Laws>(&json).unwrap(), laws, "{json}");
        }
        let rate = "rate trace(1x3)".parse::<Laws>().unwrap().rate.unwrap();
        assert_eq!((rate.overhead(), rate.bits.mean().0), (4, 36_096_000));
    }

    #[test]
    fn an_invalid_trace_is_refused() {
        let many = format!("trace(1x{})", MAX_OPPORTUNITIES + 1);
        let long = format!("trace({}1)", " ".repeat(MAX_TRACE_BYTES));
        for text in [
            "trace()",
            "trace(0)",
            "trace(0x4)",
            "trace(2 1)",
            "trace(1 x)",
            "trace(-1 2)",
            "trace(+1)",
            "trace(1x0)",
            "trace(1.5)",
            "trace(4294967296)",
            "trace(1x4294967295 1x4294967295)",
            "trace(1) twice",
            "trace(1",
            "trace(1))",
            &many,
            &long,
        ] {
            assert!(text.parse::<LinkRate>().is_err(), "{text:.40}");
        }
        for laws in ["rate trace", "rate 1M once", "rate trace 1 2", "rate 1M (1 2)"] {
            assert!(matches!(laws.parse::<Laws>(), Err(ModelError::Value { .. })), "{laws}");
        }
        for (laws, refused) in [
            ("rate trace(1) burst 1K", "impairment.rate.burst"),
            ("rate trace(1) overhead 1001", "impairment.rate.overhead_bytes"),
        ] {
            let Err(ModelError::Field { field, .. }) = laws.parse::<Laws>() else { panic!() };
            assert_eq!(field, refused, "{laws}");
        }
    }

    #[test]
    fn an_invalid_file_is_refused_by_its_line() {
        for (text, line) in [
            ("", "line 1"),
            ("0\n0\n", "line 2"),
            ("1\n\n2\n", "line 2"),
            ("1\n2\n1\n", "line 3"),
            ("1\n2 3\n", "line 2"),
            ("# trace\n1\n", "line 1"),
            (&"1\n".repeat(MAX_OPPORTUNITIES as usize + 1), "line 1000001"),
            (&"10000000\n".repeat(MAX_TRACE_BYTES / 9 + 1), "line 1"),
        ] {
            let Err(ModelError::Field { field, .. }) = DeliveryTrace::from_lines(text) else {
                panic!("{text:.40}")
            };
            assert_eq!(field, line, "{text:.40}");
        }
    }
}
