//! Messages of iperf2: the client's header, which begins a stream and each datagram behind its number and time; the server's
//! acknowledgement of a stream's header; and the server's report of datagrams.
//!
//! Layouts are those of iperf 2.1.8, which has no specification besides the program. All fields are big-endian words of 32 bits
//! unless stated otherwise.

use weir_wire::header::iperf2::{narrow_number, wide_number};

/// Bits of the first word of a client's header. Without the first three there is no header.
pub(super) mod flag {
    pub(crate) const VERSION1: u32 = 0x8000_0000;
    pub(crate) const EXTENDED: u32 = 0x4000_0000;
    pub(crate) const VERSION2: u32 = 0x0400_0000;
    /// The extension has settings of datagrams.
    pub(crate) const DATAGRAMS: u32 = 0x2000_0000;
    /// A permit key follows the header.
    pub(crate) const KEY: u32 = 0x1000_0000;
    /// Datagrams have 64-bit numbers.
    pub(crate) const WIDE: u32 = 0x0800_0000;
    /// The client awaits an acknowledgement.
    pub(crate) const AWAITS: u32 = 0x0200_0000;
    /// A test of round trips, whose header has another layout.
    pub(crate) const BOUNCE: u32 = 0x0080_0000;
    /// The length of the header is stated.
    pub(crate) const LENGTH: u32 = 0x0001_0000;
    /// With version 1: the server sends at the same time.
    pub(crate) const NOW: u32 = 1;
}

/// Bits of the extension's flags.
mod upper {
    pub(super) const ISOCHRONOUS: u16 = 0x0001;
    /// Of datagrams: the frames that the server is to send are stated.
    pub(super) const FRAMES: u16 = 0x0040;
    pub(super) const NO_REPORT: u16 = 0x0008;
    pub(super) const TRIP_TIMES: u16 = 0x0010;
    pub(super) const REVERSE: u16 = 0x0400;
    pub(super) const FULL_DUPLEX: u16 = 0x0800;
    pub(super) const BURSTS: u16 = 0x2000;
}

/// Bytes of the basic header, and of its extension.
pub(super) const BASE_BYTES: usize = 24;
const EXTENSION_BYTES: usize = 36;
/// Bytes of a header without fields of special tests.
pub(super) const HEADER_BYTES: usize = BASE_BYTES + EXTENSION_BYTES;
/// Bytes of a datagram's fields of isochronous frames, behind the header.
const FRAME_BYTES: usize = 32;
/// Bytes of the times of a test, behind the header or the fields of its frame.
const START_BYTES: usize = 20;
/// Bytes of the frames that the server is to send, behind these.
const ASKED_BYTES: usize = 32;
/// Bytes of a datagram that states them.
pub(super) const ASKING_BYTES: usize =
    NUMBER_BYTES + HEADER_BYTES + FRAME_BYTES + START_BYTES + ASKED_BYTES;
/// Bytes of a datagram's number and time, in front of the header.
pub(super) const NUMBER_BYTES: usize = 16;
/// The same of a datagram with a 32-bit number.
pub(super) const NARROW_BYTES: usize = 12;
/// Bytes of an acknowledgement, without and with times.
pub(super) const ACK_BYTES: usize = 28;
const TIMED_ACK_BYTES: usize = 52;
/// Type of an acknowledgement.
const ACK_TYPE: u32 = 2;
/// The version whose protocol this is, 2.1.8, as iperf2 writes it.
const VERSION: [u32; 2] = [0x0002_0001, 0x0008_0003];
/// Bytes of the server's report: number and time, which are 0, the report of version 1, and two extensions.
pub(super) const REPORT_BYTES: usize = 128;
/// Bytes of the report of version 1, with the number and time before it.
const BASE_REPORT_BYTES: usize = NUMBER_BYTES + 40;
/// Where the upper halves of counts begin.
const WIDE_COUNTS: usize = 116;

/// How much is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Amount {
    /// For a time, in units of 10 ms.
    Time(u32),
    /// This many bytes, at most 2³¹ − 1.
    Bytes(u32),
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// The client.
    Forward,
    /// The server, on the client's connection or to its source.
    Reverse,
    /// Both, likewise.
    FullDuplex,
    /// Both, and the server connects back to the client (`-d`).
    Dual,
    /// The client, then the server, which connects back (`-r`).
    TradeOff,
}

