//! Wire format of classic ttcp. A stream carries only data and ends with its connection. Datagrams have no sequence
//! numbers; one of up to 4 bytes is a marker: the first starts a test, the next one ends it.

use weir_traffic::session::{DatagramSocket, Signal, Signals};

/// TCP and UDP port.
pub(super) const PORT: u16 = 5001;
/// Bytes of a buffer; each buffer is written by one call.
pub(super) const BUFFER_BYTES: u64 = 8192;
/// Buffers of a test.
pub(super) const BUFFERS: u64 = 2048;
/// Alignment of the buffers in memory, printed in the first line of output.
pub(super) const ALIGNMENT: u32 = 16_384;

/// A datagram of up to this many bytes is a marker.
pub(super) const MARKER_BYTES: usize = 4;
/// The marker that Weir sends.
pub(super) const MARKER: [u8; MARKER_BYTES] = *b" !\"#";
/// Markers sent to end a test, since each may be lost.
pub(super) const END_MARKERS: usize = 5;

/// Whether a datagram is a marker.
pub(super) fn is_marker(datagram: &[u8]) -> bool {
    datagram.len() <= MARKER_BYTES
}

/// Recognizes the markers of a test whose data has started to arrive: the first one ends the test.
#[derive(Debug, Default)]
pub(super) struct EndMarker {
    is_seen: bool,
}

impl Signals for EndMarker {
    // A ttcp receiver sends nothing.
    fn classify(&mut self, _: &dyn DatagramSocket, datagram: &[u8], _: u64) -> Signal {
        match is_marker(datagram) {
            false => Signal::Data,
            true if std::mem::replace(&mut self.is_seen, true) => Signal::Message,
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
    fn the_marker_sent_is_recognized() {
        assert!(is_marker(&MARKER) && is_marker(&[]));
    }
}
