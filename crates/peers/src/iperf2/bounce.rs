//! Tests of round trips (`--bounceback`) over TCP: each request begins with a header of 60 bytes, and the server sends the request
//! back with its own times. Its size and how long the server waits are in the header; its end is that of the connection.

use weir_model::plan::FlowSpec;
use weir_model::units::SendRate;
use weir_net::tcp::TcpStream;
use weir_traffic::session::{FramedStream, Framing};

use super::codec::flag;

/// Bytes of the header.
pub(super) const BYTES: usize = 60;
/// Largest request, bytes.
pub(super) const MAX_BYTES: u64 = 64 << 10;
/// Longest wait of the server, µs.
pub(super) const MAX_HOLD_US: u32 = 10_000_000;
/// Flag: the server acknowledges segments without a delay.
const QUICK_ACK: u16 = 0x8000;
/// Where the times of the server are.
const SERVER_TIMES: usize = 28;
/// What fills the header.
const FILL: u8 = 0x5a;

/// A header of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounce {
    /// Bytes of a request, and of its response.
    pub(super) size: u32,
    /// Number of the burst that the request is a part of, from 1.
    pub(super) burst: u32,
    /// The client asks for acknowledgements without a delay.
    pub(super) quick_ack: bool,
    pub(super) tos: u8,
    /// How long the server waits before its response, µs.
    pub(super) hold_us: u32,
}

impl Bounce {
    /// Reads a header; `None` for anything else, and for sizes that can't be served.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let header = bytes.first_chunk::<BYTES>()?;
        let word =
            |at: usize| header[at..].first_chunk::<4>().copied().map_or(0, u32::from_be_bytes);
        let bounce = Bounce {
            size: word(4),
            burst: word(8),
            quick_ack: (word(12) >> 16) as u16 & QUICK_ACK != 0,
            tos: word(16) as u8,
            hold_us: word(44),
        };
        let is_valid = word(0) == flag::BOUNCE
            && (BYTES as u64..=MAX_BYTES).contains(&u64::from(bounce.size))
            && bounce.hold_us <= MAX_HOLD_US;
        is_valid.then_some(bounce)
    }

    /// Writes the header of a request whose sending begins at `realtime_ns`.
    fn write(&self, realtime_ns: u64, header: &mut [u8]) {
        header.fill(FILL);
        let flags = if self.quick_ack { QUICK_ACK } else { 0 };
        let filled = u32::from(u16::from_be_bytes([FILL; 2]));
        let [seconds, us] = time(realtime_ns);
        let missing = u32::MAX;
        let words = [
            flag::BOUNCE,
            self.size,
            self.burst,
            u32::from(flags) << 16 | filled,
            self.tos.into(),
            seconds,
            us,
            missing,
            missing,
            missing,
            missing,
            self.hold_us,
        ];
        put(header, 0, &words);
    }
}

fn time(realtime_ns: u64) -> [u32; 2] {
    [(realtime_ns / 1_000_000_000) as u32, (realtime_ns % 1_000_000_000 / 1000) as u32]
}

fn put(header: &mut [u8], at: usize, words: &[u32]) {
    let Some(rest) = header.get_mut(at..) else { return };
    for (bytes, word) in rest.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
}

/// The headers of a client's requests.
struct Requests {
    bounce: Bounce,
    /// Requests of a burst.
    burst: u64,
}

impl Framing for Requests {
    fn header_bytes(&self) -> usize {
        BYTES
    }

    fn write(&mut self, number: u64, _: usize, realtime_ns: u64, header: &mut [u8]) {
        let burst = (number / self.burst.max(1)) as u32;
        Bounce { burst: burst.wrapping_add(1), ..self.bounce }.write(realtime_ns, header);
    }
}

/// The headers of a server's responses: those of the requests, with the server's times.
#[derive(Default)]
struct Responses {
    arrived: [u32; 2],
}

impl Framing for Responses {
    fn header_bytes(&self) -> usize {
        BYTES
    }

    fn write(&mut self, _: u64, _: usize, realtime_ns: u64, header: &mut [u8]) {
        let [seconds, us] = time(realtime_ns);
        put(header, SERVER_TIMES, &[self.arrived[0], self.arrived[1], seconds, us]);
    }

