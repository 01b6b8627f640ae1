//! What a download is made of: frames of seeded bytes that nothing on the way can compress. No sockets.

use weir_model::content::Content;

use super::frame;

/// Bytes that are made once and sent over and over. Far above the window of any compression on a path (32 KiB in TLS's and
/// the web's; a modem's is smaller).
const POOL_BYTES: usize = 4 << 20;
/// Payload of a frame, bytes, least and most.
pub(super) const LEAST_FRAME: usize = 16 << 10;
const MOST_FRAME: usize = 256 << 10;
/// A frame is to take about so long, s: short for a browser's count, which grows by whole frames.
const FRAME_SECONDS: f64 = 0.005;

/// The bytes.
#[derive(Debug)]
pub(super) struct Pool(Vec<u8>);

impl Pool {
    pub(super) fn new(seed: u64) -> Pool {
        let mut bytes = vec![0; POOL_BYTES];
        weir_model::content::fill(Content::Random, seed, 0, &mut bytes);
        Pool(bytes)
    }
}

/// Payload of the next frame of a connection that takes so many bytes a second.
pub(super) fn frame_bytes(bytes_per_second: f64) -> usize {
    let wanted = (bytes_per_second * FRAME_SECONDS).clamp(LEAST_FRAME as f64, MOST_FRAME as f64);
    // Whole powers of two: a frame's place in the pool is a multiple of its length then.
    1 << (wanted as usize).ilog2()
}

/// The frame that one connection is sending.
#[derive(Debug, Default)]
pub(super) struct OutgoingFrame {
    head: [u8; 10],
    head_bytes: usize,
    /// Where the rest of it lies in the pool.
    at: usize,
    left: usize,
}

impl OutgoingFrame {
    /// One that begins at another place than its neighbours.
    pub(super) fn new(number: usize) -> OutgoingFrame {
        OutgoingFrame { at: number % 16 * MOST_FRAME, ..OutgoingFrame::default() }
    }

    /// Whether a frame was begun and not finished.
    pub(super) fn is_within(&self) -> bool {
        self.head_bytes > 0 || self.left > 0
    }

    /// Begins a frame of this payload, at most [`MOST_FRAME`].
    pub(super) fn begin(&mut self, payload: usize) {
        let payload = payload.min(MOST_FRAME);
        if self.at + payload > POOL_BYTES {
            self.at = 0;
        }
        (self.head, self.head_bytes) = frame::head(2, payload);
        self.left = payload;
    }

    /// What is to be written next, in order.
    pub(super) fn pieces<'a>(&'a self, pool: &'a Pool) -> [&'a [u8]; 2] {
        [&self.head[..self.head_bytes], &pool.0[self.at..self.at + self.left]]
    }

    /// So much of it was written; returns how much of that was payload.
    pub(super) fn wrote(&mut self, bytes: usize) -> usize {
        let head = bytes.min(self.head_bytes);
        self.head.copy_within(head..self.head_bytes, 0);
        self.head_bytes -= head;
        let payload = (bytes - head).min(self.left);
        self.at += payload;
        self.left -= payload;
        payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_short_where_the_path_is_slow() {
        assert_eq!(frame_bytes(0.0), LEAST_FRAME);
        assert_eq!(frame_bytes(1e6), LEAST_FRAME);
        assert_eq!(frame_bytes(10e6), 32 << 10);
        assert_eq!(frame_bytes(1e9), MOST_FRAME);
        assert_eq!(frame_bytes(f64::INFINITY), MOST_FRAME);
    }

    #[test]
    fn a_frame_written_in_any_pieces_is_whole() {
        let pool = Pool::new(7);
        let mut feed = OutgoingFrame::new(15);
        let mut stream = vec![];
        let mut payload = 0;
        for length in [LEAST_FRAME, MOST_FRAME, MOST_FRAME] {
            feed.begin(length);
            let mut step = 1;
            while feed.is_within() {
                let bytes: Vec<u8> = feed.pieces(&pool).concat().into_iter().take(step).collect();
                payload += feed.wrote(bytes.len());
                stream.extend(bytes);
                step = step * 3 % 70_001;
            }
        }
        assert_eq!(payload, LEAST_FRAME + 2 * MOST_FRAME);
        assert_eq!(&stream[..4], [0x82, 126, 0x40, 0], "16384 bytes, binary, whole");
        assert_eq!(stream[4..20], pool.0[15 * MOST_FRAME..][..16]);
        let second = 4 + LEAST_FRAME;
        assert_eq!(stream[second..second + 10], [0x82, 127, 0, 0, 0, 0, 0, 4, 0, 0]);
        assert_eq!(stream.len(), 4 + LEAST_FRAME + 2 * (10 + MOST_FRAME));
    }

    #[test]
    fn the_bytes_are_their_seed_s_and_have_no_pattern() {
        let (a, b) = (Pool::new(7), Pool::new(8));
        assert_eq!(a.0, Pool::new(7).0);
        assert_ne!(a.0[..64], b.0[..64]);
        let mut counts = [0u32; 256];
        a.0.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        // 16384 of each are expected; six deviations are 768.
        assert!(counts.iter().all(|n| n.abs_diff(16_384) < 768), "{counts:?}");
    }
}
