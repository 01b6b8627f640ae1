//! The content of a download: frames of seeded bytes that can't be compressed. No sockets.

use weir_model::content::Content;

use super::frame;

/// Bytes that are generated once and sent repeatedly. Far above the window of any compression on a path (32 KiB in
/// TLS and HTTP; a modem's is smaller).
const POOL_BYTES: usize = 4 << 20;
/// Payload of a frame, bytes, minimum and maximum.
pub(super) const MIN_FRAME: usize = 16 << 10;
const MAX_FRAME: usize = 256 << 10;
/// Target duration of a frame, s: short, since a browser counts whole frames.
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

/// Payload of the next frame of a connection with this rate, bytes/s.
pub(super) fn frame_bytes(bytes_per_second: f64) -> usize {
    let wanted = (bytes_per_second * FRAME_SECONDS).clamp(MIN_FRAME as f64, MAX_FRAME as f64);
    // Powers of two: a frame's offset in the pool is then a multiple of its length.
    1 << (wanted as usize).ilog2()
}

/// The frame that a connection is sending.
#[derive(Debug, Default)]
pub(super) struct OutgoingFrame {
    head: [u8; 10],
    head_bytes: usize,
    /// Offset of the rest in the pool.
    at: usize,
    left: usize,
}

impl OutgoingFrame {
    /// A frame sequence that starts at another offset than its neighbours.
    pub(super) fn new(number: usize) -> OutgoingFrame {
        OutgoingFrame { at: number % 16 * MAX_FRAME, ..OutgoingFrame::default() }
    }

    /// Whether a frame is incomplete.
    pub(super) fn is_within(&self) -> bool {
        self.head_bytes > 0 || self.left > 0
    }

    /// Starts a frame of this payload, at most [`MAX_FRAME`].
    pub(super) fn begin(&mut self, payload: usize) {
        let payload = payload.min(MAX_FRAME);
        if self.at + payload > POOL_BYTES {
            self.at = 0;
        }
        (self.head, self.head_bytes) = frame::head(2, payload);
        self.left = payload;
    }

    /// The next bytes to write, in order.
    pub(super) fn pieces<'a>(&'a self, pool: &'a Pool) -> [&'a [u8]; 2] {
        [&self.head[..self.head_bytes], &pool.0[self.at..self.at + self.left]]
    }

    /// Counts written bytes; returns how many of them were payload.
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
        assert_eq!(frame_bytes(0.0), MIN_FRAME);
        assert_eq!(frame_bytes(1e6), MIN_FRAME);
        assert_eq!(frame_bytes(10e6), 32 << 10);
        assert_eq!(frame_bytes(1e9), MAX_FRAME);
        assert_eq!(frame_bytes(f64::INFINITY), MAX_FRAME);
    }

    #[test]
    fn a_frame_written_in_any_pieces_is_whole() {
        let pool = Pool::new(7);
        let mut feed = OutgoingFrame::new(15);
        let mut stream = vec![];
        let mut payload = 0;
        for length in [MIN_FRAME, MAX_FRAME, MAX_FRAME] {
            feed.begin(length);
            let mut step = 1;
            while feed.is_within() {
                let bytes: Vec<u8> = feed.pieces(&pool).concat().into_iter().take(step).collect();
                payload += feed.wrote(bytes.len());
                stream.extend(bytes);
                step = step * 3 % 70_001;
            }
        }
        assert_eq!(payload, MIN_FRAME + 2 * MAX_FRAME);
        assert_eq!(&stream[..4], [0x82, 126, 0x40, 0], "16384 bytes, binary, whole");
        assert_eq!(stream[4..20], pool.0[15 * MAX_FRAME..][..16]);
        let second = 4 + MIN_FRAME;
        assert_eq!(stream[second..second + 10], [0x82, 127, 0, 0, 0, 0, 0, 4, 0, 0]);
        assert_eq!(stream.len(), 4 + MIN_FRAME + 2 * (10 + MAX_FRAME));
    }

    #[test]
    fn the_bytes_are_their_seed_s_and_have_no_pattern() {
        let (a, b) = (Pool::new(7), Pool::new(8));
        assert_eq!(a.0, Pool::new(7).0);
        assert_ne!(a.0[..64], b.0[..64]);
        let mut counts = [0u32; 256];
        a.0.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        // 16384 of each are expected; six standard deviations are 768.
        assert!(counts.iter().all(|n| n.abs_diff(16_384) < 768), "{counts:?}");
    }
}