/// A client's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) mode: Mode,
    /// Datagrams have 64-bit numbers.
    pub(super) is_wide: bool,
    /// A permit key follows.
    pub(super) has_key: bool,
    /// Data is sent in bursts at a period.
    pub(super) has_bursts: bool,
    /// Data is sent as isochronous frames.
    pub(super) is_isochronous: bool,
    /// Those that the server is to send.
    pub(super) frames: Option<AskedFrames>,
    /// An acknowledgement is due.
    pub(super) awaits_ack: bool,
    /// Times of the acknowledgement are due.
    pub(super) has_trip_times: bool,
    /// No report of datagrams is due.
    pub(super) wants_no_report: bool,
    /// Streams or sources of datagrams of the test.
    pub(super) streams: u32,
    /// The port of the test.
    pub(super) port: u32,
    /// Bytes of a write or a datagram; 0: the server's default.
    pub(super) block_bytes: u32,
    pub(super) amount: Amount,
    pub(super) tos: u8,
    /// Payload rate, bit/s; 0: not stated.
    pub(super) rate: u64,
    /// Seconds and microseconds of the client's start.
    pub(super) start: [u32; 2],
}

/// The isochronous frames that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AskedFrames {
    /// Frames per second, and millionths of one.
    pub(super) per_second: [u32; 2],
    /// Mean rate, bit/s.
    pub(super) mean: u32,
    /// Standard deviation of the rate, bit/s.
    pub(super) deviation: u32,
}

impl AskedFrames {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let asked = bytes.first_chunk::<ASKED_BYTES>()?;
        let field = |index: usize| word(asked, 4 * index).unwrap_or(0);
        // iperf leaves the upper halves of rates 0, also where they have one.
        Some(AskedFrames { per_second: [0, 1].map(field), mean: field(2), deviation: field(4) })
    }

    fn bytes(self) -> [u8; ASKED_BYTES] {
        let [whole, millionths] = self.per_second;
        // No pause between the datagrams of a frame.
        let words = [whole, millionths, self.mean, 0, self.deviation, 0, 0, 0];
        let mut out = [0; ASKED_BYTES];
        for (bytes, word) in out.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        out
    }
}

/// What a stream begins with, by its first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    /// Data.
    Raw,
    /// A header of this many bytes, the first word included.
    Header(usize),
    /// The header of a test of round trips.
    Bounce,
}

impl Beginning {
    pub(super) fn of(first: [u8; 4]) -> Self {
        let flags = u32::from_be_bytes(first);
        if flags & (flag::VERSION1 | flag::EXTENDED | flag::VERSION2) == 0 {
            return if flags & flag::BOUNCE != 0 && flags & !flag::BOUNCE == 0 {
                Beginning::Bounce
            } else {
                Beginning::Raw
            };
        }
        let stated = (flags >> 1 & 0xff) as usize;
        let length = match flags & flag::LENGTH {
            0 if flags & (flag::EXTENDED | flag::VERSION2) != 0 => HEADER_BYTES,
            0 => BASE_BYTES,
            _ => stated.max(BASE_BYTES),
        };
        Beginning::Header(length)
    }
}

/// The word at a byte offset; `None` beyond the end.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*word))
}

impl Header {
    /// The header of a stream.
    pub(super) fn of_stream(bytes: &[u8]) -> Option<Self> {
        Header::parse(bytes, HEADER_BYTES)
    }

    /// The header of a datagram; `None`: it has none, as those of clients before 2.0.10.
    pub(super) fn of_datagram(bytes: &[u8]) -> Option<Self> {
        Header::parse(bytes.get(NUMBER_BYTES..)?, HEADER_BYTES + FRAME_BYTES)
    }

