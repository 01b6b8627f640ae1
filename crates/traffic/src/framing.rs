//! Headers in a stream: a session protocol may begin each write with one, so that the receiver finds the writes again.

use weir_flow::StreamPool;
use weir_net::clock::Clock;

/// The header of each write of a stream.
pub trait Framing: Send {
    /// Its length. Each write is at least this long.
    fn header_bytes(&self) -> usize;

    /// Fills in the header of write `number`, from 0, of `length` bytes including the header. Its sending begins at
    /// `realtime_ns` since the Unix epoch.
    fn write(&mut self, number: u64, length: usize, realtime_ns: u64, header: &mut [u8]);

    /// The request that the next header answers has arrived at `realtime_ns` since the Unix epoch.
    fn arrived(&mut self, _realtime_ns: u64) {}
}

/// Makes the writes of a framed stream. A write that was begun is sent to its end, also after the end of the test.
pub(crate) struct Framer {
    framing: Box<dyn Framing>,
    /// The current write, of which the last bytes may still have to be sent.
    current: Vec<u8>,
}

impl Framer {
    pub(crate) fn new(framing: Box<dyn Framing>) -> Self {
        Framer { framing, current: vec![] }
    }

    /// Makes write `number`, of `length` bytes with the content at `position` of the stream.
    pub(crate) fn begin(
        &mut self,
        number: u64,
        length: usize,
        (pool, position): (&StreamPool, u64),
        clock: &Clock,
    ) {
        self.current.clear();
        self.current.extend_from_slice(pool.at(position, length));
        let header = self.framing.header_bytes().min(length);
        self.framing.write(number, length, clock.realtime_ns(), &mut self.current[..header]);
    }

    /// The last `left` bytes of the current write.
    pub(crate) fn rest(&self, left: usize) -> &[u8] {
        &self.current[self.current.len().saturating_sub(left)..]
    }
}
