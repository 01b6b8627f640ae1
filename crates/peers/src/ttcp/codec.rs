//! Wire format of classic ttcp. A stream carries only data and ends with its connection. Datagrams have no sequence
//! numbers; one of up to 4 bytes is a marker: the first starts a test, the next one ends it.

use std::collections::VecDeque;
use std::net::SocketAddr;

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

/// Maximum number of sources of which a receiver of one test knows a first datagram.
const MAX_CANDIDATES: usize = 64;

/// The sources of which a receiver of a single test has one datagram. The sender of the test is the first source that
/// sends two datagrams, one of them data: a marker and data, or, as any marker may be lost, data and anything. So a
/// stray datagram, and the end markers of another test, leave the receiver free for its sender.
#[derive(Debug)]
pub(super) struct Candidates<T>(VecDeque<(SocketAddr, Option<T>)>);

impl<T> Default for Candidates<T> {
    fn default() -> Self {
        Candidates(VecDeque::new())
    }
}

impl<T> Candidates<T> {
    /// A datagram arrived from a source. If that is the sender, returns its data so far, and the marker that ends it
    /// if it is one.
    pub(super) fn add(&mut self, from: SocketAddr, is_marker: bool, datagram: T) -> Option<Vec<T>> {
        let known = self.0.iter().position(|(source, _)| *source == from);
        match known.and_then(|i| self.0.remove(i)) {
            Some((_, None)) if is_marker => {}
            Some((_, first)) => return Some(first.into_iter().chain([datagram]).collect()),
            None => {}
        }
        if self.0.len() == MAX_CANDIDATES {
            self.0.pop_front();
        }
        self.0.push_back((from, (!is_marker).then_some(datagram)));
        None
    }
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
    fn the_sender_of_a_test_sends_two_datagrams_one_of_them_data() {
        let source = |n: u8| SocketAddr::from(([192, 0, 2, n], 5001));
        let (marker, data) = (true, false);
        let mut known = Candidates::default();
        // A stranger, end markers of another test, and the sender's own start marker.
        assert_eq!(known.add(source(1), data, "stray"), None);
        assert_eq!(known.add(source(2), marker, "end"), None);
        assert_eq!(known.add(source(2), marker, "end"), None);
        assert_eq!(known.add(source(3), marker, "start"), None);
        assert_eq!(known.add(source(3), data, "first"), Some(vec!["first"]));
        // Without the start marker, and a test of one buffer without it.
        assert_eq!(known.add(source(4), data, "first"), None);
        assert_eq!(known.add(source(4), data, "second"), Some(vec!["first", "second"]));
        assert_eq!(known.add(source(1), marker, "end"), Some(vec!["stray", "end"]));
    }

    #[test]
    fn the_known_sources_are_limited() {
        let mut known = Candidates::default();
        for port in 0..10 * MAX_CANDIDATES as u16 {
            assert_eq!(known.add(SocketAddr::from(([192, 0, 2, 1], port)), false, ()), None);
        }
        assert_eq!(known.0.len(), MAX_CANDIDATES);
    }

    #[test]
    fn the_marker_sent_is_recognized() {
        assert!(is_marker(&MARKER) && is_marker(&[]));
    }
}