    /// Reads a header whose start times are at `start`.
    fn parse(bytes: &[u8], start: usize) -> Option<Self> {
        let base = bytes.first_chunk::<BASE_BYTES>()?;
        let field = |index: usize| word(base, 4 * index).unwrap_or(0);
        let flags = field(0);
        if flags & (flag::VERSION1 | flag::EXTENDED | flag::VERSION2) == 0 {
            return None;
        }
        let has_extension = flags & (flag::EXTENDED | flag::VERSION2) != 0;
        let extension = if has_extension { bytes.get(BASE_BYTES..HEADER_BYTES) } else { None };
        let extended = |at: usize| extension.and_then(|bytes| word(bytes, at)).unwrap_or(0);
        let upper = (extended(8) >> 16) as u16;
        let is_second = flags & flag::VERSION2 != 0;
        let mode = match (flags & flag::VERSION1 != 0, is_second) {
            (true, false) if flags & flag::NOW != 0 => Mode::Dual,
            (true, false) => Mode::TradeOff,
            (_, true) if upper & upper::FULL_DUPLEX != 0 => Mode::FullDuplex,
            (_, true) if upper & upper::REVERSE != 0 => Mode::Reverse,
            _ => Mode::Forward,
        };
        let amount = field(5);
        let is_isochronous = upper & upper::ISOCHRONOUS != 0;
        let server_sends = matches!(mode, Mode::Reverse | Mode::FullDuplex);
        let asked = bytes.get(start + START_BYTES..).filter(|_| is_isochronous && server_sends);
        Some(Header {
            mode,
            is_wide: flags & flag::WIDE != 0,
            has_key: flags & flag::KEY != 0,
            has_bursts: upper & upper::BURSTS != 0,
            is_isochronous,
            frames: asked.and_then(AskedFrames::parse),
            awaits_ack: flags & flag::AWAITS != 0 || flags & flag::EXTENDED != 0 && !is_second,
            has_trip_times: upper & upper::TRIP_TIMES != 0,
            wants_no_report: upper & upper::NO_REPORT != 0,
            streams: field(1),
            port: field(2),
            block_bytes: field(3),
            amount: match i32::from_ne_bytes(amount.to_ne_bytes()) {
                time @ ..0 => Amount::Time(time.unsigned_abs()),
                _ => Amount::Bytes(amount),
            },
            tos: extended(20) as u8,
            rate: u64::from(extended(24)) | u64::from(extended(28) >> 8) << 32,
            start: [4, 8].map(|at| word(bytes, start + at).unwrap_or(0)),
        })
    }

    /// The header of a test in which the server connects back to `port` of the client: after the client has sent, or at the same
    /// time.
    pub(super) fn calling_back(self, port: u16, is_after: bool, is_datagrams: bool) -> Self {
        Header {
            mode: if is_after { Mode::TradeOff } else { Mode::Dual },
            port: port.into(),
            awaits_ack: !is_datagrams,
            wants_no_report: false,
            ..self
        }
    }

    /// Its bytes in front of a stream.
    pub(super) fn stream_bytes(&self) -> [u8; HEADER_BYTES] {
        self.bytes(0, HEADER_BYTES)
    }

    /// Its bytes behind the number and time of each datagram.
    pub(super) fn datagram_bytes(&self) -> [u8; HEADER_BYTES] {
        let settings = match self.mode {
            Mode::Reverse | Mode::FullDuplex => flag::DATAGRAMS,
            _ if self.wants_no_report || self.is_isochronous => flag::DATAGRAMS,
            _ => 0,
        };
        let wide = if self.is_wide { flag::WIDE } else { 0 };
        let frame = if self.is_isochronous { FRAME_BYTES } else { 0 };
        // iperf does not count the times.
        let asked = self.frames.map_or(0, |_| ASKED_BYTES);
        self.bytes(settings | wide, NUMBER_BYTES + HEADER_BYTES + frame + asked)
    }

    /// What follows the number and time of the first datagram: the header, and the frames that the server is to send.
    pub(super) fn request_bytes(&self) -> Vec<u8> {
        let mut out = self.datagram_bytes().to_vec();
        if let Some(frames) = self.frames {
            out.resize(HEADER_BYTES + FRAME_BYTES + START_BYTES, 0);
            out.extend_from_slice(&frames.bytes());
        }
        out
    }

    /// Its bytes in front of each of a stream's isochronous frames, which state the time, 0 here.
    pub(super) fn frame_bytes(&self) -> [u8; HEADER_BYTES + START_BYTES] {
        let mut out = [0; HEADER_BYTES + START_BYTES];
        let header = self.bytes(0, out.len() + self.frames.map_or(0, |_| ASKED_BYTES));
        out[..HEADER_BYTES].copy_from_slice(&header);
        out
    }

    /// Its bytes in front of a stream, which has frames or not.
    pub(super) fn opening_bytes(&self) -> Vec<u8> {
        if !self.is_isochronous {
            return self.stream_bytes().to_vec();
        }
        let asked = self.frames.map(AskedFrames::bytes);
        [&self.frame_bytes()[..], asked.as_ref().map_or(&[], |asked| &asked[..])].concat()
    }

