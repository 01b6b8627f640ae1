//! Reading the socket that all sources of a port share.

use std::collections::{HashMap, VecDeque};
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
        self.drain(self.socket);
        self.drain(own);
        early.extend(self.take_of(from));
        early.sort_by_key(|(_, arrival)| arrival.at_ns);
        early
    }

    /// The same for a source of a multicast group, whose datagrams arrive on both sockets once its own has joined. Also returns
    /// how many with each number may arrive on its own as a copy of one of these.
    pub(crate) fn begun_in_group(
        &mut self,
        own: &UdpSocket,
        from: SocketAddr,
        first: Read,
        number: impl Fn(&[u8]) -> Option<i64>,
    ) -> (Vec<Read>, Copies) {
        let mut early = vec![first];
        self.drain(self.socket);
        early.extend(self.take_of(from));
        let mut copies = Copies::default();
        for (datagram, _) in &early {
            copies.expect(number(datagram));
        }
        // Other sources do not reach it.
        let others = std::mem::take(&mut self.queue.waiting);
        self.drain(own);
        let own = self.take_of(from);
        self.queue.waiting = others;
        early.extend(own.into_iter().filter(|(datagram, _)| !copies.has(number(datagram))));
        early.sort_by_key(|(_, arrival)| arrival.at_ns);
        (early, copies)
    }

    fn drain(&mut self, socket: &UdpSocket) {
        for _ in 0..DRAINS {
            if read(socket, self.workers, self.queue) {
                break;
            }
        }
    }

    /// What has been read of a source and is not handled.
    fn take_of(&mut self, from: SocketAddr) -> Vec<Read> {
        let waiting = std::mem::take(&mut self.queue.waiting).into_iter();
        let (of, others) = waiting.partition::<Vec<_>, _>(|(source, _)| *source == from);
        self.queue.waiting = others.into();
        of.into_iter().map(|(_, read)| read).collect()
    }
}

/// Numbers of datagrams that have been counted and may arrive again on another socket.
#[derive(Debug, Default)]
pub(crate) struct Copies(HashMap<i64, u32>);

impl Copies {
    fn expect(&mut self, number: Option<i64>) {
        if let Some(number) = number {
            *self.0.entry(number).or_default() += 1;
        }
    }

    /// Whether a datagram is such a copy; one that is, is expected once less.
    pub(crate) fn has(&mut self, number: Option<i64>) -> bool {
        let Some(number) = number.filter(|_| !self.0.is_empty()) else { return false };
        let Some(count) = self.0.get_mut(&number) else { return false };
        *count -= 1;
        if *count == 0 {
            self.0.remove(&number);
        }
        true
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_one_as_often_as_it_was_counted() {
        let mut copies = Copies::default();
        for number in [Some(1), Some(2), Some(2), None] {
            copies.expect(number);
        }
        let seen = [Some(2), Some(3), Some(2), Some(2), None, Some(1), Some(1)];
        let are = seen.map(|number| copies.has(number));
        assert_eq!(are, [true, false, true, false, false, true, false]);
    }
}
