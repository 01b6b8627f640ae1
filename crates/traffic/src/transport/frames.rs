//! Frames of a capture, sent on an interface.

use std::io;

use weir_net::interface::Interface;
use weir_net::udp::{Filling, RecvBatch, SendMode, Sent, UdpSocket};

use super::DatagramSocket;
use crate::TrafficError;

/// Send buffer requested.
const SEND_BUFFER: usize = 4 << 20;

/// A packet socket that sends datagrams as whole frames.
#[derive(Debug)]
pub(crate) struct ReplaySocket {
    socket: UdpSocket,
    interface: String,
}

impl ReplaySocket {
    /// Opens a socket on an interface.
    ///
    /// # Errors
    /// [`TrafficError::Net`].
    pub(crate) fn open(interface: &Interface) -> Result<ReplaySocket, TrafficError> {
        let socket = weir_net::frame::open_sender(interface, SEND_BUFFER)?;
        Ok(ReplaySocket { socket, interface: interface.name.clone() })
    }
}

weir_net::as_socket!(ReplaySocket, socket);

impl DatagramSocket for ReplaySocket {
    fn send_batch(&self, batch: &mut Filling<'_, '_>) -> io::Result<Sent> {
        batch.send(&self.socket, SendMode::DontWait)
    }

    fn recv_batch(&self, _: &mut RecvBatch) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn send_control(&self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn max_segments(&self) -> usize {
        1
    }

    fn overflow(&self) -> Option<u32> {
        None
    }

    /// The interface; who receives its frames is not known.
    fn addresses(&self) -> [String; 2] {
        [self.interface.clone(), String::new()]
    }

    fn buffer_bytes(&self, send: bool) -> Option<u64> {
        self.socket.buffer_bytes(send)
    }
}