    fn bytes(&self, more: u32, length: usize) -> [u8; HEADER_BYTES] {
        let mut upper = 0;
        let mode = match self.mode {
            Mode::Forward => 0,
            Mode::Reverse => {
                upper |= upper::REVERSE;
                flag::VERSION2
            }
            Mode::FullDuplex => {
                upper |= upper::FULL_DUPLEX;
                flag::VERSION2
            }
            Mode::Dual => flag::VERSION1 | flag::NOW,
            Mode::TradeOff => flag::VERSION1,
        };
        if self.wants_no_report {
            upper |= upper::NO_REPORT;
        }
        if self.is_isochronous {
            upper |= upper::ISOCHRONOUS;
        }
        if self.frames.is_some() && more & flag::DATAGRAMS != 0 {
            upper |= upper::FRAMES;
        }
        let length = flag::LENGTH | (length as u32) << 1;
        let amount = match self.amount {
            Amount::Time(time) => 0u32.wrapping_sub(time),
            Amount::Bytes(bytes) => bytes & i32::MAX as u32,
        };
        let words = [
            flag::EXTENDED | mode | more | length,
            self.streams,
            self.port,
            self.block_bytes,
            0,
            amount,
            0,
            0,
            u32::from(upper) << 16,
            VERSION[0],
            VERSION[1],
            self.tos.into(),
            self.rate as u32,
            ((self.rate >> 32) as u32) << 8,
            0,
        ];
        let mut out = [0; HEADER_BYTES];
        for (bytes, word) in out.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        out
    }
}

/// Times of an acknowledgement, in seconds and microseconds: the client's start as it stated it, when its header arrived, and
/// when the acknowledgement was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AckTimes {
    pub(super) sent: [u32; 2],
    pub(super) arrived: [u32; 2],
    pub(super) answered: [u32; 2],
}

/// The acknowledgement of a stream's header.
pub(super) fn ack(times: Option<AckTimes>) -> Vec<u8> {
    let length = if times.is_some() { TIMED_ACK_BYTES } else { ACK_BYTES };
    let words = [ACK_TYPE, length as u32, 0, VERSION[0], VERSION[1], 0, 0];
    let times = times.map(|times| [times.sent, times.arrived, times.answered]);
    let times = times.into_iter().flatten().flatten();
    words.into_iter().chain(times).flat_map(u32::to_be_bytes).collect()
}

/// Whether bytes are an acknowledgement without times.
pub(super) fn is_ack(bytes: &[u8; ACK_BYTES]) -> bool {
    word(bytes, 0) == Some(ACK_TYPE) && word(bytes, 4) == Some(ACK_BYTES as u32)
}

/// Width of a datagram's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Wide,
    Narrow,
}

impl Width {
    /// The number of a datagram, negative if it is the last one; `None`: it is too short.
    pub(super) fn number(self, datagram: &[u8]) -> Option<i64> {
        match self {
            Width::Wide => wide_number(datagram),
            Width::Narrow if datagram.len() < NARROW_BYTES => None,
            Width::Narrow => narrow_number(datagram).map(i64::from),
        }
    }

    /// Makes a datagram the last one.
    pub(super) fn negate(self, datagram: &mut [u8]) {
        let Some(number) = self.number(datagram) else { return };
        let last = number.wrapping_neg();
        datagram[..4].copy_from_slice(&(last as u32).to_be_bytes());
        if self == Width::Wide {
            datagram[12..16].copy_from_slice(&((last >> 32) as u32).to_be_bytes());
        }
    }
}

/// The server's report of the datagrams of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Report {
    /// Bytes that arrived.
    pub(super) bytes: u64,
    /// Time from the first datagram to the last, µs.
    pub(super) time_us: u64,
    /// Datagrams that were sent, by the last one's number.
    pub(super) datagrams: u64,
    /// Datagrams that did not arrive.
    pub(super) lost: u64,
    /// Datagrams that arrived after one with a higher number.
    pub(super) out_of_order: u64,
    pub(super) jitter_us: u64,
}

