//! The bytes of classic ttcp. A stream is data alone and ends with its connection. Datagrams are numbered by nothing; one
//! of up to 4 bytes is a marker: the first starts a test, the next one ends it.

use weir_traffic::session::{DatagramSocket, Signal, Signals};

/// TCP and UDP port.
pub(super) const PORT: u16 = 5001;
/// Bytes of a buffer, each written by one call.
pub(super) const BUFFER_BYTES: u64 = 8192;
/// Buffers of a test.
pub(super) const BUFFERS: u64 = 2048;
/// Alignment of the buffers in memory, which the first line of output states.
pub(super) const ALIGNMENT: u64 = 16_384;

/// A datagram of up to this many bytes is a marker.
pub(super) const MARKER_BYTES: usize = 4;
/// The marker that is sent.
pub(super) const MARKER: [u8; MARKER_BYTES] = *b" !\"#";
/// How many of them end a test, since each may be lost.
pub(super) const END_MARKERS: usize = 5;

/// Whether a datagram is a marker.
pub(super) fn is_marker(datagram: &[u8]) -> bool {
    datagram.len() <= MARKER_BYTES
}

/// Markers among the datagrams of a test whose first data has arrived: the first of them ends it.
#[derive(Debug, Default)]
pub(super) struct EndMarker {
    has_come: bool,
}

impl Signals for EndMarker {
    // A receiver answers nothing.
    fn classify(&mut self, _: &dyn DatagramSocket, datagram: &[u8], _: u64) -> Signal {
        match is_marker(datagram) {
            false => Signal::Data,
            true if std::mem::replace(&mut self.has_come, true) => Signal::Message,
            true => Signal::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_datagram_is_a_marker_or_data_by_its_size_alone(datagram: Vec<u8>) {
            prop_assert_eq!(is_marker(&datagram), datagram.len() < 5);
        }
    }

    #[test]
    fn what_is_sent_as_a_marker_is_one() {
        assert!(is_marker(&MARKER) && is_marker(&[]));
    }
}