    fn arrived(&mut self, realtime_ns: u64) {
        self.arrived = time(realtime_ns);
    }
}

/// A client's connection. `hold_us`: how long the server is to wait before each response.
pub(super) fn requests(
    spec: &FlowSpec,
    stream: TcpStream,
    hold_us: u32,
    quick_ack: bool,
) -> FramedStream {
    let connection = &spec.connection;
    let bounce = Bounce {
        size: connection.request_bytes() as u32,
        burst: 1,
        quick_ack,
        tos: connection.tos().unwrap_or(0),
        hold_us,
    };
    let burst = connection.rate.map_or(1, |SendRate { burst, .. }| burst.into());
    FramedStream {
        stream,
        framing: Box::new(Requests { bounce, burst }),
        hold_ns: 0,
        begun: vec![],
    }
}

/// A server's connection, of which the first header was read.
pub(super) fn responses(bounce: &Bounce, stream: TcpStream, begun: Vec<u8>) -> FramedStream {
    FramedStream {
        stream,
        framing: Box::<Responses>::default(),
        hold_ns: u64::from(bounce.hold_us) * 1000,
        begun,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLIENT_TIME: usize = 20;

    #[test]
    fn a_header_is_written_as_iperf_writes_it() {
        // `iperf -c HOST --bounceback=3 --bounceback-period=0.2 --bounceback-hold=5` (2.1.8), second burst.
        let want = "00800000000000640000000280005a5a000000006b0c86b6000a0e3cffffffffffffffffffffffffffffffff000013885a5a5a5a5a5a5a5a5a5a5a5a";
        let want: Vec<u8> = (0..want.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&want[at..at + 2], 16).unwrap())
            .collect();
        let bounce = Bounce { size: 100, burst: 1, quick_ack: true, tos: 0, hold_us: 5000 };
        assert_eq!(Bounce::parse(&want), Some(Bounce { burst: 2, ..bounce }));
        let mut header = vec![0; BYTES];
        let at_ns = 0x6b0c_86b6 * 1_000_000_000 + 0x000a_0e3c * 1000;
        let mut requests = Requests { bounce, burst: 3 };
        requests.write(3, 100, at_ns, &mut header);
        assert_eq!(header, want);
        // The server changes its own times alone.
        let mut responses = Responses::default();
        responses.arrived(1_000_002_000);
        responses.write(0, 100, 3_000_004_999, &mut header);
        assert_eq!(header[SERVER_TIMES..44], [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]);
        assert_eq!((&header[..SERVER_TIMES], &header[44..]), (&want[..SERVER_TIMES], &want[44..]));
        assert_eq!(header[CLIENT_TIME..CLIENT_TIME + 4], 0x6b0c_86b6_u32.to_be_bytes());
    }

    #[test]
    fn sizes_and_waits_are_limited() {
        let bounce = Bounce { size: 100, burst: 1, quick_ack: false, tos: 0, hold_us: 0 };
        let mut header = vec![0; BYTES];
        for (size, hold_us, is_valid) in [
            (60, 0, true),
            (65_536, MAX_HOLD_US, true),
            (59, 0, false),
            (65_537, 0, false),
            (u32::MAX, 0, false),
            (100, MAX_HOLD_US + 1, false),
        ] {
            Bounce { size, hold_us, ..bounce }.write(0, &mut header);
            assert_eq!(Bounce::parse(&header).is_some(), is_valid, "{size} {hold_us}");
        }
        assert_eq!(Bounce::parse(&header[..BYTES - 1]), None);
    }

    proptest! {
        #[test]
        fn a_written_header_is_read(
            size in 60_u32..=65_536,
            (burst, tos, quick_ack) in any::<(u32, u8, bool)>(),
            hold_us in 0..=MAX_HOLD_US,
        ) {
            let bounce = Bounce { size, burst, quick_ack, tos, hold_us };
            let mut header = vec![0; BYTES];
            bounce.write(1, &mut header);
            prop_assert_eq!(Bounce::parse(&header), Some(bounce));
        }
    }
}