impl Report {
    /// Reads a report; `None` for anything else.
    pub(super) fn parse(datagram: &[u8]) -> Option<Self> {
        let base = datagram.first_chunk::<BASE_REPORT_BYTES>()?;
        let field = |index: usize| u64::from(word(base, NUMBER_BYTES + 4 * index).unwrap_or(0));
        let flags = field(0) as u32;
        if flags & flag::VERSION1 == 0 {
            return None;
        }
        let is_wide = flags & flag::WIDE != 0;
        let high = |index: usize| match is_wide {
            true => u64::from(word(datagram, WIDE_COUNTS + 4 * index).unwrap_or(0)) << 32,
            false => 0,
        };
        let time = |index: usize| field(index) * 1_000_000 + field(index + 1);
        Some(Report {
            bytes: field(1) << 32 | field(2),
            time_us: time(3),
            lost: high(0) | field(5),
            out_of_order: high(1) | field(6),
            datagrams: high(2) | field(7),
            jitter_us: time(8),
        })
    }

    /// Its bytes as a datagram. Delays, which only synchronised clocks could tell, are absent.
    pub(super) fn to_bytes(self) -> [u8; REPORT_BYTES] {
        let split = |us: u64| [us / 1_000_000, us % 1_000_000];
        let ([seconds, rest], [jitter, jitter_us]) = (split(self.time_us), split(self.jitter_us));
        let base = [
            u64::from(flag::VERSION1 | flag::WIDE),
            self.bytes >> 32,
            self.bytes,
            seconds,
            rest,
            self.lost,
            self.out_of_order,
            self.datagrams,
            jitter,
            jitter_us,
        ];
        let high = [self.lost >> 32, self.out_of_order >> 32, self.datagrams >> 32];
        let mut out = [0; REPORT_BYTES];
        for (at, words) in [(NUMBER_BYTES, &base[..]), (WIDE_COUNTS, &high)] {
            for (bytes, word) in out[at..].chunks_exact_mut(4).zip(words) {
                bytes.copy_from_slice(&(*word as u32).to_be_bytes());
            }
        }
        out
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(in crate::iperf2) fn bytes(words: &str) -> Vec<u8> {
        let words = words.replace(' ', "");
        let hex = |i| u8::from_str_radix(&words[i..i + 2], 16).unwrap();
        (0..words.len()).step_by(2).map(hex).collect()
    }

    /// `iperf -c HOST -n 100K`, `-X`, `-R`, `--full-duplex`, and of `--trip-times -b 10m -l 50K -n 300K` (2.1.8).
    pub(in crate::iperf2) const STREAMS: [&str; 5] = [
        "400100780000000100003e82000000000000000000019000000000000000000000000000000200010008000300000000000000000000000000000000",
        "460100780000000100003e83000000000000000000019000000000000000000000000000000200010008000300000000000000000000000000000000",
        "440100780000000100003e84000000000000000000019000000000000000000004000000000200010008000300000000000000000000000000000000",
        "440100780000000100003e85000000000000000000019000000000000000000008000000000200010008000300000000000000000000000000000000",
        "400100a00000000100003e890000c80000000000000004b0000000000000000000100000000200010008000300000000009896800000000000000000",
    ];

    #[test]
    fn captured_headers_of_streams_are_read() {
        for (text, mode, awaits_ack) in [
            (STREAMS[0], Mode::Forward, true),
            (STREAMS[1], Mode::Forward, true),
            (STREAMS[2], Mode::Reverse, false),
            (STREAMS[3], Mode::FullDuplex, false),
        ] {
            let bytes = bytes(text);
            let first = bytes[..4].try_into().unwrap();
            assert_eq!(Beginning::of(first), Beginning::Header(HEADER_BYTES));
            let header = Header::of_stream(&bytes).unwrap();
            assert_eq!((header.mode, header.awaits_ack), (mode, awaits_ack), "{text}");
            assert_eq!((header.streams, header.block_bytes, header.rate), (1, 0, 0));
            assert_eq!(header.amount, Amount::Bytes(100 << 10));
            assert!(!header.has_key && !header.has_trip_times && !header.has_bursts);
        }
        let bytes = bytes(STREAMS[4]);
        assert_eq!(Beginning::of([0x40, 1, 0, 0xa0]), Beginning::Header(80));
        let header = Header::of_stream(&bytes).unwrap();
        assert!(header.has_trip_times && header.awaits_ack);
        assert_eq!((header.rate, header.block_bytes), (10_000_000, 51_200));
    }

    #[test]
    fn a_header_is_written_as_iperf_writes_it() {
        for (index, mode) in [(0, Mode::Forward), (2, Mode::Reverse), (3, Mode::FullDuplex)] {
            let want = bytes(STREAMS[index]);
            let header = Header::of_stream(&want).unwrap();
            assert_eq!(header.mode, mode);
            assert_eq!(header.stream_bytes()[..], want[..], "{mode:?}");
        }
        // Of `iperf -u -b 200k -t 1`, and of the same with -R.
        for text in [
            "48010098 00000001 00003e81 00000000 00000000 ffffff9c 00000000 00000000 00000000 00020001 00080003 00000000 00030d40 00000000 00000000",
            "6c010098 00000001 00003e86 00000000 00000000 ffffff9c 00000000 00000000 04000000 00020001 00080003 00000000 00030d40 00000000 00000000",
        ] {
            let want = bytes(text);
            let datagram = [&[0; NUMBER_BYTES][..], &want].concat();
            let header = Header::of_datagram(&datagram).unwrap();
            assert_eq!((header.amount, header.rate), (Amount::Time(100), 200_000));
            assert!(header.is_wide);
            assert_eq!(header.datagram_bytes()[..], want[..]);
        }
    }

    #[test]
    fn data_without_a_header_is_raw() {
        for first in [*b"0123", *b" !\"#", [0; 4], [0, 0, 0, 1], [0x20, 0, 0, 0]] {
            assert_eq!(Beginning::of(first), Beginning::Raw);
            assert_eq!(Header::of_stream(&[&first[..], &[0; 60]].concat()), None);
        }
        assert_eq!(Beginning::of([0, 0x80, 0, 0]), Beginning::Bounce);
        // The clients of 2.0.5 with -d and -r.
        assert_eq!(Beginning::of([0x80, 0, 0, 1]), Beginning::Header(BASE_BYTES));
        let header =
            |flags: u32| Header::of_stream(&[flags.to_be_bytes().to_vec(), vec![0; 20]].concat());
        assert_eq!(header(0x8000_0001).map(|header| header.mode), Some(Mode::Dual));
        assert_eq!(header(0x8000_0000).map(|header| header.mode), Some(Mode::TradeOff));
        // A stated length is at least that of the basic header.
        assert_eq!(Beginning::of([0x40, 1, 0, 2]), Beginning::Header(BASE_BYTES));
    }

    #[test]
    fn acknowledgements_are_those_of_iperf() {
        let plain = ack(None);
        assert_eq!(plain, bytes("000000020000001c0000000000020001000800030000000000000000"));
        assert!(is_ack(plain[..].try_into().unwrap()));
        let times = AckTimes { sent: [1, 2], arrived: [3, 4], answered: [5, 6] };
        let timed = ack(Some(times));
        assert_eq!((timed.len(), timed[7]), (TIMED_ACK_BYTES, TIMED_ACK_BYTES as u8));
        assert!(!is_ack(timed[..ACK_BYTES].try_into().unwrap()));
    }

    #[test]
    fn a_captured_report_is_read() {
        let datagram = bytes(
            "00000000000000000000000000000000c80000000000000000007896000000010001ca590000000000000000000000150000000000000004000000000000000300000000000000550000000000000289000000000000001e00000ec5000c5a3300000000fffffffe000000150000001200000001000000000000000000000000",
        );
        assert_eq!(datagram.len(), REPORT_BYTES);
        let want = Report {
            bytes: 30_870,
            time_us: 1_117_337,
            datagrams: 21,
            jitter_us: 4,
            ..Report::default()
        };
        assert_eq!(Report::parse(&datagram), Some(want));
        assert_eq!(Report::parse(&datagram[..BASE_REPORT_BYTES - 1]), None);
    }

    #[test]
    fn the_last_number_is_negative() {
        let mut datagram = [0; 20];
        datagram[..4].copy_from_slice(&7u32.to_be_bytes());
        for width in [Width::Wide, Width::Narrow] {
            let mut last = datagram;
            width.negate(&mut last);
            assert_eq!(width.number(&last), Some(-7));
        }
        assert_eq!(Width::Wide.number(&datagram[..15]), None);
        assert_eq!(Width::Narrow.number(&datagram[..11]), None);
    }

    fn modes() -> impl Strategy<Value = Mode> {
        proptest::sample::select(&[
            Mode::Forward,
            Mode::Reverse,
            Mode::FullDuplex,
            Mode::Dual,
            Mode::TradeOff,
        ])
    }

    #[test]
    fn a_request_for_frames_is_written_as_iperf_writes_it() {
        let asked = AskedFrames { per_second: [7, 250_000], mean: 1_000_000, deviation: 500 };
        // `iperf -c HOST --isochronous=7.25:1m,0.5k -R -t 1 -l 500`; its time is left out.
        let want = bytes(
            "440100e0 00000001 00004274 000001f4 00000000 ffffff9c 00000000 00000000 04010000 00020001 00080003 00000000 00000000 00000000 00000000 \
             00000000 00000000 00000000 00000000 00000000 00000007 0003d090 000f4240 00000000 000001f4 00000000 00000000 00000000",
        );
        assert_eq!(Beginning::of([0x44, 1, 0, 0xe0]), Beginning::Header(112));
        let header = Header::of_stream(&want).unwrap();
        assert_eq!((header.mode, header.frames), (Mode::Reverse, Some(asked)));
        assert_eq!(header.opening_bytes(), want);
        // The same with -u and 400k,10k.
        let want = bytes(
            "00000001 00000000 00000000 00000000 6c010118 00000001 0000426c 000003e8 00000000 ffffff9c 00000000 00000000 04410000 00020001 \
             00080003 00000000 00100000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 \
             00000000 00000000 00000000 00000000 00000007 0003d090 00061a80 00000000 00002710 00000000 00000000 00000000",
        );
        let header = Header::of_datagram(&want).unwrap();
        let asked = AskedFrames { mean: 400_000, deviation: 10_000, ..asked };
        assert_eq!((header.mode, header.frames), (Mode::Reverse, Some(asked)));
        assert_eq!(header.request_bytes(), want[NUMBER_BYTES..]);
        assert_eq!(want.len(), ASKING_BYTES);
        // One that is cut off asks for none.
        assert_eq!(Header::of_datagram(&want[..ASKING_BYTES - 1]).unwrap().frames, None);
    }

    proptest! {
        #[test]
        fn a_written_header_is_read(
            mode in modes(),
            (streams, port, block_bytes) in any::<(u32, u32, u32)>(),
            time: bool,
            amount_of in 1u32..i32::MAX as u32,
            tos: u8,
            rate in 0u64..1 << 56,
            wants_no_report: bool,
        ) {
            let amount = if time { Amount::Time(amount_of) } else { Amount::Bytes(amount_of) };
            let header = Header {
                mode,
                is_wide: true,
                has_key: false,
                has_bursts: false,
                is_isochronous: false,
                frames: None,
                awaits_ack: !matches!(mode, Mode::Reverse | Mode::FullDuplex),
                has_trip_times: false,
                wants_no_report,
                streams,
                port,
                block_bytes,
                amount,
                tos,
                rate,
                start: [0; 2],
            };
            let datagram = [&[0; NUMBER_BYTES][..], &header.datagram_bytes()].concat();
            prop_assert_eq!(Header::of_datagram(&datagram), Some(header));
            let stream = Header { is_wide: false, ..header };
            prop_assert_eq!(Header::of_stream(&header.stream_bytes()), Some(stream));
            let is_back = matches!(mode, Mode::Reverse | Mode::FullDuplex);
            let asked = AskedFrames { per_second: [amount_of, 1], mean: port, deviation: streams };
            let frames = is_back.then_some(asked);
            let stream = Header { is_isochronous: true, frames, ..stream };
            prop_assert_eq!(Header::of_stream(&stream.opening_bytes()), Some(stream));
            let header = Header { is_isochronous: true, frames, ..header };
            let datagram = [&[0; NUMBER_BYTES][..], &header.request_bytes()].concat();
            prop_assert_eq!(Header::of_datagram(&datagram), Some(header));
        }

        #[test]
        fn a_written_report_is_read(
            bytes: u64,
            (time_us, jitter_us) in (0u64..1 << 50, 0u64..1 << 50),
            (datagrams, lost, out_of_order) in any::<(u64, u64, u64)>(),
        ) {
            let report = Report { bytes, time_us, datagrams, lost, out_of_order, jitter_us };
            prop_assert_eq!(Report::parse(&report.to_bytes()), Some(report));
        }
    }
}
