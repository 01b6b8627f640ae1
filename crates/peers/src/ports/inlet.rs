//! Reading the socket that all sources of a port share.

use std::collections::VecDeque;
use std::net::SocketAddr;

use weir_net::udp::{RecvBatch, RecvMode, UdpSocket};
use weir_traffic::session::{Arrival, Workers};

/// Messages per receive call.
const MESSAGES: usize = 16;
/// Receive calls that empty a socket when a session begins, so that its datagrams are counted in the order of their arrival.
const DRAINS: usize = 64;
/// Maximum number of datagrams that these calls store.
const MAX_WAITING: usize = 1024;

/// A read datagram, and when it arrived.
pub(crate) type Read = (Vec<u8>, Arrival);

/// Datagrams that have been read and not handled; with the memory for reading.
pub(super) struct Queue {
    batch: RecvBatch,
    waiting: VecDeque<(SocketAddr, Read)>,
}

impl Queue {
    pub(super) fn new() -> Self {
        Queue { batch: RecvBatch::new(MESSAGES, 1 << 16), waiting: VecDeque::new() }
    }

    pub(super) fn next(&mut self) -> Option<(SocketAddr, Read)> {
        self.waiting.pop_front()
    }
}

/// The socket of a port, on which datagrams without a session arrive.
pub(crate) struct Inlet<'a> {
    /// The address to which it is bound.
    pub(crate) at: SocketAddr,
    pub(super) socket: &'a UdpSocket,
    pub(super) workers: &'a Workers,
    pub(super) queue: &'a mut Queue,
}

impl Inlet<'_> {
    /// Reads the socket of the port once; returns whether there is no more.
    pub(super) fn read(&mut self) -> bool {
        read(self.socket, self.workers, self.queue)
    }

    /// The datagrams so far of a source that begins a session with the datagrams `early`, in the order of their arrival. From now on
    /// they arrive on its own socket, on which those of any source may have arrived before.
    pub(crate) fn begun(
        &mut self,
        own: &UdpSocket,
        from: SocketAddr,
        mut early: Vec<Read>,
    ) -> Vec<Read> {
        for socket in [self.socket, own] {
            for _ in 0..DRAINS {
                if read(socket, self.workers, self.queue) {
                    break;
                }
            }
        }
        for (source, datagram) in std::mem::take(&mut self.queue.waiting) {
            match source == from {
                true => early.push(datagram),
                false => self.queue.waiting.push_back((source, datagram)),
            }
        }
        early.sort_by_key(|(_, arrival)| arrival.at_ns);
        early
    }
}

/// Reads a socket once; returns whether there is no more.
fn read(socket: &UdpSocket, workers: &Workers, queue: &mut Queue) -> bool {
    // Reading a pending ICMP error clears it.
    let Ok(got) = queue.batch.recv(socket, RecvMode::DontWait) else { return true };
    let mut seen = vec![];
    for message in queue.batch.messages() {
        let is_first = !seen.contains(&message.from);
        if is_first {
            seen.push(message.from);
        }
        let arrival = workers.arrival(message.kernel_realtime_ns, is_first);
        if queue.waiting.len() < MAX_WAITING {
            queue.waiting.push_back((message.from, (message.data.to_vec(), arrival)));
        }
    }
    got < queue.batch.capacity()
}
