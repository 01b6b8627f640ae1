//! Batches in form only: a call per datagram.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use super::ethernet::EthernetSocket;
use super::udp::UdpSocket;
use crate::udp::{ICMP_HEADER_BYTES, RecvMessage, RecvMode, SendMode, Sent};

/// Room for a batch of messages to send.
#[derive(Debug)]
pub struct SendBatch {
    capacity: usize,
}

impl SendBatch {
    /// Room for `messages` messages, at most 1024.
    pub fn new(messages: usize) -> Self {
        SendBatch { capacity: messages.clamp(1, 1024) }
    }

    /// Starts a new batch.
    pub fn fill<'b>(&mut self) -> Filling<'_, 'b> {
        Filling { batch: self, messages: Vec::new(), sent: 0 }
    }
}

type Message<'b> = (&'b [u8], Option<u16>, Option<SocketAddr>);

/// A batch being filled and sent.
#[derive(Debug)]
pub struct Filling<'a, 'b> {
    batch: &'a mut SendBatch,
    messages: Vec<Message<'b>>,
    sent: usize,
}

impl<'b> Filling<'_, 'b> {
    /// Adds a message.
    pub fn push(
        &mut self,
        buffer: &'b [u8],
        segment_size: Option<u16>,
        to: Option<SocketAddr>,
    ) -> io::Result<()> {
        if self.is_full() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if segment_size == Some(0) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.messages.push((buffer, segment_size, to));
        Ok(())
    }

    /// Messages pushed and not yet accepted by the system.
    pub fn remaining(&self) -> usize {
        self.messages.len() - self.sent
    }

    /// Whether no more fits.
    pub fn is_full(&self) -> bool {
        self.messages.len() == self.batch.capacity
    }

    /// Sends until one is not accepted; an error means that the first was not.
    pub fn send(&mut self, socket: &UdpSocket, _mode: SendMode) -> io::Result<Sent> {
        let mut messages = 0;
        for (buffer, segment_size, to) in &self.messages[self.sent..] {
            match socket.send_segmented(buffer, *segment_size, *to) {
                Ok(_) => messages += 1,
                Err(e) if messages == 0 => return Err(e),
                Err(_) => break,
            }
        }
        self.sent += messages;
        Ok(Sent { messages })
    }
}

impl Filling<'_, '_> {
    /// Not available.
    pub fn send_frames(&mut self, _: &EthernetSocket) -> io::Result<Sent> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not available.
    pub fn send_headed(
        &mut self,
        _: &UdpSocket,
        _: usize,
        _: impl Fn(&[u8]) -> [u8; ICMP_HEADER_BYTES],
    ) -> io::Result<Sent> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Room for received messages: one at a time here.
#[derive(Debug)]
pub struct RecvBatch {
    buffer: Vec<u8>,
    capacity: usize,
    received: Option<(usize, SocketAddr)>,
}

impl RecvBatch {
    /// Room for `messages` of `bytes_each` bytes.
    pub fn new(messages: usize, bytes_each: usize) -> Self {
        RecvBatch {
            buffer: vec![0; bytes_each.max(1)],
            capacity: messages.clamp(1, 1024),
            received: None,
        }
    }

    /// How many messages fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Receives one message. `DontWait` needs a non-blocking socket here.
    pub fn recv(&mut self, socket: &UdpSocket, _mode: RecvMode) -> io::Result<usize> {
        self.received = None;
        self.received = Some(socket.recv_from(&mut self.buffer)?);
        Ok(1)
    }

    /// Not available.
    pub fn recv_frames(&mut self, _: &EthernetSocket) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not available.
    pub fn recv_headed(&mut self, _: &UdpSocket, _: usize) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The messages of the last receive.
    pub fn messages(&self) -> RecvMessages<'_> {
        RecvMessages { batch: self, left: usize::from(self.received.is_some()) }
    }
}

/// The messages of one receive.
#[derive(Clone, Debug)]
pub struct RecvMessages<'a> {
    batch: &'a RecvBatch,
    left: usize,
}

impl<'a> Iterator for RecvMessages<'a> {
    type Item = RecvMessage<'a>;

    fn next(&mut self) -> Option<RecvMessage<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (len, from) =
            self.batch.received.unwrap_or((0, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)));
        Some(RecvMessage {
            data: &self.batch.buffer[..len],
            from,
            segment_size: None,
            kernel_realtime_ns: None,
            hardware_ns: None,
            overflow_total: None,
            tos: None,
            ttl: None,
            truncated: false,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for RecvMessages<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::UdpOptions;

    #[test]
    fn a_batch_arrives_and_has_no_measurement_that_this_system_lacks() {
        let open = |options: UdpOptions| UdpSocket::open(&options).unwrap();
        let receiver = open(UdpOptions {
            gro: true,
            timestamps: true,
            rxq_overflow: true,
            ..UdpOptions::bind("127.0.0.1:0".parse().unwrap())
        });
        let sender = open(UdpOptions::connect(receiver.local_addr().unwrap()));
        let mut batch = SendBatch::new(3);
        let mut filling = batch.fill();
        filling.push(b"one", None, None).unwrap();
        filling.push(b"twothree", Some(4), None).unwrap();
        filling.push(b"four", Some(4), None).unwrap();
        assert!(filling.push(b"five", None, None).is_err());
        assert_eq!(filling.send(&sender, SendMode::AsSocket).unwrap(), Sent { messages: 1 });
        // It would have to be segmented.
        assert_eq!(
            filling.send(&sender, SendMode::AsSocket).unwrap_err().kind(),
            io::ErrorKind::Unsupported
        );
        assert_eq!(filling.remaining(), 2);
        let mut received = RecvBatch::new(4, 100);
        assert_eq!(received.recv(&receiver, RecvMode::WaitForOne).unwrap(), 1);
        let message = received.messages().next().unwrap();
        assert_eq!((message.data, message.from), (&b"one"[..], sender.local_addr().unwrap()));
        assert_eq!((message.kernel_realtime_ns, message.overflow_total), (None, None));
        let paced = UdpOptions {
            pacing_bytes_per_second: Some(1),
            ..UdpOptions::bind("127.0.0.1:0".parse().unwrap())
        };
        assert!(matches!(UdpSocket::open(&paced), Err(crate::Error::Unsupported { .. })));
    }
}
